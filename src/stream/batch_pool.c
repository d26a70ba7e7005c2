/* SPDX-License-Identifier: MIT */
#include "stream/batch_pool.h"

#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/cpuset.h"
#include "base/diag.h"
#include "base/fd.h"
#include "compress/extent.h"
#include "compress/extent_stats.h"
#include "compress/stack_cut.h"
#include "compress/zstd.h"
#include "stream/batch_job.h"

enum {
	WORKERS_MAX = 32,
	BUDGET_BYTES = 64 << 20,
	/*
	 * Of what is only written, with what stands around it: large writes are cheaper, and what wakes a reader fits
	 * as a whole. Each pipeline may fill some of them with little when storage stalls: one by each commit.
	 */
	BATCH_BYTES = 4 << 20,
	BATCHES_OF_EACH = 64,
	HUGE_PAGE = 2 << 20,
	WARM_BYTES = 16 << 20,        /* are used again and again while nothing waits: they keep their pages */
	LEAST_BATCH_BYTES = 64 << 10, /* where memory was set that is less; else */
	SMALL_BATCH_BYTES = 256 << 10,
	PAGE = 4096,
	AROUND = 2 * PAGE, /* records begin anywhere in the first page of their memory, and end before the last */
	LEAST_EXTENTS = 8, /* fewer would leave workers and the draining thread waiting for each other */
	MANY_EXTENTS = 64, /* what each draining thread fills is a small part of them */
	/* What batches that wait for the output do not need is used for others, up to so many times as many. */
	SPARE_TIMES = 8,
	SPARE_LEAST_BYTES = 64 << 20,  /* of a pool that is smaller, nothing, */
	SPARE_BATCH_BYTES = 256 << 10, /* nor of small batches */
	SHRINK_LEAST_BYTES = 64 << 10,
};

struct pool_worker { /* a thread that packs; the one that began to wait last is the next to be woken */
	struct batch_pool *pool;
	struct pool_worker *next_idle;
	pthread_t thread;
	/* No condition variable: its inner lock has no priority inheritance, and would hold up a draining thread. */
	sem_t wake;
	uint64_t counted_ns, packed_ns,
		nr_uncounted; /* CPU time that is in the totals; since then: of compressing, waits */
};

/*
 * Which free batches have no pages, and how many others should lose theirs. Storage that stalls once fills much of the
 * memory; what was not needed for some seconds since then is the kernel's again, and what is used again and again keeps
 * its pages.
 */
struct idle_memory {
	struct free_list cold; /* free batches whose pages are the kernel's; any thread */
	atomic_size_t nr_cold;
	atomic_size_t least_free; /* batches, those included, since the period began */
	size_t nr_warm;           /* the first batches, which are never cold */
	/* Of the thread that gives back: */
	uint32_t *kept;                 /* heap; room for the numbers of those */
	size_t least_before, nr_unused; /* in the period before; in the last two */
	uint64_t began_ns;              /* CLOCK_MONOTONIC; 0: no period has begun */
};

static void idle_memory_free(struct idle_memory *idle)
{
	if (!idle)
		return;
	free_list_fini(&idle->cold);
	free(idle->kept);
	free(idle);
}

/* None is cold. 0 or -ENOMEM. */
static int idle_memory_new(size_t nr_batches, size_t nr_warm, struct idle_memory **ret)
{
	struct idle_memory *idle = calloc(1, sizeof(*idle));

	if (!idle)
		return -ENOMEM;
	atomic_init(&idle->least_free, SIZE_MAX);
	idle->nr_warm = nr_warm;
	idle->kept = calloc(nr_warm + 1, sizeof(*idle->kept));
	if (!idle->kept || free_list_init(&idle->cold, nr_batches)) {
		idle_memory_free(idle);
		return -ENOMEM;
	}
	*ret = idle;
	return 0;
}

static void idle_memory_put(struct idle_memory *idle, uint32_t number)
{
	atomic_fetch_add(&idle->nr_cold, 1);
	free_list_put(&idle->cold, number);
}

/* false: there is none. */
static bool idle_memory_take(struct idle_memory *idle, uint32_t *ret)
{
	if (!free_list_take(&idle->cold, ret))
		return false;
	atomic_fetch_sub(&idle->nr_cold, 1);
	return true;
}

/* So many are free now. */
static void idle_memory_note(struct idle_memory *idle, size_t nr_free)
{
	size_t least = atomic_load_explicit(&idle->least_free, memory_order_relaxed);

	while (nr_free < least && !atomic_compare_exchange_weak(&idle->least_free, &least, nr_free))
		;
}

/* How many more were free than were needed in the last two periods. */
static size_t end_period(struct idle_memory *idle, uint64_t now_ns, size_t nr_free)
{
	const size_t before = idle->began_ns ? idle->least_before : 0;
	size_t least = atomic_exchange(&idle->least_free, nr_free);

	least = least < nr_free ? least : nr_free;
	idle->least_before = least;
	idle->began_ns = now_ns;
	return least < before ? least : before;
}

