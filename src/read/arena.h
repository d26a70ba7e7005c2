/* SPDX-License-Identifier: MIT */
/*
 * arena: big aligned blocks for bytes that many records share. A block is used again when none of its records is
 * held any more. One owner (arena_fini), one thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { ARENA_BLOCK_BYTES = 1 << 20 }; /* size and alignment of a block, unless the arena says otherwise */

/* Stands at the start of its block; the bytes follow. */
struct arena_block {
	struct arena_block *next_all, *next_spare;
	uint64_t held;
	uint8_t *end;
	_Alignas(64) uint8_t bytes[];
};

struct arena {
	size_t block_bytes; /* a power of two; 0: ARENA_BLOCK_BYTES */
	struct arena_block *current; /* NULL: none yet */
	struct arena_block *all, *spare;
};

void arena_fini(struct arena *arena);

size_t arena_block_bytes(const struct arena *arena);

/* A new current block; the old one lives on while something in it is held. NULL: out of memory. */
struct arena_block *arena_renew(struct arena *arena);

/* `within`: a place in a block of the arena. Pair each hold with a release. */
void arena_hold(struct arena *arena, const void *within);
void arena_release(struct arena *arena, const void *within);
