/* SPDX-License-Identifier: MIT */
/*
 * rotation: continues a recording in another file. The next output is opened first; each reader switches to it between
 * two of its passes; the former output is finished by the finisher thread. Draining never waits. The last or only file
 * of every recording is finished here, too. Owned by the recording; used by the main thread.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "record/output/output_file.h"
#include "record/output/output_path.h"
#include "record/setup/options.h"

struct overwrite;
struct ledger_book;
struct off_cpu_run;
struct readers;
struct recorder_cost;
struct unwinding;
struct writer;

/* Files that are finished while another is recorded: each has memory and fds. */
enum { ROTATION_MOST_JOBS = 3 };

/* The thread that finishes outputs, one after the other, while readers drain into the next. */
struct finisher {
	pthread_t thread;
	bool started, stop; /* stop: these and the following fields are protected by the lock */
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct finisher_job *first, *last;
	size_t nr_jobs;              /* waiting or under way */
	bool gave_up;                /* a snapshot was requested and got no file */
	struct output_result totals; /* of all that were finished */
	int err;                     /* the first, with its reason */
	struct diag diag;
};

struct rotation {
	/* Set before rotation_open(). */
	struct rotation_spec spec;
	uint64_t max_bytes;                 /* size of a file at which the recording ends (--max-size); 0: no limit */
	bool timestamp;                     /* the name of the last file gets its time, too (--timestamp-filename) */
	const struct output_params *params; /* borrowed, as all that follows */
	struct output_file *output;         /* the present output; this address never changes */
	struct readers *readers;
	struct overwrite *overwrite; /* its records go behind those of a file; NULL: there is none */
	struct unwinding *unwinding; /* unwinds samples of the overwrite rings; NULL: not wanted */
	struct off_cpu_run *off_cpu; /* converts switches of the overwrite rings */
	struct ledger_book *book;
	struct recorder_cost *cost;
	size_t initial_bytes; /* what the initial state took in the first file */
	size_t max_jobs;      /* files that may be finished at a time, 1 to ROTATION_MOST_JOBS: each has fds */
	/* The housekeeping thread uses the present output and the book: it is paused while they change. */
	void (*pause)(void *ctx);
	int (*resume)(void *ctx);
	void *ctx;

	/* Its own. */
	struct part_names names; /* the finisher's while that runs */
	struct finisher finisher;
	struct finisher_job *job; /* heap; holds the next output until all readers have it, then the former one */
	struct writer **room;     /* heap */
	uint64_t *reported_lost;  /* heap; by slot: lost records that are stated in finished files */
	bool wanted;              /* a switch was requested that could not begin yet */
	bool post;                /* of retained records: wanted, at next_ns */
	uint64_t next_ns;         /* CLOCK_MONOTONIC; UINT64_MAX: not by time */
	uint64_t forget_ns;       /* CLOCK_MONOTONIC: when files of objects are closed next; UINT64_MAX: never */
	uint64_t base_bytes;      /* of readers.control.stored: where the present file began */
	size_t nr_switches;
	enum output_change change; /* of the last file, while it had the name of the output */
	char *renamed;             /* heap; as output_path_change() returns it */
	uint64_t marked_ns; /* by off_cpu_run_now(): what came later is not in the last snapshot of overwrite rings; 0:
			       none yet */
};

int rotation_open(struct rotation *rotation, struct diag *reterr);

/* Events are enabled now: sizes and times are counted from here. */
void rotation_start(struct rotation *rotation);

/*
 * Requests a switch: it begins now, or, while another one is under way or too many files are being finished, as soon as
 * that is over. 0, or -errno and why.
 */
int rotation_trigger(struct rotation *rotation, struct diag *reterr);

/*
 * To be called when control.switch_fd is readable, at next_ns and at forget_ns. *ret_full: the file has reached
 * max_bytes. 0, or -errno and why.
 */
int rotation_step(struct rotation *rotation, bool *ret_full, struct diag *reterr);

/* To be called when the readers have ended: completes a switch that was under way. 0, or -errno and why. */
int rotation_wait(struct rotation *rotation, struct diag *reterr);

/* To be called after rotation_wait(): finishes all files. *ret is valid in any case. 0, or -errno and why. */
int rotation_finish(struct rotation *rotation, const struct output_closing *closing, struct output_result *ret,
		    struct diag *reterr);
void rotation_close(struct rotation *rotation); /* zeroed is fine */
