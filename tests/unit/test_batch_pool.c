/* SPDX-License-Identifier: MIT */
/* The memory between draining and writing: how much, in which pieces, and what is done when it runs short. */
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/diag.h"
#include "compress/extent.h"
#include "compress/stack_cut.h"
#include "compress/zstd.h"
#include "stream/batch_job.h"
#include "stream/batch_pool.h"

enum { PAGE = 4096, MIB = 1 << 20 };

static struct {
	unsigned maps_left, threads_left; /* until one fails; 0: none does */
	int64_t mapped_bytes;
	atomic_uint nr_realtime;
} system_calls;

/* Instead of libc's. */
void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	if (system_calls.maps_left && !--system_calls.maps_left) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	if (!(flags & MAP_FIXED))
		system_calls.mapped_bytes += (int64_t)bytes;
	return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

int munmap(void *at, size_t bytes)
{
	system_calls.mapped_bytes -= (int64_t)bytes;
	return (int)syscall(SYS_munmap, at, bytes);
}

int sched_setscheduler(pid_t pid, int policy, const struct sched_param *param)
{
	system_calls.nr_realtime += !pid && policy == (SCHED_FIFO | SCHED_RESET_ON_FORK) && param->sched_priority == 1;
	return 0;
}

static _Atomic uint64_t worker_ns; /* of the thread that was asked last */

/* Each thread has used a microsecond more each time that it is asked. */
int clock_gettime(clockid_t clock, struct timespec *ret)
{
	static _Thread_local uint64_t thread_ns;

	if (clock != CLOCK_THREAD_CPUTIME_ID)
		return (int)syscall(SYS_clock_gettime, clock, ret);
	worker_ns = thread_ns += 1000;
	*ret = (struct timespec){.tv_nsec = (long)thread_ns};
	return 0;
}

/* The linker puts this in the place of libc's (--wrap). */
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	if (system_calls.threads_left && !--system_calls.threads_left)
		return EAGAIN;
	return __real_pthread_create(thread, attr, run, arg);
}

static struct batch_pool *new_pool(const struct batch_pool_params *params)
{
	struct batch_pool *pool;

	assert_int_equal(batch_pool_new(params, &pool, NULL), 0);
	return pool;
}

/* Whatever is asked for: each stage can fill an extent, one more is left, and the rest is what was set. */
static void test_how_much_memory(void **state)
{
	static const size_t budgets[] = {0, 1 * MIB, 8 * MIB, 64 * MIB, 256 * MIB}, stages[] = {1, 2, 7, 64},
			    workers[] = {1, 4, 5, 8};

	(void)state;
	for (int level = 0; level < (zstd_available() ? 2 : 1); level++) {
		for (size_t i = 0; i < 5 * 4 * 4 * 2; i++) {
			const struct batch_pool_params params = {.level = level,
								 .budget_bytes = budgets[i % 5],
								 .nr_pipelines = stages[i / 5 % 4],
								 .nr_workers = workers[i / 20 % 4],
								 .no_index = i / 80};
			struct batch_pool *pool = new_pool(&params);
			size_t rest = (pool->nr_jobs - params.nr_pipelines - 1) * pool->extent_bytes;
			size_t budget = params.budget_bytes ? params.budget_bytes : 64 * MIB;
			assert_true(pool->nr_jobs > params.nr_pipelines + 1);
			assert_true(rest <= budget || (!params.budget_bytes && rest == 8 * pool->extent_bytes));
			assert_true(rest > budget - pool->extent_bytes);
			assert_int_equal(pool->extent_bytes % PAGE, 0);
			if (!params.no_index) /* an extent is worth its entry in the index */
				assert_true(pool->extent_bytes >= EXTENT_BYTES_SMALL);
			assert_int_equal(pool->nr_workers, level || params.nr_workers < params.nr_pipelines
								   ? params.nr_workers
								   : params.nr_pipelines);
			assert_int_equal(atomic_load(&pool->nr_free), pool->nr_jobs);
			batch_pool_free(pool);
		}
	}
}

