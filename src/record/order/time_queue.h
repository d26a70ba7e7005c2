/* SPDX-License-Identifier: MIT */
/*
 * time_queue: items in the order of their times; items of the same time in the order in which they were put in. One
 * owner, one thread at a time.
 *
 * Most items are put in behind the one before, as they come out of a ring: such ones are a row, which lies in chunks of
 * memory, and only the first of each row is in a binary heap.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct time_entry {
	uint64_t time_ns;
	void *item;
	void *owner;
	uint32_t look, len; /* of an ordered_record */
};

struct time_row;

/* Zeroed: empty. Private. */
struct time_queue {
	struct time_row *rows; /* on the heap; row i begins not later than rows 2i + 1 and 2i + 2 */
	size_t nr_rows, room;
	uint64_t next_number; /* of a row: of two that begin at the same time the one that was put in first is first */
	struct time_chunk *last;  /* of the row of the entry that was put in last; NULL: there is none any more */
	struct time_chunk *spare; /* on the heap */
};

void time_queue_fini(struct time_queue *queue);

int time_queue_put(struct time_queue *queue, const struct time_entry *entry); /* 0 or -ENOMEM */

/* The earliest; NULL: empty. Valid until the queue changes. */
const struct time_entry *time_queue_first(const struct time_queue *queue);

void time_queue_drop_first(struct time_queue *queue);

/*
 * The earliest ones, none later than that, as many of them as lie one behind the other in memory: *ret. Returns their
 * number; 0: there is none. Valid until the queue changes.
 */
size_t time_queue_first_run(const struct time_queue *queue, uint64_t until_ns, const struct time_entry **ret);
void time_queue_drop_run(struct time_queue *queue, size_t nr);      /* the first `nr` of those; not 0 */
void time_queue_remove(struct time_queue *queue, const void *item); /* if it is there; not NULL */
