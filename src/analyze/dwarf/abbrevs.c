/* SPDX-License-Identifier: MIT */
#include "analyze/dwarf/abbrevs.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/dwarf/elf_section.h"
#include "base/buf.h"
#include "base/pool.h"

/* Debug information may be hostile. */
enum {
	MAX_ATTRIBUTES = 1024, /* of one entry */
	MAX_ABBREVS = 1 << 20, /* of one unit */
	MOST_BYTES = 256,      /* that nearly all abbreviations have at most */
};

uint64_t take_sized(struct cursor *at, unsigned bytes)
{
	uint64_t value = 0;

	if (bytes == 8)
		return cursor_u64(at);
	if (bytes == 4)
		return cursor_u32(at);
	if (bytes == 2)
		return cursor_u16(at);
	const uint8_t *taken = cursor_take(at, bytes);
	for (unsigned i = 0; taken && i < bytes && i < sizeof(value); i++)
		value |= (uint64_t)taken[i] << 8 * i;
	return value;
}

int form_bytes(uint16_t form, const struct abbrevs *abbrevs)
{
	switch (form) {
	case DW_FORM_flag_present:
	case DW_FORM_implicit_const: return 0;
	case DW_FORM_data1:
	case DW_FORM_ref1:
	case DW_FORM_flag:
	case DW_FORM_strx1:
	case DW_FORM_addrx1: return 1;
	case DW_FORM_data2:
	case DW_FORM_ref2:
	case DW_FORM_strx2:
	case DW_FORM_addrx2: return 2;
	case DW_FORM_strx3:
	case DW_FORM_addrx3: return 3;
	case DW_FORM_data4:
	case DW_FORM_ref4:
	case DW_FORM_ref_sup4:
	case DW_FORM_strx4:
	case DW_FORM_addrx4: return 4;
	case DW_FORM_data8:
	case DW_FORM_ref8:
	case DW_FORM_ref_sup8:
	case DW_FORM_ref_sig8: return 8;
	case DW_FORM_data16: return 16;
	case DW_FORM_addr: return abbrevs->address_bytes;
	case DW_FORM_ref_addr: return abbrevs->version < 3 ? abbrevs->address_bytes : abbrevs->offset_bytes;
	case DW_FORM_strp:
	case DW_FORM_line_strp:
	case DW_FORM_sec_offset:
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_GNU_strp_alt: return abbrevs->offset_bytes;
	case DW_FORM_string:
	case DW_FORM_block:
	case DW_FORM_block1:
	case DW_FORM_block2:
	case DW_FORM_block4:
	case DW_FORM_exprloc:
	case DW_FORM_sdata:
	case DW_FORM_udata:
	case DW_FORM_ref_udata:
	case DW_FORM_indirect:
	case DW_FORM_strx:
	case DW_FORM_addrx:
	case DW_FORM_loclistx:
	case DW_FORM_rnglistx:
	case DW_FORM_GNU_addr_index:
	case DW_FORM_GNU_str_index: return -1;
	default: return -2;
	}
}

void skip_text(struct cursor *at)
{
	const uint8_t *end = cursor_left(at) ? memchr(at->at, '\0', cursor_left(at)) : NULL;

	cursor_take(at, end ? (uint64_t)(end + 1 - at->at) : UINT64_MAX);
}

/* Of a form that has no fixed length, or of one that is not known. */
static void skip_variable(struct cursor *at, const struct abbrevs *abbrevs, uint16_t form)
{
	switch (form) {
	case DW_FORM_string: skip_text(at); break;
	case DW_FORM_block1: cursor_take(at, cursor_u8(at)); break;
	case DW_FORM_block2: cursor_take(at, cursor_u16(at)); break;
	case DW_FORM_block4: cursor_take(at, cursor_u32(at)); break;
	case DW_FORM_block:
	case DW_FORM_exprloc: cursor_take(at, cursor_uleb(at)); break;
	case DW_FORM_sdata:
	case DW_FORM_udata:
	case DW_FORM_ref_udata:
	case DW_FORM_strx:
	case DW_FORM_addrx:
	case DW_FORM_loclistx:
	case DW_FORM_rnglistx:
	case DW_FORM_GNU_addr_index:
	case DW_FORM_GNU_str_index: cursor_uleb(at); break;
	case DW_FORM_indirect:
		form = (uint16_t)cursor_uleb(at);
		if (form == DW_FORM_indirect || form == DW_FORM_implicit_const)
			at->bad = true;
		else
			form_skip(at, abbrevs, form);
		break;
	default: at->bad = true;
	}
}

void form_skip(struct cursor *at, const struct abbrevs *abbrevs, uint16_t form)
{
	int bytes = form_bytes(form, abbrevs);

	if (bytes >= 0)
		cursor_take(at, (uint64_t)bytes);
	else
		skip_variable(at, abbrevs, form);
}

