/* SPDX-License-Identifier: MIT */
#include "read/merge.h"

#include <errno.h>
#include <stdlib.h>

int merge_init(struct merge *merge, size_t nr_lanes)
{
	*merge = (struct merge){
		.lanes = calloc(nr_lanes, sizeof(*merge->lanes)),
		.heap = calloc(nr_lanes, sizeof(*merge->heap)),
		.nr_lanes = nr_lanes,
		.nr_open = nr_lanes,
	};
	if (!merge->lanes || !merge->heap) {
		merge_fini(merge);
		return -ENOMEM;
	}
	for (size_t i = 0; i < nr_lanes; i++)
		merge->heap[i] = i;
	return 0;
}

void merge_fini(struct merge *merge)
{
	for (size_t i = 0; merge->lanes && i < merge->nr_lanes; i++)
		free(merge->lanes[i].window);
	free(merge->lanes);
	free(merge->heap);
	*merge = (struct merge){0};
}

static struct order_entry *entry_at(const struct merge_lane *lane, size_t index)
{
	return &lane->window[(lane->first + index) % MERGE_WINDOW];
}

static bool is_before(const struct merge *merge, size_t left, size_t right)
{
	uint64_t left_ns = entry_at(&merge->lanes[left], 0)->time_ns;
	uint64_t right_ns = entry_at(&merge->lanes[right], 0)->time_ns;

	return left_ns < right_ns || (left_ns == right_ns && left < right);
}

static void swap(struct merge *merge, size_t a, size_t b)
{
	size_t lane = merge->heap[a];

	merge->heap[a] = merge->heap[b];
	merge->heap[b] = lane;
}

static void rise(struct merge *merge, size_t at)
{
	while (at && is_before(merge, merge->heap[at], merge->heap[(at - 1) / 2])) {
		swap(merge, at, (at - 1) / 2);
		at = (at - 1) / 2;
	}
}

static void sink(struct merge *merge, size_t at)
{
	for (;;) {
		size_t child = 2 * at + 1;
		if (child >= merge->nr_heap)
			return;
		if (child + 1 < merge->nr_heap && is_before(merge, merge->heap[child + 1], merge->heap[child]))
			child++;
		if (!is_before(merge, merge->heap[child], merge->heap[at]))
			return;
		swap(merge, at, child);
		at = child;
	}
}

bool merge_hungry(struct merge *merge, size_t *ret_lane)
{
	while (merge->nr_heap < merge->nr_open) {
		size_t index = merge->heap[merge->nr_heap];
		const struct merge_lane *lane = &merge->lanes[index];

		if (!lane->ended && lane->nr < MERGE_WINDOW) {
			*ret_lane = index;
			return true;
		}
		if (lane->nr)
			rise(merge, merge->nr_heap++);
		else
			swap(merge, merge->nr_heap, --merge->nr_open);
	}
	return false;
}

int merge_put(struct merge *merge, size_t index, const struct order_entry *entry)
{
	struct merge_lane *lane = &merge->lanes[index];

	if (!lane->window)
		lane->window = malloc(MERGE_WINDOW * sizeof(*lane->window));
	if (!lane->window)
		return -ENOMEM;
	size_t at = lane->nr++;
	for (; at && entry_at(lane, at - 1)->time_ns > entry->time_ns; at--)
		*entry_at(lane, at) = *entry_at(lane, at - 1);
	*entry_at(lane, at) = *entry;
	if (entry->time_ns < merge->given_ns)
		merge->nr_late++;
	return 0;
}

void merge_end(struct merge *merge, size_t lane)
{
	merge->lanes[lane].ended = true;
}

bool merge_pop(struct merge *merge, struct order_entry *ret, size_t *ret_lane)
{
	if (!merge->nr_heap || merge->nr_heap < merge->nr_open)
		return false;
	size_t index = merge->heap[0];
	struct merge_lane *lane = &merge->lanes[index];

	*ret = *entry_at(lane, 0);
	*ret_lane = index;
	lane->first = (lane->first + 1) % MERGE_WINDOW;
	lane->nr--;
	swap(merge, 0, --merge->nr_heap); /* to the lanes that are to be fed */
	sink(merge, 0);
	if (ret->time_ns > merge->given_ns)
		merge->given_ns = ret->time_ns;
	return true;
}
