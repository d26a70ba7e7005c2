/* SPDX-License-Identifier: MIT */
#include "read/unpack_pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/thread_pool.h"
#include "compress/zstd.h"

struct unpack_pool {
	pthread_mutex_t lock;
	pthread_cond_t work, job_done;
	struct unpack_job *first, *last; /* under the lock, as is `done` of a job that was given */
	bool stop;
	struct zstd_unpacker *own; /* of who gives and awaits */
	struct zstd_unpacker *helper_unpacker;
	struct unpack_helper helper;
	size_t nr, nr_wanted; /* threads; not changed by them */
	pthread_t threads[];
};

size_t unpack_pool_useful_size(void)
{
	return thread_pool_useful_size() - 1; /* who awaits works as well */
}

static void unpack(struct zstd_unpacker *unpacker, struct unpack_job *job)
{
	const struct span frame = {job->packed, job->packed_len};

	job->got = unpacker ? zstd_unpack_frame(unpacker, frame, job->to, job->bytes) : -ENOMEM;
	if (job->got >= 0 && (uint64_t)job->got != job->bytes)
		job->got = -EBADMSG;
}

static struct unpack_job *take_first(struct unpack_pool *pool)
{
	struct unpack_job *job = pool->first;

	pool->first = job->next;
	if (!pool->first)
		pool->last = NULL;
	return job;
}

/* Under the lock, which is released while it works. false: all jobs are begun. */
static bool do_one(struct unpack_pool *pool, struct zstd_unpacker *unpacker)
{
	if (!pool->first)
		return false;
	struct unpack_job *job = take_first(pool);
	pthread_mutex_unlock(&pool->lock);
	unpack(unpacker, job);
	pthread_mutex_lock(&pool->lock);
	job->done = true;
	return true;
}

static void *work(void *arg)
{
	struct unpack_pool *pool = arg;
	struct zstd_unpacker *unpacker = NULL;

	if (zstd_unpacker_new(&unpacker))
		return NULL; /* no memory: the thread that waits does the jobs */
	pthread_mutex_lock(&pool->lock);
	for (;;) {
		while (!pool->first && !pool->stop)
			pthread_cond_wait(&pool->work, &pool->lock);
		if (!pool->first)
			break;
		do_one(pool, unpacker);
		pthread_cond_signal(&pool->job_done); /* one thread waits at most */
	}
	pthread_mutex_unlock(&pool->lock);
	zstd_unpacker_free(unpacker);
	return NULL;
}

int unpack_pool_new(size_t nr, struct unpack_pool **ret)
{
	struct unpack_pool *pool = calloc(1, sizeof(*pool) + nr * sizeof(pool->threads[0]));
	int err = pool ? 0 : -ENOMEM;

	if (!err && (err = zstd_unpacker_new(&pool->own)))
		free(pool);
	if (err)
		return err;
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->work, NULL);
	pthread_cond_init(&pool->job_done, NULL);
	pool->nr_wanted = nr;
	*ret = pool;
	return 0;
}

/* Those that cannot be had are done without. */
static void start(struct unpack_pool *pool)
{
	while (pool->nr < pool->nr_wanted && !thread_start(&pool->threads[pool->nr], work, pool))
		pool->nr++;
	pool->nr_wanted = 0;
}

void unpack_pool_free(struct unpack_pool *pool)
{
	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->stop = true;
	pthread_cond_broadcast(&pool->work);
	pthread_mutex_unlock(&pool->lock);
	for (size_t i = 0; i < pool->nr; i++)
		pthread_join(pool->threads[i], NULL);
	pthread_cond_destroy(&pool->job_done);
	pthread_cond_destroy(&pool->work);
	pthread_mutex_destroy(&pool->lock);
	zstd_unpacker_free(pool->helper_unpacker);
	zstd_unpacker_free(pool->own);
	free(pool);
}

void unpack_pool_set_helper(struct unpack_pool *pool, const struct unpack_helper *helper)
{
	bool has_threads = pool->nr || pool->nr_wanted;

	if (!helper->wanted) {
		pool->helper = *helper;
		return;
	}
	if (!has_threads || (!pool->helper_unpacker && zstd_unpacker_new(&pool->helper_unpacker)))
		return;
	pool->helper = *helper;
	if (pool->nr_wanted)
		pool->nr_wanted--;
}

void unpack_pool_submit(struct unpack_pool *pool, struct unpack_job *job)
{
	if (pool->nr_wanted)
		start(pool);
	job->next = NULL;
	job->done = !pool->nr && !pool->helper.wanted;
	if (job->done) {
		unpack(pool->own, job);
		return;
	}
	pthread_mutex_lock(&pool->lock);
	if (pool->last)
		pool->last->next = job;
	else
		pool->first = job;
	pool->last = job;
	pthread_cond_signal(&pool->work);
	pthread_mutex_unlock(&pool->lock);
	if (pool->helper.wanted)
		pool->helper.wanted(pool->helper.ctx);
}

bool unpack_pool_help(struct unpack_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	bool helped = do_one(pool, pool->helper_unpacker);
	pthread_cond_signal(&pool->job_done);
	pthread_mutex_unlock(&pool->lock);
	return helped;
}

void unpack_pool_wait(struct unpack_pool *pool, struct unpack_job *job)
{
	pthread_mutex_lock(&pool->lock);
	while (!job->done)
		if (!do_one(pool, pool->own))
			pthread_cond_wait(&pool->job_done, &pool->lock);
	pthread_mutex_unlock(&pool->lock);
}
