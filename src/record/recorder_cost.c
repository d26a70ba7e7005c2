/* SPDX-License-Identifier: MIT */
#include "record/recorder_cost.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "record/keeper.h"
#include "record/readers.h"
#include "stream/pack_pool.h"

struct named_cost {
	const char *name;
	uint64_t value;
};

static int add_all(struct ledger *ledger, const struct named_cost costs[], size_t nr)
{
	int err = 0;

	for (size_t i = 0; i < nr && !err; i++)
		err = ledger_add_cost(ledger, costs[i].name, costs[i].value);
	return err;
}

#define ADD_ALL(ledger, costs) add_all(ledger, costs, sizeof(costs) / sizeof((costs)[0]))

/* proc_pid_io(5): "syscw: 12". 0: the kernel does not count it. */
static uint64_t io_count(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static int add_io(struct ledger *ledger)
{
	AUTO_BUF struct buf io = {0};

	if (fd_slurp("/proc/self/io", 4096, &io))
		return 0;
	const char *text = buf_text(&io);
	const struct named_cost costs[] = {
		{"read calls", io_count(text, "syscr: ")},
		{"write calls", io_count(text, "syscw: ")},
		{"written bytes", io_count(text, "wchar: ")},
	};
	return ADD_ALL(ledger, costs);
}

static int add_process(struct ledger *ledger)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage))
		return 0;
	const struct named_cost costs[] = {
		{"all cpu ns", clock_ns(CLOCK_PROCESS_CPUTIME_ID)},
		{"page faults", (uint64_t)(usage.ru_minflt + usage.ru_majflt)},
		{"sleeps", (uint64_t)usage.ru_nvcsw},
		{"preemptions", (uint64_t)usage.ru_nivcsw},
	};
	int err = ADD_ALL(ledger, costs);
	return err ? err : add_io(ledger);
}

static const struct reader_work *work_of(const struct reader *reader)
{
	return reader->started ? &reader->at_switch : &reader->at_end;
}

/* Of several: who of them did it. */
static int add_threads(const struct readers *readers, struct ledger *ledger)
{
	int err = 0;

	for (size_t i = 0; i < readers->nr && readers->nr > 1 && !err; i++) {
		AUTO_BUF struct buf name = {0};
		buf_printf(&name, "drain thread %zu cpu ns", i);
		err = ledger_add_cost(ledger, buf_text(&name), work_of(&readers->readers[i])->use.cpu_ns);
	}
	return err;
}

static int add_drain(const struct readers *readers, struct ledger *ledger)
{
	struct reader_work all = {0};

	for (size_t i = 0; i < readers->nr; i++) {
		const struct reader_work *work = work_of(&readers->readers[i]);
		all.use.cpu_ns += work->use.cpu_ns;
		all.use.waited_ns += work->use.waited_ns;
		all.use.sleeps += work->use.sleeps;
		all.use.preemptions += work->use.preemptions;
		all.wakeups += work->wakeups;
		all.visits += work->visits;
		all.bytes += work->bytes;
	}
	const struct named_cost costs[] = {
		{"drain cpu ns", all.use.cpu_ns},
		{"drain waited for a CPU ns", all.use.waited_ns},
		{"drain wake-ups", all.wakeups},
		{"drain sleeps", all.use.sleeps},
		{"drain preemptions", all.use.preemptions},
		{"drain visits", all.visits},
		{"drained bytes", all.bytes},
	};
	int err = ADD_ALL(ledger, costs);
	return err ? err : add_threads(readers, ledger);
}

/* What those did who compress and write beside the drain. */
static int add_pool(struct pack_pool *pool, struct ledger *ledger)
{
	if (!pool)
		return 0;
	pthread_mutex_lock(&pool->lock);
	const struct named_cost costs[] = {
		{"compress cpu ns", pool->totals.pack_cpu_ns},
		{"write cpu ns", pool->totals.write_cpu_ns},
	};
	pthread_mutex_unlock(&pool->lock);
	return ADD_ALL(ledger, costs);
}

/* All that grows, always in the same order. */
static int add_sums(const struct recorder_cost *cost, struct ledger *ledger)
{
	int err = ledger_add_cost(ledger, "start cpu ns", cost->start_cpu_ns);

	if (!err)
		err = add_drain(cost->readers, ledger);
	if (!err)
		err = add_pool(cost->pool, ledger);
	if (!err)
		err = ledger_add_cost(ledger, "keeper cpu ns", cost->keeper->cpu_ns);
	return err ? err : add_process(ledger);
}

static int add_peak(struct ledger *ledger)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage))
		return 0;
	return ledger_add_cost(ledger, "peak memory bytes", (uint64_t)usage.ru_maxrss * 1024);
}

int recorder_cost_cut(struct recorder_cost *cost, struct ledger *ledger)
{
	struct ledger now = {0};
	int err = add_sums(cost, &now);

	for (size_t i = 0; i < now.nr_costs && !err; i++) {
		uint64_t before = i < cost->told.nr_costs ? cost->told.costs[i].value : 0;
		err = ledger_add_cost(ledger, now.costs[i].name, now.costs[i].value - before);
	}
	if (!err)
		err = add_peak(ledger);
	ledger_fini(&cost->told);
	cost->told = now;
	return err;
}

int recorder_cost_add(const struct recorder_cost *cost, struct ledger *ledger)
{
	int err = add_sums(cost, ledger);

	return err ? err : add_peak(ledger);
}

void recorder_cost_fini(struct recorder_cost *cost)
{
	ledger_fini(&cost->told);
}
