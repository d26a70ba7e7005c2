/* SPDX-License-Identifier: MIT */
/*
 * chains: the recorded call chains of samples as chains of stacks.h. A chain that begins with callers which were seen
 * before is looked up from there on only: most samples of a thread share all but a few of their frames. One owner, one
 * thread.
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

/* false: there is more to the chain of that sample than its addresses: use machine_callchain(). */
bool chains_can_intern(const struct chains *chains, const struct sample *sample);

/* The whole chain, as machine_callchain() and stacks_intern() would make it. 0 or -ENOMEM. */
int chains_intern(struct chains *chains, struct task *task, const struct session_record *record, uint32_t *ret_chain);

/* After stacks_keep(): chains have other numbers. */
void chains_forget(struct chains *chains);
