/* SPDX-License-Identifier: MIT */
/*
 * Extents are decompressed once, and rightly, by any that has time: threads, a helper, the caller, or all of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>

#include "compress/zstd.h"
#include "read/unpack_pool.h"
#include "tests/fake/test_data.h"

enum { NR_JOBS = 200, AHEAD = 5, BYTES = 40000 };

/* The helper is a thread of its own, which sleeps until it is wanted. */
struct visit {
	struct unpack_pool *pool;
	sem_t wanted;
	atomic_bool over;
	size_t nr_helped;
};

static void want(void *ctx)
{
	struct visit *visit = ctx;

	sem_post(&visit->wanted);
}

static void *help(void *ctx)
{
	struct visit *visit = ctx;

	for (;;) {
		sem_wait(&visit->wanted);
		if (atomic_load(&visit->over))
			return NULL;
		while (unpack_pool_help(visit->pool))
			visit->nr_helped++;
	}
}

MAKES_TEST_DATA static void fill_plain(uint8_t plain[BYTES], unsigned nr)
{
	for (size_t i = 0; i < BYTES; i++)
		plain[i] = (uint8_t)(i / (nr + 1) + nr);
}

static struct unpack_job *job_new(struct zstd_packer *packer, unsigned nr)
{
	const struct zstd_pack_params params = {.level = 1};
	struct unpack_job *job = calloc(1, sizeof(*job));
	uint8_t *plain = malloc(BYTES);

	assert_true(job && plain);
	fill_plain(plain, nr);
	job->packed_room = zstd_bound(BYTES);
	job->packed = malloc(job->packed_room);
	job->to = plain;
	job->bytes = BYTES;
	int64_t len = zstd_pack(packer, &params, (struct span){plain, BYTES}, job->packed, job->packed_room);
	assert_true(len > 0);
	job->packed_len = (size_t)len;
	memset(plain, 0, BYTES);
	return job;
}

static void job_end(struct unpack_job *job, unsigned nr)
{
	static uint8_t expected[BYTES];

	fill_plain(expected, nr);
	assert_int_equal(job->got, BYTES);
	assert_int_equal(memcmp(job->to, expected, BYTES), 0); /* which TSan sees, other than what cmocka reads */
	free(job->packed);
	free(job->to);
	free(job);
}

/* As a source does: some ahead, awaited in order. */
static void give_and_await(struct unpack_pool *pool)
{
	struct unpack_job *jobs[NR_JOBS];
	struct zstd_packer *packer;

	assert_int_equal(zstd_packer_new(&packer), 0);
	for (unsigned i = 0; i < NR_JOBS + AHEAD; i++) {
		if (i < NR_JOBS) {
			jobs[i] = job_new(packer, i);
			unpack_pool_submit(pool, jobs[i]);
		}
		if (i >= AHEAD) {
			unpack_pool_wait(pool, jobs[i - AHEAD]);
			job_end(jobs[i - AHEAD], i - AHEAD);
		}
	}
	zstd_packer_free(packer);
}

static void with(size_t nr_threads, bool helper)
{
	struct visit visit = {0};
	pthread_t thread;

	assert_int_equal(unpack_pool_new(nr_threads, &visit.pool), 0);
	if (helper) {
		assert_int_equal(sem_init(&visit.wanted, 0, 0), 0);
		unpack_pool_set_helper(visit.pool, &(struct unpack_helper){want, &visit});
		assert_int_equal(pthread_create(&thread, NULL, help, &visit), 0);
	}
	give_and_await(visit.pool);
	if (helper) {
		atomic_store(&visit.over, true);
		sem_post(&visit.wanted);
		pthread_join(thread, NULL);
		sem_destroy(&visit.wanted);
		assert_true(visit.nr_helped <= (nr_threads ? NR_JOBS : 0));
		unpack_pool_set_helper(visit.pool, &(struct unpack_helper){0});
		give_and_await(visit.pool);
	}
	unpack_pool_free(visit.pool);
}

static void test_by_threads(void **state)
{
	(void)state;
	with(1, false);
	with(3, false);
}

static void test_by_who_awaits(void **state)
{
	(void)state;
	with(0, false);
	with(0, true); /* one CPU: a helper would take it from us */
}

static void test_by_a_guest(void **state)
{
	(void)state;
	with(1, true); /* in place of the thread */
	with(3, true);
}

/* The helper does what it is wanted for, when no other thread does. */
static void test_guest_does_them(void **state)
{
	struct visit visit = {0};
	struct zstd_packer *packer;
	struct unpack_job *job;

	(void)state;
	assert_int_equal(zstd_packer_new(&packer), 0);
	assert_int_equal(sem_init(&visit.wanted, 0, 0), 0);
	assert_int_equal(unpack_pool_new(1, &visit.pool), 0);
	unpack_pool_set_helper(visit.pool, &(struct unpack_helper){want, &visit});
	assert_false(unpack_pool_help(visit.pool));
	job = job_new(packer, 7);
	unpack_pool_submit(visit.pool, job);
	assert_int_equal(sem_trywait(&visit.wanted), 0);
	assert_true(unpack_pool_help(visit.pool));
	assert_false(unpack_pool_help(visit.pool));
	unpack_pool_wait(visit.pool, job);
	job_end(job, 7);
	unpack_pool_free(visit.pool);
	sem_destroy(&visit.wanted);
	zstd_packer_free(packer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_threads),
		cmocka_unit_test(test_by_who_awaits),
		cmocka_unit_test(test_by_a_guest),
		cmocka_unit_test(test_guest_does_them),
	};

	if (!zstd_available())
		return 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