/* How many free batches, beyond those that are cold or warm, were not needed in the last two periods, nor since then.
 */
static size_t idle_memory_excess(struct idle_memory *idle, uint64_t now_ns, size_t nr_free)
{
	static const uint64_t period_ns = 10000000000;

	if (!idle->began_ns || now_ns - idle->began_ns >= period_ns)
		idle->nr_unused = end_period(idle, now_ns, nr_free);
	const size_t least = atomic_load(&idle->least_free), stays = atomic_load(&idle->nr_cold) + idle->nr_warm;
	const size_t unused = idle->nr_unused < least ? idle->nr_unused : least;
	return unused > stays ? unused - stays : 0;
}

static size_t nr_free(const struct batch_pool *pool)
{
	return atomic_load_explicit(&pool->nr_free, memory_order_relaxed);
}

/* Of the memory of one batch. */
static size_t slot_bytes(const struct batch_pool *pool)
{
	return pool->extent_bytes + AROUND;
}

bool batch_pool_is_short(const struct batch_pool *pool)
{
	return nr_free(pool) <= pool->nr_jobs / 4;
}

/*
 * Who is notified needs some time until nothing comes any more: a quarter is left for that. Not more than half is free
 * when each stage fills an extent and nothing else is under way.
 */
static bool pressure_changes(const struct batch_pool *pool)
{
	bool before = atomic_load_explicit(&pool->pressure_high, memory_order_relaxed);
	bool high = before ? nr_free(pool) < pool->nr_jobs / 2 : batch_pool_is_short(pool);

	return high != before && atomic_load_explicit(&pool->pressure, memory_order_relaxed);
}

/* The lock is held. */
static void signal_pressure(struct batch_pool *pool)
{
	if (!pressure_changes(pool))
		return;
	bool high = !atomic_load_explicit(&pool->pressure_high, memory_order_relaxed);
	struct memory_pressure *pressure = atomic_load_explicit(&pool->pressure, memory_order_relaxed);
	atomic_store_explicit(&pool->pressure_high, high, memory_order_relaxed);
	pressure->set(pressure, high);
}

/*
 * The less is free the shorter: each step makes what is left last several times as long, and what comes first, the
 * innermost calls, is what most samples are about.
 */
static void trim(struct batch_pool *pool)
{
	size_t free = nr_free(pool), all = pool->nr_jobs;
	unsigned bytes = 2 * free >= all       ? STACK_CUT_NOTHING
			 : 8 * free >= 3 * all ? 2048
			 : 4 * free >= all     ? 1024
					       : 256;

	if (pool->trims)
		atomic_store_explicit(&pool->stack_bytes, bytes, memory_order_relaxed);
}

void batch_pool_disable_pressure(struct batch_pool *pool)
{
	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	struct memory_pressure *pressure = atomic_exchange(&pool->pressure, NULL);
	if (atomic_exchange(&pool->pressure_high, false))
		pressure->set(pressure, false);
	pthread_mutex_unlock(&pool->lock);
}

/* A batch was taken: the most memory that was in use, but for what others have saved of theirs. */
static void note_most(struct batch_pool *pool)
{
	size_t nr_all = pool->nr_jobs + atomic_load_explicit(&pool->nr_spare_used, memory_order_relaxed);
	size_t saved_bytes = atomic_load_explicit(&pool->saved_bytes, memory_order_relaxed), nr = nr_free(pool);
	size_t bytes = nr_all > nr ? (nr_all - nr) * pool->extent_bytes : 0;
	size_t most = atomic_load_explicit(&pool->most_bytes, memory_order_relaxed);

	idle_memory_note(pool->idle_memory, nr);
	bytes = bytes > saved_bytes ? bytes - saved_bytes : 0;
	while (bytes > most && !atomic_compare_exchange_weak(&pool->most_bytes, &most, bytes))
		;
}

static uint8_t *memory_of(const struct batch_pool *pool, uint32_t number)
{
	return number < pool->nr_jobs ? pool->memory + number * slot_bytes(pool)
				      : pool->spare_memory + (number - pool->nr_jobs) * slot_bytes(pool);
}

struct batch_job *batch_pool_take(struct batch_pool *pool, struct pool_client *client)
{
	uint32_t number;

	if (!free_list_take(&pool->free_jobs, &number) && !idle_memory_take(pool->idle_memory, &number))
		return NULL;
	atomic_fetch_sub(&pool->nr_free, 1);
	note_most(pool);
	trim(pool);
	if (pressure_changes(pool)) {
		pthread_mutex_lock(&pool->lock);
		signal_pressure(pool);
		pthread_mutex_unlock(&pool->lock);
	}
	struct batch_job *job = &pool->jobs[number];
	uint8_t *memory = memory_of(pool, number);
	*job = (struct batch_job){
		.batch = {.records = memory, .room = pool->extent_bytes, .tail = job->tail},
		.memory = memory,
		.number = number,
		.client = client,
	};
	return job;
}

