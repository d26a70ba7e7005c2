/* SPDX-License-Identifier: MIT */
/* thread_pool: each part of a job is done once, by any free worker, and before the job ends. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/thread_pool.h"

enum { PARTS = 1000, JOBS = 500, WORKERS = 4 };

struct job {
	const unsigned *from;
	unsigned done[PARTS]; /* not atomic: one worker writes a part, and it is read after the job */
	unsigned by_worker[WORKERS];
};

static void square(void *ctx, unsigned worker, unsigned part)
{
	struct job *job = ctx;

	job->done[part] += job->from[part] * job->from[part];
	job->by_worker[worker]++;
}

static void run_jobs(unsigned nr_workers, unsigned nr_tasks)
{
	struct thread_pool *thread_pool;
	struct job job = {0};
	unsigned from[PARTS], nr = 0;

	job.from = from;
	assert_int_equal(thread_pool_new(nr_workers, &thread_pool), 0);
	for (unsigned j = 0; j < JOBS; j++) {
		for (unsigned i = 0; i < nr_tasks; i++) {
			from[i] = i + j;
			job.done[i] = 0;
		}
		thread_pool_begin(thread_pool, square, &job, nr_tasks);
		thread_pool_finish(thread_pool);
		for (unsigned i = 0; i < nr_tasks; i++)
			assert_int_equal(job.done[i], (i + j) * (i + j));
	}
	thread_pool_free(thread_pool);
	for (unsigned worker = 0; worker < WORKERS; worker++)
		nr += job.by_worker[worker];
	assert_int_equal(nr, JOBS * nr_tasks);
}

static void each_part_is_done_once(void **state)
{
	(void)state;
	run_jobs(WORKERS, PARTS);
	run_jobs(2, PARTS);
	run_jobs(WORKERS, 3);
}

static void one_worker_does_all(void **state)
{
	(void)state;
	run_jobs(1, PARTS);
}

static void a_job_may_have_no_parts(void **state)
{
	(void)state;
	run_jobs(WORKERS, 0);
	run_jobs(WORKERS, 1);
}

/* Here by the same thread, so that it is certain who is first. */
static void a_helper_does_what_is_left(void **state)
{
	struct thread_pool *thread_pool;
	struct job job = {0};
	unsigned from[PARTS] = {0};

	(void)state;
	job.from = from;
	assert_int_equal(thread_pool_new(2, &thread_pool), 0);
	assert_false(thread_pool_help(thread_pool));
	for (unsigned j = 1; j <= JOBS; j++) {
		thread_pool_begin(thread_pool, square, &job, PARTS);
		assert_true(thread_pool_help(thread_pool));
		assert_int_equal(job.by_worker[1], j * PARTS);
		assert_false(thread_pool_help(thread_pool));
		thread_pool_finish(thread_pool);
		assert_false(thread_pool_help(thread_pool));
	}
	assert_int_equal(job.by_worker[0], 0);
	thread_pool_free(thread_pool);
}

struct helper {
	struct thread_pool *thread_pool;
	atomic_bool ended;
};

static void *come_and_go(void *ctx)
{
	struct helper *helper = ctx;

	while (!atomic_load(&helper->ended))
		if (!thread_pool_help(helper->thread_pool))
			sched_yield();
	return NULL;
}

static void a_helper_comes_and_goes(void **state)
{
	struct job job = {0};
	unsigned from[PARTS];
	struct helper helper = {0};
	pthread_t thread;

	(void)state;
	job.from = from;
	assert_int_equal(thread_pool_new(WORKERS, &helper.thread_pool), 0);
	assert_int_equal(pthread_create(&thread, NULL, come_and_go, &helper), 0);
	for (unsigned j = 0; j < JOBS; j++) {
		for (unsigned i = 0; i < PARTS; i++) {
			from[i] = i + j;
			job.done[i] = 0;
		}
		thread_pool_begin(helper.thread_pool, square, &job, PARTS);
		thread_pool_finish(helper.thread_pool);
		for (unsigned i = 0; i < PARTS; i++)
			assert_int_equal(job.done[i], (i + j) * (i + j));
	}
	atomic_store(&helper.ended, true);
	pthread_join(thread, NULL);
	thread_pool_free(helper.thread_pool);
}

static void it_ends_without_a_job(void **state)
{
	struct thread_pool *thread_pool;

	(void)state;
	assert_int_equal(thread_pool_new(WORKERS, &thread_pool), 0);
	thread_pool_free(thread_pool);
	thread_pool_free(NULL);
}

static void workers_are_as_many_as_cpus(void **state)
{
	cpu_set_t before, one;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	assert_in_range(thread_pool_useful_size(), 1, CPU_COUNT(&before));
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &before)) {
			CPU_SET(cpu, &one);
			break;
		}
	}
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(thread_pool_useful_size(), 1);
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_part_is_done_once),      cmocka_unit_test(one_worker_does_all),
		cmocka_unit_test(a_job_may_have_no_parts),     cmocka_unit_test(a_helper_does_what_is_left),
		cmocka_unit_test(a_helper_comes_and_goes),     cmocka_unit_test(it_ends_without_a_job),
		cmocka_unit_test(workers_are_as_many_as_cpus),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
