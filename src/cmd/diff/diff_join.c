/* SPDX-License-Identifier: MIT */
#include "cmd/diff/diff_join.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/symbols/dso.h"
#include "base/hash_table.h"
#include "base/pool.h"

/* A function of all recordings. */
struct function {
	const struct dso *dso; /* joined; NULL: unknown */
	struct symbol
		symbol; /* the first one of that name; known by it alone, as others are at its address elsewhere */
};

/* Where code without a function is said to be in all recordings: at the first address that was seen of its object. */
struct nameless {
	const struct dso *dso; /* joined; NULL: unknown */
	uint64_t address;
};

struct diff_join {
	struct stacks *stacks;
	struct pool pool;
	struct hash_table dsos, functions, nameless; /* struct dso, function, nameless by hashes of their names */
	struct hash_table chains;                    /* of the recording that is added: chain to joined chain */
	struct location *frames;                     /* of one chain; heap */
	unsigned frames_room;
};

struct diff_join *diff_join_new(void)
{
	struct diff_join *join = calloc(1, sizeof(*join));

	if (join)
		join->stacks = stacks_new();
	if (join && join->stacks)
		return join;
	free(join);
	return NULL;
}

void diff_join_free(struct diff_join *join)
{
	if (!join)
		return;
	stacks_free(join->stacks);
	pool_fini(&join->pool);
	hash_table_fini(&join->dsos);
	hash_table_fini(&join->functions);
	hash_table_fini(&join->nameless);
	hash_table_fini(&join->chains);
	free(join->frames);
	free(join);
}

const struct stacks *diff_join_stacks(const struct diff_join *join)
{
	return join->stacks;
}

/* 0 or -ENOMEM, as the next two. */
static int join_dso(struct diff_join *join, struct dso **dso)
{
	if (!*dso)
		return 0;
	uint64_t key = hash_text(dso_short_name(*dso));
	for (struct hash_slot *slot = hash_table_find(&join->dsos, key); slot;
	     slot = hash_table_next(&join->dsos, slot)) {
		if (strcmp(dso_short_name(slot->item), dso_short_name(*dso)) != 0)
			continue;
		*dso = slot->item;
		return 0;
	}
	return hash_table_add(&join->dsos, key, *dso);
}

static int join_symbol(struct diff_join *join, const struct dso *dso, const struct symbol **symbol)
{
	uint64_t key = hash_mix(hash_text((*symbol)->name), (uintptr_t)dso);

	for (struct hash_slot *slot = hash_table_find(&join->functions, key); slot;
	     slot = hash_table_next(&join->functions, slot)) {
		const struct function *function = slot->item;
		if (function->dso != dso || strcmp(function->symbol.name, (*symbol)->name) != 0)
			continue;
		*symbol = &function->symbol;
		return 0;
	}
	struct function *function = pool_take(&join->pool, sizeof(*function));
	if (!function)
		return -ENOMEM;
	*function = (struct function){dso, **symbol};
	function->symbol.by_name = true;
	*symbol = &function->symbol;
	return hash_table_add(&join->functions, key, function);
}

static int join_nameless(struct diff_join *join, const struct dso *dso, uint64_t *address)
{
	uint64_t key = hash_mix(1, (uintptr_t)dso);
	struct nameless *nameless = hash_table_find_item(&join->nameless, key);

	if (nameless && nameless->dso == dso) {
		*address = nameless->address;
		return 0;
	}
	nameless = pool_take(&join->pool, sizeof(*nameless));
	if (!nameless)
		return -ENOMEM;
	*nameless = (struct nameless){dso, *address};
	return hash_table_add(&join->nameless, key, nameless);
}

static int join_place(struct diff_join *join, struct dso **dso, const struct symbol **symbol, uint64_t *address)
{
	int err = join_dso(join, dso);

	if (err)
		return err;
	return *symbol ? join_symbol(join, *dso, symbol) : join_nameless(join, *dso, address);
}

static int join_chain(struct diff_join *join, const struct stacks *stacks, uint32_t chain, uint32_t *ret)
{
	uint32_t known = (uint32_t)hash_table_find_number(&join->chains, chain);
	unsigned nr = 0;

	if (!chain || known) {
		*ret = known;
		return 0;
	}
	for (uint32_t at = chain; at && nr < join->frames_room; at = stacks_outer(stacks, at)) {
		struct location *frame = &join->frames[nr++];
		*frame = *stacks_location(stacks, stacks_frame(stacks, at));
		int err = join_place(join, &frame->dso, &frame->symbol, &frame->address);
		if (err)
			return err;
		frame->ip = frame->address;
		frame->nr_inlined = 0;
	}
	int err = stacks_intern(join->stacks, join->frames, nr, ret);
	return err ? err : hash_table_add_number(&join->chains, chain, *ret);
}

int diff_join_add(struct diff_join *join, const struct tally *from, const struct stacks *stacks, struct tally *to)
{
	hash_table_fini(&join->chains); /* they are of another recording */
	if (stacks_depth(stacks) > join->frames_room) {
		struct location *frames = reallocarray(join->frames, stacks_depth(stacks), sizeof(*frames));
		if (!frames)
			return -ENOMEM;
		join->frames = frames;
		join->frames_room = stacks_depth(stacks);
	}
	for (uint32_t i = 0; i < from->nr; i++) {
		struct tally_cell cell = tally_cell(from, i);
		uint32_t chain, joined;
		if (!cell.amount.nr_samples)
			continue;
		int err = join_place(join, &cell.place.dso, &cell.place.symbol, &cell.place.address);
		if (!err)
			err = join_chain(join, stacks, cell.chain, &chain);
		if (!err)
			err = tally_find(to, &cell.place, chain, &joined);
		if (err)
			return err;
		to->amounts[joined].period += cell.amount.period;
		to->amounts[joined].nr_samples += cell.amount.nr_samples;
	}
	return 0;
}
