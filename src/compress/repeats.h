/* SPDX-License-Identifier: MIT */
/*
 * repeats: where records repeat what stands before them, found in words of 8 bytes. Records of tracepoints are made of
 * such words, and most of them equal those of an earlier record of the same kind; for such records this takes a third
 * of the time that zstd takes, which looks at each byte. What is found zstd encodes (compress/zstd.c).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

enum { REPEAT_BYTES_LEAST = 48 }; /* on average: with less, zstd's own search makes much smaller files */

/* As ZSTD_Sequence. */
struct repeat {
	uint32_t distance; /* back, from where it is repeated; 0: nothing is, the block ends behind the literals */
	uint32_t literals; /* that stand before it */
	uint32_t length;
	uint32_t unused;
};

/* How many `ret` needs room for. */
size_t repeats_room(size_t bytes, size_t block_bytes);

/*
 * Those of `in`, in blocks of at most `block_bytes` (a multiple of 8), each of which ends with one of distance 0. Their
 * number; 0: they are too short.
 */
size_t repeats_find(struct span in, size_t block_bytes, struct repeat *ret);
