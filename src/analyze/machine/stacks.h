/* SPDX-License-Identifier: MIT */
/*
 * stacks: call chains, each kept once: chains that begin with the same callers share them. One owner, one thread.
 *
 * A chain is the number of its innermost frame's link, whose outer links are its callers; 0 is the empty chain.
 */
#pragma once

#include <stdint.h>

#include "analyze/machine/machine.h"

struct stacks;

/* NULL: out of memory. */
struct stacks *stacks_new(void);
void stacks_free(struct stacks *stacks); /* NULL is fine */

/* The chain of these frames, innermost first. 0 or -ENOMEM. */
int stacks_intern(struct stacks *stacks, const struct location frames[], unsigned nr, uint32_t *ret_chain);

/* The chain without its innermost frame. */
uint32_t stacks_outer(const struct stacks *stacks, uint32_t chain);

/*
 * The frame, by a number: frames of one symbol have one number, those without a symbol one for each address. What it
 * is about is that of the first chain with it. Valid until the next stacks_intern().
 */
uint32_t stacks_frame(const struct stacks *stacks, uint32_t chain);
const struct location *stacks_location(const struct stacks *stacks, uint32_t frame);

/* Frames have numbers from 1 to less than this. */
uint32_t stacks_end_frame(const struct stacks *stacks);

/* For tables of frames: alike for symbols of one name. */
uint32_t stacks_frame_hash(const struct stacks *stacks, uint32_t frame);

/* Tells frames of one symbol apart by their addresses; before the first chain. */
void stacks_keep_addresses(struct stacks *stacks);

/* At most so many frames in any chain so far. */
unsigned stacks_depth(const struct stacks *stacks);
