/* SPDX-License-Identifier: MIT */
#include "sysinfo/heap.h"

#include <limits.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sysinfo/memory.h"

enum {
	HUGE_PAGE = 2 << 20,
	HEAP_BYTES = 1 << 30,    /* of addresses: a page takes memory when it is used */
	MAPPED_BYTES = 32 << 20, /* from here on malloc(3) maps memory of its own: the most that mallopt(3) takes */
	PAD_BYTES = 128 << 10,   /* glibc's default */
};

/*
 * What glibc.malloc.hugetlb=1 does, which only the environment can set: the heap grows once for all that follows, so
 * that one madvise(2) is enough. glibc gives each thread a heap of its own, of pages of 4 KiB: there are none of those.
 */
void heap_use_huge_pages(void)
{
#ifdef __GLIBC__
	char *begin = sbrk(0);

	if (memory_counts_addresses(""))
		return;
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
	mallopt(M_TOP_PAD, HEAP_BYTES);
	void *volatile first = malloc(MAPPED_BYTES / 2); /* more than is free: the heap grows */
	free(first);
	mallopt(M_TOP_PAD, PAD_BYTES);
	char *end = sbrk(0);
	uintptr_t from = ((uintptr_t)begin + HUGE_PAGE - 1) & -(uintptr_t)HUGE_PAGE;
	uintptr_t to = (uintptr_t)end & -(uintptr_t)HUGE_PAGE;
	if (begin != (char *)-1 && end != (char *)-1 && from < to)
		(void)!madvise((void *)from, to - from, MADV_HUGEPAGE);
#endif
}

void heap_trim(void)
{
#ifdef __GLIBC__
	(void)!malloc_trim(0);
#endif
}
