/* SPDX-License-Identifier: MIT */
/*
 * inlines: which functions the compiler put into which, by the debug information of objects. One thread.
 */
#pragma once

#include <stdint.h>

struct dso;
struct inlines;
struct symbol;

/* symfs is borrowed. NULL: out of memory. */
struct inlines *inlines_new(const char *symfs);
void inlines_free(struct inlines *inlines); /* NULL is fine */

/*
 * The functions at `address` in a dso that was loaded, innermost first; the last one is the one that has the
 * code, and is `symbol` itself when both have one name. Returns how many, at most `max`; 0: there is no debug
 * information. Valid until inlines_free().
 */
unsigned inlines_find(struct inlines *inlines, struct dso *dso, const struct symbol *symbol, uint64_t address,
		      const struct symbol **ret, unsigned max);
