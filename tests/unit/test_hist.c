/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/machine/stacks.h"
#include "analyze/report/count.h"
#include "analyze/report/hist.h"
#include "analyze/report/tally.h"
#include "analyze/symbols/dso.h"
#include "base/pool.h"

static struct dso lib_a = {.name = "/lib/a.so", .short_name = "a.so"};
static struct dso lib_b = {.name = "/lib/b.so", .short_name = "b.so"};
static struct dso other_a = {.name = "/old/a.so", .short_name = "a.so"};
static const struct symbol sym_x = {.start = 0x10, .end = 0x20, .name = "x"};
static const struct symbol sym_y = {.start = 0x20, .end = 0x30, .name = "y"};

static const struct hist_options default_keys = {.keys = {HIST_COMM, HIST_DSO, HIST_SYM}, .nr_keys = 3};

static struct comm sh = {.text = "sh"}, cat = {.text = "cat"};

static struct hist_entry *const *sorted(struct hist *hist, size_t *ret_nr)
{
	struct hist_entry *const *entries;

	assert_int_equal(hist_sort(hist, &entries, ret_nr), 0);
	return entries;
}

static struct hist_place place(const struct comm *comm, struct dso *dso, const struct symbol *symbol, uint64_t address)
{
	return (struct hist_place){.comm = comm, .dso = dso, .symbol = symbol, .address = address, .level = '.'};
}

static void add(struct hist *hist, struct hist_place at, uint64_t period)
{
	struct hist_entry *entry;

	assert_int_equal(hist_add(hist, &at, &(struct hist_amount){.period = period, .nr_samples = 1}, &entry), 0);
}

static void test_empty(void **state)
{
	(void)state;
	struct hist *hist;
	size_t nr;

	assert_int_equal(hist_new(&default_keys, &hist), 0);
	sorted(hist, &nr);
	assert_int_equal(nr, 0);
	hist_free(hist);
	hist_free(NULL);
}

static void test_equal_samples_are_one_entry(void **state)
{
	(void)state;
	struct hist *hist;
	size_t nr;

	assert_int_equal(hist_new(&default_keys, &hist), 0);
	add(hist, place(&sh, &lib_a, &sym_x, 0x11), 5);
	add(hist, place(&sh, &lib_a, &sym_x, 0x1f), 7);
	add(hist, place(&sh, &other_a, &sym_x, 0x12), 1); /* shown alike, so the same */
	add(hist, place(&sh, &lib_a, &sym_y, 0x20), 100);
	struct hist_entry *const *entries = sorted(hist, &nr);
	assert_int_equal(nr, 2);
	assert_int_equal(entries[0]->period, 100);
	assert_int_equal(entries[1]->period, 13);
	assert_int_equal(entries[1]->nr_samples, 3);
	assert_int_equal(hist_nr_samples(hist), 4);
	assert_int_equal(hist_period(hist), 113);
	hist_free(hist);
}

static void test_order_of_equals(void **state)
{
	(void)state;
	struct hist *hist;
	size_t nr;

	assert_int_equal(hist_new(&default_keys, &hist), 0);
	add(hist, place(&sh, NULL, NULL, 0x7000), 1);
	add(hist, place(&sh, NULL, NULL, 0xffffffff81000000), 1);
	add(hist, place(&sh, &lib_b, NULL, 0x50), 1);
	add(hist, place(&sh, &lib_b, &sym_y, 0x20), 1);
	add(hist, place(&sh, &lib_b, &sym_x, 0x10), 1);
	add(hist, place(&sh, &lib_a, &sym_y, 0x20), 1);
	add(hist, place(&cat, &lib_b, &sym_y, 0x20), 1);
	struct hist_entry *const *entries = sorted(hist, &nr);
	assert_int_equal(nr, 7);
	assert_string_equal(entries[0]->place.comm->text, "cat");
	assert_ptr_equal(entries[1]->place.dso, &lib_a);
	assert_ptr_equal(entries[2]->place.symbol, &sym_x);
	assert_ptr_equal(entries[3]->place.symbol, &sym_y);
	assert_int_equal(entries[4]->place.address, 0x50);
	assert_int_equal(entries[5]->place.address, 0xffffffff81000000);
	assert_int_equal(entries[6]->place.address, 0x7000);
	hist_free(hist);
}

