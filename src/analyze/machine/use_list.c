/* SPDX-License-Identifier: MIT */
#include "analyze/machine/use_list.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/pool.h"

/* Each use is the distance to the cell before and what is skipped, in groups of seven bits, the lowest first. */
struct use_chunk {
	struct use_chunk *next; /* younger; of the newest: the oldest */
	uint8_t used, room;
	uint8_t bytes[];
};

enum { FIRST_CHUNK_BYTES = 16, MOST_CHUNK_BYTES = 256, MOST_BYTES = 2 * 5 /* of a use */ };

static unsigned put(uint8_t *to, uint32_t value)
{
	unsigned nr = 0;

	for (; value >= 0x80; value >>= 7)
		to[nr++] = (uint8_t)(value | 0x80);
	to[nr++] = (uint8_t)value;
	return nr;
}

/* Most entries have few uses. NULL: out of memory. */
static struct use_chunk *chunk_new(const struct use_list *list, unsigned needed, struct pool *pool)
{
	const size_t front = offsetof(struct use_chunk, bytes);
	size_t bytes = list->newest ? 2 * (front + list->newest->room) : FIRST_CHUNK_BYTES;

	while (bytes < front + needed)
		bytes *= 2;
	if (bytes > MOST_CHUNK_BYTES)
		bytes = MOST_CHUNK_BYTES;
	struct use_chunk *chunk = pool_take(pool, bytes);
	if (chunk)
		chunk->room = (uint8_t)(bytes - front);
	return chunk;
}

int use_list_append(struct use_list *list, const struct use *use, struct pool *pool)
{
	uint8_t bytes[MOST_BYTES];
	unsigned nr = put(bytes, use->cell - list->last_cell);

	nr += put(bytes + nr, use->skip);
	if (!list->newest || nr > (unsigned)(list->newest->room - list->newest->used)) {
		struct use_chunk *chunk = chunk_new(list, nr, pool);
		if (!chunk)
			return -ENOMEM;
		chunk->next = list->newest ? list->newest->next : chunk;
		if (list->newest)
			list->newest->next = chunk;
		list->newest = chunk;
	}
	memcpy(list->newest->bytes + list->newest->used, bytes, nr);
	list->newest->used = (uint8_t)(list->newest->used + nr);
	list->last_cell = use->cell;
	return 0;
}

struct use_cursor use_list_first(const struct use_list *list)
{
	return (struct use_cursor){.list = list, .chunk = list->newest ? list->newest->next : NULL};
}

static uint32_t take(struct use_cursor *cursor)
{
	const uint8_t *bytes = cursor->chunk->bytes;
	uint32_t value = bytes[cursor->at] & 0x7f;

	for (unsigned shift = 7; bytes[cursor->at++] & 0x80; shift += 7)
		value |= (uint32_t)(bytes[cursor->at] & 0x7f) << shift;
	return value;
}

bool use_list_next(struct use_cursor *cursor, struct use *ret)
{
	if (cursor->chunk && cursor->at == cursor->chunk->used) {
		cursor->chunk = cursor->chunk == cursor->list->newest ? NULL : cursor->chunk->next;
		cursor->at = 0;
	}
	if (!cursor->chunk)
		return false;
	cursor->cell += take(cursor);
	*ret = (struct use){cursor->cell, take(cursor)};
	return true;
}
