/* SPDX-License-Identifier: MIT */
#include "cmd/report_tables.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "cmd/report_json.h"
#include "cmd/report_options.h"
#include "format/feature.h"
#include "read/session.h"

/* What one table is about: events that follow each other. */
struct group {
	size_t first, nr;
	const char *name; /* of a group that has one; NULL: none */
	bool braces;      /* it was recorded as a group */
};

static bool has_chains(const struct event_desc *event)
{
	return event->attr.sample_type & PERF_SAMPLE_CALLCHAIN;
}

static bool lacks_chains(const struct report_tables *tables)
{
	const struct graph_options *graph = &tables->options->graph;
	size_t nr_events;
	const struct event_desc *events = session_events(tables->session, &nr_events);

	for (size_t i = 0; i < nr_events; i++)
		if (has_chains(&events[i]))
			return false;
	return graph->wanted && graph->mode != GRAPH_NONE;
}

static bool tells_cpus(const struct event_desc *events, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (events[i].attr.sample_type & PERF_SAMPLE_CPU)
			return true;
	return !nr;
}

/* The recorded group that begins at that event, or that event alone. */
static struct group recorded_group(const struct session *session, size_t first, size_t nr_events)
{
	struct feature_list list;
	struct feature_group found;
	struct span payload;

	if (session_feature(session, FEATURE_GROUP_DESC, &payload) && !feature_list_open(payload, &list))
		while (feature_list_group(&list, &found) > 0)
			if (found.leader == first && found.members > 1 && found.members <= nr_events - first)
				return (struct group){
					.first = first,
					.nr = found.members,
					.name = strcmp(found.name, "{anon_group}") == 0 ? "anon group" : found.name,
					.braces = true,
				};
	return (struct group){.first = first, .nr = 1};
}

static bool any_groups(const struct session *session, size_t nr_events)
{
	for (size_t i = 0; i < nr_events; i++)
		if (recorded_group(session, i, nr_events).nr > 1)
			return true;
	return false;
}

/* "anon group { a, b }", "a, b", "a". */
static void put_name(const struct group *group, const struct event_desc *events, struct buf *out)
{
	if (group->braces)
		buf_printf(out, "%s { ", group->name);
	for (size_t i = 0; i < group->nr; i++)
		buf_printf(out, "%s%s", i ? ", " : "", events[group->first + i].name);
	if (group->braces)
		buf_put_text(out, " }");
}

static int print_with_graph(const struct report_tables *tables, const struct table_subject *subject,
			    const struct event_samples *samples, const struct event_desc *event, FILE *to)
{
	const struct report_options *options = tables->options;
	struct graph graph;

	if (options->graph.mode == GRAPH_NONE || !has_chains(event))
		return table_print(to, subject, &options->table, NULL);
	int err = graph_init(&graph, &options->graph, &samples->tally, tables->samples->stacks);
	if (!err)
		err = table_print(to, subject, &options->table, &graph);
	graph_fini(&graph);
	return err;
}

static bool any(struct hist *const hists[], size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (hists[i])
			return true;
	return false;
}

/* A group whose events all have no samples has no table. */
static int print_group(const struct report_tables *tables, const struct group *group, bool plural, FILE *to)
{
	size_t nr_events, nr_sampled = tables->samples->nr;
	const struct event_desc *events = session_events(tables->session, &nr_events);
	AUTO_FREE struct hist **hists = calloc(group->nr, sizeof(*hists));
	struct event_samples *leader = group->first < nr_sampled ? &tables->samples->events[group->first] : NULL;
	AUTO_BUF struct buf name = {0};
	int err = 0;

	if (!hists)
		return -ENOMEM;
	for (size_t i = 0; i < group->nr && group->first + i < nr_sampled; i++)
		hists[i] = leader[i].hist;
	if (!any(hists, group->nr))
		return 0;
	if (!hists[0])
		err = samples_make_hist(tables->samples, group->first, &hists[0]);
	if (!err && group->nr > 1)
		err = hist_link(hists[0], hists + 1, (unsigned)group->nr - 1);
	put_name(group, events, &name);
	const struct table_subject subject = {
		.hists = hists, .nr = (unsigned)group->nr, .plural = plural, .name = buf_text(&name)};
	return err ? err : print_with_graph(tables, &subject, leader, &events[group->first], to);
}

static int print_groups(const struct report_tables *tables, FILE *to)
{
	enum group_tables groups = tables->options->groups;
	size_t nr_events;
	int err = 0;

	session_events(tables->session, &nr_events);
	bool all = groups == GROUPS_ALL && nr_events && !any_groups(tables->session, nr_events);
	for (size_t i = 0; i < nr_events && !err;) {
		struct group recorded = recorded_group(tables->session, i, nr_events);
		struct group group = recorded;
		if (all)
			group = (struct group){.nr = nr_events};
		else if (groups == GROUPS_NONE)
			group = (struct group){.first = i, .nr = 1};
		err = print_group(tables, &group, group.nr > 1 || recorded.nr > 1, to);
		i += group.nr;
	}
	return err;
}

static void settle_table(const struct report_tables *tables)
{
	struct report_options *options = tables->options;
	struct table_options *table = &options->table;
	bool children = tables->samples->children;

	column_choice_shown(&options->columns, children, &table->columns);
	table->self_named = children && !options->columns.fields.nr;
	table->children = children;
	table->headless = options->quiet;
	table->coloured = options->graph.coloured = colour_wanted(options->colour, pager_terminal());
	table->dso_list = options->samples.filter.dsos;
}

static int print_json(const struct report_tables *tables, const struct event_desc *events, size_t nr_events, FILE *to)
{
	const struct report_json_options json = {tables->options->table.percent_limit, tables->lost_samples};

	return report_json_print(tables->samples, events, nr_events, &json, to);
}

int report_tables_print(const struct report_tables *tables, FILE *to, struct diag *reterr)
{
	size_t nr_events;
	const struct event_desc *events = session_events(tables->session, &nr_events);

	if (tables->options->samples.filter.cpus && !tells_cpus(events, nr_events))
		return diag_set(reterr, -EINVAL, "this recording does not tell the CPUs of its samples: record it with -a, -C or "
				"--sample-cpu");
	if (lacks_chains(tables))
		return diag_set(reterr, -EINVAL, "this recording has no call chains to make a graph of: record it with -g");
	int err = samples_settle(tables->samples);
	if (!err && tables->options->json) {
		err = print_json(tables, events, nr_events, to);
	} else if (!err) {
		settle_table(tables);
		if (!tables->options->quiet)
			fprintf(to, "#\n# Total Lost Samples: %" PRIu64 "\n#\n", tables->lost_samples);
		err = print_groups(tables, to);
	}
	return err ? diag_set(reterr, err, "out of memory") : 0;
}