/* Also where the object is no key. */
static void test_objects_come_before_missing_symbols(void **state)
{
	(void)state;
	static const struct hist_options symbols = {.keys = {HIST_SYM}, .nr_keys = 1};
	struct hist *hist;
	size_t nr;

	assert_int_equal(hist_new(&symbols, &hist), 0);
	add(hist, place(&sh, &lib_b, &sym_x, 0x10), 1);
	add(hist, place(&sh, &lib_a, NULL, 0x50), 1);
	add(hist, place(&sh, NULL, NULL, 0x40), 1);
	/* In the order of the display what has a symbol is first, and addresses are equal: they stay as they were. */
	struct hist_entry *const *entries = sorted(hist, &nr);
	assert_int_equal(nr, 3);
	assert_ptr_equal(entries[0]->place.symbol, &sym_x);
	assert_int_equal(entries[1]->place.address, 0x50);
	assert_int_equal(entries[2]->place.address, 0x40);
	hist_free(hist);
}

static void test_callers_count_once(void **state)
{
	(void)state;
	struct hist_options options = default_keys;
	struct hist *hist;
	struct hist_entry *of_x = NULL, *of_y = NULL;
	size_t nr;

	options.children = true;
	assert_int_equal(hist_new(&options, &hist), 0);
	struct hist_place x = place(&sh, &lib_a, &sym_x, 0x10), y = place(&sh, &lib_a, &sym_y, 0x20);
	for (int i = 0; i < 2; i++) { /* the second time they are known */
		add(hist, x, 10);
		assert_int_equal(hist_add_caller(hist, &y, 10, &of_y), 1);
		assert_int_equal(hist_add_caller(hist, &x, 10, &of_x), 0); /* recursion */
		assert_int_equal(hist_add_caller(hist, &y, 10, &of_y), 0);
		assert_ptr_equal(of_x->place.symbol, &sym_x);
		assert_ptr_equal(of_y->place.symbol, &sym_y);
	}
	add(hist, y, 1);
	struct hist_entry *const *entries = sorted(hist, &nr);
	assert_int_equal(nr, 2);
	assert_ptr_equal(entries[0]->place.symbol, &sym_y);
	assert_int_equal(entries[0]->children_period, 21);
	assert_int_equal(entries[0]->period, 1);
	assert_int_equal(entries[1]->children_period, 20);
	assert_int_equal(entries[1]->period, 20);
	assert_int_equal(hist_period(hist), 21);
	hist_free(hist);
}

/* What a row's period was, with that of what it called where that counts. */
static void test_activities(void **state)
{
	(void)state;
	struct hist_options options = default_keys;
	struct hist *hist;
	struct hist_entry *of_y = NULL;
	size_t nr;

	options.children = options.activities = true;
	assert_int_equal(hist_new(&options, &hist), 0);
	struct hist_place x = place(&sh, &lib_a, &sym_x, 0x10), y = place(&sh, &lib_a, &sym_y, 0x20);
	for (uint8_t activity = 0; activity < ACTIVITIES; activity++) {
		x.activity = activity;
		add(hist, x, 10u << activity);
		assert_int_equal(hist_add_caller(hist, &y, 10u << activity, &of_y), 1);
	}
	struct hist_entry *const *entries = sorted(hist, &nr);
	assert_int_equal(nr, 2);
	for (size_t i = 0; i < nr; i++) {
		assert_int_equal(hist_number(entries[i], HIST_ON_CPU), 10);
		assert_int_equal(hist_number(entries[i], HIST_BLOCKED_TIME), 20);
		assert_int_equal(hist_number(entries[i], HIST_RUNNABLE), 40);
		assert_int_equal(hist_number(entries[i], HIST_OFF_CPU), 60);
		assert_int_equal(hist_number(entries[i], HIST_CHILDREN), 150); /* 80 of which it is not known */
	}
	hist_free(hist);
}

