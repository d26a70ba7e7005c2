/* SPDX-License-Identifier: MIT */
#include "record/unwind/ring_unwinders.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "perfdata/attr.h"
#include "record/order/ring_events.h"
#include "record/unwind/drained_state.h"
#include "record/unwind/mapped_objects.h"
#include "record/unwind/row_makers.h"
#include "record/unwind/stack_unwinder.h"
#include "record/unwind/task_state.h"
#include "record/unwind/unwound.h"
#include "stream/ring.h"
#include "stream/stream.h"
#include "unwind/unwind.h"

enum {
	MOST_UNREAD = 16,     /* processes with records that are still in rings; */
	MOST_LOOKED_AT = 128, /* records that are looked at to find those */
	MANY_FAILED = 8,      /* samples; */
	MANY_WITHOUT_ROWS = 4,
	MOST_SKIPPED = 16, /* visits */
	/* To copy a stack of that size takes as long as to unwind 20 frames of it, which reads fewer cache lines. */
	COPY_IS_SLOW_BYTES = 8 << 10,
};

struct ring_unwinder {
	struct ring_converter converter;
	struct ring_unwinders *all;
	struct stack_unwinder unwinder;

	/* From begin() to end(): */
	uint32_t unread[MOST_UNREAD];
	size_t nr_unread;
	size_t nr_converted, nr_failed, nr_without_rows; /* samples */

	/* Of the last sample: an id has one event. NULL: there was none. */
	const struct unwinding_event *last_event;
	uint64_t last_id;

	/* Most samples could not be converted: visits to skip, but for a new chance; how many were the last time */
	unsigned visits_to_skip, visits_skipped;
	uint64_t skipped_at; /* nr_chances then */
};

struct ring_unwinders {
	struct record_observer observer;
	struct unwinding_rings rings;
	const struct ring_events *events;
	const struct unwinding_event *by_event;
	struct drained_state *state;
	struct row_makers *makers;
	/* Records about losses of task events: that came, of which the state's owner knows. */
	_Atomic uint64_t nr_losses, nr_noted;
	size_t nr;
	struct ring_unwinder each[];
};

static void see(struct record_observer *observer, const uint8_t *record)
{
	struct ring_unwinders *all = (struct ring_unwinders *)observer;
	const struct perf_event_header *header = (const struct perf_event_header *)record;

	if (header->type != PERF_RECORD_LOST)
		drained_state_see(all->state, record);
	else if (unwinding_lacks_task_events(all->events, all->by_event, record))
		/* Who sees that the ring's room was released sees this: ring_release(), is_known_in(). */
		atomic_fetch_add_explicit(&all->nr_losses, 1, memory_order_relaxed);
}

/* A process is not unwound until end(). false: there are too many. */
static bool note_unread(struct ring_unwinder *unwinder, uint32_t pid)
{
	for (size_t i = 0; i < unwinder->nr_unread; i++)
		if (unwinder->unread[i] == pid)
			return true;
	if (unwinder->nr_unread == MOST_UNREAD)
		return false;
	unwinder->unread[unwinder->nr_unread++] = pid;
	return true;
}

/* What is in a ring that another thread may be draining. false: too much, or records about losses, or no records. */
static bool look_at_unread(struct ring_unwinder *unwinder, const struct ring *ring, uint64_t from, uint64_t to)
{
	for (unsigned nr = 0; from != to; nr++) {
		const uint8_t *at = ring->data + (from & (ring->bytes - 1)); /* 8-aligned: a header does not wrap, */
		struct perf_event_header header;
		uint32_t words[2]; /* nor do these */
		memcpy(&header, at, sizeof(header));
		memcpy(words, ring->data + ((from + sizeof(header)) & (ring->bytes - 1)), sizeof(words));
		if (nr == MOST_LOOKED_AT || header.type == PERF_RECORD_LOST || header.size < sizeof(header) ||
		    header.size % 8 || header.size > to - from)
			return false;
		uint32_t pid = task_state_changed_process(&header, words);
		if (pid && !note_unread(unwinder, pid))
			return false;
		from += header.size;
	}
	return true;
}

/*
 * Of which processes there may be unread records in this ring. Those that another thread takes out of it now have been
 * seen by the observer when the tail has moved. false: not known.
 */
