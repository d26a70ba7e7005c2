/* SPDX-License-Identifier: MIT */
/* What recordings differ in, on the terminal, with call trees. */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/escape.h"
#include "cmd/cli/terminal.h"
#include "cmd/diff/diff.h"
#include "cmd/diff/diff_join.h"
#include "cmd/report/report_read.h"
#include "cmd/view/view.h"
#include "read/session.h"

struct diff_view {
	const struct diff_files *files;
	struct diff_join *join;
	struct view_event *events; /* heap; of the baseline, those with samples */
	struct tally *tallies;     /* heap; of each event and file */
	struct tally **parts;      /* heap; of each event and file, NULL: it has none */
	struct buf *names;         /* heap; of the events */
	size_t nr_events;
};

static void diff_view_fini(struct diff_view *view)
{
	for (size_t i = 0; view->tallies && i < view->nr_events * view->files->nr; i++)
		tally_fini(&view->tallies[i]);
	for (size_t i = 0; view->names && i < view->nr_events; i++)
		buf_fini(&view->names[i]);
	free(view->events);
	free(view->tallies);
	free(view->parts);
	free(view->names);
	diff_join_free(view->join);
}

static bool has_chains(const struct diff_files *files)
{
	for (unsigned file = 0; file < files->nr; file++)
		if (files->readings[file].samples.chains)
			return true;
	return false;
}

static int add_event(struct diff_view *view, size_t event, const char *name)
{
	const struct diff_files *files = view->files;
	size_t first = view->nr_events * files->nr;

	for (unsigned i = 0; i < files->nr; i++) {
		const struct samples *samples = &files->readings[i].samples;
		const struct event_samples *found = diff_find_event(files, i, event);
		if (!found)
			continue;
		view->parts[first + i] = &view->tallies[first + i];
		int err = diff_join_add(view->join, &found->tally, samples->stacks, view->parts[first + i]);
		if (err)
			return err;
	}
	escape_put_text(&view->names[view->nr_events], name);
	view->events[view->nr_events] = (struct view_event){
		.name = buf_text(&view->names[view->nr_events]),
		.tallies = view->parts + first,
		.nr = files->nr,
		.chains = has_chains(files),
	};
	view->nr_events++;
	return 0;
}

static int add_events(struct diff_view *view)
{
	const struct reading *baseline = &view->files->readings[0];
	size_t nr, nr_files = view->files->nr;
	const struct event_desc *events = session_events(baseline->session, &nr);
	int err = 0;

	view->join = diff_join_new();
	view->events = calloc(nr + 1, sizeof(*view->events));
	view->names = calloc(nr + 1, sizeof(*view->names));
	view->tallies = calloc((nr + 1) * nr_files, sizeof(*view->tallies));
	view->parts = calloc((nr + 1) * nr_files, sizeof(struct tally *));
	if (!view->join || !view->events || !view->names || !view->tallies || !view->parts)
		return -ENOMEM;
	for (size_t i = 0; i < nr && i < baseline->samples.nr && !err; i++)
		if (baseline->samples.events[i].tally.nr)
			err = add_event(view, i, events[i].name);
	return err;
}

/* "old.data -> new.data", or with more "old.data -> 1: new.data, 2: newer.data". */
static void put_title(const struct diff_files *files, struct buf *out)
{
	for (unsigned i = 0; i < files->nr; i++) {
		buf_put_text(out, !i ? "" : i == 1 ? " -> " : ", ");
		if (i && files->nr > 2)
			buf_printf(out, "%u: ", i);
		escape_put_text(out, files->paths[i]);
	}
}

static const struct view_source_ops diff_ops = {.cut = NULL};

int diff_view_run(const struct diff_files *files, const struct diff_options *options, struct diag *reterr)
{
	struct diff_view view = {.files = files};
	AUTO_BUF struct buf title = {0};
	struct view_result result;
	int err = add_events(&view);

	put_title(files, &title);
	struct view_data data = {
		.title = buf_text(&title),
		.events = view.events,
		.nr_events = view.nr_events,
		.stacks = view.join ? diff_join_stacks(view.join) : NULL,
		.count = samples_count_options(&files->readings[0].samples),
		.columns = {HIST_CHILDREN, HIST_SELF},
		.nr_columns = 2,
		.compared = true,
		.relative = options->relative,
		.graph_percent = 0.5,
		.kernel_code_fd = -1,
	};
	data.count.uses = has_chains(files);
	data.count.hist.children = false;
	data.count.hist.sort_member = (unsigned)options->order;
	for (unsigned i = 0; i < options->nr_keys; i++)
		if (!options->hidden[options->keys[i]])
			data.columns[data.nr_columns++] = options->keys[i];
	struct view_source source = {.ops = &diff_ops, .data = &data};
	const struct view_options view_options = {.colourless = !colour_wanted(COLOUR_AUTO, true)};
	if (err)
		diag_set(reterr, err, "out of memory");
	else
		err = view_run(&source, &view_options, &result, reterr);
	diff_view_fini(&view);
	return err;
}
