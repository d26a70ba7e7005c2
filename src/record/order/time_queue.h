/* SPDX-License-Identifier: MIT */
/*
 * time_queue: what waits for its turn in the order of time; of the same time, in the order in which it was put in.
 * A binary heap. One owner, one thread at a time.
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
	struct time_entry *entries; /* heap; none has an earlier one behind it at 2i + 1 and 2i + 2 */
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