static bool is_known_in(struct ring_unwinder *unwinder, const struct ring *ring)
{
	const struct perf_event_mmap_page *page = ring->page;
	/* Pairs with the kernel's publication of the head; and with ring_release(). */
	const uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	const uint64_t tail = __atomic_load_n(&page->data_tail, __ATOMIC_ACQUIRE);

	if (head == tail)
		return true;
	if (head - tail > ring->bytes || !look_at_unread(unwinder, ring, tail, head))
		return false;
	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* the tail that is read now is not older than those bytes */
	return tail == __atomic_load_n(&page->data_tail, __ATOMIC_RELAXED); /* else they were overwritten */
}

static bool is_known(struct ring_unwinder *unwinder)
{
	struct ring_unwinders *all = unwinder->all;

	unwinder->nr_unread = 0;
	for (size_t i = 0; i < all->rings.nr; i++)
		if (!is_known_in(unwinder, all->rings.rings[i]))
			return false;
	return !drained_state_has_missed(all->state) &&
	       atomic_load_explicit(&all->nr_losses, memory_order_relaxed) ==
		       atomic_load_explicit(&all->nr_noted, memory_order_relaxed);
}

/* Where tables or rows are yet to be made it is in vain to try. */
static bool skips(struct ring_unwinder *unwinder)
{
	if (!unwinder->visits_to_skip)
		return false;
	unwinder->visits_to_skip--;
	return unwinder->skipped_at == drained_state_chances(unwinder->all->state);
}

static void note_success(struct ring_unwinder *unwinder)
{
	if (unwinder->nr_failed < MANY_FAILED || unwinder->nr_failed <= unwinder->nr_converted) {
		unwinder->visits_to_skip = unwinder->visits_skipped = 0;
		return;
	}
	const unsigned twice = unwinder->visits_skipped ? 2 * unwinder->visits_skipped : 1;
	unwinder->visits_skipped = twice < MOST_SKIPPED ? twice : MOST_SKIPPED;
	unwinder->visits_to_skip = unwinder->visits_skipped;
	unwinder->skipped_at = drained_state_chances(unwinder->all->state);
}

static bool begin(struct ring_converter *converter)
{
	struct ring_unwinder *unwinder = (struct ring_unwinder *)converter;
	struct drained_state *state = unwinder->all->state;

	if (skips(unwinder))
		return false;
	unwinder->unwinder.state = drained_state_begin(state, &unwinder->unwinder.known_from_ns);
	if (!unwinder->unwinder.state)
		return false;
	unwinder->unwinder.task = (struct known_task){0};
	if (!is_known(unwinder)) {
		drained_state_end(state);
		return false;
	}
	unwinder->nr_converted = unwinder->nr_failed = unwinder->nr_without_rows = 0;
	return true;
}

static void end(struct ring_converter *converter)
{
	struct ring_unwinder *unwinder = (struct ring_unwinder *)converter;

	note_success(unwinder);
	drained_state_end(unwinder->all->state);
}

static bool is_changing(const struct ring_unwinder *unwinder, uint32_t pid)
{
	for (size_t i = 0; i < unwinder->nr_unread; i++)
		if (unwinder->unread[i] == pid)
			return true;
	return drained_state_is_changing(unwinder->all->state, pid);
}

/*
 * What the sample lacks, before who comes to its copy makes it: a table, or rows that many samples lack. To wake a
 * thread for each function that is seen once would cost more than is saved.
 */
static bool is_worth_making(struct ring_unwinder *unwinder)
{
	switch (mapped_object_state(unwinder->unwinder.found)) {
	case UNWIND_OBJECT_NEW: return true;
	case UNWIND_OBJECT_READY: return ++unwinder->nr_without_rows >= MANY_WITHOUT_ROWS;
	default: return false;
	}
}

/* Not inline: most samples of a ring are of the event of the one before. */
__attribute__((noinline)) static const struct unwinding_event *find_event(const struct ring_unwinders *all,
									  const uint8_t *record, size_t size)
{
	return &all->by_event[ring_events_index(all->events, record, size)];
}

