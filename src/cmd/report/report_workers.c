/* SPDX-License-Identifier: MIT */

#include <errno.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/report/time_bins.h"
#include "base/thread_pool.h"
#include "cmd/report/report_samples.h"
#include "cmd/report/report_workers.h"
#include "read/prefetcher.h"

enum {
	CHUNKS_MAX = PREFETCHER_SPAN_MAX, /* side by side */
	WORD_BITS = 64,
	CHUNK_WORDS = PREFETCHER_CHUNK_MAX / WORD_BITS,
	LEAST_RECORDS = 2048, /* fewer are done before others have woken up */
	CACHE_LINE = 64,
};

/* What one thread has for itself. */
struct report_worker {
	alignas(CACHE_LINE) struct tally_share *shares; /* of each event */
	size_t nr_shares;
	uint32_t pid, tid;       /* of the task that was met last in this run */
	struct task *task;       /* NULL: none */
	struct time_bins *times; /* heap; NULL: not wanted */
};

struct report_workers {
	struct samples *samples;             /* borrowed */
	const struct prefetcher *prefetcher; /* during a run, like what follows */
	const struct prefetcher_chunk *chunks;
	size_t width; /* chunks that are tried side by side next: the more, the fewer had to be taken one by one before
		       */
	uint64_t needs_update[CHUNKS_MAX][CHUNK_WORDS]; /* a bit for each sample that is to be taken one by one */
	unsigned nr_workers;
	struct report_worker each[];
};

