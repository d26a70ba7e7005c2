/* SPDX-License-Identifier: MIT */
#include "read/arena.h"

#include <stdlib.h>

void arena_fini(struct arena *arena)
{
	for (struct arena_block *block = arena->all, *next; block; block = next) {
		next = block->next_all;
		free(block);
	}
	*arena = (struct arena){.block_bytes = arena->block_bytes};
}

size_t arena_block_bytes(const struct arena *arena)
{
	return arena->block_bytes ? arena->block_bytes : ARENA_BLOCK_BYTES;
}

static struct arena_block *block_new(struct arena *arena)
{
	size_t bytes = arena_block_bytes(arena);
	struct arena_block *block = aligned_alloc(bytes, bytes);

	if (!block)
		return NULL;
	block->held = 0;
	block->end = (uint8_t *)block + bytes;
	block->next_all = arena->all;
	arena->all = block;
	return block;
}

static void block_spare(struct arena *arena, struct arena_block *block)
{
	block->next_spare = arena->spare;
	arena->spare = block;
}

struct arena_block *arena_renew(struct arena *arena)
{
	struct arena_block *block = arena->spare;

	if (block)
		arena->spare = block->next_spare;
	else
		block = block_new(arena);
	if (!block)
		return NULL;
	if (arena->current && !arena->current->held)
		block_spare(arena, arena->current);
	arena->current = block;
	return block;
}

static struct arena_block *block_of(const struct arena *arena, const void *within)
{
	return (struct arena_block *)((uintptr_t)within & ~(uintptr_t)(arena_block_bytes(arena) - 1));
}

void arena_hold(struct arena *arena, const void *within)
{
	block_of(arena, within)->held++;
}

void arena_release(struct arena *arena, const void *within)
{
	struct arena_block *block = block_of(arena, within);

	if (--block->held == 0 && block != arena->current)
		block_spare(arena, block);
}
