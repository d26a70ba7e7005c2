/* SPDX-License-Identifier: MIT */
#include "analyze/dwarf/dwarf.h"

#include <dwarf.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/dwarf/abbrevs.h"
#include "analyze/dwarf/elf_section.h"
#include "base/buf.h"
#include "base/hash_table.h"
#include "base/pool.h"
#include "perfdata/object_id.h"
#include "sysinfo/elf_file.h"

/* Debug information may be hostile. */
enum {
	MAX_UNITS = 1 << 22,
	MAX_RANGES = 1 << 23, /* of all units, empty ones too */
	STEPS_PER_BYTE = 8,   /* of entries and ranges, which have at least one byte */
	STEPS_MORE = 1 << 20, /* of any object */
	MAX_OVERLAPPING = 8,  /* units that begin before an address and after the one it is in */
	/* Of sections that have one type each, and for each such section. */
	MAX_TYPE_BYTES = 1 << 28,
	TYPE_BYTES_MORE = 1 << 12,
	FRONT_BYTES = 40, /* of a unit: more than its header has */
	ROOT_BYTES = 512, /* of a unit, that are read to know where its code is */
	RANGE_BYTES = 64, /* of a list, that are read for one range, which has two numbers */
	MAX_LINKAGE = 4,  /* sections */
	/* Of abbreviations; units share a table or have one each, and those of another version read it once more. */
	ABBREV_READS = 2,
	ABBREV_BYTES_MORE = 1 << 16, /* of any object */
};

struct unit_range {
	uint64_t low, high;   /* high exclusive */
	uint64_t unit_offset; /* which may not be read yet */
};

enum {
	INFO,
	ABBREV,
	TEXTS,
	LINE_TEXTS,
	LINE,
	OLD_RANGES,
	RANGES,
	ADDRESSES,
	TEXT_OFFSETS,
	UNIT_INDEX,
	ARANGES,
	ALTERNATE,
	NR_SECTIONS
};

static const char *const section_names[NR_SECTIONS] = {
	[INFO] = ".debug_info",
	[ABBREV] = ".debug_abbrev",
	[TEXTS] = ".debug_str",
	[LINE_TEXTS] = ".debug_line_str",
	[LINE] = ".debug_line",
	[OLD_RANGES] = ".debug_ranges",
	[RANGES] = ".debug_rnglists",
	[ADDRESSES] = ".debug_addr",
	[TEXT_OFFSETS] = ".debug_str_offsets",
	[ARANGES] = ".debug_aranges",
	[ALTERNATE] = ".gnu_debugaltlink",
};

static const char *const split_names[NR_SECTIONS] = {
	[INFO] = ".debug_info.dwo",
	[ABBREV] = ".debug_abbrev.dwo",
	[TEXTS] = ".debug_str.dwo",
	[RANGES] = ".debug_rnglists.dwo",
	[TEXT_OFFSETS] = ".debug_str_offsets.dwo",
	[UNIT_INDEX] = ".debug_cu_index",
};

struct dwarf {
	int fd; /* owned; -1: none */
	Elf *elf;
	bool owns_elf;
	bool is_split;
	struct elf_section sections[NR_SECTIONS];
	bool found[NR_SECTIONS];
	struct dwarf *alternate;
	struct pool pool;
	struct hash_table abbrevs; /* by offset and sizes */
	struct dwarf_unit **units; /* by offset; the first ones */
	size_t nr_units, units_room;
	uint64_t units_end;   /* where the next one is, or no more are */
	unsigned ranges_read; /* from how many sources */
	struct elf_linkage linkage[MAX_LINKAGE];
	unsigned nr_linkage;
	struct unit_range *ranges; /* by low */
	size_t nr_ranges, ranges_room;
	uint64_t steps;        /* that are left */
	uint64_t abbrev_bytes; /* likewise */
};

static bool read_unit_header(struct cursor *at, struct dwarf_unit *ret);

/* Whether a section has one unit, of a type. */
static bool is_of_type(struct elf_section *section)
{
	uint8_t front[FRONT_BYTES];
	struct cursor at = cursor_over((struct span){front, elf_section_peek(section, 0, front, sizeof(front))});
	struct dwarf_unit unit = {0};

	return read_unit_header(&at, &unit) && (unit.type == DW_UT_type || unit.type == DW_UT_split_type) &&
	       unit.len >= section->len;
}

/* In a file that was not linked (.dwo), each type may have a section of its own before that of the code. */
static struct elf_section find_info(struct dwarf *dwarf, const char *name)
{
	struct elf_section section = elf_section_find(dwarf->elf, dwarf->fd, name, NULL);
	uint64_t passed = 0;

	while (section.len && passed < MAX_TYPE_BYTES && is_of_type(&section)) {
		Elf_Scn *its = section.scn;
		passed += section.len + TYPE_BYTES_MORE;
		elf_section_fini(&section);
		section = elf_section_find(dwarf->elf, dwarf->fd, name, its);
	}
	return section;
}

static struct elf_section *section_of(struct dwarf *dwarf, unsigned which)
{
	const char *name = (dwarf->is_split ? split_names : section_names)[which];

	if (!dwarf->found[which] && name)
		dwarf->sections[which] =
			which == INFO ? find_info(dwarf, name) : elf_section_find(dwarf->elf, dwarf->fd, name, NULL);
	dwarf->found[which] = true;
	return &dwarf->sections[which];
}

static struct dwarf *dwarf_new(Elf *elf, int fd, bool is_split)
{
	struct dwarf *dwarf = calloc(1, sizeof(*dwarf));
	const char *ident = elf_getident(elf, NULL);
	const uint8_t order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;

