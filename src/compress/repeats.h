/* SPDX-License-Identifier: MIT */
/*
 * repeats: compresses records that mostly repeat earlier ones into one zstd frame (RFC 8878), without libzstd. Records
 * of tracepoints consist of words of 8 bytes, most of which equal those of an earlier record of the same kind: repeats
 * are looked for in such words. That and the code of what was found (compress/sequences.h) take a third of the time of
 * zstd's fastest level, for files of the same size.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

/* average length of the repeats found, below which zstd's own search makes much smaller files */
enum { REPEAT_BYTES_LEAST = 48 };

struct repeats_packer;                                   /* used by one thread at a time */
int repeats_packer_new(struct repeats_packer **ret);     /* 0, -ENOMEM */
void repeats_packer_free(struct repeats_packer *packer); /* NULL is fine */

/* How many bytes repeats_pack() may write. */
size_t repeats_bound(size_t bytes);

/*
 * Compresses 1 byte to 16 MiB into one whole frame with content size and without checksum. `out`: room for
 * repeats_bound() bytes. Returns the length of the frame; -ENOTSUP: the repeats are too short on average
 * (REPEAT_BYTES_LEAST).
 */
int64_t repeats_pack(struct repeats_packer *packer, struct span in, uint8_t *out);
