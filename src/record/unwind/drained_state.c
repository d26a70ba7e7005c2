/* SPDX-License-Identifier: MIT */
#include "record/unwind/drained_state.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "record/order/ring_events.h"
#include "record/unwind/task_state.h"
#include "record/unwind/unwound.h"
#include "stream/ring.h"
#include "sysinfo/thread.h"

enum {
	QUEUE_BYTES = 8 << 20, /* of task events: what 80,000 calls of mmap(2) make */
	CHANGING_SLOTS = 1024, /* a power of two */
	MOST_LOOKS = 4,        /* at a record that another thread takes out of its ring at the same time */
	MOST_TRIES = 20,       /* to get a lock without keeping others from it */
	/* Between two looks; the longest one where all that is left waits for what is still in rings. */
	PAUSE_NS = 5000000,
	LONGEST_PAUSE_NS = 20000000,
};

/* Records behind each other, as they were seen. */
struct queue {
	uint8_t *bytes; /* heap, QUEUE_BYTES */
	size_t len;
};

struct drained_state {
	struct unwinding_rings rings;
	const struct ring_events *events;
	bool realtime;

	/* Held for reading by who unwinds, who only tries to get it; for writing by the thread. */
	pthread_rwlock_t in_use;
	atomic_bool open;
	uint64_t known_from_ns; /* changed while it is closed */
	_Atomic uint64_t nr_chances;
	atomic_bool has_missed;
	/* Records that were seen, and not applied yet, by the process whose maps they change. */
	atomic_uint changing[CHANGING_SLOTS];

	pthread_mutex_t queue_lock; /* for some instructions; of all below */
	pthread_cond_t wake;
	struct queue filled;
	uint64_t newest_ns; /* of all records that were seen */
	bool keeps;         /* what comes, for a copy. Changed with both locks held */
	bool sleeps, stop;

	pthread_mutex_t lock; /* of all below */
	struct task_state *state;
	uint64_t complete_ns; /* what was seen before the queue was begun is not later */
	uint64_t copied_ns;   /* the copy had all records up to that time */
	struct queue emptied;
	uint64_t taken_ns; /* the latest time of the records that were taken out of the queue */
	uint8_t *record;   /* heap, UINT16_MAX + 1 bytes */

	_Atomic uint64_t cpu_ns;

	pthread_t thread;
	bool has_thread;
};

static atomic_uint *changing_slot(struct drained_state *state, uint32_t pid)
{
	return &state->changing[pid % CHANGING_SLOTS];
}

static uint32_t changed_by(const uint8_t *record)
{
	struct perf_event_header header;
	uint32_t words[2] = {0};

	memcpy(&header, record, sizeof(header));
	if (header.size >= sizeof(header) + sizeof(words))
		memcpy(words, record + sizeof(header), sizeof(words));
	return task_state_changed_process(&header, words);
}

/* task_state_observe() */
static void note_applied(void *ctx, const struct perf_event_header *record)
{
	uint32_t pid = changed_by((const uint8_t *)record);

	if (pid)
		atomic_fetch_sub_explicit(changing_slot(ctx, pid), 1, memory_order_relaxed);
}

/*
 * Threads that drain.
 */

/* The lock of the queue is held, and released. */
static void wake_thread(struct drained_state *state)
{
	bool sleeps = state->sleeps;

	state->sleeps = false;
	pthread_mutex_unlock(&state->queue_lock);
	if (sleeps)
		pthread_cond_signal(&state->wake);
}

/* Whether what a process has mapped changes by it, or ends: threads have the maps of their process. */
static bool is_of_interest(const struct perf_event_header *header, const uint8_t *record)
{
	uint32_t words[3] = {0}; /* pid, parent's pid, tid */

	if (header->type != PERF_RECORD_EXIT)
		return changed_by(record);
	if (header->size >= sizeof(*header) + sizeof(words))
		memcpy(words, record + sizeof(*header), sizeof(words));
	return words[0] == words[2];
}

/* What a thread maps its process has: there are no others here. */
static void put_of_process(struct queue *queue, const uint8_t *record, const struct perf_event_header *header)
{
	uint8_t *to = queue->bytes + queue->len;

	memcpy(to, record, header->size);
	if (header->type == PERF_RECORD_MMAP || header->type == PERF_RECORD_MMAP2)
		memcpy(to + sizeof(*header) + sizeof(uint32_t), to + sizeof(*header), sizeof(uint32_t)); /* tid, pid */
	queue->len += header->size;
}

