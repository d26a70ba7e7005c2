/* SPDX-License-Identifier: MIT */
/*
 * symbols: the symbols of one object, searched by address. One owner (a dso), one thread, except for symbols_peek().
 *
 * Filled in batches (one per symbol table): symbols_add() each, symbols_fixup() at the end of a batch, which
 * gives symbols without a size an end and leaves one symbol per address, as perf 6.1 does it; but none reaches into
 * another section, if those are known.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"

struct buf;

/* A symbol that was found by a lookup. The address of the struct does not change as long as its table lives. */
struct symbol {
	uint64_t start, end; /* addresses inside the object, end exclusive */
	const char *name;    /* demangled; ends with SYMBOL_CUT_MARK if it was of more than SYMBOL_NAME_MAX bytes */
	/* only its name identifies it: JIT code that moves, so that other code may have its addresses later */
	bool by_name;
	bool inlined; /* an inlined function: its name, with the range of the function that contains it */
	bool sized;   /* it was added with a size, which fits: `end` is not where the next one starts */
};

enum symbol_binding { SYMBOL_LOCAL, SYMBOL_GLOBAL, SYMBOL_WEAK };

/* An entry of the table; if it was looked up it has a struct symbol, too. */
struct symbol_entry {
	uint64_t start, end; /* as in struct symbol */
	uint32_t name;       /* see symbols_name() */
	/* values of `clock` when it was added and dropped; dropped 0: it was not (an alias was preferred) */
	uint32_t added, dropped;
	uint32_t found : 28;  /* among symbols.found, from 1; 0: not yet */
	uint32_t sized : 1;   /* as in struct symbol */
	uint32_t binding : 2; /* enum symbol_binding */
	uint32_t mangled : 1; /* the name may still have to be demangled */
};

/* Numbers of found symbols must fit into their field. */
enum {
	SYMBOLS_MAX = (1 << 28) - 2,
	SYMBOLS_DEMANGLE_BYTES = 1 << 26, /* and 8 times the bytes of all names; behind that, names stay as they are */
};

struct symbols {
	struct pool pool;              /* what was found, and its names */
	bool no_demangle;              /* set before the first symbol is added */
	bool one_name, name_conflicts; /* SYMBOLS_ONE_NAME; a lookup found that it hides names */
	/* those before the last symbols_fixup() by start, then in the order in which they were added; then new ones */
	struct symbol_entry *entries;
	size_t nr, room;
	char *names; /* of the entries, each with its NUL */
	size_t names_bytes, names_room;
	struct symbol **found;
	uint32_t nr_found, found_room;
	uint32_t clock;        /* counts additions and drops */
	size_t readable_bytes; /* those of `names` that were demangled */
	uint64_t demangled;    /* bytes of all that were, before and after */
	/*
	 * What symbols_find() searches; NULL: to be built. Span i, up to the start of span i + 1, belongs to entry
	 * number span_entries[i], from 1 on; 0: none.
	 */
	uint64_t *span_starts;
	uint32_t *span_entries;
	size_t nr_spans, last; /* last: the span of the last lookup */
	/*
	 * Where a search begins: element i is the last span that starts at or before index_from + (i << index_shift).
	 * Heap; NULL: there are few spans, and no index.
	 */
	uint32_t *span_index;
	size_t nr_index;
	uint64_t index_from;
	unsigned index_shift;
	/* Borrowed until symbols_fixup(); NULL: not known. In order of `start`. */
	const struct symbol_section *sections;
	size_t nr_sections;
};

/* The addresses of a section: a symbol without a size that starts in it ends in it. */
struct symbol_section {
	uint64_t start, end;
};

enum symbols_fixup_flags {
	SYMBOLS_KEEP_ALIASES = 1, /* change neither ends nor aliases (PLT entries, perf maps) */
	SYMBOLS_ONE_NAME = 2,     /* with that: where symbols overlap that have several names there is none */
};

void symbols_fini(struct symbols *symbols); /* leaves them empty and usable */

/* Behind the name of a PLT entry; perf cuts such names, with their NUL, to so many bytes. */
#define SYMBOL_PLT "@plt"
enum { SYMBOL_PLT_NAME_BYTES = 1024 };

/*
 * Adds a symbol; size 0: unknown. The name is copied, and demangled when it is first needed. 0, or -ENOMEM, also for
 * more than SYMBOLS_MAX symbols or 4 GiB of names.
 */
int symbols_add(struct symbols *symbols, uint64_t start, uint64_t size, enum symbol_binding binding, const char *name,
		size_t name_len);

/*
 * The same for a table with all its names in one block, each with its NUL: symbols_add_names() copies the block; *ret
 * plus the offset of a name in the block is the `name` of symbols_add_named(). 0 or -ENOMEM, as above.
 */
int symbols_add_names(struct symbols *symbols, const char *names, size_t bytes, uint32_t *ret);
/* As symbols_add_names(), and empties `names`: if it can, without a copy. */
int symbols_take_names(struct symbols *symbols, struct buf *names, uint32_t *ret);
int symbols_add_named(struct symbols *symbols, uint64_t start, uint64_t size, enum symbol_binding binding,
		      uint32_t name);

void symbols_fixup(struct symbols *symbols, enum symbols_fixup_flags flags);

/* The name of an entry, demangled if that was done already. Valid until a symbol is added, or symbols_fixup(). */
const char *symbols_name(const struct symbols *symbols, const struct symbol_entry *entry);

/*
 * The symbol at `address`; NULL: none, or out of memory. An entry always gives the same struct symbol, as it was when
 * it was first found. Valid until symbols_fini(). symbols_fixup() must have been called since the last addition.
 */
const struct symbol *symbols_find(struct symbols *symbols, uint64_t address);

/*
 * The same without changing *symbols, by any number of threads. false: the result is not known yet, symbols_find() must
 * be called.
 */
bool symbols_peek(const struct symbols *symbols, uint64_t address, const struct symbol **ret);

/*
 * The first and the last symbol by address; NULL: the table is empty. Valid until a symbol is added, and until
 * symbols_fixup().
 */
const struct symbol_entry *symbols_first(const struct symbols *symbols);
const struct symbol_entry *symbols_last(const struct symbols *symbols);

/* Whether the name looks mangled, so that symbol_demangle() may succeed; fast. Any thread, as the next. */
bool symbol_is_mangled(const char *name);

/*
 * The readable name, of C++ and Rust without parameters, on the heap; NULL: the name is no mangled one, or is of more
 * than 16 KiB, or the readable one would be of more than SYMBOL_NAME_MAX bytes. Bounded in time and
 * memory for any name.
 */
enum { SYMBOL_NAME_MAX = 1 << 16 };
#define SYMBOL_CUT_MARK "...[cut]"
char *symbol_demangle(const char *name);
