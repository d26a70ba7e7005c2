/* SPDX-License-Identifier: MIT */
/*
 * order: brings records into the order of their times, in one of two ways. Holds pointers only, never bytes. One owner
 * (order_fini, merge_fini), one thread.
 *
 * struct order: the records of several rings in one file, with the help of round marks. After FINISHED_ROUND every
 * record up to the newest time of the round before is ready. Records of the same time keep the order in which they were
 * pushed. The records of one ring are already sorted: such runs are merged, not sorted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct perf_event_header;

struct order_entry {
	uint64_t time_ns;
	const struct perf_event_header *record;
	uint64_t offset : 63; /* of the record in its file, for messages */
	uint64_t is_sample : 1;
};

/* Entries one after another that were pushed in the order of their times: those of one ring. */
struct order_run {
	size_t first, end; /* indices of those that were not popped yet; end exclusive */
};

struct order {
	struct order_entry *entries;
	size_t nr, room;
	struct order_run *runs;               /* one behind the other in the entries */
	size_t nr_runs, nr_closed, runs_room; /* closed: those that were there at the last mark; they do not grow */
	size_t *heap; /* of the runs that have ready entries, the oldest on top; as much room as the runs */
	size_t nr_heap;
	uint64_t limit_ns;           /* entries of runs in the heap are ready up to this time */
	uint64_t newest_ns, safe_ns; /* the newest time of all entries; of those before the last mark */
	uint64_t given_ns;           /* the newest time that was popped: an older entry that is pushed now is late */
	uint64_t nr_late;
};

void order_fini(struct order *order);

static inline bool order_starts_run(const struct order *order, uint64_t time_ns)
{
	return order->nr_runs == order->nr_closed || time_ns < order->entries[order->nr - 1].time_ns;
}
int order_make_room(struct order *order, uint64_t time_ns);

/* 0 or -ENOMEM. Here, as it runs for each record. */
static inline int order_push(struct order *order, const struct order_entry *entry)
{
	uint64_t time_ns = entry->time_ns;

	if (order->nr == order->room || order_starts_run(order, time_ns)) {
		int err = order_make_room(order, time_ns);
		if (err)
			return err;
	}
	order->entries[order->nr++] = *entry;
	order->runs[order->nr_runs - 1].end++;
	if (time_ns < order->given_ns)
		order->nr_late++;
	if (time_ns > order->newest_ns)
		order->newest_ns = time_ns;
	return 0;
}

int order_mark(struct order *order);   /* a round is complete */
int order_finish(struct order *order); /* nothing follows: all become ready */

/* The oldest ready entry; false: none is ready. */
bool order_pop(struct order *order, struct order_entry *ret);
/* As many times as there is room for (at least one) or entries are ready; how many. */
size_t order_pop_many(struct order *order, struct order_entry *ret, size_t room);

/*
 * merge: records of several files, each of which is in order of time but for small inversions, as one sequence.
 *
 * A file of a data directory comes from one ring. There a record stands out of order only by what interrupted the
 * kernel between the reading of its time and the reserving of its place (kernel/events/core.c, perf_output_begin):
 * interrupts of the same CPU. So each file holds a window of records back, sorted; none goes before the window is full
 * or the file has ended. In directories of perf 6.1 without an NMI (85 000 and 2 600 records) there was no inversion.
 *
 * Memory: MERGE_WINDOW entries per file, whatever the size of the files. Holds pointers only, never bytes. One owner
 * (merge_fini), one thread.
 */

enum { MERGE_WINDOW = 2048 }; /* records; a power of two */

struct merge {
	struct merge_file {
		struct order_entry *window; /* a circle of MERGE_WINDOW, sorted; NULL: nothing came yet */
		size_t first, nr;
		bool ended;
	} * files;
	size_t nr_files;
	/* Indexes of files: [0..nr_heap) a heap by the time of their oldest entry, [nr_heap..nr_open) to be fed. */
	size_t *heap;
	size_t nr_heap, nr_open;
	uint64_t given_ns; /* the newest time that was popped: an older entry that is put now is late */
	uint64_t nr_late;
};

/* 0 or -ENOMEM. */
int merge_init(struct merge *merge, size_t nr_files);
void merge_fini(struct merge *merge);

/* A file that must be given an entry, or ended, before the next merge_pop(). false: none. */
bool merge_needs_entry(struct merge *merge, size_t *ret_file);
/* Only for the file that merge_needs_entry() named. 0 or -ENOMEM. Entries of the same time keep their order. */
int merge_put(struct merge *merge, size_t file, const struct order_entry *entry);
void merge_end(struct merge *merge, size_t file);

/* The oldest entry, of equal times that of the first file; false: all files are ended and empty, or one needs
 * an entry. */
bool merge_pop(struct merge *merge, struct order_entry *ret, size_t *ret_file);
