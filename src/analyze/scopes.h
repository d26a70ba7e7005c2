/* SPDX-License-Identifier: MIT */
/*
 * scopes: what the debug information of an object says of where its functions are, and of what was inlined into them
 * where. Each unit and each function is read once, when the first address in it is asked for. One owner, one thread.
 */
#pragma once

#include <elfutils/libdw.h>

struct scopes;
struct symbol;

/* A function, or one that was inlined there. Lives as long as the scopes, and so does the name. */
struct scope {
	struct scope *outer; /* what it was inlined into; NULL: it is the function itself */
	const char *name;    /* as the linker knows it, or else that of the source; NULL: none */
	/* The caller's: the symbol that it made of the name for addresses in `around`. */
	const struct symbol *around, *symbol;
};

/* NULL: out of memory. */
struct scopes *scopes_new(void);
void scopes_free(struct scopes *scopes); /* NULL is fine */

/*
 * The innermost one at `address`, which is in `unit`; both as the debug information counts. The object stays open as
 * long as the scopes. NULL: no function there.
 */
struct scope *scopes_find(struct scopes *scopes, Dwarf_Die *unit, Dwarf_Addr address);
