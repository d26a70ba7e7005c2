/* SPDX-License-Identifier: MIT */
/*
 * interned: things of one size that are alike when their bytes are, each kept once and known by a number, from 0 on as they
 * first came. A thing takes its size and six to eleven bytes. One owner, one thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct interned {
	uint32_t *things;
	uint32_t nr, room;
	uint32_t *slots; /* number + 1; open addressing, at most three quarters full */
	uint32_t nr_slots;
};

void interned_fini(struct interned *interned); /* leaves none; zeroed is fine */

/*
 * The number of a thing of so many 32-bit words, the same for all of a table; nothing in it is padding. It is copied when it
 * is new. 0 or -ENOMEM.
 */
int interned_find(struct interned *interned, const void *thing, uint32_t words, uint32_t *ret);

/* The thing of a number. Valid until the next one is new. */
static inline const void *interned_at(const struct interned *interned, uint32_t words, uint32_t number)
{
	return interned->things + (size_t)number * words;
}
