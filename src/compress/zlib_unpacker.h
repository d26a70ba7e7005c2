/* SPDX-License-Identifier: MIT */
/*
 * zlib_unpacker: unpacks zlib's format in parts, one behind the other: by ISA-L, which takes half of the time, where
 * that is installed, or else by zlib. One owner, one thread. Source of the format: RFC 1950.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

enum zlib_unpack_by {
	ZLIB_UNPACK_BEST,
	ZLIB_UNPACK_BY_ZLIB, /* what ISA-L is compared with */
};

struct zlib_unpacker;
/* packed: borrowed. NULL: out of memory, or it has more than 4 GiB. */
struct zlib_unpacker *zlib_unpacker_new(struct span packed, enum zlib_unpack_by by);
void zlib_unpacker_free(struct zlib_unpacker *unpacker); /* NULL is fine */

/* The next bytes. Returns how many; fewer than `len`: it ends there, or is damaged. */
uint64_t zlib_unpack(struct zlib_unpacker *unpacker, void *ret, uint64_t len);

/* After all bytes: that the input ends there, with the right checksum. */
bool zlib_unpack_is_complete(struct zlib_unpacker *unpacker);
