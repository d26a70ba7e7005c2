/* SPDX-License-Identifier: MIT */
#include "record/ring_growth.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "event/event.h"
#include "record/eventset.h"
#include "record/ring_carrier.h"
#include "ring/ring.h"

size_t growth_size(const struct growth_bounds *bounds, size_t bytes, uint64_t all_bytes)
{
	for (size_t factor = 4; factor > 1; factor /= 2)
		if (bytes <= bounds->ring_bytes / factor && all_bytes + bytes * factor <= bounds->all_bytes)
			return bytes * factor;
	return 0;
}

/* Larger rings cost more CPU than they help; together they leave the machine to others. */
struct growth_bounds growth_bounds_here(void)
{
	enum { RING_BYTES = 8 << 20, PART_OF_MEMORY = 32 };
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	return (struct growth_bounds){RING_BYTES, memory / PART_OF_MEMORY};
}

/* The kernel waits for each: with thousands of tasks the move would take minutes. */
enum { MOST_EVENTS = 32 };

static void count_events(struct ring_growth *growth)
{
	const struct plan *plan = growth->set->plan;

	for (size_t i = 0; i < plan->nr_slots; i++)
		if (plan->slots[i].ring < plan->nr_drained)
			growth->rings[plan->slots[i].ring].nr_events += growth->set->fds[i] >= 0;
}

static bool may_grow(const struct ring_growth *growth, size_t ring)
{
	const struct eventset *set = growth->set;

	return set->carried && set->plan->rings[ring].channel == CHANNEL_DATA && set->ring_fds[ring] >= 0 &&
	       growth->rings[ring].nr_events <= MOST_EVENTS;
}

int ring_growth_open(struct ring_growth *growth, struct eventset *set, const struct growth_bounds *bounds)
{
	*growth = (struct ring_growth){.set = set, .news_fd = eventfd(0, EFD_CLOEXEC)};
	growth->bounds = *bounds;
	growth->rings = calloc(set->plan->nr_drained + 1, sizeof(*growth->rings));
	if (growth->news_fd < 0 || !growth->rings)
		return growth->rings ? -errno : -ENOMEM;
	count_events(growth);
	for (size_t i = 0; i < set->plan->nr_drained; i++) {
		struct growing_ring *ring = &growth->rings[i];
		ring->wake_fd = ring->larger_fd = -1;
		ring->current = &set->rings[i];
		ring->bytes = set->rings[i].bytes;
		ring->step = may_grow(growth, i) ? GROWTH_STEADY : GROWTH_FIXED;
		growth->all_bytes += ring->bytes;
	}
	return 0;
}

static void wake(int fd)
{
	const uint64_t one = 1;

	(void)!fd_write(fd, &one, sizeof(one));
}

enum growth_step ring_growth_step(const struct ring_growth *growth, size_t ring)
{
	return atomic_load_explicit(&growth->rings[ring].step, memory_order_acquire);
}

void ring_growth_turn(struct ring_growth *growth, size_t ring, enum growth_step step)
{
	atomic_store_explicit(&growth->rings[ring].step, step, memory_order_release);
	if (step == GROWTH_WANTED || step == GROWTH_MUTED || step == GROWTH_DRAINED)
		wake(growth->news_fd);
}

static void turn_to_reader(struct growing_ring *ring, enum growth_step step)
{
	atomic_store_explicit(&ring->step, step, memory_order_release);
	wake(ring->wake_fd);
}

static bool is_of_ring(const struct ring_growth *growth, size_t slot, size_t ring)
{
	return growth->set->fds[slot] >= 0 && growth->set->plan->slots[slot].ring == ring;
}

/* The attr of some event of the ring: its clock must be the carrier's. It has one, or it would have no carrier. */
static const struct perf_event_attr *attr_of_ring(const struct ring_growth *growth, size_t ring)
{
	size_t slot = 0;

	while (!is_of_ring(growth, slot, ring))
		slot++;
	return &growth->set->events->events[growth->set->plan->slots[slot].event].attr;
}