/* A batch more may be taken. No lock is needed. */
static void add_free(struct batch_pool *pool, uint32_t number)
{
	atomic_fetch_add(&pool->nr_free, 1);
	free_list_put(&pool->free_jobs, number);
	pthread_cond_signal(&pool->room);
	if (!batch_pool_is_short(pool))
		atomic_store_explicit(&pool->flush_requested, false, memory_order_relaxed);
}

/*
 * Is more than an eighth of the memory in use, because the output, or what is before it there, is late? Else it is soon
 * free by itself, and to shrink a batch is not worth while: all CPUs that know its pages have to forget them.
 */
static bool waits_for_output(const struct batch_pool *pool, const struct batch_job *job)
{
	enum { LONG_NS = 100000000 };
	size_t nr_all = pool->nr_jobs + atomic_load_explicit(&pool->nr_spare_used, memory_order_relaxed);

	if (nr_all <= nr_free(pool) + pool->nr_jobs / 8)
		return false;
	if (atomic_load_explicit(&pool->nr_unwritten, memory_order_relaxed) +
		    atomic_load_explicit(&pool->nr_blocked, memory_order_relaxed) >
	    pool->nr_jobs / 8)
		return true;
	uint64_t since_ns = job->client ? atomic_load_explicit(&job->client->writes_since_ns, memory_order_relaxed) : 0;
	return since_ns && clock_ns(CLOCK_MONOTONIC) > since_ns + LONG_NS;
}

/* false: the kernel keeps them; it gives back pages that are locked (mlockall(2)) from 5.18 on. */
static bool give_back(uint8_t *memory, size_t bytes)
{
	enum { DONTNEED_LOCKED = 24 }; /* MADV_DONTNEED_LOCKED of linux/mman.h, which older headers have not */

	return !madvise(memory, bytes, DONTNEED_LOCKED) || !madvise(memory, bytes, MADV_DONTNEED);
}

bool batch_pool_has_free(struct batch_pool *pool)
{
	return !free_list_is_empty(&pool->free_jobs) || !free_list_is_empty(&pool->idle_memory->cold);
}

/* Of a batch that was taken out of the free ones. false: the kernel keeps them. */
static bool make_cold(struct batch_pool *pool, uint32_t number)
{
	bool is_cold = give_back(memory_of(pool, number), slot_bytes(pool));

	if (is_cold)
		idle_memory_put(pool->idle_memory, number);
	else
		free_list_put(&pool->free_jobs, number);
	pthread_cond_signal(&pool->room);
	return is_cold;
}

/* The first batches are ready from the start, and have huge pages: they keep them, and are taken before all others. */
void batch_pool_give_back(struct batch_pool *pool, uint64_t now_ns)
{
	enum { AT_ONCE = 16 }; /* what is looked at is missing in the list for as long as this takes */
	uint32_t number;

	if (!pool)
		return;
	struct idle_memory *idle = pool->idle_memory;
	size_t nr_left = idle_memory_excess(idle, now_ns, nr_free(pool)), nr_kept = 0;
	nr_left = nr_left < AT_ONCE ? nr_left : AT_ONCE;
	while (nr_left && free_list_take(&pool->free_jobs, &number)) {
		if (number < idle->nr_warm)
			idle->kept[nr_kept++] = number;
		else if (make_cold(pool, number))
			nr_left--;
		else
			break;
	}
	while (nr_kept) {
		free_list_put(&pool->free_jobs, idle->kept[--nr_kept]);
		pthread_cond_signal(&pool->room);
	}
}

/* One that was in use before, or the next one that never was. */
static bool take_spare(struct batch_pool *pool, uint32_t *ret)
{
	size_t next = atomic_load(&pool->nr_spare_known);

	if (free_list_take(&pool->spare_jobs, ret))
		return true;
	while (next < pool->nr_spare)
		if (atomic_compare_exchange_weak(&pool->nr_spare_known, &next, next + 1)) {
			*ret = (uint32_t)(pool->nr_jobs + next);
			return true;
		}
	return false;
}

/*
 * As many batches more are in use as the others have saved memory for. What they save may become less between the look
 * at it and the change: that is seen when the next batch is put back.
 */
static void use_spare(struct batch_pool *pool)
{
	size_t nr = atomic_load(&pool->nr_spare_used);
	uint32_t number;

	while ((nr + 1) * slot_bytes(pool) <= atomic_load(&pool->saved_bytes)) {
		if (!atomic_compare_exchange_weak(&pool->nr_spare_used, &nr, nr + 1))
			continue;
		if (!take_spare(pool, &number)) {
			atomic_fetch_sub(&pool->nr_spare_used, 1);
			return;
		}
		add_free(pool, number);
		nr++;
	}
}

