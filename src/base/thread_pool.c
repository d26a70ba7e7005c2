/* SPDX-License-Identifier: MIT */
#include "base/thread_pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/cpuset.h"

enum { WORKERS_MAX = 8 };

enum { CALLER, HELPER, FIRST_THREAD }; /* workers */

struct thread_pool {
	pthread_mutex_t lock; /* of all that follows up to `threads`, but for `next` */
	pthread_cond_t begun, left;
	thread_pool_task *task;
	void *ctx;
	unsigned nr_tasks;
	atomic_uint next; /* the lowest task that was not begun */
	bool open;        /* threads may join */
	bool stop;
	unsigned nr_joined, nr_named;
	unsigned nr_threads; /* not changed by them */
	pthread_t threads[];
};

unsigned thread_pool_useful_size(void)
{
	unsigned nr = cpuset_count_allowed();

	return nr > WORKERS_MAX ? WORKERS_MAX : nr;
}

int thread_start(pthread_t *ret, void *(*run)(void *ctx), void *ctx)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int err = pthread_create(ret, NULL, run, ctx);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

/* Of the job that is on, if one is. */
static bool has_tasks(struct thread_pool *pool)
{
	return pool->open && atomic_load_explicit(&pool->next, memory_order_relaxed) < pool->nr_tasks;
}

static void do_tasks(struct thread_pool *pool, unsigned worker)
{
	/* Relaxed: it only tells them apart; the lock makes what they read and write visible. */
	for (unsigned number;
	     (number = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed)) < pool->nr_tasks;)
		pool->task(pool->ctx, worker, number);
}

/* Under the lock, which is released while it works. */
static void join(struct thread_pool *pool, unsigned worker)
{
	pool->nr_joined++;
	pthread_mutex_unlock(&pool->lock);
	do_tasks(pool, worker);
	pthread_mutex_lock(&pool->lock);
	if (!--pool->nr_joined)
		pthread_cond_signal(&pool->left);
}

static void *work(void *ctx)
{
	struct thread_pool *pool = ctx;

	pthread_mutex_lock(&pool->lock);
	unsigned worker = FIRST_THREAD + pool->nr_named++;
	for (;;) {
		while (!pool->stop && !has_tasks(pool))
			pthread_cond_wait(&pool->begun, &pool->lock);
		if (pool->stop)
			break;
		join(pool, worker);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

static void start(struct thread_pool *pool, unsigned nr)
{
	while (pool->nr_threads < nr && !thread_start(&pool->threads[pool->nr_threads], work, pool))
		pool->nr_threads++;
}

int thread_pool_new(unsigned nr_workers, struct thread_pool **ret)
{
	unsigned nr_threads = nr_workers > FIRST_THREAD ? nr_workers - FIRST_THREAD : 0;
	struct thread_pool *pool = calloc(1, sizeof(*pool) + nr_threads * sizeof(pool->threads[0]));

	if (!pool)
		return -ENOMEM;
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->begun, NULL);
	pthread_cond_init(&pool->left, NULL);
	start(pool, nr_threads);
	*ret = pool;
	return 0;
}

void thread_pool_free(struct thread_pool *pool)
{
	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->stop = true;
	pthread_cond_broadcast(&pool->begun);
	pthread_mutex_unlock(&pool->lock);
	for (unsigned i = 0; i < pool->nr_threads; i++)
		pthread_join(pool->threads[i], NULL);
	pthread_cond_destroy(&pool->left);
	pthread_cond_destroy(&pool->begun);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

void thread_pool_begin(struct thread_pool *pool, thread_pool_task *task, void *ctx, unsigned nr_tasks)
{
	pthread_mutex_lock(&pool->lock);
	pool->task = task;
	pool->ctx = ctx;
	pool->nr_tasks = nr_tasks;
	atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
	pool->open = true;
	if (nr_tasks > pool->nr_threads)
		pthread_cond_broadcast(&pool->begun);
	for (unsigned i = 1; i < nr_tasks && nr_tasks <= pool->nr_threads; i++) /* one is the caller's */
		pthread_cond_signal(&pool->begun);
	pthread_mutex_unlock(&pool->lock);
}

bool thread_pool_help(struct thread_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	bool helps = has_tasks(pool);
	if (helps)
		join(pool, HELPER);
	pthread_mutex_unlock(&pool->lock);
	return helps;
}

void thread_pool_finish(struct thread_pool *pool)
{
	do_tasks(pool, CALLER);
	pthread_mutex_lock(&pool->lock);
	pool->open = false;
	while (pool->nr_joined)
		pthread_cond_wait(&pool->left, &pool->lock);
	pthread_mutex_unlock(&pool->lock);
}
