/* SPDX-License-Identifier: MIT */
/*
 * cpu_watch: notes which CPUs go offline or come online while we record. When a CPU goes offline the kernel ends the
 * events that count all of the CPU, and they do not start again with it (perf_event_exit_cpu_context() in
 * kernel/events/core.c): they are opened again. A CPU that comes online and was not there before has no events. Owned
 * by the recording; used by the main thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cpuset.h"

struct diag;
struct ledger;
struct target;

/* In this time nothing, or not everything, is recorded on this CPU, which is online. */
struct cpu_blind {
	unsigned cpu;
	uint64_t from_ns, to_ns; /* CLOCK_MONOTONIC; to_ns 0: until the end */
};

/* eventset_reopen(). 0; 1: task events are open, not those of all samples; or -errno and why */
typedef int cpu_reopen(void *ctx, int cpu, struct diag *reterr);

struct cpu_watch {
	const struct target *target; /* borrowed */
	int fd;                      /* netlink(7), non-blocking; -1: changes of CPUs are not reported to us */
	struct cpuset gone;          /* CPUs that have events, and are offline */
	struct cpu_blind *blind;     /* heap */
	size_t nr_blind;
	cpu_reopen *reopen; /* set by the caller when the events are enabled; NULL: they are not opened again */
	void *reopen_ctx;
};

/* To be called before events are opened. When the kernel or a sandbox refuses the socket, fd is -1. */
void cpu_watch_open(struct cpu_watch *watch, const struct target *target);
void cpu_watch_close(struct cpu_watch *watch); /* an unopened one must have fd -1, not be zeroed */

/* The CPU was offline when its events were to be opened: says so; they are opened when it comes back. 0 or -ENOMEM. */
int cpu_watch_left_out(struct cpu_watch *watch, unsigned cpu);

/* When `fd` is readable: logs what happened to CPUs that concern the target. */
void cpu_watch_read(struct cpu_watch *watch);

/* Processes one uevent; `text` is the whole message. Called by cpu_watch_read() and tests. 0 or -ENOMEM. */
int cpu_watch_take(struct cpu_watch *watch, const char *text, uint64_t now_ns);

/*
 * Messages were lost: compares with which CPUs are online. A CPU that went offline and came back in between is not
 * noticed. Called by cpu_watch_read() and tests. 0 or -ENOMEM.
 */
int cpu_watch_compare(struct cpu_watch *watch, const struct cpuset *online, uint64_t now_ns);

/* Adds the times without events to the ledger (LEDGER_CPU_BACK, in CLOCK_MONOTONIC). 0 or -ENOMEM. */
int cpu_watch_account(const struct cpu_watch *watch, struct ledger *ledger);
