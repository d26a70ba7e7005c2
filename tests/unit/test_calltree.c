/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyze/machine/stacks.h"
#include "analyze/report/calltree.h"

enum { NR_FRAMES = 16, NR_LINES = 4, NR_CHAINS = 50 };

static const struct symbol function = {.start = 0, .end = 0x1000, .name = "function"};

static struct stacks *stacks_by_address(void)
{
	struct stacks *stacks = stacks_new();

	assert_non_null(stacks);
	stacks_keep_addresses(stacks);
	return stacks;
}

/* The chain of these addresses in the function, the innermost first. */
static uint32_t intern(struct stacks *stacks, const uint64_t ips[], unsigned nr)
{
	struct location frames[NR_FRAMES];
	uint32_t chain;

	for (unsigned i = 0; i < nr; i++)
		frames[i] = (struct location){.ip = ips[i], .address = ips[i], .symbol = &function, .level = '.'};
	assert_int_equal(stacks_intern(stacks, frames, nr, &chain), 0);
	return chain;
}

struct lines {
	unsigned nr_calls;
	const struct stacks *stacks;
	char texts[NR_LINES][16];
};

/* Four addresses a line. */
static const char *line_of(void *ctx, uint32_t frame)
{
	struct lines *lines = ctx;
	uint64_t line = stacks_location(lines->stacks, frame)->ip / 4 % NR_LINES;

	lines->nr_calls++;
	snprintf(lines->texts[line], sizeof(lines->texts[line]), "a.c:%u", (unsigned)line);
	return lines->texts[line];
}

static void add(struct calltree *tree, uint32_t chain)
{
	const struct calltree_chain all = {.chain = chain};

	assert_int_equal(calltree_add(tree, all, &(struct calltree_count){1, 1}), 0);
}

static unsigned nr_branches(struct calltree *tree)
{
	unsigned nr = 0;

	assert_int_equal(calltree_sum_up(tree), 0);
	for (uint32_t child = tree->nodes[0].child; child; child = tree->nodes[child].next)
		nr++;
	return nr;
}

static void test_frames_of_a_line_are_one_node(void **state)
{
	(void)state;
	struct stacks *stacks = stacks_by_address();
	struct lines lines = {.stacks = stacks};
	struct calltree tree;

	for (uint64_t ip = 0; ip < NR_FRAMES; ip++)
		intern(stacks, &ip, 1);
	assert_int_equal(calltree_init(&tree, stacks, CALLTREE_SRCLINE, &(struct calltree_lines){line_of, &lines}), 0);
	calltree_clear(&tree, CALLTREE_CALLER, 0);
	for (uint64_t ip = 0; ip < NR_FRAMES; ip++)
		add(&tree, intern(stacks, &ip, 1));
	assert_int_equal(nr_branches(&tree), NR_LINES);
	/* A tree is filled again after more has been read. */
	const uint64_t later = 4 * NR_LINES + 1; /* on the first line */
	uint32_t chain = intern(stacks, &later, 1);
	calltree_clear(&tree, CALLTREE_CALLER, 0);
	add(&tree, chain);
	add(&tree, intern(stacks, &(uint64_t){0}, 1));
	add(&tree, intern(stacks, &(uint64_t){4}, 1));
	assert_int_equal(nr_branches(&tree), 2);
	calltree_fini(&tree);
	stacks_free(stacks);
}

/* To ask is a comparison of texts, and chains are as many as samples. */
static void test_lines_are_asked_once(void **state)
{
	(void)state;
	const uint64_t ips[] = {0, 4, 8, 12};
	const unsigned nr = sizeof(ips) / sizeof(ips[0]);
	struct stacks *stacks = stacks_by_address();
	struct lines lines = {.stacks = stacks};
	struct calltree tree;
	uint32_t chain = intern(stacks, ips, nr);

	assert_int_equal(calltree_init(&tree, stacks, CALLTREE_SRCLINE, &(struct calltree_lines){line_of, &lines}), 0);
	calltree_clear(&tree, CALLTREE_CALLER, 0);
	for (unsigned i = 0; i < NR_CHAINS; i++)
		add(&tree, chain);
	assert_int_equal(nr_branches(&tree), 1);
	assert_int_equal(tree.nr, 1 + nr);
	assert_int_equal(lines.nr_calls, nr);
	calltree_fini(&tree);
	stacks_free(stacks);
}

enum { NR_FUNCTIONS = 5, NR_RANDOM = 600, MOST_FRAMES = 9 };

