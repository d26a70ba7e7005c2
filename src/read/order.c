/* SPDX-License-Identifier: MIT */
#include "read/order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 4096 };

void order_fini(struct order *order)
{
	free(order->entries);
	free(order->runs);
	free(order->heap);
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
		order->room = room;
	return err;
}

static int start_run(struct order *order)
{
	if (order->nr_runs == order->runs_room) {
		size_t room = order->runs_room ? order->runs_room * 2 : 256;
		int err = resize(&order->runs, room, sizeof(*order->runs));
		if (!err)
			err = resize(&order->heap, room, sizeof(*order->heap));
		if (err)
			return err;
		order->runs_room = room;
	}
	order->runs[order->nr_runs++] = (struct order_run){order->nr, order->nr};
	return 0;
}

int order_make_room(struct order *order, uint64_t time_ns)
{
	int err = 0;

	if (order->nr == order->room)
		err = grow(order);
	if (!err && order_starts_run(order, time_ns))
		err = start_run(order);
	return err;
}

/* What waits moves to the front, run by run. */
static void compact(struct order *order)
{
	size_t kept = 0, nr = 0;

	for (size_t i = 0; i < order->nr_runs; i++) {
		struct order_run run = order->runs[i];
		size_t left = run.end - run.first;
		if (!left)
			continue;
		memmove(order->entries + nr, order->entries + run.first, left * sizeof(*order->entries));
		order->runs[kept++] = (struct order_run){nr, nr + left};
		nr += left;
	}
	order->nr_runs = kept;
	order->nr = nr;
}

/* Whether the first entry of a run goes before that of another: of equal times the one that was pushed first. */
static bool goes_first(const struct order *order, size_t a, size_t b)
{
	uint64_t a_ns = order->entries[order->runs[a].first].time_ns,
		 b_ns = order->entries[order->runs[b].first].time_ns;

	return a_ns != b_ns ? a_ns < b_ns : a < b;
}

static void sift_down(struct order *order, size_t at)
{
	size_t run = order->heap[at];

	for (size_t child; (child = 2 * at + 1) < order->nr_heap; at = child) {
		if (child + 1 < order->nr_heap && goes_first(order, order->heap[child + 1], order->heap[child]))
			child++;
		if (goes_first(order, run, order->heap[child]))
			break;
		order->heap[at] = order->heap[child];
	}
	order->heap[at] = run;
}

static bool has_ready(const struct order *order, size_t run)
{
	const struct order_run *its = &order->runs[run];

	return its->first < its->end && order->entries[its->first].time_ns <= order->limit_ns;
}

static void merge_runs(struct order *order, uint64_t limit_ns)
{
	compact(order);
	order->limit_ns = limit_ns;
	order->nr_heap = 0;
	for (size_t i = 0; i < order->nr_runs; i++)
		if (has_ready(order, i))
			order->heap[order->nr_heap++] = i;
	for (size_t at = order->nr_heap / 2; at-- > 0;)
		sift_down(order, at);
	order->nr_closed = order->nr_runs;
}

int order_mark(struct order *order)
{
	if (!order->nr)
		return 0;
	if (order->safe_ns)
		merge_runs(order, order->safe_ns);
	order->safe_ns = order->newest_ns;
	return 0;
}

int order_finish(struct order *order)
{
	merge_runs(order, UINT64_MAX);
	return 0;
}

/* That was the last one: what was read is evaluated next, and may need the memory. */
static void order_empty(struct order *order)
{
	free(order->entries);
	order->entries = NULL;
	order->nr = order->room = 0;
	order->nr_runs = order->nr_closed = 0;
}

/* Up to which time the entries of the run on top go before those of all others. */
static uint64_t top_limit(const struct order *order)
{
	size_t top = order->heap[0], second;

	if (order->nr_heap == 1)
		return order->limit_ns;
	second = order->heap[1];
	if (order->nr_heap > 2 && goes_first(order, order->heap[2], second))
		second = order->heap[2];
	uint64_t second_ns =
		order->entries[order->runs[second].first].time_ns; /* ready, so not newer than the limit; not 0 */
	return top < second ? second_ns : second_ns - 1;
}

