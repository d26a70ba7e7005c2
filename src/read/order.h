/* SPDX-License-Identifier: MIT */
/*
 * order: sorts the records of several rings by time while they are read, with the help of round marks.
 *
 * A mark says that what follows it is not older than what was seen before the mark before it. So at each mark that
 * which is not newer than the newest record before the previous mark becomes ready. Records of the same time keep the
 * order in which they were pushed. What a ring gave is sorted already, so the stretches are merged as they go; nothing
 * is copied. Holds pointers only, never bytes. One owner (order_fini), one thread.
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

/* A stretch of the entries that is sorted as it came: what one ring gave. */
struct order_run {
	size_t first, end; /* those that did not go yet */
};

struct order {
	struct order_entry *entries;
	size_t nr, room;
	struct order_run *runs; /* one behind the other in the entries */
	size_t nr_runs, nr_settled, runs_room; /* settled: those that were there at the last mark, which do not grow */
	size_t *heap;      /* of the runs that have ready entries, the oldest on top; as much room as the runs */
	size_t nr_heap;
	uint64_t limit_ns; /* what is not newer is ready, if it is in a run of the heap */
	uint64_t newest_ns, safe_ns; /* of all; of those before the last mark */
	uint64_t given_ns;           /* newest that went: what is older and comes now is late */
	uint64_t nr_late;
};

void order_fini(struct order *order);

static inline bool order_starts_run(const struct order *order, uint64_t time_ns)
{
	return order->nr_runs == order->nr_settled || time_ns < order->entries[order->nr - 1].time_ns;
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
