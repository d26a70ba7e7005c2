/* SPDX-License-Identifier: MIT */
/* The rows of the terminal view, without a terminal. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/report/time_bins.h"
#include "analyze/symbols/dso.h"
#include "base/buf.h"
#include "cmd/view/line.h"
#include "cmd/view/model.h"
#include "cmd/view/timeline.h"
#include "perfdata/ledger.h"

static struct dso program = {.name = "/bin/program", .short_name = "program", .age = 1};
static struct dso library = {.name = "/lib/lib.so", .short_name = "lib.so", .age = 2};
static struct dso kernel = {.name = "[kernel.kallsyms]", .short_name = "[kernel.kallsyms]", .age = 3};
static const struct symbol sym_main = {.start = 0x10, .end = 0x20, .name = "main"};
static const struct symbol sym_work = {.start = 0x20, .end = 0x30, .name = "work"};
static const struct symbol sym_leaf = {.start = 0x30, .end = 0x40, .name = "leaf"};
static const struct symbol sym_copy = {.start = 0x40, .end = 0x50, .name = "copy"};
static const struct symbol sym_read = {.start = 0x50, .end = 0x60, .name = "sys_read"};
static struct comm comm_a = {.text = "alpha"}, comm_b = {.text = "beta"};
static struct task task_a = {.pid = 1, .tid = 1, .comm = &comm_a}, task_b = {.pid = 1, .tid = 2, .comm = &comm_b};

struct fixture {
	struct tally tally;
	struct tally *tallies[1];
	struct view_event event;
	struct view_data data;
	struct model *model;
};

static struct location at(struct dso *dso, const struct symbol *symbol, char level)
{
	return (struct location){
		.ip = symbol->start, .address = symbol->start, .dso = dso, .symbol = symbol, .level = level};
}

/* Samples of a task with a chain, the innermost frame first. */
static void add(struct fixture *fixture, struct task *task, const struct location frames[], unsigned nr,
		uint64_t period)
{
	const struct hist_place place = {.comm = task->comm,
					 .task = task,
					 .tid = task->tid,
					 .dso = frames[0].dso,
					 .symbol = frames[0].symbol,
					 .address = frames[0].address,
					 .level = frames[0].level};
	uint32_t chain, cell;

	assert_int_equal(stacks_intern((struct stacks *)fixture->data.stacks, frames, nr, &chain), 0);
	assert_int_equal(tally_find(&fixture->tally, &place, chain, &cell), 0);
	fixture->tally.amounts[cell].period += period;
	fixture->tally.amounts[cell].nr_samples++;
}

static void fill(struct fixture *fixture)
{
	struct location leaf = at(&program, &sym_leaf, '.'), work = at(&program, &sym_work, '.');
	struct location start = at(&program, &sym_main, '.'), copy = at(&library, &sym_copy, '.');
	struct location enter = at(&kernel, &sym_read, 'k');

	add(fixture, &task_a, (struct location[]){leaf, work, start}, 3, 60);
	add(fixture, &task_a, (struct location[]){copy, work, start}, 3, 20);
	add(fixture, &task_a, (struct location[]){work, start}, 2, 5);
	add(fixture, &task_b, (struct location[]){enter, copy}, 2, 15);
}

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	fixture->tallies[0] = &fixture->tally;
	fixture->event = (struct view_event){.name = "cycles", .tallies = fixture->tallies, .nr = 1, .chains = true};
	fixture->data = (struct view_data){
		.events = &fixture->event,
		.nr_events = 1,
		.stacks = stacks_new(),
		.count = {.hist = {.keys = {HIST_COMM, HIST_DSO, HIST_SYM}, .nr_keys = 3, .children = true},
			  .uses = true,
			  .direction = CALLTREE_CALLER},
		.columns = {HIST_CHILDREN, HIST_SELF, HIST_COMM, HIST_DSO, HIST_SYM},
		.nr_columns = 5,
		.graph_percent = 0.5,
	};
	fill(fixture);
	assert_int_equal(model_new(&fixture->data, &fixture->model), 0);
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	model_free(fixture->model);
	tally_fini(&fixture->tally);
	stacks_free((struct stacks *)fixture->data.stacks);
	free(fixture);
	return 0;
}