static struct symbol functions[NR_FUNCTIONS] = {
	{.start = 0x10, .end = 0x20, .name = "a"}, {.start = 0x20, .end = 0x30, .name = "b"},
	{.start = 0x30, .end = 0x40, .name = "c"}, {.start = 0x40, .end = 0x50, .name = "d"},
	{.start = 0x50, .end = 0x60, .name = "e"},
};

/* Functions by number, the innermost first. */
struct random_chain {
	unsigned of[MOST_FRAMES], nr, skip;
	uint32_t chain;
	struct calltree_count count;
};

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 16;
}

static void make_random_chains(struct stacks *stacks, struct random_chain ret[NR_RANDOM])
{
	uint32_t state = 7;

	for (unsigned i = 0; i < NR_RANDOM; i++) {
		struct random_chain *its = &ret[i];
		struct location frames[MOST_FRAMES];
		its->nr = 1 + next_random(&state) % MOST_FRAMES;
		its->skip = next_random(&state) % 3; /* perhaps all of them */
		its->count = (struct calltree_count){1 + next_random(&state) % 100, 1 + next_random(&state) % 3};
		for (unsigned k = 0; k < its->nr; k++) {
			its->of[k] = next_random(&state) % NR_FUNCTIONS;
			frames[k] = (struct location){.symbol = &functions[its->of[k]], .level = '.'};
		}
		assert_int_equal(stacks_intern(stacks, frames, its->nr, &its->chain), 0);
	}
}

/* The functions from the root to a node. Returns how many. */
static unsigned path_of(const struct calltree *tree, uint32_t node, const struct symbol *ret[MOST_FRAMES])
{
	unsigned nr = 0;

	for (uint32_t at = node; at; at = tree->nodes[at].parent)
		nr++;
	for (unsigned i = nr; node; node = tree->nodes[node].parent)
		ret[--i] = stacks_location(tree->stacks, tree->nodes[node].frame)->symbol;
	return nr;
}

static bool begins_with(const struct random_chain *chain, enum calltree_direction direction,
			const struct symbol *const path[], unsigned nr)
{
	if (chain->nr < chain->skip + nr)
		return false;
	for (unsigned i = 0; i < nr; i++) {
		unsigned at = chain->skip + i;
		if (&functions[chain->of[direction == CALLTREE_CALLEE ? at : chain->nr - 1 - at]] != path[i])
			return false;
	}
	return true;
}

static void check_node(const struct calltree *tree, uint32_t node, enum calltree_direction direction,
		       const struct random_chain chains[NR_RANDOM])
{
	const struct symbol *path[MOST_FRAMES];
	const unsigned nr = path_of(tree, node, path);
	struct calltree_count ends = {0}, below = {0};

	for (unsigned i = 0; i < NR_RANDOM; i++) {
		if (chains[i].nr <= chains[i].skip || !begins_with(&chains[i], direction, path, nr))
			continue;
		struct calltree_count *into = chains[i].nr == chains[i].skip + nr ? &ends : &below;
		into->period += chains[i].count.period;
		into->nr += chains[i].count.nr;
	}
	assert_int_equal(tree->nodes[node].period, ends.period);
	assert_int_equal(tree->nodes[node].nr, ends.nr);
	assert_int_equal(tree->nodes[node].children_period, below.period);
	assert_int_equal(tree->nodes[node].children_nr, below.nr);
}

static void test_counts_of_chains(void **state)
{
	(void)state;
	static struct random_chain chains[NR_RANDOM];
	struct stacks *stacks = stacks_new();
	struct calltree tree;

	assert_non_null(stacks);
	make_random_chains(stacks, chains);
	assert_int_equal(calltree_init(&tree, stacks, CALLTREE_FUNCTION, NULL), 0);
	for (unsigned round = 0; round < 4; round++) { /* also after others */
		enum calltree_direction direction = round % 2 ? CALLTREE_CALLEE : CALLTREE_CALLER;
		calltree_clear(&tree, direction, 0);
		for (unsigned i = 0; i < NR_RANDOM; i++) {
			const struct calltree_chain chain = {chains[i].chain, chains[i].skip};
			assert_int_equal(calltree_add(&tree, chain, &chains[i].count), 0);
		}
		assert_int_equal(calltree_sum_up(&tree), 0);
		assert_true(tree.nr > NR_FUNCTIONS * NR_FUNCTIONS);
		for (uint32_t node = 0; node < tree.nr; node++)
			check_node(&tree, node, direction, chains);
	}
	calltree_fini(&tree);
	stacks_free(stacks);
}

