/* SPDX-License-Identifier: MIT */
/* What makes the bytes that a test has written or read: it is not what is tested. */
#pragma once

/*
 * Of a function that does nothing but make or compare data, byte by byte: sanitizers take longer for it than for all
 * that is tested. Not of one that plays the part of the kernel, whose stores may race with reads.
 */
#define MAKES_TEST_DATA __attribute__((no_sanitize("address", "thread", "undefined"), noinline))
