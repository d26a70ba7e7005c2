/* SPDX-License-Identifier: MIT */
/*
 * abbrevs: which attributes entries (DIEs) have, in which forms, and how many bytes those take. A table of a unit is
 * read as far as it was needed. One owner, one thread. Source: DWARF 5, 7.5.3 and 7.5.6.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct elf_section;
struct pool;

/* What entries are, in bits. */
enum die_group {
	DIE_FUNCTION = 1, /* but not one that was inlined */
	DIE_INLINED = 2,
	DIE_BLOCK = 4,
	DIE_NAMESPACE = 8,
	DIE_TYPE = 16,   /* of those that may have functions in them */
	DIE_PARENT = 32, /* has children */
};

/* An attribute stands `gap` bytes behind the start of an entry's attributes, or behind the last of `nr_variable`. */
struct attr_spec {
	uint16_t name, form;
	uint16_t nr_variable; /* attributes before it that do not have the same length in all entries */
	uint16_t gap;
	int64_t implicit; /* the value, of DW_FORM_implicit_const */
};

struct abbrev {
	uint64_t code;
	uint32_t number; /* in the table */
	uint16_t tag;
	bool has_children;
	uint8_t groups; /* enum die_group */
	uint16_t nr;
	uint16_t nr_variable, tail;      /* of all attributes; bytes behind the last variable one */
	const struct attr_spec *sibling; /* DW_AT_sibling, of 4 bytes; NULL: none */
	/* DW_AT_low_pc, DW_AT_high_pc and DW_AT_ranges; likewise */
	const struct attr_spec *low, *high, *ranges;
	const struct attr_spec **variable; /* [nr_variable] */
	struct attr_spec specs[];
};

/* Where an abbreviation is in the section. */
struct abbrev_place {
	const uint8_t *at;
	size_t len;
	uint32_t nr;           /* of attributes */
	struct abbrev *abbrev; /* NULL: not needed yet, as most are not */
};

struct abbrevs {
	uint64_t offset; /* in the section */
	struct elf_section *section;
	struct cursor rest;   /* which may go on, see elf_section_extend() */
	uint64_t *bytes_left; /* how many may still be read of the section, for all tables; borrowed */
	uint16_t version;
	uint8_t address_bytes, offset_bytes;
	struct abbrev_place *entries; /* [code - 1], as compilers number them */
	size_t nr, room;
	struct abbrev **others; /* by code, when all are read */
	size_t nr_others, others_room;
};

void abbrevs_fini(struct abbrevs *abbrevs);

/* For abbrevs_find(): one that was not asked for yet, or is not numbered as compilers do it. */
const struct abbrev *abbrevs_read(struct abbrevs *abbrevs, struct pool *pool, uint64_t code);

/* NULL: there is none of that code, or no memory. Lives as long as the pool. */
static inline const struct abbrev *abbrevs_find(struct abbrevs *abbrevs, struct pool *pool, uint64_t code)
{
	const struct abbrev *known = code - 1 < abbrevs->nr ? abbrevs->entries[code - 1].abbrev : NULL;

	return known ? known : abbrevs_read(abbrevs, pool, code);
}

/* The first attribute of that name; NULL: none. */
const struct attr_spec *abbrev_attr(const struct abbrev *abbrev, unsigned name);

/* Bytes of a value. -1: that differs; -2: no known form. */
int form_bytes(uint16_t form, const struct abbrevs *abbrevs);
void form_skip(struct cursor *at, const struct abbrevs *abbrevs, uint16_t form); /* sets bad if it cannot */

/* From the start of an entry's attributes over the first variable ones. */
void abbrev_skip_variable(struct cursor *at, const struct abbrevs *abbrevs, const struct abbrev *abbrev, unsigned nr);

/* From there to an attribute. */
static inline void abbrev_skip_to(struct cursor *at, const struct abbrevs *abbrevs, const struct abbrev *abbrev,
				  const struct attr_spec *spec)
{
	if (spec->nr_variable)
		abbrev_skip_variable(at, abbrevs, abbrev, spec->nr_variable);
	cursor_take(at, spec->gap);
}

/* From there to the end of the entry. */
static inline void abbrev_skip_all(struct cursor *at, const struct abbrevs *abbrevs, const struct abbrev *abbrev)
{
	if (abbrev->nr_variable)
		abbrev_skip_variable(at, abbrevs, abbrev, abbrev->nr_variable);
	cursor_take(at, abbrev->tail);
}

/* A number of 1 to 8 bytes in the byte order of this machine. */
uint64_t take_sized(struct cursor *at, unsigned bytes);
void skip_text(struct cursor *at); /* and its NUL */
