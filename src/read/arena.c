/* SPDX-License-Identifier: MIT */
#include "read/arena.h"

#include <stdlib.h>

void arena_fini(struct arena *arena)
{
	for (struct arena_block *block = arena->all, *next; block; block = next) {
		next = block->next_all;
		free(block);
	}
	*arena = (struct arena){0};
}

static struct arena_block *block_new(struct arena *arena)
{
	struct arena_block *block = aligned_alloc(ARENA_BLOCK_BYTES, ARENA_BLOCK_BYTES);

	if (!block)
		return NULL;
	block->held = 0;
	block->end = (uint8_t *)block + ARENA_BLOCK_BYTES;
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

static struct arena_block *block_of(const void *within)
{
	return (struct arena_block *)((uintptr_t)within & ~(uintptr_t)(ARENA_BLOCK_BYTES - 1));
}

void arena_hold(const void *within)
{
	block_of(within)->held++;
}

void arena_release(struct arena *arena, const void *within)
{
	struct arena_block *block = block_of(within);

	if (--block->held == 0 && block != arena->current)
		block_spare(arena, block);
}
