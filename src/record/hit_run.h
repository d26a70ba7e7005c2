/* SPDX-License-Identifier: MIT */
/*
 * hit_run: samples that lie one behind the other and tell where they hit at the same places, looked at in one loop: most of
 * what is recorded, and each one passes here while its ring waits. Private to hits.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct hit_layout;
struct hit_pages;

/* Where samples of all events have the same fields, and no chain. */
struct hit_plain {
	uint32_t ip, tid, time; /* bytes from the start */
	uint32_t bytes;         /* a sample has at least so many; UINT32_MAX: no sample is plain */
};

struct hit_run {
	uint64_t nr, bytes, last; /* last: where the last one begins */
	uint64_t first_ns, last_ns;
};

struct hit_plain hit_plain_make(const struct hit_layout *layouts, size_t nr);

/*
 * The plain samples that `records` begins with, as far as they begin in its first `room` bytes: their pages are added. It
 * ends before anything else: a record that is not whole, without a time, of a guest, or for whose page there is no room.
 */
void hit_run_take(const struct hit_plain *plain, struct hit_pages *pages, struct span records, uint64_t room,
		  struct hit_run *ret);