/* Of a bound for all no more is taken, and nearly all of it, but where it is too little for the smallest batches. */
static void test_bound_of_all(void **state)
{
	static const size_t bounds[] = {1 * MIB, 8 * MIB, 32 * MIB, 200 * MIB, 1024 * MIB}, stages[] = {2, 4, 14, 64},
			    workers[] = {1, 5};

	(void)state;
	for (int level = 0; level < (zstd_available() ? 2 : 1); level++) {
		for (size_t i = 0; i < 5 * 4 * 2 * 2; i++) {
			const struct batch_pool_params params = {.level = level,
								 .budget_bytes = bounds[i % 5],
								 .bounds_all = true,
								 .nr_pipelines = stages[i / 5 % 4],
								 .nr_workers = workers[i / 20 % 2],
								 .no_index = i / 40};
			struct batch_pool *pool = new_pool(&params);
			size_t nr_beside = pool->nr_jobs - params.nr_pipelines - 1;
			size_t smallest = params.no_index ? 256 << 10 : EXTENT_BYTES_SMALL;
			if (nr_beside >= 8 && params.budget_bytes >= 2 * (params.nr_pipelines + 8) * smallest)
				assert_true(pool->memory_bytes <= params.budget_bytes &&
					    pool->memory_bytes >= params.budget_bytes / 4 * 3);
			assert_true(nr_beside > 0);
			batch_pool_free(pool);
		}
	}
}

/* What is only written goes in large pieces; many stages have smaller ones, so that none of them has it all. */
static void test_sizes_of_batches(void **state)
{
	static const struct {
		size_t budget_bytes, nr_pipelines, batch_kib;
	} cases[] = {{0, 1, 1024}, {256 * MIB, 1, 4096}, {512 * MIB, 1, 4096}, {128 * MIB, 1, 2048},
		     {0, 2, 512},  {0, 4, 256},          {0, 64, 256}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct batch_pool_params params = {
			.budget_bytes = cases[i].budget_bytes, .nr_pipelines = cases[i].nr_pipelines, .no_index = true};
		struct batch_pool *pool = new_pool(&params);
		/* With the page that a batch may begin in, and the one that it ends in. */
		assert_int_equal(pool->extent_bytes + 2 * PAGE, cases[i].batch_kib << 10);
		batch_pool_free(pool);
	}
}

/* As large as the level asks for; smaller beside many workers, or where what was set, or many stages, leave less. */
static void test_sizes_of_extents(void **state)
{
	static const struct {
		int level;
		size_t budget_mib, nr_workers, nr_pipelines, kib, nr_jobs;
	} cases[] = {
		{1, 0, 4, 1, 4096, 1 + 16 + 1},
		{1, 0, 5, 1, 1024, 1 + 64 + 1},
		{3, 0, 4, 1, 8192, 1 + 8 + 1},
		{9, 0, 4, 1, EXTENT_BYTES_MAX >> 10, 1 + 8 + 1}, /* more memory than else, for 8 of them */
		{9, 0, 5, 1, EXTENT_BYTES_MAX >> 12, 1 + 16 + 1},
		{9, 64, 4, 1, 8192, 1 + 8 + 1},
		{1, 32, 4, 1, 4096, 1 + 8 + 1},
		{1, 31, 4, 1, 3968, 1 + 8 + 1},
		{1, 0, 4, 31, 2048, 31 + 32 + 1},
		{1, 0, 4, 63, 1024, 63 + 64 + 1},
	};

	(void)state;
	if (!zstd_available())
		skip();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct batch_pool *pool =
			new_pool(&(struct batch_pool_params){.level = cases[i].level,
							     .budget_bytes = cases[i].budget_mib * MIB,
							     .nr_workers = cases[i].nr_workers,
							     .nr_pipelines = cases[i].nr_pipelines});
		assert_int_equal(pool->extent_bytes, cases[i].kib << 10);
		assert_int_equal(pool->nr_jobs, cases[i].nr_jobs);
		assert_int_equal(pool->nr_workers, cases[i].nr_workers);
		batch_pool_free(pool);
	}
	/* There is an end to the number of threads, whatever is asked for. */
	struct batch_pool *pool = new_pool(&(struct batch_pool_params){
		.nr_workers = 33, .nr_pipelines = 64, .no_index = true, .extent_bytes = 64 << 10, .budget_bytes = MIB});
	assert_int_equal(pool->nr_workers, 32);
	batch_pool_free(pool);
}

