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

/*
 * From now on which functions are inlined at an address is looked up by other threads, with CHAINS_LINES their lines,
 * too, and with CHAINS_ALL_LINES those of frames that have none of them, where all lines will be asked for. The chains
 * have their frames only after chains_expand(): of many samples most addresses are new at the begin, and to look them
 * up takes about as long as to read all samples of a small recording. CHAINS_BY_LINE: where frames of a function have a
 * number for each address, they get one for each line instead. false: nothing is changed.
 */
enum chains_needs { CHAINS_LINES = 1, CHAINS_BY_LINE = 2, CHAINS_ALL_LINES = 4 };
bool chains_expand_later(struct chains *chains, unsigned needs);

/* Only between both: the line of this place, which has a symbol, will be asked for. */
void chains_expect_line(struct chains *chains, const struct location *at);

/* Many chains wait for it: their frames have a number for each address. */
bool chains_are_many(const struct chains *chains);

/*
 * Ends that. *ret_numbers: the new number of each chain, heap; NULL: all chains have their numbers still. 0 or
 * -ENOMEM.
 */
int chains_expand(struct chains *chains, uint32_t **ret_numbers);

/* To be called after stacks_keep(), which changes the numbers of chains: empties the cache. */
void chains_forget(struct chains *chains);
