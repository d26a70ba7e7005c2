/* SPDX-License-Identifier: MIT */
/*
 * time_queue: items in the order of their times; items of the same time in the order in which they were put in. One
 * owner, one thread at a time.
 *
 * Most items are put in behind the one before, as they come out of a ring: such ones are a row, and only the first of
 * each row is in a binary heap.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct time_entry {
	uint64_t time_ns;
	uint64_t number; /* set by time_queue_put() */
	void *item;
	void *owner;
	size_t next; /* private: 1 + index of the next one in its row, or of those that are free; 0: none */
};

/* Zeroed: empty. */
struct time_queue {
	struct time_entry *entries; /* on the heap; those in use, and free ones with the item NULL */
	size_t nr_entries, room, free;
	/* on the heap, likewise: indices of the first of each row; row i begins not later than rows 2i + 1 and 2i + 2
	 */
	size_t *rows;
	size_t nr_rows, rows_room;
	size_t last; /* 1 + index of the entry that was put in last; 0: it is not there any more */
	uint64_t next_number;
};

void time_queue_fini(struct time_queue *queue);

int time_queue_put(struct time_queue *queue, const struct time_entry *entry); /* 0 or -ENOMEM */

/* The earliest; NULL: empty. Valid until the queue changes. */
static inline const struct time_entry *time_queue_first(const struct time_queue *queue)
{
	return queue->nr_rows ? &queue->entries[queue->rows[0]] : NULL;
}

void time_queue_drop_first(struct time_queue *queue);
void time_queue_remove(struct time_queue *queue, const void *item); /* if it is there; not NULL */
