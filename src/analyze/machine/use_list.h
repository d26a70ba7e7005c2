/* SPDX-License-Identifier: MIT */
/*
 * use_list: where an entry of a table occurs, for its call graph: a list that takes two or three bytes for most uses.
 * One owner, one thread; the bytes are a pool's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pool;

/* A chain of a cell of the tally, without its first `skip` frames. */
struct use {
	uint32_t cell, skip;
};

/* Zeroed: empty. */
struct use_list {
	struct use_chunk *newest; /* whose next is the oldest */
	uint32_t last_cell;
};

/* Behind those there are; its cell is that of the last one or a later one. 0 or -ENOMEM. */
int use_list_append(struct use_list *list, const struct use *use, struct pool *pool);

/* Iterates over a list, which must not change until the end. */
struct use_cursor {
	const struct use_list *list;
	const struct use_chunk *chunk; /* NULL: at the end */
	uint32_t at, cell;
};

struct use_cursor use_list_first(const struct use_list *list);

/* false: that was all. */
bool use_list_next(struct use_cursor *cursor, struct use *ret);
