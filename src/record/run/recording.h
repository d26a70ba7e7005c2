/* SPDX-License-Identifier: MIT */
/*
 * recording: one run of `millrace record`, from options to finished file. Used by the main thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/adapt/steering.h"
#include "record/drain/overwrite.h"
#include "record/output/output_path.h"
#include "record/run/ledger.h"
#include "record/setup/options.h"
#include "record/unwind/unwinding.h"
#include "stream/batch_pool.h"

struct diag;

/* Records of one event that were lost on one CPU. */
struct recording_loss {
	const char *event; /* valid as long as the events */
	int cpu;           /* -1: any */
	pid_t tid;         /* -1: any */
	uint64_t records;
	size_t ring_bytes; /* of the ring that was full; 0: a ring of the overwrite channel, which was paused */
	bool task_events;  /* of an event that we added for task events, so no sample was lost */
};

struct recording_result {
	uint64_t bytes;      /* of records, as written */
	uint64_t nr_samples; /* 0 when they are not counted (-B, pipe) */
	bool samples_counted;
	uint64_t nr_off_cpu;           /* samples of --off-cpu that were made, also those that no output has any more */
	uint64_t nr_wait_stacks;       /* of tasks that began to wait: copies of stacks that came */
	uint64_t nr_no_room_stacks;    /* of these, for which there was no memory */
	struct recording_loss *losses; /* heap: recording_result_fini(); only what is not 0 */
	size_t nr_losses;
	uint64_t lost_records; /* sum of losses[].records, without lost_task_events */
	uint64_t lost_task_events;
	bool losses_counted; /* false: this kernel has no PERF_FORMAT_LOST (before 6.0); only LOST records tell */
	struct coverage coverage;
	struct overwrite_counters overwrite; /* of the overwrite rings */
	uint64_t nr_freezes, frozen_ns;      /* how often and how long the recorded tasks were stopped */
	uint64_t nr_trimmed;                 /* samples whose stack was cut short */
	struct unwinding_counts unwinding;
	uint64_t nr_unguarded; /* how often the tasks were not stopped, because the watchdog process had ended */
	struct steering_result steering;
	uint64_t unwritten_bytes; /* bytes of records that could not be written because of an error */
	uint64_t cut_samples;     /* removed at the end so that the header fits on a full disk */
	size_t nr_threads;        /* that drained */
	size_t nr_rings;
	size_t ring_bytes;               /* of each */
	uint64_t ring_total_bytes;       /* bytes that were drained from the rings */
	struct batch_pool_totals packed; /* what went through the memory before the output */
	uint64_t pool_bytes;             /* of that memory */
	bool compressed;
	uint64_t wakeups, rounds, cpu_ns; /* cpu_ns: of the recorder, all its threads */
	struct ledger_cost *costs;        /* heap; as in a ledger, of the whole recording */
	size_t nr_costs;
	char *output;              /* heap; name of the output for messages; NULL: the recording did not begin */
	enum output_change change; /* RENAMED: the present name is in `output`, if it is known */
	int wait_status;           /* of the workload */
	bool has_wait_status;
	int signal; /* that ended the recording; 0: none */
};

/*
 * Records until the workload or all targets end, or a signal comes. 0, or -errno with the reason in the diag. After an
 * error of the output the file is finished as far as possible, and *ret says what it holds.
 */
int recording_run(const struct recording_options *options, struct recording_result *ret, struct diag *reterr);
void recording_result_fini(struct recording_result *result);