/* All rows from the first on: "main work:1 leaf:2", names and, of branches, their depth. */
static const char *shown(struct model *model)
{
	static char text[1024];
	struct row row = {0};
	size_t len = 0;

	text[0] = '\0';
	for (bool more = model_has_row(model, row); more; more = model_down(model, &row)) {
		const struct hist_place place = model_place(model, row);
		const struct branch *branch = model_branch(model, row);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", len ? " " : "", place.symbol->name);
		if (branch)
			len += (size_t)snprintf(text + len, sizeof(text) - len, ":%u", branch->depth);
	}
	return text;
}

/* And from the last one up: the same rows. */
static void check_way_up(struct model *model)
{
	struct row down[64], row = {0};
	unsigned nr = 0;

	for (bool more = model_has_row(model, row); more && nr < 64; more = model_down(model, &row))
		down[nr++] = row;
	row = model_last(model);
	while (nr--) {
		assert_int_equal(row.entry, down[nr].entry);
		assert_int_equal(row.branch, down[nr].branch);
		assert_int_equal(model_up(model, &row), nr > 0);
	}
}

static struct row row_of(struct model *model, const char *symbol)
{
	struct row row = {0};

	for (bool more = model_has_row(model, row); more; more = model_down(model, &row))
		if (!row.branch && strcmp(model_place(model, row).symbol->name, symbol) == 0)
			return row;
	fail_msg("no row %s", symbol);
	return row;
}

static void test_entries(void **state)
{
	struct fixture *fixture = *state;
	struct model *model = fixture->model;

	assert_string_equal(shown(model), "main work leaf copy sys_read copy");
	assert_int_equal(model->totals[0], 100);
	assert_true(model_share(model, model_entry(model, (struct row){0})->children_period) > 84.9);
	check_way_up(model);
}

static void test_one_level(void **state)
{
	struct fixture *fixture = *state;
	struct model *model = fixture->model;

	assert_int_equal(model_sign(model, (struct row){0}), '+');
	model_toggle(model, (struct row){0});
	assert_int_equal(model_sign(model, (struct row){0}), '-');
	/* main and work are one run: nothing branches off between them. */
	assert_string_equal(shown(model), "main main:1 work leaf copy sys_read copy");
	check_way_up(model);
	model_toggle(model, (struct row){.branch = 1});
	assert_string_equal(shown(model), "main main:1 work:1 leaf:2 copy:2 work leaf copy sys_read copy");
	check_way_up(model);
	/* Closing the outer one hides all below, and keeps what was open. */
	model_toggle(model, (struct row){.branch = 1});
	assert_string_equal(shown(model), "main main:1 work leaf copy sys_read copy");
	model_toggle(model, (struct row){0});
	assert_string_equal(shown(model), "main work leaf copy sys_read copy");
}

/* Where all branches are below the limit there is nothing to open. */
static void test_sign_of_small_rows(void **state)
{
	struct fixture *fixture = *state;
	struct model *model = fixture->model;

	assert_int_equal(model_sign(model, row_of(model, "sys_read")), '+');
	fixture->data.graph_percent = 20;
	assert_int_equal(model_recount(model), 0);
	assert_int_equal(model_sign(model, row_of(model, "sys_read")), ' ');
	assert_int_equal(model_sign(model, row_of(model, "main")), '+');
}

static void test_whole_rows(void **state)
{
	struct fixture *fixture = *state;
	struct model *model = fixture->model;

	model_toggle_entry(model, row_of(model, "work"));
	assert_string_equal(shown(model), "main work work:1 leaf:2 copy:2 main:1 work:1 leaf copy sys_read copy");
	model->cursor = (struct row){1, 3};
	model_toggle_entry(model, (struct row){1, 3});
	assert_int_equal(model->cursor.branch, 0);
	model_open_all(model);
	assert_non_null(strstr(shown(model), "main:1 work:1 leaf:2 copy:2 work"));
	check_way_up(model);
	model_close_all(model);
	assert_string_equal(shown(model), "main work leaf copy sys_read copy");
}

