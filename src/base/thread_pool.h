/* SPDX-License-Identifier: MIT */
/*
 * thread_pool: threads that do the tasks of a job side by side with the caller, and with a helper: a thread that has
 * work of its own and does tasks while it must wait. One owner (thread_pool_free), used by one thread at a time but for
 * thread_pool_help().
 */
#pragma once

#include <stdbool.h>

struct thread_pool;

/*
 * Task number `task` of a job. `worker`: which thread does it, below nr_workers; 0: the caller of thread_pool_finish(),
 * 1: the helper.
 */
typedef void thread_pool_task(void *ctx, unsigned worker, unsigned task);

/* As many workers as there are CPUs for this thread, 8 at most; at least 1. */
unsigned thread_pool_useful_size(void);

/*
 * `nr_workers`: with the caller and the helper, at least 1. A thread that cannot be created is left out, and a helper
 * that never comes is no error. 0 or -ENOMEM.
 */
int thread_pool_new(unsigned nr_workers, struct thread_pool **ret);
void thread_pool_free(struct thread_pool *pool); /* NULL is fine */

/*
 * A job: tasks 0 to nr_tasks - 1, each done once, begun in ascending order. From here to thread_pool_finish(), which
 * does tasks as well and returns when all are done, others may join. A thread that gets no CPU in time delays nothing:
 * the others do its tasks. What the caller wrote before is visible to all tasks, and what they wrote to the caller. Not
 * from within a task.
 */
void thread_pool_begin(struct thread_pool *pool, thread_pool_task *task, void *ctx, unsigned nr_tasks);
void thread_pool_finish(struct thread_pool *pool);

/* By the helper, at any time: does tasks until all are begun. false: there was none. */
bool thread_pool_help(struct thread_pool *pool);
