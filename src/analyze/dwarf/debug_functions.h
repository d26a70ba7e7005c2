/* SPDX-License-Identifier: MIT */
/*
 * debug_functions: where the functions of an object are, and what was inlined into them where, by its debug
 * information. Each unit and each function is read when the first address in it is looked up. One owner, one thread.
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
	 * Of one that was inlined: as the linker knows it (perhaps mangled), or else as in the source, with namespaces
	 * and classes: "ns::(anonymous namespace)::Class::function". NULL: it has none.
	 */
	const char *name;
	/* The caller's: the symbol that it made of the name for addresses in `around`. */
	const struct symbol *around, *symbol;
};

/* split: where units are that are not in the object itself, borrowed. NULL: out of memory. */
struct debug_functions *debug_functions_new(struct split_files *split);
void debug_functions_free(struct debug_functions *functions); /* NULL is fine */

/*
 * The innermost scope at `address`, which is in `unit`, or in the part of this skeleton in another file; both as the
 * debug information counts. The object stays open as long as the debug_functions. NULL: no function there.
 */
struct scope *debug_functions_find(struct debug_functions *functions, struct dwarf_unit *unit, uint64_t address);

/* Where the outer scope has the call of one that was inlined; the file is a number of line_table.h. false: not known.
 */
bool debug_functions_call_site(const struct scope *inlined, uint64_t *ret_file, unsigned *ret_line);
