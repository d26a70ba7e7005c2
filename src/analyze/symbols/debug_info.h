/* SPDX-License-Identifier: MIT */
/*
 * debug_info: what the debug information of objects (DWARF) says of an address: the line of the source, and the
 * functions that were inlined there. Each object is opened and indexed once; those used longest ago are closed again.
 * Any thread, one at a time inside (a lock).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct debug_info;
struct dso;
struct symbol;
struct symbol_options;

/* The texts of the options are borrowed. NULL: out of memory. */
struct debug_info *debug_info_new(const struct symbol_options *options);
void debug_info_free(struct debug_info *info); /* NULL is fine */

struct source_line {
	const char *path; /* with the directory of compilation where it is known; valid until debug_info_free() */
	unsigned line;
};

/*
 * The dso was loaded; `address` as in struct location. frame 0: the line of the address; n: the line at which function
 * n of struct inlined has the call of function n - 1. false: no debug information, or no line for it.
 */
bool debug_info_line(struct debug_info *info, struct dso *dso, uint64_t address, unsigned frame,
		     struct source_line *ret);

/* Functions at an address, innermost first: those that were inlined there, and last the symbol that has the code. */
struct inlined {
	const struct symbol *symbol;
	uint64_t address;
	unsigned nr; /* at most INLINED_MOST; 0: nothing was inlined, or there is no debug information */
	const struct symbol *functions[];
};

enum { INLINED_MOST = 32 };

/* `address` of a dso that was loaded is in `symbol`. Valid until debug_info_free(). NULL: out of memory. */
const struct inlined *debug_info_inlined(struct debug_info *info, struct dso *dso, const struct symbol *symbol,
					 uint64_t address);
