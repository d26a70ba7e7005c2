/* SPDX-License-Identifier: MIT */
#include "analyze/symbols/symbols.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/rbtree.h"

enum {
	PAGE = 4096, /* what perf rounds the end of a last symbol to */
	DIGIT_BITS = 11,
	DIGIT_VALUES = 1 << DIGIT_BITS,
	DEMANGLE_GROWTH = 8, /* most readable names have two or three times the bytes */
};

static void spans_free(struct symbols *symbols)
{
	free(symbols->span_starts);
	free(symbols->span_entries);
	free(symbols->span_index);
	symbols->span_starts = NULL;
	symbols->span_entries = NULL;
	symbols->span_index = NULL;
	symbols->nr_spans = symbols->last = 0;
}

void symbols_fini(struct symbols *symbols)
{
	pool_fini(&symbols->pool);
	free(symbols->entries);
	free(symbols->names);
	free(symbols->found);
	spans_free(symbols);
	*symbols = (struct symbols){0};
}

static int name_add(struct symbols *symbols, const char *name, size_t len, uint32_t *ret)
{
	size_t at = symbols->names_bytes, room = symbols->names_room ? symbols->names_room : 4096;

	if (at + len + 1 > UINT32_MAX)
		return -ENOMEM;
	while (room - at <= len)
		room *= 2;
	if (room != symbols->names_room) {
		char *names = realloc(symbols->names, room);
		if (!names)
			return -ENOMEM;
		symbols->names = names;
		symbols->names_room = room;
	}
	memcpy(symbols->names + at, name, len);
	symbols->names[at + len] = '\0';
	symbols->names_bytes += len + 1;
	*ret = (uint32_t)at;
	return 0;
}

const char *symbols_name(const struct symbols *symbols, const struct symbol_entry *entry)
{
	return symbols->names + entry->name;
}

int symbols_add_names(struct symbols *symbols, const char *names, size_t bytes, uint32_t *ret)
{
	return name_add(symbols, names, bytes, ret);
}

int symbols_take_names(struct symbols *symbols, struct buf *names, uint32_t *ret)
{
	if (symbols->names || names->failed || names->len > UINT32_MAX) {
		int err = buf_status(names);
		if (!err)
			err = name_add(symbols, (const char *)names->data, names->len, ret);
		buf_fini(names);
		return err;
	}
	symbols->names = (char *)names->data;
	symbols->names_bytes = names->len;
	symbols->names_room = names->room;
	*names = (struct buf){0};
	*ret = 0;
	return 0;
}

int symbols_add_named(struct symbols *symbols, uint64_t start, uint64_t size, enum symbol_binding binding,
		      uint32_t name)
{
	struct symbol_entry entry = {
		.start = start, .end = start + size, .name = name, .binding = binding, .sized = size != 0};

	if (array_room_up_to(symbols->entries, symbols->nr, symbols->room, SYMBOLS_MAX))
		return -ENOMEM;
	if (entry.end < start)
		entry.end = UINT64_MAX;
	entry.mangled = !symbols->no_demangle;
	entry.added = ++symbols->clock;
	symbols->entries[symbols->nr++] = entry;
	return 0;
}

int symbols_add(struct symbols *symbols, uint64_t start, uint64_t size, enum symbol_binding binding, const char *name,
		size_t name_len)
{
	uint32_t at;

	if (array_room_up_to(symbols->entries, symbols->nr, symbols->room, SYMBOLS_MAX) ||
	    name_add(symbols, name, name_len, &at))
		return -ENOMEM;
	return symbols_add_named(symbols, start, size, binding, at);
}

static int entry_compare(const void *a, const void *b)
{
	const struct symbol_entry *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->added < y->added ? -1 : x->added > y->added;
}

/* Most tables come so, and sorting takes as much memory again. */
static bool is_sorted(const struct symbols *symbols)
{
	for (size_t i = 1; i < symbols->nr; i++)
		if (entry_compare(&symbols->entries[i - 1], &symbols->entries[i]) > 0)
			return false;
	return true;
}

/* By one digit of `start`, which is counted first; entries that are equal in it keep their order. */
static void sort_digit(const struct symbol_entry *from, size_t nr, unsigned shift, struct symbol_entry *to)
{
	uint32_t places[DIGIT_VALUES] = {0}, place = 0;

	for (size_t i = 0; i < nr; i++)
		places[from[i].start >> shift & (DIGIT_VALUES - 1)]++;
	for (unsigned i = 0; i < DIGIT_VALUES; i++) {
		uint32_t count = places[i];
		places[i] = place;
		place += count;
	}
	for (size_t i = 0; i < nr; i++)
		to[places[from[i].start >> shift & (DIGIT_VALUES - 1)]++] = from[i];
}