static int map_larger(const struct ring_growth *growth, size_t index, size_t bytes, struct growing_ring *ring)
{
	uint32_t wakeup_bytes = (uint32_t)ring_sizes_roomy_wakeup(bytes);
	int fd = ring_carrier_open(attr_of_ring(growth, index), &growth->set->plan->rings[index], wakeup_bytes);

	if (fd < 0)
		return fd;
	int err = ring_map(ring->larger, fd, bytes / (size_t)sysconf(_SC_PAGESIZE));
	if (err) {
		close(fd);
		return err;
	}
	ring->larger_fd = fd;
	return 0;
}

static const char *place_name(const struct ring_growth *growth, size_t index, char text[static 32])
{
	const struct plan_ring *ring = &growth->set->plan->rings[index];

	snprintf(text, 32, ring->cpu < 0 ? "thread %d" : "CPU %d", ring->cpu < 0 ? ring->tid : ring->cpu);
	return text;
}

/* Out of memory: it was told with -v. */
static void note(struct ring_growth *growth, size_t index, enum ledger_deed deed, size_t to)
{
	const struct plan_ring *ring = &growth->set->plan->rings[index];
	const struct ledger_action action = {
		.ns = clock_ns(CLOCK_MONOTONIC),
		.deed = deed,
		.cpu = ring->cpu,
		.tid = ring->tid,
		.from = growth->rings[index].bytes,
		.to = to,
	};

	(void)!ledger_add_action(&growth->done, &action);
}

int ring_growth_account(const struct ring_growth *growth, struct ledger *ledger)
{
	return ledger_add_actions(ledger, &growth->done);
}

static void stay(struct ring_growth *growth, size_t index, const char *why)
{
	char place[32];

	atomic_store(&growth->rings[index].step, GROWTH_FIXED);
	note(growth, index, LEDGER_RING_STAYS, growth->rings[index].bytes);
	log_verbose("the ring of %s stays at %zu KiB: %s", place_name(growth, index, place),
		    growth->rings[index].bytes / 1024, why);
}

static void prepare(struct ring_growth *growth, size_t index)
{
	struct growing_ring *ring = &growth->rings[index];
	size_t bytes = growth_size(&growth->bounds, ring->bytes, growth->all_bytes);
	int err = -ENOMEM;

	if (!bytes) {
		stay(growth, index, "more is not wanted");
		return;
	}
	ring->larger = calloc(1, sizeof(*ring->larger));
	if (ring->larger)
		err = map_larger(growth, index, bytes, ring);
	while (ring->larger && (err == -EPERM || err == -ENOMEM) && (bytes /= 2) > ring->bytes)
		err = map_larger(growth, index, bytes, ring);
	if (err) {
		free(ring->larger);
		ring->larger = NULL;
		stay(growth, index, err == -EPERM ? "no more locked memory is allowed (ulimit -l)" : strerror(-err));
		return;
	}
	growth->all_bytes += bytes;
	turn_to_reader(ring, GROWTH_PREPARED);
}

/* 1: told to end on the way. The kernel waits for a grace period of RCU in each call. */
static int send_events(struct ring_growth *growth, size_t index)
{
	struct eventset *set = growth->set;

	for (size_t i = 0; i < set->plan->nr_slots; i++) {
		if (!is_of_ring(growth, i, index))
			continue;
		if (atomic_load(&growth->quit))
			return 1;
		if (ioctl(set->fds[i], PERF_EVENT_IOC_SET_OUTPUT, (long)growth->rings[index].larger_fd))
			return -errno;
	}
	/* Who is still writing into the old ring does that with preemption off: membarrier(2). */
	return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) ? -errno : 0;
}

