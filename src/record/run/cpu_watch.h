/* SPDX-License-Identifier: MIT */
/*
 * cpu_watch: which CPUs go offline and come online while we record. When a CPU goes offline the kernel ends the events
 * that count all of it, and they do not come back with the CPU (perf_event_exit_cpu_context() in kernel/events/core.c);
 * of one that comes online later there are none. Owned by the recording; used by the main thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cpuset.h"

struct ledger;
struct target;

/* From then on we are blind there. */
struct cpu_blind {
	unsigned cpu;
	uint64_t from_ns; /* CLOCK_MONOTONIC */
};

struct cpu_watch {
	const struct target *target; /* borrowed */
	int fd;                      /* netlink(7), non-blocking; -1: the kernel does not tell us */
	struct cpuset gone;          /* recorded CPUs that are offline */
	struct cpuset watched;       /* CPUs of `blind` */
	struct cpu_blind *blind;     /* heap */
	size_t nr_blind;
};

/* Before events are opened. A kernel or sandbox that gives no such socket leaves it without. */
void cpu_watch_open(struct cpu_watch *watch, const struct target *target);
void cpu_watch_close(struct cpu_watch *watch); /* zeroed is not fine: fd is -1 */

/* When `fd` is readable: logs what happened to CPUs that concern the target. */
void cpu_watch_read(struct cpu_watch *watch);

/* What one uevent means; `text` is all of it. For cpu_watch_read() and tests. 0 or -ENOMEM. */
int cpu_watch_take(struct cpu_watch *watch, const char *text, uint64_t now_ns);

/* The times in which we were blind, as entries of CLOCK_MONOTONIC. 0 or -ENOMEM. */
int cpu_watch_account(const struct cpu_watch *watch, struct ledger *ledger);
