/* SPDX-License-Identifier: MIT */
#include "stream/lanes.h"

void lanes_init(struct lanes *lanes, const struct lanes_params *params)
{
	lanes->params = *params;
	atomic_init(&lanes->epoch, 1);
	atomic_init(&lanes->unmarked_bytes, 0);
	atomic_init(&lanes->nr_missing, params->nr);
	atomic_init(&lanes->hurried, false);
	atomic_init(&lanes->told_bytes, 0);
}

uint64_t lanes_epoch(struct lanes *lanes)
{
	/* Pairs with the release of lanes_marked(): the mark has its place before the pass begins. */
	return atomic_load_explicit(&lanes->epoch, memory_order_acquire);
}

bool lanes_due(struct lanes *lanes, uint64_t bytes, bool end)
{
	uint64_t unmarked = atomic_load_explicit(&lanes->unmarked_bytes, memory_order_relaxed) + bytes;

	return lanes->params.round_bytes && unmarked >= (end ? 1 : lanes->params.round_bytes);
}

void lanes_count(struct lanes *lanes, uint64_t bytes)
{
	if (bytes)
		atomic_fetch_add(&lanes->unmarked_bytes, bytes);
}

bool lanes_report(struct lanes *lanes)
{
	/* Both ways: the others' bytes have their places before the mark has its own. */
	return atomic_fetch_sub_explicit(&lanes->nr_missing, 1, memory_order_acq_rel) == 1;
}

void lanes_marked(struct lanes *lanes, uint64_t bytes_before)
{
	atomic_fetch_sub(&lanes->unmarked_bytes, bytes_before);
	atomic_store_explicit(&lanes->hurried, false, memory_order_relaxed);
	atomic_store_explicit(&lanes->nr_missing, lanes->params.nr, memory_order_relaxed);
	atomic_fetch_add_explicit(&lanes->epoch, 1, memory_order_release);
}

bool lanes_hurry(struct lanes *lanes)
{
	return lanes->params.round_bytes &&
	       atomic_load_explicit(&lanes->unmarked_bytes, memory_order_relaxed) >= lanes->params.hurry_bytes &&
	       !atomic_load_explicit(&lanes->hurried, memory_order_relaxed) && !atomic_exchange(&lanes->hurried, true);
}

uint64_t lanes_tell(struct lanes *lanes, uint64_t stored)
{
	uint64_t told = atomic_load_explicit(&lanes->told_bytes, memory_order_relaxed);

	while (stored > told)
		if (atomic_compare_exchange_weak(&lanes->told_bytes, &told, stored))
			return stored - told;
	return 0;
}
