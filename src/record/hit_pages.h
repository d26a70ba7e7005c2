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
	struct hit_page *last; /* where the last hit went */
};

int hit_pages_init(struct hit_pages *pages);
/* With room for `most`, which then costs no allocation. */
int hit_pages_init_fixed(struct hit_pages *pages, size_t most);
void hit_pages_fini(struct hit_pages *pages);
void hit_pages_clear(struct hit_pages *pages);

/* -ENOMEM, or -ENOSPC when it holds as many as are allowed (HIT_PAGES_MAX): nothing was added then. */
enum { HIT_PAGES_MAX = 1 << 21 };
int hit_pages_add_slow(struct hit_pages *pages, uint64_t page, int32_t pid, uint64_t time_ns);

static inline int hit_pages_add(struct hit_pages *pages, uint64_t ip, int32_t pid, uint64_t time_ns)
{
	uint64_t page = (ip >> HIT_PAGE_SHIFT) + 1;
	struct hit_page *last = pages->last;

	if (last && last->page == page && last->pid == pid && last->last_ns <= time_ns) {
		last->last_ns = time_ns;
		return 0;
	}
	return hit_pages_add_slow(pages, page, pid, time_ns);
}
