/* SPDX-License-Identifier: MIT */
/*
 * symbols: the symbols of one object, found by address. One owner (a dso), one thread, but for symbols_peek().
 *
 * Filled in batches (one per symbol table): symbols_add() each, symbols_fixup() at the end of a batch, which
 * gives symbols without a size an end and leaves one symbol per address, as perf 6.1 does it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"

/* One that was looked up. Its address does not change while the table of its object lives. */
struct symbol {
	uint64_t start, end; /* addresses inside the object, end exclusive */
	const char *name;    /* demangled */
	bool by_name;        /* told from others by its name alone: its code moves, and other code comes to its place */
	bool inlined;        /* a function that the compiler inlined into this one: its name, the range of the whole */
};

enum symbol_binding { SYMBOL_LOCAL, SYMBOL_GLOBAL, SYMBOL_WEAK };

/* A symbol of a table; one that was looked up has a struct symbol, too. */
struct symbol_entry {
	uint64_t start, end;     /* as in struct symbol */
	uint32_t name;           /* see symbols_name() */
	uint32_t added, dropped; /* when, on the clock below; dropped 0: not (else another alias was chosen) */
	uint32_t found : 29;     /* among symbols.found, from 1; 0: not yet */
	uint32_t binding : 2;    /* enum symbol_binding */
	uint32_t mangled : 1;    /* the name may still have to be demangled */
};

/* Numbers of found symbols must fit into their field. */
enum { SYMBOLS_MAX = (1 << 29) - 2 };

struct symbols {
	struct pool pool;             /* what was found, and its names */
	bool no_demangle;             /* set before the first symbol is added */
	struct symbol_entry *entries; /* settled ones by start, then as added; then new ones */
	size_t nr, room;
	char *names; /* of the entries, each with its NUL */
	size_t names_bytes, names_room;
	struct symbol **found;
	uint32_t nr_found, found_room;
	uint32_t clock; /* counts additions and drops */
	/*
	 * What symbols_find() searches; NULL: to be built. From its start to that of the next span of addresses: which
	 * entry, from 1 on; 0: none.
	 */
	uint64_t *span_starts;
	uint32_t *span_entries;
	size_t nr_spans, last; /* last: span hit last time */
	/*
	 * Where to begin: element i is the last span that starts at index_from + (i << index_shift) or before. Heap;
	 * NULL: there is none, as of few spans.
	 */
	uint32_t *span_index;
	size_t nr_index;
	uint64_t index_from;
	unsigned index_shift;
};

enum symbols_fixup_flags {
	SYMBOLS_KEEP_ALIASES = 1, /* neither ends nor aliases are touched (PLT entries, perf maps) */
};

void symbols_fini(struct symbols *symbols); /* leaves them empty and usable */

/* Behind the name of a PLT entry; perf cuts such names, with their NUL, to so many bytes. */
#define SYMBOL_PLT "@plt"
enum { SYMBOL_PLT_NAME_BYTES = 1024 };

/*
 * size 0: unknown. The name is copied, and demangled when it is first needed. 0 or -ENOMEM, also for more than
 * SYMBOLS_MAX symbols or 4 GiB of names.
 */
int symbols_add(struct symbols *symbols, uint64_t start, uint64_t size, enum symbol_binding binding, const char *name,
		size_t name_len);

/*
 * The same for a table whose names are in one piece, each with its NUL: symbols_add_names() copies it, and says what is
 * to be added to the place of a name in it. 0 or -ENOMEM, likewise.
 */
int symbols_add_names(struct symbols *symbols, const char *names, size_t bytes, uint32_t *ret);
int symbols_add_named(struct symbols *symbols, uint64_t start, uint64_t size, enum symbol_binding binding,
		      uint32_t name);

void symbols_fixup(struct symbols *symbols, enum symbols_fixup_flags flags);

/* The name of an entry as it is in the table or demangled. Valid until a symbol is added or settled. */
const char *symbols_name(const struct symbols *symbols, const struct symbol_entry *entry);

/*
 * The symbol at `address`, or NULL: none, or out of memory. Always the same one for an entry, as it was when first
 * found. Valid until symbols_fini(). Everything added was settled.
 */
const struct symbol *symbols_find(struct symbols *symbols, uint64_t address);

/* The same without a change of *symbols, by any number of threads. false: symbols_find() must be called first. */
bool symbols_peek(const struct symbols *symbols, uint64_t address, const struct symbol **ret);

/* First and last symbol by address; NULL: empty. Valid until a symbol is added or settled. */
const struct symbol_entry *symbols_first(const struct symbols *symbols);
const struct symbol_entry *symbols_last(const struct symbols *symbols);

/* Whether symbol_demangle() could do anything with the name; cheap. Any thread, as the next. */
bool symbol_is_mangled(const char *name);

/*
 * The readable name, of C++ and Rust without parameters, on the heap; NULL: the name is no mangled one, or is of more
 * than 16 KiB (of D: 1 KiB), or the readable one would be of more than SYMBOL_NAME_MAX bytes. Bounded in time and
 * memory for any name.
 */
enum { SYMBOL_NAME_MAX = 1 << 16 };
char *symbol_demangle(const char *name);
