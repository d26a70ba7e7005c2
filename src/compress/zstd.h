/* SPDX-License-Identifier: MIT */
/*
 * zstd: the compressor and the decompressor; each object is used by one thread at a time. In a build without libzstd
 * zstd_available() is false and the functions that return errors return -ENOTSUP.
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

/* The greatest length of a frame that holds so many bytes. */
size_t zstd_bound(size_t bytes);

struct zstd_pack_params {
	int level;          /* 1 to ZSTD_LEVEL_LAST */
	bool no_size;       /* the frame header has no content size, as in a stream */
	size_t block_bytes; /* the most input that one block of the frame may hold; 0: zstd's default */
	bool short_records; /* most of the input are records without stack dumps */
	bool hard;          /* much of the input hardly shrinks, so less time is to be spent on it */
	/* read after each block: compression is cancelled when it is below `level`; NULL: never */
	const atomic_int *level_now;
};

/*
 * Compresses `in` into one whole frame with content size (unless no_size). Returns its length in bytes; -EIO: zstd
 * failed, or the frame does not fit into `room` bytes; -ECANCELED: cancelled by `level_now`.
 */
int64_t zstd_pack(struct zstd_packer *packer, const struct zstd_pack_params *params, struct span in, void *out,
		  size_t room);

/*
 * A skippable frame (3.1.2), for which all decompressors have no bytes, with the hash of the frame behind it: what is
 * damaged is noticed, in a tenth of the time that zstd's own checksum of the content takes.
 */
enum { ZSTD_HASH_BYTES = 16 };
void zstd_put_hash(struct span frame, void *out);
/* Of a frame with a hash in front of it: 1: it is the frame that was hashed; -EBADMSG: it is not. 0: it has no hash. */
int zstd_check_hash(struct span frame);

/* What a frame's header states. */
struct zstd_frame {
	size_t header_bytes;   /* with those of a hash in front of it */
	uint64_t bytes;        /* content size; UINT64_MAX: not stated */
	size_t checksum_bytes; /* behind the last block */
};
/* false: `bytes` does not begin with a whole frame header, behind a hash or not. */
bool zstd_frame_start(struct span bytes, struct zstd_frame *ret);
/*
 * The length of the block at the start of `bytes`, with its header, and whether it is the last of its frame. false:
 * `bytes` does not begin with a whole, valid block.
 */
bool zstd_block(struct span bytes, size_t *ret_len, bool *ret_last);

struct zstd_unpacker;
int zstd_unpacker_new(struct zstd_unpacker **ret);       /* 0, -ENOMEM, -ENOTSUP */
void zstd_unpacker_free(struct zstd_unpacker *unpacker); /* NULL is fine */

/*
 * Decompresses a whole frame at once. Returns how many bytes it held; -EBADMSG: it is damaged, which a hash in front of
 * it tells for certain, or holds more than `room` bytes; -ENOMEM.
 */
int64_t zstd_unpack_frame(struct zstd_unpacker *unpacker, struct span frame, void *out, size_t room);

/* Forgets all earlier input of zstd_unpack(): the next input begins with a new frame. */
void zstd_unpack_reset(struct zstd_unpacker *unpacker);
/*
 * Decompresses frames whose bytes come in chunks: consumes bytes from the front of *in, moves *in behind them, and
 * writes up to `room` bytes to `out`. Returns the number of bytes written; 0: *in is empty, and more input is needed or
 * the frame has ended. -EBADMSG: the frame is damaged, or needs more memory than frames of zstd's highest level do.
 * -ENOMEM. One frame may follow another.
 */
int64_t zstd_unpack(struct zstd_unpacker *unpacker, struct span *in, void *out, size_t room);
