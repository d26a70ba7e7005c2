/* SPDX-License-Identifier: MIT */
/*
 * off_cpu_stage: samples of the event "offcpu-time" (tasks/off_cpu.h) in place of those of context switches and
 * wake-ups, before anything is stored. A stage (stream/stage.h) of each output, behind the one that unwinds.
 *
 * A task leaves one CPU and runs again on another, whose records are in another ring: they are taken in the order of
 * their times, of all outputs together. Owned by the recording; its stages are called by workers, and take a lock.
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
	const struct event_desc *events; /* as records come from the stage before; borrowed */
	size_t nr_events;
	size_t switches;                    /* index of the event that tells of switches */
	size_t wake_ups;                    /* of that for wake-ups; nr_events: none */
	struct event_off_cpu_fields fields; /* of their payloads */
	bool all_tasks;                     /* of the CPUs, and not only those that were named */
	bool keeps_switch_records;          /* PERF_RECORD_SWITCH, which --switch-events asks for */
	bool starts_later;                  /* off_cpu_switch() will tell when */
	bool in_snapshots;                  /* the rings are overwritten: their records come by off_cpu_snapshot() */
	uint64_t min_ns;                    /* waits that are shorter are added up for each task */
};

/* 0 or -ENOMEM; -EINVAL: records have no time. */
int off_cpu_stages_new(const struct off_cpu_params *params, struct off_cpu_stages **ret);
void off_cpu_stages_free(struct off_cpu_stages *stages); /* after its stages. NULL is fine */

struct stage_maker *off_cpu_maker(struct off_cpu_stages *stages); /* valid as long as it */

/*
 * The events that tell of switches were enabled, or are about to be disabled. `now_ns`: by the clock of samples. From
 * any thread; NULL is fine. Without a call they are taken to be enabled from the first record on, as by an exec.
 */
void off_cpu_switch(struct off_cpu_stages *stages, bool on, uint64_t now_ns);

/*
 * A task was asleep at that time, after the events were enabled: without a record of it it was off the CPU all the
 * time. From any thread. 0 or -ENOMEM.
 */
struct off_cpu_sleeper {
	uint32_t pid, tid;
	uint64_t time_ns;
};
int off_cpu_asleep(struct off_cpu_stages *stages, const struct off_cpu_sleeper *sleeper);

/*
 * What rings that are overwritten held, whole records in any order, of which none is missing from `from_ns` to `to_ns`
 * (0: from the enabling on; until off_cpu_stop()): the waits of that time take the place of switches and wake-ups. Of
 * what is older or younger nothing is told. Any thread, one after the other. 0 or -errno. NULL is fine.
 */
struct off_cpu_window {
	uint64_t from_ns, to_ns;
};
int off_cpu_snapshot(struct off_cpu_stages *stages, struct off_cpu_window window, struct buf *records);

/*
 * They are off for good; only what was drained is still to come, into the outputs that are open. `nr_lost`: records
 * that the kernel dropped in all. NULL is fine.
 */
void off_cpu_stop(struct off_cpu_stages *stages, uint64_t end_ns, uint64_t nr_lost);

/* So far, from any thread; all 0 for NULL. */
struct off_cpu_counts {
	uint64_t nr_waits, wait_ns;      /* written one by one */
	uint64_t nr_short, short_ns;     /* added up */
	uint64_t nr_unknown, unknown_ns; /* records were lost in between */
};
struct off_cpu_counts off_cpu_counts(struct off_cpu_stages *stages);
