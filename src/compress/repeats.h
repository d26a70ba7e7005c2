/* SPDX-License-Identifier: MIT */
/*
 * repeats: finds where records repeat earlier bytes, in words of 8 bytes. Records of tracepoints consist of such words,
 * most of which equal those of an earlier record of the same kind. For such records this takes a third of the time of
 * zstd's own search, which looks at each byte. The result is encoded by zstd (compress/zstd.c).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

/* average length of the repeats found, below which zstd's own search makes much smaller files */
enum { REPEAT_BYTES_LEAST = 48 };

/* As ZSTD_Sequence. */
struct repeat {
	/* how many bytes back the same bytes stand; 0: no repeat, the block ends behind the literals */
	uint32_t distance;
	uint32_t literals; /* bytes before the repeat that are stored as they are */
	uint32_t length;
	uint32_t unused;
};

/* The number of elements that `ret` of repeats_find() must have room for. */
size_t repeats_room(size_t bytes, size_t block_bytes);

/*
 * Finds the repeats in `in`, in blocks of at most `block_bytes` (a multiple of 8); each block ends with an element of
 * distance 0. Returns the number of elements; 0: the repeats are too short on average (REPEAT_BYTES_LEAST).
 */
size_t repeats_find(struct span in, size_t block_bytes, struct repeat *ret);
