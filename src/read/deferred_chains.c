/* SPDX-License-Identifier: MIT */
#include "read/deferred_chains.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/span.h"

/* Newer than the header that this is built with: Linux 6.19, include/uapi/linux/perf_event.h. */
enum { DEFER_CALLCHAIN_BIT = 38 };
static const uint64_t context_user_deferred = (uint64_t)-640;

enum { MOST_BYTES = 64 << 20 };

struct kept_sample {
	struct kept_sample *before, *after;      /* of all */
	struct kept_sample *next_of_task, *last; /* last: of its task, valid in the first one */
	uint32_t tid;
	uint64_t cookie;
	struct record_view view; /* the header is in `words` */
	size_t event;            /* index */
	size_t record_words;
	uint64_t words[]; /* the record */
};

bool deferred_chains_has(const struct perf_event_attr *attr)
{
	uint64_t bits;

	/* The bits of the attr are one word, behind read_format. */
	memcpy(&bits, (const uint8_t *)attr + offsetof(struct perf_event_attr, read_format) + sizeof(uint64_t),
	       sizeof(bits));
	return bits >> DEFER_CALLCHAIN_BIT & 1;
}

void deferred_chains_fini(struct deferred_chains *chains)
{
	for (struct kept_sample *kept = chains->first, *after; kept; kept = after) {
		after = kept->after;
		free(kept);
	}
	free(chains->given);
	free(chains->ips);
	hash_table_fini(&chains->tasks);
	*chains = (struct deferred_chains){0};
}

static size_t bytes_of(const struct kept_sample *kept)
{
	return sizeof(*kept) + kept->record_words * sizeof(uint64_t);
}

static uint64_t task_key(uint32_t tid)
{
	return (uint64_t)tid + 1; /* 0 is a key like any other, but looks like none */
}

static int add(struct deferred_chains *chains, struct kept_sample *kept)
{
	struct hash_slot *slot = hash_table_find(&chains->tasks, task_key(kept->tid));

	if (!slot && hash_table_add(&chains->tasks, task_key(kept->tid), kept))
		return -ENOMEM;
	struct kept_sample *first = slot ? slot->item : kept;
	if (slot)
		first->last->next_of_task = kept;
	first->last = kept;
	kept->before = chains->last;
	*(chains->last ? &chains->last->after : &chains->first) = kept;
	chains->last = kept;
	chains->bytes += bytes_of(kept);
	return 1;
}

/* The oldest sample of a task. */
static void take_out(struct deferred_chains *chains, struct kept_sample *kept)
{
	struct hash_slot *slot = hash_table_find(&chains->tasks, task_key(kept->tid));

	if (kept->next_of_task) {
		kept->next_of_task->last = kept->last;
		slot->item = kept->next_of_task;
	} else {
		hash_table_remove(&chains->tasks, slot);
	}
	*(kept->before ? &kept->before->after : &chains->first) = kept->after;
	*(kept->after ? &kept->after->before : &chains->last) = kept->before;
	chains->bytes -= bytes_of(kept);
}

static bool is_incomplete(const struct sample *sample)
{
	return sample->nr_ips >= 2 && sample->ips[sample->nr_ips - 2] == context_user_deferred;
}

static int keep(struct deferred_chains *chains, const struct session_record *record)
{
	const struct perf_event_header *header = record->view.header;
	size_t nr_events, words = (header->size + sizeof(uint64_t) - 1) / sizeof(uint64_t);
	struct kept_sample *kept = calloc(1, sizeof(*kept) + words * sizeof(uint64_t));

	if (!kept)
		return -ENOMEM;
	memcpy(kept->words, header, header->size);
	kept->record_words = words;
	kept->tid = record->sample.tid;
	kept->cookie = record->sample.ips[record->sample.nr_ips - 1];
	kept->event = (size_t)(record->event - session_events(chains->session, &nr_events));
	kept->view = record->view;
	kept->view.header = (const struct perf_event_header *)kept->words;
	int err = add(chains, kept);
	if (err < 0)
		free(kept);
	return err;
}

