/* SPDX-License-Identifier: MIT */
/*
 * use_list: the chains in which an entry of a table occurs, for its call graph. The list takes two or three bytes for
 * most uses. One owner, one thread; its memory comes from a pool.
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
	struct use_chunk *newest; /* its `next` is the oldest chunk */
	uint32_t last_cell;
};

/* Appends a use, whose cell must not be lower than that of the last one. 0 or -ENOMEM. */
int use_list_append(struct use_list *list, const struct use *use, struct pool *pool);

/* Iterates over a list, which must not change until the end. */
struct use_cursor {
	const struct use_list *list;
	const struct use_chunk *chunk; /* NULL: at the end */
	uint32_t at, cell;
};

struct use_cursor use_list_first(const struct use_list *list);

/* false: there are no more. */
bool use_list_next(struct use_cursor *cursor, struct use *ret);