	if (!dwarf)
		return NULL;
	*dwarf = (struct dwarf){.fd = fd, .elf = elf, .owns_elf = fd >= 0, .is_split = is_split};
	if (elf_kind(elf) == ELF_K_ELF && ident && ident[EI_DATA] == order && section_of(dwarf, INFO)->len) {
		dwarf->steps = section_of(dwarf, INFO)->counted_len * STEPS_PER_BYTE + STEPS_MORE;
		dwarf->abbrev_bytes = section_of(dwarf, ABBREV)->counted_len * ABBREV_READS + ABBREV_BYTES_MORE;
		dwarf->nr_linkage = elf_find_linkage(elf, dwarf->linkage, MAX_LINKAGE);
		return dwarf;
	}
	elf_section_fini(&dwarf->sections[INFO]);
	free(dwarf);
	return NULL;
}

struct dwarf *dwarf_open(int fd, bool is_split)
{
	Elf *elf = elf_file_begin(fd);
	struct dwarf *dwarf = elf ? dwarf_new(elf, fd, is_split) : NULL;

	if (dwarf)
		return dwarf;
	elf_end(elf);
	close(fd);
	return NULL;
}

struct dwarf *dwarf_open_elf(Elf *elf)
{
	return dwarf_new(elf, -1, false);
}

void dwarf_free(struct dwarf *dwarf)
{
	if (!dwarf)
		return;
	for (unsigned i = 0; i < NR_SECTIONS; i++)
		elf_section_fini(&dwarf->sections[i]);
	for (size_t i = 0; i < dwarf->abbrevs.nr_slots; i++) {
		if (dwarf->abbrevs.slots[i].item)
			abbrevs_fini(dwarf->abbrevs.slots[i].item);
	}
	hash_table_fini(&dwarf->abbrevs);
	free(dwarf->units);
	free(dwarf->ranges);
	pool_fini(&dwarf->pool);
	if (dwarf->owns_elf)
		elf_end(dwarf->elf);
	if (dwarf->fd >= 0)
		close(dwarf->fd);
	free(dwarf);
}

void dwarf_read_all(struct dwarf *dwarf)
{
	for (unsigned i = 0; i < NR_SECTIONS; i++) {
		elf_section_whole(section_of(dwarf, i));
		dwarf->sections[i].fd = -1;
	}
	if (dwarf->fd < 0)
		return;
	elf_cntl(dwarf->elf, ELF_C_FDDONE); /* it has what it unpacked */
	close(dwarf->fd);
	dwarf->fd = -1;
}

bool dwarf_unpack_ahead(struct dwarf *dwarf, bool lines, uint64_t most)
{
	/* As they are needed. */
	static const uint8_t order[] = {ARANGES, INFO, ABBREV, RANGES, TEXTS, LINE, LINE_TEXTS};
	enum { NR_LINES = 2 /* the last ones */ };

	for (size_t i = 0; i < sizeof(order) - (lines ? 0 : NR_LINES); i++)
		if (elf_section_unpack_ahead(section_of(dwarf, order[i]), most))
			return true;
	return false;
}

bool dwarf_alternate_name(struct dwarf *dwarf, const char **ret_name, struct elf_id *ret)
{
	struct span link = elf_section_whole(section_of(dwarf, ALTERNATE));
	const char *name = link.len ? link.ptr : NULL, *end = name ? memchr(name, '\0', link.len) : NULL;
	size_t id_len = end ? link.len - (size_t)(end + 1 - name) : 0;

	if (!end)
		return false;
	*ret = (struct elf_id){.len = id_len <= ELF_ID_MAX_BYTES ? (uint8_t)id_len : 0};
	memcpy(ret->bytes, end + 1, ret->len);
	*ret_name = name;
	return true;
}

void dwarf_set_alternate(struct dwarf *dwarf, struct dwarf *alternate)
{
	dwarf->alternate = alternate;
}

struct elf_section *dwarf_line_section(struct dwarf *dwarf)
{
	return section_of(dwarf, LINE);
}

struct elf_section *dwarf_line_texts(struct dwarf *dwarf)
{
	return section_of(dwarf, LINE_TEXTS);
}

struct elf_section *dwarf_texts(struct dwarf *dwarf)
{
	return section_of(dwarf, TEXTS);
}

/* NULL: there are none; out of memory. */
static struct abbrevs *abbrevs_of(struct dwarf_unit *unit)
{
	struct dwarf *dwarf = unit->dwarf;
	const uint32_t sizes = (uint32_t)unit->version << 16 | (uint32_t)unit->address_bytes << 8 | unit->offset_bytes;
	uint64_t key = hash_mix(unit->abbrev_offset, sizes);

	if (unit->abbrevs)
		return unit->abbrevs;
	for (struct hash_slot *slot = hash_table_find(&dwarf->abbrevs, key); slot;
	     slot = hash_table_next(&dwarf->abbrevs, slot)) {
		struct abbrevs *its = slot->item;
		if (its->offset == unit->abbrev_offset && its->version == unit->version &&
		    its->address_bytes == unit->address_bytes && its->offset_bytes == unit->offset_bytes)
			return unit->abbrevs = its;
	}
	struct elf_section *section = section_of(dwarf, ABBREV);
	struct span rest = elf_section_rest(section, unit->abbrev_offset, 1);
	if (!rest.len)
		return NULL;
	struct abbrevs *abbrevs = pool_take(&dwarf->pool, sizeof(*abbrevs));
	if (!abbrevs || hash_table_add(&dwarf->abbrevs, key, abbrevs))
		return NULL;
	*abbrevs = (struct abbrevs){.offset = unit->abbrev_offset,
				    .address_bytes = unit->address_bytes,
				    .offset_bytes = unit->offset_bytes,
				    .version = unit->version,
				    .section = section,
				    .rest = cursor_over(rest),
				    .bytes_left = &dwarf->abbrev_bytes};
	return unit->abbrevs = abbrevs;
}

/* Units: 7.5.1. */

