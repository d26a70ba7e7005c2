/* SPDX-License-Identifier: MIT */
#include "synthetic_load.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	TICK_NS = 1000000,
	LATE_NS = 10 * TICK_NS, /* samples that are overdue by more are left out */
};

static void wake(const struct synthetic_load *load)
{
	/* Fails only when the counter is full, and then the reader is awake. */
	int err = eventfd_write(load->wake_fd, 1);
	(void)err;
}

static void add_gap(struct synthetic_producer *producer, uint64_t from_ns, uint64_t to_ns)
{
	if (producer->nr_gaps == producer->gaps_room) {
		size_t room = producer->gaps_room ? 2 * producer->gaps_room : 1024;
		struct synthetic_gap *gaps = reallocarray(producer->gaps, room, sizeof(*gaps));
		if (!gaps) {
			producer->failed = true;
			return;
		}
		producer->gaps = gaps;
		producer->gaps_room = room;
	}
	producer->gaps[producer->nr_gaps++] = (struct synthetic_gap){from_ns, to_ns};
}

static void fill(struct synthetic_producer *producer, struct synthetic_ring *ring, uint64_t nr)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);

	while (nr--) {
		uint64_t before_ns = ring->fit_ns;
		unsigned outcome = synthetic_ring_put(ring, producer->sample, now_ns);
		if (outcome & SYNTHETIC_REPORTED)
			add_gap(producer, before_ns, now_ns);
		if (outcome & SYNTHETIC_WAKE)
			wake(producer->load);
	}
}

/* How much of the time since the start samples came. */
static uint64_t active_ns(const struct synthetic_load_options *options, uint64_t since_ns)
{
	uint64_t period_ns = options->on_ns + options->off_ns;

	if (!options->off_ns)
		return since_ns;
	uint64_t in_period_ns = since_ns % period_ns;
	return since_ns / period_ns * options->on_ns + (in_period_ns < options->on_ns ? in_period_ns : options->on_ns);
}

static void produce(struct synthetic_producer *producer)
{
	struct synthetic_load *load = producer->load;
	const struct synthetic_load_options *options = &load->options;
	uint64_t most = (uint64_t)(options->rate * LATE_NS / 1e9) + 1, done = 0;

	for (uint64_t tick_ns = load->start_ns; !atomic_load_explicit(&load->stop, memory_order_relaxed);) {
		uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
		if (now_ns >= load->end_ns)
			break;
		uint64_t due = (uint64_t)(options->rate * (double)active_ns(options, now_ns - load->start_ns) / 1e9);
		uint64_t nr = due - done < most ? due - done : most;
		for (size_t i = 0; i < producer->nr; i++)
			fill(producer, &load->rings->rings[producer->first + i], nr);
		done = due;
		tick_ns += TICK_NS;
		if (tick_ns < now_ns)
			tick_ns = now_ns;
		struct timespec until = {(time_t)(tick_ns / 1000000000), (long)(tick_ns % 1000000000)};
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	}
}

static void *producer_run(void *arg)
{
	struct synthetic_producer *producer = arg;
	struct synthetic_load *load = producer->load;

	produce(producer);
	for (size_t i = 0; i < producer->nr; i++) {
		struct synthetic_ring *ring = &load->rings->rings[producer->first + i];
		if (ring->untold)
			add_gap(producer, ring->fit_ns, load->end_ns);
	}
	producer->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	/* Pairs with the acquire in synthetic_load_running(): the rings are as they stay. */
	atomic_fetch_sub_explicit(&load->nr_running, 1, memory_order_release);
	wake(load);
	return NULL;
}

static int start_producer(struct synthetic_load *load, size_t i)
{
	struct synthetic_producer *producer = &load->producers[i];
	const struct synthetic_load_options *options = &load->options;

	producer->load = load;
	producer->first = options->nr_busy * i / options->nr_threads;
	producer->nr = options->nr_busy * (i + 1) / options->nr_threads - producer->first;
	producer->sample = malloc(options->sample_bytes);
	if (!producer->sample)
		return -ENOMEM;
	synthetic_sample_init(producer->sample, options->sample_bytes);
	int err = pthread_create(&producer->thread, NULL, producer_run, producer);
	if (err)
		free(producer->sample);
	return -err;
}

