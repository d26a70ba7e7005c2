/* SPDX-License-Identifier: MIT */
/*
 * extent: whole records that are compressed together, as one zstd frame in COMPRESSED records that follow each other.
 * It depends on no earlier extent, so it can be decompressed alone.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

enum {
	EXTENT_BYTES_MAX = (16 << 20) - (1 << 17), /* of records in one: with a record before it, it fits into 16 MiB */
	EXTENT_BYTES_SMALL =
		(15 << 16) - 4096,         /* where memory counts more than the ratio, and what is not compressed */
	EXTENT_RECORD_BYTES_MAX = 7 << 17, /* that one COMPRESSED record gives */
	EXTENT_PAYLOAD_MAX = 65535 - 8,    /* of frame in one COMPRESSED record */
};

/*
 * How many bytes of records an extent should have at this level: more compress better, but take more memory, and at the
 * highest levels a worker would be busy for seconds. At most EXTENT_BYTES_MAX.
 */
size_t extent_bytes_for(int level);

struct extent_packer;                                  /* used by one thread at a time */
int extent_packer_new(struct extent_packer **ret);     /* 0, -ENOMEM, -ENOTSUP */
void extent_packer_free(struct extent_packer *packer); /* NULL is fine */

struct extent_pack_params {
	int level; /* 1 to ZSTD_LEVEL_LAST */
	const atomic_int
		*level_now; /* read while it compresses, which it stops when this is below `level`; NULL: never stops */
};

/*
 * Writes COMPRESSED records that hold `records` (at most EXTENT_BYTES_MAX) to `out`, which may be the same memory.
 * Returns their length in bytes, or an error, which leaves `records` as they were: -ENOSPC: they would take `room`
 * bytes or more, so the records should be stored uncompressed; -EIO: zstd failed; -ECANCELED: stopped by `level_now`.
 *
 * COMPRESSED records are not padded, and each decompresses to 1 to EXTENT_RECORD_BYTES_MAX bytes: perf 6.1 refuses a
 * record that gives none, and drops what is more than the header promises.
 */
int64_t extent_pack(struct extent_packer *packer, const struct extent_pack_params *how, struct span records, void *out,
		    size_t room);