/* false: it is none that is known. `at`: from its start; *ret is filled. */
static bool read_unit_header(struct cursor *at, struct dwarf_unit *ret)
{
	const uint8_t *start = at->at;
	uint64_t len = cursor_u32(at);

	ret->offset_bytes = len == UINT32_MAX ? 8 : 4;
	if (len == UINT32_MAX)
		len = cursor_u64(at);
	if (at->bad || (len >= 0xfffffff0 && ret->offset_bytes == 4) || len > UINT64_MAX / 2)
		return false;
	ret->len = len + (uint64_t)(at->at - start);
	ret->version = cursor_u16(at);
	ret->type = DW_UT_compile;
	if (ret->version >= 5) {
		ret->type = cursor_u8(at);
		ret->address_bytes = cursor_u8(at);
	}
	ret->abbrev_offset = take_sized(at, ret->offset_bytes);
	if (ret->version < 5)
		ret->address_bytes = cursor_u8(at);
	if (ret->type == DW_UT_skeleton || ret->type == DW_UT_split_compile)
		ret->id = cursor_u64(at);
	ret->header_bytes = (uint8_t)(at->at - start);
	ret->is_broken = ret->version < 2 || ret->version > 5 || ret->type == DW_UT_type ||
			 ret->type == DW_UT_split_type || (ret->address_bytes != 8 && ret->address_bytes != 4);
	return !at->bad;
}

static bool units_add(struct dwarf *dwarf, const struct dwarf_unit *unit)
{
	if (array_room_up_to(dwarf->units, dwarf->nr_units, dwarf->units_room, MAX_UNITS))
		return false;
	struct dwarf_unit *copy = pool_take(&dwarf->pool, sizeof(*copy));
	if (!copy)
		return false;
	*copy = *unit;
	dwarf->units[dwarf->nr_units++] = copy;
	return true;
}

/* The headers only, of those that begin before an offset or at it. */
static void read_units(struct dwarf *dwarf, uint64_t until)
{
	struct elf_section *info = section_of(dwarf, INFO);
	uint8_t front[FRONT_BYTES];

	while (dwarf->units_end < info->len && dwarf->units_end <= until) {
		struct dwarf_unit unit = {.dwarf = dwarf, .offset = dwarf->units_end};
		size_t len = elf_section_peek(info, unit.offset, front, sizeof(front));
		struct cursor at = cursor_over((struct span){front, len});
		if (!read_unit_header(&at, &unit) || unit.len > info->len - unit.offset ||
		    unit.len < unit.header_bytes || !units_add(dwarf, &unit)) {
			dwarf->units_end = UINT64_MAX;
			return;
		}
		dwarf->units_end += unit.len;
	}
}

/* NULL: none. */
static struct dwarf_unit *unit_around(struct dwarf *dwarf, uint64_t offset)
{
	read_units(dwarf, offset);
	const size_t behind = partition_point(dwarf->nr_units, i, dwarf->units[i]->offset <= offset);
	struct dwarf_unit *unit = behind ? dwarf->units[behind - 1] : NULL;
	return unit && offset - unit->offset < unit->len ? unit : NULL;
}

struct dwarf_unit *dwarf_unit_from(struct dwarf *dwarf, uint64_t offset)
{
	struct dwarf_unit *unit = unit_around(dwarf, offset);

	return unit && unit->offset == offset ? unit : NULL;
}

struct dwarf_unit *dwarf_unit_number(struct dwarf *dwarf, size_t number)
{
	read_units(dwarf, UINT64_MAX);
	return number < dwarf->nr_units ? dwarf->units[number] : NULL;
}

/* From `at` in the unit to its end. */
static struct cursor unit_cursor(const struct dwarf_unit *unit, uint64_t at)
{
	if (at >= unit->bytes.len)
		return (struct cursor){.bad = true};
	return cursor_over((struct span){(const uint8_t *)unit->bytes.ptr + at, unit->bytes.len - at});
}

/* false: it ends the walk. *ret_sibling: where the next one is that is not in it; 0: not known. */
static bool read_entry(struct dwarf_unit *unit, struct cursor *at, struct die *ret, uint64_t *ret_sibling)
{
	const uint8_t *start = unit->bytes.ptr;

	ret->at = (uint64_t)(at->at - start);
	uint64_t code = cursor_uleb(at);
	*ret_sibling = 0;
	ret->abbrev = NULL;
	if (at->bad || !code)
		return !at->bad;
	const struct abbrev *abbrev = abbrevs_find(unit->abbrevs, &unit->dwarf->pool, code);
	if (!abbrev)
		return false;
	*ret = (struct die){unit, abbrev, ret->at, (uint64_t)(at->at - start)};
	if (abbrev->sibling) {
		struct cursor sibling = *at;
		abbrev_skip_to(&sibling, unit->abbrevs, abbrev, abbrev->sibling);
		*ret_sibling = cursor_u32(&sibling);
	}
	abbrev_skip_all(at, unit->abbrevs, abbrev);
	return !at->bad;
}

/* false: more was looked at than a compiler writes. */
static bool step(struct dwarf *dwarf)
{
	return dwarf->steps && --dwarf->steps;
}

/* The bytes of a unit are read up to its root entry at first: lines need no more. */
static void read_unit(struct dwarf_unit *unit)
{
	if (unit->bytes.len == unit->len)
		return;
	struct span all = elf_section_part(section_of(unit->dwarf, INFO), unit->offset, unit->len);
	if (all.len)
		unit->bytes = all;
}

void die_walk_begin(struct die_walk *walk, const struct die *die)
{
	uint64_t sibling;
	struct die same;

	*walk = (struct die_walk){.unit = die->unit};
	if (!die->abbrev->has_children)
		return;
	read_unit(die->unit);
	struct cursor at = unit_cursor(die->unit, die->at);
	if (!read_entry(die->unit, &at, &same, &sibling) || !same.abbrev)
		return;
	walk->at = (uint64_t)(at.at - (const uint8_t *)die->unit->bytes.ptr);
	walk->next_level = 1;
}