/* Callers of a function, rather than what it called. */
static void test_direction(void **state)
{
	struct fixture *fixture = *state;
	struct model *model = fixture->model;

	model->count.direction = CALLTREE_CALLEE;
	assert_int_equal(model_recount(model), 0);
	model_toggle_entry(model, row_of(model, "leaf"));
	assert_non_null(strstr(shown(model), "leaf leaf:1 work:1 main:1"));
}

static void test_without_children(void **state)
{
	struct fixture *fixture = *state;
	struct model *model = fixture->model;

	model->count.hist.children = false;
	assert_int_equal(model_recount(model), 0);
	assert_string_equal(shown(model), "leaf copy sys_read work");
}

static void test_filter(void **state)
{
	struct fixture *fixture = *state;
	struct model *model = fixture->model;

	model->cursor = row_of(model, "work");
	strcpy(model->filter, "o");
	assert_int_equal(model_choose(model), 0);
	assert_string_equal(shown(model), "work copy copy");
	assert_int_equal(model->cursor.entry, 0); /* it stays at the entry */
	assert_int_equal(model->totals[0], 100);
	model->relative = true;
	assert_int_equal(model_choose(model), 0);
	assert_int_equal(model->totals[0], 5 + 20);
	strcpy(model->filter, "nothing");
	assert_int_equal(model_choose(model), 0);
	assert_string_equal(shown(model), "");
	assert_false(model_has_row(model, model->cursor));
	struct row row = {3, 4};
	model_normalize(model, &row);
	assert_int_equal(row.entry + row.branch, 0);
}

static void test_limit(void **state)
{
	struct fixture *fixture = *state;
	struct model *model = fixture->model;

	model->percent_limit = 60;
	assert_int_equal(model_choose(model), 0);
	assert_string_equal(shown(model), "main work leaf");
}

static void test_zooms(void **state)
{
	struct fixture *fixture = *state;
	struct model *model = fixture->model;
	struct hist_place place = model_place(model, row_of(model, "sys_read"));
	struct buf text = {0};
	int err;

	assert_int_equal(model_zoom(model, ZOOM_THREAD, &place, NULL), 0);
	assert_string_equal(shown(model), "sys_read copy");
	assert_int_equal(model_zoom(model, ZOOM_KERNEL, &place, NULL), 0);
	assert_string_equal(shown(model), "sys_read");
	model_put_zooms(model, &text);
	assert_string_equal(buf_text(&text), "Thread: beta(2), Kernel");
	buf_fini(&text);
	assert_int_equal(model->totals[0], 100); /* shares stay those of all samples */
	assert_true(model_zoom_out(model, &err));
	assert_true(model_zoom_out(model, &err));
	assert_false(model_zoom_out(model, &err));
	assert_string_equal(shown(model), "main work leaf copy sys_read copy");
	place = model_place(model, row_of(model, "work"));
	/* With callers: what is in it, and in what it called; not the other samples in copy. */
	assert_int_equal(model_zoom(model, ZOOM_SYMBOL, &place, NULL), 0);
	assert_string_equal(shown(model), "main work leaf copy");
	assert_int_equal(hist_period(model->hists[0]), 85);
	assert_true(model_zoom_out(model, &err));
	assert_int_equal(model_zoom(model, ZOOM_DSO, &place, NULL), 0);
	assert_string_equal(shown(model), "main work leaf");
	assert_true(model_zoom_out(model, &err));
	assert_int_equal(model_zoom(model, ZOOM_KERNEL, &place, NULL), -ENOENT);
	for (unsigned i = 0; i < MODEL_ZOOMS; i++)
		assert_int_equal(model_zoom(model, ZOOM_COMM, &place, NULL), 0);
	assert_int_equal(model_zoom(model, ZOOM_COMM, &place, NULL), -ENOSPC);
}

static bool ends_at_once(void)
{
	return true;
}

