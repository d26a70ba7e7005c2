/* SPDX-License-Identifier: MIT */
#include "analyze/dwarf/debug_functions.h"

#include <dwarf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/dwarf/abbrevs.h"
#include "analyze/dwarf/dwarf.h"
#include "analyze/dwarf/split_files.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/hash_table.h"
#include "base/pool.h"

/* Debug information may be hostile. */
enum {
	MAX_DEPTH = 256,          /* of nested functions and blocks */
	MAX_RANGES = 1 << 22,     /* of one unit or function */
	MAX_AT_ADDRESS = 512,     /* ranges in one function */
	FEW_LOOKUPS = 32,         /* in one function, for which its ranges are gone through one by one */
	MAX_OVERLAPPING = 8,      /* functions that begin before an address and after the one it is in */
	MAX_NESTED = 64,          /* namespaces and classes in a name */
	MAX_ORIGINS = 16,         /* steps from a description to the one with the name */
	MAX_NAME_BYTES = 1 << 16, /* longer ones go without their namespaces */
	MAX_PARENTS = 1 << 22,    /* of one unit */
	LONG_NAME_BYTES = 1024,
	MAX_LONG_NAMES_BYTES = 64 << 20, /* of all that are longer; then they go without their namespaces, too */
};

/* An entry with children. DWARF does not say what an entry is in, so those on the way to a wanted one are kept. */
struct parent {
	struct parent *up;
	struct die die;
	uint64_t start, end; /* end: of all that is in it, exclusive */
	bool read;           /* children are known */
	uint32_t nr, room;
	struct parent *children; /* those that have children themselves, by start */
};

struct name_unit {
	uint32_t parents;
	bool is_c; /* nothing of it is in a namespace or a class */
	struct parent root;
};

struct die_names {
	struct hash_table units; /* struct name_unit by struct dwarf_unit */
	struct pool pool;        /* units and names */
	size_t long_name_bytes;  /* of the long ones */
};

/* Not deeper than MAX_NESTED. */
static void parent_fini(struct parent *parent)
{
	for (uint32_t i = 0; i < parent->nr; i++)
		parent_fini(&parent->children[i]);
	free(parent->children);
}

static void names_fini(struct die_names *names)
{
	for (size_t i = 0; i < names->units.nr_slots; i++)
		if (names->units.slots[i].item)
			parent_fini(&((struct name_unit *)names->units.slots[i].item)->root);
	hash_table_fini(&names->units);
	pool_fini(&names->pool);
}

static bool is_c(const struct die *root)
{
	enum { C17 = 0x2c /* of https://dwarfstd.org/languages.html; elfutils 0.188 has no name for it */ };
	struct die_attr attr;
	uint64_t language;

	if (!die_attr(root, DW_AT_language, &attr) || !die_attr_number(&attr, &language))
		return false;
	return language == DW_LANG_C89 || language == DW_LANG_C || language == DW_LANG_C99 || language == DW_LANG_C11 ||
	       language == C17 || language == DW_LANG_Mips_Assembler;
}

/* NULL: out of memory, or it cannot be read. */
static struct name_unit *name_unit_of(struct die_names *names, struct dwarf_unit *its)
{
	struct name_unit *unit = hash_table_find_item(&names->units, (uintptr_t)its);
	struct die root;

	if (unit || !die_root(its, &root))
		return unit;
	unit = pool_take(&names->pool, sizeof(*unit));
	if (!unit || hash_table_add(&names->units, (uintptr_t)its, unit))
		return NULL;
	unit->is_c = is_c(&root);
	unit->root = (struct parent){.die = root, .start = die_offset(&root), .end = UINT64_MAX};
	return unit;
}

/* false: no room for it. */
static bool parent_add(struct name_unit *unit, struct parent *parent, const struct die *die)
{
	if (array_room(parent->children, parent->nr, parent->room))
		return false;
	if (unit->parents++ == MAX_PARENTS)
		return false;
	parent->children[parent->nr++] =
		(struct parent){.up = parent, .die = *die, .start = die_offset(die), .end = parent->end};
	return true;
}

/* Once, so that `up` of grandchildren stays valid. */
static void parent_read(struct name_unit *unit, struct parent *parent)
{
	struct die_walk walk;
	struct die die;

	parent->read = true;
	die_walk_begin(&walk, &parent->die);
	while (die_walk_next_of(&walk, DIE_PARENT, &die)) {
		die_walk_skip(&walk);
		if (!parent_add(unit, parent, &die))
			return;
		parent->children[parent->nr - 1].end = die.unit->offset + walk.at;
	}
}