/* Each has memory of its own, all of it; what is given back can be taken again. */
static void test_pieces_do_not_overlap(void **state)
{
	const struct batch_pool_params params = {
		.nr_pipelines = 2, .extent_bytes = 64 << 10, .budget_bytes = MIB, .ready_bytes = MIB};
	struct batch_pool *pool = new_pool(&params);
	struct batch_job *jobs[32];
	size_t nr = 0;

	(void)state;
	assert_int_equal(pool->nr_jobs, 2 + 16 + 1);
	while ((jobs[nr] = batch_pool_take(pool, NULL))) {
		assert_int_equal(jobs[nr]->batch.room, 64 << 10);
		memset(jobs[nr]->memory, (int)nr + 1, jobs[nr]->batch.room + PAGE);
		assert_int_equal(batch_pool_stats(pool).nr_free, pool->nr_jobs - ++nr);
		assert_int_equal(batch_pool_is_short(pool), pool->nr_jobs - nr <= pool->nr_jobs / 4);
	}
	assert_int_equal(nr, pool->nr_jobs);
	for (size_t i = 0; i < nr; i++)
		for (size_t k = 0; k < jobs[i]->batch.room + PAGE; k += 512)
			assert_int_equal(jobs[i]->memory[k], i + 1);
	for (size_t i = nr; i-- > 0;) {
		pthread_mutex_lock(&pool->lock);
		batch_pool_put(pool, jobs[i]);
		pthread_mutex_unlock(&pool->lock);
		assert_int_equal(batch_pool_stats(pool).nr_free, nr - i);
	}
	assert_non_null(batch_pool_take(pool, NULL));
	batch_pool_stop(pool);
	assert_int_equal(pool->totals.most_bytes, nr * (64 << 10)); /* all of it at once */
	batch_pool_free(pool);
}

/* Of the memory of all batches, in bytes. */
static size_t resident_bytes(const struct batch_pool *pool)
{
	struct {
		uint8_t *start;
		size_t bytes;
	} const parts[] = {{pool->memory, pool->memory_bytes},
			   {pool->spare_memory, pool->nr_spare * (pool->memory_bytes / pool->nr_jobs)}};
	size_t nr = 0;

	for (size_t i = 0; i < 2; i++) {
		size_t nr_pages = (parts[i].bytes + PAGE - 1) / PAGE;
		unsigned char *pages = malloc(nr_pages);
		assert_non_null(pages);
		assert_int_equal(mincore(parts[i].start, parts[i].bytes, pages), 0);
		for (size_t k = 0; k < nr_pages; k++)
			nr += pages[k] & 1;
		free(pages);
	}
	return nr * PAGE;
}

static void put_all(struct batch_pool *pool, struct batch_job **jobs, size_t nr)
{
	pthread_mutex_lock(&pool->lock);
	for (size_t i = 0; i < nr; i += 2)
		batch_pool_put(pool, jobs[i]);
	for (size_t i = 1; i < nr; i += 2)
		batch_pool_put(pool, jobs[i]);
	pthread_mutex_unlock(&pool->lock);
	assert_int_equal(atomic_load(&pool->nr_free), pool->nr_jobs);
	assert_int_equal(atomic_load(&pool->nr_spare_used), 0);
	assert_int_equal(atomic_load(&pool->saved_bytes), 0);
}

/* All batches are taken, and written to. Returns how many. */
static size_t fill_all(struct batch_pool *pool, struct batch_job **jobs)
{
	size_t nr = 0;

	for (; (jobs[nr] = batch_pool_take(pool, NULL)); nr++) {
		memset(jobs[nr]->memory, 1, jobs[nr]->batch.room);
		memcpy(jobs[nr]->memory, &nr, sizeof(nr));
	}
	for (size_t i = 0; i < nr; i++)
		assert_memory_equal(jobs[i]->memory, &i, sizeof(i));
	return nr;
}

/* Memory that was full once is given back when it was not needed for two periods of ten seconds. */
static void test_memory_is_given_back(void **state)
{
	enum { BATCH = 256 << 10, NR = 2 + 255, WARM = 16 * MIB, AT_ONCE = 16 };
	const uint64_t period_ns = 10000000000;
	const struct batch_pool_params params = {
		.nr_pipelines = 1, .extent_bytes = BATCH, .budget_bytes = (NR - 2) * BATCH};
	struct batch_pool *pool = new_pool(&params);
	struct batch_job *jobs[NR + 1];
	size_t nr = fill_all(pool, jobs);

	(void)state;
	const size_t batch_bytes = pool->memory_bytes / pool->nr_jobs, all_bytes = resident_bytes(pool);
	batch_pool_give_back(NULL, 1);
	assert_int_equal(nr, NR);
	batch_pool_give_back(pool, 1);
	put_all(pool, jobs, nr);
	batch_pool_give_back(pool, 1 + period_ns); /* it was needed in the last one, */
	assert_int_equal(resident_bytes(pool), all_bytes);
	for (size_t i = 0; i < NR / 2; i++)
		jobs[i] = batch_pool_take(pool, NULL);
	put_all(pool, jobs, NR / 2);
	batch_pool_give_back(pool, 2 * period_ns); /* and in the last but one */
	assert_int_equal(resident_bytes(pool), all_bytes);
	batch_pool_give_back(pool, 1 + 2 * period_ns);
	assert_int_equal(resident_bytes(pool), all_bytes);
	batch_pool_give_back(pool, 1 + 3 * period_ns); /* a part at a time: some milliseconds of work */
	assert_in_range(resident_bytes(pool), all_bytes - AT_ONCE * batch_bytes, all_bytes - AT_ONCE * BATCH);
	for (unsigned i = 0; i < NR / AT_ONCE; i++)
		batch_pool_give_back(pool, 2 + 4 * period_ns);
	assert_in_range(resident_bytes(pool), WARM - batch_bytes, WARM + batch_bytes);
	assert_int_equal(batch_pool_stats(pool).nr_free, NR);
	/* The first ones come first, and all of them are there. */
	const size_t nr_warm = WARM / batch_bytes;
	for (size_t i = 0; i < nr_warm; i++)
		assert_true((jobs[i] = batch_pool_take(pool, NULL))->number < nr_warm);
	put_all(pool, jobs, nr_warm);
	assert_int_equal(fill_all(pool, jobs), NR);
	assert_false(batch_pool_has_free(pool));
	put_all(pool, jobs, NR);
	for (unsigned i = 0; i < NR; i++) /* needed just now */
		batch_pool_give_back(pool, 3 + 4 * period_ns);
	assert_int_equal(resident_bytes(pool), all_bytes);
	batch_pool_free(pool);
}