static void move(struct ring_growth *growth, size_t index)
{
	struct growing_ring *ring = &growth->rings[index];
	uint64_t from_ns = clock_ns(CLOCK_MONOTONIC);
	int err = send_events(growth, index);
	char place[32];

	if (err > 0)
		return;
	if (err) {
		log_verbose("%s keeps two rings, of %zu and %zu KiB: %s", place_name(growth, index, place), ring->bytes / 1024,
			    ring->larger->bytes / 1024, strerror(-err));
		note(growth, index, LEDGER_RING_SPLIT, ring->larger->bytes);
		turn_to_reader(ring, GROWTH_SPLIT);
		return;
	}
	log_verbose("the ring of %s has grown from %zu to %zu KiB, in %.1f ms: it was found nearly full %d times",
		    place_name(growth, index, place), ring->bytes / 1024, ring->larger->bytes / 1024,
		    (double)(clock_ns(CLOCK_MONOTONIC) - from_ns) / 1e6, GROWTH_TIGHT_VISITS);
	note(growth, index, LEDGER_RING_GREW, ring->larger->bytes);
	turn_to_reader(ring, GROWTH_MOVED);
}

static void leave_old(struct ring_growth *growth, size_t index)
{
	struct growing_ring *ring = &growth->rings[index];
	int *fd = &growth->set->ring_fds[index];

	growth->all_bytes -= ring->bytes;
	ring->bytes = ring->larger->bytes;
	ring_unmap(ring->current);
	close(*fd);
	*fd = ring->larger_fd;
	ring->current = ring->larger;
	ring->larger = NULL;
	ring->larger_fd = -1;
	atomic_store_explicit(&ring->step, GROWTH_STEADY, memory_order_release);
}

static void take_turn(struct ring_growth *growth, size_t index)
{
	switch (ring_growth_step(growth, index)) {
	case GROWTH_WANTED:
		prepare(growth, index);
		break;
	case GROWTH_MUTED:
		move(growth, index);
		break;
	case GROWTH_DRAINED:
		leave_old(growth, index);
		break;
	default: /* it is not our turn */
		break;
	}
}

static void *run(void *arg)
{
	struct ring_growth *growth = arg;
	uint64_t count;

	while (read(growth->news_fd, &count, sizeof(count)) > 0 || errno == EINTR) {
		for (size_t i = 0; i < growth->set->plan->nr_drained && !atomic_load(&growth->quit); i++)
			take_turn(growth, i);
		if (atomic_load(&growth->quit))
			break;
	}
	return NULL;
}

int ring_growth_start(struct ring_growth *growth)
{
	if (!growth->set->carried)
		return 0;
	int err = -pthread_create(&growth->thread, NULL, run, growth);
	growth->started = !err;
	return err;
}

void ring_growth_stop(struct ring_growth *growth)
{
	if (!growth->started)
		return;
	atomic_store(&growth->quit, true);
	wake(growth->news_fd);
	pthread_join(growth->thread, NULL);
	growth->started = false;
}

/* The first is not ours. */
static void free_followers(struct ring *first)
{
	struct ring *ring = ring_next(first), *next;

	for (; ring; ring = next) {
		next = ring_next(ring);
		ring_unmap(ring);
		free(ring);
	}
}

void ring_growth_close(struct ring_growth *growth)
{
	if (!growth->set)
		return;
	ring_growth_stop(growth);
	for (size_t i = 0; growth->rings && i < growth->set->plan->nr_drained; i++) {
		struct growing_ring *ring = &growth->rings[i];
		/* One that no reader came to visit stands behind none. */
		if (ring->larger && ring_next(ring->current) != ring->larger) {
			ring_unmap(ring->larger);
			free(ring->larger);
		}
		if (ring->larger_fd >= 0)
			close(ring->larger_fd);
		free_followers(&growth->set->rings[i]);
		growth->set->rings[i].next = NULL;
	}
	free(growth->rings);
	ledger_fini(&growth->done);
	if (growth->news_fd >= 0)
		close(growth->news_fd);
	*growth = (struct ring_growth){0};
}