/* More entries than the first table of slots holds, by one key only. */
static void test_many(void **state)
{
	(void)state;
	struct hist_options options = {.keys = {HIST_TID}, .nr_keys = 1};
	struct hist *hist;
	size_t nr;

	assert_int_equal(hist_new(&options, &hist), 0);
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t tid = 0; tid < 5000; tid++) {
			struct hist_place at = place(&sh, &lib_a, &sym_x, tid);
			at.tid = tid;
			add(hist, at, tid + 1);
		}
	}
	struct hist_entry *const *entries = sorted(hist, &nr);
	assert_int_equal(nr, 5000);
	for (uint32_t i = 0; i < 5000; i++) {
		assert_int_equal(entries[i]->place.tid, 4999 - i);
		assert_int_equal(entries[i]->period, 2 * (5000 - i));
	}
	hist_free(hist);
}

/* Of a group: by the leader's numbers, then by the member's; or by the member's alone, then by the keys. */
static void test_groups(void **state)
{
	(void)state;
	for (unsigned sort_member = 0; sort_member < 2; sort_member++) {
		struct hist_options options = default_keys;
		struct hist *leader, *member;
		size_t nr;

		options.sort_member = sort_member;
		assert_int_equal(hist_new(&options, &leader), 0);
		assert_int_equal(hist_new(&options, &member), 0);
		add(leader, place(&sh, &lib_a, &sym_x, 0x10), 5);
		add(leader, place(&sh, &lib_b, &sym_x, 0x10), 1);
		add(leader, place(&cat, &lib_b, &sym_x, 0x10), 1);
		add(member, place(&sh, &lib_b, &sym_x, 0x11), 7);
		add(member, place(&sh, &lib_b, &sym_y, 0x20), 7);
		assert_int_equal(hist_link(leader, &member, 1), 0);
		struct hist_entry *const *entries = sorted(leader, &nr);
		assert_int_equal(nr, 4);
		assert_int_equal(hist_period(leader), 7);
		if (sort_member) {
			assert_ptr_equal(entries[0]->place.symbol, &sym_x);
			assert_ptr_equal(entries[1]->place.symbol, &sym_y);
			assert_ptr_equal(entries[2]->place.comm, &cat);
			assert_null(entries[2]->members);
		} else {
			assert_int_equal(entries[0]->period, 5);
			assert_int_equal(entries[1]->members[0]->period, 7);
			assert_ptr_equal(entries[2]->place.comm, &cat);
			assert_int_equal(entries[3]->period, 0);
		}
		hist_free(leader);
		hist_free(member);
	}
}