bool die_walk_next(struct die_walk *walk, struct die *ret)
{
	struct cursor at = unit_cursor(walk->unit, walk->at);
	struct die die;

	while (walk->next_level) {
		if (!step(walk->unit->dwarf) || !read_entry(walk->unit, &at, &die, &walk->sibling)) {
			walk->next_level = 0;
			break;
		}
		walk->at = (uint64_t)(at.at - (const uint8_t *)walk->unit->bytes.ptr);
		if (!die.abbrev) {
			walk->next_level--;
			continue;
		}
		walk->level = walk->next_level;
		if (die.abbrev->has_children)
			walk->next_level++;
		*ret = die;
		return true;
	}
	return false;
}

/* To where the next entry is that is not in this one, if it says so. */
static bool to_sibling(const struct dwarf_unit *unit, const struct abbrev *abbrev, struct cursor *at)
{
	struct cursor attr = *at;

	if (!abbrev->sibling)
		return false;
	abbrev_skip_to(&attr, unit->abbrevs, abbrev, abbrev->sibling);
	uint64_t sibling = cursor_u32(&attr);
	if (attr.bad || sibling <= (uint64_t)(attr.at - (const uint8_t *)unit->bytes.ptr) || sibling >= unit->len)
		return false;
	*at = unit_cursor(unit, sibling);
	return true;
}

/* From the first child of an entry to the end of the last. false: there is none. */
static bool skip_children(struct dwarf_unit *unit, struct cursor *at)
{
	unsigned levels = 1;

	while (levels) {
		uint64_t code = cursor_uleb(at);
		if (!step(unit->dwarf) || at->bad)
			return false;
		if (!code) {
			levels--;
			continue;
		}
		const struct abbrev *abbrev = abbrevs_find(unit->abbrevs, &unit->dwarf->pool, code);
		if (!abbrev)
			return false;
		if (abbrev->has_children && to_sibling(unit, abbrev, at))
			continue;
		abbrev_skip_all(at, unit->abbrevs, abbrev);
		levels += abbrev->has_children;
	}
	return true;
}

/* Passes over entries of other groups, with all that is in them: units consist mostly of such entries. */
bool die_walk_next_of(struct die_walk *walk, unsigned groups, struct die *ret)
{
	struct dwarf_unit *unit = walk->unit;
	const uint8_t *start = unit->bytes.ptr;
	struct cursor at = unit_cursor(unit, walk->at);

	while (walk->next_level && step(unit->dwarf)) {
		struct cursor entry = at;
		uint64_t code = cursor_uleb(&at);
		if (at.bad)
			break;
		if (!code) {
			walk->next_level--;
			continue;
		}
		const struct abbrev *abbrev = abbrevs_find(unit->abbrevs, &unit->dwarf->pool, code);
		if (!abbrev)
			break;
		if (abbrev->groups & groups) {
			if (!read_entry(unit, &entry, ret, &walk->sibling))
				break;
			walk->at = (uint64_t)(entry.at - start);
			walk->level = walk->next_level;
			walk->next_level += abbrev->has_children;
			return true;
		}
		if (abbrev->has_children && to_sibling(unit, abbrev, &at))
			continue;
		abbrev_skip_all(&at, unit->abbrevs, abbrev);
		if (abbrev->has_children && !skip_children(unit, &at))
			break;
	}
	walk->next_level = 0;
	return false;
}

void die_walk_skip(struct die_walk *walk)
{
	unsigned level = walk->level;

	if (walk->next_level <= level)
		return;
	if (walk->sibling > walk->at && walk->sibling < walk->unit->len) {
		walk->at = walk->sibling;
		walk->next_level = level;
		return;
	}
	struct cursor at = unit_cursor(walk->unit, walk->at);
	if (skip_children(walk->unit, &at)) {
		walk->next_level = level;
		walk->at = (uint64_t)(at.at - (const uint8_t *)walk->unit->bytes.ptr);
	} else {
		walk->next_level = 0;
	}
}

int die_tag(const struct die *die)
{
	return die->abbrev->tag;
}

/* spec NULL: the entry has none. */
static bool attr_of(const struct die *die, const struct attr_spec *spec, struct die_attr *ret)
{
	if (!spec)
		return false;
	struct cursor at = unit_cursor(die->unit, die->attributes);
	abbrev_skip_to(&at, die->unit->abbrevs, die->abbrev, spec);
	struct die_attr attr = {die->unit, spec->form, spec->implicit, at};
	if (attr.form == DW_FORM_indirect)
		attr.form = (uint16_t)cursor_uleb(&attr.value);
	if (attr.value.bad)
		return false;
	*ret = attr;
	return true;
}

bool die_attr(const struct die *die, unsigned name, struct die_attr *ret)
{
	return attr_of(die, abbrev_attr(die->abbrev, name), ret);
}

/* The address of an index: 7.27. */
static bool address_at(const struct dwarf_unit *unit, uint64_t index, uint64_t *ret)
{
	const struct dwarf_unit *has = unit->skeleton ? unit->skeleton : unit;
	struct elf_section *section = section_of(has->dwarf, ADDRESSES);

	if (has->addresses > section->len || index >= (section->len - has->addresses) / has->address_bytes)
		return false;
	uint64_t offset = has->addresses + index * has->address_bytes;
	struct cursor at = cursor_over(elf_section_rest(section, offset, has->address_bytes));
	*ret = take_sized(&at, has->address_bytes);
	return !at.bad;
}

