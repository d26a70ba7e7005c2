/* SPDX-License-Identifier: MIT */
/*
 * selftest_run: a load whose events are numbered on every CPU, one recording of it, and a check of each number.
 * Main thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct diag;
struct session_record;

enum selftest_kind {
	SELFTEST_SYSCALLS, /* getppid(2) with the number as an argument, which it ignores: raw_syscalls:sys_enter */
	SELFTEST_FAULTS,   /* first touches of pages, numbered by their addresses: page-faults:u, which any user may
			      record */
};

/* How to record. */
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
	uint64_t twice;       /* numbers that were captured more than once */
	uint64_t strange;     /* numbers that were not generated */
	uint64_t cpu_ns;      /* of the recorder while events flowed */
};

/* 0 also when the sums are wrong; -errno and why: there is no recording that could be read. */
int selftest_run(const struct selftest_params *params, const struct selftest_case *how, struct selftest_result *ret,
		 struct diag *reterr);

/* Each number was captured once, or lost and counted. */
bool selftest_passed(const struct selftest_params *params, const struct selftest_result *result);

/* "KIND:NUMBER", the argument of the hidden option --load. -EINVAL. */
int selftest_load_parse(const char *text, enum selftest_kind *ret_kind, uint64_t *ret_nr);

/* `nr` events on each CPU that this process may use, one thread each. Exit status. */
int selftest_load_run(enum selftest_kind kind, uint64_t nr);

/* How many threads that are. */
size_t selftest_load_threads(void);

/* Does the record come from the load? Its thread and number. */
int selftest_load_number(enum selftest_kind kind, const struct session_record *record, uint64_t *ret_thread,
			 uint64_t *ret_nr);
