/* SPDX-License-Identifier: MIT */
#include "read/order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 4096 };

void order_fini(struct order *order)
{
	free(order->entries);
	free(order->scratch);
	free(order->runs);
	*order = (struct order){0};
}

/* The array at *slot with room for `room` items of `bytes`; untouched when memory runs out. */
static int resize(void *slot, size_t room, size_t bytes)
{
	void *old, *data;

	memcpy(&old, slot, sizeof(old));
	data = reallocarray(old, room, bytes);
	if (!data)
		return -ENOMEM;
	memcpy(slot, &data, sizeof(data));
	return 0;
}

static int grow(struct order *order)
{
	size_t room = order->room ? order->room * 2 : FIRST_ROOM;
	int err = resize(&order->entries, room, sizeof(*order->entries));

	if (!err)
		err = resize(&order->scratch, room, sizeof(*order->scratch));
	if (!err)
		order->room = room;
	return err;
}

static int start_run(struct order *order)
{
	if (order->nr_runs == order->runs_room) {
		size_t room = order->runs_room ? order->runs_room * 2 : 256;
		int err = resize(&order->runs, room, sizeof(*order->runs));
		if (err)
			return err;
		order->runs_room = room;
	}
	order->runs[order->nr_runs++] = order->nr;
	return 0;
}

int order_push(struct order *order, const struct order_entry *entry)
{
	int err = 0;

	if (order->nr == order->room)
		err = grow(order);
	if (!err && (!order->nr_runs || entry->time_ns < order->entries[order->nr - 1].time_ns))
		err = start_run(order);
	if (err)
		return err;
	order->entries[order->nr++] = *entry;
	if (entry->time_ns < order->given_ns)
		order->nr_late++;
	if (entry->time_ns > order->newest_ns)
		order->newest_ns = entry->time_ns;
	return 0;
}

/* Entries that went leave room at the front. */
static void compact(struct order *order)
{
	size_t gone = order->first, kept = 0;

	if (!gone)
		return;
	memmove(order->entries, order->entries + gone, (order->nr - gone) * sizeof(*order->entries));
	for (size_t i = 0; i < order->nr_runs; i++) {
		bool empty = (i + 1 < order->nr_runs ? order->runs[i + 1] : order->nr) <= gone;
		if (!empty)
			order->runs[kept++] = order->runs[i] > gone ? order->runs[i] - gone : 0;
	}
	order->nr_runs = kept;
	order->nr -= gone;
	order->ready -= gone;
	order->first = 0;
}

/* Merges two neighbouring stretches of `from` into `to`; of equal times the left one goes first. */
static void merge(const struct order_entry *from, struct order_entry *to, size_t left, size_t right, size_t end)
{
	size_t a = left, b = right;

	for (size_t at = left; at < end; at++) {
		if (a < right && (b >= end || from[a].time_ns <= from[b].time_ns))
			to[at] = from[a++];
		else
			to[at] = from[b++];
	}
}

static void sort(struct order *order)
{
	while (order->nr_runs > 1) {
		size_t kept = 0;

		for (size_t i = 0; i < order->nr_runs; i += 2) {
			size_t left = order->runs[i];
			size_t right = i + 1 < order->nr_runs ? order->runs[i + 1] : order->nr;
			size_t end = i + 2 < order->nr_runs ? order->runs[i + 2] : order->nr;
			merge(order->entries, order->scratch, left, right, end);
			order->runs[kept++] = left;
		}
		order->nr_runs = kept;
		struct order_entry *sorted = order->scratch;
		order->scratch = order->entries;
		order->entries = sorted;
	}
}

static void settle(struct order *order, uint64_t limit_ns)
{
	size_t low, high;

	compact(order);
	sort(order);
	low = 0;
	high = order->nr;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (order->entries[middle].time_ns <= limit_ns)
			low = middle + 1;
		else
			high = middle;
	}
	order->ready = low;
}

int order_mark(struct order *order)
{
	if (order->first == order->nr)
		return 0;
	if (order->safe_ns)
		settle(order, order->safe_ns);
	order->safe_ns = order->newest_ns;
	return 0;
}

int order_finish(struct order *order)
{
	settle(order, UINT64_MAX);
	return 0;
}

bool order_pop(struct order *order, struct order_entry *ret)
{
	if (order->first == order->ready)
		return false;
	*ret = order->entries[order->first++];
	order->given_ns = ret->time_ns;
	if (order->first == order->nr) {
		order->first = order->ready = order->nr = 0;
		order->nr_runs = 0;
	}
	return true;
}