/* What batches that wait for the output do not need is used for others: in bytes the memory is never more. */
static void test_memory_is_bounded_in_bytes(void **state)
{
	enum { BYTES = 256 << 10, LEFT = 5000, BUDGET = 64 * MIB };
	const struct batch_pool_params params = {
		.nr_pipelines = 1, .extent_bytes = BYTES, .budget_bytes = BUDGET, .spares = true};
	struct batch_pool *pool = new_pool(&params);
	size_t nr = 0, nr_whole = 0;

	(void)state;
	const size_t most = pool->nr_jobs + pool->nr_spare;
	struct batch_job **jobs = calloc(most + 1, sizeof(struct batch_job *)); /* and the NULL behind the last */
	assert_non_null(jobs);
	for (unsigned round = 0; round < 2; round++) {
		pool->nr_unwritten = pool->nr_jobs / 8 + 1;
		for (nr = nr_whole = 0; (jobs[nr] = batch_pool_take(pool, NULL)); nr++) {
			memset(jobs[nr]->batch.records, (int)nr % 251, BYTES);
			batch_pool_shrink(pool, jobs[nr], LEFT);
			nr_whole += !jobs[nr]->saved;
		}
		assert_true(nr > 6 * pool->nr_jobs);
		assert_true(nr_whole <= pool->nr_jobs / 8); /* it is not worth while earlier */
		assert_true(resident_bytes(pool) <= pool->memory_bytes);
		for (size_t i = 0; i < nr; i++)
			for (size_t k = 0; k < LEFT; k++)
				assert_int_equal(jobs[i]->batch.records[k], i % 251);
		put_all(pool, jobs, nr);
		assert_true(resident_bytes(pool) <= pool->memory_bytes);
	}
	free(jobs);
	batch_pool_free(pool);
}

/* As many as there are: they are full, or there are few, or address space is scarce, or others than the output are
 * late. */
static void test_batches_that_do_not_shrink(void **state)
{
	(void)state;
	static const struct {
		size_t budget_mib, left_kib;
		bool spares, writes;
	} ways[] = {{64, 250, true, false}, {8, 1, true, false}, {64, 1, false, false}, {64, 1, true, true}};

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct batch_pool *pool = new_pool(&(struct batch_pool_params){.nr_pipelines = 1,
									       .extent_bytes = 256 << 10,
									       .budget_bytes = ways[i].budget_mib * MIB,
									       .spares = ways[i].spares});
		pool->nr_unwritten = ways[i].writes ? pool->nr_jobs / 8 : pool->nr_jobs;
		struct batch_job *job;
		size_t nr = 0;

		for (; (job = batch_pool_take(pool, NULL)); nr++)
			batch_pool_shrink(pool, job, ways[i].left_kib << 10);
		assert_int_equal(nr, pool->nr_jobs);
		batch_pool_free(pool);
	}
}

