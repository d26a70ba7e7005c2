/* SPDX-License-Identifier: MIT */
/* What is forgotten of samples that are shown while they come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/machine/machine.h"
#include "analyze/machine/stacks.h"
#include "analyze/symbols/dso.h"
#include "cmd/report/report_samples.h"
#include "read/session.h"
#include "tasks/tasks.h"

static struct dso program = {.name = "/bin/program", .short_name = "program"};
static const struct symbol sym_main = {.start = 0x10, .end = 0x20, .name = "main"};
static const struct symbol sym_work = {.start = 0x20, .end = 0x30, .name = "work"};
static const struct symbol sym_leaf = {.start = 0x30, .end = 0x40, .name = "leaf"};

struct fixture {
	struct machine *machine;
	struct samples samples;
	struct tally shown; /* of the only event */
	struct hist_amount amounts[8];
};

static struct location at(const struct symbol *symbol)
{
	return (struct location){.ip = symbol->start, .dso = &program, .symbol = symbol, .level = '.'};
}

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	const struct samples_options options = {.chains = true};

	*state = fixture;
	assert_int_equal(machine_new(NULL, NULL, &fixture->machine), 0);
	assert_int_equal(samples_init(&fixture->samples, &options, NULL, fixture->machine), 0);
	fixture->shown.amounts = fixture->amounts;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	samples_fini(&fixture->samples);
	machine_free(fixture->machine);
	free(fixture);
	return 0;
}

/* Samples of a task; shown: how many of them are shown already. */
static void add(struct fixture *fixture, uint32_t tid, const struct location *frames, unsigned nr, uint64_t shown)
{
	const struct samples_row row = {.task = machine_task(fixture->machine, tid, tid),
					.frames = frames,
					.nr_frames = nr,
					.amount = {.period = 10, .nr_samples = 1}};

	assert_int_equal(samples_add(&fixture->samples, &row), 0);
	fixture->samples.events[0].tally.amounts[fixture->shown.nr] = (struct hist_amount){0};
	fixture->shown.amounts[fixture->shown.nr++] = (struct hist_amount){.period = 10 * shown, .nr_samples = shown};
}

static void end_task(struct fixture *fixture, uint32_t tid)
{
	struct {
		struct perf_event_header header;
		uint32_t pid, ppid, tid, ptid;
		uint64_t time;
	} exit = {.header = {.type = PERF_RECORD_EXIT, .size = sizeof(exit)}, .pid = tid, .tid = tid};
	const struct session_record record = {.view = {.header = &exit.header}};

	assert_int_equal(machine_process(fixture->machine, &record), 0);
}

static void shrink(struct fixture *fixture)
{
	struct tally *const shown[] = {&fixture->shown};

	assert_int_equal(samples_shrink(&fixture->samples, shown), 0);
	assert_int_equal(fixture->shown.nr, fixture->samples.events[0].tally.nr);
}

static bool has_task(struct fixture *fixture, uint32_t tid)
{
	return machine_known_task(fixture->machine, tid, tid) != NULL;
}

/* The names of a chain, innermost first: "leaf work main". */
static const char *chain_text(const struct stacks *stacks, uint32_t chain, char *text)
{
	for (*text = '\0'; chain; chain = stacks_outer(stacks, chain)) {
		strcat(text, stacks_location(stacks, stacks_frame(stacks, chain))->symbol->name);
		strcat(text, stacks_outer(stacks, chain) ? " " : "");
	}
	return text;
}