/* Distances and skips of one to five bytes, in lists that are filled by turns; more than one chunk of each. */
static void test_uses_come_back(void **state)
{
	(void)state;
	static const struct use steps[] = {{0, 0},
					   {1, 126},
					   {0, 127},
					   {127, 128},
					   {128, 0},
					   {16383, 16384},
					   {16384, 5},
					   {1u << 21, 1u << 28},
					   {1u << 28, UINT32_MAX},
					   {0, 3}};
	enum { NR_STEPS = sizeof(steps) / sizeof(steps[0]), NR_LISTS = 3, ROUNDS = 10 };
	struct use_list lists[NR_LISTS] = {0};
	struct pool pool = {0};
	struct use use = {0}, got;
	uint32_t cells[NR_LISTS] = {0};

	for (unsigned i = 0; i < ROUNDS * NR_STEPS * NR_LISTS; i++) {
		cells[i % NR_LISTS] += steps[i / NR_LISTS % NR_STEPS].cell;
		use = (struct use){cells[i % NR_LISTS], steps[i / NR_LISTS % NR_STEPS].skip};
		assert_int_equal(use_list_append(&lists[i % NR_LISTS], &use, &pool), 0);
	}
	for (unsigned list = 0; list < NR_LISTS; list++) {
		struct use_cursor cursor = use_list_first(&lists[list]);
		uint32_t cell = 0;
		for (unsigned i = 0; i < ROUNDS * NR_STEPS; i++) {
			cell += steps[i % NR_STEPS].cell;
			assert_true(use_list_next(&cursor, &got));
			assert_int_equal(got.cell, cell);
			assert_int_equal(got.skip, steps[i % NR_STEPS].skip);
		}
		assert_false(use_list_next(&cursor, &got));
		assert_false(use_list_next(&cursor, &got));
	}
	struct use_cursor none = use_list_first(&(struct use_list){0});
	assert_false(use_list_next(&none, &got));
	pool_fini(&pool);
}

/* Enough of each part of a cell to have their tables grow, asked for twice. */
static void test_tally_cells(void **state)
{
	(void)state;
	enum { TASKS = 50, ADDRESSES = 200, CHAINS = 3, CELLS = TASKS * ADDRESSES * CHAINS };
	struct tally tally = {0};
	struct tally_share share = {0};
	uint32_t cell;

	for (uint32_t i = 0; i < 2 * CELLS; i++) {
		uint32_t task = i % TASKS, address = i / TASKS % ADDRESSES, chain = i / TASKS / ADDRESSES % CHAINS;
		struct hist_place at = place(task % 2 ? &sh : &cat, &lib_a, NULL, address);
		at.tid = task;
		at.cpu = -1;
		at.filtered = address == 7;
		assert_int_equal(tally_find(&tally, &at, chain, &cell), 0);
		assert_int_equal(cell, i % CELLS);
		tally.amounts[cell].period += i;
		tally.amounts[cell].nr_samples++;
	}
	assert_int_equal(tally.nr, CELLS);
	assert_int_equal(tally_share_fit(&share, &tally), 0);
	share.amounts[CELLS - 1] = (struct hist_amount){.period = 5, .nr_samples = 1};
	tally_join(&tally, &share);
	for (uint32_t i = 0; i < CELLS; i++) {
		struct tally_cell found = tally_cell(&tally, i);
		bool last = i == CELLS - 1;
		assert_ptr_equal(found.place.comm, i % TASKS % 2 ? &sh : &cat);
		assert_ptr_equal(found.place.dso, &lib_a);
		assert_null(found.place.symbol);
		assert_int_equal(found.place.address, i / TASKS % ADDRESSES);
		assert_int_equal(found.place.tid, i % TASKS);
		assert_int_equal(found.place.cpu, -1);
		assert_int_equal(found.place.level, '.');
		assert_int_equal(found.place.filtered, i / TASKS % ADDRESSES == 7);
		assert_int_equal(found.chain, i / TASKS / ADDRESSES);
		assert_int_equal(found.amount.period, 2 * i + CELLS + (last ? 5 : 0));
		assert_int_equal(found.amount.nr_samples, last ? 3 : 2);
	}
	/* Where chains become one, cells do. */
	struct tally joined;
	const uint32_t numbers[CHAINS] = {4, 9, 4};
	assert_int_equal(tally_select(&tally, &(struct tally_change){.chains = numbers}, &joined), 0);
	assert_int_equal(joined.nr, CELLS / 3 * 2);
	for (uint32_t i = 0; i < joined.nr; i++) {
		const bool first = i < CELLS / 3, last = i == CELLS / 3 - 1;
		const uint32_t other = i + CELLS / 3 * 2;
		const uint64_t period = 2 * i + CELLS + (first ? 2 * other + CELLS : 0);
		assert_int_equal(tally_cell(&joined, i).chain, first ? 4 : 9);
		assert_int_equal(joined.amounts[i].period, period + (last ? 5 : 0));
		assert_int_equal(joined.amounts[i].nr_samples, (first ? 4 : 2) + last);
	}
	tally_fini(&joined);
	tally_fini(&tally);
}

