/* SPDX-License-Identifier: MIT */
/* event_pair: which event of one recording is compared with which of another. One thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct event_desc;

/* The events of a recording, in their order. Borrowed. */
struct event_list {
	const struct event_desc *events;
	size_t nr;
};

/*
 * The event of `to` that is compared with events[event] of `from`; -1: none. The n-th event of a name is compared with
 * the n-th one of that name; what is left by that, as cpu-clock and cpu-clock:u, with the one that has the same number.
 * Pairs are the same in both directions, and each event is in one pair at most.
 */
int32_t event_pair_find(const struct event_list *from, size_t event, const struct event_list *to);
