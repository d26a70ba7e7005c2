/* SPDX-License-Identifier: MIT */
/*
 * zlib_unpacker: decompresses data in zlib's format, from front to back: by ISA-L, which takes half of the time, if it
 * is installed, or else by zlib. One owner, one thread. Source of the format: RFC 1950.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

enum zlib_unpack_by {
	ZLIB_UNPACK_BEST,
	ZLIB_UNPACK_BY_ZLIB, /* for tests, which compare both */
};

struct zlib_unpacker;
/* packed: borrowed. NULL: out of memory, or `packed` has more than 4 GiB. */
struct zlib_unpacker *zlib_unpacker_new(struct span packed, enum zlib_unpack_by by);
void zlib_unpacker_free(struct zlib_unpacker *unpacker); /* NULL is fine */

/*
 * Decompresses the next `len` bytes. Returns how many there are; fewer than `len`: the data ends there, or is damaged.
 */
uint64_t zlib_unpack(struct zlib_unpacker *unpacker, void *ret, uint64_t len);

/* After all bytes were decompressed: whether the input ends there, and its checksum is right. */
bool zlib_unpack_is_complete(struct zlib_unpacker *unpacker);