/* The line of a place, by its number. */
static const struct hist_details *complete(void *ctx, const struct hist_details *before)
{
	const struct hist_details *lines = ctx;

	return before->line_at ? &lines[before->socket] : before;
}

static const struct hist_details *no_memory(void *ctx, const struct hist_details *before)
{
	(void)ctx, (void)before;
	return NULL;
}

/* Where lines become known, cells of one line become one; others, and those without details, stay as they are. */
static void test_tally_details(void **state)
{
	(void)state;
	static const struct location at[2];
	static const struct hist_details lines[] = {{.srcline = "a.c:1"}, {.srcline = "a.c:2"}};
	static const struct hist_details before[] = {
		{.line_at = &at[0]}, {.line_at = &at[1]}, {.line_at = &at[0], .socket = 1}, {.srcline = "there"}};
	struct tally_change change = {.details = complete, .ctx = (void *)lines};
	struct tally tally = {0}, changed;

	for (unsigned i = 0; i < 5; i++) {
		const struct hist_place place = {.comm = &sh, .details = i < 4 ? &before[i] : NULL};
		uint32_t cell;
		assert_int_equal(tally_find(&tally, &place, 7, &cell), 0);
		assert_int_equal(cell, i);
		tally.amounts[cell] = (struct hist_amount){.period = 1 + i, .nr_samples = 1};
	}
	assert_int_equal(tally_select(&tally, &change, &changed), 0);
	assert_int_equal(changed.nr, 4);
	const struct hist_details *after[] = {&lines[0], &lines[1], &before[3], NULL};
	const uint64_t periods[] = {1 + 2, 3, 4, 5};
	for (uint32_t i = 0; i < changed.nr; i++) {
		assert_ptr_equal(tally_cell(&changed, i).place.details, after[i]);
		assert_int_equal(tally_cell(&changed, i).chain, 7);
		assert_int_equal(changed.amounts[i].period, periods[i]);
	}
	tally_fini(&changed);
	change.details = no_memory;
	assert_int_equal(tally_select(&tally, &change, &changed), -ENOMEM);
	assert_int_equal(changed.nr, 0);
	tally_fini(&tally);
}

static bool is_in_lib_b(const void *ctx, const struct hist_place *at)
{
	(void)ctx;
	return at->dso == &lib_b;
}

/* A caller of samples that are shown and of others is two rows, each with the periods of its own samples. */
static void test_callers_of_what_is_hidden(void **state)
{
	(void)state;
	static const struct symbol sym_main = {.start = 0x40, .end = 0x50, .name = "main"};
	const struct location caller = {.ip = 0x41, .dso = &lib_a, .symbol = &sym_main, .level = '.'};
	const struct count_options options = {
		.hist = {.keys = {HIST_SYM}, .nr_keys = 1, .children = true, .splits_filtered = true},
		.rules = {.hides_sample = is_in_lib_b},
	};
	const struct {
		struct dso *dso;
		const struct symbol *symbol;
		uint64_t period;
	} samples[] = {{&lib_a, &sym_x, 3}, {&lib_b, &sym_x, 10}, {&lib_a, &sym_y, 4}, {&lib_b, &sym_y, 20}};
	struct stacks *stacks = stacks_new();
	struct tally tally = {0};
	struct hist *hist;
	uint32_t chain, cell;

	assert_non_null(stacks);
	assert_int_equal(stacks_intern(stacks, &caller, 1, &chain), 0);
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		struct hist_place at = place(&sh, samples[i].dso, samples[i].symbol, 0);
		at.filtered = samples[i].dso == &lib_b;
		assert_int_equal(tally_find(&tally, &at, chain, &cell), 0);
		tally.amounts[cell] = (struct hist_amount){.period = samples[i].period, .nr_samples = 1};
	}
	assert_int_equal(count_cells(&tally, stacks, &options, &hist), 0);
	struct hist_place of_caller = place(&sh, &lib_a, &sym_main, 0);
	const struct hist_entry *shown = hist_entry_of(hist, &of_caller);
	of_caller.filtered = true;
	const struct hist_entry *hidden = hist_entry_of(hist, &of_caller);
	assert_non_null(shown);
	assert_non_null(hidden);
	assert_int_equal(shown->children_period, 3 + 4);
	assert_int_equal(hidden->children_period, 10 + 20);
	hist_free(hist);
	tally_fini(&tally);
	stacks_free(stacks);
}

