/* SPDX-License-Identifier: MIT */
/* report_details: what the keys time, socket, srcline, srcfile and trace know of a sample. One owner, one thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/hist.h"

struct details;
struct diag;
struct machine;
struct session;
struct session_record;

struct details_options {
	bool wanted[HIST_KEYS];
	uint64_t quantum_ns; /* of times; 0: each time for itself */
	bool full_paths;     /* of source files */
	const char *symfs;   /* borrowed; NULL: "" */
};

/* NULL: out of memory. */
struct details *details_new(const struct details_options *options, struct session *session, struct machine *machine);
void details_free(struct details *details); /* NULL is fine */

/* Of a sample that was taken at `at`. Valid until details_free(). 0, or -ENOMEM or -EBADMSG and why. */
int details_of_sample(struct details *details, const struct session_record *record, const struct location *at,
		      const struct hist_details **ret, struct diag *reterr);

/* Of a caller at `at` of a sample with details `callee`: NULL: out of memory. */
const struct hist_details *details_of_caller(struct details *details, const struct hist_details *callee,
					     const struct location *at);
