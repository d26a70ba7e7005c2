/* SPDX-License-Identifier: MIT */
/* free_list: the free ones among items numbered from 0 on. Any thread may take and put, without a lock. One owner. */
#pragma once

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct free_list {
	/*
	 * Low 32 bits: number + 1 of the first free item; 0: there is none. High 32 bits: a count of changes, so that a
	 * compare-and-swap fails when the list has changed since it was read, even if the first item is the same (the
	 * ABA problem).
	 */
	_Atomic uint64_t first;
	_Atomic uint32_t *next; /* heap; by number: number + 1 of the next free item */
};

#define FREE_LIST_CHANGE (1ULL << 32)

/* At first no item is free. nr: number of items, below 2^32. 0 or -ENOMEM. */
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

/* The new value of `first`: with that item, and one more change. */
static inline uint64_t free_list_with(uint64_t first, uint32_t number_plus_1)
{
	return ((first & ~(FREE_LIST_CHANGE - 1)) + FREE_LIST_CHANGE) | number_plus_1;
}

/* Memory written before this call is visible to the thread that takes the item. */
static inline void free_list_put(struct free_list *list, uint32_t number)
{
	uint64_t first = atomic_load_explicit(&list->first, memory_order_relaxed);

	do
		atomic_store_explicit(&list->next[number], (uint32_t)first, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&list->first, &first, free_list_with(first, number + 1),
						      memory_order_release, memory_order_relaxed));
}

/* Takes the item that was put last; false: none is free. */
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
