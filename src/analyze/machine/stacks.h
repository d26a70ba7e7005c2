/* SPDX-License-Identifier: MIT */
/*
 * stacks: call chains, each kept once: chains that begin with the same callers share them. One owner, one thread.
 *
 * A chain is the number of its innermost frame's link, whose outer links are its callers; 0 is the empty chain.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/machine/machine.h"
#include "base/hash_table.h"

struct stacks;

/* NULL: out of memory. */
struct stacks *stacks_new(void);
void stacks_free(struct stacks *stacks); /* NULL is fine */

/* The chain of these frames, innermost first. 0 or -ENOMEM. */
int stacks_intern(struct stacks *stacks, const struct location frames[], unsigned nr, uint32_t *ret_chain);

/*
 * The same frame by frame: the number of a frame, the chain of the frame with that number that `outer` called, and how
 * many frames the whole had. 0 or -ENOMEM.
 */
int stacks_intern_frame(struct stacks *stacks, const struct location *frame, uint32_t *ret_frame);
int stacks_push(struct stacks *stacks, uint32_t outer, uint32_t frame, uint32_t *ret_chain);
void stacks_note_depth(struct stacks *stacks, unsigned nr);

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

/* Chains have numbers from 1 to less than this; that without the innermost frame has the lower number. */
uint32_t stacks_end_chain(const struct stacks *stacks);

/*
 * Which chains are to stay, for recordings that are read while they run: those marked in used[], of stacks_end_chain(),
 * and what they are made of; frames stay all, with their numbers. Nothing changes before stacks_keep(): numbers[chain]
 * is the number that it will have then. 0 or -ENOMEM.
 */
struct stacks_choice {
	uint32_t *numbers; /* heap; 0: the chain goes */
	void *links;       /* private, the rest too */
	uint32_t nr_links;
	struct hash_table by_link;
};
int stacks_choose(const struct stacks *stacks, bool used[], struct stacks_choice *ret);
void stacks_keep(struct stacks *stacks, struct stacks_choice *choice); /* takes it over but for the numbers */
void stacks_choice_fini(struct stacks_choice *choice);

size_t stacks_bytes(const struct stacks *stacks); /* of memory, about */

/* At most so many frames in any chain so far. */
unsigned stacks_depth(const struct stacks *stacks);
