/* SPDX-License-Identifier: MIT */
/*
 * symbols: the symbols of one object, found by address. One owner (a dso), one thread.
 *
 * Filled in batches (one per symbol table): symbols_add() each, symbols_settle() at the end of a batch, which
 * gives symbols without a size an end and leaves one symbol per address, as perf 6.1 does it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/machine.h"
#include "analyze/pool.h"

enum symbol_binding { SYMBOL_LOCAL, SYMBOL_GLOBAL, SYMBOL_WEAK };

struct symbol_entry {
	struct symbol symbol;
	struct symbol_entry *left, *right, *up; /* in the look-up tree, see symbols_tree.h */
	bool red;
	bool mangled; /* the name may still have to be demangled */
	enum symbol_binding binding;
	uint32_t added,
		dropped; /* when, on the clock below; dropped 0: it is there (else an alias that lost) */
};

/* From `start` up to the start of the next span of addresses: which symbol, or none (NULL). */
struct symbol_span {
	uint64_t start;
	struct symbol_entry *entry;
};

struct symbols {
	struct pool pool;
	struct symbol_entry **entries; /* settled ones by start, then by age; new ones behind them */
	size_t nr, room;
	uint32_t clock;            /* counts additions and drops */
	struct symbol_span *spans; /* what symbols_find() searches; NULL: to be built */
	size_t nr_spans, last;     /* last: span hit last time */
};

enum symbols_settle_flags {
	SYMBOLS_KEEP_ALIASES = 1, /* neither ends nor aliases are touched (PLT entries, perf maps) */
};

void symbols_fini(struct symbols *symbols); /* leaves them empty and usable */

/* size 0: unknown. The name is copied; a C++ or Rust name is demangled when somebody asks for it. 0 or
 * -ENOMEM. */
int symbols_add(struct symbols *symbols, uint64_t start, uint64_t size, enum symbol_binding binding,
		const char *name, size_t name_len);

void symbols_settle(struct symbols *symbols, enum symbols_settle_flags flags);

/* The symbol at `address`, or NULL. Valid until symbols_fini(). Everything added was settled. */
const struct symbol *symbols_find(struct symbols *symbols, uint64_t address);

/* First and last symbol by address; NULL: empty. */
const struct symbol_entry *symbols_first(const struct symbols *symbols);
const struct symbol_entry *symbols_last(const struct symbols *symbols);
