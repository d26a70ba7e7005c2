/* SPDX-License-Identifier: MIT */
/*
 * source: records one after the other, as they lie in a file, a pipe or memory. One owner (source_close), one thread.
 * Sources of records that do not lie in the file itself keep them in an arena.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/span.h"
#include "perfdata/record.h"
#include "read/session.h"

struct diag;
struct unpack_helper;

struct source {
	const struct source_ops *ops;
	struct span stays;         /* records that lie here stay as long as the source, held or not */
	uint64_t nr_compressed[2]; /* numbers of COMPRESSED and of COMPRESSED2 records that were decompressed */
};

struct source_record {
	struct record_view view;
	struct span outside; /* what follows a TRACING_DATA record; valid until the next call */
};

/* Bytes from a record's start to another's. */
struct source_skip {
	uint64_t offset, bytes;
};

/* Records that lie one behind the other in memory; the last one may be incomplete, and any may be damaged. */
struct source_stretch {
	struct span records; /* 8-aligned, not empty */
	uint64_t offset;     /* of the first record, for messages */
	bool packed;         /* all others have that offset, too; else theirs follow from their places */
};

/* The first records of a stretch: */
struct source_passed {
	size_t bytes, nr;     /* of all of them, at least one */
	uint64_t last_offset; /* of the last one */
};

struct source_ops {
	/* NULL: it cannot. What source_next() would give next, if that lies in a stretch; false: it does not. */
	bool (*stretch)(struct source *source, struct source_stretch *ret);
	/* The records count as given, each of them held. No other call may come between stretch() and this. */
	void (*pass)(struct source *source, const struct source_passed *passed);
	int (*next)(struct source *source, struct source_record *ret, struct diag *reterr);
	void (*hold)(struct source *source, const void *record);
	void (*release)(struct source *source, const void *record);
	void (*leave_out)(struct source *source, struct source_skip *skips, size_t nr); /* NULL: it cannot */
	/* NULL: it cannot. Continues at the next extent behind `offset`; false: there is none, nothing has changed. */
	bool (*find_extent)(struct source *source, uint64_t offset);
	/* NULL: it cannot. See source_set_helper() and source_help(). */
	void (*set_helper)(struct source *source, const struct unpack_helper *helper);
	bool (*help)(struct source *source);
	void (*close)(struct source *source);
};

/* Bytes of a file that was opened or memory of a test: records from `at` up to `end`. */
struct source_range {
	struct span whole; /* borrowed for the life of the source */
	uint64_t at, end;  /* offsets; end <= whole.len */
	/* Not 0: why there should be more behind `end` or in the file; the source then ends with -EBADMSG. */
	enum source_shortage {
		SOURCE_COMPLETE,
		SOURCE_UNFINISHED,  /* the header does not say where the data ends */
		SOURCE_TRUNCATED,   /* the header says that it ends behind the end of the file */
		SOURCE_UNDESCRIBED, /* all of it is there, but not all of the features behind it */
	} shortage;
};
int source_open_range(const struct source_range *range, struct source **ret);

/*
 * Records of a pipe behind its 16 bytes of header, which were read already. The pipe ends, too, when **stop is not 0,
 * also inside a record; *stop may be NULL, and become another one.
 */
int source_open_pipe(int fd, const volatile sig_atomic_t *const *stop, struct source **ret);
int source_open_stream(struct session_stream stream, const volatile sig_atomic_t *const *stop, struct source **ret);

/* read(2) on a descriptor, which stays the caller's. */
struct session_stream source_stream_of(int fd);

/*
 * Returns the records of `under`, with COMPRESSED records replaced by the records in them. Takes ownership of `under`,
 * also when it fails: -ENOMEM. `ahead`: `under` never waits, so several extents may be decompressed at once.
 */
int source_open_unpack(struct source *under, bool ahead, struct source **ret);

/*
 * The same, with `ahead`, for one of `nr_sources` that one thread reads in turn: they share the threads that
 * decompress, and each source decompresses fewer extents ahead. `workers` is borrowed, and freed after the source.
 */