/* Of very many chains: a small branch gets no nodes, and a large one has all that was counted. */
static void check_small_branches(enum calltree_direction direction)
{
	enum { NR_MANY = 40000, SMALL = 100, LEAST = 2000 };
	struct stacks *stacks = stacks_by_address();
	uint32_t *chains = calloc(NR_MANY, sizeof(*chains));
	struct calltree tree;
	uint32_t nr = 0;

	assert_non_null(chains);
	for (uint64_t i = 0; i < NR_MANY; i++) { /* below one of 400 each, and those below one */
		const uint64_t ips[] = {NR_MANY + i, i % (NR_MANY / SMALL), NR_MANY * 3};
		const uint64_t reversed[] = {ips[2], ips[1], ips[0]};
		chains[i] = intern(stacks, direction == CALLTREE_CALLER ? ips : reversed, 3);
	}
	assert_int_equal(calltree_init(&tree, stacks, CALLTREE_ADDRESS, NULL), 0);
	calltree_clear(&tree, direction, LEAST);
	assert_int_equal(tree.least, LEAST);
	assert_true(tree.weighs == (direction == CALLTREE_CALLEE));
	for (unsigned i = 0; tree.weighs && i < NR_MANY; i++)
		calltree_weigh(&tree, (struct calltree_chain){.chain = chains[i]}, 1);
	for (unsigned i = 0; i < NR_MANY; i++)
		add(&tree, chains[i]);
	assert_int_equal(calltree_sum_up(&tree), 0);
	assert_int_equal(calltree_period(&tree.nodes[0]), NR_MANY);
	for (uint32_t child = tree.nodes[tree.nodes[0].child].child; child; child = tree.nodes[child].next, nr++)
		assert_int_equal(calltree_period(&tree.nodes[child]), SMALL);
	assert_int_equal(nr, NR_MANY / SMALL);
	if (direction == CALLTREE_CALLER)
		assert_int_equal(tree.nr, 1 + 1 + nr);
	else
		assert_true(tree.nr < NR_MANY / 2); /* few of the others have nodes, by chance */
	calltree_fini(&tree);
	free(chains);
	stacks_free(stacks);
}

static void test_small_branches_of_many_chains(void **state)
{
	(void)state;
	check_small_branches(CALLTREE_CALLER);
	check_small_branches(CALLTREE_CALLEE);
}

/*
 * What decides is the sum of a node, of all chains that are one there: here those of a line, each of which is small.
 * And nodes have the order in which their first chains came: the newest is in front before they are sorted.
 */
static void test_small_chains_of_one_node(void **state)
{
	(void)state;
	enum { LEAST = 8 };
	struct stacks *stacks = stacks_by_address();
	struct lines lines = {.stacks = stacks};
	struct calltree tree;

	for (uint64_t i = 0; i < 4; i++) {
		intern(stacks, (const uint64_t[]){12 + i, 4 + i}, 2);
		intern(stacks, (const uint64_t[]){8 + i, 4 + i}, 2);
		intern(stacks, (const uint64_t[]){8 + i, 0}, 2);
	}
	assert_int_equal(calltree_init(&tree, stacks, CALLTREE_SRCLINE, &(struct calltree_lines){line_of, &lines}), 0);
	calltree_clear(&tree, CALLTREE_CALLER, LEAST);
	for (uint64_t i = 0; i < 4; i++) {
		add(&tree, intern(stacks, (const uint64_t[]){12 + i, 4 + i}, 2));
		add(&tree, intern(stacks, (const uint64_t[]){8 + i, 4 + i}, 2));
		add(&tree, intern(stacks, (const uint64_t[]){8 + i, 0}, 2));
	}
	assert_int_equal(nr_branches(&tree), 2); /* line 1, then line 0 */
	const struct calltree_node *small = &tree.nodes[tree.nodes[0].child], *large = &tree.nodes[small->next];
	assert_int_equal(stacks_location(stacks, small->frame)->ip, 0);
	assert_int_equal(calltree_period(small), 4);
	assert_int_equal(small->child, 0);
	assert_int_equal(stacks_location(stacks, large->frame)->ip, 4);
	assert_int_equal(large->children_period, LEAST);
	const struct calltree_node *second = &tree.nodes[large->child], *first = &tree.nodes[second->next];
	assert_int_equal(stacks_location(stacks, first->frame)->ip, 12);
	assert_int_equal(stacks_location(stacks, second->frame)->ip, 8);
	assert_int_equal(first->period, 4);
	assert_int_equal(second->period, 4);
	calltree_fini(&tree);
	stacks_free(stacks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames_of_a_line_are_one_node),
		cmocka_unit_test(test_lines_are_asked_once),
		cmocka_unit_test(test_counts_of_chains),
		cmocka_unit_test(test_small_branches_of_many_chains),
		cmocka_unit_test(test_small_chains_of_one_node),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