void drained_state_see(struct drained_state *state, const uint8_t *record)
{
	struct perf_event_header header;

	memcpy(&header, record, sizeof(header));
	if (!is_of_interest(&header, record))
		return;
	uint64_t time_ns = ring_events_time(state->events, record, &header);
	uint32_t pid = changed_by(record);
	pthread_mutex_lock(&state->queue_lock);
	if (time_ns > state->newest_ns)
		state->newest_ns = time_ns;
	if (header.size > QUEUE_BYTES - state->filled.len)
		atomic_store_explicit(&state->has_missed, true, memory_order_relaxed);
	/* Who sees that the ring's room was released sees this: ring_release(), and the look at it. */
	if (atomic_load_explicit(&state->has_missed, memory_order_relaxed)) {
		pthread_mutex_unlock(&state->queue_lock);
		return;
	}
	if (pid)
		atomic_fetch_add_explicit(changing_slot(state, pid), 1, memory_order_relaxed);
	put_of_process(&state->filled, record, &header);
	if (state->keeps)
		pthread_mutex_unlock(&state->queue_lock);
	else
		wake_thread(state);
}

const struct task_state *drained_state_begin(struct drained_state *state, uint64_t *ret_known_from_ns)
{
	if (!atomic_load_explicit(&state->open, memory_order_relaxed) || pthread_rwlock_tryrdlock(&state->in_use))
		return NULL;
	if (!atomic_load_explicit(&state->open, memory_order_relaxed)) {
		pthread_rwlock_unlock(&state->in_use);
		return NULL;
	}
	*ret_known_from_ns = state->known_from_ns;
	return state->state;
}

void drained_state_end(struct drained_state *state)
{
	pthread_rwlock_unlock(&state->in_use);
}

bool drained_state_is_changing(const struct drained_state *state, uint32_t pid)
{
	return atomic_load_explicit(&state->changing[pid % CHANGING_SLOTS], memory_order_relaxed);
}

bool drained_state_has_missed(const struct drained_state *state)
{
	return atomic_load_explicit(&state->has_missed, memory_order_relaxed);
}

uint64_t drained_state_chances(const struct drained_state *state)
{
	return atomic_load_explicit(&state->nr_chances, memory_order_relaxed);
}

void drained_state_retry(struct drained_state *state)
{
	atomic_fetch_add_explicit(&state->nr_chances, 1, memory_order_relaxed);
}

/*
 * The thread.
 */

/* Out of the queue into the state, where it waits. 0 or -ENOMEM. */
static int take_queue(struct drained_state *state)
{
	pthread_mutex_lock(&state->queue_lock);
	const struct queue queue = state->filled;
	state->filled = state->emptied;
	pthread_mutex_unlock(&state->queue_lock);
	state->emptied = (struct queue){queue.bytes, 0};
	int err = 0;
	for (size_t at = 0; at < queue.len;) {
		const struct perf_event_header *record = (const struct perf_event_header *)(queue.bytes + at);
		uint64_t time_ns = ring_events_time(state->events, queue.bytes + at, record);
		int put_err = time_ns > state->copied_ns ? task_state_put(state->state, record, time_ns) : 1;
		if (put_err)
			note_applied(state, record);
		err = put_err < 0 ? put_err : err;
		if (time_ns > state->taken_ns)
			state->taken_ns = time_ns;
		at += record->size;
	}
	return err;
}

/* The time of the first record that was not taken out of the ring; UINT64_MAX: there is none; 0: it is not known. */
static uint64_t first_unread(struct drained_state *state, const struct ring *ring)
{
	const struct perf_event_mmap_page *page = ring->page;

	for (unsigned i = 0; i < MOST_LOOKS; i++) {
		/* Pairs with the kernel's publication of the head; and with ring_release(). */
		const uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
		const uint64_t tail = __atomic_load_n(&page->data_tail, __ATOMIC_ACQUIRE);
		struct perf_event_header *header = (struct perf_event_header *)state->record;
		if (head == tail)
			return UINT64_MAX;
		const uint64_t at = tail & (ring->bytes - 1);
		const size_t first = ring->bytes - at < UINT16_MAX ? (size_t)(ring->bytes - at) : UINT16_MAX;
		memcpy(header, ring->data + at, sizeof(*header)); /* 8-aligned: it does not wrap */
		const size_t size = header->size;
		memcpy(state->record, ring->data + at, size < first ? size : first);
		if (size > first)
			memcpy(state->record + first, ring->data, size - first);
		__atomic_thread_fence(__ATOMIC_ACQUIRE); /* the tail that is read now is not older than those bytes */
		if (tail != __atomic_load_n(&page->data_tail, __ATOMIC_RELAXED))
			continue; /* they may have been overwritten */
		header->size = (uint16_t)size;
		return size < sizeof(*header) ? 0 : ring_events_time(state->events, state->record, header);
	}
	return 0;
}