/* By numbers, then names, then what tells rows apart, as in small tables. */
static void check_order(uint64_t nr_entries, bool any_ties)
{
	enum { PERIODS = 7 };
	struct hist_options options = {
		.keys = {HIST_COMM, HIST_DSO, HIST_SYM}, .nr_keys = 3, .children = true, .any_ties = any_ties};
	struct dso *dsos[] = {&lib_b, &lib_a, NULL};
	struct hist *hist;
	size_t nr;

	assert_int_equal(hist_new(&options, &hist), 0);
	for (uint64_t i = 0; i < nr_entries; i++) {
		uint64_t mixed = i * 7919 % nr_entries; /* each once, in no order */
		const struct comm *comm = mixed % 2 ? &sh : &cat;
		add(hist, place(comm, dsos[mixed / 2 % 3], NULL, 0x1000 + mixed), 1 + mixed / 6 % PERIODS);
	}
	struct hist_entry *const *entries = sorted(hist, &nr);
	assert_int_equal(nr, nr_entries);
	for (size_t i = 1; i < nr; i++) {
		const struct hist_entry *a = entries[i - 1], *b = entries[i];
		assert_true(a->period >= b->period);
		if (a->period != b->period)
			continue;
		assert_true(a->place.comm == b->place.comm || (a->place.comm == &cat && b->place.comm == &sh));
		if (a->place.comm != b->place.comm)
			continue;
		assert_true(a->place.dso == b->place.dso || !b->place.dso ||
			    (a->place.dso == &lib_a && b->place.dso == &lib_b));
		if (a->place.dso == b->place.dso)
			assert_true(a->place.address < b->place.address);
	}
	hist_free(hist);
}

static void test_sort_without_trees(void **state)
{
	(void)state;
	check_order(40000, false); /* enough for a large table */
	check_order(400, true);
}

static size_t nr_comparisons;

int __real_strcmp(const char *a, const char *b);
int __wrap_strcmp(const char *a, const char *b);

int __wrap_strcmp(const char *a, const char *b)
{
	nr_comparisons++;
	return __real_strcmp(a, b);
}

enum { NR_ALIKE = 1000, ALIKE_BYTES = 16 };

/* Places that differ by a name only, of which none is longer than another: each is found without comparing all names.
 */
static void test_names_of_one_length(void **state)
{
	(void)state;
	static const struct hist_options by_dso = {.keys = {HIST_DSO}, .nr_keys = 1},
					 by_symbol = {.keys = {HIST_SYM}, .nr_keys = 1};
	const struct hist_options *options[] = {&by_dso, &by_symbol};
	char(*names)[ALIKE_BYTES] = calloc(NR_ALIKE, sizeof(*names));
	struct dso *dsos = calloc(NR_ALIKE, sizeof(*dsos));

	assert_non_null(names);
	assert_non_null(dsos);
	for (unsigned i = 0; i < NR_ALIKE; i++) {
		snprintf(names[i], sizeof(names[i]), "lib%04u.so", i);
		dsos[i].name = dsos[i].short_name = names[i];
	}
	for (unsigned k = 0; k < 2; k++) {
		struct hist *hist;
		size_t nr;
		assert_int_equal(hist_new(options[k], &hist), 0);
		nr_comparisons = 0;
		for (unsigned i = 0; i < 2 * NR_ALIKE; i++)
			add(hist, place(&sh, &dsos[i % NR_ALIKE], &sym_x, 0x11), 1);
		assert_true(nr_comparisons < 2 * NR_ALIKE);
		sorted(hist, &nr);
		assert_int_equal(nr, NR_ALIKE);
		assert_true(nr_comparisons > NR_ALIKE); /* they are counted */
		hist_free(hist);
	}
	free(dsos);
	free(names);
}

