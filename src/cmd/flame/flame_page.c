/* SPDX-License-Identifier: MIT */

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "cmd/cli/json_writer.h"
#include "cmd/flame/flame.h"
#include "perfdata/attr.h"
#include "perfdata/ledger.h"

enum { MAX_GAPS = 2000 };

/* src/cmd/flame/flame.html, see meson.build. */
extern const char flame_html[];

static const char data_mark[] = "@DATA@";

static const char *object_text(const struct dso *dso)
{
	return dso ? dso_short_name(dso) : "unknown";
}

static void put_names(struct json_writer *json, const struct flame_tree *tree)
{
	json_array(json, "names");
	for (uint32_t i = 0; i < tree->nr_names; i++) {
		const struct flame_name *name = &tree->names[i];
		char text[256];
		if (!name->text)
			snprintf(text, sizeof(text), "[%s]", object_text(name->dso));
		else if (name->inlined)
			snprintf(text, sizeof(text), "%s (inlined)", name->text);
		json_text(json, NULL, name->text && !name->inlined ? name->text : text);
	}
	json_end(json);
	json_break(json);
	json_array(json, "kernel");
	for (uint32_t i = 0; i < tree->nr_names; i++)
		json_number(json, NULL, tree->names[i].kernel);
	json_end(json);
	json_break(json);
}

static void put_objects(struct json_writer *json, const struct flame_tree *tree)
{
	const struct dso *seen[256];
	uint32_t nr = 0;

	json_array(json, "name_objects");
	for (uint32_t i = 0; i < tree->nr_names; i++) {
		uint32_t at = 0;
		while (at < nr && seen[at] != tree->names[i].dso)
			at++;
		if (at == nr && nr < sizeof(seen) / sizeof(seen[0]))
			seen[nr++] = tree->names[i].dso;
		json_number(json, NULL, at); /* beyond the table: an object without a name */
	}
	json_end(json);
	json_break(json);
	json_array(json, "objects");
	for (uint32_t i = 0; i < nr; i++)
		json_text(json, NULL, object_text(seen[i]));
	json_end(json);
	json_break(json);
}

static void put_nodes(struct json_writer *json, const struct flame_tree *tree)
{
	json_array(json, "parents");
	for (uint32_t i = 1; i < tree->nr_nodes; i++)
		json_number(json, NULL, i - tree->nodes[i].parent);
	json_end(json);
	json_break(json);
	json_array(json, "nodes");
	for (uint32_t i = 1; i < tree->nr_nodes; i++)
		json_number(json, NULL, tree->nodes[i].name);
	json_end(json);
	json_break(json);
}

static void put_threads(struct json_writer *json, const struct flame_tree *tree)
{
	json_array(json, "threads");
	for (uint32_t i = 0; i < tree->nr_threads; i++) {
		const struct flame_thread *thread = &tree->threads[i];
		json_object(json, NULL);
		json_signed(json, "tid", thread->task ? (int)thread->tid : -1);
		json_text(json, "comm", thread->task ? thread->comm->text : "the other threads");
		json_end(json);
	}
	json_end(json);
	json_break(json);
}

static uint64_t greatest_divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

/* The weights of one event: [from, to). */
struct slice {
	uint32_t from, to;
};

static struct slice thread_slice(const struct flame_tree *tree, uint32_t from, uint32_t to)
{
	struct slice slice = {from, from};

	while (slice.to < to && tree->weights[slice.to].thread == tree->weights[from].thread)
		slice.to++;
	return slice;
}

static void put_thread_weights(struct json_writer *json, const struct flame_tree *tree, struct slice slice,
			       uint64_t unit)
{
	uint32_t last = 0;

	json_break(json);
	json_object(json, NULL);
	json_number(json, "thread", tree->weights[slice.from].thread);
	json_array(json, "at");
	for (uint32_t i = slice.from; i < slice.to; i++) {
		json_number(json, NULL, tree->weights[i].node - last);
		last = tree->weights[i].node;
	}
	json_end(json);
	json_array(json, "weight");
	for (uint32_t i = slice.from; i < slice.to; i++)
		json_number(json, NULL, tree->weights[i].period / unit);
	json_end(json);
	json_end(json);
}

