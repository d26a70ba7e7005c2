/* SPDX-License-Identifier: MIT */
/*
 * chains: converts the recorded call chains of samples to chains of stacks.h. Most samples of a thread share all but a
 * few of their frames, so the longest outer part of a chain that was converted before is found in a cache, and only the
 * other frames are looked up. One owner, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/machine/machine.h"
#include "analyze/machine/stacks.h"

struct chains;

/* Both are borrowed. NULL: out of memory. */
struct chains *chains_new(struct machine *machine, struct stacks *stacks);
void chains_free(struct chains *chains); /* NULL is fine */

/* Whether chains_intern() can convert the chain of the sample. false: use machine_callchain() and stacks_intern(). */
bool chains_can_intern(const struct chains *chains, const struct sample *sample);

/* The whole chain, as machine_callchain() and stacks_intern() would make it. 0 or -ENOMEM. */
int chains_intern(struct chains *chains, struct task *task, const struct session_record *record, uint32_t *ret_chain);

/* To be called after stacks_keep(), which changes the numbers of chains: empties the cache. */
void chains_forget(struct chains *chains);