/* The one in which `at` is; NULL: none. */
static struct parent *parent_child(struct parent *parent, uint64_t at)
{
	const size_t behind = partition_point(parent->nr, i, parent->children[i].start < at);
	struct parent *child = behind ? &parent->children[behind - 1] : NULL;
	return child && at < child->end ? child : NULL;
}

/* What the entry is in. NULL: as name_unit_of(). */
static struct parent *parent_of(struct die_names *names, const struct die *die)
{
	struct name_unit *unit = name_unit_of(names, die->unit);
	struct parent *found = NULL, *child = unit ? &unit->root : NULL;
	uint64_t at = die_offset(die);

	if (unit && unit->is_c)
		return &unit->root;
	for (unsigned depth = 0; child && depth < MAX_NESTED; depth++) {
		found = child;
		if (!found->read)
			parent_read(unit, found);
		child = parent_child(found, at);
	}
	return found;
}

/* The description that this one is of another place of. false: it is the first one. */
static bool origin_of(const struct die *die, struct die *ret)
{
	struct die_attr attr;

	return (die_attr(die, DW_AT_abstract_origin, &attr) || die_attr(die, DW_AT_specification, &attr)) &&
	       die_attr_entry(&attr, ret);
}

/* Where the declaration is: code, and what is defined outside of its namespace, refer to it. */
static struct die declaration_of(const struct die *die)
{
	struct die at = *die;

	for (unsigned i = 0; i < MAX_ORIGINS && origin_of(&at, &at); i++)
		;
	return at;
}

/* An attribute of an entry, or of what it refers to. */
static const char *text_of(const struct die *die, unsigned name)
{
	struct die at = *die;
	const char *text = die_text(&at, name);

	for (unsigned i = 0; !text && i < MAX_ORIGINS && origin_of(&at, &at); i++)
		text = die_text(&at, name);
	return text;
}

static bool is_class(int tag)
{
	return tag == DW_TAG_class_type || tag == DW_TAG_structure_type || tag == DW_TAG_union_type ||
	       tag == DW_TAG_enumeration_type || tag == DW_TAG_interface_type;
}

static const char *unnamed(int tag)
{
	switch (tag) {
	case DW_TAG_namespace: return "(anonymous namespace)";
	case DW_TAG_structure_type: return "(anonymous struct)";
	case DW_TAG_union_type: return "(anonymous union)";
	case DW_TAG_enumeration_type: return "(anonymous enum)";
	default: return "(anonymous class)";
	}
}

/* What the function or class is in, each with "::" behind it. */
static void put_parents(struct die_names *names, const struct die *die, unsigned depth, struct buf *out)
{
	struct die declared = declaration_of(die);
	struct parent *parent = parent_of(names, &declared);
	bool in_class = is_class(die_tag(&declared));

	for (; parent && parent->up && depth < MAX_NESTED; parent = parent->up) {
		int tag = die_tag(&parent->die);
		/* A function counts for the classes in it, not for functions that are only declared there. */
		if (tag != DW_TAG_namespace && tag != DW_TAG_module && !is_class(tag) &&
		    !(tag == DW_TAG_subprogram && in_class))
			continue;
		const char *name = text_of(&parent->die, DW_AT_name);
		put_parents(names, &parent->die, depth + 1, out);
		if (out->len > MAX_NAME_BYTES)
			return;
		buf_put_text(out, name ? name : unnamed(tag));
		buf_put_text(out, "::");
		return;
	}
}

static const char *die_name(struct die_names *names, const struct die *function)
{
	const char *linkage = text_of(function, DW_AT_linkage_name);
	AUTO_BUF struct buf text = {0};

	if (!linkage)
		linkage = text_of(function, DW_AT_MIPS_linkage_name);
	if (linkage)
		return linkage;
	const char *name = text_of(function, DW_AT_name);
	if (!name)
		return NULL;
	put_parents(names, function, 0, &text);
	if (!text.len || text.len > MAX_NAME_BYTES)
		return name;
	buf_put_text(&text, name);
	if (text.len > LONG_NAME_BYTES) {
		if (names->long_name_bytes + text.len > MAX_LONG_NAMES_BYTES)
			return name;
		names->long_name_bytes += text.len;
	}
	return text.failed ? name : pool_text(&names->pool, (const char *)text.data, text.len);
}

