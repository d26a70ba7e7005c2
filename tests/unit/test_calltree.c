/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

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

	assert_int_equal(calltree_add(tree, all, CALLTREE_CALLER, &(struct calltree_count){1, 1}), 0);
}

static unsigned nr_branches(const struct calltree *tree)
{
	unsigned nr = 0;

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
	calltree_clear(&tree, 0);
	for (uint64_t ip = 0; ip < NR_FRAMES; ip++)
		add(&tree, intern(stacks, &ip, 1));
	assert_int_equal(nr_branches(&tree), NR_LINES);
	/* A tree is filled again after more has been read. */
	const uint64_t later = 4 * NR_LINES + 1; /* on the first line */
	uint32_t chain = intern(stacks, &later, 1);
	calltree_clear(&tree, 0);
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
	calltree_clear(&tree, 1);
	for (unsigned i = 0; i < NR_CHAINS; i++)
		calltree_weigh(&tree, (struct calltree_chain){.chain = chain}, CALLTREE_CALLER, 1);
	for (unsigned i = 0; i < NR_CHAINS; i++)
		add(&tree, chain);
	assert_int_equal(nr_branches(&tree), 1);
	assert_int_equal(tree.nr, 1 + nr);
	assert_int_equal(lines.nr_calls, nr);
	calltree_fini(&tree);
	stacks_free(stacks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames_of_a_line_are_one_node),
		cmocka_unit_test(test_lines_are_asked_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
