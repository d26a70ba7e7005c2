/* SPDX-License-Identifier: MIT */
/*
 * collector: one pass over the finished records of a file: which objects were sampled, and when the first and last
 * sample were. Their build-ids go into the BUILD_ID feature, and by file into MAPPED_FILES, the times into SAMPLE_TIME.
 *
 * An object counts as sampled when the address of a sample, or one of its call chain, is in a map of the object (perf
 * 6.1 does not look at call chains, and so leaves out callers that were never sampled themselves). With user stacks,
 * from which the chain is unwound later, each word of the stack and each register is such an address. The [vdso] counts
 * when it is mapped at all, as in perf.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/span.h"
#include "perfdata/attr.h"
#include "perfdata/ledger.h"
#include "stream/stage.h"

struct buf;
struct extent_list;
struct extent_tally;
struct collector;

struct object_watch;
struct progress;

/*
 * Copies of objects that a reader will not find under their path: the file was removed or replaced, the path is that of
 * another mount namespace, or the file is under the path only in our mount namespace.
 */
struct kept_objects {
	const char *directory; /* object_cache.h; NULL: none are kept */
	uint64_t max_bytes;
	uint64_t bytes;          /* copied so far */
	size_t nr, nr_too_large; /* objects: copied; not copied because of max_bytes */
	uint64_t object_bytes;   /* of `nr`, without jitdumps under their path */
	bool bundle; /* for another machine: jitdumps under their path, too; the kernel's symbols come later */
};

enum { GONE_NAMED_MAX = 3 }; /* the message is one line */

struct reported_objects {
	size_t nr;
	struct buf *names; /* caller's: the paths of the first GONE_NAMED_MAX, as text; NULL: not wanted */
};

struct collected {
	uint64_t first_ns, last_ns; /* 0: no sample had a time */
	uint64_t nr_samples;
	bool all;                   /* every object counts as sampled */
	struct buf *build_ids;      /* caller's: payload of the BUILD_ID feature is appended here */
	struct buf *files;          /* caller's: and that of MAPPED_FILES; NULL: not wanted */
	struct buf *perf_maps;      /* caller's: and that of PERF_MAPS; NULL: not wanted */
	struct object_watch *watch; /* caller's: holds objects open that may be gone; NULL: none */
	int64_t until_ns;           /* CLOCK_REALTIME: when the recording ended; 0: it ends now */
	struct kept_objects kept;
	struct reported_objects gone; /* sampled objects of which no file was found */
	struct progress *progress; /* caller's: bytes read back; its total grows by those of all regions; NULL: none */
	struct loss_times
		*losses; /* caller's: gets the records, to find out when records were lost; NULL: not wanted */
	struct extent_list *extents; /* caller's: of all regions, where the records are; NULL: not wanted */
};

/* The records in a range of a file. */
struct collect_region {
	int fd;
	uint64_t offset, bytes;
	uint32_t part; /* of extents */
	/*
	 * The collectors that have observed some of these records, one for each thread that filled the file. Borrowed;
	 * may be NULL
	 */
	struct collector *const *collectors;
	size_t nr_collectors;
	/*
	 * The extents with the records that collector_observe_staged() saw, among those of other parts; borrowed. NULL:
	 * none
	 */
	const struct extent_list *extents;
};

/*
 * Scans the records of all regions. Files may change during the scan, so everything that is read is checked. 0; -errno;
 * -EBADMSG: some records are truncated or damaged, and *ret is about the others.
 */
int build_ids_collect(const struct collect_region regions[], size_t nr_regions, const struct event_desc *events,
		      size_t nr_events, struct collected *ret);

/*
 * A collector looks at the records on their way into the file, while they are in a CPU cache; reading them back at the
 * end would cost as much as writing them did. It finishes its work on samples, and copies the other records, which are
 * few, for the end. It allocates nothing after the start; records that do not fit into its memory are read back at the
 * end. Used by one thread, owned by the caller. 0, -ENOMEM, or -EOPNOTSUPP: events with user stacks, whose samples
 * would take too long.
 */
int collector_new(const struct event_desc *events, size_t nr_events, struct collector **ret);
void collector_free(struct collector *collector); /* NULL is fine */

/*
 * All take whole records, of which one may be split between two spans. collector_observe(): all records that a file
 * gets from now on, which will be stored at `offset`, behind the last ones. collector_observe_staged(): records that
 * will be stored in extents, whose offsets are not known yet.
 */
void collector_observe(struct collector *collector, uint64_t offset, const struct span spans[], unsigned nr_spans);
void collector_observe_staged(struct collector *collector, const struct span spans[], unsigned nr_spans);
/* Of records in a ring, as the stage's look(): as collector_observe(), or with a tally as collector_observe_staged().
 */
size_t collector_look(struct collector *collector, const struct span spans[], unsigned nr_spans,
		      const struct stage_look *how);

/*
 * The collector as a stage, which calls one of these functions for each batch. It must be behind all stages that
 * change records. Outputs that cannot be read back get none. The owner of the maker sets its fields, and keeps it as
 * long as outputs may be opened.
 */
struct collector_maker {
	struct stage_maker maker; /* .make = collector_make */
	const struct event_desc *events;
	size_t nr_events;
};
int collector_make(struct stage_maker *maker, const struct stage_output *output, struct stage **ret);
struct collector *collector_of(struct stage *stages); /* the first of them; NULL: none is one */
