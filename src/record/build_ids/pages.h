/* SPDX-License-Identifier: MIT */
/*
 * pages: the distinct (process, page) pairs that samples fell on, and when. A set of bounded room, which the owner
 * empties when it is full. Its own table, not base/hash_table.h: each sample passes here on its way from the ring, and
 * few loads must do. Private to build_ids. One owner, one thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"

enum { SAMPLED_PAGE_SHIFT = 12, RECENT_PAGES = 256 };

struct sampled_page {
	uint64_t page;              /* address >> SAMPLED_PAGE_SHIFT, plus 1; 0: a free slot */
	uint64_t first_ns, last_ns; /* times of the samples; both 0 when they have none */
	int32_t pid;                /* HISTORY_KERNEL_PID: the kernel */
	uint32_t unused;
};

struct page_set {
	struct sampled_page *slots; /* heap; a power of two of them */
	size_t mask;                /* slots - 1 */
	uint32_t
		*used; /* heap; which slots are in use, in the order in which they came: most tables are nearly empty */
	size_t nr, most; /* in use; allowed */
	/*
	 * Slots of the pages that came last, by the lowest bits of their numbers: most come again soon. They may be
	 * free, or of other pairs.
	 */
	uint32_t recent[RECENT_PAGES];
};

int page_set_init(struct page_set *pages);
/* With room for `most`, which then costs no allocation. */
int page_set_init_fixed(struct page_set *pages, size_t most);
void page_set_fini(struct page_set *pages);
void page_set_clear(struct page_set *pages);

static inline uint64_t page_number(uint64_t ip)
{
	return (ip >> SAMPLED_PAGE_SHIFT) + 1;
}

/* A process may choose where it runs: without the secret of hash_mix() it could choose pages of one hash. */
static inline uint64_t page_hash(uint64_t page, int32_t pid)
{
	return hash_mix(page, (uint32_t)pid) * 0x9e3779b97f4a7c15ull >> 32; /* 2^64 / golden ratio */
}

/*
 * The slot of the pair when it is the first one of its hash, as is nearly always so; else NULL. Valid until pages are
 * added.
 */
static inline struct sampled_page *page_set_find(const struct page_set *pages, uint64_t page, int32_t pid)
{
	struct sampled_page *slot = &pages->slots[page_hash(page, pid) & pages->mask];

	return slot->page == page && slot->pid == pid ? slot : NULL;
}

struct page_times {
	uint64_t first_ns, last_ns;
};

static inline void sampled_page_extend(struct sampled_page *page, struct page_times times)
{
	if (times.first_ns < page->first_ns)
		page->first_ns = times.first_ns;
	if (times.last_ns > page->last_ns)
		page->last_ns = times.last_ns;
}

/* -ENOMEM, or -ENOSPC when it holds as many as are allowed (PAGE_SET_MAX): nothing was added then. */
enum { PAGE_SET_MAX = 1 << 21 };
int page_set_add_page(struct page_set *pages, const struct sampled_page *page); /* of another set */
int page_set_add_slow(struct page_set *pages, uint64_t page, int32_t pid, struct page_times times);

static inline int page_set_add_times(struct page_set *pages, uint64_t ip, int32_t pid, struct page_times times)
{
	uint64_t page = page_number(ip);
	uint32_t *recent = &pages->recent[page % RECENT_PAGES];
	struct sampled_page *found = &pages->slots[*recent];

	if (found->page != page || found->pid != pid) {
		found = page_set_find(pages, page, pid);
		if (!found)
			return page_set_add_slow(pages, page, pid, times);
		*recent = (uint32_t)(found - pages->slots);
	}
	sampled_page_extend(found, times);
	return 0;
}

static inline int page_set_add(struct page_set *pages, uint64_t ip, int32_t pid, uint64_t time_ns)
{
	return page_set_add_times(pages, ip, pid, (struct page_times){time_ns, time_ns});
}
