/* SPDX-License-Identifier: MIT */
#include "record/unwind/ring_unwinders.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "perfdata/attr.h"
#include "record/order/ring_events.h"
#include "record/unwind/stack_unwinder.h"
#include "record/unwind/unwound.h"
#include "stream/ring.h"
#include "stream/stream.h"
#include "unwind/unwind.h"

enum {
	CHANGING_SLOTS = 1024, /* a power of two */
	MOST_UNREAD = 16,      /* processes with records that are still in rings; */
	MOST_LOOKED_AT = 128,  /* records that are looked at to find those */
	MANY_FAILED = 8,       /* samples */
	MOST_SKIPPED = 16,     /* visits */
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
	size_t nr_converted, nr_failed; /* samples */

	/* Most samples could not be converted: visits to skip, but for a new chance; how many were the last time */
	unsigned visits_to_skip, visits_skipped;
	uint64_t skipped_at; /* nr_chances then */
};

struct ring_unwinders {
	struct record_observer observer;
	struct unwinding_rings rings;
	const struct ring_events *events;
	const struct unwinding_event *by_event;
	const struct task_state *state;
	/* Held for reading by who unwinds, who only tries to get it. */
	pthread_rwlock_t in_use;
	atomic_bool open;
	uint64_t known_from_ns;      /* changed while they are closed */
	_Atomic uint64_t nr_chances; /* calls of ring_unwinders_open() and ring_unwinders_retry() */
	/* Records about losses of task events: that came, of which the state's owner knows. */
	_Atomic uint64_t nr_losses, nr_noticed;
	/* Records that were taken out of rings, and not applied yet, by the process whose maps they change. */
	atomic_uint changing[CHANGING_SLOTS];
	size_t nr;
	struct ring_unwinder each[];
};

/*
 * The process that has other maps from this record on; 0: none. words: behind the header, pid first and, of FORK, the
 * parent's. A thread of a process has its maps.
 */
static uint32_t changed_by(const struct perf_event_header *header, const uint32_t words[2])
{
	switch (header->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2: return words[0];
	case PERF_RECORD_FORK: return words[0] == words[1] ? 0 : words[0];
	case PERF_RECORD_COMM: return header->misc & PERF_RECORD_MISC_COMM_EXEC ? words[0] : 0;
	default: return 0;
	}
}

static uint32_t changed_by_record(const uint8_t *record)
{
	struct perf_event_header header;
	uint32_t words[2] = {0};

	memcpy(&header, record, sizeof(header));
	if (header.size >= sizeof(header) + sizeof(words))
		memcpy(words, record + sizeof(header), sizeof(words));
	return changed_by(&header, words);
}

static void see(struct record_observer *observer, const uint8_t *record)
{
	struct ring_unwinders *all = (struct ring_unwinders *)observer;
	const struct perf_event_header *header = (const struct perf_event_header *)record;
	uint32_t pid = changed_by_record(record);

	/* Who sees that the ring's room was released sees these: ring_release(), is_known_in(). */
	if (header->type == PERF_RECORD_LOST && unwinding_lacks_task_events(all->events, all->by_event, record))
		atomic_fetch_add_explicit(&all->nr_losses, 1, memory_order_relaxed);
	if (pid)
		atomic_fetch_add_explicit(&all->changing[pid % CHANGING_SLOTS], 1, memory_order_relaxed);
}

void ring_unwinders_applied(struct ring_unwinders *unwinders, const struct perf_event_header *record)
{
	uint32_t pid = unwinders ? changed_by_record((const uint8_t *)record) : 0;

	if (pid)
		atomic_fetch_sub_explicit(&unwinders->changing[pid % CHANGING_SLOTS], 1, memory_order_relaxed);
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
		uint32_t pid = changed_by(&header, words);
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
	return atomic_load_explicit(&all->nr_losses, memory_order_relaxed) ==
	       atomic_load_explicit(&all->nr_noticed, memory_order_relaxed);
}

/*
 * Where tables or rows are yet to be made it is in vain to try. That of a table is told; rows are soon made by who
 * comes to a sample that was copied.
 */
static bool skips(struct ring_unwinder *unwinder)
{
	if (!unwinder->visits_to_skip)
		return false;
	unwinder->visits_to_skip--;
	return unwinder->skipped_at == atomic_load_explicit(&unwinder->all->nr_chances, memory_order_relaxed);
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
	unwinder->skipped_at = atomic_load_explicit(&unwinder->all->nr_chances, memory_order_relaxed);
}

