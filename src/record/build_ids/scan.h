/* SPDX-License-Identifier: MIT */
/*
 * scan: one pass over records: the pages that samples fell on, the history of the maps, and what the index needs of
 * each record. Private to build_ids. One owner, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "perfdata/attr.h"
#include "record/build_ids/pages.h"
#include "tasks/map_history.h"

struct chain_blocks;
struct extent_tally;
struct index_builder;
struct loss_times;
struct perf_event_header;
struct progress;
struct zstd_unpacker;

/* Bytes from the start of a SAMPLE; 0: not there. */
struct sample_layout {
	size_t ip, tid, time;
	size_t tail;          /* READ, then CALLCHAIN */
	size_t trailer_bytes; /* of the other records */
	size_t trailer_time;  /* the time's distance from their end; 0: they have none */
	uint64_t read_format;
	bool has_read; /* in front of the call chain */
	bool has_chain, has_stack;
};

/* Where samples of all events have the same fields, and no stack. */
struct fixed_layout {
	uint32_t ip, tid, time; /* bytes from the start */
	uint32_t bytes;         /* a sample has at least so many; UINT32_MAX: samples differ */
	bool has_chain;         /* by the first of the layouts, which are equal then */
};

struct sample_totals {
	uint64_t nr;
	uint64_t first_ns, last_ns; /* 0: no sample had a time */
};

struct layout_of_id {
	uint64_t id;
	size_t layout;
};

struct scan {
	struct sample_totals totals;
	struct loss_times *losses; /* borrowed: learns when records went missing; NULL: not wanted */
	struct progress *progress; /* borrowed: of scan_file(); NULL: nothing is shown */
	const struct event_desc *events;
	struct sample_layout *layouts; /* heap; by event */
	size_t nr_layouts;
	bool uniform;             /* all layouts are equal: no need to look at ids */
	struct layout_of_id *ids; /* heap; ascending by id */
	size_t nr_ids;
	struct layout_of_id last_id; /* of the last look-up */
	int id_offset, id_distance;
	struct fixed_layout fixed;
	struct page_set pages;
	struct chain_blocks
		*blocks; /* heap; whose pages are not in yet: scan_flush_chains(); NULL: no event has chains */
	struct map_history history;
	struct zstd_unpacker *unpacker; /* NULL: nothing compressed came yet */
	uint64_t *unpacked;             /* heap, UNPACKED_BYTES; records, the last of which may not be whole */
	size_t unpacked_len;
	bool inside;                         /* of a COMPRESSED record */
	uint64_t *aligned;                   /* heap, RECORD_MAX_BYTES; NULL: not yet needed */
	bool broken;                         /* a record was not what it should be */
	bool while_recording;                /* pages are kept until the end, in a table of fixed size */
	struct index_builder *index_builder; /* owned; NULL: not wanted */
	uint64_t place;                      /* in the file, of the next record; not that of one that was compressed */
	uint64_t chunk_end;     /* of COMPRESSED2 records that claimed to be one; <= place: none are here */
	uint64_t outside_bytes; /* of the last record, still to come: what follows an AUXTRACE record */
	uint64_t sample_ns;     /* of the last sample; 0: it has none */
};

/* Neither pages nor the index builder are made. 0 or -errno; scan_fini() in any case. */
int scan_init(struct scan *scan, const struct event_desc *events, size_t nr_events);
void scan_fini(struct scan *scan);

/*
 * All records of a part of a file. 0; -errno; -EBADMSG: the last one is cut, or there is something that is no record.
 */
int scan_file(struct scan *scan, int fd, uint64_t offset, uint64_t bytes);

/* One record of header->size readable bytes, but for the index. 0 or -errno. */
int scan_look_at(struct scan *scan, const uint8_t *record, const struct perf_event_header *header);
int scan_sample(struct scan *scan, const uint8_t *record, size_t size, uint16_t misc); /* a SAMPLE */

/* Adds the pages of call chains that came: before pages are read, and when all is in. 0 or -errno. */
int scan_flush_chains(struct scan *scan);

/* The record for the index. */
void scan_index(struct scan *scan, const uint8_t *record, const struct perf_event_header *header);

/* Marks what lay under the pages, of this scan or of another, in the history of this one. */
void scan_mark_pages(struct scan *scan, const struct page_set *pages);

void sample_totals_add(struct sample_totals *totals, uint64_t nr, uint64_t first_ns, uint64_t last_ns);

struct sample_batch {
	uint64_t nr, bytes, last; /* last: where the last one begins */
	uint64_t first_ns, last_ns;
};

/*
 * The samples of fixed layout that `records` begins with, as far as they begin in its first `room` bytes: their pages
 * are added, in one loop: most of what is recorded, and each one passes here on its way from the ring. It ends before
 * anything else: a record that is not whole, without a time, with a broken call chain, of a guest, or for whose pages
 * there is no room. They are not in the totals. tally: the records are those of an extent, which are counted for its
 * statistics, too; extent_tally_begin() returned 0. NULL: not wanted.
 */
void scan_samples(struct scan *scan, struct span records, uint64_t room, struct extent_tally *tally,
		  struct sample_batch *ret);