static bool one_is_too_many(struct batch_pool *pool)
{
	size_t nr = atomic_load(&pool->nr_spare_used);

	while (nr * slot_bytes(pool) > atomic_load(&pool->saved_bytes))
		if (atomic_compare_exchange_weak(&pool->nr_spare_used, &nr, nr - 1))
			return true;
	return false;
}

/* It may have grown since it was shrunk: then it saves less. */
static void set_saved(struct batch_pool *pool, struct batch_job *job, size_t saved)
{
	if (saved < job->saved)
		atomic_fetch_sub(&pool->saved_bytes, job->saved - saved);
	else
		atomic_fetch_add(&pool->saved_bytes, saved - job->saved);
	job->saved = saved;
}

void batch_pool_shrink(struct batch_pool *pool, struct batch_job *job, size_t bytes)
{
	size_t used = ((size_t)(job->batch.records - job->memory) + bytes + PAGE - 1) / PAGE * PAGE;
	size_t saved = used + SHRINK_LEAST_BYTES <= slot_bytes(pool) ? slot_bytes(pool) - used : 0;

	if (!pool->nr_spare || (!job->saved && (!saved || !waits_for_output(pool, job))))
		return;
	if (saved && !give_back(job->memory + used, saved))
		saved = 0;
	set_saved(pool, job, saved);
	use_spare(pool);
}

void batch_pool_put(struct batch_pool *pool, struct batch_job *job)
{
	if (job->saved)
		set_saved(pool, job, 0);
	if (atomic_load(&pool->nr_spare_used) && one_is_too_many(pool)) {
		(void)give_back(job->memory, slot_bytes(pool));
		free_list_put(&pool->spare_jobs, job->number);
		return;
	}
	add_free(pool, job->number);
	signal_pressure(pool);
	trim(pool);
}

/* The lock is held. NULL: all are busy, and one comes to it. */
static struct pool_worker *take_idle(struct batch_pool *pool)
{
	struct pool_worker *worker = pool->idle;

	if (worker)
		pool->idle = worker->next_idle;
	return worker;
}

static void wake_one(struct batch_pool *pool)
{
	struct pool_worker *worker = take_idle(pool);

	if (worker)
		sem_post(&worker->wake);
}

void batch_pool_submit(struct batch_pool *pool, struct batch_job *job)
{
	if (pool->last_to_pack)
		pool->last_to_pack->next_to_pack = job;
	else
		pool->first_to_pack = job;
	pool->last_to_pack = job;
	atomic_fetch_add_explicit(&pool->nr_to_pack, 1, memory_order_relaxed);
	wake_one(pool);
}

static void append_turn(struct batch_pool *pool, struct pool_client *client)
{
	client->next = NULL;
	*(pool->last_turn ? &pool->last_turn->next : &pool->first_turn) = client;
	pool->last_turn = client;
}

void batch_pool_add_turn(struct batch_pool *pool, struct pool_client *client, bool wake)
{
	if (atomic_exchange(&client->has_turn, true))
		return;
	append_turn(pool, client);
	if (wake)
		wake_one(pool);
}

/* What was handed over before is seen by the turn that this client has, or gets: end_turn() in pipeline.c. */
void batch_pool_schedule(struct batch_pool *pool, struct pool_client *client, bool wake)
{
	if (atomic_exchange(&client->has_turn, true))
		return;
	pthread_mutex_lock(&pool->lock);
	append_turn(pool, client);
	struct pool_worker *worker = wake ? take_idle(pool) : NULL;
	pthread_mutex_unlock(&pool->lock);
	if (worker) /* a system call: not while others wait for the lock */
		sem_post(&worker->wake);
}

void batch_pool_wake(struct batch_pool *pool)
{
	if (pool->first_turn)
		wake_one(pool);
}

/* What the thread used since the last call and not for compressing; the lock is held. */
static void count_writing(struct pool_worker *worker)
{
	uint64_t now_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	worker->pool->totals.write_cpu_ns += now_ns - worker->counted_ns - worker->packed_ns;
	worker->counted_ns = now_ns;
	worker->packed_ns = 0;
	worker->nr_uncounted = 0;
}

/* The lock is held, and released while the worker waits. */
static void wait_to_be_woken(struct pool_worker *worker)
{
	enum { WAITS_PER_COUNT = 16 }; /* the clock is a system call */
	struct batch_pool *pool = worker->pool;

	if (++worker->nr_uncounted >= WAITS_PER_COUNT)
		count_writing(worker);
	worker->next_idle = pool->idle;
	pool->idle = worker;
	pthread_mutex_unlock(&pool->lock);
	while (sem_wait(&worker->wake))
		;
	pthread_mutex_lock(&pool->lock);
}

