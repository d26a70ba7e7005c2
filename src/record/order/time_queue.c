/* SPDX-License-Identifier: MIT */
#include "record/order/time_queue.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/buf.h"

void time_queue_fini(struct time_queue *queue)
{
	free(queue->entries);
	free(queue->rows);
	*queue = (struct time_queue){0};
}

static bool is_before(const struct time_queue *queue, size_t left, size_t right)
{
	const struct time_entry *a = &queue->entries[left], *b = &queue->entries[right];

	return a->time_ns < b->time_ns || (a->time_ns == b->time_ns && a->number < b->number);
}

/* A free entry and a free place for a row. -ENOMEM. */
static int reserve(struct time_queue *queue)
{
	if (array_room(queue->rows, queue->nr_rows, queue->rows_room))
		return -ENOMEM;
	if (queue->free)
		return 0;
	if (array_room(queue->entries, queue->nr_entries, queue->room))
		return -ENOMEM;
	queue->entries[queue->nr_entries] = (struct time_entry){0};
	queue->free = ++queue->nr_entries;
	return 0;
}

static void add_row(struct time_queue *queue, size_t first)
{
	size_t *rows = queue->rows, at = queue->nr_rows++;

	for (; at && is_before(queue, first, rows[(at - 1) / 2]); at = (at - 1) / 2)
		rows[at] = rows[(at - 1) / 2];
	rows[at] = first;
}

int time_queue_put(struct time_queue *queue, const struct time_entry *entry)
{
	if (reserve(queue))
		return -ENOMEM;
	const size_t index = queue->free - 1;
	struct time_entry *put = &queue->entries[index];
	queue->free = put->next;
	*put = *entry;
	put->number = queue->next_number++;
	put->next = 0;
	if (queue->last && queue->entries[queue->last - 1].time_ns <= put->time_ns)
		queue->entries[queue->last - 1].next = index + 1;
	else
		add_row(queue, index);
	queue->last = index + 1;
	return 0;
}

static void free_entry(struct time_queue *queue, size_t index)
{
	queue->entries[index] = (struct time_entry){.next = queue->free};
	queue->free = index + 1;
	if (queue->last == index + 1)
		queue->last = 0;
}

/* Its second entry takes its place, which is not earlier; or the last row does, if there is none. */
static void drop_from_row(struct time_queue *queue, size_t at)
{
	size_t *rows = queue->rows, next;
	const size_t dropped = rows[at], second = queue->entries[dropped].next;
	const size_t first = second ? second - 1 : rows[--queue->nr_rows];

	for (; at && is_before(queue, first, rows[(at - 1) / 2]); at = (at - 1) / 2)
		rows[at] = rows[(at - 1) / 2];
	while ((next = 2 * at + 1) < queue->nr_rows) {
		if (next + 1 < queue->nr_rows && is_before(queue, rows[next + 1], rows[next]))
			next++;
		if (!is_before(queue, rows[next], first))
			break;
		rows[at] = rows[next];
		at = next;
	}
	rows[at] = first;
	free_entry(queue, dropped);
}

void time_queue_drop_first(struct time_queue *queue)
{
	drop_from_row(queue, 0);
}

void time_queue_remove(struct time_queue *queue, const void *item)
{
	for (size_t at = 0; at < queue->nr_rows; at++) {
		size_t *from = NULL, index = queue->rows[at];
		while (queue->entries[index].item != item && queue->entries[index].next) {
			from = &queue->entries[index].next;
			index = *from - 1;
		}
		if (queue->entries[index].item != item)
			continue;
		if (!from) {
			drop_from_row(queue, at);
			return;
		}
		*from = queue->entries[index].next;
		free_entry(queue, index);
		return;
	}
}
