/* SPDX-License-Identifier: MIT */
#include "record/recorder_cost.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "format/feature_ledger.h"
#include "record/data_files.h"
#include "record/readers.h"

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
	int err = ledger_add_cost(ledger, "read calls", io_count(text, "syscr: "));
	if (!err)
		err = ledger_add_cost(ledger, "write calls", io_count(text, "syscw: "));
	return err ? err : ledger_add_cost(ledger, "written bytes", io_count(text, "wchar: "));
}

static int add_usage(struct ledger *ledger)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage))
		return 0;
	int err = ledger_add_cost(ledger, "all cpu ns", clock_ns(CLOCK_PROCESS_CPUTIME_ID));
	if (!err)
		err = ledger_add_cost(ledger, "page faults", (uint64_t)(usage.ru_minflt + usage.ru_majflt));
	if (!err)
		err = ledger_add_cost(ledger, "peak memory bytes", (uint64_t)usage.ru_maxrss * 1024);
	return err ? err : ledger_add_cost(ledger, "preemptions", (uint64_t)usage.ru_nivcsw);
}

int recorder_cost_add(const struct readers *readers, const struct data_files *files, uint64_t keeper_cpu_ns,
		      struct ledger *ledger)
{
	uint64_t cpu_ns = 0, wakeups = 0, bytes = 0, visits = 0;

	for (size_t i = 0; i < readers->nr; i++) {
		cpu_ns += readers->readers[i].cpu_ns;
		wakeups += readers->readers[i].wakeups;
	}
	for (size_t i = 0; i < files->nr; i++) {
		bytes += files->files[i].stream.counters.bytes;
		visits += files->files[i].stream.counters.chunks;
	}
	int err = ledger_add_cost(ledger, "drain cpu ns", cpu_ns);
	if (!err)
		err = ledger_add_cost(ledger, "drain wake-ups", wakeups);
	if (!err)
		err = ledger_add_cost(ledger, "drain visits", visits);
	if (!err)
		err = ledger_add_cost(ledger, "drained bytes", bytes);
	if (!err)
		err = ledger_add_cost(ledger, "keeper cpu ns", keeper_cpu_ns);
	if (!err)
		err = add_usage(ledger);
	return err ? err : add_io(ledger);
}
