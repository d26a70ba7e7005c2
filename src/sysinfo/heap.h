/* SPDX-License-Identifier: MIT */
/*
 * heap: makes malloc(3) use huge pages, which need one page fault where there would be 512, and fewer TLB misses; and
 * remembers whether an allocation failed.
 */
#pragma once

#include <stdbool.h>

/*
 * From now on malloc(3) on the main thread takes its memory from huge pages, up to one gigabyte. Freed memory is not
 * returned to the kernel, so this is for commands that fill tables and end. Does nothing when the C library is not
 * glibc, or when no such range of addresses can be mapped.
 */
void heap_use_huge_pages(void);

/*
 * A reader that lacks memory for a symbol or for an inlined function goes on without it, and then what it prints may be
 * less than there is, or be counted for another function. So all outputs end with this question: has an allocation of
 * this process failed, or of the one that it was forked from? Any thread. Always false in the unit tests, which have no
 * sysinfo/allocation.c.
 */
bool heap_has_failed(void);
void heap_note_failure(void);
void heap_forget_failures(void); /* in a forked process, for outputs of its own */
