/* SPDX-License-Identifier: MIT */
/*
 * time_queue: items in the order of their times; items of the same time in the order in which they were put in. A
 * binary heap. One owner, one thread at a time.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct time_entry {
	uint64_t time_ns;
	uint64_t number; /* set by time_queue_put() */
	void *item;
	void *owner;
};

/* Zeroed: empty. */
struct time_queue {
	/* on the heap; a binary heap: entry i is not later than entries 2i + 1 and 2i + 2 */
	struct time_entry *entries;
	size_t nr, room;
	uint64_t next_number;
};

void time_queue_fini(struct time_queue *queue);

int time_queue_put(struct time_queue *queue, const struct time_entry *entry); /* 0 or -ENOMEM */

/* The earliest; NULL: empty. Valid until the queue changes. */
static inline const struct time_entry *time_queue_first(const struct time_queue *queue)
{
	return queue->nr ? &queue->entries[0] : NULL;
}

void time_queue_drop_first(struct time_queue *queue);
void time_queue_remove(struct time_queue *queue, const void *item); /* if it is there */
