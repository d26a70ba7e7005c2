/* SPDX-License-Identifier: MIT */
#include "compress/stack_cut.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/span.h"
#include "compress/extent_stats.h"
#include "perfdata/attr.h"
#include "perfdata/record.h"
#include "perfdata/sample.h"

struct dumping_event {
	struct perf_event_attr attr;
	/* What comes before the dump of a sample; words_bytes 0: it takes sample_decode() to know. */
	size_t words_bytes, regs_bytes;
	bool chain;
};

struct stack_cutter {
	const struct extent_stats *stats;
	size_t nr_events, nr_cpus;
	_Atomic uint64_t *counts; /* heap; by event, and for each by CPU, -1 first */
	struct dumping_event events[];
};

/* The order of a sample's fields: perf_event_open(2), PERF_RECORD_SAMPLE. */
static struct dumping_event describe(const struct perf_event_attr *attr)
{
	static const uint64_t of_any_length = PERF_SAMPLE_READ | PERF_SAMPLE_RAW | PERF_SAMPLE_BRANCH_STACK;
	struct dumping_event event = {.attr = *attr};

	if (!(attr->sample_type & PERF_SAMPLE_STACK_USER) || attr->sample_type & of_any_length)
		return event;
	event.words_bytes = sample_shape(attr).words_bytes;
	event.chain = attr->sample_type & PERF_SAMPLE_CALLCHAIN;
	if (attr->sample_type & PERF_SAMPLE_REGS_USER)
		event.regs_bytes = (size_t)__builtin_popcountll(attr->sample_regs_user) * sizeof(uint64_t);
	return event;
}

int stack_cutter_new(const struct event_desc *events, size_t nr_events, const struct extent_stats *stats,
		     struct stack_cutter **ret)
{
	bool any = false;

	for (size_t i = 0; i < nr_events; i++)
		any |= events[i].attr.sample_type & PERF_SAMPLE_STACK_USER;
	*ret = NULL;
	if (!any)
		return 0;
	struct stack_cutter *cutter = calloc(1, sizeof(*cutter) + nr_events * sizeof(cutter->events[0]));
	if (!cutter)
		return -ENOMEM;
	cutter->stats = stats;
	cutter->nr_events = nr_events;
	cutter->nr_cpus = (size_t)sysconf(_SC_NPROCESSORS_CONF);
	cutter->counts = calloc(nr_events * (cutter->nr_cpus + 1), sizeof(*cutter->counts));
	if (!cutter->counts) {
		free(cutter);
		return -ENOMEM;
	}
	for (size_t i = 0; i < nr_events; i++)
		cutter->events[i] = describe(&events[i].attr);
	*ret = cutter;
	return 0;
}

void stack_cutter_free(struct stack_cutter *cutter)
{
	if (!cutter)
		return;
	free(cutter->counts);
	free(cutter);
}

/* The dump in a record: u64 size, the bytes at `at`, u64 used (dyn_size). Without any bytes there is no `used`. */
struct dump {
	size_t at;
	uint64_t size, used;
};

/* Copies the record to `to`, which may be where it is, with so much of its dump. Returns the bytes of the copy. */
static size_t copy_with(const uint8_t *record, const struct dump *dump, uint64_t keep, uint8_t *to)
{
	struct perf_event_header header;
	uint64_t room = (keep + 7) / 8 * 8;
	size_t behind = dump->at + dump->size + sizeof(keep), new_behind = dump->at + (room ? room + sizeof(keep) : 0);

	memcpy(&header, record, sizeof(header));
	const size_t left = header.size - behind;
	header.size = (uint16_t)(new_behind + left);
	memmove(to, record, dump->at + keep);
	memcpy(to, &header, sizeof(header));
	memcpy(to + dump->at - sizeof(room), &room, sizeof(room));
	memmove(to + new_behind, record + behind, left);
	if (room) {
		memset(to + dump->at + keep, 0, room - keep);
		memcpy(to + dump->at + room, &keep, sizeof(keep));
	}
	return header.size;
}

