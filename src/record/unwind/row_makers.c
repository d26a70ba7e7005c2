/* SPDX-License-Identifier: MIT */
#include "record/unwind/row_makers.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "record/order/ring_events.h"
#include "record/unwind/drained_state.h"
#include "record/unwind/mapped_objects.h"
#include "record/unwind/stack_unwinder.h"
#include "sysinfo/thread.h"
#include "unwind/unwind.h"

enum {
	MOST_MAKERS = 4,
	MOST_TABLES = 64, /* that are made for one sample */
	SAMPLE_BYTES = UINT16_MAX + 1,
};

enum slot { SLOT_EMPTY, SLOT_IN_USE, SLOT_FULL };

struct maker {
	struct row_makers *all;
	pthread_t thread;
	sem_t wake;
	_Atomic enum slot slot;
	uint8_t *sample; /* heap, SAMPLE_BYTES */
	struct stack_unwinder unwinder;
};

struct row_makers {
	const struct ring_events *events;
	struct mapped_objects *objects;
	struct drained_state *state;
	bool realtime;
	pthread_rwlock_t working; /* held for reading by who works */
	_Atomic uint64_t cpu_ns;
	atomic_bool stop;
	size_t nr_threads, nr; /* threads are those of the first makers */
	struct maker each[];
};

void row_makers_offer(struct row_makers *makers, const uint8_t *sample)
{
	struct perf_event_header header;

	memcpy(&header, sample, sizeof(header));
	for (size_t i = 0; i < makers->nr; i++) {
		struct maker *maker = &makers->each[i];
		enum slot empty = SLOT_EMPTY;
		if (atomic_load_explicit(&maker->slot, memory_order_relaxed) != SLOT_EMPTY ||
		    !atomic_compare_exchange_strong(&maker->slot, &empty, SLOT_IN_USE))
			continue;
		memcpy(maker->sample, sample, header.size);
		atomic_store_explicit(&maker->slot, SLOT_FULL, memory_order_release);
		sem_post(&maker->wake);
		return;
	}
}

/* By the maps that its process has now. UNWIND_WAITS: `found` has no table. */
static enum unwind_outcome unwind(struct maker *maker)
{
	const struct row_makers *all = maker->all;
	const struct perf_event_header *header = (const struct perf_event_header *)maker->sample;
	struct stack_unwinder *unwinder = &maker->unwinder;

	unwinder->state = drained_state_begin(all->state, &unwinder->known_from_ns);
	if (!unwinder->state) /* it changes now: another sample will come */
		return UNWIND_BROKEN;
	enum unwind_outcome outcome = stack_unwinder_convert(
		unwinder, maker->sample, ring_events_index(all->events, maker->sample, header->size));
	drained_state_end(all->state);
	return outcome;
}

/* The chain itself is of no use here. */
static void make_rows(struct maker *maker)
{
	struct row_makers *all = maker->all;
	unsigned nr = 0;

	pthread_rwlock_rdlock(&all->working);
	while (unwind(maker) == UNWIND_WAITS && nr++ < MOST_TABLES)
		mapped_object_build(all->objects, maker->unwinder.found);
	pthread_rwlock_unlock(&all->working);
	maker->unwinder.counts = (struct unwinding_counts){0};
	drained_state_retry(all->state);
}

static bool work(struct maker *maker)
{
	if (atomic_load_explicit(&maker->slot, memory_order_acquire) != SLOT_FULL)
		return false;
	make_rows(maker);
	atomic_store_explicit(&maker->slot, SLOT_EMPTY, memory_order_release);
	return true;
}

bool row_makers_work(struct row_makers *makers)
{
	bool worked = false;

	for (size_t i = 0; i < makers->nr; i++)
		worked |= work(&makers->each[i]);
	return worked;
}

static void *run(void *ctx)
{
	struct maker *maker = ctx;
	struct row_makers *all = maker->all;
	struct priority before; /* not restored: the thread does nothing else */
	const char *unused;

	if (all->realtime)
		(void)!priority_raise(0, &before, &unused);
	for (;;) {
		while (sem_wait(&maker->wake)) /* EINTR */
			;
		if (atomic_load_explicit(&all->stop, memory_order_relaxed))
			return NULL;
		uint64_t from_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		work(maker);
		atomic_fetch_add_explicit(&all->cpu_ns, clock_ns(CLOCK_THREAD_CPUTIME_ID) - from_ns,
					  memory_order_relaxed);
	}
}

int row_makers_start(struct row_makers *makers)
{
	int err = 0;

	while (makers->nr_threads < makers->nr && !err) {
		struct maker *maker = &makers->each[makers->nr_threads];
		err = thread_start(&maker->thread, run, maker);
		makers->nr_threads += !err;
	}
	if (!makers->nr_threads)
		return -err;
	makers->nr = makers->nr_threads;
	return 0;
}

bool row_makers_trylock(struct row_makers *makers)
{
	return !pthread_rwlock_trywrlock(&makers->working);
}

void row_makers_unlock(struct row_makers *makers)
{
	pthread_rwlock_unlock(&makers->working);
}

uint64_t row_makers_cpu_ns(struct row_makers *makers)
{
	return atomic_exchange_explicit(&makers->cpu_ns, 0, memory_order_relaxed);
}

static size_t nr_makers(void)
{
	long nr_cpus = sysconf(_SC_NPROCESSORS_ONLN), nr = nr_cpus / 4;

	return nr < 1 ? 1 : nr < MOST_MAKERS ? (size_t)nr : MOST_MAKERS;
}

int row_makers_new(const struct row_makers_params *params, struct row_makers **ret)
{
	const size_t nr = nr_makers();
	struct row_makers *makers = calloc(1, sizeof(*makers) + nr * sizeof(makers->each[0]));

	if (!makers)
		return -ENOMEM;
	makers->events = params->events;
	makers->objects = params->objects;
	makers->state = params->state;
	makers->realtime = params->realtime;
	pthread_rwlock_init(&makers->working, NULL);
	for (; makers->nr < nr; makers->nr++) {
		struct maker *maker = &makers->each[makers->nr];
		maker->all = makers;
		maker->sample = malloc(SAMPLE_BYTES);
		maker->unwinder.events = params->events;
		maker->unwinder.by_event = params->by_event;
		maker->unwinder.cache = unwind_cache_new(params->tables);
		if (!maker->sample || !maker->unwinder.cache || sem_init(&maker->wake, 0, 0)) {
			free(maker->sample);
			unwind_cache_free(maker->unwinder.cache);
			row_makers_free(makers);
			return -ENOMEM;
		}
	}
	*ret = makers;
	return 0;
}

void row_makers_free(struct row_makers *makers)
{
	if (!makers)
		return;
	atomic_store_explicit(&makers->stop, true, memory_order_relaxed);
	for (size_t i = 0; i < makers->nr_threads; i++)
		sem_post(&makers->each[i].wake);
	for (size_t i = 0; i < makers->nr_threads; i++)
		pthread_join(makers->each[i].thread, NULL);
	for (size_t i = 0; i < makers->nr; i++) {
		sem_destroy(&makers->each[i].wake);
		free(makers->each[i].sample);
		unwind_cache_free(makers->each[i].unwinder.cache);
	}
	pthread_rwlock_destroy(&makers->working);
	free(makers);
}