/* Of many cells: what was shown before is still there. */
static void test_zoom_is_given_up(void **state)
{
	struct fixture *fixture = *state;
	struct model *model = fixture->model;
	const struct hist_place place = model_place(model, row_of(model, "sys_read"));

	assert_int_equal(model_zoom(model, ZOOM_THREAD, &place, ends_at_once), 0); /* too soon to ask */
	assert_int_equal(model_cells(model), 4);
	int err;
	assert_true(model_zoom_out(model, &err));
	for (uint64_t address = 1; address <= 1 << 16; address++) {
		const struct hist_place other = {.comm = &comm_a, .task = &task_a, .tid = 1, .address = address};
		uint32_t cell;
		assert_int_equal(tally_find(&fixture->tally, &other, 0, &cell), 0);
		fixture->tally.amounts[cell] = (struct hist_amount){.period = 1, .nr_samples = 1};
	}
	assert_int_equal(model_zoom(model, ZOOM_THREAD, &place, ends_at_once), -EINTR);
	assert_int_equal(model->nr_zooms, 0);
	assert_string_equal(shown(model), "main work leaf copy sys_read copy");
	assert_int_equal(model_zoom(model, ZOOM_THREAD, &place, NULL), 0);
}

/* What was open and where the cursor was outlives more samples. */
static void test_recount_keeps_what_is_open(void **state)
{
	struct fixture *fixture = *state;
	struct model *model = fixture->model;

	model_toggle(model, row_of(model, "main"));
	model_toggle(model, (struct row){.branch = 1});
	model->cursor = row_of(model, "sys_read");
	add(fixture, &task_b, (struct location[]){at(&kernel, &sym_read, 'k'), at(&library, &sym_copy, '.')}, 2, 900);
	assert_int_equal(model_recount(model), 0);
	assert_string_equal(model_place(model, model->cursor).symbol->name, "sys_read");
	assert_non_null(strstr(shown(model), "main main:1 work:1 leaf:2 copy:2"));
	check_way_up(model);
	/* While no branch is above the limit there is nothing to show. */
	fixture->data.graph_percent = 99;
	assert_int_equal(model_recount(model), 0);
	assert_int_equal(model_sign(model, row_of(model, "main")), ' ');
	fixture->data.graph_percent = 0.5;
	assert_int_equal(model_recount(model), 0);
	assert_int_equal(model_sign(model, row_of(model, "main")), '-');
	assert_non_null(strstr(shown(model), "main main:1"));
	check_way_up(model);
}

/* A tree of keys: command, object, function. */
static int setup_levels(void **state)
{
	static const struct hierarchy_level levels[] = {
		{{HIST_COMM}, 1},
		{{HIST_DSO}, 1},
		{{HIST_SYM}, 1},
	};
	int err = setup(state);
	struct fixture *fixture = *state;

	model_free(fixture->model);
	fixture->data.levels = levels;
	fixture->data.nr_levels = 3;
	fixture->data.count.hist.children = false;
	fixture->data.count.direction = CALLTREE_CALLEE;
	return err ? err : model_new(&fixture->data, &fixture->model);
}

/* "alpha(85) program(65) leaf(60)"; of branches, their function and depth. */
static const char *shown_levels(struct model *model)
{
	static char text[1024];
	struct row row = {0};
	size_t len = 0;

	text[0] = '\0';
	for (bool more = model_has_row(model, row); more; more = model_down(model, &row)) {
		const struct hist_place place = model_place(model, row);
		const struct branch *branch = model_branch(model, row);
		const char *name = place.symbol ? place.symbol->name
				   : place.dso  ? dso_short_name(place.dso)
						: place.comm->text;
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", len ? " " : "", name);
		if (branch)
			len += (size_t)snprintf(text + len, sizeof(text) - len, ":%u", branch->depth);
		else
			len += (size_t)snprintf(text + len, sizeof(text) - len, "(%d)",
						(int)model_entry(model, row)->period);
	}
	return text;
}

