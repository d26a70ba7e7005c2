/* SPDX-License-Identifier: MIT */
/*
 * srcline: the line of the source that an address was compiled from, by the debug information of objects. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct dso;
struct srclines;

/* symfs is borrowed; NULL: "". NULL: out of memory. */
struct srclines *srclines_new(const char *symfs);
void srclines_free(struct srclines *srclines); /* NULL is fine */

struct srcline {
	const char *path; /* with the directory of compilation where that was told; valid until srclines_free() */
	unsigned line;
};

/* `address` as in struct location. false: there is no debug information, or no line for it. */
bool srcline_find(struct srclines *srclines, struct dso *dso, uint64_t address, struct srcline *ret);