struct range {
	uint64_t low, high; /* high exclusive */
	uint32_t of;        /* which of the functions or nodes it belongs to */
};

struct ranges {
	struct range *at;
	size_t nr, room;
};

/* A scope, and what is needed to find it. */
struct node {
	struct scope scope; /* first */
	struct die die;
	uint32_t outer;
	bool named; /* scope.name was looked for */
};

struct function {
	struct die die;
	bool read;
	struct node **nodes; /* [0] is the function; in the order of the tree: outer ones come first */
	uint32_t nr, room;
	struct ranges ranges; /* of nodes from 1, in the order of nodes; after FEW_LOOKUPS by their start */
	unsigned nr_lookups;  /* up to FEW_LOOKUPS */
	uint64_t *highest;    /* then: [i]: where the last one ends of the part of the ranges whose middle is i */
};

struct unit {
	struct die root;   /* of the .dwo, where it was a skeleton */
	bool is_elsewhere; /* in a .dwo that was not found */
	struct function *functions;
	size_t nr, room;
	struct ranges ranges; /* of the functions, by their start */
	unsigned parts_read;  /* enum part */
};

struct debug_functions {
	struct hash_table units; /* struct unit by struct dwarf_unit */
	struct pool pool;        /* units and nodes */
	struct die_names names;
	struct split_files *split; /* borrowed */
};

struct debug_functions *debug_functions_new(struct split_files *split)
{
	struct debug_functions *functions = calloc(1, sizeof(*functions));

	if (functions)
		functions->split = split;
	return functions;
}

static void unit_fini(struct unit *unit)
{
	for (size_t i = 0; i < unit->nr; i++) {
		free(unit->functions[i].nodes);
		free(unit->functions[i].ranges.at);
		free(unit->functions[i].highest);
	}
	free(unit->functions);
	free(unit->ranges.at);
}

void debug_functions_free(struct debug_functions *functions)
{
	if (!functions)
		return;
	for (size_t i = 0; i < functions->units.nr_slots; i++)
		if (functions->units.slots[i].item)
			unit_fini(functions->units.slots[i].item);
	hash_table_fini(&functions->units);
	names_fini(&functions->names);
	pool_fini(&functions->pool);
	free(functions);
}

static bool ranges_add(struct ranges *ranges, const struct range *range)
{
	if (array_room_up_to(ranges->at, ranges->nr, ranges->room, MAX_RANGES))
		return false;
	ranges->at[ranges->nr++] = *range;
	return true;
}

/* Where the code of a description is. false: no room for it. */
static bool add_ranges(struct ranges *ranges, const struct die *die, uint32_t of)
{
	struct die_ranges its = die_ranges(die);
	struct range range = {.of = of};

	while (die_ranges_next(&its, &range.low, &range.high))
		if (!ranges_add(ranges, &range))
			return false;
	return true;
}

static bool unit_add_function(struct unit *unit, const struct die *die)
{
	size_t before = unit->ranges.nr;

	if (array_room_up_to(unit->functions, unit->nr, unit->room, MAX_RANGES))
		return false;
	if (!add_ranges(&unit->ranges, die, (uint32_t)unit->nr))
		return false;
	if (unit->ranges.nr > before) /* else it is a declaration, or was inlined everywhere */
		unit->functions[unit->nr++] = (struct function){.die = *die};
	return true;
}

/* Where functions are: most that have code are directly in the unit, so that the rest is read when it is needed. */
enum part {
	PART_UNIT,
	PART_NAMESPACES,
	PART_INNER, /* of lambdas and local classes, say */
	PARTS_ALL,
};

/* In which part the functions are that are in an entry; PARTS_ALL: none are. */
static enum part part_inside(int tag, enum part around)
{
	switch (tag) {
	case DW_TAG_namespace:
	case DW_TAG_module: return around == PART_UNIT ? PART_NAMESPACES : around;
	case DW_TAG_subprogram:
	case DW_TAG_lexical_block:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_enumeration_type: return PART_INNER;
	default: return PARTS_ALL;
	}
}

/* Entries that are functions of a part and those before it, or have some inside. */
static unsigned groups_of(enum part last)
{
	return DIE_FUNCTION | DIE_NAMESPACE | (last < PART_INNER ? 0 : DIE_TYPE | DIE_BLOCK);
}