int report_workers_new(struct samples *samples, struct report_workers **ret)
{
	unsigned nr = thread_pool_useful_size();

	*ret = NULL;
	if (nr < 2)
		return 0;
	size_t bytes = sizeof(struct report_workers) + nr * sizeof(struct report_worker);
	struct report_workers *workers = aligned_alloc(CACHE_LINE, (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
	if (!workers)
		return -ENOMEM;
	memset(workers, 0, bytes);
	workers->samples = samples;
	workers->width = 1;
	workers->nr_workers = nr;
	for (unsigned i = 0; i < nr && samples->times; i++) {
		workers->each[i].times = calloc(1, sizeof(*workers->each[i].times));
		if (!workers->each[i].times) {
			report_workers_free(workers);
			return -ENOMEM;
		}
	}
	*ret = workers;
	return 0;
}

void report_workers_free(struct report_workers *workers)
{
	if (!workers)
		return;
	for (unsigned i = 0; i < workers->nr_workers; i++) {
		for (size_t event = 0; event < workers->each[i].nr_shares; event++)
			tally_share_fini(&workers->each[i].shares[event]);
		free(workers->each[i].shares);
		free(workers->each[i].times);
	}
	free(workers);
}

unsigned report_workers_nr(const struct report_workers *workers)
{
	return workers ? workers->nr_workers : 1;
}

static int worker_fit(struct report_worker *worker, const struct samples *samples)
{
	if (worker->nr_shares < samples->nr) {
		struct tally_share *shares = reallocarray(worker->shares, samples->nr, sizeof(*shares));
		if (!shares)
			return -ENOMEM;
		memset(shares + worker->nr_shares, 0, (samples->nr - worker->nr_shares) * sizeof(*shares));
		worker->shares = shares;
		worker->nr_shares = samples->nr;
	}
	for (size_t event = 0; event < samples->nr; event++)
		if (tally_share_fit(&worker->shares[event], &samples->events[event].tally))
			return -ENOMEM;
	if (worker->times && !worker->times->bin_ns)
		time_bins_begin(worker->times, samples->times);
	worker->task = NULL; /* it may have gone since the last run */
	return 0;
}

static struct task *worker_task(struct report_worker *worker, const struct machine *machine,
				const struct sample *sample)
{
	if (!worker->task || worker->tid != sample->tid || worker->pid != sample->pid) {
		worker->task = machine_known_task(machine, sample->pid, sample->tid);
		worker->pid = sample->pid;
		worker->tid = sample->tid;
	}
	return worker->task;
}

/* false: it is to be taken by samples_take(). */
static bool count(const struct samples *samples, struct report_worker *worker, const struct session_record *record)
{
	const struct task *task = worker_task(worker, samples->machine, &record->sample);
	struct samples_place place;

	if (!task || (worker->times && !worker->times->bin_ns) || !samples_find_cached(samples, record, task, &place))
		return false;
	if (place.left_out)
		return true;
	struct hist_amount *amount = &worker->shares[place.event].amounts[place.cell];
	amount->period += record->sample.period;
	amount->nr_samples++;
	if (worker->times && record->sample.present & PERF_SAMPLE_TIME)
		time_bins_add(worker->times, record->sample.time);
	return true;
}

static void count_chunk(void *ctx, unsigned worker, unsigned index)
{
	struct report_workers *workers = ctx;
	const struct prefetcher_chunk *chunk = &workers->chunks[index];
	struct session_record record;

	for (size_t at = 0; at < chunk->nr; at++) {
		int got = prefetcher_decode(workers->prefetcher, chunk, at, &record);
		if (got && (got < 0 || !count(workers->samples, &workers->each[worker], &record)))
			workers->needs_update[index][at / WORD_BITS] |= 1ull << at % WORD_BITS;
	}
}

static int take_one(struct report_workers *workers, struct prefetcher *prefetcher, const struct prefetcher_chunk *chunk,
		    size_t at)
{
	const struct session_record *record;

	return prefetcher_decode_again(prefetcher, chunk, at, &record) ? samples_take(workers->samples, record) : 0;
}

/* How many; -errno. */
static int64_t take_updating(struct report_workers *workers, struct prefetcher *prefetcher, size_t index)
{
	int64_t nr = 0;

	for (size_t word = 0; word < CHUNK_WORDS; word++) {
		for (uint64_t bits = workers->needs_update[index][word]; bits; bits &= bits - 1, nr++) {
			size_t at = word * WORD_BITS + (size_t)__builtin_ctzll(bits);
			int err = take_one(workers, prefetcher, &workers->chunks[index], at);
			if (err)
				return err;
		}
	}
	return nr;
}

/* How many could not be counted side by side; -errno. */
static int64_t take_together(struct report_workers *workers, struct prefetcher *prefetcher, struct report_run run)
{
	int64_t nr_updating = 0;

	for (unsigned i = 0; i < workers->nr_workers; i++)
		if (worker_fit(&workers->each[i], workers->samples))
			return -ENOMEM;
	workers->prefetcher = prefetcher;
	workers->chunks = run.chunks;
	memset(workers->needs_update, 0, run.nr * sizeof(workers->needs_update[0]));
	prefetcher_share(prefetcher, count_chunk, workers, (unsigned)run.nr);
	for (size_t i = 0; i < run.nr; i++) {
		int64_t nr = take_updating(workers, prefetcher, i);
		if (nr < 0)
			return nr;
		nr_updating += nr;
	}
	return nr_updating;
}

/* How many looked like none before; -errno. */
static int64_t take_alone(struct report_workers *workers, struct prefetcher *prefetcher, struct report_run run)
{
	uint64_t found = workers->samples->nr_found;

	for (size_t i = 0; i < run.nr; i++) {
		for (size_t at = 0; at < run.chunks[i].nr; at++) {
			int err = take_one(workers, prefetcher, &run.chunks[i], at);
			if (err)
				return err;
		}
	}
	return (int64_t)(workers->samples->nr_found - found);
}

/* What is known grows with what was taken one by one; after a record that changed the machine nothing is. */
static void learn(struct report_workers *workers, int64_t nr_updating, int64_t nr)
{
	enum { FEW = 8 }; /* of so many one */

	if (nr_updating > nr / FEW)
		workers->width = 1;
	else if (workers->width < CHUNKS_MAX)
		workers->width *= 2;
}

static int64_t run_records(struct report_run run)
{
	int64_t nr = 0;

	for (size_t i = 0; i < run.nr; i++)
		nr += (int64_t)run.chunks[i].nr;
	return nr;
}

int64_t report_workers_take(struct report_workers *workers, struct prefetcher *prefetcher, struct report_run run)
{
	int64_t taken = 0;

	for (size_t done = 0; done < run.nr;) {
		size_t width = workers->width < run.nr - done ? workers->width : run.nr - done;
		struct report_run part = {run.chunks + done, width};
		int64_t nr = run_records(part);
		bool together = width > 1 && nr >= LEAST_RECORDS;
		int64_t nr_updating =
			together ? take_together(workers, prefetcher, part) : take_alone(workers, prefetcher, part);
		if (nr_updating < 0)
			return nr_updating;
		learn(workers, nr_updating, nr);
		done += width;
		taken += nr;
	}
	return taken;
}

void report_workers_join(struct report_workers *workers)
{
	for (unsigned i = 0; workers && i < workers->nr_workers; i++) {
		for (size_t event = 0; event < workers->each[i].nr_shares; event++)
			tally_join(&workers->samples->events[event].tally, &workers->each[i].shares[event]);
		if (workers->each[i].times)
			time_bins_join(workers->samples->times, workers->each[i].times);
	}
}
