/* SPDX-License-Identifier: MIT */
/* selftest_run: one recording of the numbered load, and what became of each number. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cmd/selftest_load.h"

struct diag;

/* How is recorded. */
struct selftest_case {
	const char *writer; /* word of --writer */
	bool threads, compressed;
	const char *ring; /* argument of -m; NULL: the default */
};

struct selftest_params {
	enum selftest_kind kind;
	uint64_t nr;           /* events on each CPU */
	const char *directory; /* where the recordings go; they are removed */
};

struct selftest_result {
	uint64_t generated, captured;
	uint64_t lost;        /* by the LOST_SAMPLES records of the file */
	uint64_t ledger_lost; /* by the ledger of the file */
	uint64_t twice;       /* numbers that came more than once */
	uint64_t strange;     /* numbers that nobody generated */
	uint64_t cpu_ns;      /* of the recorder while events flowed */
};

/* 0 also when the sums are wrong; -errno and why: there is no recording that could be read. */
int selftest_run(const struct selftest_params *params, const struct selftest_case *how, struct selftest_result *ret,
		 struct diag *reterr);

/* Each number was captured once, or lost and counted. */
bool selftest_passed(const struct selftest_params *params, const struct selftest_result *result);
