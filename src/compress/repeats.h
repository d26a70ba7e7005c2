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

/*
 * The same for bytes that come in parts, which are not needed any more when repeats_add() returns: no part repeats
 * bytes of an earlier one. `out` is borrowed until repeats_end(), and is written to up to `room` bytes.
 */
void repeats_begin(struct repeats_packer *packer, uint8_t *out, size_t room);
/*
 * A part of 1 byte or more, up to 16 MiB in all. 0; then repeats_undo() must follow: -ENOSPC: there is no room for
 * repeats_bound() of the next block; -ENOTSUP: the repeats of this part are too short on average, or a block of it
 * takes more than block_bytes_most.
 */
int repeats_add(struct repeats_packer *packer, struct span part, size_t block_bytes_most);
/* What was added since repeats_mark() was not. */
void repeats_mark(struct repeats_packer *packer);
void repeats_undo(struct repeats_packer *packer);
size_t repeats_end(struct repeats_packer *packer); /* after a part was added: the length of the frame */