/* The thread goes on as another program, or not at all: what comes of its stack is not what its samples had. */
static bool ends_program(const struct perf_event_header *header, uint32_t *ret_tid)
{
	bool is_exec = header->type == PERF_RECORD_COMM && header->misc & PERF_RECORD_MISC_COMM_EXEC;
	struct cursor at = cursor_over((struct span){header + 1, header->size - sizeof(*header)});

	if (!is_exec && header->type != PERF_RECORD_EXIT)
		return false;
	cursor_u32(&at); /* pid */
	if (!is_exec)
		cursor_u32(&at); /* of the parent */
	*ret_tid = cursor_u32(&at);
	return !at.bad;
}

int deferred_chains_take(struct deferred_chains *chains, const struct session_record *record)
{
	const struct perf_event_header *header = record->view.header;
	uint32_t tid;

	if (header->type == PERF_RECORD_SAMPLE)
		return record->event && is_incomplete(&record->sample) ? keep(chains, record) : 0;
	if (ends_program(header, &tid)) {
		chains->chain.nr_ips = 0;
		chains->ready = hash_table_find_item(&chains->tasks, task_key(tid));
		return chains->ready ? 2 : 0;
	}
	if (header->type != RECORD_CALLCHAIN_DEFERRED)
		return 0;
	struct cursor at = cursor_over((struct span){header + 1, header->size - sizeof(*header)});
	chains->cookie = cursor_u64(&at);
	chains->chain.nr_ips = cursor_u64(&at);
	if (at.bad || chains->chain.nr_ips > cursor_left(&at) / sizeof(uint64_t))
		return 0;
	chains->chain.ips = cursor_take(&at, chains->chain.nr_ips * sizeof(uint64_t));
	chains->ready = hash_table_find_item(&chains->tasks, task_key(record->sample.tid));
	return 1;
}

void deferred_chains_end(struct deferred_chains *chains)
{
	chains->ended = true;
}

/* The whole chain of a sample: `nr` of its own, then those that came. 0 or -ENOMEM. */
static int join(struct deferred_chains *chains, struct sample *sample, uint64_t nr)
{
	size_t whole = nr + chains->chain.nr_ips;

	if (whole > chains->room) {
		uint64_t *ips = reallocarray(chains->ips, whole, sizeof(*ips));
		if (!ips)
			return -ENOMEM;
		chains->ips = ips;
		chains->room = whole;
	}
	memcpy(chains->ips, sample->ips, nr * sizeof(*chains->ips));
	memcpy(chains->ips + nr, chains->chain.ips, chains->chain.nr_ips * sizeof(*chains->ips));
	sample->ips = chains->ips;
	sample->nr_ips = whole;
	return 0;
}

/* The marker and the cookie go; where the chain of the sample has come it is in their place. */
static const struct session_record *complete(struct deferred_chains *chains, struct kept_sample *kept, bool has_chain)
{
	size_t nr_events;
	const struct event_desc *events = session_events(chains->session, &nr_events);
	struct sample *sample = &chains->record.sample;

	take_out(chains, kept);
	free(chains->given);
	chains->given = kept;
	chains->record.view = kept->view;
	chains->record.event = &events[kept->event];
	if (sample_decode(&chains->record.event->attr, kept->view.header, sample) || !is_incomplete(sample))
		return NULL; /* the event has become another one since */
	uint64_t nr = sample->nr_ips - 2;
	bool whole = has_chain && chains->chain.nr_ips && !join(chains, sample, nr);
	if (!whole)
		sample->nr_ips = nr;
	chains->nr_incomplete += !whole;
	return &chains->record;
}

const struct session_record *deferred_chains_next(struct deferred_chains *chains)
{
	const struct session_record *record = NULL;

	while (!record) {
		struct kept_sample *kept = chains->ready;
		if (kept) {
			chains->ready = kept->next_of_task;
			record = complete(chains, kept, kept->cookie == chains->cookie);
		} else if (chains->first && (chains->ended || chains->bytes > MOST_BYTES)) {
			record = complete(chains, chains->first, false);
		} else {
			return NULL;
		}
	}
	return record;
}