/* A stage puts more into a batch that was shrunk: what it saves is less then, and the bound holds. */
static void test_a_batch_grows_after_it_was_shrunk(void **state)
{
	enum { BYTES = 256 << 10 };
	struct batch_pool *pool = new_pool(&(struct batch_pool_params){
		.nr_pipelines = 1, .extent_bytes = BYTES, .budget_bytes = 64 * MIB, .spares = true});
	struct batch_job **jobs = calloc(pool->nr_jobs + pool->nr_spare + 1, sizeof(struct batch_job *));
	size_t nr = 0;

	(void)state;
	assert_non_null(jobs);
	pool->nr_unwritten = pool->nr_jobs;
	for (; (jobs[nr] = batch_pool_take(pool, NULL)); nr++) {
		batch_pool_shrink(pool, jobs[nr], 5000);
		memset(jobs[nr]->batch.records, 1, BYTES);
		batch_pool_shrink(pool, jobs[nr], nr % 2 ? BYTES : BYTES / 2);
	}
	assert_true(nr < 2 * pool->nr_jobs);
	assert_true(resident_bytes(pool) <= pool->memory_bytes + 2 * BYTES);
	put_all(pool, jobs, nr);
	free(jobs);
	batch_pool_free(pool);
}

/* The first of few large batches takes long: others need not wait in order to see it. */
static void test_the_output_takes_long(void **state)
{
	enum { BYTES = 256 << 10 };
	struct batch_pool *pool = new_pool(&(struct batch_pool_params){
		.nr_pipelines = 1, .extent_bytes = BYTES, .budget_bytes = 64 * MIB, .spares = true});
	struct pool_client client = {.writes_since_ns = clock_ns(CLOCK_MONOTONIC) - 2000000000};
	struct batch_job *job;
	size_t nr = 0;

	(void)state;
	for (; (job = batch_pool_take(pool, &client)); nr++)
		batch_pool_shrink(pool, job, 1);
	assert_true(nr > 6 * pool->nr_jobs);
	batch_pool_free(pool);
}

/* Without memory, or without any thread, there is no pool, and nothing is left of it. Fewer threads are enough. */
static void test_what_the_system_refuses(void **state)
{
	const struct batch_pool_params params = {
		.nr_pipelines = 2, .nr_workers = 2, .extent_bytes = 64 << 10, .budget_bytes = MIB, .ready_bytes = MIB};
	struct batch_pool *pool;
	struct diag why;

	(void)state;
	for (unsigned way = 0; way < 4; way++) {
		system_calls = (typeof(system_calls)){.maps_left = way < 2 ? way + 1 : 0,
						      .threads_left = way < 2 ? 0 : way - 1};
		int expected = way < 2 ? -ENOMEM : way == 2 ? -EAGAIN : 0;
		why.text[0] = 0;
		assert_int_equal(batch_pool_new(&params, &pool, &why), expected);
		assert_int_equal(!strstr(why.text, "cannot set up the memory between draining and writing"), !expected);
		if (!expected) {
			assert_int_equal(pool->nr_workers, 1);
			assert_true(system_calls.mapped_bytes >= MIB);
			batch_pool_free(pool);
		}
		assert_int_equal(system_calls.mapped_bytes, 0);
	}
	if (!zstd_available())
		assert_int_equal(
			batch_pool_new(&(struct batch_pool_params){.level = 1, .nr_pipelines = 1}, &pool, NULL),
			-ENOTSUP);
	batch_pool_stop(NULL);
	batch_pool_free(NULL);
}

static void test_workers_of_a_realtime_recording(void **state)
{
	(void)state;
	for (unsigned realtime = 0; realtime < 2; realtime++) {
		system_calls = (typeof(system_calls)){0};
		batch_pool_free(new_pool(
			&(struct batch_pool_params){.nr_pipelines = 3, .nr_workers = 3, .realtime = realtime}));
		assert_int_equal(system_calls.nr_realtime, realtime ? 3 : 0);
	}
}

struct noted {
	struct memory_pressure pressure;
	unsigned nr_high, nr_low;
};

static void note(struct memory_pressure *pressure, bool high)
{
	struct noted *noted = (struct noted *)pressure;

	*(high ? &noted->nr_high : &noted->nr_low) += 1;
}