static bool is_address(uint16_t form)
{
	return form == DW_FORM_addr || form == DW_FORM_addrx || form == DW_FORM_GNU_addr_index ||
	       (form >= DW_FORM_addrx1 && form <= DW_FORM_addrx4);
}

/* A number that a form stands for, or an index or offset to be looked up. */
static bool raw_number(const struct die_attr *attr, uint64_t *ret)
{
	struct cursor at = attr->value;
	int bytes = form_bytes(attr->form, attr->unit->abbrevs);
	uint64_t value;

	if (attr->form == DW_FORM_implicit_const)
		value = (uint64_t)attr->implicit;
	else if (attr->form == DW_FORM_flag_present)
		value = 1;
	else if (attr->form == DW_FORM_sdata)
		value = (uint64_t)cursor_sleb(&at);
	else if (bytes > 0 && bytes <= 8)
		value = take_sized(&at, (unsigned)bytes);
	else if (bytes == -1 && attr->form != DW_FORM_string && attr->form != DW_FORM_indirect &&
		 attr->form != DW_FORM_exprloc && attr->form != DW_FORM_block && attr->form != DW_FORM_block1 &&
		 attr->form != DW_FORM_block2 && attr->form != DW_FORM_block4)
		value = cursor_uleb(&at);
	else
		return false;
	if (at.bad)
		return false;
	*ret = value;
	return true;
}

bool die_attr_number(const struct die_attr *attr, uint64_t *ret)
{
	uint64_t value;

	if (!raw_number(attr, &value))
		return false;
	if (is_address(attr->form) && attr->form != DW_FORM_addr)
		return address_at(attr->unit, value, ret);
	*ret = value;
	return true;
}

/* 7.26 */
static const char *indexed_text(const struct dwarf_unit *unit, uint64_t index)
{
	struct elf_section *section = section_of(unit->dwarf, TEXT_OFFSETS);

	if (unit->text_offsets > section->len || index >= (section->len - unit->text_offsets) / unit->offset_bytes)
		return NULL;
	uint64_t offset = unit->text_offsets + index * unit->offset_bytes;
	struct cursor at = cursor_over(elf_section_rest(section, offset, unit->offset_bytes));
	uint64_t text = take_sized(&at, unit->offset_bytes);
	return at.bad ? NULL : elf_section_text(section_of(unit->dwarf, TEXTS), text);
}

static const char *attr_text(const struct die_attr *attr)
{
	struct dwarf *dwarf = attr->unit->dwarf;
	struct cursor at = attr->value;
	uint64_t value;

	if (attr->form == DW_FORM_string) {
		skip_text(&at);
		return at.bad ? NULL : (const char *)attr->value.at;
	}
	if (!raw_number(attr, &value))
		return NULL;
	switch (attr->form) {
	case DW_FORM_strp: return elf_section_text(section_of(dwarf, TEXTS), value);
	case DW_FORM_line_strp: return elf_section_text(section_of(dwarf, LINE_TEXTS), value);
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_strp_alt:
		return dwarf->alternate ? elf_section_text(section_of(dwarf->alternate, TEXTS), value) : NULL;
	case DW_FORM_strx:
	case DW_FORM_strx1:
	case DW_FORM_strx2:
	case DW_FORM_strx3:
	case DW_FORM_strx4:
	case DW_FORM_GNU_str_index: return indexed_text(attr->unit, value);
	default: return NULL;
	}
}

const char *die_attr_text(const struct die_attr *attr)
{
	const char *text = attr_text(attr);

	return text && !elf_text_is_too_long(text) ? text : NULL;
}

const char *die_text(const struct die *die, unsigned name)
{
	struct die_attr attr;

	return die_attr(die, name, &attr) ? die_attr_text(&attr) : NULL;
}

static uint64_t base_of(const struct die *root, unsigned name, unsigned gnu_name, uint64_t otherwise)
{
	struct die_attr attr;
	uint64_t value;

	if ((die_attr(root, name, &attr) || (gnu_name && die_attr(root, gnu_name, &attr))) &&
	    die_attr_number(&attr, &value))
		return value;
	return otherwise;
}

/* What the root entry says for all others. In .dwo files lists begin behind the header of their section: 7.3.2.3. */
static void read_bases(struct dwarf_unit *unit, const struct die *root)
{
	struct die_attr attr;
	uint64_t low;

	unit->has_base = true;
	if (unit->skeleton) {
		const uint64_t header = unit->version < 5 ? 0 : unit->offset_bytes == 8 ? 16 : 8;
		unit->text_offsets += header;
		unit->range_lists += header ? header + 4 : 0;
		unit->base = unit->skeleton->base;
		return;
	}
	unit->addresses = base_of(root, DW_AT_addr_base, DW_AT_GNU_addr_base, 0);
	unit->text_offsets = base_of(root, DW_AT_str_offsets_base, 0, unit->offset_bytes == 8 ? 16 : 8);
	unit->range_lists = base_of(root, DW_AT_rnglists_base, 0, unit->offset_bytes == 8 ? 20 : 12);
	unit->old_ranges = base_of(root, DW_AT_GNU_ranges_base, 0, 0);
	if (!unit->id)
		unit->id = base_of(root, DW_AT_GNU_dwo_id, 0, 0);
	if (die_attr(root, DW_AT_low_pc, &attr) && die_attr_number(&attr, &low))
		unit->base = low;
}

static bool read_root(struct dwarf_unit *unit, struct die *ret)
{
	struct cursor at = unit_cursor(unit, unit->header_bytes);
	uint64_t sibling;
	struct die root;

	/* The index of a .dwp file says where the rest of its units is, see dwarf_split_unit(). */
	if (unit->dwarf->is_split && !unit->skeleton && section_of(unit->dwarf, UNIT_INDEX)->len)
		return false;
	if (unit->is_broken || !abbrevs_of(unit) || !read_entry(unit, &at, &root, &sibling) || !root.abbrev)
		return false;
	if (!unit->has_base)
		read_bases(unit, &root);
	*ret = root;
	return true;
}

