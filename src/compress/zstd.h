/* SPDX-License-Identifier: MIT */
/*
 * zstd: the compressor and the decompressor, one thread each at a time. In a build without libzstd zstd_available() is
 * false and everything else answers -ENOTSUP.
 *
 * Source of the frame format: RFC 8878.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

enum {
	ZSTD_LEVEL_DEFAULT = 1, /* as perf's -z */
	ZSTD_LEVEL_LAST = 22,
};

bool zstd_available(void);

struct zstd_packer;
int zstd_packer_new(struct zstd_packer **ret);     /* 0, -ENOMEM, -ENOTSUP */
void zstd_packer_free(struct zstd_packer *packer); /* NULL is fine */

/* What a frame of so many bytes may take at most. */
size_t zstd_bound(size_t bytes);

struct zstd_pack_params {
	int level;          /* 1 to ZSTD_LEVEL_LAST */
	bool no_size;       /* the frame does not say how much it holds, as a stream's */
	size_t block_bytes; /* no block of the frame holds more of the input; 0: as zstd likes */
	bool short_records; /* without dumps of stacks, for most of its bytes */
	bool hard;          /* of most, or much, next to nothing can be gained: no more time than that is worth */
	const atomic_int *level_now; /* looked at after each block: given up when it is below `level`; NULL: never */
};

/*
 * One whole frame with the size and a checksum of what it holds. Its length; -EIO: zstd refused; -ECANCELED: given up.
 */
int64_t zstd_pack(struct zstd_packer *packer, const struct zstd_pack_params *params, struct span in, void *out,
		  size_t room);

/*
 * The same at the lowest level, for records that mostly repeat earlier ones (compress/repeats.h): less time. -ENOTSUP:
 * they do not, or zstd cannot do it here. -EIO: zstd refused.
 */
int64_t zstd_pack_repeats(struct zstd_packer *packer, struct span in, void *out, size_t room);

/* What the header of a frame says. */
struct zstd_frame {
	size_t header_bytes;
	uint64_t bytes;        /* that it holds; UINT64_MAX: it does not say */
	size_t checksum_bytes; /* behind the last block */
};
/* false: no frame starts here, or its header is not whole. */
bool zstd_frame_start(struct span bytes, struct zstd_frame *ret);
/* The same for the block at the start of `bytes`: its length with its header. false: not whole, or no block. */
bool zstd_block(struct span bytes, size_t *ret_len, bool *ret_last);

struct zstd_unpacker;
int zstd_unpacker_new(struct zstd_unpacker **ret);       /* 0, -ENOMEM, -ENOTSUP */
void zstd_unpacker_free(struct zstd_unpacker *unpacker); /* NULL is fine */

/* A whole frame at once. How many bytes it held; -EBADMSG: damaged, or more than `room`; -ENOMEM. */
int64_t zstd_unpack_frame(struct zstd_unpacker *unpacker, struct span frame, void *out, size_t room);

/* What was fed before is forgotten; a frame starts. */
void zstd_unpack_reset(struct zstd_unpacker *unpacker);
/*
 * Frames in pieces: takes from the front of *in, which is moved on, and gives up to `room` bytes. Their number: 0 when
 * it needs more input, or needs none: *in is empty then. -EBADMSG: damaged, or wants more memory than a frame of zstd's
 * highest level. -ENOMEM. Frames may follow one another.
 */
int64_t zstd_unpack(struct zstd_unpacker *unpacker, struct span *in, void *out, size_t room);