void abbrev_skip_variable(struct cursor *at, const struct abbrevs *abbrevs, const struct abbrev *abbrev, unsigned nr)
{
	for (unsigned i = 0; i < nr && !at->bad; i++) {
		cursor_take(at, abbrev->variable[i]->gap);
		skip_variable(at, abbrevs, abbrev->variable[i]->form);
	}
}

const struct attr_spec *abbrev_attr(const struct abbrev *abbrev, unsigned name)
{
	const struct attr_spec *spec = abbrev->specs, *end = spec + abbrev->nr;

	while (spec < end && spec->name != name)
		spec++;
	return spec < end ? spec : NULL;
}

static unsigned group_of(unsigned tag)
{
	switch (tag) {
	case DW_TAG_subprogram: return DIE_FUNCTION;
	case DW_TAG_inlined_subroutine: return DIE_INLINED;
	case DW_TAG_lexical_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
	case DW_TAG_with_stmt: return DIE_BLOCK;
	case DW_TAG_namespace:
	case DW_TAG_module: return DIE_NAMESPACE;
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_enumeration_type: return DIE_TYPE;
	default: return 0;
	}
}

/* Where the attributes are in the entries. */
static void measure(const struct abbrevs *abbrevs, struct abbrev *abbrev)
{
	unsigned gap = 0;

	for (unsigned i = 0; i < abbrev->nr; i++) {
		struct attr_spec *spec = &abbrev->specs[i];
		int bytes = form_bytes(spec->form, abbrevs);
		spec->nr_variable = abbrev->nr_variable;
		spec->gap = (uint16_t)gap; /* of at most 16 each */
		if (spec->name == DW_AT_sibling && spec->form == DW_FORM_ref4)
			abbrev->sibling = spec;
		else if (spec->name == DW_AT_low_pc && !abbrev->low)
			abbrev->low = spec;
		else if (spec->name == DW_AT_high_pc && !abbrev->high)
			abbrev->high = spec;
		else if (spec->name == DW_AT_ranges && !abbrev->ranges)
			abbrev->ranges = spec;
		if (bytes < 0)
			abbrev->variable[abbrev->nr_variable++] = spec;
		gap = bytes < 0 ? 0 : gap + (unsigned)bytes;
	}
	abbrev->tail = (uint16_t)gap;
	abbrev->groups = (uint8_t)(group_of(abbrev->tag) | (abbrev->has_children ? DIE_PARENT : 0));
}

/* Over attributes whose name and form have a byte each, up to the end of the list. Returns how many these are. */
static unsigned skip_short_attributes(struct cursor *at)
{
	const uint8_t *next = at->at;
	unsigned nr = 0;

	while (at->end - next >= 2 && (next[0] | next[1]) < 0x80 && next[1] != DW_FORM_implicit_const &&
	       (next[0] || next[1]) && nr < MAX_ATTRIBUTES) {
		next += 2;
		nr++;
	}
	at->at = next;
	return nr;
}

/* false: there is none. */
static bool skip_abbrev(struct cursor *at, uint64_t *ret_code, unsigned *ret_nr)
{
	unsigned nr = 0;

	*ret_code = cursor_uleb(at);
	if (at->bad || !*ret_code)
		return false;
	cursor_uleb(at); /* the tag */
	cursor_u8(at);   /* whether it has children */
	for (;; nr++) {
		nr += at->bad ? 0 : skip_short_attributes(at);
		uint64_t name = cursor_uleb(at), form = cursor_uleb(at);
		if (form == DW_FORM_implicit_const)
			cursor_sleb(at);
		if (at->bad || nr >= MAX_ATTRIBUTES)
			return false;
		if (!name && !form)
			break;
	}
	*ret_nr = nr;
	return true;
}

/* NULL: there is none, or no memory. */
static struct abbrev *make_abbrev(const struct abbrevs *abbrevs, const struct abbrev_place *place, struct pool *pool)
{
	struct cursor at = cursor_over((struct span){place->at, place->len});
	const unsigned nr = place->nr;
	const size_t bytes = sizeof(struct abbrev) + nr * sizeof(struct attr_spec);
	struct abbrev *abbrev = pool_take(pool, bytes + nr * sizeof(abbrev->variable[0]));
	if (!abbrev)
		return NULL;
	abbrev->code = cursor_uleb(&at);
	abbrev->tag = (uint16_t)cursor_uleb(&at);
	abbrev->has_children = cursor_u8(&at) == DW_CHILDREN_yes;
	abbrev->nr = (uint16_t)nr;
	abbrev->variable = (const struct attr_spec **)((uint8_t *)abbrev + bytes);
	for (unsigned i = 0; i < nr; i++) {
		uint64_t name = cursor_uleb(&at), form = cursor_uleb(&at);
		int64_t implicit = form == DW_FORM_implicit_const ? cursor_sleb(&at) : 0;
		abbrev->specs[i] = (struct attr_spec){.name = name <= UINT16_MAX ? (uint16_t)name : 0,
						      .form = form <= UINT16_MAX ? (uint16_t)form : 0,
						      .implicit = implicit};
	}
	measure(abbrevs, abbrev);
	return abbrev;
}