struct pool_client *batch_pool_next_turn(struct batch_pool *pool)
{
	struct pool_client *client = pool->first_turn;

	if (!client)
		return NULL;
	pool->first_turn = client->next;
	if (!pool->first_turn)
		pool->last_turn = NULL;
	return client;
}

/* How many stores the one with this number stands for: not each is measured, for the clock is a system call. */
static unsigned weight_of_store(size_t number)
{
	enum { FIRST = 16, ONE_OF = 16 }; /* a short recording has few */

	return number < FIRST ? 1 : number % ONE_OF ? 0 : ONE_OF;
}

struct store_clock batch_pool_begin_store(struct batch_pool *pool)
{
	unsigned weight = weight_of_store(pool->nr_stores++);

	return (struct store_clock){.weight = weight, .before_ns = weight ? clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0};
}

uint64_t batch_pool_end_store(struct batch_pool *pool, struct store_clock clock)
{
	if (!clock.weight)
		return 0;
	uint64_t now_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	uint64_t ns = clock.weight * (now_ns - clock.before_ns), most_ns = now_ns - pool->stores_counted_ns;
	if (ns > most_ns) /* this one was dearer than those that it stands for */
		ns = most_ns;
	pool->stores_counted_ns = now_ns;
	pool->totals.write_cpu_ns += ns;
	return ns;
}

/* For compressors, or for those before them. */
static size_t nr_waiting(const struct batch_pool *pool)
{
	return atomic_load_explicit(&pool->nr_to_pack, memory_order_relaxed) +
	       atomic_load_explicit(&pool->nr_blocked, memory_order_relaxed);
}

/*
 * Little memory is left, because compressing takes too long: where it is the output, more bytes would be worse. Then
 * all is stored as it is until more is free, or nothing waits any more: what is compressed in between would hold up
 * what comes behind it, and what is under way, on CPUs that others use, is given up. Little is a quarter. Of many
 * extents it is a half, so that the output has time to take what has come by then, unless a lower level is to be tried
 * first. Of a few extents there is always little. The lock is held.
 */
static bool is_overtaken(struct batch_pool *pool)
{
	const size_t nr_late = nr_waiting(pool) + pool->nr_packing, quarter = pool->nr_jobs / 4;
	const bool early = pool->nr_jobs >= MANY_EXTENTS && pool->requested_level <= 1;
	const size_t little = early ? 2 * quarter : quarter;

	if (nr_free(pool) >= little + quarter || (early && nr_late + pool->nr_unwritten == 0))
		pool->overtaken = false;
	else if (pool->nr_jobs > LEAST_EXTENTS && nr_free(pool) <= little && nr_late > pool->nr_unwritten)
		pool->overtaken = true;
	atomic_store_explicit(&pool->level_now, pool->overtaken ? 0 : pool->requested_level, memory_order_relaxed);
	return pool->overtaken;
}

bool batch_pool_is_late(const struct batch_pool *pool)
{
	return pool->level && 3 * nr_waiting(pool) >= nr_free(pool);
}

struct batch_pool_stats batch_pool_stats(struct batch_pool *pool)
{
	if (!pool)
		return (struct batch_pool_stats){0};
	pthread_mutex_lock(&pool->lock);
	const struct batch_pool_stats stats = {
		.nr_extents = pool->nr_jobs,
		.nr_free = nr_free(pool),
		.nr_to_pack = pool->nr_to_pack,
		.nr_packing = pool->nr_packing,
		.nr_blocked = pool->nr_blocked,
		.nr_unwritten = pool->nr_unwritten,
		.nr_packed = pool->totals.nr_extents,
	};
	pthread_mutex_unlock(&pool->lock);
	return stats;
}

void batch_pool_set_level(struct batch_pool *pool, int level)
{
	pthread_mutex_lock(&pool->lock);
	pool->requested_level = level;
	if (!pool->overtaken)
		atomic_store_explicit(&pool->level_now, level, memory_order_relaxed);
	pthread_mutex_unlock(&pool->lock);
}

void batch_pool_count_dropped(struct batch_pool *pool, const char *reason, uint64_t nr_samples)
{
	size_t at = 0;

	pthread_mutex_lock(&pool->lock);
	while (at < POOL_DROP_REASONS - 1 && pool->totals.drops[at].reason &&
	       strcmp(pool->totals.drops[at].reason, reason))
		at++;
	if (!pool->totals.drops[at].reason)
		pool->totals.drops[at].reason = reason;
	pool->totals.drops[at].nr_samples += nr_samples;
	pthread_mutex_unlock(&pool->lock);
}

static void note_stats(const struct batch_pool *pool, struct batch_job *job)
{
	if (!job->has_info)
		extent_stats_records(pool->stats, (struct span){job->batch.records, job->batch.len}, &job->info);
	job->info.came_bytes = job->came_len;
}

