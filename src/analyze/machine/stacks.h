/* SPDX-License-Identifier: MIT */
/*
 * stacks: call chains, each stored once; chains with the same outermost callers share them. One owner, one thread.
 *
 * A chain is identified by a number. It consists of its innermost frame and of the number of the chain of its callers.
 * 0 is the empty chain.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/machine/machine.h"

struct stacks;

/* NULL: out of memory. */
struct stacks *stacks_new(void);
void stacks_free(struct stacks *stacks); /* NULL is fine */

/* The chain of these frames, innermost first. 0 or -ENOMEM. */
int stacks_intern(struct stacks *stacks, const struct location frames[], unsigned nr, uint32_t *ret_chain);

/*
 * The same frame by frame: get the number of each frame, append it to the chain `outer` of its callers, and finally
 * note how many frames the whole chain has. 0 or -ENOMEM.
 */
int stacks_intern_frame(struct stacks *stacks, const struct location *frame, uint32_t *ret_frame);
int stacks_push(struct stacks *stacks, uint32_t outer, uint32_t frame, uint32_t *ret_chain);
void stacks_note_depth(struct stacks *stacks, unsigned nr);

/* The chain without its innermost frame. */
uint32_t stacks_outer(const struct stacks *stacks, uint32_t chain);

/*
 * The number of the innermost frame. All frames of one symbol have the same number; frames without a symbol have one
 * for each address. stacks_location() returns the location with which the number was first used; valid until the next
 * stacks_intern().
 */
uint32_t stacks_frame(const struct stacks *stacks, uint32_t chain);
/* Those of the first `max` frames of the chain, innermost first. Returns how many. */
uint32_t stacks_frames(const struct stacks *stacks, uint32_t chain, uint32_t ret[], uint32_t max);
const struct location *stacks_location(const struct stacks *stacks, uint32_t frame);

/* Frames have numbers from 1 to less than this. */
uint32_t stacks_end_frame(const struct stacks *stacks);

/* A hash of the frame: equal for symbols of the same name. */
uint32_t stacks_frame_hash(const struct stacks *stacks, uint32_t frame);

/*
 * From now on frames of one symbol at different addresses have different numbers. To be called before the first chain.
 */
void stacks_keep_addresses(struct stacks *stacks);

/* Chains have numbers from 1 to less than this; stacks_outer() of a chain is a lower number. */
uint32_t stacks_end_chain(const struct stacks *stacks);

/*
 * For recordings that are read while they run: chooses the chains to keep, which are those that are true in used[]
 * (stacks_end_chain() elements, changed by this call) and the chains of their callers. All frames are kept, with their
 * numbers. numbers[chain] is the number that the chain will have; nothing changes before stacks_keep(). 0 or -ENOMEM.
 */
struct stacks_choice {
	uint32_t *numbers;         /* heap; 0: the chain is removed */
	struct stack_links *links; /* private */
};
int stacks_choose(const struct stacks *stacks, bool used[], struct stacks_choice *ret);
void stacks_keep(struct stacks *stacks, struct stacks_choice *choice); /* `numbers` stay valid */
void stacks_choice_fini(struct stacks_choice *choice);

/*
 * Frames whose nr_inlined is LOCATION_PENDING have a number for each address. Replaces each of them by those that
 * expand() writes, innermost first, at most `max`, at least one; *ret_numbers has the new number of each chain: heap.
 * NULL: none was pending, and nothing is changed. 0 or -ENOMEM.
 */
enum { LOCATION_PENDING = UINT16_MAX };
typedef unsigned stacks_expander(void *ctx, const struct location *at, struct location *ret, unsigned max);
int stacks_expand(struct stacks *stacks, stacks_expander *expand, void *ctx, uint32_t **ret_numbers);

size_t stacks_bytes(const struct stacks *stacks); /* of memory, about */

/* The number of frames of the longest chain so far. */
unsigned stacks_depth(const struct stacks *stacks);