/* The next one of the section. false: there is none, or no more may be read. */
static bool read_next(struct abbrevs *abbrevs, uint64_t *ret_code, struct abbrev_place *ret)
{
	const uint8_t *start = abbrevs->rest.at;
	struct cursor at = abbrevs->rest;
	bool found = false;
	unsigned nr = 0;

	for (uint64_t bytes = MOST_BYTES, seen = 0; seen < *abbrevs->bytes_left; bytes *= 4) {
		elf_section_extend(abbrevs->section, &abbrevs->rest, bytes);
		if (cursor_left(&abbrevs->rest) == seen)
			break;
		at = abbrevs->rest;
		seen = cursor_left(&at);
		if (seen > *abbrevs->bytes_left)
			at.end = start + *abbrevs->bytes_left;
		found = skip_abbrev(&at, ret_code, &nr);
		if (!at.bad)
			break;
	}
	*ret = (struct abbrev_place){.at = start, .len = (size_t)(at.at - start), .nr = nr};
	*abbrevs->bytes_left -= ret->len;
	abbrevs->rest.at = at.at;
	return found;
}

/* false: no room for it. */
static bool keep(struct abbrevs *abbrevs, uint64_t code, const struct abbrev_place *place, struct pool *pool)
{
	if (code <= abbrevs->nr)
		return true; /* of two of one code the first counts */
	if (code == abbrevs->nr + 1) {
		if (array_room_up_to(abbrevs->entries, abbrevs->nr, abbrevs->room, MAX_ABBREVS))
			return false;
		abbrevs->entries[abbrevs->nr++] = *place;
		return true;
	}
	if (array_room_up_to(abbrevs->others, abbrevs->nr_others, abbrevs->others_room, MAX_ABBREVS))
		return false;
	struct abbrev *abbrev = make_abbrev(abbrevs, place, pool);
	if (!abbrev)
		return false;
	abbrev->number = (uint32_t)abbrevs->nr_others;
	abbrevs->others[abbrevs->nr_others++] = abbrev;
	return true;
}

static int other_compare(const void *a, const void *b)
{
	const struct abbrev *x = *(struct abbrev *const *)a, *y = *(struct abbrev *const *)b;

	if (x->code != y->code)
		return x->code < y->code ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

static const struct abbrev *find_other(const struct abbrevs *abbrevs, uint64_t code)
{
	const size_t first = partition_point(abbrevs->nr_others, i, abbrevs->others[i]->code < code);
	return first < abbrevs->nr_others && abbrevs->others[first]->code == code ? abbrevs->others[first] : NULL;
}

static const struct abbrev *find_numbered(struct abbrevs *abbrevs, struct pool *pool, uint64_t code)
{
	struct abbrev_place *place = &abbrevs->entries[code - 1];

	if (!place->abbrev)
		place->abbrev = make_abbrev(abbrevs, place, pool);
	return place->abbrev;
}

/* Of a table with codes that are not in order all is read at once: to search it takes time that is known. */
const struct abbrev *abbrevs_read(struct abbrevs *abbrevs, struct pool *pool, uint64_t code)
{
	struct abbrev_place place;
	uint64_t its;

	if (code - 1 < abbrevs->nr)
		return find_numbered(abbrevs, pool, code);
	elf_section_extend(abbrevs->section, &abbrevs->rest, 1);
	bool more = cursor_left(&abbrevs->rest);
	while (more && read_next(abbrevs, &its, &place) && keep(abbrevs, its, &place, pool))
		if (its == code && code == abbrevs->nr && !abbrevs->nr_others)
			return find_numbered(abbrevs, pool, code);
	abbrevs->rest = (struct cursor){.bad = true}; /* no more is read */
	if (more && abbrevs->nr_others)
		qsort(abbrevs->others, abbrevs->nr_others, sizeof(struct abbrev *), other_compare);
	return code - 1 < abbrevs->nr ? find_numbered(abbrevs, pool, code) : find_other(abbrevs, code);
}

void abbrevs_fini(struct abbrevs *abbrevs)
{
	free(abbrevs->entries);
	free(abbrevs->others);
	*abbrevs = (struct abbrevs){0};
}