size_t order_pop_many(struct order *order, struct order_entry *ret, size_t room)
{
	size_t nr = 0;

	while (nr < room && order->nr_heap) {
		struct order_run *run = &order->runs[order->heap[0]];
		uint64_t limit_ns = top_limit(order);
		do
			ret[nr++] = order->entries[run->first++];
		while (nr < room && run->first < run->end && order->entries[run->first].time_ns <= limit_ns);
		order->given_ns = ret[nr - 1].time_ns;
		if (!has_ready(order, order->heap[0]))
			order->heap[0] = order->heap[--order->nr_heap];
		if (order->nr_heap)
			sift_down(order, 0);
		else if (order->limit_ns == UINT64_MAX)
			order_empty(order);
	}
	return nr;
}

bool order_pop(struct order *order, struct order_entry *ret)
{
	return order_pop_many(order, ret, 1);
}

int merge_init(struct merge *merge, size_t nr_files)
{
	*merge = (struct merge){
		.files = calloc(nr_files, sizeof(*merge->files)),
		.heap = calloc(nr_files, sizeof(*merge->heap)),
		.nr_files = nr_files,
		.nr_open = nr_files,
	};
	if (!merge->files || !merge->heap) {
		merge_fini(merge);
		return -ENOMEM;
	}
	for (size_t i = 0; i < nr_files; i++)
		merge->heap[i] = i;
	return 0;
}

void merge_fini(struct merge *merge)
{
	for (size_t i = 0; merge->files && i < merge->nr_files; i++)
		free(merge->files[i].window);
	free(merge->files);
	free(merge->heap);
	*merge = (struct merge){0};
}

static struct order_entry *entry_at(const struct merge_file *file, size_t index)
{
	return &file->window[(file->first + index) % MERGE_WINDOW];
}

static bool is_before(const struct merge *merge, size_t left, size_t right)
{
	uint64_t left_ns = entry_at(&merge->files[left], 0)->time_ns;
	uint64_t right_ns = entry_at(&merge->files[right], 0)->time_ns;

	return left_ns < right_ns || (left_ns == right_ns && left < right);
}

static void swap(struct merge *merge, size_t a, size_t b)
{
	size_t file = merge->heap[a];

	merge->heap[a] = merge->heap[b];
	merge->heap[b] = file;
}

static void move_up(struct merge *merge, size_t at)
{
	while (at && is_before(merge, merge->heap[at], merge->heap[(at - 1) / 2])) {
		swap(merge, at, (at - 1) / 2);
		at = (at - 1) / 2;
	}
}

static void move_down(struct merge *merge, size_t at)
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

bool merge_needs_entry(struct merge *merge, size_t *ret_file)
{
	while (merge->nr_heap < merge->nr_open) {
		size_t index = merge->heap[merge->nr_heap];
		const struct merge_file *file = &merge->files[index];

		if (!file->ended && file->nr < MERGE_WINDOW) {
			*ret_file = index;
			return true;
		}
		if (file->nr)
			move_up(merge, merge->nr_heap++);
		else
			swap(merge, merge->nr_heap, --merge->nr_open);
	}
	return false;
}

int merge_put(struct merge *merge, size_t index, const struct order_entry *entry)
{
	struct merge_file *file = &merge->files[index];

	if (!file->window)
		file->window = malloc(MERGE_WINDOW * sizeof(*file->window));
	if (!file->window)
		return -ENOMEM;
	size_t at = file->nr++;
	for (; at && entry_at(file, at - 1)->time_ns > entry->time_ns; at--)
		*entry_at(file, at) = *entry_at(file, at - 1);
	*entry_at(file, at) = *entry;
	if (entry->time_ns < merge->given_ns)
		merge->nr_late++;
	return 0;
}

void merge_end(struct merge *merge, size_t file)
{
	merge->files[file].ended = true;
}

bool merge_pop(struct merge *merge, struct order_entry *ret, size_t *ret_file)
{
	if (!merge->nr_heap || merge->nr_heap < merge->nr_open)
		return false;
	size_t index = merge->heap[0];
	struct merge_file *file = &merge->files[index];

	*ret = *entry_at(file, 0);
	*ret_file = index;
	file->first = (file->first + 1) % MERGE_WINDOW;
	file->nr--;
	swap(merge, 0, --merge->nr_heap); /* to the files that are to be fed */
	move_down(merge, 0);
	if (ret->time_ns > merge->given_ns)
		merge->given_ns = ret->time_ns;
	return true;
}