/* As memory runs out stacks are cut shorter and shorter, and as it comes back they are whole again. */
static void test_what_is_done_when_it_runs_short(void **state)
{
	struct noted noted = {.pressure.set = note};
	struct batch_pool_params params = {.nr_pipelines = 1,
					   .extent_bytes = 64 << 10,
					   .budget_bytes = 14 * (64 << 10),
					   .pressure = &noted.pressure,
					   .trims = true};
	struct batch_pool *pool = new_pool(&params);
	struct batch_job *jobs[16];
	/* By how many of 16 are free. */
	static const unsigned bytes[] = {256, 256, 256, 256, 1024, 1024, 2048, 2048};

	(void)state;
	assert_int_equal(pool->nr_jobs, 16);
	for (size_t free = 16; free-- > 0;) {
		jobs[free] = batch_pool_take(pool, NULL);
		assert_int_equal(atomic_load(&pool->stack_bytes), free < 8 ? bytes[free] : STACK_CUT_NOTHING);
		assert_int_equal(noted.nr_high, free <= 4);
		assert_int_equal(noted.nr_low, 0);
	}
	for (size_t free = 1; free <= 16; free++) {
		pthread_mutex_lock(&pool->lock);
		batch_pool_put(pool, jobs[free - 1]);
		pthread_mutex_unlock(&pool->lock);
		assert_int_equal(atomic_load(&pool->stack_bytes), free < 8 ? bytes[free] : STACK_CUT_NOTHING);
		assert_int_equal(noted.nr_high, 1);
		assert_int_equal(noted.nr_low, free >= 8);
	}
	batch_pool_disable_pressure(pool);
	assert_int_equal(noted.nr_low, 1); /* it was low already */
	batch_pool_free(pool);

	params.trims = false; /* who did not ask for it keeps all */
	pool = new_pool(&params);
	while (batch_pool_take(pool, NULL))
		assert_int_equal(atomic_load(&pool->stack_bytes), STACK_CUT_NOTHING);
	batch_pool_free(pool);
}

/* Who was told that memory is short is told that it is not at the end of watching, too; who was not, is not. */
static void test_pressure_that_is_not_wanted_any_more(void **state)
{
	struct noted noted = {.pressure.set = note};
	struct batch_pool *pool = new_pool(&(struct batch_pool_params){.nr_pipelines = 1,
								       .extent_bytes = 64 << 10,
								       .budget_bytes = 14 * (64 << 10),
								       .pressure = &noted.pressure});

	(void)state;
	batch_pool_disable_pressure(NULL);
	while (batch_pool_take(pool, NULL))
		;
	assert_int_equal(noted.nr_high, 1);
	batch_pool_disable_pressure(pool);
	assert_int_equal(noted.nr_low, 1);
	batch_pool_disable_pressure(pool);
	for (size_t i = 0; i < pool->nr_jobs; i++) {
		pthread_mutex_lock(&pool->lock);
		batch_pool_put(pool, &pool->jobs[i]);
		pthread_mutex_unlock(&pool->lock);
	}
	while (batch_pool_take(pool, NULL))
		;
	assert_int_equal(noted.nr_high, 1);
	assert_int_equal(noted.nr_low, 1);
	batch_pool_free(pool);
}

/* Compressing is late when a third as many wait for it as are free; where nothing is compressed never. */
static void test_compressing_is_late(void **state)
{
	(void)state;
	for (int level = 0; level < (zstd_available() ? 2 : 1); level++) {
		struct batch_pool *pool = new_pool(&(struct batch_pool_params){
			.level = level, .nr_pipelines = 1, .extent_bytes = 64 << 10, .budget_bytes = 14 * (64 << 10)});
		while (atomic_load(&pool->nr_free) > 6)
			assert_non_null(batch_pool_take(pool, NULL));
		assert_false(batch_pool_is_late(pool));
		atomic_store(&pool->nr_blocked, 1);
		assert_false(batch_pool_is_late(pool));
		atomic_store(&pool->nr_to_pack, 1); /* those that are next count, and those behind them */
		assert_int_equal(batch_pool_is_late(pool), level);
		atomic_store(&pool->nr_to_pack, 0);
		assert_false(batch_pool_is_late(pool));
		atomic_store(&pool->nr_blocked, 2);
		assert_int_equal(batch_pool_is_late(pool), level);
		atomic_store(&pool->nr_blocked, 0);
		batch_pool_free(pool);
	}
}

/* Sums of what was compressed, stored as it is, and refused. */
static void test_totals(void **state)
{
	const struct batch_pool_params params = {.level = zstd_available() ? 3 : 0, .nr_pipelines = 1};
	struct batch_pool *pool = new_pool(&params);
	struct batch_job job = {.batch.len = 1000, .out_len = 300};

	(void)state;
	pthread_mutex_lock(&pool->lock);
	batch_pool_count(pool, &(struct batch_job){0}, 0, params.level); /* a mark alone is no extent */
	batch_pool_count(pool, &job, 300, params.level);
	job.out_len = 400;
	batch_pool_count(pool, &job, 400, params.level - 1); /* lowered */
	job.out_len = 1000;
	job.plain = true;
	batch_pool_count(pool, &job, -ENOSPC, params.level); /* it would not have become smaller */
	batch_pool_count(pool, &job, -EIO, params.level);
	batch_pool_count(pool, &job, -ENOTSUP, 0); /* it was not tried */
	pthread_mutex_unlock(&pool->lock);
	assert_int_equal(pool->totals.nr_extents, 5);
	assert_int_equal(pool->totals.bytes_in, 5000);
	assert_int_equal(pool->totals.bytes_out, 300 + 400 + 3 * 1000);
	assert_int_equal(pool->totals.nr_plain, 3);
	if (zstd_available()) {
		assert_int_equal(pool->totals.nr_failed, 1);
		assert_int_equal(pool->totals.nr_lowered, 2);
	}
	assert_int_equal(batch_pool_stats(pool).nr_packed, 5);
	assert_int_equal(batch_pool_stats(NULL).nr_packed, 0);
	batch_pool_free(pool);
}