static bool begin(struct ring_converter *converter)
{
	struct ring_unwinder *unwinder = (struct ring_unwinder *)converter;
	struct ring_unwinders *all = unwinder->all;

	if (!atomic_load_explicit(&all->open, memory_order_relaxed) || skips(unwinder) ||
	    pthread_rwlock_tryrdlock(&all->in_use))
		return false;
	/* Pairs with ring_unwinders_open(): with the state. */
	if (!atomic_load_explicit(&all->open, memory_order_acquire) || !is_known(unwinder)) {
		pthread_rwlock_unlock(&all->in_use);
		return false;
	}
	unwinder->unwinder.known_from_ns = all->known_from_ns;
	unwinder->nr_converted = unwinder->nr_failed = 0;
	return true;
}

static void end(struct ring_converter *converter)
{
	struct ring_unwinder *unwinder = (struct ring_unwinder *)converter;

	note_success(unwinder);
	pthread_rwlock_unlock(&unwinder->all->in_use);
}

static bool is_changing(const struct ring_unwinder *unwinder, uint32_t pid)
{
	for (size_t i = 0; i < unwinder->nr_unread; i++)
		if (unwinder->unread[i] == pid)
			return true;
	return atomic_load_explicit(&unwinder->all->changing[pid % CHANGING_SLOTS], memory_order_relaxed);
}

static size_t convert(struct ring_converter *converter, const uint8_t *record, uint8_t *to)
{
	struct ring_unwinder *unwinder = (struct ring_unwinder *)converter;
	const struct perf_event_header *header = (const struct perf_event_header *)record;
	const struct ring_events *events = unwinder->unwinder.events;
	const struct unwinding_event *event =
		&unwinder->unwinder.by_event[ring_events_index(events, record, header->size)];
	uint32_t pid;

	if (!event->unwinds || !event->shape.tid || header->size < event->shape.words_bytes)
		return 0;
	memcpy(&pid, record + event->shape.tid, sizeof(pid));
	if (is_changing(unwinder, pid))
		return 0;
	size_t bytes =
		stack_unwinder_convert_copy(&unwinder->unwinder, record, event - unwinder->unwinder.by_event, to);
	unwinder->nr_converted += bytes != 0;
	unwinder->nr_failed += !bytes;
	return bytes;
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

/* A thread that drains may come again and again: who waits for the lock comes first. */
static void init_lock(pthread_rwlock_t *lock)
{
	pthread_rwlockattr_t attr;

	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(lock, &attr);
	pthread_rwlockattr_destroy(&attr);
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
	init_lock(&unwinders->in_use);
	for (; unwinders->nr < nr; unwinders->nr++) {
		struct ring_unwinder *each = &unwinders->each[unwinders->nr];
		each->converter = (struct ring_converter){
			.begin = begin, .convert = convert, .end = end, .takes_no_longer = is_copy_slow(params)};
		each->all = unwinders;
		each->unwinder.events = params->events;
		each->unwinder.by_event = params->by_event;
		each->unwinder.state = params->state;
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
	pthread_rwlock_destroy(&unwinders->in_use);
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

void ring_unwinders_close(struct ring_unwinders *unwinders)
{
	if (!unwinders || !atomic_exchange(&unwinders->open, false))
		return;
	pthread_rwlock_wrlock(&unwinders->in_use); /* those that have seen it open are done */
	pthread_rwlock_unlock(&unwinders->in_use);
}

void ring_unwinders_retry(struct ring_unwinders *unwinders)
{
	if (unwinders)
		atomic_fetch_add_explicit(&unwinders->nr_chances, 1, memory_order_relaxed);
}

void ring_unwinders_open(struct ring_unwinders *unwinders, uint64_t nr_losses, uint64_t known_from_ns)
{
	if (!unwinders)
		return;
	atomic_store_explicit(&unwinders->nr_noticed, nr_losses, memory_order_relaxed);
	ring_unwinders_retry(unwinders);
	if (atomic_load_explicit(&unwinders->open, memory_order_relaxed))
		return;
	unwinders->known_from_ns = known_from_ns;
	atomic_store_explicit(&unwinders->open, true, memory_order_release); /* pairs with begin() */
}

void ring_unwinders_count(struct ring_unwinders *unwinders, struct unwinding_counts *sum)
{
	if (!unwinders)
		return;
	pthread_rwlock_wrlock(&unwinders->in_use);
	for (size_t i = 0; i < unwinders->nr; i++)
		unwinding_counts_add(sum, &unwinders->each[i].unwinder.counts);
	pthread_rwlock_unlock(&unwinders->in_use);
}
