/* SPDX-License-Identifier: MIT */
/*
 * collector: one pass over the finished records of a file: which objects were sampled, and when the first and last
 * sample were. Their build-ids go into the BUILD_ID feature, and by file into MAPPED_FILES, the times into SAMPLE_TIME.
 *
 * An object counts as hit when the address of a sample lay in a map of it, or an address of its call chain
 * (perf 6.1 looks at the sample alone, and so leaves out callers that were never sampled themselves). With
 * user stacks, from which the chain is unwound later, each word of the stack and each register is such an address. The
 * [vdso] counts when it is mapped at all, as in perf.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "perfdata/attr.h"
#include "perfdata/ledger.h"
#include "stream/stage.h"

struct buf;
struct extent_list;
struct collector;

struct object_watch;
struct progress;

/* Copies of objects that are not under their path any more, or never were under ours. */
struct kept_objects {
	const char *directory; /* object_cache.h; NULL: none are kept */
	uint64_t max_bytes;
	uint64_t bytes; /* copied, in files: */
	size_t nr, nr_too_large;
	bool all_jitdumps; /* also those to which their path leads: for another machine */
};

enum { GONE_NAMED_MAX = 3 }; /* the message is one line */

struct collected {
	uint64_t first_ns, last_ns; /* 0: no sample had a time */
	uint64_t nr_samples;
	bool all;                   /* every object counts as hit */
	struct buf *build_ids;      /* caller's: payload of the BUILD_ID feature is appended here */
	struct buf *files;          /* caller's: and that of MAPPED_FILES; NULL: not wanted */
	struct buf *perf_maps;      /* caller's: and that of PERF_MAPS; NULL: not wanted */
	struct object_watch *watch; /* caller's: holds objects open that may be gone; NULL: none */
	struct kept_objects kept;
	size_t nr_gone;              /* objects that were hit, and of which no file was found; */
	struct buf *gone;            /* caller's: the paths of the first ones, as text; NULL: not wanted */
	struct progress *progress;   /* caller's: of what is read back, in bytes; NULL: nothing is shown */
	struct loss_times *losses;   /* caller's: learns when records went missing; NULL: not wanted */
	struct extent_list *extents; /* caller's: of all regions, where the records are; NULL: not wanted */
};

/* Where records lie in a file. */
struct collect_region {
	int fd;
	uint64_t offset, bytes;
	uint32_t part; /* of extents */
	/*
	 * The collectors that observed a part of them when they came: one for each thread that filled the file.
	 * Borrowed; may be NULL
	 */
	struct collector *const *lives;
	size_t nr_lives;
	/* Where the records are that a stage wrote, among those of other parts; borrowed. NULL: no stage wrote them */
	const struct extent_list *extents;
};

/*
 * The records of all regions together. Files may change during the scan: what is read is checked. 0; -errno; -EBADMSG:
 * records are cut or broken, *ret then tells of those that are whole.
 */
int build_ids_collect(const struct collect_region regions[], size_t nr_regions, const struct event_desc *events,
		      size_t nr_events, struct collected *ret);

/*
 * The same while records are on their way into a file, when they are in the cache anyway: reading them back costs as
 * much as writing them did. Of samples nothing is left to do then; the few others are kept for the end. Memory is
 * fixed: nothing is allocated after the start, and what does not fit is read back as without it. Fed by one thread.
 * -EOPNOTSUPP: not for these events, whose user stacks take too long. Owned by the caller.
 */
int collector_new(const struct event_desc *events, size_t nr_events, struct collector **ret);
void collector_free(struct collector *live); /* NULL is fine */

/*
 * What one visit found: whole records, of which one may be in two parts. Either all that a file gets from here on, as
 * it is written at `offset`, behind the last ones; or what goes into the extents of a stage, whose offsets are not
 * known yet.
 */
void collector_observe(struct collector *live, uint64_t offset, const struct span spans[], unsigned nr_spans);
void collector_observe_staged(struct collector *live, const struct span spans[], unsigned nr_spans);

/*
 * It as a stage, which calls one of these two for each batch: the last of the stages that change records. Not for
 * outputs that cannot be read back. The maker's fields are set by its owner, who keeps it as long as outputs open.
 */
struct collector_maker {
	struct stage_maker maker; /* .make = collector_make */
	const struct event_desc *events;
	size_t nr_events;
};
int collector_make(struct stage_maker *maker, const struct stage_output *output, struct stage **ret);
struct collector *collector_of(struct stage *stages); /* the first of them; NULL: none is one */
