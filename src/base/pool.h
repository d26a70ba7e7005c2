/* SPDX-License-Identifier: MIT */
/* pool: many small objects that are freed together and never move. One owner, one thread. */
#pragma once

#include <stddef.h>

struct pool {
	struct pool_chunk *chunks; /* newest first */
	size_t used;               /* bytes of the newest chunk */
};

void pool_fini(struct pool *pool); /* leaves an empty, usable pool */

/* `len` zeroed bytes, aligned for any object. NULL: out of memory. Valid until pool_fini(). */
void *pool_take(struct pool *pool, size_t len);

/* A copy of the text with a NUL behind it. NULL: out of memory. */
char *pool_text(struct pool *pool, const char *text, size_t len);
