/* SPDX-License-Identifier: MIT */
/*
 * stack_table: tables for formats that write at the end: the announced stacks; texts, each with one number; and sums of
 * equal samples. One owner, one thread. Zeroed is empty.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "base/pool.h"

/* Room for element number `wanted` of an array on the heap. 0 or -ENOMEM. */
int table_make_room(void **array, size_t element_bytes, uint32_t wanted, uint32_t *room);

enum { EXPORT_MOST_FRAMES = 1280 }; /* of a stack */

struct stack_link {
	uint32_t outer, frame; /* numbers; outer 0: none */
};

struct stack_table {
	struct stack_link *links; /* heap; by number; [0] is not used */
	uint32_t nr, room;        /* nr: the greatest number */
};

int stack_table_add(struct stack_table *table, uint32_t number, uint32_t outer, uint32_t frame); /* 0 or -ENOMEM */
void stack_table_fini(struct stack_table *table);

/* Texts by number, from 0 on in the order in which they came. */
struct text_table {
	struct pool pool;
	struct hash_table by_hash; /* number + 1 */
	const char **texts;        /* heap */
	uint32_t nr, room;
};

/* 1: it is new; 0: it was there; -ENOMEM. NULL is "". */
int text_table_add(struct text_table *table, const char *text, uint32_t *ret_number);
void text_table_fini(struct text_table *table);

/*
 * The text as valid UTF-8, which protocol buffers and SQL need: the text itself, or a copy in `copy` in which each
 * invalid byte is replaced by U+FFFD. Valid as long as both.
 */
struct buf;
const char *utf8_of(const char *text, struct buf *copy);

/*
 * Appends a name for a frame, for formats with only one text for a frame: the function, or "[libc.so.6]" when it is
 * unknown.
 */
struct export_frame;
void frame_name_put(struct buf *out, const struct export_frame *frame, const char *object_path);

/* The number of samples that are equal in these fields, and the sum of their periods: at most INT64_MAX. */
struct sum_key {
	uint32_t stack, thread, event;
	int32_t cpu;
	uint32_t cgroup;
};

struct sum {
	struct sum_key key;
	uint64_t nr_samples, period;
};

struct sums {
	struct sum *sums; /* heap; in the order in which they came first */
	uint32_t nr, room;
	struct hash_table by_key; /* index + 1, by a hash */
};

int sums_add(struct sums *sums, const struct sum_key *key, uint64_t period); /* 0 or -ENOMEM */
void sums_clear(struct sums *sums);
void sums_fini(struct sums *sums);
