/* SPDX-License-Identifier: MIT */
#include "analyze/symbols/debug_functions.h"

#include <dwarf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/hash_table.h"
#include "base/pool.h"

/* Debug information may be hostile. */
enum {
	MAX_DEPTH = 256,       /* of nested functions and blocks */
	MAX_RANGES = 1 << 22,  /* of one unit or function */
	VISITS_PER_BYTE = 8,   /* of entries and ranges, which have at least one byte */
	VISITS_MORE = 1 << 20, /* of any object; and of each that is in a .dwo file: */
	VISITS_SPLIT = 1 << 26,
	MAX_OVERLAPPING = 8,      /* functions that begin before an address and after the one it is in */
	MAX_NESTED = 64,          /* namespaces and classes in a name */
	MAX_ORIGINS = 16,         /* steps from a description to the one with the name */
	MAX_NAME_BYTES = 1 << 16, /* longer ones go without their namespaces */
	MAX_PARENTS = 1 << 22,    /* of one unit */
};

/* A DIE with children. libdw does not find the parent of a DIE, so those on the way to a wanted one are kept. */
struct parent {
	struct parent *up;
	Dwarf_Die die;
	Dwarf_Off start, end; /* end: of all that is in it, exclusive */
	bool read;            /* children are known */
	uint32_t nr, room;
	struct parent *children; /* those that have children themselves, by start */
};

struct name_unit {
	uint32_t parents;
	struct parent root;
};

struct die_names {
	struct hash_table units; /* struct name_unit by Dwarf_CU */
	struct pool pool;        /* units and names */
	uint64_t *visits;        /* that are left */
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

/* NULL: out of memory, or it cannot be read. */
static struct name_unit *name_unit_of(struct die_names *names, Dwarf_Die *die)
{
	struct name_unit *unit = hash_table_find_item(&names->units, (uintptr_t)die->cu);
	Dwarf_Die root;

	if (unit || !dwarf_diecu(die, &root, NULL, NULL))
		return unit;
	unit = pool_take(&names->pool, sizeof(*unit));
	if (!unit || hash_table_add(&names->units, (uintptr_t)die->cu, unit))
		return NULL;
	unit->root = (struct parent){.die = root, .start = dwarf_dieoffset(&root), .end = (Dwarf_Off)-1};
	return unit;
}

/* false: no room for it. */
static bool parent_add(struct name_unit *unit, struct parent *parent, Dwarf_Die *die, Dwarf_Off start)
{
	if (parent->nr == parent->room) {
		uint32_t room = parent->room ? parent->room * 2 : 8;
		struct parent *children = reallocarray(parent->children, room, sizeof(*children));
		if (!children)
			return false;
		parent->children = children;
		parent->room = room;
	}
	if (unit->parents++ == MAX_PARENTS)
		return false;
	parent->children[parent->nr++] = (struct parent){.up = parent, .die = *die, .start = start, .end = parent->end};
	return true;
}

/* false: more was looked at than a compiler writes. */
static bool visit(uint64_t *left)
{
	return *left && --*left;
}

/* Once, so that `up` of grandchildren stays valid. */
static void parent_read(struct die_names *names, struct name_unit *unit, struct parent *parent)
{
	struct parent *last = NULL; /* child whose end is the start of the next one */
	Dwarf_Die die;

	parent->read = true;
	if (dwarf_child(&parent->die, &die))
		return;
	do {
		Dwarf_Off start = dwarf_dieoffset(&die);
		if (last)
			last->end = start;
		last = NULL;
		if (!visit(names->visits))
			return;
		if (!dwarf_haschildren(&die))
			continue;
		if (!parent_add(unit, parent, &die, start))
			return;
		last = &parent->children[parent->nr - 1];
	} while (dwarf_siblingof(&die, &die) == 0);
}

/* The one in which `at` is; NULL: none. */
static struct parent *parent_child(struct parent *parent, Dwarf_Off at)
{
	uint32_t low = 0, high = parent->nr;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (parent->children[middle].start < at)
			low = middle + 1;
		else
			high = middle;
	}
	struct parent *child = low ? &parent->children[low - 1] : NULL;
	return child && at < child->end ? child : NULL;
}

