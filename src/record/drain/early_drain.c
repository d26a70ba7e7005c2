/* SPDX-License-Identifier: MIT */
#include "record/drain/early_drain.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
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
	struct eventset *set;
	int realtime, stop_fd;
	pthread_t thread;
	bool started;
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

/* Nothing leaves the ring that has no room in memory. */
static void read_ring(struct early_drain *drain, size_t index)
{
	struct ring *ring = &drain->set->rings[index];
	struct buf *records = &drain->records[index];
	struct span spans[2];
	size_t bytes = ring_peek(ring, spans);

	if (!bytes || drain->bytes + bytes > MOST_BYTES || !buf_room(records, bytes))
		return;
	for (unsigned i = 0; i < 2; i++)
		buf_put(records, spans[i].ptr, spans[i].len);
	drain->bytes += bytes;
	ring_take(ring, bytes);
	ring_release(ring, bytes);
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

static void *run(void *arg)
{
	struct early_drain *drain = arg;
	size_t nr = drain->set->plan->nr_drained;
	struct priority before; /* not restored: the thread ends with its work */
	const char *how;

	(void)!priority_raise(drain->realtime, &before, &how);
	while (!drain->polls[nr].revents) {
		read_rings(drain);
		if (poll(drain->polls, nr + 1, drain->blind ? POLL_BLIND_MS : POLL_MS) < 0 && errno != EINTR)
			break;
		drop_ended(drain);
	}
	read_rings(drain);
	return NULL;
}

static int prepare(struct early_drain *drain)
{
	size_t nr = drain->set->plan->nr_drained;

	pthread_mutex_init(&drain->lock, NULL);
	drain->stop_fd = eventfd(0, EFD_CLOEXEC);
	drain->records = calloc(nr, sizeof(*drain->records));
	drain->polls = calloc(nr + 1, sizeof(*drain->polls));
	if (!drain->records || !drain->polls)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++)
		drain->polls[i] = (struct pollfd){is_side(drain->set, i) ? drain->set->ring_fds[i] : -1, POLLIN, 0};
	drain->polls[nr] = (struct pollfd){drain->stop_fd, POLLIN, 0};
	return drain->stop_fd < 0 ? -errno : 0;
}

int early_drain_start(struct eventset *set, int realtime, struct early_drain **ret)
{
	size_t nr_side = 0;

	*ret = NULL;
	for (size_t i = 0; i < set->plan->nr_drained; i++)
		nr_side += is_side(set, i);
	if (!nr_side)
		return 0;
	struct early_drain *drain = calloc(1, sizeof(*drain));
	if (!drain)
		return -ENOMEM;
	*drain = (struct early_drain){.set = set, .realtime = realtime, .stop_fd = -1};
	int err = prepare(drain);
	if (!err)
		err = -pthread_create(&drain->thread, NULL, run, drain);
	drain->started = !err;
	if (err)
		early_drain_free(drain);
	else
		*ret = drain;
	return err;
}

void early_drain_stop(struct early_drain *drain)
{
	const uint64_t one = 1;

	if (!drain || !drain->started)
		return;
	(void)!fd_write(drain->stop_fd, &one, sizeof(one));
	pthread_join(drain->thread, NULL);
	drain->started = false;
}

struct buf early_drain_take(struct early_drain *drain, size_t ring)
{
	struct buf records = {0};

	if (!drain)
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
	for (size_t i = 0; drain->records && i < drain->set->plan->nr_drained; i++)
		buf_fini(&drain->records[i]);
	free(drain->records);
	free(drain->polls);
	if (drain->stop_fd >= 0)
		close(drain->stop_fd);
	pthread_mutex_destroy(&drain->lock);
	free(drain);
}
