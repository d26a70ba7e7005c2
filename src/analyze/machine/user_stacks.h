/* SPDX-License-Identifier: MIT */
/*
 * user_stacks: call chains of recorded user stacks, by the unwind tables of the recorded objects as they are found now.
 * Private to analyze/machine. One owner, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct maps;
struct sample;
struct unwind_chain;
struct user_stacks;

/* arch: of the recorded machine; NULL: this one's. symfs: borrowed. NULL: out of memory. */
struct user_stacks *user_stacks_new(const char *arch, const char *symfs);
void user_stacks_free(struct user_stacks *stacks); /* NULL is fine */

/*
 * When the samples of the next calls were taken: see jit_code_find(). Before the first call: JIT_ANY_TIME.
 */
void user_stacks_set_time(struct user_stacks *stacks, int64_t time_ns);

/* Code of this process is missing in its maps: memory of which they say nothing may be code. 0 or -ENOMEM. */
int user_stacks_note_gaps(struct user_stacks *stacks, const struct maps *maps);

/* As unwind_chain(), with tables that are built when they are needed. The objects of the maps are struct dso. */
void user_stack_chain(struct user_stacks *stacks, const struct maps *maps, const struct sample *sample,
		      struct unwind_chain *chain);

/* As unwind_leaf_caller(). */
bool user_stack_leaf_caller(struct user_stacks *stacks, const struct maps *maps, const struct sample *sample,
			    uint64_t ip, uint64_t *ret);