static const struct unwinding_event *event_of(struct ring_unwinder *unwinder, const uint8_t *record, size_t size)
{
	const struct ring_unwinders *all = unwinder->all;
	const int at = all->events->id_offset;
	uint64_t id;

	if (at < 0 || size < (size_t)at + sizeof(id))
		return find_event(all, record, size);
	memcpy(&id, record + at, sizeof(id));
	if (!unwinder->last_event || unwinder->last_id != id) {
		unwinder->last_event = find_event(all, record, size);
		memcpy(&unwinder->last_id, record + at, sizeof(id));
	}
	return unwinder->last_event;
}

static size_t convert(struct ring_converter *converter, const uint8_t *record, uint8_t *to)
{
	struct ring_unwinder *unwinder = (struct ring_unwinder *)converter;
	const struct perf_event_header *header = (const struct perf_event_header *)record;
	const struct unwinding_event *event = event_of(unwinder, record, header->size);
	uint32_t pid;

	if (!event->unwinds || !event->shape.tid || header->size < event->shape.words_bytes)
		return 0;
	memcpy(&pid, record + event->shape.tid, sizeof(pid));
	if (is_changing(unwinder, pid))
		return 0;
	size_t bytes = stack_unwinder_convert_copy(&unwinder->unwinder, record, event, to);
	if (bytes) {
		unwinder->nr_converted++;
		return bytes;
	}
	unwinder->nr_failed++;
	if (unwinder->unwinder.lacks_rows && is_worth_making(unwinder))
		row_makers_offer(unwinder->all->makers, record);
	return 0;
}

/* Of all events that are unwound. */
static bool is_copy_slow(const struct ring_unwinders_params *params)
{
	for (size_t i = 0; i < params->events->nr_events; i++)
		if (params->by_event[i].unwinds &&
		    params->events->events[i].attr.sample_stack_user < COPY_IS_SLOW_BYTES)
			return false;
	return true;
}

int ring_unwinders_new(const struct ring_unwinders_params *params, struct ring_unwinders **ret)
{
	const size_t nr = params->rings->nr_threads;
	struct ring_unwinders *unwinders = calloc(1, sizeof(*unwinders) + nr * sizeof(unwinders->each[0]));

	if (!unwinders)
		return -ENOMEM;
	unwinders->observer.see = see;
	unwinders->rings = *params->rings;
	unwinders->events = params->events;
	unwinders->by_event = params->by_event;
	unwinders->state = params->state;
	unwinders->makers = params->makers;
	for (; unwinders->nr < nr; unwinders->nr++) {
		struct ring_unwinder *each = &unwinders->each[unwinders->nr];
		each->converter = (struct ring_converter){
			.begin = begin, .convert = convert, .end = end, .takes_no_longer = is_copy_slow(params)};
		each->all = unwinders;
		each->unwinder.events = params->events;
		each->unwinder.by_event = params->by_event;
		each->unwinder.never_waits = true;
		each->unwinder.cache = unwind_cache_new(params->tables);
		if (!each->unwinder.cache) {
			ring_unwinders_free(unwinders);
			return -ENOMEM;
		}
		unwind_cache_prepare(each->unwinder.cache); /* no page faults while it drains */
	}
	*ret = unwinders;
	return 0;
}

void ring_unwinders_free(struct ring_unwinders *unwinders)
{
	if (!unwinders)
		return;
	for (size_t i = 0; i < unwinders->nr; i++)
		unwind_cache_free(unwinders->each[i].unwinder.cache);
	free(unwinders);
}

struct ring_converter *ring_unwinders_get(struct ring_unwinders *unwinders, size_t thread)
{
	return &unwinders->each[thread].converter;
}

struct record_observer *ring_unwinders_observer(struct ring_unwinders *unwinders)
{
	return &unwinders->observer;
}

void ring_unwinders_note_losses(struct ring_unwinders *unwinders, uint64_t nr)
{
	if (unwinders)
		atomic_store_explicit(&unwinders->nr_noted, nr, memory_order_relaxed);
}

void ring_unwinders_count(struct ring_unwinders *unwinders, struct unwinding_counts *sum)
{
	if (!unwinders)
		return;
	drained_state_hold(unwinders->state);
	for (size_t i = 0; i < unwinders->nr; i++)
		unwinding_counts_add(sum, &unwinders->each[i].unwinder.counts);
	drained_state_release(unwinders->state);
}
