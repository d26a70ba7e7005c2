/* SPDX-License-Identifier: MIT */
/*
 * free_list: which of some numbered things are free. Any thread takes and puts, without a lock. One owner.
 */
#pragma once

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct free_list {
	/*
	 * The number + 1 of the first, 0: there is none; above it a count of changes, so that a thread that was away
	 * for a while does not take what it sees for what it saw.
	 */
	_Atomic uint64_t first;
	_Atomic uint32_t *next; /* heap; by number: the number + 1 of what follows */
};

#define FREE_LIST_CHANGE (1ULL << 32)

/* None is free. nr: below 2^32. 0 or -ENOMEM. */
static inline int free_list_init(struct free_list *list, size_t nr)
{
	atomic_init(&list->first, 0);
	list->next = calloc(nr ? nr : 1, sizeof(*list->next));
	return list->next ? 0 : -ENOMEM;
}

static inline void free_list_fini(struct free_list *list)
{
	free((void *)list->next);
}

/* What it is after the change. */
static inline uint64_t free_list_with(uint64_t first, uint32_t number_plus_1)
{
	return ((first & ~(FREE_LIST_CHANGE - 1)) + FREE_LIST_CHANGE) | number_plus_1;
}

/* What was done with it before is seen by the thread that takes it. */
static inline void free_list_put(struct free_list *list, uint32_t number)
{
	uint64_t first = atomic_load_explicit(&list->first, memory_order_relaxed);

	do
		atomic_store_explicit(&list->next[number], (uint32_t)first, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&list->first, &first, free_list_with(first, number + 1),
						      memory_order_release, memory_order_relaxed));
}

/* The one that was put last; false: none is free. */
static inline bool free_list_take(struct free_list *list, uint32_t *ret)
{
	/* Pairs with the release of the thread that put it, and of all that changed the list since then. */
	uint64_t first = atomic_load_explicit(&list->first, memory_order_acquire);
	uint32_t next;

	do {
		if (!(uint32_t)first)
			return false;
		next = atomic_load_explicit(&list->next[(uint32_t)first - 1], memory_order_relaxed);
	} while (!atomic_compare_exchange_weak_explicit(&list->first, &first, free_list_with(first, next),
							memory_order_acquire, memory_order_acquire));
	*ret = (uint32_t)first - 1;
	return true;
}

static inline bool free_list_is_empty(struct free_list *list)
{
	return !(uint32_t)atomic_load_explicit(&list->first, memory_order_relaxed);
}