struct finished {
	struct pool_client client;
	sem_t jobs;
};

static void finish(struct pool_client *client)
{
	sem_post(&((struct finished *)client)->jobs);
}

/* Of so many free ones of 16; how many of `nr` batches that are handed over together are compressed. */
static unsigned compress(struct batch_pool *pool, struct finished *finished, size_t nr)
{
	struct batch_job *jobs[2];
	unsigned nr_packed = 0;

	pthread_mutex_lock(&pool->lock);
	for (size_t i = 0; i < nr; i++) {
		jobs[i] = &pool->jobs[i]; /* taken before */
		jobs[i]->client = &finished->client;
		jobs[i]->next_to_pack = NULL;
		jobs[i]->plain = jobs[i]->done = false;
		jobs[i]->batch.len = 48 << 10;
		for (size_t at = 0; at < jobs[i]->batch.len; at += 24) {
			const struct perf_event_header header = {.type = PERF_RECORD_SWITCH, .size = 24};
			memset(jobs[i]->batch.records + at, 0, 24);
			memcpy(jobs[i]->batch.records + at, &header, sizeof(header));
		}
		batch_pool_submit(pool, jobs[i]);
	}
	pthread_mutex_unlock(&pool->lock);
	for (size_t i = 0; i < nr; i++)
		while (sem_wait(&finished->jobs))
			;
	pthread_mutex_lock(&pool->lock);
	for (size_t i = 0; i < nr; i++) {
		assert_true(jobs[i]->done);
		nr_packed += !jobs[i]->plain;
	}
	atomic_fetch_sub(&pool->nr_blocked, nr); /* written, as a pipeline would say */
	pthread_mutex_unlock(&pool->lock);
	return nr_packed;
}

/* So many are free then. */
static void leave_free(struct batch_pool *pool, size_t nr)
{
	pthread_mutex_lock(&pool->lock);
	for (size_t free = atomic_load(&pool->nr_free); free < nr; free++)
		batch_pool_put(pool, &pool->jobs[pool->nr_jobs - 1 - free]);
	pthread_mutex_unlock(&pool->lock);
}

/* Compressing that is too slow stops until half of the memory is free; where the output is slow it goes on. */
static void test_compressing_is_overtaken(void **state)
{
	static const struct {
		size_t nr_jobs, nr_free, nr_unwritten, nr_packing, nr, nr_packed;
	} cases[] = {
		{16, 4, 0, 0, 2, 0}, /* little is free, and another one waits */
		{16, 5, 0, 0, 2, 2}, /* enough is free */
		{16, 4, 0, 0, 1, 1}, /* none waits */
		{16, 4, 1, 0, 2, 2},
		{16, 4, 1, 1, 2, 0}, /* the output has one to write, and no more are late; more are */
		{9, 2, 0, 0, 2, 0},
		{8, 2, 0, 0, 2, 2}, /* of few, there is always little */
		{63, 16, 0, 0, 2, 2},
		{64, 32, 0, 0, 2, 0}, /* of many a half is little */
		{64, 33, 0, 0, 2, 2},
		{64, 32, 1, 0, 2, 2},
	};

	(void)state;
	if (!zstd_available())
		skip();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct batch_pool_params params = {.level = 1,
							 .nr_workers = 1,
							 .nr_pipelines = 1,
							 .extent_bytes = 64 << 10,
							 .budget_bytes = (cases[i].nr_jobs - 2) * (64 << 10)};
		struct batch_pool *pool = new_pool(&params);
		struct finished finished = {.client.write_done = finish};
		sem_init(&finished.jobs, 0, 0);
		assert_int_equal(pool->nr_jobs, cases[i].nr_jobs);
		while (batch_pool_take(pool, NULL))
			;
		leave_free(pool, cases[i].nr_free);
		pool->nr_unwritten = cases[i].nr_unwritten;
		pool->nr_packing = cases[i].nr_packing;
		assert_int_equal(compress(pool, &finished, cases[i].nr), cases[i].nr_packed);
		if (!i) { /* until half is free */
			leave_free(pool, 7);
			assert_int_equal(compress(pool, &finished, 1), 0);
			batch_pool_set_level(pool, 1); /* what is asked for does not change that */
			assert_int_equal(compress(pool, &finished, 1), 0);
			leave_free(pool, 8);
			assert_int_equal(compress(pool, &finished, 2), 2);
		}
		if (cases[i].nr_jobs == 64 && !cases[i].nr_packed) { /* until a quarter more is, or nothing waits */
			assert_int_equal(compress(pool, &finished, 1), 1);
			leave_free(pool, 32);
			assert_int_equal(compress(pool, &finished, 2), 0);
			leave_free(pool, 47);
			pool->nr_packing = 1;
			assert_int_equal(compress(pool, &finished, 1), 0);
			leave_free(pool, 48);
			assert_int_equal(compress(pool, &finished, 2), 2);
			pool->nr_packing = 0;
		}
		batch_pool_free(pool);
		sem_destroy(&finished.jobs);
	}
}