size_t stack_cut_sample(const uint8_t *record, struct span stack, uint64_t keep, uint8_t *to)
{
	struct dump dump = {.at = (size_t)((const uint8_t *)stack.ptr - record), .used = stack.len};

	memcpy(&dump.size, record + dump.at - sizeof(dump.size), sizeof(dump.size));
	return copy_with(record, &dump, keep, to);
}

static void count_short(struct stack_cutter *cutter, size_t event, const struct sample *sample)
{
	bool known = sample->present & PERF_SAMPLE_CPU && sample->cpu < cutter->nr_cpus;
	size_t place = known ? sample->cpu + 1 : 0;

	atomic_fetch_add_explicit(&cutter->counts[event * (cutter->nr_cpus + 1) + place], 1, memory_order_relaxed);
}

size_t stack_cut(struct stack_cutter *cutter, uint8_t *record, uint64_t most)
{
	struct perf_event_header *header = (struct perf_event_header *)record;
	struct sample sample;

	if (header->type != PERF_RECORD_SAMPLE)
		return 0;
	size_t event = extent_stats_event_of(cutter->stats, record);
	const struct perf_event_attr *attr = &cutter->events[event].attr;
	if (!(attr->sample_type & PERF_SAMPLE_STACK_USER) || sample_decode(attr, header, &sample) ||
	    !sample.user_stack.ptr)
		return 0;
	struct dump dump = {.at = (size_t)((const uint8_t *)sample.user_stack.ptr - record),
			    .used = sample.user_stack.len};
	memcpy(&dump.size, record + dump.at - sizeof(dump.size), sizeof(dump.size));
	uint64_t keep = dump.used < most ? dump.used : most;
	if (dump.size - keep < sizeof(uint64_t))
		return 0;
	if (keep < dump.used)
		count_short(cutter, event, &sample);
	const size_t before = header->size;
	return before - copy_with(record, &dump, keep, record);
}

/* Decodes only what is needed to find the dump. false: there is none, or only sample_decode() can find it. */
static bool find_dump(const struct dumping_event *event, const uint8_t *record, size_t bytes, struct dump *ret)
{
	struct cursor at = cursor_over((struct span){record, bytes});

	cursor_take(&at, event->words_bytes);
	if (event->chain) {
		uint64_t nr = cursor_u64(&at);
		cursor_take(&at, (nr < bytes ? nr : bytes) * sizeof(nr)); /* else the product may overflow */
	}
	if (event->attr.sample_type & PERF_SAMPLE_REGS_USER && cursor_u64(&at) != PERF_SAMPLE_REGS_ABI_NONE)
		cursor_take(&at, event->regs_bytes);
	ret->size = cursor_u64(&at);
	ret->at = (size_t)(at.at - record);
	cursor_take(&at, ret->size);
	uint64_t used = cursor_u64(&at);
	ret->used = used < ret->size ? used : ret->size;
	return event->words_bytes && !at.bad && ret->size % 8 == 0;
}

size_t stack_cut_copy(struct stack_cutter *cutter, const uint8_t *record, uint64_t most, uint8_t *to)
{
	struct perf_event_header header;
	struct dump dump;

	memcpy(&header, record, sizeof(header));
	if (header.type == PERF_RECORD_SAMPLE &&
	    find_dump(&cutter->events[extent_stats_event_of(cutter->stats, record)], record, header.size, &dump) &&
	    dump.used <= most) {
		if (dump.size - dump.used >= sizeof(uint64_t))
			return copy_with(record, &dump, dump.used, to);
		memcpy(to, record, header.size); /* all of it is stack */
		return header.size;
	}
	memcpy(to, record, header.size);
	return header.size - stack_cut(cutter, to, most);
}

bool stack_cut_count(const struct stack_cutter *cutter, size_t index, struct stack_cut_count *ret)
{
	size_t row = cutter->nr_cpus + 1;

	if (index >= cutter->nr_events * row)
		return false;
	*ret = (struct stack_cut_count){
		.event = (uint32_t)(index / row),
		.cpu = (int32_t)(index % row) - 1,
		.count = atomic_load_explicit(&cutter->counts[index], memory_order_relaxed),
	};
	return true;
}
