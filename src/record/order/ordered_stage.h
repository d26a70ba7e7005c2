/* SPDX-License-Identifier: MIT */
/*
 * ordered_stage: what stages (stream/stage.h) have in common that take records in the order of time, of all outputs and
 * rings together: the waiting and the order, not what is done with the records.
 *
 * A batch is kept until everything older than its records has come. look_at() sees each record when its batch comes;
 * take() gets those that are wanted in the order of time. It may change, shorten or remove a record in place, and add
 * others behind the batch. When memory runs short batches are passed on earlier: give_up() decides whether a copy of a
 * record is taken later.
 *
 * Owned by a recording; all that the stages do happens under one lock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "stream/stage.h"

struct held_batch;
struct ordered_stages;
struct perf_event_header;

struct ordered_record {
	uint64_t time_ns;
	uint8_t *bytes;                /* 8-aligned; whole; NULL for end() */
	struct held_batch *batch;      /* private: that it is in; NULL: that is passed on */
	struct ordered_stages *stages; /* private */
};

enum ordered_look {
	ORDERED_PASS, /* of no interest */
	ORDERED_WANT, /* is to be taken */
};

struct ordered_ops {
	const char *name;
	/* *ret_time_ns: of any record with one, also when it passes. An enum ordered_look, or -errno. */
	int (*look_at)(void *ctx, const uint8_t *record, const struct perf_event_header *header, uint64_t *ret_time_ns);
	/* In its turn. 0 or -errno, with which the output ends. */
	int (*take)(void *ctx, struct ordered_record *record);
	/*
	 * Its batch has to go before its turn. true: a copy is taken later, and the record itself goes as it is now
	 * (ordered_record_shorten() removes it). false: it was changed and is not taken any more.
	 */
	bool (*give_up)(void *ctx, struct ordered_record *record);
	/* NULL: nothing. The output has had its last record; `last`: and so have all. Adds by ordered_add(). */
	int (*end)(void *ctx, struct ordered_record *place, bool last);
};

/* 0 or -ENOMEM. `ops` and `ctx` are borrowed. */
int ordered_stages_new(const struct ordered_ops *ops, void *ctx, struct ordered_stages **ret);
void ordered_stages_free(struct ordered_stages *stages); /* after its stages. NULL is fine */

/* For struct stage_maker. */
int ordered_stages_make(struct ordered_stages *stages, struct stage **ret);

/* What take() and the others share is theirs while these are held. */
void ordered_stages_lock(struct ordered_stages *stages);
void ordered_stages_unlock(struct ordered_stages *stages);

/* No output comes after those that are open. From any thread. */
void ordered_stages_last_outputs(struct ordered_stages *stages);

/*
 * For take(), give_up(), end().
 */

/* The record's header has its new size, less than the old one, `old_bytes`; 0: it is removed. */
void ordered_record_shorten(struct ordered_record *record, size_t old_bytes, size_t new_bytes);

/* Whole records that are passed on behind those of the batch. 0 or -ENOMEM. */
int ordered_add(struct ordered_record *record, struct span records);
