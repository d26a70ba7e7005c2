/* SPDX-License-Identifier: MIT */
/* record: the options of `millrace record` and the parts of the command. Main thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cmd/cli/option.h"
#include "event/parse/event.h"
#include "record/setup/options.h"
#include "record/setup/target.h"

struct diag;
struct recording_options;
struct recording_result;

struct threads_option {
	bool given;
	bool one; /* --no-threads */
	const char *spec;
	const char *place; /* of the configuration file that has it: configuration_place(); NULL: none */
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
	bool latency; /* of the switches of sampling */
	struct {
		bool off;
		size_t ring_pages; /* 0: a default for this machine */
	} side_channel;
	const char *output;
	uint64_t max_memory; /* --max-memory; 0: none was named */
	double max_cpus;     /* --max-cpu; 0: any */
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
	bool durable;
	bool wait_close;
	struct loss_limit fail_on_loss;
	bool all_build_ids;
	bool bundle;          /* --bundle */
	unsigned nr_cgroups;  /* of -G so far */
	const char *affinity; /* --affinity; NULL: not given */
	struct synth_options synth;
	const char *build_id_dir; /* --buildid-dir; NULL: ~/.debug */
	bool no_build_id_cache;   /* -N */
	bool dry_run;
	bool quiet;
	int verbose;
};

extern const struct option record_option_table[];

/*
 * Chooses how many threads drain the rings, into which output, and which writer stores it. Pure. Sets threads,
 * directory, thread_spec with its place, cpus_per_thread and writer of a recording whose target and compression_level
 * are known, and its output where the writer is null.
 */
enum drain_facts {
	DRAIN_INTO_PIPE = 1,     /* the output is one */
	DRAIN_IN_FAIR_SHARE = 2, /* the recorder may not have real-time priority */
};
void drain_choose(const struct record_options *options, enum drain_facts facts, struct recording_options *recording);

/* Logs what was captured and what was lost; nothing with -q. */
void record_summary_print(const struct recording_result *result);

/*
 * --bundle: copies of what a recording refers to, kept beside it, so that it can be read on another machine. The
 * directory is laid out as perf's cache of build-ids, so that perf can be pointed at it: perf --buildid-dir FILE.bundle
 * report.
 */
struct bundle_result {
	size_t nr_kept, nr_missed; /* objects; missed ones also by their split debug information */
	char missed[256];          /* the name of one of the missed objects, or of such a file */
	uint64_t split_bytes;      /* of copies of files with split debug information */
};

/*
 * Makes `path`.bundle, or adds to it, from the build-ids in the recording at `path`, which is complete. Objects that
 * were removed or have changed since are missed. 0 or -errno.
 */
int bundle_make(const char *path, struct bundle_result *ret, struct diag *reterr);

/* Setters of --writer, --aio and --mmap-output; each stores a struct recording_writer. */
void print_writers(FILE *to); /* the words of --writer, one in each line */
int set_writer(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr);
int set_aio(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr);
int set_mmap_output(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr);

/* Options that exclude each other. 0, or -EINVAL with the reason. */
int record_options_check(const struct record_options *options, struct diag *reterr);