/* Who waits for the lock keeps those that drain from unwinding, so it is tried before. */
static void lock_unused(struct drained_state *state)
{
	const struct timespec pause = {.tv_nsec = 200000};

	for (unsigned i = 0; i < MOST_TRIES; i++) {
		if (!pthread_rwlock_trywrlock(&state->in_use))
			return;
		nanosleep(&pause, NULL);
	}
	pthread_rwlock_wrlock(&state->in_use);
}

/*
 * All records that were in rings before the first call of take_queue() have been seen before the second one, but for
 * those that are still there. So what is not later than the first of these, and than what the first call has found, is
 * complete: what comes later is about what happened later.
 */
static int apply_seen(struct drained_state *state)
{
	uint64_t until_ns;
	int err = take_queue(state);

	until_ns = state->taken_ns;
	for (size_t i = 0; i < state->rings.nr; i++) {
		uint64_t unread_ns = first_unread(state, state->rings.rings[i]);
		if (unread_ns <= until_ns)
			until_ns = unread_ns ? unread_ns - 1 : 0;
	}
	int take_err = take_queue(state);
	err = err ? err : take_err;
	if (err || task_state_next_ns(state->state) > until_ns)
		return err;
	lock_unused(state);
	err = task_state_advance(state->state, until_ns);
	pthread_rwlock_unlock(&state->in_use);
	drained_state_retry(state);
	return err;
}

bool drained_state_work(struct drained_state *state)
{
	uint64_t from_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	bool left = false;

	pthread_mutex_lock(&state->lock);
	if (!state->keeps) {
		if (apply_seen(state)) /* out of memory: as if they were lost */
			atomic_store_explicit(&state->has_missed, true, memory_order_relaxed);
		left = task_state_next_ns(state->state) != UINT64_MAX;
	}
	pthread_mutex_unlock(&state->lock);
	atomic_fetch_add_explicit(&state->cpu_ns, clock_ns(CLOCK_THREAD_CPUTIME_ID) - from_ns, memory_order_relaxed);
	return left;
}

/* Until there is work, which is not the case while what comes is kept for a copy. false: it is to stop. */
static bool wait_for_work(struct drained_state *state, bool left)
{
	pthread_mutex_lock(&state->queue_lock);
	while (!state->stop && (state->keeps || (!left && !state->filled.len))) {
		state->sleeps = true;
		pthread_cond_wait(&state->wake, &state->queue_lock);
	}
	state->sleeps = false;
	bool go_on = !state->stop;
	pthread_mutex_unlock(&state->queue_lock);
	return go_on;
}

static void *run(void *ctx)
{
	struct drained_state *state = ctx;
	struct timespec pause = {.tv_nsec = PAUSE_NS};
	struct priority before; /* not restored: the thread does nothing else */
	const char *unused;
	bool left = false;

	if (state->realtime)
		(void)!priority_raise(0, &before, &unused);
	while (wait_for_work(state, left)) {
		left = drained_state_work(state);
		if (!left)
			pause.tv_nsec = PAUSE_NS;
		else if (pause.tv_nsec < LONGEST_PAUSE_NS)
			pause.tv_nsec *= 2;
		nanosleep(&pause, NULL); /* what comes in the meantime is applied together */
	}
	return NULL;
}

int drained_state_start(struct drained_state *state)
{
	int err = thread_start(&state->thread, run, state);

	state->has_thread = !err;
	return -err;
}

/*
 * The thread that resolves.
 */

void drained_state_close(struct drained_state *state)
{
	atomic_store_explicit(&state->has_missed, true, memory_order_relaxed);
	if (!atomic_exchange(&state->open, false))
		return;
	pthread_rwlock_wrlock(&state->in_use); /* those that have seen it open are done */
	pthread_rwlock_unlock(&state->in_use);
}