bool die_root(struct dwarf_unit *unit, struct die *ret)
{
	const uint64_t front = unit->len < ROOT_BYTES ? unit->len : ROOT_BYTES;

	if (!unit->bytes.len)
		unit->bytes = elf_section_part(section_of(unit->dwarf, INFO), unit->offset, front);
	if (read_root(unit, ret))
		return true;
	if (unit->bytes.len == unit->len || unit->is_broken)
		return false;
	read_unit(unit);
	return read_root(unit, ret);
}

static bool entry_at(struct dwarf *dwarf, uint64_t offset, struct die *ret)
{
	struct dwarf_unit *unit = unit_around(dwarf, offset);
	uint64_t sibling;
	struct die root, die;

	if (!unit || (!unit->has_base && !die_root(unit, &root)))
		return false;
	read_unit(unit);
	struct cursor at = unit_cursor(unit, offset - unit->offset);
	if (!read_entry(unit, &at, &die, &sibling) || !die.abbrev)
		return false;
	*ret = die;
	return true;
}

bool die_attr_entry(const struct die_attr *attr, struct die *ret)
{
	struct dwarf *dwarf = attr->unit->dwarf;
	uint64_t value;

	if (!raw_number(attr, &value))
		return false;
	switch (attr->form) {
	case DW_FORM_ref1:
	case DW_FORM_ref2:
	case DW_FORM_ref4:
	case DW_FORM_ref8:
	case DW_FORM_ref_udata: return value < attr->unit->len && entry_at(dwarf, attr->unit->offset + value, ret);
	case DW_FORM_ref_addr: return entry_at(dwarf, value, ret);
	case DW_FORM_ref_sup4:
	case DW_FORM_ref_sup8:
	case DW_FORM_GNU_ref_alt: return dwarf->alternate && entry_at(dwarf->alternate, value, ret);
	default: return false;
	}
}

/* Ranges: 7.25 of version 5, 2.17.3 of version 4. */

/* Where an offset in a section is. */
static struct cursor cursor_in(struct dwarf *dwarf, unsigned section, uint64_t offset)
{
	struct span rest = elf_section_rest(section_of(dwarf, section), offset, RANGE_BYTES);

	return rest.len ? cursor_over(rest) : (struct cursor){.bad = true};
}

static struct die_ranges listed_ranges(struct dwarf_unit *unit, const struct die_attr *attr)
{
	struct die_ranges ranges = {.unit = unit, .base = unit->base, .kind = RANGES_LIST};
	uint64_t offset;

	if (!raw_number(attr, &offset))
		return (struct die_ranges){0};
	if (unit->version < 5) {
		struct dwarf_unit *has = unit->skeleton ? unit->skeleton : unit;
		ranges.kind = RANGES_OLD;
		if (unit->skeleton)
			offset += has->old_ranges;
		ranges.list = cursor_in(has->dwarf, OLD_RANGES, offset);
		return ranges;
	}
	if (attr->form == DW_FORM_rnglistx) {
		if (offset >= UINT32_MAX || unit->range_lists > UINT64_MAX / 2)
			return (struct die_ranges){0};
		struct cursor at = cursor_in(unit->dwarf, RANGES, unit->range_lists + offset * unit->offset_bytes);
		offset = unit->range_lists + take_sized(&at, unit->offset_bytes);
		if (at.bad)
			return (struct die_ranges){0};
	} else if (unit->skeleton)
		offset += unit->range_lists - (unit->offset_bytes == 8 ? 20 : 12); /* of its part of a .dwp file */
	ranges.list = cursor_in(unit->dwarf, RANGES, offset);
	return ranges;
}

struct die_ranges die_ranges(const struct die *die)
{
	struct die_attr attr, end;
	uint64_t low, high;

	if (attr_of(die, die->abbrev->ranges, &attr))
		return listed_ranges(die->unit, &attr);
	if (!attr_of(die, die->abbrev->low, &attr) || !die_attr_number(&attr, &low) ||
	    !attr_of(die, die->abbrev->high, &end) || !die_attr_number(&end, &high))
		return (struct die_ranges){0};
	if (!is_address(end.form))
		high += low;
	return (struct die_ranges){.unit = die->unit, .kind = RANGES_ONE, .low = low, .high = high};
}

/* false: the end. An empty range for what only says how to go on. */
static bool old_range(struct die_ranges *ranges, uint64_t *ret_low, uint64_t *ret_high)
{
	const unsigned bytes = ranges->unit->address_bytes;
	uint64_t low = take_sized(&ranges->list, bytes), high = take_sized(&ranges->list, bytes);

	if (ranges->list.bad || (!low && !high))
		return false;
	*ret_low = *ret_high = 0;
	if (low == (bytes == 8 ? UINT64_MAX : UINT32_MAX)) {
		ranges->base = high;
	} else {
		*ret_low = ranges->base + low;
		*ret_high = ranges->base + high;
	}
	return true;
}

static uint64_t take_address(struct die_ranges *ranges, bool indexed)
{
	uint64_t address = 0;

	if (!indexed)
		return take_sized(&ranges->list, ranges->unit->address_bytes);
	if (!address_at(ranges->unit, cursor_uleb(&ranges->list), &address))
		ranges->list.bad = true;
	return address;
}

