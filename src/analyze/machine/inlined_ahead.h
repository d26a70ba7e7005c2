/* SPDX-License-Identifier: MIT */
/*
 * inlined_ahead: threads that look up which functions are inlined at addresses, and their lines, before that is asked
 * for, so that debug_info has the answers. They change nothing else: what they did not do is looked up when it is
 * needed. One owner; one thread calls.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct debug_info;
struct dso;
struct inlined_ahead;
struct symbol;

/* As of debug_info_inlined(): all must stay valid until inlined_ahead_free(). */
struct inlined_place {
	struct dso *dso;
	const struct symbol *symbol;
	uint64_t address;
	bool is_line; /* no more is wanted than its line */
};

/* info: borrowed. lines: look them up, too. NULL: this process has one CPU, or no memory or thread. */
struct inlined_ahead *inlined_ahead_start(struct debug_info *info, bool lines);
void inlined_ahead_free(struct inlined_ahead *ahead); /* stops the threads; NULL is fine */

void inlined_ahead_add(struct inlined_ahead *ahead, const struct inlined_place *place);
void inlined_ahead_finish(struct inlined_ahead *ahead); /* returns when all places are looked up; NULL is fine */