static void put_event(struct json_writer *json, const struct flame_page *page, struct slice slice)
{
	const struct flame_tree *tree = page->tree;
	uint32_t event = tree->weights[slice.from].event;
	uint64_t unit = 0, nr = 0;

	for (uint32_t i = slice.from; i < slice.to; i++) {
		unit = greatest_divisor(tree->weights[i].period, unit);
		nr += tree->weights[i].nr;
	}
	unit = unit ? unit : 1;
	json_object(json, NULL);
	json_text(json, "name", event < page->nr_events ? page->events[event].name : "unknown");
	json_number(json, "samples", nr);
	json_number(json, "unit", unit);
	json_array(json, "threads");
	for (struct slice thread = {slice.from, slice.from}; thread.from < slice.to; thread.from = thread.to) {
		thread = thread_slice(tree, thread.from, slice.to);
		put_thread_weights(json, tree, thread, unit);
	}
	json_end(json);
	json_end(json);
}

static void put_events(struct json_writer *json, const struct flame_page *page)
{
	const struct flame_tree *tree = page->tree;
	struct slice slice = {0, 0};

	json_array(json, "events");
	for (; slice.from < tree->nr_weights; slice.from = slice.to) {
		while (slice.to < tree->nr_weights && tree->weights[slice.to].event == tree->weights[slice.from].event)
			slice.to++;
		put_event(json, page, slice);
	}
	json_end(json);
	json_break(json);
}

static void put_time(struct json_writer *json, const struct flame_page *page)
{
	const struct timeline *timeline = page->timeline;

	json_object(json, "time");
	json_number(json, "start_ns", timeline->start_ns);
	json_number(json, "bin_ns", timeline->bin_ns);
	json_number(json, "bins", page->nr_bins);
	json_array(json, "cpus");
	for (uint32_t i = 0; i < timeline->nr_cpus; i++) {
		json_break(json);
		json_object(json, NULL);
		json_signed(json, "cpu", timeline->cpus[i].cpu);
		json_array(json, "samples");
		for (unsigned bin = 0; bin < page->nr_bins; bin++)
			json_number(json, NULL, timeline->cpus[i].bins[bin]);
		json_end(json);
		json_end(json);
	}
	json_end(json);
	json_break(json);
	json_array(json, "gaps");
	for (size_t i = 0; i < page->nr_gaps && i < MAX_GAPS; i++) {
		const struct ledger_entry *gap = &page->gaps[i];
		json_object(json, NULL);
		json_signed(json, "cpu", gap->cpu);
		json_signed(json, "from_ns", (int64_t)(gap->from_ns - timeline->start_ns));
		json_signed(json, "to_ns", (int64_t)(gap->to_ns - timeline->start_ns));
		json_number(json, "records", gap->count);
		json_text(json, "cause", ledger_cause_name(gap->cause));
		json_end(json);
	}
	json_end(json);
	json_end(json);
	json_break(json);
}

static void put_notes(struct json_writer *json, const struct flame_page *page)
{
	const struct flame_tree *tree = page->tree;
	char text[128];

	json_array(json, "notes");
	snprintf(text, sizeof(text), "%" PRIu64 " samples.", tree->nr_samples);
	json_text(json, NULL, text);
	snprintf(text, sizeof(text), "%" PRIu64 " samples were lost.", page->lost);
	if (page->lost)
		json_text(json, NULL, text);
	snprintf(text, sizeof(text), "%" PRIu64 " samples stand with a caller: branches with few samples are cut off.",
		 tree->nr_cut);
	if (tree->nr_cut)
		json_text(json, NULL, text);
	json_end(json);
}

void flame_page_print(const struct flame_page *page, FILE *to)
{
	const char *mark = strstr(flame_html, data_mark);
	struct json_writer json = {.to = to};

	fwrite(flame_html, 1, (size_t)(mark - flame_html), to);
	fputc('\n', to);
	json_object(&json, NULL);
	json_number(&json, "version", 1);
	json_text(&json, "title", page->title);
	json_break(&json);
	put_names(&json, page->tree);
	put_objects(&json, page->tree);
	put_nodes(&json, page->tree);
	put_threads(&json, page->tree);
	put_events(&json, page);
	put_time(&json, page);
	put_notes(&json, page);
	json_end(&json);
	fputc('\n', to);
	fputs(mark + strlen(data_mark), to);
}
