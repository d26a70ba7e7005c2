/* SPDX-License-Identifier: MIT */
/* agent: the options of `millrace agent`, and the parts of the command. Main thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/export/send.h"

enum { AGENT_TRIGGERS_MAX = 8 };

/* --on-trigger: when a snapshot of the last seconds is written. */
enum trigger_kind { TRIGGER_LOAD, TRIGGER_PRESSURE, TRIGGER_EVENT, TRIGGER_EXIT };

struct trigger_spec {
	enum trigger_kind kind;
	const char *text; /* as it was given; of an event or a command: what is behind the colon */
	double limit;     /* of load and pressure */
	char file[32];    /* of pressure: "/proc/pressure/cpu" */
};

struct trigger_list {
	struct trigger_spec specs[AGENT_TRIGGERS_MAX];
	unsigned nr;
};

struct agent_options {
	const char *state; /* directory */
	/* What is recorded. */
	const char *event, *call_graph;
	uint64_t frequency;
	uint64_t every_ns; /* length of a piece */
	char **more;       /* further arguments of record, which follow "--" */
	int nr_more;
	/* Where it goes: to a server, or with `files` into a directory. */
	struct send_options send;
	const char *files;
	bool inlined;
	uint64_t keep_bytes, keep_ns;
	uint64_t spool_bytes;
	uint64_t stop_ns; /* at the end, deliveries may take so long */
	/* Snapshots. */
	struct trigger_list triggers;
	uint64_t trigger_frequency, trigger_pause_ns, snapshots_bytes;
	const char *history; /* the argument of --flight */
	int verbose;
};

/* Records and delivers until a signal ends it. The exit status. */
int agent_run(const struct agent_options *options);

/* ---- deliver.c: delivers one piece, in a process of its own. */

/* What the process returns, in shared memory. */
struct delivery_result {
	int err; /* as send_recording() */
	struct feed_counts counts;
};

struct delivery {
	const struct agent_options *options;
	char *path;                     /* of the piece; heap */
	uint64_t number;                /* of the piece: its name in `files` */
	struct delivery_result *result; /* shared */
};

/* Runs in the child: the exit status. */
int delivery_run(void *delivery);

/*
 * How many samples a finished file has, and how many were lost. 0; -EAGAIN: no process can be started for that now;
 * -EIO: it cannot be read to its end. With the reason.
 */
int delivery_count(const char *path, uint64_t *ret_samples, uint64_t *ret_lost, struct diag *reterr);

/* ---- recovery.c: what recorders left that were killed. */

struct recovery {
	uint64_t nr_waiting; /* files that could not be recovered now, and wait for the next call */
	uint64_t nr_refused; /* files of which no record can be read: the last of them is kept under another path */
};

/*
 * Makes the files of a directory whole and gives them the names of finished ones. While a recorder writes into it:
 * only those that waited. `refused`: a path in the same file system.
 */
struct recovery recovery_run(const char *directory, const char *refused, bool while_recording);

/* ---- keep.c */

/*
 * Removes files of the directory whose names begin as `names`, where 0 is any digit and x any hexadecimal one: the
 * oldest, in the order of their names, until all together have at most `bytes` (0: no limit), and those older than `ns`
 * (0: no limit). Returns how many were removed.
 */
size_t keep_files(const char *directory, const char *names, uint64_t bytes, uint64_t ns);

/* ---- status.c: what the agent did, for people and programs. */

struct agent_sum {
	uint64_t pieces, samples, lost;
};

struct agent_status {
	uint64_t since_s;                                       /* since 1970 */
	struct agent_sum recorded, delivered, dropped, refused; /* `recorded`: also pieces left by an earlier run */
	uint64_t nr_empty; /* of the delivered pieces, those without samples: nothing is posted for them */
	uint64_t waiting_pieces, waiting_samples, waiting_bytes;
	uint64_t nr_restarts;    /* of the recorder */
	uint64_t nr_unrecovered; /* files that recorders left that were killed, and that could not be recovered yet */
	uint64_t nr_snapshots;
	uint64_t failing_since_s; /* of deliveries; 0: they do not fail */
	char error[512];          /* of the last delivery that failed; "" when the last one did not */
};

/* Into STATE/status.json, which is whole at any time. 0 or -errno. */
int status_write(const char *state, const struct agent_status *status);

/* A line for `systemctl status`; `what` is "READY=1", "STOPPING=1" or "". Without systemd nothing happens. */
void status_notify(const char *what, const struct agent_status *status);

/* ---- trigger.c */

struct trigger {
	const struct trigger_spec *spec;
	bool was_over;
};

/* A word of --on-trigger. 0, or -EINVAL and why. */
int trigger_parse(const char *text, struct trigger_spec *ret, struct diag *reterr);

/* Of load and pressure: has the value risen above its limit since the last call? */
bool trigger_check(struct trigger *trigger);
