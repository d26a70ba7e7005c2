/* SPDX-License-Identifier: MIT */
/*
 * table: the unwind table of one object: for each range of code one of few distinct rules. Built once from a section of
 * call frame information, then constant: several threads may look up. Private to unwind.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "unwind/cfi.h"

enum {
	TABLE_MAX_SEGMENTS = 8,
	TABLE_MAX_ROWS = 1 << 25,
	TABLE_MAX_FUNCTIONS = 1 << 22, /* a browser with all its unwind information has 600,000 */
	TABLE_MAX_RULES = UINT16_MAX,
};

enum {
	SLOT_SAME = INT16_MIN,
	SLOT_LOST,
	SLOT_MIN, /* from here on: what is stored at CFA + 8 * slot */
};

enum {
	RULE_NO_CFI = 1, /* nothing is known of that code */
	RULE_SIGNAL = 2, /* the caller was interrupted, and did not call */
	RULE_WIDE = 4,   /* only the wide rule counts */
};

struct unwind_rule {
	uint8_t flags, cfa_register; /* CFA = register + offset */
	uint16_t wide;               /* index, of RULE_WIDE */
	int32_t cfa_offset;
	int16_t slots[UNWIND_SLOTS]; /* of the registers that struct unwind_arch says */
};
_Static_assert(sizeof(struct unwind_rule) == 32, "two in a cache line");

/*
 * What does not fit into the above. Values of expressions are offsets in unwind_table.expressions: a u16 length, bytes.
 */
struct wide_rule {
	struct cfi_state state;
};

/* Executable and backed by the file. */
struct table_segment {
	uint64_t offset, bytes; /* in the file */
	uint64_t address;       /* p_vaddr */
};

struct unwind_table {
	const struct unwind_arch *arch;
	unsigned nr_segments;
	struct table_segment segments[TABLE_MAX_SEGMENTS];
	uint64_t base;       /* address that the pcs are relative to */
	uint32_t nr_rows;    /* row i: from pcs[i] to pcs[i + 1]; the last has no CFI */
	uint32_t *pcs;       /* ascending */
	uint16_t *row_rules; /* index of the rule of a row */
	uint32_t nr_rules, nr_wide;
	struct unwind_rule *rules; /* the first has no CFI */
	struct wide_rule *wide;
	uint8_t *expressions;
	size_t expression_bytes, bytes; /* bytes: all that is allocated */
};

/* Code that the section says nothing of but whose rule is known. */
struct table_extra {
	uint64_t start, end; /* addresses */
	enum { EXTRA_PLT /* entries of 16 bytes that push */, EXTRA_STUB /* nothing is pushed */ } kind;
};

struct table_source {
	struct cfi_section section;
	unsigned nr_segments, nr_extras;
	struct table_segment segments[TABLE_MAX_SEGMENTS];
	struct table_extra extras[4];
};

/*
 * 0; -ENOMEM; -EBADMSG: the section breaks off or some entries cannot be understood, *ret has the others. With 0 and
 * -EBADMSG *ret is the caller's.
 */
int table_build(const struct table_source *source, struct unwind_table **ret);
void table_free(struct unwind_table *table); /* NULL is fine */

/* The address of a byte of the file. false: it is in no segment. */
bool table_address(const struct unwind_table *table, uint64_t file_offset, uint64_t *ret);

/* Never NULL. */
const struct unwind_rule *table_find(const struct unwind_table *table, uint64_t address);

/* The operations of an expression of a wide rule. */
struct span table_expression(const struct unwind_table *table, int32_t value);