int synthetic_load_start(struct synthetic_load *load, const struct synthetic_load_options *options,
			 struct synthetic_rings *rings)
{
	*load = (struct synthetic_load){.options = *options, .rings = rings};
	load->producers = calloc(options->nr_threads, sizeof(*load->producers));
	load->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int err = !load->producers ? -ENOMEM : load->wake_fd < 0 ? -errno : 0;

	load->start_ns = clock_ns(CLOCK_MONOTONIC);
	load->end_ns = load->start_ns + options->duration_ns;
	for (size_t i = 0; i < options->nr_busy; i++)
		rings->rings[i].fit_ns = load->start_ns;
	atomic_store(&load->nr_running, options->nr_threads);
	while (!err && load->nr_started < options->nr_threads) {
		err = start_producer(load, load->nr_started);
		load->nr_started += !err;
	}
	if (err) {
		struct synthetic_totals unused;
		synthetic_load_join(load, &unused);
	}
	return err;
}

bool synthetic_load_running(struct synthetic_load *load)
{
	return atomic_load_explicit(&load->nr_running, memory_order_acquire) != 0;
}

static int compare_gaps(const void *a, const void *b)
{
	const struct synthetic_gap *one = a, *other = b;

	return (one->from_ns > other->from_ns) - (one->from_ns < other->from_ns);
}

/* Time that at least one gap covers; sorts the gaps. */
static uint64_t covered_ns(struct synthetic_gap *gaps, size_t nr)
{
	uint64_t total_ns = 0, end_ns = 0;

	qsort(gaps, nr, sizeof(*gaps), compare_gaps);
	for (size_t i = 0; i < nr; i++) {
		uint64_t from_ns = gaps[i].from_ns > end_ns ? gaps[i].from_ns : end_ns;
		if (gaps[i].to_ns <= from_ns)
			continue;
		total_ns += gaps[i].to_ns - from_ns;
		end_ns = gaps[i].to_ns;
	}
	return total_ns;
}

static int sum_gaps(const struct synthetic_load *load, struct synthetic_totals *totals)
{
	size_t nr = 0, at = 0;
	uint64_t sum_ns = 0;

	for (size_t i = 0; i < load->nr_started; i++)
		nr += load->producers[i].nr_gaps;
	struct synthetic_gap *all = calloc(nr + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < load->nr_started; i++)
		for (size_t gap = 0; gap < load->producers[i].nr_gaps; gap++)
			all[at++] = load->producers[i].gaps[gap];
	for (size_t i = 0; i < nr; i++)
		sum_ns += all[i].to_ns - all[i].from_ns;
	totals->lost_any = (double)covered_ns(all, nr) / 1e9 / totals->elapsed_s;
	totals->lost_mean = (double)sum_ns / 1e9 / totals->elapsed_s / (double)load->options.nr_busy;
	free(all);
	return 0;
}

int synthetic_load_join(struct synthetic_load *load, struct synthetic_totals *ret)
{
	struct synthetic_totals totals = {.elapsed_s = (double)load->options.duration_ns / 1e9};
	int err = 0;

	atomic_store(&load->stop, true);
	for (size_t i = 0; i < load->nr_started; i++)
		pthread_join(load->producers[i].thread, NULL);
	for (size_t i = 0; i < load->nr_started; i++) {
		totals.cpu_ns += load->producers[i].cpu_ns;
		err = load->producers[i].failed ? -ENOMEM : err;
	}
	for (size_t i = 0; i < load->options.nr_busy; i++) {
		totals.made += load->rings->rings[i].made;
		totals.dropped += load->rings->rings[i].dropped;
	}
	if (!err)
		err = sum_gaps(load, &totals);
	for (size_t i = 0; i < load->nr_started; i++) {
		free(load->producers[i].sample);
		free(load->producers[i].gaps);
	}
	free(load->producers);
	if (load->wake_fd >= 0)
		close(load->wake_fd);
	if (!err)
		*ret = totals;
	return err;
}
