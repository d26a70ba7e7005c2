/* SPDX-License-Identifier: MIT */
/*
 * report_details: what the keys of a report need to know of a sample beside task and function: see struct hist_details.
 * Equal ones are one object. One owner (details_free), one thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/report/hist.h"

struct chains;
struct details;
struct diag;
struct location;
struct machine;
struct off_cpu_wait;
struct session;
struct session_record;

enum { TRACE_FIELD_NAME_MAX = 64 };

/* A field of tracepoints that is a key. */
struct trace_field {
	char name[TRACE_FIELD_NAME_MAX]; /* "": none */
	size_t event;                    /* index; SIZE_MAX: of all that have it */
	bool raw;                        /* by its type, not as in the text of the tracepoint */
};

/* The socket of a CPU, as the recording's topology has it. */
struct socket_choice {
	bool set;
	uint64_t number;
};

struct details_options {
	bool wanted[HIST_KEYS];
	struct trace_field fields[HIST_FIELDS]; /* those that are wanted */
	bool raw_trace;                         /* the key trace: likewise */
	uint64_t quantum_ns;                    /* of times; 0: each time for itself */
	bool full_paths;                        /* of source files */
};

/* NULL: out of memory. Session and machine are borrowed; session NULL: see details_of_host(). */
struct details *details_new(const struct details_options *options, struct session *session, struct machine *machine);
void details_free(struct details *details); /* NULL is fine */

/*
 * From now on lines of samples are looked up only by details_complete(), most by the thread of the chains, which are
 * borrowed and chains_expand_later(). Until then details of samples tell their places apart; details of callers, of
 * branches and of accesses must not be asked for.
 */
void details_complete_later(struct details *details, struct chains *chains);

/* To be called once before: from now on what is looked up later is looked up at once again. */
void details_complete_begin(struct details *details);

/* The same with lines. NULL: out of memory. */
const struct hist_details *details_complete(struct details *details, const struct hist_details *sample);

/* How many tasks ran when the next samples were taken: of HIST_PARALLELISM. */
void details_set_parallelism(struct details *details, uint32_t parallelism);

/* Of a sample that was taken at `at`. Valid until details_free(). 0, or -ENOMEM or -EBADMSG and why. */
int details_of_sample(struct details *details, const struct session_record *record, const struct location *at,
		      const struct hist_details **ret, struct diag *reterr);

/* What hist_details.host points to where no record names the host: a host could have the same name. */
extern const char details_unknown_host[];

/* Of samples of which no more than the host is known. NULL: out of memory. */
const struct hist_details *details_of_host(struct details *details, const char *host);

/* Of a caller at `at` of a sample with details `callee`: NULL: out of memory. */
const struct hist_details *details_of_caller(struct details *details, const struct hist_details *callee,
					     const struct location *at);

/* What callers of samples with these details have in common, see struct count_rules. NULL: out of memory. */
const void *details_of_callers(struct details *details, const struct hist_details *callee);

/* Of a sample with details `sample` whose chain has that caller. NULL: as above. */
const struct hist_details *details_of_parent(struct details *details, const struct hist_details *sample,
					     const char *parent);

/* Of the branch number `index` of a sample, whose ends are looked up; `sample`: details_of_sample(). NULL: as above. */
struct branch_ends {
	const struct location *from, *to;
};
const struct hist_details *details_of_branch(struct details *details, const struct hist_details *sample,
					     const struct session_record *record, uint64_t index,
					     const struct branch_ends *ends);

/*
 * Of a time off the CPU: of the part in which the task could have run, or of the one before; `sample` as above.
 */
const struct hist_details *details_of_wait(struct details *details, const struct hist_details *sample,
					   const struct off_cpu_wait *wait, bool ready);

/* Of an access to memory, likewise. */
struct access_ends {
	const struct location *data, *code;
};
const struct hist_details *details_of_access(struct details *details, const struct hist_details *sample,
					     const struct session_record *record, const struct access_ends *ends);