static void test_levels(void **state)
{
	struct fixture *fixture = *state;
	struct model *model = fixture->model;

	assert_string_equal(shown_levels(model), "alpha(85) beta(15)");
	assert_int_equal(model_sign(model, (struct row){0}), '+');
	model_toggle(model, (struct row){0});
	assert_int_equal(model_sign(model, (struct row){0}), '-');
	assert_string_equal(shown_levels(model), "alpha(85) program(65) lib.so(20) beta(15)");
	model_toggle(model, (struct row){.entry = 1});
	assert_string_equal(shown_levels(model), "alpha(85) program(65) leaf(60) work(5) lib.so(20) beta(15)");
	check_way_up(model);
	/* A leaf has a call tree, here of its callers. */
	model_toggle_entry(model, (struct row){.entry = 2});
	assert_string_equal(shown_levels(model),
			    "alpha(85) program(65) leaf(60) leaf:1 work:1 main:1 work(5) lib.so(20) beta(15)");
	check_way_up(model);
	/* Closed and opened again, what is below is as it was. */
	model->cursor = (struct row){2, 2};
	model_toggle(model, (struct row){0});
	assert_string_equal(shown_levels(model), "alpha(85) beta(15)");
	assert_int_equal(model->cursor.entry + model->cursor.branch, 0); /* at what is above */
	model_toggle(model, (struct row){0});
	assert_non_null(strstr(shown_levels(model), "leaf:1 work:1 main:1 work(5)"));
	/* All levels below, without call trees. */
	model_toggle_entry(model, (struct row){0});
	model_close_all(model);
	model_toggle_entry(model, (struct row){0});
	assert_string_equal(shown_levels(model), "alpha(85) program(65) leaf(60) work(5) lib.so(20) copy(20) beta(15)");
	model_toggle_entry(model, (struct row){0});
	assert_string_equal(shown_levels(model), "alpha(85) beta(15)");
	model->cursor = (struct row){.entry = 1};
	model_open_all(model);
	assert_string_equal(model_entry(model, model->cursor)->place.comm->text, "beta");
	assert_non_null(strstr(shown_levels(model), "beta(15) [kernel.kallsyms](15) sys_read(15) sys_read:1 copy:1"));
	check_way_up(model);
	model->cursor = model_last(model);
	model_close_all(model);
	assert_string_equal(shown_levels(model), "alpha(85) beta(15)");
	assert_int_equal(model->cursor.entry, 1);
}

static void test_levels_are_chosen(void **state)
{
	struct fixture *fixture = *state;
	struct model *model = fixture->model;

	/* A filter opens what is above what it finds; shares of levels are those of all that is below. */
	strcpy(model->filter, "work");
	assert_int_equal(model_choose(model), 0);
	assert_string_equal(shown_levels(model), "alpha(85) program(65) work(5)");
	assert_int_equal(model->totals[0], 100);
	model->relative = true;
	assert_int_equal(model_choose(model), 0);
	assert_int_equal(model->totals[0], 85);
	model->relative = false;
	model_toggle(model, (struct row){0}); /* and stays closed while the filter is the same */
	assert_int_equal(model_choose(model), 0);
	assert_string_equal(shown_levels(model), "alpha(85)");
	strcpy(model->filter, "nothing");
	assert_int_equal(model_choose(model), 0);
	assert_false(model_has_row(model, model->cursor));
	model->filter[0] = '\0';
	assert_int_equal(model_choose(model), 0);
	model_close_all(model);
	model_open_all(model);
	model_toggle_entry(model, (struct row){0});
	model_toggle_entry(model, (struct row){0});
	model->percent_limit = 30;
	assert_int_equal(model_choose(model), 0);
	assert_non_null(strstr(shown_levels(model), "alpha(85) program(65) leaf(60)"));
	assert_null(strstr(shown_levels(model), "lib.so"));
	assert_null(strstr(shown_levels(model), "beta"));
	/* Nothing below is large enough: there is nothing to open. */
	model->percent_limit = 62;
	assert_int_equal(model_choose(model), 0);
	assert_string_equal(shown_levels(model), "alpha(85) program(65)");
	assert_int_equal(model_sign(model, (struct row){.entry = 1}), ' ');
}

