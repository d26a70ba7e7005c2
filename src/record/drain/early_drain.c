/* SPDX-License-Identifier: MIT */
#include "record/drain/early_drain.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "perfdata/object_id.h"
#include "record/setup/eventset.h"
#include "record/setup/plan.h"
#include "stream/ring.h"
#include "sysinfo/thread.h"

enum {
	/* Then the rings fill, and the kernel counts what it drops: a FIFO may wait for its reader for any time. */
	MOST_BYTES = 64 << 20,
	/* What lies below the wake-up marks. */
	POLL_MS = 100,
	/* The same, when a task has ended whose fd told of a ring that other tasks still fill. */
	POLL_BLIND_MS = 5,
};

struct early_drain {
	struct eventset *set; /* NULL until early_drain_start() */
	int realtime, stop_fd;
	pthread_t thread;
	bool started;
	sem_t ready, go; /* posted by the thread when it has its priority; for it when it may drain, or shall end */
	pthread_mutex_t lock; /* of the next two */
	struct buf *records;  /* heap; by ring */
	size_t bytes;         /* of all of them */
	struct pollfd *polls; /* heap; by ring, and behind them stop_fd */
	bool blind;           /* some ring has no fd to poll any more */
};

static bool is_side(const struct eventset *set, size_t ring)
{
	return ring < set->plan->nr_drained && set->plan->rings[ring].channel == CHANNEL_SIDE &&
	       set->ring_fds[ring] >= 0;
}

/* Nothing leaves the ring that has no room in memory. Up to the head that was seen first. */
static void read_ring(struct early_drain *drain, size_t index)
{
	struct ring *ring = &drain->set->rings[index];
	struct buf *records = &drain->records[index];
	_Alignas(8) uint8_t map_copy[MAP_RECORD_BYTES];
	struct span spans[2];
	size_t left = ring_peek(ring, spans);

	if (!left || drain->bytes + left > MOST_BYTES || !buf_room(records, left))
		return;
	while (left) {
		ring_peek(ring, spans);
		spans_cut(spans, left);
		const size_t bytes = ring->no_map_ids ? object_id_unmark(spans, left, map_copy) : left;
		for (unsigned i = 0; i < 2; i++)
			buf_put(records, spans[i].ptr, spans[i].len);
		drain->bytes += bytes;
		ring_take(ring, bytes);
		ring_release(ring, bytes);
		left -= bytes;
	}
}

static void read_rings(struct early_drain *drain)
{
	pthread_mutex_lock(&drain->lock);
	for (size_t i = 0; i < drain->set->plan->nr_drained; i++)
		if (is_side(drain->set, i))
			read_ring(drain, i);
	pthread_mutex_unlock(&drain->lock);
}

static void drop_ended(struct early_drain *drain)
{
	for (size_t i = 0; i < drain->set->plan->nr_drained; i++)
		if (drain->polls[i].fd >= 0 && drain->polls[i].revents & (POLLHUP | POLLERR | POLLNVAL)) {
			drain->polls[i].fd = -1;
			drain->blind = true;
		}
}

static void wait_for(sem_t *semaphore)
{
	while (sem_wait(semaphore) && errno == EINTR)
		;
}

static void *run(void *arg)
{
	struct early_drain *drain = arg;
	struct priority before; /* not restored: the thread ends with its work */
	const char *how;

	(void)!priority_raise(drain->realtime, &before, &how);
	sem_post(&drain->ready);
	wait_for(&drain->go);
	if (!drain->set)
		return NULL;
	size_t nr = drain->set->plan->nr_drained;
	while (!drain->polls[nr].revents) {
		read_rings(drain);
		if (poll(drain->polls, nr + 1, drain->blind ? POLL_BLIND_MS : POLL_MS) < 0 && errno != EINTR)
			break;
		drop_ended(drain);
	}
	read_rings(drain);
	return NULL;
}

int early_drain_new(const struct plan *plan, int realtime, struct early_drain **ret)
{
	bool has_side = false;

	*ret = NULL;
	for (size_t i = 0; i < plan->nr_drained; i++)
		has_side |= plan->rings[i].channel == CHANNEL_SIDE;
	if (!has_side)
		return 0;
	struct early_drain *drain = calloc(1, sizeof(*drain));
	if (!drain)
		return -ENOMEM;
	*drain = (struct early_drain){.realtime = realtime};
	pthread_mutex_init(&drain->lock, NULL);
	sem_init(&drain->ready, 0, 0);
	sem_init(&drain->go, 0, 0);
	drain->stop_fd = eventfd(0, EFD_CLOEXEC);
	int err = drain->stop_fd < 0 ? -errno : -pthread_create(&drain->thread, NULL, run, drain);
	drain->started = !err;
	if (err) {
		early_drain_free(drain);
		return err;
	}
	wait_for(&drain->ready);
	*ret = drain;
	return 0;
}

int early_drain_start(struct early_drain *drain, struct eventset *set)
{
	if (!drain)
		return 0;
	size_t nr = set->plan->nr_drained;
	drain->records = calloc(nr, sizeof(*drain->records));
	drain->polls = calloc(nr + 1, sizeof(*drain->polls));
	if (!drain->records || !drain->polls)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++)
		drain->polls[i] = (struct pollfd){is_side(set, i) ? set->ring_fds[i] : -1, POLLIN, 0};
	drain->polls[nr] = (struct pollfd){drain->stop_fd, POLLIN, 0};
	drain->set = set;
	sem_post(&drain->go);
	return 0;
}

void early_drain_stop(struct early_drain *drain)
{
	const uint64_t one = 1;

	if (!drain || !drain->started)
		return;
	(void)!fd_write(drain->stop_fd, &one, sizeof(one));
	if (!drain->set)
		sem_post(&drain->go);
	pthread_join(drain->thread, NULL);
	drain->started = false;
}

struct buf early_drain_take(struct early_drain *drain, size_t ring)
{
	struct buf records = {0};

	if (!drain || !drain->records)
		return records;
	pthread_mutex_lock(&drain->lock);
	records = drain->records[ring];
	drain->records[ring] = (struct buf){0};
	drain->bytes -= records.len;
	pthread_mutex_unlock(&drain->lock);
	return records;
}

void early_drain_free(struct early_drain *drain)
{
	if (!drain)
		return;
	early_drain_stop(drain);
	for (size_t i = 0; drain->set && i < drain->set->plan->nr_drained; i++)
		buf_fini(&drain->records[i]);
	free(drain->records);
	free(drain->polls);
	if (drain->stop_fd >= 0)
		close(drain->stop_fd);
	pthread_mutex_destroy(&drain->lock);
	free(drain);
}
