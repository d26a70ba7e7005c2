/* SPDX-License-Identifier: MIT */
/* selftest_load: work whose events are numbered, on every CPU: what a recording of it must hold, nobody has to guess. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum selftest_kind {
	SELFTEST_SYSCALLS, /* getppid(2) with the number as an argument, which it ignores: raw_syscalls:sys_enter */
	SELFTEST_FAULTS,   /* first touches of pages, numbered by their addresses: page-faults:u, which any user may record */
};

/* "KIND:NUMBER": what the hidden option --load takes. -EINVAL. */
int selftest_load_parse(const char *text, enum selftest_kind *ret_kind, uint64_t *ret_nr);

/* `nr` events on each CPU that this process may use, one thread each. Exit status. */
int selftest_load_run(enum selftest_kind kind, uint64_t nr);

/* How many threads that are. */
size_t selftest_load_threads(void);

/* Is a record of the load? Thread and number of it. */
struct session_record;
int selftest_load_number(enum selftest_kind kind, const struct session_record *record, uint64_t *ret_thread,
			 uint64_t *ret_nr);
