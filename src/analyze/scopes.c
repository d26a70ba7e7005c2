/* SPDX-License-Identifier: MIT */
#include "analyze/scopes.h"

#include <dwarf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "analyze/pool.h"

enum {
	NR_CHAINS = 256,
	MAX_DEPTH = 256,        /* of what is nested: debug information may be hostile */
	MAX_RANGES = 1 << 22,   /* of one unit or function */
	MAX_OVERLAPPING = 8,    /* functions that begin before an address and after the one it is in */
};

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
	struct scope scope;
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
	struct unit *next;
	const void *addr; /* where its description is: no two have it in common */
	struct function *functions;
	size_t nr, room;
	struct ranges ranges; /* of the functions, by their start */
};

struct scopes {
	struct unit *units[NR_CHAINS];
	struct pool pool; /* units and nodes */
};

struct scopes *scopes_new(void)
{
	return calloc(1, sizeof(struct scopes));
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

void scopes_free(struct scopes *scopes)
{
	if (!scopes)
		return;
	for (size_t i = 0; i < NR_CHAINS; i++)
		for (struct unit *unit = scopes->units[i]; unit; unit = unit->next)
			unit_fini(unit);
	pool_fini(&scopes->pool);
	free(scopes);
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
static bool add_ranges(struct ranges *ranges, Dwarf_Die *die, uint32_t of)
{
	struct range range = {.of = of};
	Dwarf_Addr base;
	ptrdiff_t offset = 0;

	while ((offset = dwarf_ranges(die, offset, &base, &range.low, &range.high)) > 0)
		if (range.low < range.high && !ranges_add(ranges, &range))
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
	if (!add_ranges(&unit->ranges, die, (uint32_t)unit->nr))
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
		if (holds_functions(tag))
			unit_read(unit, &die, depth + 1);
		else if (tag == DW_TAG_subprogram && !unit_add_function(unit, &die))
			return;
	} while (dwarf_siblingof(&die, &die) == 0);
}

static int range_compare(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->low != y->low)
		return x->low < y->low ? -1 : 1;
	return x->of < y->of ? -1 : x->of > y->of;
}

/* NULL: out of memory. */
static struct unit *unit_of(struct scopes *scopes, Dwarf_Die *die)
{
	struct unit **chain = &scopes->units[(uintptr_t)die->addr * 0x9e3779b1u / 64 % NR_CHAINS];

	for (struct unit *unit = *chain; unit; unit = unit->next)
		if (unit->addr == die->addr)
			return unit;
	struct unit *unit = pool_take(&scopes->pool, sizeof(*unit));
	if (!unit)
		return NULL;
	unit->addr = die->addr;
	unit_read(unit, die, 0);
	if (unit->ranges.nr)
		qsort(unit->ranges.at, unit->ranges.nr, sizeof(*unit->ranges.at), range_compare);
	unit->next = *chain;
	return *chain = unit;
}

/* NULL: none. */
static struct function *unit_function(struct unit *unit, Dwarf_Addr address)
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

static bool function_add_node(struct scopes *scopes, struct function *function, Dwarf_Die *die, uint32_t outer)
{
	if (function->nr == function->room) {
		uint32_t room = function->room ? function->room * 2 : 4;
		struct node **nodes =
			room <= MAX_RANGES ? reallocarray(function->nodes, room, sizeof(*nodes)) : NULL;
		if (!nodes)
			return false;
		function->nodes = nodes;
		function->room = room;
	}
	struct node *node = pool_take(&scopes->pool, sizeof(*node));
	if (!node)
		return false;
	*node = (struct node){.die = *die, .outer = outer};
	if (function->nr)
		node->scope.outer = &function->nodes[outer]->scope;
	function->nodes[function->nr++] = node;
	return true;
}

/* What is inlined in `parent`, a part of the node `outer`. false: out of room. */
static bool function_read(struct scopes *scopes, struct function *function, Dwarf_Die *parent, uint32_t outer,
			  unsigned depth)
{
	Dwarf_Die die;

	if (depth == MAX_DEPTH || dwarf_child(parent, &die))
		return true;
	do {
		int tag = dwarf_tag(&die);
		uint32_t inside = outer;
		if (tag == DW_TAG_inlined_subroutine) {
			inside = function->nr;
			if (!function_add_node(scopes, function, &die, outer) ||
			    !add_ranges(&function->ranges, &die, inside))
				return false;
		} else if (tag != DW_TAG_lexical_block && tag != DW_TAG_try_block && tag != DW_TAG_catch_block &&
			   tag != DW_TAG_with_stmt) {
			continue;
		}
		if (!function_read(scopes, function, &die, inside, depth + 1))
			return false;
	} while (dwarf_siblingof(&die, &die) == 0);
	return true;
}

static const char *die_name(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
	    dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute) ||
	    dwarf_attr_integrate(die, DW_AT_name, &attribute))
		return dwarf_formstring(&attribute);
	return NULL;
}

static void name_scopes(struct node **nodes, uint32_t at)
{
	for (;; at = nodes[at]->outer) {
		struct node *node = nodes[at];
		if (!node->named)
			node->scope.name = die_name(&node->die);
		node->named = true;
		if (!at)
			return;
	}
}

struct scope *scopes_find(struct scopes *scopes, Dwarf_Die *die, Dwarf_Addr address)
{
	struct unit *unit = unit_of(scopes, die);
	struct function *function = unit ? unit_function(unit, address) : NULL;

	if (!function)
		return NULL;
	if (!function->read && function_add_node(scopes, function, &function->die, 0))
		function_read(scopes, function, &function->die, 0, 0);
	function->read = true;
	if (!function->nr)
		return NULL;
	/* Inwards: those that are in another part than where we are do not count. */
	uint32_t found = 0;
	for (size_t i = 0; i < function->ranges.nr; i++) {
		const struct range *range = &function->ranges.at[i];
		if (address >= range->low && address < range->high && function->nodes[range->of]->outer == found)
			found = range->of;
	}
	name_scopes(function->nodes, found);
	return &function->nodes[found]->scope;
}
