/* SPDX-License-Identifier: MIT */
#include "base/pool.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 64 * 1024 };

struct pool_chunk {
	struct pool_chunk *next;
	size_t room;
	alignas(max_align_t) uint8_t bytes[];
};

void pool_fini(struct pool *pool)
{
	while (pool->chunks) {
		struct pool_chunk *chunk = pool->chunks;
		pool->chunks = chunk->next;
		free(chunk);
	}
	pool->used = 0;
}

static void *pool_take_aligned(struct pool *pool, size_t len, size_t align)
{
	size_t at = (pool->used + align - 1) & ~(align - 1);

	if (!pool->chunks || at > pool->chunks->room || len > pool->chunks->room - at) {
		size_t room = len > CHUNK_BYTES ? len : CHUNK_BYTES;
		if (room > SIZE_MAX - sizeof(struct pool_chunk))
			return NULL;
		struct pool_chunk *chunk = malloc(sizeof(*chunk) + room);
		if (!chunk)
			return NULL;
		chunk->room = room;
		chunk->next = pool->chunks;
		pool->chunks = chunk;
		at = 0;
	}
	pool->used = at + len;
	return pool->chunks->bytes + at;
}

void *pool_take(struct pool *pool, size_t len)
{
	void *at = pool_take_aligned(pool, len, alignof(max_align_t));

	if (at)
		memset(at, 0, len);
	return at;
}

char *pool_text(struct pool *pool, const char *text, size_t len)
{
	char *copy = pool_take_aligned(pool, len + 1, 1);

	if (copy) {
		memcpy(copy, text, len);
		copy[len] = '\0';
	}
	return copy;
}
