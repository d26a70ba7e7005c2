/* SPDX-License-Identifier: MIT */
/*
 * extent: whole records that are compressed together into one zstd frame, which is stored in consecutive COMPRESSED
 * records. It depends on no earlier extent, so it can be decompressed alone.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "compress/extent_index.h"

enum {
	/* of records in one extent; together with an incomplete record before them they fit into 16 MiB */
	EXTENT_BYTES_MAX = (16 << 20) - (1 << 17),
	/* for extents that are not compressed, or where saving memory matters more than the ratio */
	EXTENT_BYTES_SMALL = (15 << 16) - 4096,
	EXTENT_RECORD_BYTES_MAX = 7 << 17, /* of records that one COMPRESSED record decompresses to */
	EXTENT_PAYLOAD_MAX = 65535 - 8,    /* of the frame in one COMPRESSED record */
};

/*
 * How many bytes of records an extent should have at this compression level, at most EXTENT_BYTES_MAX. Larger extents
 * compress better, but take more memory, and at the highest levels one would keep a worker busy for seconds.
 */
size_t extent_bytes_for(int level);

struct extent_packer;                                  /* used by one thread at a time */
int extent_packer_new(struct extent_packer **ret);     /* 0, -ENOMEM, -ENOTSUP */
void extent_packer_free(struct extent_packer *packer); /* NULL is fine */

struct extent_pack_params {
	int level; /* 1 to ZSTD_LEVEL_LAST */
	/* at level 1 zstd's search: call chains take a third less than with our own, in three times the time */
	bool thorough;
	/* read during compression, which is cancelled when the value is below `level`; NULL: never cancelled */
	const atomic_int *level_now;
};

/*
 * Compresses `records` (at most EXTENT_BYTES_MAX) and writes the COMPRESSED records to `out`, which may be the memory
 * of `records`. Returns the length of the COMPRESSED records in bytes. After an error `records` are unchanged: -ENOSPC:
 * the result would have `room` bytes or more, so the records should be stored uncompressed; -EIO: zstd failed;
 * -ECANCELED: cancelled by `level_now`.
 *
 * COMPRESSED records are not padded, and each decompresses to 1 to EXTENT_RECORD_BYTES_MAX bytes: perf 6.1 refuses a
 * record that decompresses to nothing, and drops bytes beyond the limit that the COMPRESSED feature states.
 */
int64_t extent_pack(struct extent_packer *packer, const struct extent_pack_params *how, struct span records, void *out,
		    size_t room);

/*
 * An extent at level 1 whose records are compressed, and counted for the index, as they come, and are not kept. Used by
 * one thread at a time, until extent_builder_end(); the functions in between neither wait nor allocate.
 */
struct extent_builder;
struct extent_stats;
struct extent_tally;
int extent_builder_new(const struct extent_stats *stats, struct extent_builder **ret); /* 0, -ENOMEM; borrowed */
void extent_builder_free(struct extent_builder *builder);                              /* NULL is fine */

/* `memory`: borrowed; of `room` bytes, which the COMPRESSED records will not exceed. */
void extent_builder_begin(struct extent_builder *builder, uint8_t *memory, size_t room);
/*
 * Whole records in one or two spans, none empty; in all at most EXTENT_BYTES_MAX. 0; else nothing was added: -ENOSPC:
 * the extent is full; -ENOTSUP: they repeat too little to be compressed so (repeats.h). Then who goes through them
 * counts them in the tally.
 */
int extent_builder_add(struct extent_builder *builder, const struct span records[], unsigned nr);
struct extent_tally *extent_builder_tally(struct extent_builder *builder);
void extent_builder_undo(struct extent_builder *builder); /* what was added last, and is counted in the tally */

/* When there are records. *ret_info is completed by extent_from_built(), by any thread, which gets what this returns.
 */
size_t extent_builder_end(struct extent_builder *builder, struct extent_info *ret_info);
/* Makes COMPRESSED records of what was built in `memory`, at its start. Returns their bytes. */
size_t extent_from_built(uint8_t *memory, size_t built, struct extent_info *info);
