/* SPDX-License-Identifier: MIT */
/*
 * off_cpu_run: --off-cpu in one recording: the stages (record/off_cpu), and what they cannot learn from records: when
 * the events were enabled and disabled, which tasks were asleep then, what the kernel dropped. Zeroed: without
 * --off-cpu; all functions are fine then. Used by the main thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

struct described_events;
struct diag;
struct event_list;
struct eventset;
struct ledger;
struct ledger_book;
struct off_cpu_stages;
struct plan;
struct recording_options;
struct stage_maker;
struct target;

struct off_cpu_run {
	struct off_cpu_stages *stages; /* owned */
	const struct recording_options *options;
	struct eventset *set;
	const struct plan *plan;
	const struct ledger_book *book; /* whose clock is that of samples */
	struct event_desc *events;      /* heap; as records come to the stage; names and ids are borrowed */
	pid_t workload_pid;             /* 0: no command */
	bool has_snapshots;             /* its events are in overwrite rings */
	bool has_children;              /* what recorded tasks start is recorded, and looked for where events begin */
	struct buf found;               /* struct off_cpu_task, for the snapshot that comes next */
	struct buf disabled;            /* struct disabled_time */
	uint64_t disabled_ns;           /* CLOCK_MONOTONIC, since when its events are; 0: they are not */
};

struct off_cpu_run_params {
	const struct recording_options *options; /* with --off-cpu */
	const struct plan *plan;
	const struct described_events *described;
	const struct ledger_book *book;
	pid_t workload_pid;      /* 0: no command */
	bool overwrites;         /* there are overwrite rings */
	size_t most_stack_bytes; /* struct off_cpu_params */
	bool starts_at_exec;     /* the events begin with the exec of the command */
};

/*
 * Before events are opened: where the recorded tasks are named, and no others come to them, the kernel leaves out the
 * wake-ups of all others. 0 or -ENOMEM.
 */
int off_cpu_run_filter_wake_ups(struct event_list *list, const struct target *target);

/* Events are open; all of params is borrowed until off_cpu_run_close(). 0, -ENOMEM or -EINVAL with the reason. */
int off_cpu_run_open(struct off_cpu_run *run, struct eventset *set, const struct off_cpu_run_params *params,
		     struct diag *reterr);

/* Has the events just been enabled, or will they be disabled next? */
void off_cpu_run_switch(struct off_cpu_run *run, bool on);

/*
 * For a snapshot of overwrite rings, in which there may be nothing of tasks that sleep: look for them, say what time it
 * is on the clock of samples (0: not known, or no such snapshots), copy the rings, and tell the stages.
 */
void off_cpu_run_find_tasks(struct off_cpu_run *run);
uint64_t off_cpu_run_now(const struct off_cpu_run *run);
void off_cpu_run_note_tasks(struct off_cpu_run *run, uint64_t time_ns);

/* The recording is about to end: the present time for off_cpu_run_stop(); 0: without --off-cpu. */
uint64_t off_cpu_run_end(struct off_cpu_run *run);
/* Nothing is drained any more. */
void off_cpu_run_stop(struct off_cpu_run *run, uint64_t end_ns);

/* When the events were disabled in between: of a task that ran all the time no wait tells. 0 or -ENOMEM. */
int off_cpu_run_account(const struct off_cpu_run *run, struct ledger *ledger);

void off_cpu_run_close(struct off_cpu_run *run);