static int compare_u32(const void *a, const void *b)
{
	const uint32_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* "Aa" and "BB" are one number where each letter counts 31 times the next one: so are 1024 names of ten such pairs. */
static void test_names_that_were_chosen(void **state)
{
	(void)state;
	enum { PAIRS = 10, NR = 1 << PAIRS };
	struct stacks *stacks = stacks_new();
	static char names[NR][2 * PAIRS + 1];
	static struct symbol symbols[NR];
	uint32_t hashes[NR];
	unsigned nr = 1;

	assert_non_null(stacks);
	for (unsigned i = 0; i < NR; i++) {
		for (unsigned k = 0; k < PAIRS; k++)
			memcpy(names[i] + 2 * k, i >> k & 1 ? "BB" : "Aa", 2);
		symbols[i] = (struct symbol){.start = i, .end = i + 1, .name = names[i]};
		const struct location at = {.dso = &lib_a, .symbol = &symbols[i], .level = '.'};
		uint32_t frame;
		assert_int_equal(stacks_intern_frame(stacks, &at, &frame), 0);
		hashes[i] = stacks_frame_hash(stacks, frame);
	}
	qsort(hashes, NR, sizeof(hashes[0]), compare_u32);
	for (unsigned i = 1; i < NR; i++)
		nr += hashes[i] != hashes[i - 1];
	assert_true(nr > NR - 10);
	stacks_free(stacks);
}

/* All have the range of the function that they are inlined into. */
static void test_functions_inlined_into_one(void **state)
{
	(void)state;
	static const struct hist_options by_symbol = {.keys = {HIST_SYM}, .nr_keys = 1};
	static struct symbol symbols[NR_ALIKE];
	static char names[NR_ALIKE][ALIKE_BYTES];
	struct hist *hist;
	size_t nr;

	for (unsigned i = 0; i < NR_ALIKE; i++) {
		snprintf(names[i], sizeof(names[i]), "f%u", i);
		symbols[i] = (struct symbol){.start = 0x10, .end = 0x20, .name = names[i], .inlined = true};
	}
	assert_int_equal(hist_new(&by_symbol, &hist), 0);
	nr_comparisons = 0;
	for (unsigned i = 0; i < 2 * NR_ALIKE; i++)
		add(hist, place(&sh, &lib_a, &symbols[i % NR_ALIKE], 0x11), 1);
	assert_true(nr_comparisons < 2 * NR_ALIKE);
	/* Where the one of them that is not inlined calls itself, that is the same function. */
	const struct symbol around = {.start = 0x10, .end = 0x20, .name = "f7"};
	add(hist, place(&sh, &lib_a, &around, 0x11), 1);
	sorted(hist, &nr);
	assert_int_equal(nr, NR_ALIKE);
	hist_free(hist);
}

/* One after the other, as programs of BPF are. */
static void test_functions_at_one_place(void **state)
{
	(void)state;
	const struct symbol other = {.start = sym_x.start, .end = sym_x.end, .name = "other"};
	struct hist *hist;
	size_t nr;

	assert_int_equal(hist_new(&default_keys, &hist), 0);
	add(hist, place(&sh, &lib_a, &sym_x, 0x11), 1);
	add(hist, place(&sh, &lib_a, &other, 0x11), 1);
	sorted(hist, &nr);
	assert_int_equal(nr, 2);
	hist_free(hist);
}

/* Three lines, by the number of the frame; `left` counts how often it is asked. */
struct lines {
	struct hist_details of[3];
	unsigned left;
};

static const struct hist_details *line_of_caller(const void *ctx, const struct hist_details *callee,
						 const struct location *at)
{
	struct lines *lines = (struct lines *)ctx;

	(void)callee;
	assert_true(lines->left);
	lines->left--;
	return &lines->of[at->ip];
}

static const void *one_for_all(const void *ctx, const struct hist_details *callee)
{
	(void)callee;
	return ctx;
}

enum { NR_CALLEES = 100 };

static void check_details_of_callers(unsigned nr_callers, unsigned most_asked)
{
	struct lines lines = {.of = {{.srcline = "a.c:1"}, {.srcline = "a.c:2"}, {.srcline = "a.c:3"}},
			      .left = most_asked};
	const struct location callers[] = {{.ip = 1, .dso = &lib_a, .symbol = &sym_x, .level = '.'},
					   {.ip = 2, .dso = &lib_a, .symbol = &sym_x, .level = '.'}};
	const struct count_options options = {
		.hist = {.keys = {HIST_SYM, HIST_SRCLINE}, .nr_keys = 2, .children = true},
		.rules = {.caller_details = line_of_caller, .caller_common = one_for_all, .ctx = &lines},
	};
	struct hist_details samples[NR_CALLEES];
	struct stacks *stacks = stacks_new();
	struct tally tally = {0};
	struct hist *hist;
	uint32_t chain, cell;

	stacks_keep_addresses(stacks);
	assert_int_equal(stacks_intern(stacks, callers, nr_callers, &chain), 0);
	for (unsigned i = 0; i < NR_CALLEES; i++) {
		struct hist_place at = place(&sh, &lib_b, &sym_y, 0);
		samples[i] = (struct hist_details){.srcline = "b.c:1", .socket = i};
		at.details = &samples[i];
		assert_int_equal(tally_find(&tally, &at, chain, &cell), 0);
		tally.amounts[cell] = (struct hist_amount){.period = 1 + i, .nr_samples = 1};
	}
	assert_int_equal(count_cells(&tally, stacks, &options, &hist), 0);
	for (unsigned i = 1; i <= nr_callers; i++) {
		struct hist_place of_caller = place(&sh, &lib_a, &sym_x, 0);
		of_caller.details = &lines.of[i];
		const struct hist_entry *entry = hist_entry_of(hist, &of_caller);
		assert_non_null(entry);
		assert_int_equal(entry->children_period, NR_CALLEES * (NR_CALLEES + 1) / 2);
	}
	hist_free(hist);
	tally_fini(&tally);
	stacks_free(stacks);
}

/* Where details of callers depend on their place alone they are made once for it, whatever the details of samples. */
static void test_details_of_callers(void **state)
{
	(void)state;
	check_details_of_callers(1, 1);
	check_details_of_callers(2, 2 * NR_CALLEES); /* the place that is remembered may be one for both */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_uses_come_back),
		cmocka_unit_test(test_tally_cells),
		cmocka_unit_test(test_tally_details),
		cmocka_unit_test(test_equal_samples_are_one_entry),
		cmocka_unit_test(test_order_of_equals),
		cmocka_unit_test(test_objects_come_before_missing_symbols),
		cmocka_unit_test(test_callers_count_once),
		cmocka_unit_test(test_callers_of_what_is_hidden),
		cmocka_unit_test(test_details_of_callers),
		cmocka_unit_test(test_activities),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_sort_without_trees),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_names_of_one_length),
		cmocka_unit_test(test_functions_inlined_into_one),
		cmocka_unit_test(test_functions_at_one_place),
		cmocka_unit_test(test_names_that_were_chosen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
