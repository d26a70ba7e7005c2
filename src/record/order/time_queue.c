/* SPDX-License-Identifier: MIT */
#include "record/order/time_queue.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/buf.h"

void time_queue_fini(struct time_queue *queue)
{
	free(queue->entries);
	*queue = (struct time_queue){0};
}

static bool is_before(const struct time_entry *a, const struct time_entry *b)
{
	return a->time_ns < b->time_ns || (a->time_ns == b->time_ns && a->number < b->number);
}

int time_queue_put(struct time_queue *queue, const struct time_entry *entry)
{
	if (array_room(queue->entries, queue->nr, queue->room))
		return -ENOMEM;
	struct time_entry put = *entry;
	size_t at = queue->nr++;
	put.number = queue->next_number++;
	while (at && is_before(&put, &queue->entries[(at - 1) / 2])) {
		queue->entries[at] = queue->entries[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	queue->entries[at] = put;
	return 0;
}

/* The last entry takes its place, or that of one before or behind it. */
static void remove_at(struct time_queue *queue, size_t at)
{
	struct time_entry last = queue->entries[--queue->nr];
	size_t next;

	for (; at && is_before(&last, &queue->entries[(at - 1) / 2]); at = (at - 1) / 2)
		queue->entries[at] = queue->entries[(at - 1) / 2];
	while ((next = 2 * at + 1) < queue->nr) {
		if (next + 1 < queue->nr && is_before(&queue->entries[next + 1], &queue->entries[next]))
			next++;
		if (!is_before(&queue->entries[next], &last))
			break;
		queue->entries[at] = queue->entries[next];
		at = next;
	}
	queue->entries[at] = last;
}

void time_queue_drop_first(struct time_queue *queue)
{
	remove_at(queue, 0);
}

void time_queue_remove(struct time_queue *queue, const void *item)
{
	size_t at = 0;

	while (at < queue->nr && queue->entries[at].item != item)
		at++;
	if (at < queue->nr)
		remove_at(queue, at);
}
