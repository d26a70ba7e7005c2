/* SPDX-License-Identifier: MIT */
#include "analyze/report/count.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/hash_table.h"

/* What callers of a sample are told apart by, beside the frame. */
struct callee {
	const struct comm *comm;
	const void *common; /* of the details, see count_rules */
	uint32_t tid;
	int32_t cpu;
	bool hidden;
};

/* Where a frame counts below such samples. */
struct known_caller {
	struct hist_entry *entry; /* NULL: empty */
	struct callee of;
	uint32_t frame;
	char level; /* 0: that of the frame before */
};

enum { MOST_CALLERS = 1 << 16 };

struct count {
	const struct tally *tally;
	const struct stacks *stacks;
	const struct count_options *options;
	struct hist *hist;
	struct known_caller *callers;
	uint32_t nr_callers; /* a power of two */
};

/* The frames of a chain in the order in which callers are counted, by link. Returns how many. */
static unsigned chain_links(const struct count *count, uint32_t chain, uint32_t *ret)
{
	unsigned nr = 0;

	for (; chain && nr < CHAIN_MOST_FRAMES; chain = stacks_outer(count->stacks, chain))
		ret[nr++] = chain;
	if (count->options->direction == CALLTREE_CALLEE)
		return nr;
	for (unsigned i = 0; i < nr / 2; i++) {
		uint32_t swap = ret[i];
		ret[i] = ret[nr - 1 - i];
		ret[nr - 1 - i] = swap;
	}
	return nr;
}

static bool is_same(const struct callee *a, const struct callee *b)
{
	return a->comm == b->comm && a->common == b->common && a->tid == b->tid && a->cpu == b->cpu &&
	       a->hidden == b->hidden;
}

/* The slot of a caller; its entry is NULL when another one was there. */
static struct known_caller *known_caller(const struct count *count, const struct callee *of, uint64_t hash,
					 uint32_t frame)
{
	struct known_caller *slot = &count->callers[hash_mix(hash, frame) >> 32 & (count->nr_callers - 1)];

	if (slot->frame != frame || !is_same(&slot->of, of))
		*slot = (struct known_caller){.of = *of, .frame = frame};
	return slot;
}

/*
 * As perf does it, and with its ways: a caller without a symbol is known by its address in memory, not in its object,
 * and one that nothing is known of is shown at the level of the frame before.
 */
static int set_caller(const struct count *count, const struct hist_details *callee, const struct location *caller,
		      struct hist_place *place)
{
	const struct count_rules *rules = &count->options->rules;

	place->dso = caller->dso;
	place->symbol = caller->symbol;
	place->address = caller->symbol ? 0 : caller->ip;
	if (rules->hides_symbol && rules->hides_symbol(rules->ctx, place->symbol))
		place->filtered = true;
	if (caller->dso)
		place->level = caller->level;
	if (callee && rules->caller_details)
		place->details = rules->caller_details(rules->ctx, callee, caller);
	return callee && !place->details ? -ENOMEM : 0;
}

/* Callers are shown when the sample is. 0 or -ENOMEM. */
static int set_callee(const struct count *count, const struct hist_place *place, struct callee *ret)
{
	const struct count_rules *rules = &count->options->rules;

	*ret = (struct callee){.comm = place->comm, .common = place->details, .tid = place->tid, .cpu = place->cpu};
	ret->hidden = place->filtered && rules->hides_sample && rules->hides_sample(rules->ctx, place);
	if (place->details && rules->caller_common)
		ret->common = rules->caller_common(rules->ctx, place->details);
	return place->details && !ret->common ? -ENOMEM : 0;
}

