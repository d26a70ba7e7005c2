/* SPDX-License-Identifier: MIT */
#include "analyze/symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/demangle.h"
#include "analyze/symbols_tree.h"

enum { PAGE = 4096 }; /* what perf rounds the end of a last symbol to */

void symbols_fini(struct symbols *symbols)
{
	pool_fini(&symbols->pool);
	free(symbols->entries);
	free(symbols->spans);
	*symbols = (struct symbols){0};
}

static int symbols_reserve(struct symbols *symbols)
{
	if (symbols->nr < symbols->room)
		return 0;
	size_t room = symbols->room ? symbols->room * 2 : 256;
	struct symbol_entry **entries = reallocarray(symbols->entries, room, sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	symbols->entries = entries;
	symbols->room = room;
	return 0;
}

int symbols_add(struct symbols *symbols, uint64_t start, uint64_t size, enum symbol_binding binding,
		const char *name, size_t name_len)
{
	if (symbols_reserve(symbols))
		return -ENOMEM;
	struct symbol_entry *entry = pool_take(&symbols->pool, sizeof(*entry));
	char *copy = pool_text(&symbols->pool, name, name_len);
	if (!entry || !copy)
		return -ENOMEM;
	entry->symbol = (struct symbol){.start = start, .end = start + size, .name = copy};
	if (entry->symbol.end < start)
		entry->symbol.end = UINT64_MAX;
	entry->mangled = demangle_wanted(copy);
	entry->binding = binding;
	entry->added = ++symbols->clock;
	symbols->entries[symbols->nr++] = entry;
	return 0;
}

static int entry_compare(const void *a, const void *b)
{
	const struct symbol_entry *x = *(struct symbol_entry *const *)a,
				  *y = *(struct symbol_entry *const *)b;

	if (x->symbol.start != y->symbol.start)
		return x->symbol.start < y->symbol.start ? -1 : 1;
	return x->added < y->added ? -1 : x->added > y->added;
}

static void entry_demangle(struct symbols *symbols, struct symbol_entry *entry)
{
	if (!entry->mangled)
		return;
	entry->mangled = false;
	char *name = demangle(entry->symbol.name);
	char *copy = name ? pool_text(&symbols->pool, name, strlen(name)) : NULL;
	if (copy)
		entry->symbol.name = copy;
	free(name);
}

static uint64_t page_round_up(uint64_t address)
{
	return (address + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

/* A symbol without a size reaches up to the next one; of several at one address so only the last gets an end.
 */
static void fix_ends(struct symbols *symbols)
{
	struct symbol *last = NULL;

	for (size_t i = 0; i < symbols->nr; i++) {
		struct symbol *symbol = &symbols->entries[i]->symbol;
		if (symbols->entries[i]->dropped)
			continue;
		if (last && last->end == last->start)
			last->end = symbol->start;
		last = symbol;
	}
	if (last && last->end == last->start)
		last->end = page_round_up(last->start) + PAGE;
}

static size_t leading_underscores(const char *name)
{
	return strspn(name, "_");
}

/* Which of two symbols of one address is to be shown: true the first. The rules, in order, are perf's. */
static bool first_is_better(const struct symbol_entry *a, const struct symbol_entry *b)
{
	bool a_sized = a->symbol.end != a->symbol.start, b_sized = b->symbol.end != b->symbol.start;

	if (a_sized != b_sized)
		return a_sized;
	if ((a->binding == SYMBOL_WEAK) != (b->binding == SYMBOL_WEAK))
		return b->binding == SYMBOL_WEAK;
	if ((a->binding == SYMBOL_GLOBAL) != (b->binding == SYMBOL_GLOBAL))
		return a->binding == SYMBOL_GLOBAL;
	size_t a_count = leading_underscores(a->symbol.name), b_count = leading_underscores(b->symbol.name);
	if (a_count != b_count)
		return a_count < b_count;
	a_count = strlen(a->symbol.name);
	b_count = strlen(b->symbol.name);
	if (a_count != b_count)
		return a_count > b_count;
	/* Kernel aliases of system calls of one length. */
	return !(a_count >= 3 && strncmp(a->symbol.name, "SyS", 3) == 0) &&
	       !(a_count >= 10 && strncmp(a->symbol.name, "compat_SyS", 10) == 0);
}

static void drop_aliases(struct symbols *symbols)
{
	struct symbol_entry *best = NULL;

	for (size_t i = 0; i < symbols->nr; i++) {
		struct symbol_entry *entry = symbols->entries[i];
		if (entry->dropped)
			continue;
		if (!best || best->symbol.start != entry->symbol.start) {
			best = entry;
			continue;
		}
		entry_demangle(symbols, best);
		entry_demangle(symbols, entry);
		struct symbol_entry *loser = first_is_better(best, entry) ? entry : best;
		loser->dropped = ++symbols->clock;
		best = loser == entry ? best : entry;
	}
}

void symbols_settle(struct symbols *symbols, enum symbols_settle_flags flags)
{
	if (symbols->nr) /* qsort(3) takes no NULL, not even for nothing */
		qsort(symbols->entries, symbols->nr, sizeof(*symbols->entries), entry_compare);
	if (!(flags & SYMBOLS_KEEP_ALIASES)) {
		fix_ends(symbols);
		drop_aliases(symbols);
	}
	free(symbols->spans);
	symbols->spans = NULL;
}

const struct symbol_entry *symbols_first(const struct symbols *symbols)
{
	for (size_t i = 0; i < symbols->nr; i++)
		if (!symbols->entries[i]->dropped)
			return symbols->entries[i];
	return NULL;
}

const struct symbol_entry *symbols_last(const struct symbols *symbols)
{
	for (size_t i = symbols->nr; i-- > 0;)
		if (!symbols->entries[i]->dropped)
			return symbols->entries[i];
	return NULL;
}

/* An address is inside a symbol without a size only when it is its start. */
static uint64_t entry_end(const struct symbol_entry *entry)
{
	const struct symbol *symbol = &entry->symbol;

	return symbol->end == symbol->start && symbol->start != UINT64_MAX ? symbol->start + 1 : symbol->end;
}

static bool overlap_anywhere(const struct symbols *symbols)
{
	const struct symbol_entry *last = NULL;

	for (size_t i = 0; i < symbols->nr; i++) {
		const struct symbol_entry *entry = symbols->entries[i];
		if (entry->dropped)
			continue;
		if (last && entry->symbol.start < entry_end(last))
			return true;
		last = entry;
	}
	return false;
}

static void span_append(struct symbols *symbols, uint64_t start, struct symbol_entry *entry)
{
	if (symbols->nr_spans && symbols->spans[symbols->nr_spans - 1].entry == entry)
		return;
	symbols->spans[symbols->nr_spans++] = (struct symbol_span){start, entry};
}

static void spans_from_list(struct symbols *symbols)
{
	struct symbol_entry *last = NULL;

	for (size_t i = 0; i < symbols->nr; i++) {
		struct symbol_entry *entry = symbols->entries[i];
		if (entry->dropped)
			continue;
		if (last && entry_end(last) < entry->symbol.start)
			span_append(symbols, entry_end(last), NULL);
		span_append(symbols, entry->symbol.start, entry);
		last = entry;
	}
	if (last)
		span_append(symbols, entry_end(last), NULL);
}

/* One thing that happened to the tree. */
struct replay_step {
	uint32_t at;
	struct symbol_entry *entry;
};

static int step_compare(const void *a, const void *b)
{
	const struct replay_step *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

static int u64_compare(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x < y ? -1 : x > y;
}

static int tree_replay(const struct symbols *symbols, struct symbols_tree *tree)
{
	struct replay_step *steps = calloc(symbols->nr, 2 * sizeof(*steps));
	size_t nr = 0;

	if (!steps)
		return -ENOMEM;
	for (size_t i = 0; i < symbols->nr; i++) {
		struct symbol_entry *entry = symbols->entries[i];
		steps[nr++] = (struct replay_step){entry->added, entry};
		if (entry->dropped)
			steps[nr++] = (struct replay_step){entry->dropped, entry};
	}
	qsort(steps, nr, sizeof(*steps), step_compare);
	for (size_t i = 0; i < nr; i++) {
		if (steps[i].at == steps[i].entry->added)
			symbols_tree_insert(tree, steps[i].entry);
		else
			symbols_tree_remove(tree, steps[i].entry);
	}
	free(steps);
	return 0;
}

/* The answer of the tree can only change where a symbol starts or ends. */
static int spans_from_tree(struct symbols *symbols)
{
	struct symbols_tree tree = {0};
	uint64_t *edges = calloc(symbols->nr, 2 * sizeof(*edges));
	size_t nr = 0;

	if (!edges || tree_replay(symbols, &tree)) {
		free(edges);
		return -ENOMEM;
	}
	for (size_t i = 0; i < symbols->nr; i++) {
		if (symbols->entries[i]->dropped)
			continue;
		edges[nr++] = symbols->entries[i]->symbol.start;
		edges[nr++] = entry_end(symbols->entries[i]);
	}
	qsort(edges, nr, sizeof(*edges), u64_compare);
	for (size_t i = 0; i < nr; i++)
		if (!i || edges[i] != edges[i - 1])
			span_append(symbols, edges[i], symbols_tree_find(&tree, edges[i]));
	free(edges);
	return 0;
}

/* 0, or -ENOMEM: then nothing is found. */
static int spans_build(struct symbols *symbols)
{
	symbols->nr_spans = symbols->last = 0;
	symbols->spans = calloc(symbols->nr ? symbols->nr : 1, 2 * sizeof(*symbols->spans));
	if (!symbols->spans)
		return -ENOMEM;
	if (overlap_anywhere(symbols))
		return spans_from_tree(symbols);
	spans_from_list(symbols);
	return 0;
}

static bool span_holds(const struct symbols *symbols, size_t i, uint64_t address)
{
	return symbols->spans[i].start <= address &&
	       (i + 1 == symbols->nr_spans || address < symbols->spans[i + 1].start);
}

const struct symbol *symbols_find(struct symbols *symbols, uint64_t address)
{
	if (!symbols->nr || (!symbols->spans && spans_build(symbols)))
		return NULL;
	if (!symbols->nr_spans || address < symbols->spans[0].start)
		return NULL;
	if (!span_holds(symbols, symbols->last, address)) {
		size_t low = 0, high = symbols->nr_spans;
		while (high - low > 1) {
			size_t middle = low + (high - low) / 2;
			if (symbols->spans[middle].start <= address)
				low = middle;
			else
				high = middle;
		}
		symbols->last = low;
	}
	struct symbol_entry *entry = symbols->spans[symbols->last].entry;
	if (!entry)
		return NULL;
	entry_demangle(symbols, entry);
	return &entry->symbol;
}