/* What the DIE is in. NULL: as name_unit_of(). */
static struct parent *parent_of(struct die_names *names, Dwarf_Die *die)
{
	struct name_unit *unit = name_unit_of(names, die);
	struct parent *found = NULL, *child = unit ? &unit->root : NULL;
	Dwarf_Off at = dwarf_dieoffset(die);

	for (unsigned depth = 0; child && depth < MAX_NESTED; depth++) {
		found = child;
		if (!found->read)
			parent_read(names, unit, found);
		child = parent_child(found, at);
	}
	return found;
}

/* Where the declaration is: code, and what is defined outside of its namespace, refer to it. */
static Dwarf_Die declaration_of(const Dwarf_Die *die)
{
	Dwarf_Die at = *die, next;
	Dwarf_Attribute attribute;

	for (unsigned i = 0; i < MAX_ORIGINS; i++) {
		if (!dwarf_attr(&at, DW_AT_abstract_origin, &attribute) &&
		    !dwarf_attr(&at, DW_AT_specification, &attribute))
			break;
		if (!dwarf_formref_die(&attribute, &next))
			break;
		at = next;
	}
	return at;
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
static void put_parents(struct die_names *names, const Dwarf_Die *die, unsigned depth, struct buf *out)
{
	Dwarf_Die declared = declaration_of(die);
	struct parent *parent = parent_of(names, &declared);
	bool in_class = is_class(dwarf_tag(&declared));

	for (; parent && parent->up && depth < MAX_NESTED; parent = parent->up) {
		int tag = dwarf_tag(&parent->die);
		/* A function counts for the classes in it, not for functions that are only declared there. */
		if (tag != DW_TAG_namespace && tag != DW_TAG_module && !is_class(tag) &&
		    !(tag == DW_TAG_subprogram && in_class))
			continue;
		Dwarf_Die its = declaration_of(&parent->die);
		const char *name = dwarf_diename(&its);
		put_parents(names, &parent->die, depth + 1, out);
		buf_put_text(out, name ? name : unnamed(tag));
		buf_put_text(out, "::");
		return;
	}
}

static const char *linkage_name(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
	    dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
		return dwarf_formstring(&attribute);
	return NULL;
}

static const char *die_name(struct die_names *names, Dwarf_Die *function)
{
	const char *linkage = linkage_name(function);
	Dwarf_Attribute attribute;
	AUTO_BUF struct buf text = {0};

	if (linkage)
		return linkage;
	const char *name = dwarf_attr_integrate(function, DW_AT_name, &attribute) ? dwarf_formstring(&attribute) : NULL;
	if (!name)
		return NULL;
	put_parents(names, function, 0, &text);
	if (!text.len || text.len > MAX_NAME_BYTES)
		return name;
	buf_put_text(&text, name);
	return text.failed ? name : pool_text(&names->pool, (const char *)text.data, text.len);
}

struct range {
	Dwarf_Addr low, high; /* high exclusive */
	uint32_t of;          /* which of the functions or nodes it belongs to */
};

struct ranges {
	struct range *at;
	size_t nr, room;
};

/* A scope, and what is needed to find it. */
struct node {
	struct scope scope; /* first */
	Dwarf_Die die;
	uint32_t outer;
	bool named; /* scope.name was looked for */
};

struct function {
	Dwarf_Die die;
	bool read;
	struct node **nodes; /* [0] is the function; in the order of the tree: outer ones come first */
	uint32_t nr, room;
	struct ranges ranges; /* of nodes from 1, likewise */
};

struct unit {
	Dwarf_Die root; /* of the .dwo, where it was a skeleton */
	struct function *functions;
	size_t nr, room;
	struct ranges ranges; /* of the functions, by their start */
	bool inner;           /* functions inside of functions and classes were read, too */
	uint64_t *visits;     /* that are left */
};

struct debug_functions {
	struct hash_table units; /* struct unit by where its root DIE is in memory */
	struct pool pool;        /* units and nodes */
	struct die_names names;
	char *const *directories;
	uint64_t visits; /* that are left */
};

struct debug_functions *debug_functions_new(char *const directories[2], uint64_t bytes)
{
	struct debug_functions *functions = calloc(1, sizeof(*functions));

	if (!functions)
		return NULL;
	functions->directories = directories;
	functions->visits = bytes * VISITS_PER_BYTE + VISITS_MORE;
	functions->names.visits = &functions->visits;
	return functions;
}

static void unit_fini(struct unit *unit)
{
	for (size_t i = 0; i < unit->nr; i++) {
		free(unit->functions[i].nodes);
		free(unit->functions[i].ranges.at);
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
	if (ranges->nr == ranges->room) {
		size_t room = ranges->room ? ranges->room * 2 : 16;
		struct range *at = room <= MAX_RANGES ? reallocarray(ranges->at, room, sizeof(*at)) : NULL;
		if (!at)
			return false;
		ranges->at = at;
		ranges->room = room;
	}
	ranges->at[ranges->nr++] = *range;
	return true;
}

/* Where the code of a description is. false: no room for it. */
static bool add_ranges(struct unit *unit, struct ranges *ranges, Dwarf_Die *die, uint32_t of)
{
	struct range range = {.of = of};
	Dwarf_Addr base;
	ptrdiff_t offset = 0;

	while ((offset = dwarf_ranges(die, offset, &base, &range.low, &range.high)) > 0)
		if (!visit(unit->visits) || (range.low < range.high && !ranges_add(ranges, &range)))
			return false;
	return true;
}

/* Descriptions without code of their own that may hold functions. */
static bool holds_functions(int tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_module;
}

static bool unit_add_function(struct unit *unit, Dwarf_Die *die)
{
	size_t before = unit->ranges.nr;

	if (unit->nr == unit->room) {
		size_t room = unit->room ? unit->room * 2 : 16;
		struct function *functions =
			room <= MAX_RANGES ? reallocarray(unit->functions, room, sizeof(*functions)) : NULL;
		if (!functions)
			return false;
		unit->functions = functions;
		unit->room = room;
	}
	if (!add_ranges(unit, &unit->ranges, die, (uint32_t)unit->nr))
		return false;
	if (unit->ranges.nr > before) /* else it is a declaration, or was inlined everywhere */
		unit->functions[unit->nr++] = (struct function){.die = *die};
	return true;
}

static void unit_read(struct unit *unit, Dwarf_Die *parent, unsigned depth)
{
	Dwarf_Die die;

	if (depth == MAX_DEPTH || dwarf_child(parent, &die))
		return;
	do {
		int tag = dwarf_tag(&die);
		if (!visit(unit->visits))
			return;
		if (holds_functions(tag))
			unit_read(unit, &die, depth + 1);
		else if (tag == DW_TAG_subprogram && !unit_add_function(unit, &die))
			return;
	} while (dwarf_siblingof(&die, &die) == 0);
}

/* Descriptions with functions that unit_read() leaves out: of lambdas and local classes, say. */
static bool holds_inner_functions(int tag)
{
	return tag == DW_TAG_subprogram || tag == DW_TAG_lexical_block || tag == DW_TAG_class_type ||
	       tag == DW_TAG_structure_type || tag == DW_TAG_union_type || tag == DW_TAG_enumeration_type;
}

static void unit_read_inner(struct unit *unit, Dwarf_Die *parent, bool inside, unsigned depth)
{
	Dwarf_Die die;

	if (depth == MAX_DEPTH || dwarf_child(parent, &die))
		return;
	do {
		int tag = dwarf_tag(&die);
		bool inner = holds_inner_functions(tag);
		if (!visit(unit->visits))
			return;
		if (inside && tag == DW_TAG_subprogram && !unit_add_function(unit, &die))
			return;
		if (inner || holds_functions(tag))
			unit_read_inner(unit, &die, inner, depth + 1);
	} while (dwarf_siblingof(&die, &die) == 0);
}

static int range_compare(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->low != y->low)
		return x->low < y->low ? -1 : 1;
	return x->of < y->of ? -1 : x->of > y->of;
}

static void unit_sort(struct unit *unit)
{
	if (unit->ranges.nr)
		qsort(unit->ranges.at, unit->ranges.nr, sizeof(*unit->ranges.at), range_compare);
}

static const char *die_text(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;

	return dwarf_attr(die, name, &attribute) ? dwarf_formstring(&attribute) : NULL;
}

/* What can be opened without a side effect and without waiting, or is not there. */
static bool is_harmless(const char *directory, const char *between, const char *name)
{
	AUTO_FREE char *path = NULL;
	struct stat status;

	if (asprintf(&path, "%s/%s/%s", directory, between, name) < 0) {
		path = NULL;
		return false;
	}
	return stat(path, &status) || S_ISREG(status.st_mode);
}

/* libdw opens all the places where the .dwo file could be, and would wait for a writer of a fifo. */
static bool split_is_harmless(const struct debug_functions *functions, Dwarf_Die *skeleton)
{
	const char *name = die_text(skeleton, DW_AT_dwo_name), *directory = die_text(skeleton, DW_AT_comp_dir);

	if (!name)
		name = die_text(skeleton, DW_AT_GNU_dwo_name);
	if (!name)
		return false;
	if (name[0] == '/')
		return is_harmless("", "", name);
	if (directory && directory[0] == '/' && !is_harmless(directory, "", name))
		return false;
	for (unsigned i = 0; i < 2; i++)
		if (functions->directories[i] &&
		    (!is_harmless(functions->directories[i], "", name) ||
		     !is_harmless(functions->directories[i], directory ? directory : "", name)))
			return false;
	return true;
}

/* The compiler can put all but the addresses and lines of a unit into a file of its own. */
static Dwarf_Die unit_root(const struct debug_functions *functions, Dwarf_Die *die)
{
	uint8_t type = DW_UT_compile;
	Dwarf_Die split;

	dwarf_cu_info(die->cu, NULL, &type, NULL, NULL, NULL, NULL, NULL);
	if (type == DW_UT_skeleton && split_is_harmless(functions, die) &&
	    dwarf_cu_info(die->cu, NULL, NULL, NULL, &split, NULL, NULL, NULL) == 0 && split.addr)
		return split;
	return *die;
}

/* NULL: out of memory. */
static struct unit *unit_of(struct debug_functions *functions, Dwarf_Die *die)
{
	struct unit *unit = hash_table_find_item(&functions->units, (uintptr_t)die->addr);

	if (unit)
		return unit;
	unit = pool_take(&functions->pool, sizeof(*unit));
	if (!unit || hash_table_add(&functions->units, (uintptr_t)die->addr, unit))
		return NULL;
	unit->root = unit_root(functions, die);
	unit->visits = &functions->visits;
	if (unit->root.addr != die->addr)
		functions->visits += VISITS_SPLIT;
	unit_read(unit, &unit->root, 0);
	unit_sort(unit);
	return unit;
}

/* NULL: none. */
static struct function *unit_search(struct unit *unit, Dwarf_Addr address)
{
	const struct range *ranges = unit->ranges.at;
	size_t low = 0, high = unit->ranges.nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (ranges[middle].low <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t i = low; i > 0 && low - i < MAX_OVERLAPPING; i--)
		if (address < ranges[i - 1].high)
			return &unit->functions[ranges[i - 1].of];
	return NULL;
}

/* As unit_search(). Most addresses are in functions that are not inside of others. */
static struct function *unit_function(struct unit *unit, Dwarf_Addr address)
{
	struct function *found = unit_search(unit, address);

	if (found || unit->inner)
		return found;
	unit->inner = true;
	unit_read_inner(unit, &unit->root, false, 0);
	unit_sort(unit);
	return unit_search(unit, address);
}

static bool function_add_node(struct debug_functions *functions, struct function *function, Dwarf_Die *die,
			      uint32_t outer)
{
	if (function->nr == function->room) {
		uint32_t room = function->room ? function->room * 2 : 4;
		struct node **nodes = room <= MAX_RANGES ? reallocarray(function->nodes, room, sizeof(*nodes)) : NULL;
		if (!nodes)
			return false;
		function->nodes = nodes;
		function->room = room;
	}
	struct node *node = pool_take(&functions->pool, sizeof(*node));
	if (!node)
		return false;
	*node = (struct node){.die = *die, .outer = outer};
	if (function->nr)
		node->scope.outer = &function->nodes[outer]->scope;
	function->nodes[function->nr++] = node;
	return true;
}

/* What is inlined in `parent`, a part of the node `outer`. false: out of room. */
static bool function_read(struct debug_functions *functions, struct unit *unit, struct function *function,
			  Dwarf_Die *parent, uint32_t outer, unsigned depth)
{
	Dwarf_Die die;

	if (depth == MAX_DEPTH || dwarf_child(parent, &die))
		return true;
	do {
		int tag = dwarf_tag(&die);
		uint32_t inside = outer;
		if (!visit(unit->visits))
			return false;
		if (tag == DW_TAG_inlined_subroutine) {
			inside = function->nr;
			if (!function_add_node(functions, function, &die, outer) ||
			    !add_ranges(unit, &function->ranges, &die, inside))
				return false;
		} else if (tag != DW_TAG_lexical_block && tag != DW_TAG_try_block && tag != DW_TAG_catch_block &&
			   tag != DW_TAG_with_stmt) {
			continue;
		}
		if (!function_read(functions, unit, function, &die, inside, depth + 1))
			return false;
	} while (dwarf_siblingof(&die, &die) == 0);
	return true;
}

static bool is_within(const struct function *function, uint32_t node, uint32_t outer)
{
	do
		node = function->nodes[node]->outer; /* less than before */
	while (node > outer);
	return node == outer;
}

struct scope *debug_functions_find(struct debug_functions *functions, Dwarf_Die *die, Dwarf_Addr address)
{
	struct unit *unit = unit_of(functions, die);
	struct function *function = unit ? unit_function(unit, address) : NULL;

	if (!function)
		return NULL;
	if (!function->read && function_add_node(functions, function, &function->die, 0))
		function_read(functions, unit, function, &function->die, 0, 0);
	function->read = true;
	if (!function->nr)
		return NULL;
	/*
	 * Inwards. Compilers write empty ranges for nodes with others in them: not each step has to have the address.
	 */
	uint32_t found = 0;
	for (size_t i = 0; i < function->ranges.nr; i++) {
		const struct range *range = &function->ranges.at[i];
		if (address >= range->low && address < range->high && is_within(function, range->of, found))
			found = range->of;
	}
	for (uint32_t at = found; at; at = function->nodes[at]->outer) {
		struct node *node = function->nodes[at];
		if (!node->named)
			node->scope.name = die_name(&functions->names, &node->die);
		node->named = true;
	}
	return &function->nodes[found]->scope;
}

bool debug_functions_call_site(const struct scope *inlined, uint64_t *ret_file, unsigned *ret_line)
{
	struct node *node = (struct node *)inlined; /* its first member */
	Dwarf_Attribute attribute;
	Dwarf_Word file, line;

	if (!dwarf_attr(&node->die, DW_AT_call_file, &attribute) || dwarf_formudata(&attribute, &file) ||
	    !dwarf_attr(&node->die, DW_AT_call_line, &attribute) || dwarf_formudata(&attribute, &line))
		return false;
	*ret_file = file;
	*ret_line = (unsigned)line;
	return true;
}