/* As old_range(). */
static bool list_range(struct die_ranges *ranges, uint64_t *ret_low, uint64_t *ret_high)
{
	struct cursor *at = &ranges->list;
	uint8_t kind = cursor_u8(at);
	uint64_t low = 0, high = 0;

	switch (kind) {
	case DW_RLE_base_addressx:
	case DW_RLE_base_address: ranges->base = take_address(ranges, kind == DW_RLE_base_addressx); break;
	case DW_RLE_startx_endx:
	case DW_RLE_start_end:
		low = take_address(ranges, kind == DW_RLE_startx_endx);
		high = take_address(ranges, kind == DW_RLE_startx_endx);
		break;
	case DW_RLE_startx_length:
	case DW_RLE_start_length:
		low = take_address(ranges, kind == DW_RLE_startx_length);
		high = low + cursor_uleb(at);
		break;
	case DW_RLE_offset_pair:
		low = ranges->base + cursor_uleb(at);
		high = ranges->base + cursor_uleb(at);
		break;
	default: return false; /* DW_RLE_end_of_list */
	}
	*ret_low = low;
	*ret_high = high;
	return !at->bad;
}

/* Of the list. */
static struct elf_section *list_section(const struct die_ranges *ranges)
{
	struct dwarf_unit *unit = ranges->unit;

	if (ranges->kind == RANGES_LIST)
		return section_of(unit->dwarf, RANGES);
	return section_of((unit->skeleton ? unit->skeleton : unit)->dwarf, OLD_RANGES);
}

bool die_ranges_next(struct die_ranges *ranges, uint64_t *ret_low, uint64_t *ret_high)
{
	uint64_t low, high;

	while (ranges->kind != RANGES_END && step(ranges->unit->dwarf)) {
		bool more = true;
		if (ranges->kind != RANGES_ONE)
			elf_section_extend(list_section(ranges), &ranges->list, RANGE_BYTES);
		if (ranges->kind == RANGES_ONE) {
			low = ranges->low;
			high = ranges->high;
			ranges->kind = RANGES_END;
		} else if (ranges->kind == RANGES_OLD) {
			more = old_range(ranges, &low, &high);
		} else {
			more = list_range(ranges, &low, &high);
		}
		if (!more)
			break;
		if (low < high) {
			*ret_low = low;
			*ret_high = high;
			return true;
		}
	}
	ranges->kind = RANGES_END;
	return false;
}

/* Which unit has an address. */

static bool add_range(struct dwarf *dwarf, uint64_t low, uint64_t high, uint64_t unit_offset)
{
	if (array_room_up_to(dwarf->ranges, dwarf->nr_ranges, dwarf->ranges_room, MAX_RANGES))
		return false;
	if (low) /* what the linker has left out begins at 0 */
		dwarf->ranges[dwarf->nr_ranges++] = (struct unit_range){low, high, unit_offset};
	return true;
}

/* What the root entry says, of which the first bytes are mostly enough. */
static void add_unit_ranges(struct dwarf *dwarf, struct dwarf_unit *unit)
{
	uint8_t front[ROOT_BYTES];
	struct elf_section *info = section_of(dwarf, INFO);
	uint64_t low, high;
	struct die root;

	uint64_t len = unit->bytes.len ? 0 : elf_section_peek(info, unit->offset, front, ROOT_BYTES);
	if (len)
		unit->bytes = (struct span){front, len < unit->len ? len : unit->len};
	bool is_read = read_root(unit, &root);
	struct die_ranges ranges = is_read ? die_ranges(&root) : (struct die_ranges){0};
	if (len)
		unit->bytes = (struct span){0};
	if (!is_read && len < unit->len && die_root(unit, &root))
		ranges = die_ranges(&root);
	while (die_ranges_next(&ranges, &low, &high) && add_range(dwarf, low, high, unit->offset))
		;
}

/* Source: 6.1.2. */
static void add_aranges(struct dwarf *dwarf)
{
	struct span all = elf_section_whole(section_of(dwarf, ARANGES));
	struct cursor at = cursor_over(all);

	while (cursor_left(&at) && step(dwarf)) {
		const uint8_t *start = at.at;
		uint64_t len = cursor_u32(&at);
		unsigned offset_bytes = len == UINT32_MAX ? 8 : 4;
		if (offset_bytes == 8)
			len = cursor_u64(&at);
		const uint8_t *first = cursor_take(&at, len);
		if (!first)
			return;
		struct cursor set = {.at = first, .end = at.at};
		cursor_u16(&set);
		uint64_t unit_offset = take_sized(&set, offset_bytes);
		unsigned bytes = cursor_u8(&set);
		cursor_u8(&set);
		if (set.bad || (bytes != 8 && bytes != 4))
			continue;
		cursor_take(&set, (2 * bytes - (uint64_t)(set.at - start) % (2 * bytes)) % (2 * bytes));
		while (cursor_left(&set) && step(dwarf)) {
			uint64_t low = take_sized(&set, bytes), its = take_sized(&set, bytes);
			if (set.bad || (its && low + its > low && !add_range(dwarf, low, low + its, unit_offset)))
				break;
		}
	}
}

static int range_compare(const void *a, const void *b)
{
	const struct unit_range *x = a, *y = b;

	if (x->low != y->low)
		return x->low < y->low ? -1 : 1;
	return x->unit_offset < y->unit_offset ? -1 : x->unit_offset > y->unit_offset;
}

/* What the units say themselves that .debug_aranges does not know: that section has all code of a unit, or none. */
static void add_units(struct dwarf *dwarf)
{
	read_units(dwarf, UINT64_MAX);
	for (size_t i = 0; i < dwarf->nr_ranges; i++) {
		struct dwarf_unit *unit = unit_around(dwarf, dwarf->ranges[i].unit_offset);
		if (unit)
			unit->has_ranges = true;
	}
	for (size_t i = 0; i < dwarf->nr_units; i++) {
		struct dwarf_unit *unit = dwarf->units[i];
		if (!unit->has_ranges && (unit->type == DW_UT_compile || unit->type == DW_UT_skeleton))
			add_unit_ranges(dwarf, unit);
	}
}

