/* SPDX-License-Identifier: MIT */
/* What the options of millrace record fill in. Owned by the command; used by the main thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/option.h"
#include "event/event.h"
#include "record/recording.h"
#include "record/target.h"

struct threads_option {
	bool given;
	bool one; /* --no-threads */
	const char *spec;
};

/* --fail-on-loss */
struct loss_limit {
	bool given;
	double percent; /* of captured and lost together */
};

struct record_options {
	struct event_list events;
	struct event_list switch_events; /* --switch-output-event */
	struct target_request target;
	struct event_options sampling;
	bool no_inherit;
	bool no_side_channel;
	const char *output;
	uint64_t max_memory;            /* --max-memory; 0: none was named */
	double max_cpus;                /* --max-cpu; 0: any */
	size_t ring_pages;
	struct recording_writer writer;
	int compression_level;
	uint64_t buffer_bytes;
	enum on_pressure on_pressure;
	struct threads_option threads;
	bool single_file;
	uint64_t flush_bytes;
	struct enable_times times;
	struct control_spec control;
	struct rotation_spec rotation;
	uint64_t max_files, max_bytes;
	bool timestamp_name, timestamp_boundary, tail_synthesize;
	int realtime;
	bool no_build_ids;
	uint64_t sync_ms;
	struct loss_limit fail_on_loss;
	bool all_build_ids;
	bool bundle; /* --bundle */
	unsigned nr_cgroups;    /* of -G so far */
	const char *affinity;   /* --affinity; NULL: not given */
	struct synth_wishes synth;
	bool no_build_id_cache; /* -N; there is none to be updated */
	bool dry_run;
	bool quiet;
	int verbose;
};

extern const struct option record_option_table[];
