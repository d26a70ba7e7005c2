/* SPDX-License-Identifier: MIT */
#include "record/drain/relief.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "stream/ring.h"
#include "stream/stream.h"
#include "stream/writer.h"

/*
 * A store that lasts twice as long as the patience is late: the time in which a ring of samples, the largest kind,
 * fills at 1 GB/s, a byte in a nanosecond, within these bounds. Each tick wakes a thread, also where storing goes well.
 */
enum { LEAST_PATIENCE_NS = 2000000, MOST_PATIENCE_NS = 8000000 };

struct relief {
	struct stream_storage storage; /* of the streams */
	struct stream **streams;       /* borrowed */
	size_t nr_streams;
	int realtime;
	long patience_ns;
	int timer_fd; /* timerfd(2): ticks from the first store of a pass to its end */
	bool armed;
	atomic_bool stop;
	_Atomic uint64_t nr_stores; /* that were begun */
	pthread_mutex_t lock;       /* of the streams */
	pthread_t thread;
	bool started;
	uint64_t store_ns;
	struct thread_use use; /* of the thread, when it has ended */
};

static void set_timer(struct relief *relief, long first_ns)
{
	const struct itimerspec spec = {.it_value.tv_nsec = first_ns,
					.it_interval.tv_nsec = first_ns ? relief->patience_ns : 0};

	timerfd_settime(relief->timer_fd, 0, &spec, NULL);
	relief->armed = first_ns != 0;
}

/* For streams, between two batches: stores what waits, while the relief may use the stream. */
static void store(struct stream_storage *storage, struct writer *writer)
{
	struct relief *relief = (struct relief *)storage;

	if (!writer->ops->store || !writer_is_behind(writer))
		return;
	if (!relief->armed)
		set_timer(relief, relief->patience_ns);
	atomic_fetch_add_explicit(&relief->nr_stores, 1, memory_order_relaxed);
	pthread_mutex_unlock(&relief->lock);
	relief->store_ns += writer->ops->store(writer);
	pthread_mutex_lock(&relief->lock);
}

static void *run(void *arg)
{
	struct relief *relief = arg;
	struct priority before; /* not restored: the thread ends with its work */
	const char *how;
	uint64_t ticks, nr_seen = 0;

	(void)!priority_raise(relief->realtime, &before, &how);
	while (read(relief->timer_fd, &ticks, sizeof(ticks)) == sizeof(ticks) || errno == EINTR) {
		if (atomic_load_explicit(&relief->stop, memory_order_relaxed))
			break;
		/* A store that began after the last tick is not late. */
		uint64_t nr_stores = atomic_load_explicit(&relief->nr_stores, memory_order_relaxed);
		bool is_late = nr_stores == nr_seen;
		nr_seen = nr_stores;
		if (!is_late || pthread_mutex_trylock(&relief->lock))
			continue;
		for (size_t i = 0; i < relief->nr_streams; i++)
			stream_relieve(relief->streams[i]);
		pthread_mutex_unlock(&relief->lock);
	}
	relief->use = thread_use_now();
	return NULL;
}

static long find_patience(struct stream *const streams[], size_t nr_streams)
{
	size_t ns = LEAST_PATIENCE_NS;

	for (size_t i = 0; i < nr_streams; i++) {
		for (size_t n = 0; n < streams[i]->nr_rings; n++) {
			const struct ring *ring = stream_ring(streams[i], n);
			ns = ring->bytes > ns ? ring->bytes : ns;
		}
	}
	return ns > MOST_PATIENCE_NS ? MOST_PATIENCE_NS : (long)ns;
}

int relief_start(struct stream **streams, size_t nr_streams, int realtime, struct relief **ret)
{
	struct relief *relief = calloc(1, sizeof(*relief));
	pthread_mutexattr_t attr;

	if (!relief)
		return -ENOMEM;
	relief->storage.store = store;
	relief->streams = streams;
	relief->nr_streams = nr_streams;
	relief->realtime = realtime;
	relief->patience_ns = find_patience(streams, nr_streams);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&relief->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	relief->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	int err = relief->timer_fd < 0 ? -errno : -pthread_create(&relief->thread, NULL, run, relief);
	relief->started = !err;
	if (err) {
		relief_free(relief);
		return err;
	}
	for (size_t i = 0; i < nr_streams; i++)
		streams[i]->storage = &relief->storage;
	*ret = relief;
	return 0;
}

void relief_stop(struct relief *relief)
{
	if (!relief || !relief->started)
		return;
	atomic_store_explicit(&relief->stop, true, memory_order_relaxed);
	set_timer(relief, 1);
	pthread_join(relief->thread, NULL);
	relief->started = false;
	for (size_t i = 0; i < relief->nr_streams; i++)
		relief->streams[i]->storage = NULL;
}

void relief_free(struct relief *relief)
{
	if (!relief)
		return;
	relief_stop(relief);
	if (relief->timer_fd >= 0)
		close(relief->timer_fd);
	pthread_mutex_destroy(&relief->lock);
	free(relief);
}

void relief_lock(struct relief *relief)
{
	if (relief)
		pthread_mutex_lock(&relief->lock);
}

void relief_unlock(struct relief *relief)
{
	if (!relief)
		return;
	pthread_mutex_unlock(&relief->lock);
	if (relief->armed)
		set_timer(relief, 0);
}

uint64_t relief_store_ns(const struct relief *relief)
{
	return relief ? relief->store_ns : 0;
}

struct thread_use relief_use(const struct relief *relief)
{
	return relief->use;
}