/* From now on what comes is kept. The lock is held. 0 or -ENOMEM. */
static int keep_what_comes(struct drained_state *state)
{
	int err = task_state_forget(state->state);

	pthread_mutex_lock(&state->queue_lock);
	for (size_t at = 0; at < state->filled.len;) {
		const struct perf_event_header *record = (const void *)(state->filled.bytes + at);
		note_applied(state, record);
		at += record->size;
	}
	state->filled.len = 0;
	state->complete_ns = state->newest_ns;
	state->keeps = true;
	atomic_store_explicit(&state->has_missed, err != 0, memory_order_relaxed);
	pthread_mutex_unlock(&state->queue_lock);
	return err;
}

/* The lock is held. 0 or -ENOMEM. */
static int copy(struct drained_state *state, const struct task_state *complete, uint64_t horizon_ns,
		uint64_t known_from_ns)
{
	pthread_rwlock_wrlock(&state->in_use);
	int err = task_state_copy(state->state, complete);
	state->known_from_ns = known_from_ns;
	state->taken_ns = state->copied_ns = horizon_ns;
	atomic_store_explicit(&state->open, !err, memory_order_relaxed);
	pthread_rwlock_unlock(&state->in_use);
	drained_state_retry(state);
	pthread_mutex_lock(&state->queue_lock);
	state->keeps = err != 0;
	wake_thread(state);
	return err;
}

int drained_state_open(struct drained_state *state, const struct task_state *complete, uint64_t horizon_ns,
		       uint64_t known_from_ns)
{
	const bool has_missed = drained_state_has_missed(state);
	int err = 0;

	if (!has_missed && atomic_load_explicit(&state->open, memory_order_relaxed))
		return 0;
	if (has_missed)
		drained_state_close(state);
	pthread_mutex_lock(&state->lock);
	if (has_missed)
		err = keep_what_comes(state);
	if (!err && horizon_ns >= state->complete_ns)
		err = copy(state, complete, horizon_ns, known_from_ns);
	pthread_mutex_unlock(&state->lock);
	return err;
}

bool drained_state_lock_objects(struct drained_state *state, void (*mark)(void *ctx, struct mapped_object *object),
				void *ctx)
{
	if (pthread_mutex_trylock(&state->lock))
		return false;
	if (!task_state_visit_objects(state->state, mark, ctx))
		return true;
	pthread_mutex_unlock(&state->lock);
	return false;
}

void drained_state_unlock(struct drained_state *state)
{
	pthread_mutex_unlock(&state->lock);
}

void drained_state_hold(struct drained_state *state)
{
	pthread_rwlock_wrlock(&state->in_use);
}

void drained_state_release(struct drained_state *state)
{
	pthread_rwlock_unlock(&state->in_use);
}

uint64_t drained_state_cpu_ns(struct drained_state *state)
{
	return atomic_exchange_explicit(&state->cpu_ns, 0, memory_order_relaxed);
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

int drained_state_new(const struct drained_state_params *params, struct drained_state **ret)
{
	struct drained_state *state = calloc(1, sizeof(*state));

	if (!state)
		return -ENOMEM;
	state->rings = *params->rings;
	state->events = params->events;
	state->realtime = params->realtime;
	state->keeps = true;
	init_lock(&state->in_use);
	pthread_mutex_init(&state->queue_lock, NULL);
	pthread_cond_init(&state->wake, NULL);
	pthread_mutex_init(&state->lock, NULL);
	state->state = task_state_new(params->objects, params->events->trailer_bytes, SIZE_MAX);
	state->filled.bytes = malloc(QUEUE_BYTES);
	state->emptied.bytes = malloc(QUEUE_BYTES);
	state->record = malloc(UINT16_MAX + 1);
	if (!state->state || !state->filled.bytes || !state->emptied.bytes || !state->record) {
		drained_state_free(state);
		return -ENOMEM;
	}
	task_state_observe(state->state, note_applied, state);
	*ret = state;
	return 0;
}

static void stop_thread(struct drained_state *state)
{
	if (!state->has_thread)
		return;
	pthread_mutex_lock(&state->queue_lock);
	state->stop = true;
	wake_thread(state);
	pthread_join(state->thread, NULL);
}

void drained_state_free(struct drained_state *state)
{
	if (!state)
		return;
	stop_thread(state);
	task_state_free(state->state);
	free(state->filled.bytes);
	free(state->emptied.bytes);
	free(state->record);
	pthread_mutex_destroy(&state->lock);
	pthread_cond_destroy(&state->wake);
	pthread_mutex_destroy(&state->queue_lock);
	pthread_rwlock_destroy(&state->in_use);
	free(state);
}