/* A row is about its keys alone, not about the function or object of its first sample. */
static void test_rows_of_other_keys(void **state)
{
	struct fixture *fixture = *state;
	struct model *model = fixture->model;
	int err;

	model->count.hist.keys[0] = HIST_COMM;
	model->count.hist.nr_keys = 1;
	model->count.hist.children = false;
	assert_int_equal(model_recount(model), 0);
	struct hist_place place = model_place(model, (struct row){0});
	assert_true(place.comm == &comm_a && !place.dso && !place.symbol && !place.level);
	assert_int_equal(model_zoom(model, ZOOM_DSO, &place, NULL), -ENOENT);
	assert_int_equal(model_zoom(model, ZOOM_SYMBOL, &place, NULL), -ENOENT);
	assert_int_equal(model_zoom(model, ZOOM_KERNEL, &place, NULL), -ENOENT);
	/* An object, of a line of a call tree: its samples are counted. */
	const struct hist_place in_library = {.dso = &library};
	assert_int_equal(model_zoom(model, ZOOM_DSO, &in_library, NULL), 0);
	assert_int_equal(model->nr_shown, 1);
	assert_int_equal(model_entry(model, (struct row){0})->period, 20);
	assert_true(model_zoom_out(model, &err));
	model->count.hist.keys[0] = HIST_DSO;
	assert_int_equal(model_recount(model), 0);
	place = model_place(model, (struct row){0});
	assert_true(!place.comm && place.dso == &program && !place.symbol);
	assert_int_equal(model_zoom(model, ZOOM_SYMBOL, &place, NULL), -ENOENT);
}

static void test_levels_are_zoomed(void **state)
{
	struct fixture *fixture = *state;
	struct model *model = fixture->model;
	struct hist_place place;
	int err;

	/* A level is about its own keys and those above, not about those of its first sample. */
	place = model_place(model, (struct row){0});
	assert_true(place.comm == &comm_a && !place.dso && !place.symbol && !place.level);
	assert_int_equal(model_zoom(model, ZOOM_DSO, &place, NULL), -ENOENT);
	assert_int_equal(model_zoom(model, ZOOM_SYMBOL, &place, NULL), -ENOENT);
	assert_int_equal(model_zoom(model, ZOOM_KERNEL, &place, NULL), -ENOENT);
	model_toggle(model, (struct row){0});
	model_toggle(model, (struct row){.entry = 1});
	model->cursor = (struct row){.entry = 1};
	place = model_place(model, model->cursor);
	assert_true(place.dso == &program && !place.symbol);
	/* Samples in the object: sums are those of what is left; what was open is open, and the cursor stays. */
	assert_int_equal(model_zoom(model, ZOOM_DSO, &place, NULL), 0);
	assert_string_equal(shown_levels(model), "alpha(65) program(65) leaf(60) work(5)");
	assert_int_equal(model->cursor.entry, 1);
	assert_true(model_zoom_out(model, &err));
	assert_string_equal(shown_levels(model), "alpha(85) program(65) leaf(60) work(5) lib.so(20) beta(15)");
	place = model_place(model, (struct row){.entry = 5});
	assert_int_equal(model_zoom(model, ZOOM_COMM, &place, NULL), 0);
	assert_string_equal(shown_levels(model), "beta(15)");
	model_open_all(model);
	place = model_place(model, (struct row){.entry = 1});
	assert_int_equal(place.level, 'k');
	assert_int_equal(model_zoom(model, ZOOM_KERNEL, &place, NULL), 0);
	assert_true(model_zoom_out(model, &err) && model_zoom_out(model, &err));
	assert_string_equal(shown_levels(model),
			    "alpha(85) beta(15) [kernel.kallsyms](15) sys_read(15) sys_read:1 copy:1");
}