struct unpack_pool;
int source_open_unpack_beside(struct source *under, struct unpack_pool *workers, size_t nr_sources,
			      struct source **ret);

enum { SOURCE_GAP = 2 };

/*
 * SOURCE_GAP: records are missing here, the diag says which and where; the next call goes on behind them.
 * 1: a record, 8-aligned, whole, valid until the next call or as long as it is held. 0: the end.
 * -EBADMSG, or -errno of read(2): the diag says what and where; so does every later call.
 */
static inline int source_next(struct source *source, struct source_record *ret, struct diag *reterr)
{
	return source->ops->next(source, ret, reterr);
}

/* See struct source_ops. Only for what is whole, has a size that is a multiple of 8, and no bytes outside. */
static inline bool source_stretch(struct source *source, struct source_stretch *ret)
{
	return source->ops->stretch && source->ops->stretch(source, ret);
}

static inline void source_pass(struct source *source, const struct source_passed *passed)
{
	source->ops->pass(source, passed);
}

static inline bool source_keeps(const struct source *source, const void *record)
{
	return (uintptr_t)record - (uintptr_t)source->stays.ptr < source->stays.len;
}

/*
 * Of a source that decompresses: by its thread, before the first record, or when the helper is gone. The helper is
 * copied.
 */
static inline void source_set_helper(struct source *source, const struct unpack_helper *helper)
{
	if (source->ops->set_helper)
		source->ops->set_helper(source, helper);
}

/*
 * By the helper, after it was wanted: does some of what the source's thread would have to do. false: there was nothing.
 */
static inline bool source_help(struct source *source)
{
	return source->ops->help && source->ops->help(source);
}

static inline void source_hold(struct source *source, const void *record)
{
	if (!source_keeps(source, record))
		source->ops->hold(source, record);
}

static inline void source_release(struct source *source, const void *record)
{
	if (!source_keeps(source, record))
		source->ops->release(source, record);
}

/*
 * Records that are not wanted, ascending by offset; the list (of malloc(3)) is the source's from here on. Before the
 * first source_next(). A source that cannot skip returns them nevertheless.
 */
static inline void source_skip(struct source *source, struct source_skip *skips, size_t nr)
{
	if (source->ops->leave_out)
		source->ops->leave_out(source, skips, nr);
	else
		free(skips);
}

static inline void source_close(struct source *source)
{
	if (source)
		source->ops->close(source);
}

/* Bytes outside header.size that belong to a record (what header.size covers must be readable). */
static inline uint64_t source_outside_bytes(const struct perf_event_header *record)
{
	return record->type < RECORD_USER_FIRST ? 0 : record_outside_bytes(record, record + 1);
}

/* 0, or -EBADMSG: header->size is less than the size of a header. */
int source_check_size(const struct perf_event_header *header, uint64_t offset, struct diag *reterr);

/*
 * arena: big aligned blocks for bytes that many records share. A block is used again when none of its records is
 * held any more. One owner (arena_fini), one thread.
 */
enum { ARENA_BLOCK_BYTES = 1 << 20 }; /* size and alignment of a block, unless the arena says otherwise */

/* Stands at the start of its block; the bytes follow. */
struct arena_block {
	struct arena_block *next_all, *next_spare;
	uint64_t nr_refs; /* records in it that are held */
	uint8_t *end;
	_Alignas(64) uint8_t bytes[];
};

struct arena {
	size_t block_bytes;          /* a power of two; 0: ARENA_BLOCK_BYTES */
	struct arena_block *current; /* NULL: none yet */
	struct arena_block *all, *spare;
};

void arena_fini(struct arena *arena);

size_t arena_block_bytes(const struct arena *arena);

/* A new current block; the old one lives on while something in it is held. NULL: out of memory. */
struct arena_block *arena_renew(struct arena *arena);

/* `within`: a place in a block of the arena. Pair each hold with a release. */
void arena_hold(struct arena *arena, const void *within);
void arena_release(struct arena *arena, const void *within);
