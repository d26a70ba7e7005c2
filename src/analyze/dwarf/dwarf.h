/* SPDX-License-Identifier: MIT */
/*
 * dwarf: reads the debug information of an object: units, entries (DIEs), their attributes and code ranges. Versions 2
 * to 5, in the byte order of this machine. Units are read when they are needed. Input may be damaged or hostile: then a
 * walk ends early. One owner, one thread. Source: DWARF 5; dwarf.c has the section numbers.
 */
#pragma once

#include <libelf.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

struct abbrev;
struct dwarf;
struct elf_id;
struct elf_section;

struct dwarf_unit {
	struct dwarf *dwarf; /* that contains it */
	uint64_t offset;     /* in .debug_info */
	uint64_t len;        /* bytes, with its header */
	uint64_t id;         /* DWO id, which a skeleton and its split unit have in common */
	uint16_t version;
	uint8_t type; /* DW_UT_ */
	uint8_t header_bytes, offset_bytes, address_bytes;
	bool has_base, is_broken, has_ranges; /* has_ranges: .debug_aranges has its code */
	/* offsets of the unit in .debug_abbrev, .debug_addr, .debug_str_offsets, .debug_rnglists and .debug_ranges */
	uint64_t abbrev_offset, addresses, text_offsets, range_lists, old_ranges;
	/* base address of ranges; valid when has_base */
	uint64_t base;
	struct abbrevs *abbrevs;
	struct span bytes;           /* with the root entry, or all; len 0: not read yet */
	struct dwarf_unit *skeleton; /* of a split unit (in a .dwo or .dwp file); NULL: it is not split */
};

struct die {
	struct dwarf_unit *unit; /* NULL: nothing */
	const struct abbrev *abbrev;
	uint64_t at, attributes; /* in the unit */
};

struct die_attr {
	struct dwarf_unit *unit;
	uint16_t form;
	int64_t implicit;
	struct cursor value;
};

/*
 * Takes ownership of fd, also when it fails. is_split: use the sections of .dwo and .dwp files. NULL: there is no debug
 * information, or out of memory.
 */
struct dwarf *dwarf_open(int fd, bool is_split);
/* The same for an open ELF file, which the caller keeps open until dwarf_free(). */
struct dwarf *dwarf_open_elf(Elf *elf);
void dwarf_free(struct dwarf *dwarf);     /* NULL is fine */
void dwarf_read_all(struct dwarf *dwarf); /* reads all sections, and closes the file, to save fds */

/*
 * Unpacks the next part of the sections that functions are looked up in; with `lines` of those with the lines of the
 * source, too: in each up to `most` bytes. Results stay the same. false: nothing was left to do.
 */
bool dwarf_unpack_ahead(struct dwarf *dwarf, bool lines, uint64_t most);

/*
 * The supplementary file of dwz, with the entries that several objects have in common: its path, which may be relative,
 * and its build-id. false: the object has none.
 */
bool dwarf_alternate_name(struct dwarf *dwarf, const char **ret_name, struct elf_id *ret);
void dwarf_set_alternate(struct dwarf *dwarf, struct dwarf *alternate); /* borrowed */

/* .debug_line, .debug_line_str and .debug_str, for line_table.h. */
struct elf_section *dwarf_line_section(struct dwarf *dwarf);
struct elf_section *dwarf_line_texts(struct dwarf *dwarf);
struct elf_section *dwarf_texts(struct dwarf *dwarf);

/* The unit whose ranges contain an address, or its skeleton. NULL: none. */
struct dwarf_unit *dwarf_unit_at(struct dwarf *dwarf, uint64_t address);

/* The unit that begins at an offset in .debug_info. NULL: none. */
struct dwarf_unit *dwarf_unit_from(struct dwarf *dwarf, uint64_t offset);

/* The units in their order, from 0 on. NULL: there are no more. */
struct dwarf_unit *dwarf_unit_number(struct dwarf *dwarf, size_t number);

/* The split unit of that skeleton in a .dwo or .dwp file; sets its `skeleton`. NULL: it is not there. */
struct dwarf_unit *dwarf_split_unit(struct dwarf *split, struct dwarf_unit *skeleton);

bool die_root(struct dwarf_unit *unit, struct die *ret); /* false: it cannot be read */

/* Visits all entries inside an entry, each before its children. */
struct die_walk {
	struct dwarf_unit *unit;
	uint64_t at, sibling; /* in the unit; 0: not known */
	unsigned level;       /* of the last entry: 1 for children of the first one */
	unsigned next_level;
};
void die_walk_begin(struct die_walk *walk, const struct die *die);
/* false: the end, or a limit for damaged input was reached: 8 visits for each entry of the file. */
bool die_walk_next(struct die_walk *walk, struct die *ret);
/* The same, but leaves out entries that are in none of these groups (enum die_group), with all that is in them. */
bool die_walk_next_of(struct die_walk *walk, unsigned groups, struct die *ret);
void die_walk_skip(struct die_walk *walk); /* skips the children of the last entry */

static inline uint64_t die_offset(const struct die *die)
{
	return die->unit->offset + die->at;
}

int die_tag(const struct die *die);
bool die_attr(const struct die *die, unsigned name, struct die_attr *ret);
bool die_attr_number(const struct die_attr *attr, uint64_t *ret);
/* NULL: none, or one of more than ELF_TEXT_MAX bytes. Valid until dwarf_free() */
const char *die_attr_text(const struct die_attr *attr);
bool die_attr_entry(const struct die_attr *attr, struct die *ret); /* the entry that it refers to */
const char *die_text(const struct die *die, unsigned name);        /* of an attribute, or NULL */

/* The code of an entry. Empty ranges are left out. */
struct die_ranges {
	struct dwarf_unit *unit;
	enum { RANGES_END, RANGES_ONE, RANGES_OLD, RANGES_LIST } kind;
	uint64_t low, high; /* of RANGES_ONE */
	uint64_t base;
	struct cursor list;
};
struct die_ranges die_ranges(const struct die *die);
bool die_ranges_next(struct die_ranges *ranges, uint64_t *ret_low, uint64_t *ret_high); /* high is exclusive */