static void test_level_lines(void **state)
{
	struct fixture *fixture = *state;
	struct model *model = fixture->model;
	struct line line = {0};
	struct line_style style = {.widths = {0}};

	fixture->data.columns[0] = HIST_SELF;
	fixture->data.columns[1] = HIST_SAMPLES;
	model_toggle_entry(model, (struct row){0});
	line_of_titles(&line, model, &style);
	assert_string_equal(buf_text(&line.text), "  Overhead       Samples        Command / Shared Object / Symbol");
	line_of_row(&line, model, &style, (struct row){0});
	assert_string_equal(buf_text(&line.text), "-   85.00%             3        alpha");
	line_of_row(&line, model, &style, (struct row){.entry = 2});
	assert_string_equal(buf_text(&line.text), "      +   60.00%             1        [.] leaf");
	model_toggle(model, (struct row){.entry = 2});
	line_of_row(&line, model, &style, (struct row){2, 1});
	assert_string_equal(buf_text(&line.text), "         + 60.00% leaf");
	line_fini(&line);
}

/* What the rows do not tell apart is that of their first samples. */
static void test_place_of_rows_of_few_keys(void **state)
{
	struct fixture *fixture = *state;
	struct model *model = fixture->model;
	const struct hist_place place = model_place(model, (struct row){0});

	assert_true(!place.comm && !place.task && place.dso);
	assert_int_equal(model_zoom(model, ZOOM_COMM, &place, NULL), -ENOENT);
	assert_int_equal(model_zoom(model, ZOOM_THREAD, &place, NULL), -ENOENT);
}

static int setup_objects(void **state)
{
	int err = setup(state);
	struct fixture *fixture = *state;

	model_free(fixture->model);
	fixture->data.count.hist.keys[0] = HIST_DSO;
	fixture->data.count.hist.nr_keys = 1;
	return err ? err : model_new(&fixture->data, &fixture->model);
}

static void test_no_events(void **state)
{
	(void)state;
	const struct view_data data = {.stacks = stacks_new()};
	struct model *model;

	assert_int_equal(model_new(&data, &model), 0);
	assert_false(model_has_row(model, (struct row){0}));
	struct row row = model_last(model);
	assert_false(model_down(model, &row));
	assert_false(model_up(model, &row));
	model_free(model);
	stacks_free((struct stacks *)data.stacks);
}

static void test_line(void **state)
{
	struct fixture *fixture = *state;
	struct line line = {0};
	struct line_style style = {.widths = {0}};

	line_style_fit(&style, fixture->model, model_entry(fixture->model, (struct row){0}));
	line_of_row(&line, fixture->model, &style, (struct row){0});
	assert_string_equal(buf_text(&line.text), "+   85.00%     0.00%  alpha    program        [.] main");
	line_of_titles(&line, fixture->model, &style);
	assert_string_equal(buf_text(&line.text), "  Children  Overhead  Command  Shared Object  Symbol");
	line_fini(&line);
}

/* Each has a column: nothing of the line is left out, whatever is behind them. */
static void test_line_of_a_large_group(void **state)
{
	enum { MEMBERS = 100 };
	struct fixture *fixture = *state;
	struct tally *tallies[MEMBERS];
	struct line line = {0};
	struct line_style style = {.widths = {0}};

	for (unsigned i = 0; i < MEMBERS; i++)
		tallies[i] = &fixture->tally;
	fixture->event.tallies = tallies;
	fixture->event.nr = MEMBERS;
	assert_int_equal(model_recount(fixture->model), 0);
	line_of_row(&line, fixture->model, &style, (struct row){0});
	size_t at = 0;
	for (unsigned i = 0; i < line.nr; i++) {
		assert_int_equal(line.pieces[i].from, at);
		assert_int_equal(line.pieces[i].name, i + 1 == line.nr);
		at += line.pieces[i].len;
	}
	assert_int_equal(at, line.text.len);
	assert_true(line.nr > 2 * MEMBERS);
	line_fini(&line);
}

/* It is cut, and its column ends before the next one begins. */
static void test_long_name_in_a_line(void **state)
{
	struct fixture *fixture = *state;
	struct line line = {0};
	struct line_style style = {.widths = {0}};

	comm_a.text = "a command of which the name is too long";
	line_style_fit(&style, fixture->model, model_entry(fixture->model, (struct row){0}));
	line_of_row(&line, fixture->model, &style, (struct row){0});
	comm_a.text = "alpha";
	assert_string_equal(buf_text(&line.text),
			    "+   85.00%     0.00%  a command of which the name is t  program        [.] main");
	line_fini(&line);
}