/* At *level, which is lowered with that of the pool while this is under way. */
static int64_t compress_job(struct batch_pool *pool, struct extent_packer *packer, struct batch_job *job, int *level)
{
	struct span records = {job->batch.records, job->batch.len};
	int64_t len;

	if (job->built) {
		job->out_len = extent_from_built(job->batch.records, job->built, &job->info);
		return (int64_t)job->out_len;
	}
	do {
		int now = atomic_load_explicit(&pool->level_now, memory_order_relaxed);
		*level = now < *level ? now : *level;
		const struct extent_pack_params params = {
			.level = *level, .thorough = pool->thorough, .level_now = &pool->level_now};
		len = job->batch.len && packer && *level
			      ? extent_pack(packer, &params, records, job->batch.records, job->batch.len)
			      : -ENOTSUP;
	} while (len == -ECANCELED);
	job->plain = len < 0;
	job->out_len = job->plain ? job->batch.len : (size_t)len;
	return len;
}

/* The lock is held. */
void batch_pool_count(struct batch_pool *pool, const struct batch_job *job, int64_t len, int level)
{
	struct batch_pool_totals *totals = &pool->totals;

	if (!job->batch.len)
		return;
	totals->nr_extents++;
	totals->bytes_in += job->batch.len;
	totals->bytes_out += job->out_len;
	totals->nr_plain += job->plain;
	totals->nr_built += job->built != 0;
	totals->nr_failed += level && job->plain && len != -ENOSPC;
	totals->nr_lowered += level < pool->level;
}

/* Compresses the first job that waits for it. The lock is held, and released during that. */
static void pack_first(struct pool_worker *worker, struct extent_packer *packer)
{
	struct batch_pool *pool = worker->pool;
	struct batch_job *job = pool->first_to_pack;

	pool->first_to_pack = job->next_to_pack;
	if (!pool->first_to_pack)
		pool->last_to_pack = NULL;
	atomic_fetch_sub_explicit(&pool->nr_to_pack, 1, memory_order_relaxed);
	int level = is_overtaken(pool) ? 0 : atomic_load_explicit(&pool->level_now, memory_order_relaxed);
	if (job->built)
		level = pool->level; /* whatever it is now */
	bool is_packed = level > 0;
	pool->nr_packing += is_packed;
	pthread_mutex_unlock(&pool->lock);
	uint64_t before_ns = pool->level ? clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
	if (job->batch.len && !job->built && !pool->no_index)
		note_stats(pool, job);
	int64_t len = compress_job(pool, packer, job, &level);
	batch_pool_shrink(pool, job, job->out_len + job->batch.tail_len);
	uint64_t packed_ns = pool->level ? clock_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns : 0;
	pthread_mutex_lock(&pool->lock);
	batch_pool_count(pool, job, len, level);
	pool->totals.pack_cpu_ns += packed_ns;
	worker->packed_ns += packed_ns;
	job->done = true;
	pool->nr_packing -= is_packed;
	atomic_fetch_add_explicit(&pool->nr_blocked, 1, memory_order_relaxed);
	job->client->write_done(job->client);
}

static void *work(void *arg)
{
	struct pool_worker *worker = arg;
	struct batch_pool *pool = worker->pool;
	struct extent_packer *packer = NULL;
	struct pool_client *client;

	if (pool->realtime)
		sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &(struct sched_param){.sched_priority = 1});
	/* Without memory for it extents stay plain: worse, not wrong. */
	if (!pool->level || extent_packer_new(&packer))
		packer = NULL;
	pthread_mutex_lock(&pool->lock);
	while (pool->first_to_pack || pool->first_turn || !pool->ending) {
		if (pool->first_to_pack)
			pack_first(worker, packer);
		else if ((client = batch_pool_next_turn(pool)))
			client->call_stages(client, SIZE_MAX);
		else
			wait_to_be_woken(worker);
	}
	count_writing(worker);
	pthread_mutex_unlock(&pool->lock);
	extent_packer_free(packer);
	return NULL;
}

/*
 * Huge pages make direct writes cheaper, which look for each page. Only where memory is used all the time: who drains
 * must not wait until the kernel has moved others' pages.
 */
