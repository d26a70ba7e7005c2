/* SPDX-License-Identifier: MIT */
/*
 * heap: makes malloc(3) use huge pages, which need one page fault where there would be 512, and fewer TLB misses; and
 * gives memory back.
 */
#pragma once

/*
 * From now on malloc(3) on the main thread takes its memory from huge pages, up to one gigabyte. Freed memory is not
 * returned to the kernel, so this is for commands that fill tables and end. Called once, by the main thread. Does
 * nothing when the C library is not glibc, or when the kernel refuses huge pages.
 */
void heap_use_huge_pages(void);

/*
 * Returns freed memory to the kernel, also what is between blocks in use. Takes 0.3 ms for 16 MB among 80, in which
 * threads that allocate wait. Does nothing when the C library is not glibc.
 */
void heap_trim(void);
