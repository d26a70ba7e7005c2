/* SPDX-License-Identifier: MIT */
/*
 * off_cpu_stage: replaces the samples of context switches and wake-ups by samples of the event "offcpu-time"
 * (tasks/off_cpu.h), before anything is stored. A stage (stream/stage.h) of each output, behind the one that unwinds.
 *
 * A task may leave one CPU and run again on another, whose records are in another ring. So the records of all outputs
 * are processed in the order of their times. Owned by the recording; its stages are called by workers, and take a lock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/parse/event.h"
#include "perfdata/attr.h"
#include "stream/stage.h"

struct buf;
struct off_cpu_stages;

struct off_cpu_params {
	const struct event_desc *events; /* with the attrs of the records that the previous stage passes on; borrowed */
	size_t nr_events;
	size_t switches;                    /* index of the event of context switches */
	size_t wake_ups;                    /* index of the event of wake-ups; nr_events: none */
	struct event_off_cpu_fields fields; /* of their payloads */
	bool all_tasks;                     /* true: all tasks of the CPUs are recorded; false: only the targets */
	bool children;                      /* true: tasks that recorded ones start are recorded, too */
	bool keeps_switch_records;          /* PERF_RECORD_SWITCH, which --switch-events asks for */
	bool starts_later;                  /* the events are enabled later: off_cpu_switch() is called then */
	bool in_snapshots; /* these events have overwrite rings: their records come by off_cpu_snapshot() */
	uint64_t min_ns;   /* waits that are shorter are added up for each task */
	/* Of tasks that wait: if copies of their stacks would take more memory, waits have none. 0: no limit */
	size_t most_stack_bytes;
	/*
	 * Adds up how many records of each ring the kernel has dropped so far, by the number of off_cpu_add_ring().
	 * Called by workers. NULL: not known before the end.
	 */
	void (*count_lost)(void *ctx, uint64_t ret_nr_lost[]);
	bool (*has_ended)(void *ctx, uint32_t tid); /* that task, by now; likewise */
	/*
	 * Appends records that describe these threads and processes, which are not recorded themselves and have woken
	 * tasks that are: once in a file. Nothing of those that have ended. 0 or -ENOMEM. Called by workers, and by
	 * off_cpu_snapshot(). NULL: all tasks are recorded.
	 */
	int (*describe)(void *ctx, const uint32_t tids[], size_t nr, struct buf *out);
	void *ctx;
};

/* 0 or -ENOMEM; -EINVAL: records have no time. */
int off_cpu_stages_new(const struct off_cpu_params *params, struct off_cpu_stages **ret);
/*
 * Says in which ring the records of that event are: where some of a ring are lost, it tells from when on. `cpu`: what
 * is there comes from that CPU; -1: from any. Before the first batch. 0 or -ENOMEM.
 */
int off_cpu_add_ring(struct off_cpu_stages *stages, uint64_t event_id, size_t ring, int cpu);
void off_cpu_stages_free(struct off_cpu_stages *stages); /* after its stages. NULL is fine */

/* struct stream, full_ns: of all whose records come. */
_Atomic uint64_t *off_cpu_full_ns(struct off_cpu_stages *stages);

struct stage_maker *off_cpu_maker(struct off_cpu_stages *stages); /* valid as long as it */

/*
 * Says that the events of context switches were enabled, or are about to be disabled. `now_ns`: by the clock of
 * samples. Any thread; NULL is fine. Without a call they count as enabled from the first record on, as by an exec.
 */
void off_cpu_switch(struct off_cpu_stages *stages, bool on, uint64_t now_ns);
/*
 * Says that they are disabled by now, in all rings. What tasks did in between is no beginning of a wait: of what they
 * do from now on nothing tells.
 */
void off_cpu_all_off(struct off_cpu_stages *stages, uint64_t now_ns);

/*
 * Says what a task did at that time, after the events were enabled; state as in struct off_cpu_wait, OFF_CPU_PREEMPTED:
 * it was ready to run, on no CPU; 0: it may have run. If it did not, and no record of the task follows, it was off the
 * CPU for the whole time. One that is no target counts only if records tell that recorded tasks started it. Times do
 * not go back from one call to the next. Any thread. 0 or -ENOMEM.
 */
struct off_cpu_task {
	uint32_t pid, tid, state;
	bool is_target;
	uint64_t time_ns;
};
int off_cpu_found(struct off_cpu_stages *stages, const struct off_cpu_task *task);

/*
 * Appends the uint32_t tid of each task that was there before the events were enabled, and of which no switch came
 * since, and off_cpu_found() did not tell. Any thread. Nothing where all tasks are recorded, and of snapshots.
 */
void off_cpu_list_unseen(struct off_cpu_stages *stages, struct buf *ret_tids);

/*
 * For a snapshot of overwrite rings: `records` are whole records in any order, and none is missing from `from_ns` to
 * `to_ns` (from_ns 0: since the events were enabled). Replaces the samples of context switches and wake-ups among them
 * by the waits of that time; gives no waits before or after it. A time after off_cpu_stop() is left out of the window.
 * Any thread, one at a time. 1; 0: NULL, or these events have no overwrite rings; or -errno.
 */
struct off_cpu_window {
	uint64_t from_ns, to_ns;
};
int off_cpu_snapshot(struct off_cpu_stages *stages, struct off_cpu_window *window, struct buf *records);

/*
 * Says that the events of context switches were disabled after `end_ns` and will not be enabled again: up to then all
 * switches are known. Only records that are drained already still come, into outputs that are open. `nr_lost`: how many
 * records the kernel dropped in the whole recording. NULL is fine.
 */
void off_cpu_stop(struct off_cpu_stages *stages, uint64_t end_ns, uint64_t nr_lost);

/* The counts so far; any thread; all 0 for NULL. */
struct off_cpu_counts {
	uint64_t nr_samples;             /* that were made of what follows */
	uint64_t nr_waits, wait_ns;      /* written one by one */
	uint64_t nr_short, short_ns;     /* added up */
	uint64_t nr_unknown, unknown_ns; /* records were lost in between */
	uint64_t nr_stacks, nr_no_room;  /* copies of stacks that came; for which there was no memory */
};
struct off_cpu_counts off_cpu_counts(struct off_cpu_stages *stages);