static void *map_memory(size_t bytes, size_t ready_bytes)
{
	const int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	uint8_t *memory = mmap(NULL, bytes + HUGE_PAGE, prot, flags, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	size_t before = -(uintptr_t)memory % HUGE_PAGE;
	if (before)
		munmap(memory, before);
	memory += before;
	munmap(memory + (bytes + 4095) / 4096 * 4096, HUGE_PAGE - before);
	(void)!madvise(memory, bytes < WARM_BYTES ? bytes / HUGE_PAGE * HUGE_PAGE : WARM_BYTES, MADV_HUGEPAGE);
	if (ready_bytes && mmap(memory, ready_bytes < bytes ? ready_bytes : bytes, prot,
				flags | MAP_FIXED | MAP_POPULATE, -1, 0) == MAP_FAILED) {
		munmap(memory, bytes);
		return NULL;
	}
	return memory;
}

/* Addresses, of which no more pages are in use than other batches have spared. */
static void map_spare(struct batch_pool *pool)
{
	const size_t bytes = pool->nr_jobs * SPARE_TIMES * slot_bytes(pool);

	if (sizeof(void *) < 8 || pool->memory_bytes < SPARE_LEAST_BYTES || slot_bytes(pool) < SPARE_BATCH_BYTES ||
	    slot_bytes(pool) % PAGE)
		return;
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return;
	(void)!madvise(memory, bytes, MADV_NOHUGEPAGE); /* of a batch a part is used */
	pool->spare_memory = memory;
	pool->nr_spare = pool->nr_jobs * SPARE_TIMES;
}

/* The first batches: what is touched at the start, or has huge pages. */
static size_t nr_warm(const struct batch_pool *pool, size_t ready_bytes)
{
	size_t bytes = ready_bytes > WARM_BYTES ? ready_bytes : WARM_BYTES;

	return bytes < pool->memory_bytes ? bytes / slot_bytes(pool) : pool->nr_jobs;
}

static int allocate(struct batch_pool *pool, size_t nr_workers, const struct batch_pool_params *params)
{
	pool->memory_bytes = pool->nr_jobs * slot_bytes(pool);
	pool->memory = map_memory(pool->memory_bytes, params->ready_bytes);
	if (params->spares)
		map_spare(pool);
	size_t nr = pool->nr_jobs + pool->nr_spare;
	pool->jobs = calloc(nr, sizeof(*pool->jobs));
	pool->workers = calloc(nr_workers, sizeof(*pool->workers));
	if (!pool->jobs || !pool->workers || !pool->memory || free_list_init(&pool->free_jobs, nr) ||
	    free_list_init(&pool->spare_jobs, nr) ||
	    idle_memory_new(nr, nr_warm(pool, params->ready_bytes), &pool->idle_memory))
		return -ENOMEM;
	for (size_t i = pool->nr_jobs; i-- > 0;) {
		pool->jobs[i].number = (uint32_t)i;
		batch_pool_put(pool, &pool->jobs[i]);
	}
	return 0;
}

static int start_one(struct batch_pool *pool, struct pool_worker *worker)
{
	worker->pool = pool;
	sem_init(&worker->wake, 0, 0);
	int err = -pthread_create(&worker->thread, NULL, work, worker);
	if (err)
		sem_destroy(&worker->wake);
	return err;
}

static int start(struct batch_pool *pool, size_t nr_workers)
{
	int err = 0;

	while (pool->nr_workers < nr_workers && !err) {
		err = start_one(pool, &pool->workers[pool->nr_workers]);
		pool->nr_workers += !err;
	}
	return pool->nr_workers ? 0 : err; /* fewer do, too */
}

static size_t batch_bytes(const struct batch_pool_params *params, size_t budget)
{
	size_t bytes = budget / (BATCHES_OF_EACH * (params->nr_pipelines ? params->nr_pipelines : 1)) / 4096 * 4096;

	return (bytes > BATCH_BYTES ? BATCH_BYTES : bytes < SMALL_BATCH_BYTES ? SMALL_BATCH_BYTES : bytes) - AROUND;
}

/*
 * As large as the level asks for, unless --buffer-memory or many pipelines leave less. With many workers those that are
 * compressed at once, each on a CPU that others use, would hold up most of the memory behind them.
 */
static size_t extent_bytes(const struct batch_pool_params *params, size_t budget, size_t nr_workers)
{
	enum { MANY_WORKERS = 5 };
	size_t bytes = extent_bytes_for(params->level) / (nr_workers < MANY_WORKERS ? 1 : 4);
	size_t most = budget / LEAST_EXTENTS;
	size_t least = params->no_index ? LEAST_BATCH_BYTES : EXTENT_BYTES_SMALL;

	if (params->no_index)
		bytes = batch_bytes(params, budget);
	if (params->budget_bytes && bytes > most)
		bytes = most;
	if (bytes > budget / (params->nr_pipelines + 1))
		bytes = budget / (params->nr_pipelines + 1);
	bytes &= ~(size_t)4095;
	return bytes > least ? bytes : least;
}

static size_t chosen_extent_bytes(const struct batch_pool_params *params, size_t budget, size_t nr_workers)
{
	return params->extent_bytes ? params->extent_bytes : extent_bytes(params, budget, nr_workers);
}

/* Each pipeline may be filling one; with one more all of them can make progress. */
static size_t count_jobs(const struct batch_pool_params *params, size_t budget, size_t extent_bytes)
{
	return params->nr_pipelines + budget / extent_bytes + 1;
}

/*
 * The budget with which all batches together take no more than `most`. With fewer than LEAST_EXTENTS of the smallest
 * batches in it, it stays larger.
 */
static size_t budget_within(const struct batch_pool_params *params, size_t most, size_t nr_workers)
{
	size_t budget = most;

	for (;;) {
		size_t bytes = chosen_extent_bytes(params, budget, nr_workers);
		size_t all = count_jobs(params, budget, bytes) * (bytes + AROUND);
		if (all <= most)
			return budget;
		size_t less = all - most < budget / 8 ? budget - (all - most) : budget - budget / 8;
		if (less / chosen_extent_bytes(params, less, nr_workers) < LEAST_EXTENTS)
			return budget;
		budget = less;
	}
}

/*
 * Who drains has real-time priority (sysinfo/thread.h), workers have not: one that holds the lock and lost its CPU to
 * another thread is lent the priority of who waits for it.
 */
static void init_lock(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

static void init_room(pthread_cond_t *room)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(room, &attr);
	pthread_condattr_destroy(&attr);
}

int batch_pool_new(const struct batch_pool_params *params, struct batch_pool **ret, struct diag *reterr)
{
	size_t nr_workers = params->nr_workers ? params->nr_workers : cpuset_count_allowed();

	if (params->level && !zstd_available())
		return diag_set(reterr, -ENOTSUP, "this build cannot compress: it was made without libzstd");
	struct batch_pool *pool = calloc(1, sizeof(*pool));
	if (!pool)
		return diag_set(reterr, -ENOMEM, "out of memory");
	if (!params->level && nr_workers > params->nr_pipelines)
		nr_workers = params->nr_pipelines; /* they only write, and one thread at a time writes for a pipeline */
	if (nr_workers > WORKERS_MAX)
		nr_workers = WORKERS_MAX;
	pool->level = pool->requested_level = params->level;
	atomic_init(&pool->level_now, params->level);
	pool->notifier = params->notifier;
	atomic_init(&pool->stack_bytes, STACK_CUT_NOTHING);
	pool->realtime = params->realtime;
	size_t budget = params->budget_bytes ? params->budget_bytes : BUDGET_BYTES;
	if (params->budget_bytes && params->bounds_all)
		budget = budget_within(params, budget, nr_workers);
	pool->extent_bytes = chosen_extent_bytes(params, budget, nr_workers);
	if (!params->budget_bytes && pool->extent_bytes > budget / LEAST_EXTENTS)
		budget = LEAST_EXTENTS * pool->extent_bytes;
	pool->nr_jobs = count_jobs(params, budget, pool->extent_bytes);
	init_lock(&pool->lock);
	pthread_cond_init(&pool->progress, NULL);
	init_room(&pool->room);
	int err = allocate(pool, nr_workers, params);
	atomic_init(&pool->pressure, params->pressure);
	pool->trims = params->trims;
	pool->thorough = params->thorough;
	pool->no_index = params->no_index && !params->level;
	if (!err)
		err = extent_stats_new(params->events, params->nr_events, &pool->stats);
	if (!err)
		err = stack_cutter_new(params->events, params->nr_events, pool->stats, &pool->cutter);
	if (!err)
		err = start(pool, nr_workers);
	if (err) {
		batch_pool_free(pool);
		return diag_set(reterr, err,
				"cannot set up the memory between draining and writing (--buffer-memory): %s",
				diag_start_error(err));
	}
	*ret = pool;
	return 0;
}

void batch_pool_stop(struct batch_pool *pool)
{
	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->ending = true;
	while (pool->idle)
		wake_one(pool);
	pthread_mutex_unlock(&pool->lock);
	for (size_t i = 0; i < pool->nr_workers; i++) {
		pthread_join(pool->workers[i].thread, NULL);
		sem_destroy(&pool->workers[i].wake);
	}
	pool->nr_workers = 0;
	pool->totals.most_bytes = atomic_load(&pool->most_bytes);
}

void batch_pool_free(struct batch_pool *pool)
{
	if (!pool)
		return;
	batch_pool_stop(pool);
	if (pool->memory)
		munmap(pool->memory, pool->memory_bytes);
	if (pool->spare_memory)
		munmap(pool->spare_memory, pool->nr_spare * slot_bytes(pool));
	pthread_cond_destroy(&pool->room);
	pthread_cond_destroy(&pool->progress);
	pthread_mutex_destroy(&pool->lock);
	stack_cutter_free(pool->cutter);
	extent_stats_free(pool->stats);
	free_list_fini(&pool->free_jobs);
	free_list_fini(&pool->spare_jobs);
	idle_memory_free(pool->idle_memory);
	free(pool->jobs);
	free(pool->workers);
	free(pool);
}