/*
 * As qsort(3) with entry_compare(), at a fifth of its cost, which is most of reading a symbol table: three passes, as
 * addresses differ in few bits. Of one address those that were added first come first in the array, too.
 */
static void sort_entries(struct symbols *symbols)
{
	struct symbol_entry *from = symbols->entries, *to = NULL;
	uint64_t differing = 0;

	if (symbols->nr >= DIGIT_VALUES)
		to = reallocarray(NULL, symbols->room, sizeof(*to));
	if (!to) {
		qsort(symbols->entries, symbols->nr, sizeof(*symbols->entries), entry_compare);
		return;
	}
	for (size_t i = 1; i < symbols->nr; i++)
		differing |= from[i].start ^ from[0].start;
	for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS) {
		if (!(differing >> shift & (DIGIT_VALUES - 1)))
			continue;
		sort_digit(from, symbols->nr, shift, to);
		struct symbol_entry *sorted = to;
		to = from;
		from = sorted;
	}
	symbols->entries = from;
	free(to);
}

/* Names may overlap in the file, so that each of many symbols has a long one: no more than this is looked at. */
static size_t name_len(const char *name)
{
	return strnlen(name, SYMBOL_NAME_MAX + 1);
}

/* Whether it is that of a PLT entry: then the name of what that jumps to is `text`, of `room` bytes. */
static bool is_plt_name(const char *name, char *text, size_t room)
{
	size_t mark = strlen(SYMBOL_PLT), len = strnlen(name, room + mark);

	if (len < mark || len - mark >= room || strcmp(name + len - mark, SYMBOL_PLT) != 0)
		return false;
	memcpy(text, name, len - mark);
	text[len - mark] = '\0';
	return true;
}

/* All names together may take a multiple of what they have in the file, where many symbols may share one. */
static bool may_demangle(const struct symbols *symbols)
{
	const uint64_t names_bytes = symbols->names_bytes - symbols->readable_bytes;

	return symbols->demangled < SYMBOLS_DEMANGLE_BYTES + names_bytes * DEMANGLE_GROWTH;
}

/* NULL: as symbol_demangle(). */
static char *demangle(struct symbols *symbols, const char *mangled)
{
	char *name = symbol_demangle(mangled);

	symbols->demangled += strlen(mangled) + (name ? strlen(name) : 0);
	if (!name && mangled[0] == '_') /* perhaps as long as that, and in vain */
		symbols->demangled += SYMBOL_NAME_MAX;
	return name;
}

static void entry_demangle(struct symbols *symbols, struct symbol_entry *entry)
{
	char target[SYMBOL_PLT_NAME_BYTES], whole[SYMBOL_PLT_NAME_BYTES];
	uint32_t at;

	if (!entry->mangled)
		return;
	entry->mangled = false;
	if (name_len(symbols_name(symbols, entry)) > SYMBOL_NAME_MAX)
		return;
	bool is_plt = is_plt_name(symbols_name(symbols, entry), target, sizeof(target));
	const char *mangled = is_plt ? target : symbols_name(symbols, entry);
	if (!symbol_is_mangled(mangled) || !may_demangle(symbols))
		return;
	char *name = demangle(symbols, mangled);
	if (name && is_plt)
		snprintf(whole, sizeof(whole), "%s" SYMBOL_PLT, name);
	const char *readable = is_plt ? whole : name;
	const size_t before = symbols->names_bytes;
	if (name && !name_add(symbols, readable, strlen(readable), &at))
		entry->name = at;
	symbols->readable_bytes += symbols->names_bytes - before;
	free(name);
}

