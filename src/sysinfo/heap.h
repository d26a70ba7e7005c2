/* SPDX-License-Identifier: MIT */
/* heap: that of malloc(3), in huge pages: one page fault for 512, and seldom a walk through page tables. */
#pragma once

/*
 * What malloc(3) returns on the main thread from here on, until a gigabyte is in use; what is freed stays with the
 * process. For commands that fill tables and end. Nothing happens where the C library is not glibc or such a range of
 * addresses is not to be had.
 */
void heap_use_huge_pages(void);
