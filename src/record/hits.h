/* SPDX-License-Identifier: MIT */
/*
 * hits: one pass over the finished records of a file: which objects were sampled, and when the first and last
 * sample were. Their build-ids go into the BUILD_ID feature, the times into SAMPLE_TIME.
 *
 * An object counts as hit when the address of a sample lay in a map of it, or an address of its call chain
 * (perf 6.1 looks at the sample alone, and so leaves out callers that were never sampled themselves). With
 * user stacks, from which the chain is unwound later, each word of the stack is such an address. The [vdso]
 * counts when it is mapped at all, as in perf.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "format/event_desc.h"
#include "format/loss_times.h"

struct buf;
struct extent_list;
struct hits_live;

struct hits {
	uint64_t first_ns, last_ns; /* 0: no sample had a time */
	uint64_t nr_samples;
	bool all;              /* every object counts as hit */
	struct buf *build_ids; /* caller's: payload of the BUILD_ID feature is appended here */
	struct loss_times *losses; /* caller's: learns when records went missing; NULL: not wanted */
	struct extent_list *extents; /* caller's: of all regions, where the records are; NULL: not wanted */
};

/* Where records lie in a file. */
struct hits_region {
	int fd;
	uint64_t offset, bytes;
	uint32_t part; /* of extents */
	/* Who saw a part of them when they came: one for each thread that filled the file. Borrowed; NULL among them: nobody did */
	struct hits_live *const *lives;
	size_t nr_lives;
	/* Where the records are that a stage wrote, among those of other parts; borrowed. NULL: no stage wrote them */
	const struct extent_list *extents;
};

/*
 * The records of all regions together. Files may change meanwhile: what is read is checked. 0; -errno; -EBADMSG: records
 * are cut or broken, *ret then tells of those that are whole.
 */
int hits_scan(const struct hits_region regions[], size_t nr_regions, const struct event_desc *events, size_t nr_events,
	      struct hits *ret);

/*
 * The same while records are on their way into a file, when they are in the cache anyway: reading them back costs
 * as much as writing them did. Of samples nothing is left to do then; the few others are kept for the end.
 * Memory is fixed: nothing is allocated after the start, and what does not fit is read back as without it. Fed by one
 * thread. -EOPNOTSUPP: not for these events, whose user stacks
 * take too long. Owned by the caller.
 */
int hits_live_new(const struct event_desc *events, size_t nr_events, struct hits_live **ret);
void hits_live_free(struct hits_live *live); /* NULL is fine */

/*
 * What one visit found: whole records, of which one may be in two parts. Either all that a file gets from here on, as it
 * is written at `offset`, behind the last ones; or what goes into the extents of a stage, whose places nobody knows yet.
 */
void hits_live_see(struct hits_live *live, uint64_t offset, const struct span spans[], unsigned nr_spans);
void hits_live_see_staged(struct hits_live *live, const struct span spans[], unsigned nr_spans);
