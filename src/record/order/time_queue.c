/* SPDX-License-Identifier: MIT */
#include "record/order/time_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* Entries of a row that follow each other, first to end - 1. */
struct time_chunk {
	struct time_chunk *next; /* of the row, or of those that are spare */
	uint32_t first, end;
	struct time_entry entries[20];
};

enum { CHUNK_ENTRIES = sizeof(((struct time_chunk *)0)->entries) / sizeof(struct time_entry) };

struct time_row {
	uint64_t time_ns; /* of its first entry */
	uint64_t number;
	struct time_chunk *chunks; /* the first one; none is empty */
};

static void free_chunks(struct time_chunk *chunk)
{
	for (struct time_chunk *next; chunk; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
}

void time_queue_fini(struct time_queue *queue)
{
	for (size_t i = 0; i < queue->nr_rows; i++)
		free_chunks(queue->rows[i].chunks);
	free_chunks(queue->spare);
	free(queue->rows);
	*queue = (struct time_queue){0};
}

static bool is_before(const struct time_row *a, const struct time_row *b)
{
	return a->time_ns < b->time_ns || (a->time_ns == b->time_ns && a->number < b->number);
}

static const struct time_entry *first_of(const struct time_row *row)
{
	return &row->chunks->entries[row->chunks->first];
}

const struct time_entry *time_queue_first(const struct time_queue *queue)
{
	return queue->nr_rows ? first_of(&queue->rows[0]) : NULL;
}

/* Moves what is in front of that place, or behind it, until `row` has its place there. */
static void place_row(struct time_queue *queue, size_t at, struct time_row row)
{
	struct time_row *rows = queue->rows;
	size_t next;

	for (; at && is_before(&row, &rows[(at - 1) / 2]); at = (at - 1) / 2)
		rows[at] = rows[(at - 1) / 2];
	while ((next = 2 * at + 1) < queue->nr_rows) {
		if (next + 1 < queue->nr_rows && is_before(&rows[next + 1], &rows[next]))
			next++;
		if (!is_before(&rows[next], &row))
			break;
		rows[at] = rows[next];
		at = next;
	}
	rows[at] = row;
}

static struct time_chunk *new_chunk(struct time_queue *queue)
{
	struct time_chunk *chunk = queue->spare;

	if (chunk)
		queue->spare = chunk->next;
	else
		chunk = malloc(sizeof(*chunk));
	if (chunk) {
		chunk->next = NULL;
		chunk->first = chunk->end = 0;
	}
	return chunk;
}

int time_queue_put(struct time_queue *queue, const struct time_entry *entry)
{
	struct time_chunk *last = queue->last;
	const bool follows = last && last->entries[last->end - 1].time_ns <= entry->time_ns;

	if (!follows && array_room(queue->rows, queue->nr_rows, queue->room))
		return -ENOMEM;
	if (!follows || last->end == CHUNK_ENTRIES) {
		struct time_chunk *chunk = new_chunk(queue);
		if (!chunk)
			return -ENOMEM;
		if (follows)
			last->next = chunk;
		queue->last = chunk;
	}
	queue->last->entries[queue->last->end++] = *entry;
	if (!follows) {
		const struct time_row row = {
			.time_ns = entry->time_ns, .number = queue->next_number++, .chunks = queue->last};
		queue->nr_rows++;
		place_row(queue, queue->nr_rows - 1, row);
	}
	return 0;
}

/* Takes an empty chunk out, to which *link leads. `before`: the one in front of it in its row; NULL: it is the first.
 */
static void drop_chunk(struct time_queue *queue, struct time_chunk **link, struct time_chunk *before)
{
	struct time_chunk *chunk = *link;

	*link = chunk->next;
	if (queue->last == chunk)
		queue->last = before;
	chunk->next = queue->spare;
	queue->spare = chunk;
}

/* Row `at`, which begins later than before, does not stand in front of those behind it any more. */
static bool is_out_of_place(const struct time_queue *queue, size_t at)
{
	const struct time_row *rows = queue->rows;
	const size_t next = 2 * at + 1;

	return (next < queue->nr_rows && is_before(&rows[next], &rows[at])) ||
	       (next + 1 < queue->nr_rows && is_before(&rows[next + 1], &rows[at]));
}

/* The first ones of the row, of its first chunk. */
static inline void drop_from_row(struct time_queue *queue, size_t at, size_t nr)
{
	struct time_row *row = &queue->rows[at];

	row->chunks->first += (uint32_t)nr;
	if (row->chunks->first == row->chunks->end)
		drop_chunk(queue, &row->chunks, NULL);
	if (row->chunks) {
		row->time_ns = first_of(row)->time_ns;
		if (is_out_of_place(queue, at))
			place_row(queue, at, *row);
	} else if (at < --queue->nr_rows) {
		place_row(queue, at, queue->rows[queue->nr_rows]);
	}
}

void time_queue_drop_first(struct time_queue *queue)
{
	drop_from_row(queue, 0, 1);
}

size_t time_queue_first_run(const struct time_queue *queue, uint64_t until_ns, const struct time_entry **ret)
{
	const struct time_row *rows = queue->rows;

	if (!queue->nr_rows || rows[0].time_ns > until_ns)
		return 0;
	const struct time_chunk *chunk = rows[0].chunks;
	for (size_t next = 1; next <= 2 && next < queue->nr_rows; next++) {
		const uint64_t last_ns = rows[next].time_ns - (rows[next].number < rows[0].number);
		until_ns = last_ns < until_ns ? last_ns : until_ns;
	}
	uint32_t end = chunk->first + 1;
	while (end < chunk->end && chunk->entries[end].time_ns <= until_ns)
		end++;
	*ret = &chunk->entries[chunk->first];
	return end - chunk->first;
}

void time_queue_drop_run(struct time_queue *queue, size_t nr)
{
	drop_from_row(queue, 0, nr);
}

/* From the row, of which it is not the first entry. false: it is not there. */
static bool remove_from_row(struct time_queue *queue, struct time_row *row, const void *item)
{
	struct time_chunk *before = NULL;

	for (struct time_chunk **link = &row->chunks; *link; before = *link, link = &before->next) {
		struct time_chunk *chunk = *link;
		for (uint32_t i = chunk->first; i < chunk->end; i++) {
			if (chunk->entries[i].item != item)
				continue;
			chunk->end--;
			memmove(&chunk->entries[i], &chunk->entries[i + 1], (chunk->end - i) * sizeof(*chunk->entries));
			if (chunk->first == chunk->end)
				drop_chunk(queue, link, before);
			return true;
		}
	}
	return false;
}

void time_queue_remove(struct time_queue *queue, const void *item)
{
	for (size_t at = 0; at < queue->nr_rows; at++) {
		const struct time_chunk *first = queue->rows[at].chunks;
		if (first->entries[first->first].item == item) {
			drop_from_row(queue, at, 1);
			return;
		}
		if (remove_from_row(queue, &queue->rows[at], item))
			return;
	}
}
