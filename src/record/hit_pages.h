/* SPDX-License-Identifier: MIT */
/*
 * hit_pages: the distinct (process, page) pairs that samples fell on, and when. Private to hits.
 * A set of fixed room: the owner empties it when it is full. One owner, one thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { HIT_KERNEL_PID = -1, HIT_PAGE_SHIFT = 12 };

struct hit_page {
	uint64_t page;              /* address >> HIT_PAGE_SHIFT, plus 1; 0: a free slot */
	uint64_t first_ns, last_ns; /* times of the samples; both 0 when they have none */
	int32_t pid;
	uint32_t unused;
};

struct hit_pages {
	struct hit_page *slots; /* heap; a power of two of them */
	size_t mask;            /* slots - 1 */
	size_t nr, most;        /* in use; allowed */
};

int hit_pages_init(struct hit_pages *pages);
/* With room for `most`, which then costs no allocation. */
int hit_pages_init_fixed(struct hit_pages *pages, size_t most);
void hit_pages_fini(struct hit_pages *pages);
void hit_pages_clear(struct hit_pages *pages);

static inline uint64_t hit_page_of(uint64_t ip)
{
	return (ip >> HIT_PAGE_SHIFT) + 1;
}

static inline uint64_t hit_page_hash(uint64_t page, int32_t pid)
{
	return ((page ^ (uint64_t)(uint32_t)pid << 40) * 0x9e3779b97f4a7c15ull) >> 32; /* 2^64 / golden ratio */
}

/* The place of the pair where nothing else took it first, as is nearly always so; else NULL. Until pages are added. */
static inline struct hit_page *hit_pages_find(const struct hit_pages *pages, uint64_t page, int32_t pid)
{
	struct hit_page *slot = &pages->slots[hit_page_hash(page, pid) & pages->mask];

	return slot->page == page && slot->pid == pid ? slot : NULL;
}

static inline void hit_page_reach(struct hit_page *page, uint64_t time_ns)
{
	if (time_ns < page->first_ns)
		page->first_ns = time_ns;
	if (time_ns > page->last_ns)
		page->last_ns = time_ns;
}

/* -ENOMEM, or -ENOSPC when it holds as many as are allowed (HIT_PAGES_MAX): nothing was added then. */
enum { HIT_PAGES_MAX = 1 << 21 };
int hit_pages_add_slow(struct hit_pages *pages, uint64_t page, int32_t pid, uint64_t time_ns);

static inline int hit_pages_add(struct hit_pages *pages, uint64_t ip, int32_t pid, uint64_t time_ns)
{
	uint64_t page = hit_page_of(ip);
	struct hit_page *found = hit_pages_find(pages, page, pid);

	if (!found)
		return hit_pages_add_slow(pages, page, pid, time_ns);
	hit_page_reach(found, time_ns);
	return 0;
}