static void test_timeline(void **state)
{
	(void)state;
	struct time_bins bins = {0}, other;
	const struct ledger_entry gap = {.from_ns = 1000 + 500000000, .to_ns = 1000 + 500000001};

	for (uint64_t ms = 0; ms < 1000; ms++)
		time_bins_add(&bins, 1000 + ms * 1000000);
	time_bins_begin(&other, &bins);
	time_bins_add(&other, 1000 + 1999000000);
	time_bins_join(&bins, &other);
	struct timeline timeline = {.bins = &bins, .gaps = &gap, .nr_gaps = 1, .mark = -1};
	timeline_fit(&timeline, 10);
	uint64_t sum = 0;
	for (int i = 0; i < 10; i++)
		sum += timeline.counts[i];
	assert_int_equal(sum, 1001);
	assert_int_equal(timeline_bar(&timeline, 0), 8);
	assert_int_equal(timeline_bar(&timeline, 7), 0);
	assert_int_equal(timeline_bar(&timeline, 9), 1);
	assert_true(timeline.lost[2] && !timeline.lost[1] && !timeline.lost[3]);
	struct view_times times = timeline_times(&timeline, 0, 9);
	assert_int_equal(times.first_ns, bins.start_ns);
	assert_int_equal(times.last_ns, bins.end_ns);
	timeline.choosing = true;
	timeline.cursor = 4, timeline.mark = 2;
	assert_true(timeline_is_chosen(&timeline, 3) && !timeline_is_chosen(&timeline, 5));
}

/* The first and the last time that there can be: the samples of a damaged recording may be from anywhere. */
static void test_timeline_of_all_times(void **state)
{
	(void)state;
	struct time_bins bins = {0};
	const struct ledger_entry gap = {.from_ns = 0, .to_ns = UINT64_MAX};

	time_bins_add(&bins, 0);
	time_bins_add(&bins, UINT64_MAX);
	struct timeline timeline = {.bins = &bins, .gaps = &gap, .nr_gaps = 1, .mark = -1};
	timeline_fit(&timeline, 10);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(timeline.counts[i], i == 0 || i == 9);
		assert_true(timeline.lost[i]);
	}
	struct view_times times = timeline_times(&timeline, 0, 9);
	assert_true(times.first_ns == 0 && times.last_ns == UINT64_MAX);
	times = timeline_times(&timeline, 5, 5);
	assert_true(times.first_ns > UINT64_MAX / 10 * 4 && times.first_ns < times.last_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_entries, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_level, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sign_of_small_rows, setup, teardown),
		cmocka_unit_test_setup_teardown(test_whole_rows, setup, teardown),
		cmocka_unit_test_setup_teardown(test_direction, setup, teardown),
		cmocka_unit_test_setup_teardown(test_without_children, setup, teardown),
		cmocka_unit_test_setup_teardown(test_filter, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_zooms, setup, teardown),
		cmocka_unit_test_setup_teardown(test_zoom_is_given_up, setup, teardown),
		cmocka_unit_test_setup_teardown(test_recount_keeps_what_is_open, setup, teardown),
		cmocka_unit_test_setup_teardown(test_levels, setup_levels, teardown),
		cmocka_unit_test_setup_teardown(test_levels_are_chosen, setup_levels, teardown),
		cmocka_unit_test_setup_teardown(test_rows_of_other_keys, setup, teardown),
		cmocka_unit_test_setup_teardown(test_levels_are_zoomed, setup_levels, teardown),
		cmocka_unit_test_setup_teardown(test_level_lines, setup_levels, teardown),
		cmocka_unit_test_setup_teardown(test_place_of_rows_of_few_keys, setup_objects, teardown),
		cmocka_unit_test(test_no_events),
		cmocka_unit_test_setup_teardown(test_line, setup, teardown),
		cmocka_unit_test_setup_teardown(test_line_of_a_large_group, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long_name_in_a_line, setup, teardown),
		cmocka_unit_test(test_timeline),
		cmocka_unit_test(test_timeline_of_all_times),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