static void test_cells_without_samples_go(void **state)
{
	struct fixture *fixture = *state;
	const struct location chain[] = {at(&sym_leaf), at(&sym_work), at(&sym_main)};
	const struct location other[] = {at(&sym_work), at(&sym_leaf), at(&sym_main)};
	char text[64];

	add(fixture, 1, other, 3, 0);
	add(fixture, 1, chain, 3, 7);
	add(fixture, 2, chain + 1, 2, 0);
	fixture->samples.events[0].tally.amounts[2] = (struct hist_amount){.period = 30, .nr_samples = 3};
	uint32_t frames = stacks_end_frame(fixture->samples.stacks);
	uint32_t links = stacks_end_chain(fixture->samples.stacks);
	shrink(fixture);

	const struct tally *tally = &fixture->samples.events[0].tally;
	assert_int_equal(tally->nr, 2);
	assert_int_equal(fixture->amounts[0].nr_samples, 7);
	assert_int_equal(fixture->amounts[1].nr_samples, 0);
	const struct tally_cell first = tally_cell(tally, 0), second = tally_cell(tally, 1);
	assert_int_equal(first.amount.nr_samples, 0);
	assert_int_equal(second.amount.period, 30);
	assert_int_equal(second.place.tid, 2);
	assert_string_equal(chain_text(fixture->samples.stacks, first.chain, text), "leaf work main");
	assert_string_equal(chain_text(fixture->samples.stacks, second.chain, text), "work main");
	assert_int_equal(stacks_end_frame(fixture->samples.stacks), frames);
	assert_int_equal(stacks_end_chain(fixture->samples.stacks), links - 2);
	/* An equal sample finds its cell, another one gets a new one. */
	fixture->shown.nr = 2;
	const struct samples_row row = {
		.task = machine_task(fixture->machine, 1, 1), .frames = chain, .nr_frames = 3, .amount = {10, 1, 0}};
	assert_int_equal(samples_add(&fixture->samples, &row), 0);
	assert_int_equal(tally->nr, 2);
	assert_int_equal(tally_cell(tally, 0).amount.nr_samples, 1);
	const struct samples_row new_row = {
		.task = machine_task(fixture->machine, 1, 1), .frames = other, .nr_frames = 3, .amount = {10, 1, 0}};
	assert_int_equal(samples_add(&fixture->samples, &new_row), 0);
	assert_int_equal(tally->nr, 3);
}

static void test_ended_tasks_go(void **state)
{
	struct fixture *fixture = *state;
	const struct location leaf = at(&sym_leaf);

	add(fixture, 1, &leaf, 1, 1);
	add(fixture, 2, &leaf, 1, 0);
	add(fixture, 3, &leaf, 1, 0);
	end_task(fixture, 1);
	end_task(fixture, 2);
	shrink(fixture);
	assert_true(has_task(fixture, 1) && has_task(fixture, 2) && has_task(fixture, 3)); /* samples may still come */
	shrink(fixture);
	assert_true(has_task(fixture, 1)); /* it is shown */
	assert_false(has_task(fixture, 2));
	assert_true(has_task(fixture, 3)); /* it runs */
	fixture->amounts[0] = (struct hist_amount){0};
	shrink(fixture);
	assert_false(has_task(fixture, 1));
	assert_int_equal(fixture->samples.events[0].tally.nr, 0);
}

static void test_memory_goes(void **state)
{
	struct fixture *fixture = *state;
	enum { MOST = 20000 };
	struct symbol *symbols = calloc(MOST, sizeof(*symbols));
	size_t before = samples_bytes(&fixture->samples);

	for (uint32_t i = 0; i < MOST; i++) {
		symbols[i] = (struct symbol){.start = i, .end = i + 1, .name = "one of many"};
		const struct location chain[] = {at(&sym_leaf), at(&symbols[i]), at(&sym_main)};
		add(fixture, 1, chain, 3, 0);
		fixture->shown.nr = 0;
	}
	for (uint32_t i = 0; i < MOST; i++)
		fixture->samples.events[0].tally.amounts[i] = (struct hist_amount){0};
	size_t full = samples_bytes(&fixture->samples), frames = (size_t)MOST * sizeof(struct location);
	assert_true(full > before + 2 * frames);
	shrink(fixture);
	/* Frames stay: there are no more of them than functions. */
	assert_true(samples_bytes(&fixture->samples) < full - 20 * MOST);
	free(symbols);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_cells_without_samples_go, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_ended_tasks_go, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_memory_goes, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