static int add_callers(const struct count *count, uint32_t index, const struct tally_cell *cell)
{
	struct hist_place place = cell->place;
	uint32_t links[CHAIN_MOST_FRAMES];
	unsigned nr = chain_links(count, cell->chain, links);
	struct callee callee;

	if (set_callee(count, &cell->place, &callee))
		return -ENOMEM;
	const uint64_t hash = hash_mix((uintptr_t)callee.comm + callee.tid, (uintptr_t)callee.common + callee.hidden);
	for (unsigned i = 0; i < nr; i++) {
		const uint32_t frame = stacks_frame(count->stacks, links[i]);
		struct known_caller *known = known_caller(count, &callee, hash, frame);
		if (!known->entry) {
			const struct location *caller = stacks_location(count->stacks, frame);
			place.filtered = callee.hidden;
			if (set_caller(count, cell->place.details, caller, &place))
				return -ENOMEM;
			known->level = caller->dso ? place.level : '\0';
		}
		if (known->level)
			place.level = known->level;
		int added = hist_add_caller(count->hist, &place, cell->amount.period, &known->entry);
		if (added > 0 && count->options->uses)
			added = hist_note_use(count->hist, known->entry, &(struct use){.cell = index, .skip = i},
					      nr - i);
		if (added < 0)
			return added;
	}
	return 0;
}

static uint32_t chain_depth(const struct stacks *stacks, uint32_t chain)
{
	uint32_t nr = 0;

	for (; chain; chain = stacks_outer(stacks, chain))
		nr++;
	return nr;
}

static int count_cell(const struct count *count, uint32_t index)
{
	const struct count_options *options = count->options;
	const struct tally_cell cell = tally_cell(count->tally, index);
	struct hist_entry *entry;

	if (options->rules.counts && !options->rules.counts(options->rules.ctx, &cell))
		return 0;
	int err = hist_add(count->hist, &cell.place, &cell.amount, &entry);
	if (!err && options->uses && cell.chain)
		err = hist_note_use(count->hist, entry, &(struct use){.cell = index},
				    chain_depth(count->stacks, cell.chain));
	return err || !options->hist.children ? err : add_callers(count, index, &cell);
}

int count_nothing(const struct count_options *options, struct hist **ret)
{
	struct hist_options hist = options->hist;

	if (hist.children && options->uses)
		hist.by_depth = options->direction == CALLTREE_CALLER ? 1 : -1;
	return hist_new(&hist, ret);
}

int count_cells(const struct tally *tally, const struct stacks *stacks, const struct count_options *options,
		struct hist **ret)
{
	struct count count = {.tally = tally, .stacks = stacks, .options = options, .nr_callers = 1};

	while (count.nr_callers < MOST_CALLERS && count.nr_callers / 2 < stacks_end_frame(stacks))
		count.nr_callers *= 2;
	AUTO_FREE struct known_caller *callers = calloc(count.nr_callers, sizeof(*callers));
	count.callers = callers;
	int err = callers ? count_nothing(options, &count.hist) : -ENOMEM;
	for (uint32_t cell = 0; cell < tally->nr && !err; cell++)
		if (amount_is_used(&tally->amounts[cell]))
			err = count_cell(&count, cell);
	if (err) {
		hist_free(count.hist);
		return err;
	}
	*ret = count.hist;
	return 0;
}

static void weigh_part(const struct count_part *part, struct calltree *tree)
{
	struct use_cursor uses = use_list_first(&part->entry->uses);
	struct use use;

	while (use_list_next(&uses, &use)) {
		struct calltree_chain chain = {tally_chain(part->tally, use.cell), use.skip};
		calltree_weigh(tree, chain, part->tally->amounts[use.cell].period);
	}
}

static int add_part(const struct count_part *part, struct calltree *tree)
{
	struct use_cursor uses = use_list_first(&part->entry->uses);
	struct use use;
	int err = 0;

	while (!err && use_list_next(&uses, &use)) {
		const struct hist_amount *amount = &part->tally->amounts[use.cell];
		struct calltree_chain chain = {tally_chain(part->tally, use.cell), use.skip};
		struct calltree_count count = {amount->period, (uint32_t)amount->nr_samples};
		err = calltree_add(tree, chain, &count);
	}
	return err;
}

int count_tree(const struct count_part parts[], unsigned nr, enum calltree_direction direction, uint64_t least,
	       struct calltree *tree)
{
	int err = 0;

	calltree_clear(tree, direction, least);
	for (unsigned i = 0; tree->weighs && i < nr; i++)
		weigh_part(&parts[i], tree);
	for (unsigned i = 0; i < nr && !err; i++)
		err = add_part(&parts[i], tree);
	return err ? err : calltree_sum_up(tree);
}
