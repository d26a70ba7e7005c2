/* SPDX-License-Identifier: MIT */
#include "cmd/report/report_page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "cmd/input/loss_data.h"
#include "cmd/report/report_samples.h"
#include "read/session.h"

/* With so many nodes a page has some megabytes, and a browser shows it in one or two seconds. */
static const struct page_limits default_limits = {.nodes = 1500000, .threads = 200};

int report_page_set_base(const struct option *option, const char *arg, bool negated, void *page_base,
			 struct diag *reterr)
{
	static const char *const words[] = {"auto", "none", "command", "process", "thread"};

	(void)option, (void)negated;
	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(arg, words[i])) {
			*(enum page_base *)page_base = (enum page_base)i;
			return 0;
		}
	return diag_set(reterr, -EINVAL, "\"%s\" is none of auto, none, command, process, thread", arg);
}

/* Were samples of more than one process taken? */
static bool has_processes(const struct samples *samples)
{
	const struct task *first = NULL;

	for (size_t event = 0; event < samples->nr; event++) {
		const struct tally *tally = &samples->events[event].tally;
		for (uint32_t i = 0; i < tally->nr; i++) {
			const struct task *task = tally_cell(tally, i).place.task;
			first = first ? first : task;
			if (task->pid != first->pid)
				return true;
		}
	}
	return false;
}

static int add_input(struct page_tree *tree, const struct report_page_input *input, uint32_t first_series)
{
	const struct samples *samples = input->samples;
	const struct tally **events = calloc(samples->nr + 1, sizeof(*events));

	if (!events)
		return -ENOMEM;
	for (size_t i = 0; i < samples->nr; i++)
		events[i] = &samples->events[i].tally;
	const struct page_recording recording = {
		.events = events,
		.nr_events = (uint32_t)samples->nr,
		.first_series = first_series,
		.stacks = samples->stacks,
		.times = input->times,
	};
	int err = page_tree_add(tree, &recording);
	free(events);
	return err;
}

/* The series of a file: its events, in their order. Returns how many. */
static uint32_t list_events(const struct report_page_input *input, uint32_t file, struct page_series *ret)
{
	size_t nr;
	const struct event_desc *events = session_events(input->session, &nr);

	for (size_t i = 0; i < nr; i++)
		ret[i] = (struct page_series){.name = events[i].name, .file = file, .baseline = -1};
	return (uint32_t)nr;
}

/* The first one of that name in series[from..to) that is not taken; -1: none. */
static int32_t find_series(const struct page_series *series, const bool *taken, uint32_t to, const char *name)
{
	for (uint32_t i = 0; i < to; i++)
		if (!taken[i] && !strcmp(series[i].name, name))
			return (int32_t)i;
	return -1;
}

/* Gives each event of the second file that of the same name in the first one. An event that only one has is compared
 * with nothing: a series without samples. */
static uint32_t pair_series(struct page_series *series, uint32_t nr_before, uint32_t nr, bool *taken)
{
	uint32_t all = nr;

	for (uint32_t i = nr_before; i < nr; i++) {
		int32_t baseline = find_series(series, taken, nr_before, series[i].name);
		if (baseline < 0) {
			baseline = (int32_t)all;
			series[all++] = (struct page_series){.name = series[i].name, .file = 0, .baseline = -1};
		} else {
			taken[baseline] = true;
		}
		series[i].baseline = baseline;
	}
	for (uint32_t i = 0; i < nr_before; i++)
		if (!taken[i])
			series[all++] = (struct page_series){.name = series[i].name, .file = 1, .baseline = (int32_t)i};
	return all;
}

/* What the page is made of, beside the tree. */
struct parts {
	struct page_series *series;
	struct page_file *files;
	bool *taken;
	uint32_t nr_series;
};

static int make_parts(const struct report_page_input inputs[], unsigned nr, struct page_tree *tree, struct parts *parts)
{
	size_t room = 1;
	uint32_t nr_before = 0;
	int err = 0;

	for (unsigned i = 0; i < nr; i++) {
		size_t nr_events;
		session_events(inputs[i].session, &nr_events);
		room += nr_events;
	}
	parts->series = calloc(2 * room, sizeof(*parts->series));
	parts->taken = calloc(2 * room, sizeof(*parts->taken));
	parts->files = calloc(nr, sizeof(*parts->files));
	if (!parts->series || !parts->taken || !parts->files)
		return -ENOMEM;
	for (unsigned i = 0; i < nr && !err; i++) {
		nr_before = i ? parts->nr_series : 0;
		err = add_input(tree, &inputs[i], parts->nr_series);
		parts->nr_series += list_events(&inputs[i], i, parts->series + parts->nr_series);
		parts->files[i] = (struct page_file){
			.name = inputs[i].name,
			.times = inputs[i].times,
			.gaps = inputs[i].lost->gaps,
			.nr_gaps = inputs[i].lost->nr_gaps,
			.lost = inputs[i].lost_samples,
		};
	}
	if (nr > 1)
		parts->nr_series = pair_series(parts->series, nr_before, parts->nr_series, parts->taken);
	return err;
}

int report_page_write(const struct report_page_input inputs[], unsigned nr, const struct report_page_options *options,
		      struct diag *reterr)
{
	struct page_tree tree = {.base = options->base};
	const struct page_limits *limits = options->limits.nodes ? &options->limits : &default_limits;
	struct parts parts = {0};

	for (unsigned i = 0; i < nr && tree.base == PAGE_BASE_AUTO; i++)
		tree.base = has_processes(inputs[i].samples) ? PAGE_BASE_COMMAND : PAGE_BASE_AUTO;
	tree.base = tree.base == PAGE_BASE_AUTO ? PAGE_BASE_NONE : tree.base;
	int err = make_parts(inputs, nr, &tree, &parts);
	if (!err)
		err = page_tree_finish(&tree, limits);
	const struct page page = {
		.title = options->title,
		.tree = &tree,
		.series = parts.series,
		.nr_series = parts.nr_series,
		.files = parts.files,
		.nr_files = nr,
		.table = options->table,
		.texts = options->texts,
		.nr_texts = options->nr_texts,
	};
	if (err)
		diag_set(reterr, err, "out of memory");
	else
		err = page_write(&page, options->output, reterr);
	page_tree_fini(&tree);
	free(parts.series);
	free(parts.taken);
	free(parts.files);
	return err;
}
