/* SPDX-License-Identifier: MIT */
/*
 * ordered_stage: the common part of stages (stream/stage.h) that need records in the order of time, over all outputs
 * and rings: waiting and sorting. The ops of the stage say what is done with the records.
 *
 * A batch is kept until all records that are older than its records have come. look_at() is called for each record when
 * its batch comes; take() is called in the order of time for those that look_at() wanted. take() may change, shorten or
 * remove a record in place, and add records behind the batch. When memory runs short batches are passed on earlier:
 * give_up() decides whether a copy of a record is taken later.
 *
 * Owned by a recording. The ops of all its stages are called under one lock.
 */
#pragma once

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "stream/stage.h"

struct buf;
struct ordered_batch;
struct ordered_stages;

enum { ORDERED_GAP = 0 }; /* private: type of what is left behind a record that became shorter; none of the kernel's */

struct ordered_record {
	uint64_t time_ns;
	uint8_t *bytes;              /* 8-aligned; whole; NULL for end(). take() may go on to the next one of these: */
	size_t len;                  /* of it, and of those behind it that are taken with it */
	size_t gap_bytes;            /* private: of what was removed */
	uint32_t look;               /* what look_at() returned for it */
	struct ordered_batch *batch; /* private: the batch that contains it; NULL: that was passed on */
	struct ordered_batch *adds_to; /* private: of ordered_add_begin() */
	struct ordered_stages *stages; /* private */
};

enum ordered_look {
	ORDERED_PASS, /* take() is not called for it */
	ORDERED_WANT, /* take() is called for it in the order of time; so it is with all numbers above */
};

/* What is told of a record if it has a time, also with ORDERED_PASS. */
struct ordered_seen {
	uint64_t time_ns;
	/*
	 * The last time of, and the bytes of, the record with those behind it that are taken with it, in its place in
	 * the order of time: whole ones, each of which has a time.
	 */
	uint64_t last_ns;
	size_t len;
};

struct ordered_ops {
	const char *name;
	/*
	 * Returns an enum ordered_look, or a larger number, which take() gets; or -errno. `header` is that of the
	 * record at records.ptr; behind the record is what follows it in its batch. `*ret`: zeroed, but for len.
	 */
	int (*look_at)(void *ctx, struct span records, const struct perf_event_header *header,
		       struct ordered_seen *ret);
	/*
	 * Called in the order of time. 0, or -errno: then the output ends with that error, and what is behind the
	 * record is not taken.
	 */
	int (*take)(void *ctx, struct ordered_record *record);
	/*
	 * The batch of the record must be passed on before take() was called for it. true: take() will be called with a
	 * copy, and the record is passed on as it is now (ordered_record_shorten() may remove it). false: take() will
	 * not be called for it; give_up() may have changed it.
	 */
	bool (*give_up)(void *ctx, struct ordered_record *record);
	/*
	 * NULL: nothing is done. Called before take() for records up to horizon_ns: look_at() was called for all of
	 * those, and for all that the kernel wrote before complete_ns (CLOCK_MONOTONIC). 0 or -errno.
	 */
	int (*before_take)(void *ctx, uint64_t complete_ns, uint64_t horizon_ns);
	/*
	 * NULL: nothing is done. Called after take(), before batches are passed on: appends whole records, which are
	 * passed on in front of those that take() has added. It may release the lock for a while, as for reading files.
	 * 0 or -errno.
	 */
	int (*before_pass)(void *ctx, struct buf *front);
	/*
	 * NULL: nothing is done. Called when look_at() was called for all records of all outputs that are open, before
	 * take() for those that wait. Further outputs may follow. 0 or -errno.
	 */
	int (*all_came)(void *ctx);
	/*
	 * NULL: nothing is done. Called after the last record of the output; `last`: it is the last output. May add
	 * records with ordered_add(place, ...).
	 */
	int (*end)(void *ctx, struct ordered_record *place, bool last);
};

/* 0 or -ENOMEM. `ops` and `ctx` are borrowed. */
int ordered_stages_new(const struct ordered_ops *ops, void *ctx, struct ordered_stages **ret);
void ordered_stages_free(struct ordered_stages *stages); /* after its stages. NULL is fine */

/* For struct stage_maker. */
int ordered_stages_make(struct ordered_stages *stages, const struct stage_output *output, struct stage **ret);

/* The lock under which the ops are called, for other users of their state. */
void ordered_stages_lock(struct ordered_stages *stages);
void ordered_stages_unlock(struct ordered_stages *stages);

/* Says that no further output will be opened. From any thread. */
void ordered_stages_last_outputs(struct ordered_stages *stages);

/* For use in take(), give_up() and end(): */

/* The record was shortened from old_bytes to new_bytes, and header.size was set; new_bytes 0: it is removed. */
static inline void ordered_record_shorten(struct ordered_record *record, size_t old_bytes, size_t new_bytes)
{
	struct perf_event_header *gap = (void *)(record->bytes + new_bytes);

	if (!record->batch || old_bytes == new_bytes)
		return;
	gap->type = ORDERED_GAP;
	gap->misc = 0;
	gap->size = (uint16_t)(old_bytes - new_bytes);
	record->gap_bytes += old_bytes - new_bytes;
}

/* Adds whole records, which are passed on behind those of the record's batch. 0 or -ENOMEM. */
int ordered_add(struct ordered_record *record, struct span records);
/* The same without a copy: the caller puts them behind the end of the buf; `from`: where that was. */
struct buf *ordered_add_begin(struct ordered_record *record);
int ordered_add_end(struct ordered_record *record, size_t from);