static int range_compare(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->low != y->low)
		return x->low < y->low ? -1 : 1;
	return x->of < y->of ? -1 : x->of > y->of;
}

static void unit_read(struct unit *unit)
{
	uint8_t parts[MAX_DEPTH] = {0}; /* of each level: the part that it is in */
	const enum part first = unit->parts_read;
	enum part last = first;
	bool skipped = false; /* a namespace */
	struct die_walk walk;
	struct die die;

	unit->parts_read++;
	if (!unit->root.unit)
		return;
	die_walk_begin(&walk, &unit->root);
	while (die_walk_next_of(&walk, groups_of(last), &die)) {
		int tag = die_tag(&die);
		enum part here = parts[walk.level], inside = part_inside(tag, here);
		if (tag == DW_TAG_subprogram && here >= first && here <= last && !unit_add_function(unit, &die))
			break;
		/* clang does not say where the end of a namespace is: to skip it is to go through it. */
		if (inside == PART_NAMESPACES && first == PART_UNIT && !walk.sibling && !skipped)
			last = PART_NAMESPACES;
		if (inside <= last && walk.level + 1 < MAX_DEPTH) {
			parts[walk.level + 1] = (uint8_t)inside;
		} else {
			skipped |= inside == PART_NAMESPACES;
			die_walk_skip(&walk);
		}
	}
	unit->parts_read = last + 1;
	if (unit->ranges.nr)
		qsort(unit->ranges.at, unit->ranges.nr, sizeof(*unit->ranges.at), range_compare);
}

/* NULL: out of memory, or it cannot be read. */
static struct unit *unit_of(struct debug_functions *functions, struct dwarf_unit *its)
{
	struct unit *unit = hash_table_find_item(&functions->units, (uintptr_t)its);
	struct dwarf_unit *split;

	if (unit)
		return unit;
	unit = pool_take(&functions->pool, sizeof(*unit));
	if (!unit || hash_table_add(&functions->units, (uintptr_t)its, unit))
		return NULL;
	if (!die_root(its, &unit->root))
		return unit;
	split = its->id ? split_files_find(functions->split, &unit->root) : NULL;
	unit->is_elsewhere = its->id && !split;
	if (split && !die_root(split, &unit->root))
		unit->root = (struct die){0};
	return unit;
}

/* NULL: none. */
static struct function *unit_search(struct unit *unit, uint64_t address)
{
	const struct range *ranges = unit->ranges.at;
	const size_t behind = partition_point(unit->ranges.nr, i, ranges[i].low <= address);
	for (size_t i = behind; i > 0 && behind - i < MAX_OVERLAPPING; i--)
		if (address < ranges[i - 1].high)
			return &unit->functions[ranges[i - 1].of];
	return NULL;
}

static struct function *unit_function(struct unit *unit, uint64_t address)
{
	struct function *found = unit_search(unit, address);

	while (!found && unit->parts_read < PARTS_ALL) {
		unit_read(unit);
		found = unit_search(unit, address);
	}
	return found;
}

static bool function_add_node(struct debug_functions *functions, struct function *function, const struct die *die,
			      uint32_t outer)
{
	if (array_room_up_to(function->nodes, function->nr, function->room, MAX_RANGES))
		return false;
	struct node *node = pool_take(&functions->pool, sizeof(*node));
	if (!node)
		return false;
	*node = (struct node){.die = *die, .outer = outer};
	if (function->nr)
		node->scope.outer = &function->nodes[outer]->scope;
	function->nodes[function->nr++] = node;
	return true;
}

/* What is inlined in it. */
static void function_read(struct debug_functions *functions, struct function *function)
{
	uint32_t outer[MAX_DEPTH] = {0}; /* node that entries of each level are in */
	struct die_walk walk;
	struct die die;

	die_walk_begin(&walk, &function->die);
	while (die_walk_next_of(&walk, DIE_INLINED | DIE_BLOCK, &die)) {
		uint32_t inside = outer[walk.level];
		if (die_tag(&die) == DW_TAG_inlined_subroutine) {
			inside = function->nr;
			if (!function_add_node(functions, function, &die, outer[walk.level]) ||
			    !add_ranges(&function->ranges, &die, inside))
				return;
		}
		if (walk.level + 1 < MAX_DEPTH)
			outer[walk.level + 1] = inside;
		else
			die_walk_skip(&walk);
	}
}

