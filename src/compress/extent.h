/* SPDX-License-Identifier: MIT */
/*
 * extent: whole records that are compressed together, as one zstd frame in COMPRESSED records that follow each other.
 * It needs nothing that stands before it, so it can be read alone.
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

/* The size that is worth its memory: a higher level asks more of the ratio, the highest take very long. */
size_t extent_bytes_for(int level);

struct extent_packer;                              /* one thread */
int extent_packer_new(struct extent_packer **ret); /* 0, -ENOMEM, -ENOTSUP */
void extent_packer_free(struct extent_packer *packer);

struct extent_pack_params {
	int level; /* 1 to ZSTD_LEVEL_LAST */
	const atomic_int
		*level_now; /* given up when it falls below `level`, but what is quick at level 1; NULL: never */
};

/*
 * COMPRESSED records that hold `records` (at most EXTENT_BYTES_MAX), in `out`, which may be the same memory.
 * Their length; -ENOSPC: they would take `room` or more: such records are better stored as they are. -EIO: zstd
 * refused. -ECANCELED: given up. `records` are as they were then.
 *
 * Never padded, and each gives at least a byte when it is decompressed, and at most EXTENT_RECORD_BYTES_MAX: perf 6.1
 * refuses them otherwise, or drops what is more than the header promises.
 */
int64_t extent_pack(struct extent_packer *packer, const struct extent_pack_params *how, struct span records, void *out,
		    size_t room);
