/* SPDX-License-Identifier: MIT */
#include "record/run/end_status.h"

#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "stream/batch_pool.h"

enum { EACH_NS = 200000000, FIRST_NS = 1000000000 };

/* Bytes of batches that are not written yet: each counts with its full size. */
static uint64_t unwritten_bytes(struct batch_pool *pool)
{
	struct batch_pool_stats stats = batch_pool_stats(pool);

	return (uint64_t)(stats.nr_extents - stats.nr_free) * pool->extent_bytes;
}

/* The longer of the two is what the user waits for: storing; and behind it build-ids, copies of objects, the index. */
static void show(struct progress *progress, struct batch_pool *pool, uint64_t now_ns)
{
	uint64_t unwritten = unwritten_bytes(pool);

	if (!unwritten || unwritten > progress->total) {
		if (now_ns - progress->start_ns >= FIRST_NS)
			log_status("finishing the file: %.0f s", (double)(now_ns - progress->start_ns) / 1e9);
		return;
	}
	progress->done = progress->nr_records = progress->total - unwritten;
	progress_show(progress);
}

static void *run(void *ctx)
{
	struct end_status *status = ctx;
	struct progress progress = {.bytes = true, .total = unwritten_bytes(status->pool)};
	struct timespec until;

	progress_start(&progress, "storing what is in memory");
	clock_gettime(CLOCK_MONOTONIC, &until);
	pthread_mutex_lock(&status->lock);
	while (!status->stop) {
		until.tv_nsec += EACH_NS;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		if (pthread_cond_timedwait(&status->wake, &status->lock, &until) && !status->stop)
			show(&progress, status->pool, clock_ns(CLOCK_MONOTONIC));
	}
	pthread_mutex_unlock(&status->lock);
	progress_end(&progress);
	return NULL;
}

void end_status_start(struct end_status *status, struct batch_pool *pool)
{
	pthread_condattr_t attr;

	if (!isatty(STDERR_FILENO) || !pool)
		return;
	*status = (struct end_status){.pool = pool};
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&status->lock, NULL);
	pthread_cond_init(&status->wake, &attr);
	pthread_condattr_destroy(&attr);
	status->runs = !pthread_create(&status->thread, NULL, run, status);
}

void end_status_stop(struct end_status *status)
{
	if (!status->runs)
		return;
	pthread_mutex_lock(&status->lock);
	status->stop = true;
	pthread_cond_signal(&status->wake);
	pthread_mutex_unlock(&status->lock);
	pthread_join(status->thread, NULL);
	pthread_cond_destroy(&status->wake);
	pthread_mutex_destroy(&status->lock);
	status->runs = false;
}
