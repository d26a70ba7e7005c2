/* SPDX-License-Identifier: MIT */
/*
 * options: all settings of a recording, resolved by the command before the first event opens; and how the texts of -D,
 * --control, --switch-output and --flight are read. Values only: strings and lists are borrowed. A zeroed field is the
 * default, unless its comment says more.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/parse/configure.h"
#include "record/setup/plan.h"
#include "stream/writer.h"

struct diag;
struct event_list;
struct target;

enum { ENABLE_TIMES_MAX = 128 };

/* -D: when events are enabled, in milliseconds after the start of the recording; zeroed: from the start on. */
struct enable_times {
	bool delayed; /* off at the start */
	size_t nr;
	struct enable_range {
		int64_t on_ms, off_ms; /* off_ms -1: stays on */
	} ranges[ENABLE_TIMES_MAX];
};

/* --control; zeroed: none. */
struct control_spec {
	bool given, fifo;
	int fd, ack_fd;                /* ack_fd -1: none */
	char path[256], ack_path[256]; /* of FIFOs; ack_path "": none */
};

/* --switch-output and --flight: when the recording continues in another file. */
struct rotation_spec {
	bool on;            /* the output is switched at least on SIGUSR2 and by --control */
	uint64_t bytes;     /* 0: not by size */
	uint64_t period_ns; /* 0: not by time */
	/*
	 * --flight: a file is written only on request, and gets the records of so many ns before; 0: all records are
	 * written
	 */
	uint64_t history_ns;
	uint64_t history_bytes; /* limit for the memory that holds them */
	uint64_t post_ns;       /* --flight-post: the file also gets the records of so many ns after the request */
};

/* How the state of the machine at the start is collected. */
struct synth_options {
	bool no_tasks, no_maps, no_cgroups; /* --synth */
	unsigned maps_timeout_ms;           /* --proc-map-timeout; 0: none */
	unsigned nr_threads;                /* --num-thread-synthesize; 0: one */
};

/* Which writer, and its sizes; 0: its default. */
struct recording_writer {
	const struct writer_ops *ops; /* NULL: the best for this output */
	size_t blocks_per_ring;       /* of the staging writers; all rings share the blocks */
	size_t window_bytes;          /* of the mmap writer */
};

/* What to do when the memory before the writer is full. */
enum on_pressure {
	ON_PRESSURE_DROP,   /* the rings fill; the kernel drops what does not fit, and counts it */
	ON_PRESSURE_TRIM,   /* stack dumps are cut short before that; then as above */
	ON_PRESSURE_FREEZE, /* the command, or the tasks of -p and -t, are stopped until there is room */
};

struct recording_options {
	struct target *target;     /* resolved; borrowed, the workload is added */
	bool threads_only;         /* -t */
	struct event_list *events; /* parsed; borrowed, configured and adapted by the recording */
	struct event_options
		sampling;  /* target, inherit, delayed, pipe_output, has_workload are set by the recording */
	bool inherit;      /* false: -i */
	bool side_channel; /* task events have rings of their own */
	struct ring_sizes ring;
	/* --max-memory: limit for the bytes of rings and of the memory before the writer; 0: default */
	uint64_t max_memory;
	/*
	 * --max-cpu: limit for the recorder's CPU time per elapsed time (1.0: one CPU) while events are enabled; 0:
	 * none
	 */
	double max_cpus;
	struct recording_writer writer;
	enum on_pressure on_pressure;
	size_t buffer_bytes;   /* --buffer-memory: between drain and writer; 0: the default */
	int compression_level; /* 1 to ZSTD_LEVEL_LAST; 0: nothing is compressed */
	size_t flush_bytes;    /* --mmap-flush; 0: the default */
	const char *output;    /* NULL: perf.data */
	bool threads;          /* --threads */
	/* with threads: write a data directory with a file for each ring; false: one output */
	bool directory;
	const char *thread_spec, *thread_spec_place; /* NULL: cpu; for errors: the configuration file's line, or NULL */
	/* each thread drains the rings of at most so many CPUs, instead of thread_spec; 0: as thread_spec says */
	unsigned cpus_per_thread;
	struct enable_times times;     /* -D */
	struct control_spec control;   /* --control */
	struct rotation_spec rotation; /* --switch-output */
	struct event_list
		*switch_events; /* --switch-output-event; parsed; borrowed, configured by the recording; NULL: none */
	size_t max_files;       /* --switch-max-files; 0: all */
	uint64_t max_bytes;     /* --max-size; 0: any */
	bool timestamp_name;    /* --timestamp-filename */
	bool tail_synthesize;   /* --tail-synthesize */
	int realtime;           /* -r; 0: the default of sysinfo/thread.h */
	bool build_ids;         /* false: -B */
	bool all_build_ids;     /* --buildid-all */
	struct {
		bool off;              /* -N */
		const char *directory; /* --buildid-dir; NULL: ~/.debug */
		bool bundle;           /* --bundle: copy them into the directory OUTPUT.bundle */
		uint64_t max_bytes;    /* limit for all copies of a recording */
	} cache;                       /* copies of objects that will not be found under their path later */
	struct synth_options synth;
	uint64_t sync_ms; /* --sync, --durable: interval of fdatasync(2); 0: never */
	bool durable;     /* --durable: also sync the directory entries and the finished file */
	/* --wait-close: close the events before the recording returns, even when there are many tracepoints */
	bool wait_close;
	char **workload; /* NULL-terminated argv; NULL: none */
	int argc;        /* of the subcommand, for the CMDLINE feature */
	char **argv;
};

/*
 * The parsers return 0, or -EINVAL (-E2BIG: too many ranges) with the right form in the diag; *ret is unchanged then.
 */

/* "100"; "-1": disabled until they are enabled by --control; "10-20,30-40". */
int enable_times_parse(const char *text, struct enable_times *ret, struct diag *reterr);

/* The next time to enable or disable the events, after the first `done` times; false: there is none. */
bool enable_times_next(const struct enable_times *times, size_t done, int64_t *ret_ms, bool *ret_on);

/* "fd:CTL[,ACK]" or "fifo:CTL[,ACK]". */
int control_parse(const char *text, struct control_spec *ret, struct diag *reterr);

/* "signal", "100M", "30s": bytes with B, K, M, G; time with s, m, h, d. */
int rotation_spec_parse(const char *text, struct rotation_spec *ret, struct diag *reterr);

/* "10s", "10s,64M". Sets what belongs to --flight. */
int rotation_spec_parse_history(const char *text, struct rotation_spec *spec, struct diag *reterr);

/* "30s". */
int rotation_spec_parse_time(const char *text, uint64_t *ret_ns, struct diag *reterr);