/* The first stores are measured, and later each 16th, which stands for more; it is not more than what went by. */
static void test_what_storing_costs(void **state)
{
	struct batch_pool *pool = new_pool(&(struct batch_pool_params){
		.nr_pipelines = 1, .no_index = true, .extent_bytes = 64 << 10, .budget_bytes = MIB});
	uint64_t sum = 0;

	(void)state;
	for (unsigned i = 0; i <= 48; i++) {
		const uint64_t expected = i < 16 ? 4000 : i == 16 ? 5000 : i == 32 ? 50000 : i == 48 ? 64000 : 0;
		struct store_clock clock = batch_pool_begin_store(pool);
		for (unsigned us = 0; us < (i > 32 && i < 48 ? 6 : 3); us++)
			clock_ns(CLOCK_THREAD_CPUTIME_ID);
		assert_int_equal(batch_pool_end_store(pool, clock), expected);
		sum += expected;
	}
	assert_int_equal(pool->totals.write_cpu_ns, sum);
	batch_pool_free(pool);
}

/* The time of a worker is that of compressing and that of writing, all of it once, however often it has waited. */
static void test_the_time_of_a_worker(void **state)
{
	enum { NR = 40, PACK_NS = 1000 };
	const struct batch_pool_params params = {.level = 1,
						 .nr_workers = 1,
						 .nr_pipelines = 1,
						 .extent_bytes = 64 << 10,
						 .budget_bytes = 14 * (64 << 10)};
	struct finished finished = {.client.write_done = finish};

	(void)state;
	if (!zstd_available())
		skip();
	struct batch_pool *pool = new_pool(&params);
	sem_init(&finished.jobs, 0, 0);
	while (batch_pool_take(pool, NULL))
		;
	leave_free(pool, 8);
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(compress(pool, &finished, 1), 1);
	batch_pool_stop(pool);
	assert_int_equal(pool->totals.pack_cpu_ns, NR * PACK_NS);
	assert_int_equal(pool->totals.write_cpu_ns, worker_ns - NR * PACK_NS);
	batch_pool_free(pool);
	sem_destroy(&finished.jobs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_how_much_memory),
		cmocka_unit_test(test_bound_of_all),
		cmocka_unit_test(test_what_the_system_refuses),
		cmocka_unit_test(test_workers_of_a_realtime_recording),
		cmocka_unit_test(test_sizes_of_batches),
		cmocka_unit_test(test_sizes_of_extents),
		cmocka_unit_test(test_pressure_that_is_not_wanted_any_more),
		cmocka_unit_test(test_compressing_is_late),
		cmocka_unit_test(test_what_storing_costs),
		cmocka_unit_test(test_the_time_of_a_worker),
		cmocka_unit_test(test_pieces_do_not_overlap),
		cmocka_unit_test(test_memory_is_given_back),
		cmocka_unit_test(test_memory_is_bounded_in_bytes),
		cmocka_unit_test(test_batches_that_do_not_shrink),
		cmocka_unit_test(test_the_output_takes_long),
		cmocka_unit_test(test_a_batch_grows_after_it_was_shrunk),
		cmocka_unit_test(test_what_is_done_when_it_runs_short),
		cmocka_unit_test(test_totals),
		cmocka_unit_test(test_compressing_is_overtaken),
	};

	return cmocka_run_group_tests_name("batch_pool", tests, NULL, NULL);
}
