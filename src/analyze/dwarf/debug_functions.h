/* SPDX-License-Identifier: MIT */
/*
 * debug_functions: finds the functions of an object, and functions that were inlined into them, by address. Each unit
 * and each function is read when an address in it is first looked up. One owner, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct debug_functions;
struct dwarf_unit;
struct split_files;
struct symbol;

/* A function, or one that was inlined. Lives as long as the debug_functions, and so does the name. */
struct scope {
	struct scope *outer; /* what it was inlined into; NULL: it is the function itself */
	/*
	 * Of an inlined function: its linkage name (perhaps mangled), or else its name in the source with namespaces
	 * and classes: "ns::(anonymous namespace)::Class::function". NULL: it has none.
	 */
	const char *name;
	/* For the caller: the symbol that it made of the name, and the symbol that contains the inlined code. */
	const struct symbol *around, *symbol;
};

/* split: finds split units in other files; borrowed. NULL: out of memory. */
struct debug_functions *debug_functions_new(struct split_files *split);
void debug_functions_free(struct debug_functions *functions); /* NULL is fine */

/*
 * The innermost scope at `address`, which must be in `unit` (or in the split unit of that skeleton), counted as in the
 * debug information. The object must stay open as long as the debug_functions. NULL: no function there.
 */
struct scope *debug_functions_find(struct debug_functions *functions, struct dwarf_unit *unit, uint64_t address);

/*
 * Behind a search that found none: whether the functions of `unit` are in a split unit that was not found. Compilers
 * may put those with inlined functions into the skeleton, too (clang -fsplit-dwarf-inlining): then false.
 */
bool debug_functions_are_elsewhere(struct debug_functions *functions, struct dwarf_unit *unit);

/* Where the outer scope calls the inlined function; the file is a number for line_table_path(). false: not known. */
bool debug_functions_call_site(const struct scope *inlined, uint64_t *ret_file, unsigned *ret_line);