/* NULL: none. */
static struct dwarf_unit *search_ranges(struct dwarf *dwarf, uint64_t address)
{
	const size_t behind = partition_point(dwarf->nr_ranges, i, dwarf->ranges[i].low <= address);
	for (size_t i = behind; i > 0 && behind - i < MAX_OVERLAPPING; i--)
		if (address < dwarf->ranges[i - 1].high)
			return unit_around(dwarf, dwarf->ranges[i - 1].unit_offset);
	return NULL;
}

static bool is_linkage(const struct dwarf *dwarf, uint64_t address)
{
	for (unsigned i = 0; i < dwarf->nr_linkage; i++)
		if (address >= dwarf->linkage[i].low && address < dwarf->linkage[i].high)
			return true;
	return false;
}

/*
 * Not all compilers write .debug_aranges, which has all in one place: units that it does not know are read then, but
 * not for code that is in none, since to read all may be to unpack all of .debug_info.
 */
struct dwarf_unit *dwarf_unit_at(struct dwarf *dwarf, uint64_t address)
{
	static void (*const add[])(struct dwarf *) = {add_aranges, add_units};
	struct dwarf_unit *found;

	if (is_linkage(dwarf, address))
		return NULL;
	while (!(found = search_ranges(dwarf, address)) && dwarf->ranges_read < sizeof(add) / sizeof(add[0])) {
		add[dwarf->ranges_read++](dwarf);
		if (dwarf->nr_ranges)
			qsort(dwarf->ranges, dwarf->nr_ranges, sizeof(*dwarf->ranges), range_compare);
	}
	return found;
}

/* Split units: 7.3. */

/* Columns of the index of a .dwp file: 7.3.5.3; those of version 2 (GNU) have other numbers from 5 on. */
enum { COLUMN_INFO = 1, COLUMN_ABBREV = 3, COLUMN_TEXT_OFFSETS = 6, COLUMN_RANGES = 8, MAX_COLUMNS = 16 };

/* Where the parts of a unit are in the sections of a .dwp file. false: it has none of that id. */
static bool find_in_index(struct dwarf *split, uint64_t id, uint32_t ret_offsets[COLUMN_RANGES + 1])
{
	struct span all = elf_section_whole(section_of(split, UNIT_INDEX));
	struct cursor at = cursor_over(all);
	uint32_t version = cursor_u32(&at) & UINT16_MAX, nr_columns = cursor_u32(&at), nr_units = cursor_u32(&at),
		 nr_slots = cursor_u32(&at);
	uint32_t row = 0;

	if (at.bad || (version != 2 && version != 5) || nr_columns > MAX_COLUMNS || !nr_slots ||
	    nr_slots & (nr_slots - 1))
		return false;
	struct cursor ids = {.at = cursor_take(&at, 8ull * nr_slots)};
	struct cursor rows = {.at = cursor_take(&at, 4ull * nr_slots)};
	if (at.bad)
		return false;
	uint64_t slot = id & (nr_slots - 1), stride = (id >> 32 & (nr_slots - 1)) | 1;
	for (uint32_t i = 0; i < nr_slots && !row; i++, slot = (slot + stride) & (nr_slots - 1)) {
		uint64_t its;
		uint32_t its_row;
		memcpy(&its, ids.at + 8 * slot, sizeof(its));
		memcpy(&its_row, rows.at + 4 * slot, sizeof(its_row));
		if (!its_row)
			return false;
		if (its == id)
			row = its_row;
	}
	struct cursor columns = {.at = cursor_take(&at, 4ull * nr_columns), .end = at.at};
	cursor_take(&at, 4ull * nr_columns * (row - 1ull));
	if (!row || row > nr_units || at.bad)
		return false;
	memset(ret_offsets, 0, (COLUMN_RANGES + 1) * sizeof(*ret_offsets));
	for (uint32_t i = 0; i < nr_columns; i++) {
		uint32_t column = cursor_u32(&columns), offset = cursor_u32(&at);
		if (column <= COLUMN_RANGES)
			ret_offsets[column] = offset;
	}
	return !at.bad;
}

static struct dwarf_unit *with_skeleton(struct dwarf_unit *unit, struct dwarf_unit *skeleton)
{
	struct die root;

	if (unit->skeleton && unit->skeleton != skeleton)
		return NULL;
	unit->skeleton = skeleton;
	return die_root(unit, &root) ? unit : NULL;
}

struct dwarf_unit *dwarf_split_unit(struct dwarf *split, struct dwarf_unit *skeleton)
{
	uint32_t offsets[COLUMN_RANGES + 1];

	if (section_of(split, UNIT_INDEX)->len) {
		if (!find_in_index(split, skeleton->id, offsets))
			return NULL;
		struct dwarf_unit *unit = unit_around(split, offsets[COLUMN_INFO]);
		if (!unit || unit->skeleton)
			return unit && unit->skeleton == skeleton ? unit : NULL;
		unit->abbrev_offset += offsets[COLUMN_ABBREV];
		unit->text_offsets = offsets[COLUMN_TEXT_OFFSETS];
		unit->range_lists = unit->version < 5 ? 0 : offsets[COLUMN_RANGES];
		return with_skeleton(unit, skeleton);
	}
	read_units(split, UINT64_MAX);
	for (size_t i = 0; i < split->nr_units; i++) {
		struct dwarf_unit *unit = split->units[i];
		struct die root;
		/* Version 4 has the id in the root entry. */
		if (unit->version < 5 && die_root(unit, &root) && !unit->id)
			unit->id = base_of(&root, DW_AT_GNU_dwo_id, 0, 0);
		if (unit->id == skeleton->id && (unit->type == DW_UT_split_compile || unit->version < 5)) {
			unit->has_base = false;
			unit->text_offsets = unit->range_lists = 0;
			return with_skeleton(unit, skeleton);
		}
	}
	return NULL;
}
