/* SPDX-License-Identifier: MIT */
#include "stream/producers.h"

void producers_init(struct producers *producers, const struct producers_params *params)
{
	producers->params = *params;
	atomic_init(&producers->epoch, 1);
	atomic_init(&producers->unmarked_bytes, 0);
	atomic_init(&producers->nr_missing, params->nr);
	atomic_init(&producers->woken, false);
	atomic_init(&producers->reported_bytes, 0);
}

uint64_t producers_epoch(struct producers *producers)
{
	/* Pairs with the release of producers_marked(): the mark has its place before the pass begins. */
	return atomic_load_explicit(&producers->epoch, memory_order_acquire);
}

bool producers_due(struct producers *producers, uint64_t bytes, bool end)
{
	uint64_t unmarked = atomic_load_explicit(&producers->unmarked_bytes, memory_order_relaxed) + bytes;

	return producers->params.round_bytes && unmarked >= (end ? 1 : producers->params.round_bytes);
}

void producers_count(struct producers *producers, uint64_t bytes)
{
	if (bytes)
		atomic_fetch_add(&producers->unmarked_bytes, bytes);
}

bool producers_report(struct producers *producers)
{
	/* Both ways: the others' bytes have their places before the mark has its own. */
	return atomic_fetch_sub_explicit(&producers->nr_missing, 1, memory_order_acq_rel) == 1;
}

void producers_marked(struct producers *producers, uint64_t bytes_before)
{
	atomic_fetch_sub(&producers->unmarked_bytes, bytes_before);
	atomic_store_explicit(&producers->woken, false, memory_order_relaxed);
	atomic_store_explicit(&producers->nr_missing, producers->params.nr, memory_order_relaxed);
	atomic_fetch_add_explicit(&producers->epoch, 1, memory_order_release);
}

bool producers_wake_due(struct producers *producers)
{
	return producers->params.round_bytes &&
	       atomic_load_explicit(&producers->unmarked_bytes, memory_order_relaxed) >= producers->params.wake_bytes &&
	       !atomic_load_explicit(&producers->woken, memory_order_relaxed) &&
	       !atomic_exchange(&producers->woken, true);
}

uint64_t producers_report_stored(struct producers *producers, uint64_t stored)
{
	uint64_t reported = atomic_load_explicit(&producers->reported_bytes, memory_order_relaxed);

	while (stored > reported)
		if (atomic_compare_exchange_weak(&producers->reported_bytes, &reported, stored))
			return stored - reported;
	return 0;
}
