/* SPDX-License-Identifier: MIT */
/*
 * recording: one run of `millrace record`, from options to finished file. Used by the main thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/event.h"
#include "record/control.h"
#include "record/coverage.h"
#include "record/enable_times.h"
#include "record/engine.h"
#include "record/flight.h"
#include "record/ring_growth.h"
#include "record/eventset.h"
#include "record/rotation_spec.h"
#include "record/steering.h"
#include "record/synth_wishes.h"
#include "record/target.h"
#include "stream/pack_pool.h"

struct diag;

/* What is done when the memory before the writer is full. */
enum on_pressure {
	ON_PRESSURE_DROP,   /* the rings fill, and the kernel drops what does not fit, and counts it */
	ON_PRESSURE_TRIM,   /* stack dumps are cut short before that; then as above */
	ON_PRESSURE_FREEZE, /* the command, or the tasks of -p and -t, are stopped until there is room */
};

struct recording_options {
	struct target *target;          /* resolved; borrowed, the workload is added */
	bool threads_only;              /* -t */
	struct event_list *events;      /* parsed; borrowed, configured and adapted here */
	struct event_options sampling;  /* target, inherit, delayed, pipe_output, has_workload are filled in here */
	bool inherit;                   /* false: -i */
	bool side_channel;              /* what tasks do has rings of its own */
	struct eventset_sizes ring;
	uint64_t max_memory;            /* --max-memory: of rings, and of the memory before the writer; 0: as here is sane */
	double max_cpus;                /* --max-cpu: CPUs' worth of time that may be used while events flow; 0: any */
	struct recording_writer writer;
	enum on_pressure on_pressure;
	size_t buffer_bytes;            /* --buffer-memory: between draining and writing; 0: none but what -z needs */
	int compression_level;          /* 1 to ZSTD_LEVEL_LAST; 0: nothing is compressed */
	size_t flush_bytes;             /* --mmap-flush; 0: the default */
	const char *output;             /* NULL: perf.data */
	bool threads;                   /* --threads */
	bool directory;                 /* they drain into a data directory, each ring into a file; else all into one output */
	const char *thread_spec;        /* NULL: cpu */
	unsigned cpus_per_thread;       /* a thread for at most so many, whatever thread_spec says; 0: as that says */
	uint64_t restless_ns;           /* for tests: so often some ring goes to another thread; 0: when that helps */
	struct enable_times times;      /* -D */
	struct control_spec control;    /* --control */
	struct rotation_spec rotation;  /* --switch-output */
	struct event_list *switch_events; /* --switch-output-event; parsed; borrowed, configured here; NULL: none */
	size_t max_files;               /* --switch-max-files; 0: all */
	uint64_t max_bytes;             /* --max-size; 0: any */
	bool timestamp_name;            /* --timestamp-filename */
	bool tail_synthesize;           /* --tail-synthesize */
	int realtime;                   /* -r; 0: the default of priority.h */
	bool build_ids;                 /* false: -B */
	bool all_build_ids;             /* --buildid-all */
	struct synth_wishes synth;
	uint64_t sync_ms;               /* --sync: what is written goes to the disk that often; 0: when the kernel likes */
	char **workload;                /* NULL-terminated argv; NULL: none */
	int argc;                       /* of the subcommand, for the CMDLINE feature */
	char **argv;
};

/* What could not be kept, by event and CPU, and why. */
struct recording_loss {
	const char *event; /* valid as long as the events */
	int cpu;           /* -1: any */
	pid_t tid;         /* -1: any */
	uint64_t records;
	size_t ring_bytes; /* of the ring that was full; 0: the flight channel, which was paused */
};

struct recording_result {
	uint64_t bytes;        /* of records, as written */
	uint64_t nr_samples;   /* 0 when nobody counted (-B, pipe) */
	bool samples_counted;
	struct recording_loss *losses; /* heap: recording_result_fini(); only what is not 0 */
	size_t nr_losses;
	uint64_t lost_records; /* sum of losses */
	bool losses_counted;   /* false: this kernel has no PERF_FORMAT_LOST (before 6.0); only LOST records tell */
	struct coverage coverage;
	struct flight_counters flight; /* of events that were overwritten */
	uint64_t nr_freezes, frozen_ns; /* the recorded tasks were stopped */
	uint64_t nr_trimmed;            /* samples whose stack was cut short */
	uint64_t nr_unguarded;          /* times that they should have been, but nobody would let them go on if we died */
	struct steering_result steering;
	uint64_t unwritten_bytes; /* of records that we had when writing failed */
	uint64_t cut_samples;  /* given up at the end so that the header fits on a full disk */
	size_t nr_threads; /* that drained */
	size_t nr_rings;
	size_t ring_bytes;         /* of each */
	uint64_t ring_total_bytes; /* that came out of the rings */
	struct pack_totals packed; /* what was compressed */
	uint64_t wakeups, rounds, cpu_ns; /* cpu_ns: of the recorder, all its threads */
	struct ledger_cost *costs; /* heap; as in a ledger, of the whole recording */
	size_t nr_costs;
	char *output;    /* heap; what to call it; NULL: the recording did not begin */
	int wait_status;       /* of the workload */
	bool has_wait_status;
	int signal;            /* that ended the recording; 0: none */
};

/*
 * Records until workload, targets or a signal end it. 0, or -errno with the reason in the diag; after an error of
 * the output the file is finished as far as it goes, and *ret tells what it holds.
 */
int recording_run(const struct recording_options *options, struct recording_result *ret, struct diag *reterr);
void recording_result_fini(struct recording_result *result);