static uint64_t find_highest(const struct function *function, size_t low, size_t high)
{
	if (low >= high)
		return 0;
	const size_t middle = low + (high - low) / 2;
	const uint64_t left = find_highest(function, low, middle), right = find_highest(function, middle + 1, high);
	const uint64_t sides = left > right ? left : right, here = function->ranges.at[middle].high;
	return function->highest[middle] = here > sides ? here : sides;
}

/* The ranges of a function may be many, and addresses in it, too. */
static void sort_ranges(struct function *function)
{
	struct ranges *ranges = &function->ranges;

	if (!ranges->nr)
		return;
	function->highest = calloc(ranges->nr, sizeof(*function->highest));
	if (!function->highest) {
		ranges->nr = 0;
		return;
	}
	qsort(ranges->at, ranges->nr, sizeof(*ranges->at), range_compare);
	find_highest(function, 0, ranges->nr);
}

/* Nodes with ranges at an address. */
struct nodes_at {
	uint32_t of[MAX_AT_ADDRESS];
	unsigned nr;
};

/* Those of a part of the ranges, each behind those before it in the tree. */
static void find_nodes(const struct function *function, size_t low, size_t high, uint64_t address, struct nodes_at *ret)
{
	while (low < high && ret->nr < MAX_AT_ADDRESS) {
		const size_t middle = low + (high - low) / 2;
		const struct range *range = &function->ranges.at[middle];
		if (function->highest[middle] <= address)
			return;
		find_nodes(function, low, middle, address, ret);
		if (range->low > address)
			return;
		if (address < range->high && ret->nr < MAX_AT_ADDRESS) {
			unsigned at = ret->nr++;
			for (; at && ret->of[at - 1] > range->of; at--)
				ret->of[at] = ret->of[at - 1];
			ret->of[at] = range->of;
		}
		low = middle + 1;
	}
}

static bool is_within(const struct function *function, uint32_t node, uint32_t outer)
{
	do
		node = function->nodes[node]->outer; /* less than before */
	while (node > outer);
	return node == outer;
}

/* Inwards. Compilers write empty ranges for nodes with others in them: not each step has to have the address. */
static uint32_t innermost_node(struct function *function, uint64_t address)
{
	struct ranges *ranges = &function->ranges;
	struct nodes_at nodes;
	uint32_t found = 0;

	if (function->nr_lookups < FEW_LOOKUPS) {
		function->nr_lookups++;
		for (size_t i = 0; i < ranges->nr; i++) {
			const struct range *range = &ranges->at[i];
			if (address >= range->low && address < range->high && is_within(function, range->of, found))
				found = range->of;
		}
		return found;
	}
	if (!function->highest)
		sort_ranges(function);
	nodes.nr = 0;
	find_nodes(function, 0, ranges->nr, address, &nodes);
	for (unsigned i = 0; i < nodes.nr; i++)
		if (is_within(function, nodes.of[i], found))
			found = nodes.of[i];
	return found;
}

struct scope *debug_functions_find(struct debug_functions *functions, struct dwarf_unit *its, uint64_t address)
{
	struct unit *unit = unit_of(functions, its);
	struct function *function = unit ? unit_function(unit, address) : NULL;

	if (!function)
		return NULL;
	if (!function->read && function_add_node(functions, function, &function->die, 0))
		function_read(functions, function);
	function->read = true;
	if (!function->nr)
		return NULL;
	uint32_t found = innermost_node(function, address);
	for (uint32_t at = found; at; at = function->nodes[at]->outer) {
		struct node *node = function->nodes[at];
		if (!node->named)
			node->scope.name = die_name(&functions->names, &node->die);
		node->named = true;
	}
	return &function->nodes[found]->scope;
}

bool debug_functions_are_elsewhere(struct debug_functions *functions, struct dwarf_unit *its)
{
	const struct unit *unit = unit_of(functions, its);

	return unit && unit->is_elsewhere && !unit->ranges.nr;
}

bool debug_functions_call_site(const struct scope *inlined, uint64_t *ret_file, unsigned *ret_line)
{
	const struct node *node = (const struct node *)inlined; /* its first member */
	struct die_attr attr;
	uint64_t file, line;

	if (!die_attr(&node->die, DW_AT_call_file, &attr) || !die_attr_number(&attr, &file) ||
	    !die_attr(&node->die, DW_AT_call_line, &attr) || !die_attr_number(&attr, &line))
		return false;
	*ret_file = file;
	*ret_line = (unsigned)line;
	return true;
}
