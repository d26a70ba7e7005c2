/* SPDX-License-Identifier: MIT */
/*
 * thread_pool: threads that do the tasks of a job in parallel. The caller of thread_pool_finish() does tasks, too, and
 * so does the helper: a thread with other work that calls thread_pool_help() while it would have to wait. One owner
 * (thread_pool_free); all functions but thread_pool_help() are called by one thread at a time.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

struct thread_pool;

/*
 * Does task number `task` of a job. `worker` is the number of the thread that runs it, from 0 to nr_workers - 1: 0 is
 * the caller of thread_pool_finish(), 1 is the helper.
 */
typedef void thread_pool_task(void *ctx, unsigned worker, unsigned task);

/* A thread that gets no signals: they are for those that were there. 0, or an error as of pthread_create(3). */
int thread_start(pthread_t *ret, void *(*run)(void *ctx), void *ctx);

/* As many workers as there are CPUs for this thread, 8 at most; at least 1. */
unsigned thread_pool_useful_size(void);

/*
 * `nr_workers`: at least 1; the caller and the helper count as workers, the others are threads of the pool. It is no
 * error when a thread cannot be created or when the helper never calls. 0 or -ENOMEM.
 */
int thread_pool_new(unsigned nr_workers, struct thread_pool **ret);
void thread_pool_free(struct thread_pool *pool); /* NULL is fine */

/*
 * Starts a job: tasks 0 to nr_tasks - 1, each done once, begun in ascending order. thread_pool_finish() does tasks as
 * well, and returns when all are done. Each thread takes the next task when it is free, so a thread that gets no CPU
 * delays only the task it is in. Memory that the caller wrote before thread_pool_begin() is visible to all tasks, and
 * what the tasks write is visible to the caller after thread_pool_finish(). Must not be called by a task.
 */
void thread_pool_begin(struct thread_pool *pool, thread_pool_task *task, void *ctx, unsigned nr_tasks);
void thread_pool_finish(struct thread_pool *pool);

/* Called by the helper, at any time: does tasks until all have been begun. false: there was no task to do. */
bool thread_pool_help(struct thread_pool *pool);
