/* SPDX-License-Identifier: MIT */
#include "compress/stack_cut.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compress/extent_stats.h"
#include "perfdata/attr.h"
#include "perfdata/record.h"
#include "perfdata/sample.h"

struct stack_cutter {
	const struct extent_stats *stats;
	size_t nr_events, nr_cpus;
	_Atomic uint64_t *counts;       /* heap; by event, and for each by CPU, -1 first */
	struct perf_event_attr attrs[]; /* by event */
};

int stack_cutter_new(const struct event_desc *events, size_t nr_events, const struct extent_stats *stats,
		     struct stack_cutter **ret)
{
	bool any = false;

	for (size_t i = 0; i < nr_events; i++)
		any |= events[i].attr.sample_type & PERF_SAMPLE_STACK_USER;
	*ret = NULL;
	if (!any)
		return 0;
	struct stack_cutter *cutter = calloc(1, sizeof(*cutter) + nr_events * sizeof(cutter->attrs[0]));
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
		cutter->attrs[i] = events[i].attr;
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

/*
 * Of the dump in a record of `end` bytes: u64 size, the bytes at `at`, u64 dyn_size. Without any bytes there is no
 * dyn_size either. Returns by how much what follows moved.
 */
static size_t shorten(uint8_t *record, size_t end, size_t at, uint64_t size, uint64_t used)
{
	uint64_t room = (used + 7) / 8 * 8;
	size_t behind = at + size + sizeof(used), new_behind = at + (room ? room + sizeof(used) : 0);

	memcpy(record + at - sizeof(size), &room, sizeof(room));
	if (room) {
		memset(record + at + used, 0, room - used);
		memcpy(record + at + room, &used, sizeof(used));
	}
	memmove(record + new_behind, record + behind, end - behind);
	return behind - new_behind;
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
	uint64_t size;

	if (header->type != PERF_RECORD_SAMPLE)
		return 0;
	size_t event = measure_event_of(cutter->stats, record);
	const struct perf_event_attr *attr = &cutter->attrs[event];
	if (!(attr->sample_type & PERF_SAMPLE_STACK_USER) || sample_decode(attr, header, &sample) ||
	    !sample.user_stack.ptr)
		return 0;
	size_t at = (size_t)((const uint8_t *)sample.user_stack.ptr - record);
	memcpy(&size, record + at - sizeof(size), sizeof(size));
	uint64_t keep = sample.user_stack.len < most ? sample.user_stack.len : most;
	if (size - keep < sizeof(uint64_t))
		return 0;
	if (keep < sample.user_stack.len)
		count_short(cutter, event, &sample);
	size_t less = shorten(record, header->size, at, size, keep);
	header->size = (uint16_t)(header->size - less);
	return less;
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