static uint64_t page_round_up(uint64_t address)
{
	return (address + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

/* Where the section with that address ends; `*at` is a section before it, or 0. UINT64_MAX: it is in none. */
static uint64_t section_end(const struct symbols *symbols, uint64_t address, size_t *at)
{
	while (*at < symbols->nr_sections && symbols->sections[*at].end <= address)
		++*at;
	return *at < symbols->nr_sections && symbols->sections[*at].start <= address ? symbols->sections[*at].end
										     : UINT64_MAX;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * A symbol without a size reaches up to the next one in its section, or to the end of that; of several at one address
 * so only the last gets an end.
 */
static void fix_ends(struct symbols *symbols)
{
	struct symbol_entry *last = NULL;
	size_t section = 0;

	for (size_t i = 0; i < symbols->nr; i++) {
		struct symbol_entry *entry = &symbols->entries[i];
		if (entry->dropped)
			continue;
		if (last && last->end == last->start)
			last->end = least(entry->start, section_end(symbols, last->start, &section));
		last = entry;
	}
	if (last && last->end == last->start)
		last->end = least(page_round_up(last->start) + PAGE, section_end(symbols, last->start, &section));
}

static size_t leading_underscores(const char *name)
{
	size_t nr = 0;

	while (nr <= SYMBOL_NAME_MAX && name[nr] == '_')
		nr++;
	return nr;
}

/*
 * Which of two symbols of one address is to be shown: true the first. The rules, in order, are perf's, but for the
 * first one.
 */
static bool first_is_better(const struct symbols *symbols, const struct symbol_entry *a, const struct symbol_entry *b)
{
	const char *a_name = symbols_name(symbols, a), *b_name = symbols_name(symbols, b);
	bool a_sized = a->end != a->start, b_sized = b->end != b->start;
	size_t a_len = name_len(a_name), b_len = name_len(b_name);

	if ((a_len > SYMBOL_NAME_MAX) != (b_len > SYMBOL_NAME_MAX))
		return b_len > SYMBOL_NAME_MAX;
	if (a_sized != b_sized)
		return a_sized;
	if ((a->binding == SYMBOL_WEAK) != (b->binding == SYMBOL_WEAK))
		return b->binding == SYMBOL_WEAK;
	if ((a->binding == SYMBOL_GLOBAL) != (b->binding == SYMBOL_GLOBAL))
		return a->binding == SYMBOL_GLOBAL;
	size_t a_count = leading_underscores(a_name), b_count = leading_underscores(b_name);
	if (a_count != b_count)
		return a_count < b_count;
	if (a_len != b_len)
		return a_len > b_len;
	/* Kernel aliases of system calls of one length. */
	return !(a_len >= 3 && strncmp(a_name, "SyS", 3) == 0) &&
	       !(a_len >= 10 && strncmp(a_name, "compat_SyS", 10) == 0);
}

/* One whose name is shown: of equals first_is_better() prefers any with a shorter name. */
static bool is_sized_function(const struct symbols *symbols, const struct symbol_entry *entry)
{
	return !entry->dropped && entry->end != entry->start &&
	       name_len(symbols_name(symbols, entry)) <= SYMBOL_NAME_MAX;
}

/*
 * A label where a function begins, as OCaml's code_begin, is no name of it. It has no size of its own, but would have
 * one by fix_ends().
 */
static void drop_labels_of_functions(struct symbols *symbols)
{
	for (size_t first = 0, end; first < symbols->nr; first = end) {
		const uint64_t start = symbols->entries[first].start;
		bool any_sized = false;
		for (end = first + 1; end < symbols->nr && symbols->entries[end].start == start;)
			end++;
		for (size_t i = first; end - first > 1 && i < end && !any_sized; i++)
			any_sized = is_sized_function(symbols, &symbols->entries[i]);
		for (size_t i = first; any_sized && i < end; i++) {
			struct symbol_entry *entry = &symbols->entries[i];
			if (!entry->dropped && entry->end == start)
				entry->dropped = ++symbols->clock;
		}
	}
}

static void drop_aliases(struct symbols *symbols)
{
	struct symbol_entry *best = NULL;

	for (size_t i = 0; i < symbols->nr; i++) {
		struct symbol_entry *entry = &symbols->entries[i];
		if (entry->dropped)
			continue;
		if (!best || best->start != entry->start) {
			best = entry;
			continue;
		}
		entry_demangle(symbols, best);
		entry_demangle(symbols, entry);
		struct symbol_entry *loser = first_is_better(symbols, best, entry) ? entry : best;
		loser->dropped = ++symbols->clock;
		best = loser == entry ? best : entry;
	}
}

void symbols_fixup(struct symbols *symbols, enum symbols_fixup_flags flags)
{
	if (!is_sorted(symbols))
		sort_entries(symbols);
	if (!(flags & SYMBOLS_KEEP_ALIASES)) {
		drop_labels_of_functions(symbols);
		fix_ends(symbols);
		drop_aliases(symbols);
	}
	symbols->one_name = flags & SYMBOLS_ONE_NAME;
	symbols->sections = NULL;
	symbols->nr_sections = 0;
	spans_free(symbols);
}

const struct symbol_entry *symbols_first(const struct symbols *symbols)
{
	for (size_t i = 0; i < symbols->nr; i++)
		if (!symbols->entries[i].dropped)
			return &symbols->entries[i];
	return NULL;
}

const struct symbol_entry *symbols_last(const struct symbols *symbols)
{
	for (size_t i = symbols->nr; i-- > 0;)
		if (!symbols->entries[i].dropped)
			return &symbols->entries[i];
	return NULL;
}

/* An address is inside a symbol without a size only when it is its start. */
static uint64_t entry_end(const struct symbol_entry *entry)
{
	return entry->end == entry->start && entry->start != UINT64_MAX ? entry->start + 1 : entry->end;
}

static bool overlap_anywhere(const struct symbols *symbols)
{
	const struct symbol_entry *last = NULL;

	for (size_t i = 0; i < symbols->nr; i++) {
		const struct symbol_entry *entry = &symbols->entries[i];
		if (entry->dropped)
			continue;
		if (last && entry->start < entry_end(last))
			return true;
		last = entry;
	}
	return false;
}

/* The entry by its number from 1 on; 0: none. */
static void span_append(struct symbols *symbols, uint64_t start, uint32_t entry)
{
	if (symbols->nr_spans && symbols->span_entries[symbols->nr_spans - 1] == entry)
		return;
	symbols->span_starts[symbols->nr_spans] = start;
	symbols->span_entries[symbols->nr_spans++] = entry;
}

static void spans_from_list(struct symbols *symbols)
{
	const struct symbol_entry *last = NULL;

	for (uint32_t i = 0; i < symbols->nr; i++) {
		const struct symbol_entry *entry = &symbols->entries[i];
		if (entry->dropped)
			continue;
		if (last && entry_end(last) < entry->start)
			span_append(symbols, entry_end(last), 0);
		span_append(symbols, entry->start, i + 1);
		last = entry;
	}
	if (last)
		span_append(symbols, entry_end(last), 0);
}

static int u64_compare(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x < y ? -1 : x > y;
}

struct tree_node {
	struct rb_node node; /* first */
	uint64_t start, end;
};

/* Behind those of equal start. */
static void tree_insert(struct rb_node **root, struct tree_node *new)
{
	struct rb_node **slot = root, *up = NULL;

	while (*slot) {
		up = *slot;
		slot = new->start < ((struct tree_node *)up)->start ? &up->left : &up->right;
	}
	rb_insert(root, slot, up, &new->node);
}

/* NULL: none. */
static const struct tree_node *tree_find(const struct rb_node *root, uint64_t address)
{
	while (root) {
		const struct tree_node *node = (const struct tree_node *)root;
		if (address < node->start)
			root = root->left;
		else if (address > node->end || (address == node->end && address != node->start))
			root = root->right;
		else
			return node;
	}
	return NULL;
}

/*
 * What happened to the tree, in the order of the clock, of which each tick is one addition or drop. nodes: one for each
 * entry, in their order.
 */
static int tree_replay(const struct symbols *symbols, struct tree_node *nodes, struct rb_node **root)
{
	uint32_t *steps = calloc((size_t)symbols->clock + 1, sizeof(*steps)); /* entry + 1; 0: it is gone */

	if (!steps)
		return -ENOMEM;
	for (uint32_t i = 0; i < symbols->nr; i++) {
		const struct symbol_entry *entry = &symbols->entries[i];
		nodes[i].start = entry->start;
		nodes[i].end = entry->end;
		steps[entry->added] = i + 1;
		if (entry->dropped)
			steps[entry->dropped] = i + 1;
	}
	for (uint32_t at = 1; at <= symbols->clock; at++) {
		struct tree_node *node = steps[at] ? &nodes[steps[at] - 1] : NULL;
		if (!node)
			continue;
		if (at == symbols->entries[node - nodes].added)
			tree_insert(root, node);
		else
			rb_remove(root, &node->node);
	}
	free(steps);
	return 0;
}

/* The answer of the tree can only change where a symbol starts or ends. */
static int spans_from_tree(struct symbols *symbols)
{
	struct rb_node *root = NULL;
	struct tree_node *nodes = calloc(symbols->nr, sizeof(*nodes));
	uint64_t *edges = calloc(symbols->nr, 2 * sizeof(*edges));
	size_t nr = 0;

	if (!nodes || !edges || tree_replay(symbols, nodes, &root)) {
		free(nodes);
		free(edges);
		return -ENOMEM;
	}
	for (size_t i = 0; i < symbols->nr; i++) {
		if (symbols->entries[i].dropped)
			continue;
		edges[nr++] = symbols->entries[i].start;
		edges[nr++] = entry_end(&symbols->entries[i]);
	}
	qsort(edges, nr, sizeof(*edges), u64_compare);
	for (size_t i = 0; i < nr; i++) {
		const struct tree_node *node;
		if (i && edges[i] == edges[i - 1])
			continue;
		node = tree_find(root, edges[i]);
		span_append(symbols, edges[i], node ? (uint32_t)(node - nodes) + 1 : 0);
	}
	free(nodes);
	free(edges);
	return 0;
}

/* What covers the addresses from some start on: the entry that reaches furthest, and how far those of other names do.
 */
struct cover {
	uint32_t widest; /* number of an entry, from 1; 0: none */
	uint64_t end, others_end;
};

static void cover_add(const struct symbols *symbols, uint32_t number, struct cover *cover)
{
	const struct symbol_entry *entry = &symbols->entries[number - 1];
	const struct symbol_entry *widest = cover->widest ? &symbols->entries[cover->widest - 1] : NULL;
	const uint64_t end = entry_end(entry), widest_end = cover->end;
	const bool same = widest && strcmp(symbols_name(symbols, entry), symbols_name(symbols, widest)) == 0;

	if (!widest || end > widest_end) {
		cover->widest = number;
		cover->end = end;
	}
	if (widest && !same && least(end, widest_end) > cover->others_end)
		cover->others_end = least(end, widest_end);
}

/*
 * Memory that a compiler used again had one function after the other, and a list without times does not say when: an
 * address of several names has none. An entry begins at most a span where it starts, and one where it ends.
 */
static void spans_of_one_name(struct symbols *symbols)
{
	struct cover cover = {0};

	for (uint32_t i = 0; i < symbols->nr;) {
		const uint64_t start = symbols->entries[i].start;
		for (; i < symbols->nr && symbols->entries[i].start == start; i++)
			cover_add(symbols, i + 1, &cover);
		const uint64_t next = i < symbols->nr ? symbols->entries[i].start : UINT64_MAX;
		const uint64_t named = cover.others_end > start ? cover.others_end : start;
		if (named > start)
			span_append(symbols, start, 0);
		symbols->name_conflicts |= named > start;
		if (named < next && named < cover.end)
			span_append(symbols, named, cover.widest);
		if (cover.end < next)
			span_append(symbols, cover.end, 0);
	}
}

static void spans_shrink(struct symbols *symbols)
{
	uint64_t *starts = reallocarray(symbols->span_starts, symbols->nr_spans, sizeof(*starts));
	uint32_t *entries = reallocarray(symbols->span_entries, symbols->nr_spans, sizeof(*entries));

	symbols->span_starts = starts ? starts : symbols->span_starts;
	symbols->span_entries = entries ? entries : symbols->span_entries;
}

/*
 * A table of a kernel or a browser is larger than a cache, and its symbols lie about evenly but for some before the
 * others, as the kernel's per-CPU ones do: a look-up then costs a step or two. Without memory it takes longer.
 */
static void index_spans(struct symbols *symbols)
{
	enum { FEW_SPANS = 64, FAR_PART = 8 };
	uint64_t from, range;
	size_t span = 0;

	if (symbols->nr_spans < FEW_SPANS)
		return;
	from = symbols->span_starts[symbols->nr_spans / FAR_PART];
	range = symbols->span_starts[symbols->nr_spans - 1] - from;
	symbols->index_from = from;
	symbols->index_shift = 0;
	while (range >> symbols->index_shift >= symbols->nr_spans)
		symbols->index_shift++;
	symbols->nr_index = (size_t)(range >> symbols->index_shift) + 1;
	symbols->span_index = reallocarray(NULL, symbols->nr_index, sizeof(*symbols->span_index));
	for (size_t i = 0; symbols->span_index && i < symbols->nr_index; i++) {
		uint64_t at = from + ((uint64_t)i << symbols->index_shift);
		while (span + 1 < symbols->nr_spans && symbols->span_starts[span + 1] <= at)
			span++;
		symbols->span_index[i] = (uint32_t)span;
	}
}

/* 0, or -ENOMEM: then nothing is found. The table is not empty. */
static int spans_build(struct symbols *symbols)
{
	int err = 0;

	symbols->span_starts = reallocarray(NULL, symbols->nr, 2 * sizeof(*symbols->span_starts));
	symbols->span_entries = reallocarray(NULL, symbols->nr, 2 * sizeof(*symbols->span_entries));
	if (!symbols->span_starts || !symbols->span_entries)
		err = -ENOMEM;
	else if (!overlap_anywhere(symbols))
		spans_from_list(symbols);
	else if (symbols->one_name)
		spans_of_one_name(symbols);
	else
		err = spans_from_tree(symbols);
	if (err)
		spans_free(symbols);
	else if (symbols->nr_spans)
		spans_shrink(symbols);
	if (!err)
		index_spans(symbols);
	return err;
}

static bool span_holds(const struct symbols *symbols, size_t i, uint64_t address)
{
	return symbols->span_starts[i] <= address &&
	       (i + 1 == symbols->nr_spans || address < symbols->span_starts[i + 1]);
}

/* A name, whose length is name_len(); the cut is not in the middle of a character. NULL: out of memory. */
static char *copy_name(struct pool *pool, const char *name, size_t len)
{
	static const char mark[] = SYMBOL_CUT_MARK;
	size_t room = SYMBOL_NAME_MAX - (sizeof(mark) - 1);

	if (len <= SYMBOL_NAME_MAX)
		return pool_text(pool, name, len);
	for (unsigned i = 0; i < 3 && ((uint8_t)name[room] & 0xc0) == 0x80; i++)
		room--;
	char *copy = pool_text(pool, name, room + sizeof(mark) - 1);
	if (copy)
		memcpy(copy + room, mark, sizeof(mark));
	return copy;
}

/* What others keep pointers to; made when the first of them asks. NULL: out of memory. */
static const struct symbol *entry_symbol(struct symbols *symbols, struct symbol_entry *entry)
{
	if (entry->found)
		return symbols->found[entry->found - 1];
	entry_demangle(symbols, entry);
	const char *name = symbols_name(symbols, entry);
	struct symbol *symbol = pool_take(&symbols->pool, sizeof(*symbol));
	char *copy = copy_name(&symbols->pool, name, name_len(name));
	if (!symbol || !copy || array_room(symbols->found, symbols->nr_found, symbols->found_room))
		return NULL;
	*symbol = (struct symbol){.start = entry->start, .end = entry->end, .name = copy, .sized = entry->sized};
	symbols->found[symbols->nr_found++] = symbol;
	entry->found = symbols->nr_found;
	return symbol;
}

/* Index of the last span that starts at `address` or before; there is one. */
static size_t span_find(const struct symbols *symbols, uint64_t address)
{
	size_t low = 0, high = symbols->nr_spans;

	if (symbols->span_index && address < symbols->index_from) {
		high = (size_t)symbols->span_index[0] + 1;
	} else if (symbols->span_index) {
		uint64_t at = (address - symbols->index_from) >> symbols->index_shift;
		size_t i = at < symbols->nr_index ? (size_t)at : symbols->nr_index - 1;
		low = symbols->span_index[i];
		high = i + 1 < symbols->nr_index ? (size_t)symbols->span_index[i + 1] + 1 : high;
	}
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		if (symbols->span_starts[middle] <= address)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static bool is_before_all(const struct symbols *symbols, uint64_t address)
{
	return !symbols->nr_spans || address < symbols->span_starts[0];
}

const struct symbol *symbols_find(struct symbols *symbols, uint64_t address)
{
	if (!symbols->nr || (!symbols->span_starts && spans_build(symbols)))
		return NULL;
	if (is_before_all(symbols, address))
		return NULL;
	if (!span_holds(symbols, symbols->last, address))
		symbols->last = span_find(symbols, address);
	uint32_t entry = symbols->span_entries[symbols->last];
	return entry ? entry_symbol(symbols, &symbols->entries[entry - 1]) : NULL;
}

bool symbols_peek(const struct symbols *symbols, uint64_t address, const struct symbol **ret)
{
	*ret = NULL;
	if (!symbols->nr)
		return true;
	if (!symbols->span_starts)
		return false;
	uint32_t entry = is_before_all(symbols, address) ? 0 : symbols->span_entries[span_find(symbols, address)];
	uint32_t found = entry ? symbols->entries[entry - 1].found : 0;
	if (found)
		*ret = symbols->found[found - 1];
	return !entry || found;
}
