/* SPDX-License-Identifier: MIT */
/*
 * go_table: the functions of a Go program, from the table that its runtime prints stacks with (.gopclntab): that stays
 * in a program without a symbol table. Any bytes: what is broken is left out. One owner, one thread.
 *
 * Source: "Go 1.2 Runtime Symbol Table", and what Go's packages debug/gosym and runtime say of later versions.
 */
#pragma once

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct go_table {
	struct span bytes; /* borrowed; from its header on */
	bool is_big;       /* its byte order */
	unsigned word_bytes;
	/* Of Go 1.2, 1.16, 1.18 and 1.20: the first versions that wrote this form. */
	enum { GO_1_2, GO_1_16, GO_1_18, GO_1_20 } version;
	uint64_t nr_functions;
	/* From Go 1.18 on functions are at an address relative to that of the code; 0: it is to be found elsewhere. */
	uint64_t text_start;
	uint64_t list;             /* where the list of functions is in the bytes, and what each entry refers from */
	uint64_t names, names_end; /* all names, each with its NUL */
};

/* is_big, word_bytes: of the ELF file. false: no table begins there. */
bool go_table_open(struct span bytes, bool is_big, unsigned word_bytes, struct go_table *ret);

struct go_function {
	uint64_t start, end; /* addresses */
	uint64_t name;       /* where that is in the bytes; names_end: it has none */
};

/* Function `number` of nr_functions. false: it is broken. */
bool go_table_function(const struct go_table *table, uint64_t number, struct go_function *ret);

/*
 * That of an ELF file, with the addresses that it has when the program is loaded at address 0. `loaded` are its bytes,
 * on the heap, to be freed by the caller. false: it is no Go program, or has no such table, or is out of memory.
 */
bool go_table_find(Elf *elf, struct go_table *ret, void **ret_loaded);
