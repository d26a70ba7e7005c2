/* SPDX-License-Identifier: MIT */
#include "cmd/flame_page.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "cmd/flame_tree.h"
#include "cmd/json_text.h"
#include "cmd/timeline.h"
#include "format/event_desc.h"
#include "format/feature_ledger.h"

enum { MAX_GAPS = 2000 };

/* src/cmd/flame.html, see meson.build. */
extern const char flame_html[];

static const char data_mark[] = "@DATA@";

static const char *object_text(const struct dso *dso)
{
	return dso ? dso_short_name(dso) : "unknown";
}

static void print_names(const struct flame_tree *tree, FILE *to)
{
	fputs("\"names\":[", to);
	for (uint32_t i = 0; i < tree->nr_names; i++) {
		const struct flame_name *name = &tree->names[i];
		char text[256];
		fputs(i ? "," : "", to);
		if (name->text && !name->inlined) {
			json_put_string(to, name->text);
			continue;
		}
		if (name->text)
			snprintf(text, sizeof(text), "%s (inlined)", name->text);
		else
			snprintf(text, sizeof(text), "[%s]", object_text(name->dso));
		json_put_string(to, text);
	}
	fputs("],\n\"kernel\":[", to);
	for (uint32_t i = 0; i < tree->nr_names; i++)
		fprintf(to, "%s%d", i ? "," : "", tree->names[i].kernel);
	fputs("],\n", to);
}

static void print_objects(const struct flame_tree *tree, FILE *to)
{
	const struct dso *seen[256];
	uint32_t nr = 0;

	fputs("\"name_objects\":[", to);
	for (uint32_t i = 0; i < tree->nr_names; i++) {
		uint32_t at = 0;
		while (at < nr && seen[at] != tree->names[i].dso)
			at++;
		if (at == nr && nr < sizeof(seen) / sizeof(seen[0]))
			seen[nr++] = tree->names[i].dso;
		fprintf(to, "%s%u", i ? "," : "", at); /* beyond the table: an object without a name */
	}
	fputs("],\n\"objects\":[", to);
	for (uint32_t i = 0; i < nr; i++) {
		fputs(i ? "," : "", to);
		json_put_string(to, object_text(seen[i]));
	}
	fputs("],\n", to);
}

static void print_nodes(const struct flame_tree *tree, FILE *to)
{
	fputs("\"parents\":[", to);
	for (uint32_t i = 1; i < tree->nr_nodes; i++)
		fprintf(to, "%s%u", i > 1 ? "," : "", i - tree->nodes[i].parent);
	fputs("],\n\"nodes\":[", to);
	for (uint32_t i = 1; i < tree->nr_nodes; i++)
		fprintf(to, "%s%u", i > 1 ? "," : "", tree->nodes[i].name);
	fputs("],\n", to);
}

static void print_threads(const struct flame_tree *tree, FILE *to)
{
	fputs("\"threads\":[", to);
	for (uint32_t i = 0; i < tree->nr_threads; i++) {
		const struct flame_thread *thread = &tree->threads[i];
		fprintf(to, "%s{\"tid\":%d,\"comm\":", i ? "," : "", thread->task ? (int)thread->tid : -1);
		json_put_string(to, thread->task ? thread->comm->text : "the other threads");
		fputc('}', to);
	}
	fputs("],\n", to);
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

static void print_thread_weights(const struct flame_tree *tree, struct slice slice, uint64_t unit, FILE *to)
{
	uint32_t last = 0;

	fprintf(to, "{\"thread\":%u,\"at\":[", tree->weights[slice.from].thread);
	for (uint32_t i = slice.from; i < slice.to; i++) {
		fprintf(to, "%s%u", i > slice.from ? "," : "", tree->weights[i].node - last);
		last = tree->weights[i].node;
	}
	fputs("],\"weight\":[", to);
	for (uint32_t i = slice.from; i < slice.to; i++)
		fprintf(to, "%s%" PRIu64, i > slice.from ? "," : "", tree->weights[i].period / unit);
	fputs("]}", to);
}

static void print_event(const struct flame_page *page, struct slice slice, FILE *to)
{
	const struct flame_tree *tree = page->tree;
	uint32_t event = tree->weights[slice.from].event;
	uint64_t unit = 0, nr = 0;

	for (uint32_t i = slice.from; i < slice.to; i++) {
		unit = greatest_divisor(tree->weights[i].period, unit);
		nr += tree->weights[i].nr;
	}
	unit = unit ? unit : 1;
	fputs("{\"name\":", to);
	json_put_string(to, event < page->nr_events ? page->events[event].name : "unknown");
	fprintf(to, ",\"samples\":%" PRIu64 ",\"unit\":%" PRIu64 ",\"threads\":[", nr, unit);
	for (struct slice thread = {slice.from, slice.from}; thread.from < slice.to; thread.from = thread.to) {
		thread = thread_slice(tree, thread.from, slice.to);
		fputs(thread.from > slice.from ? ",\n" : "\n", to);
		print_thread_weights(tree, thread, unit, to);
	}
	fputs("]}", to);
}

static void print_events(const struct flame_page *page, FILE *to)
{
	const struct flame_tree *tree = page->tree;
	struct slice slice = {0, 0};

	fputs("\"events\":[", to);
	for (; slice.from < tree->nr_weights; slice.from = slice.to) {
		while (slice.to < tree->nr_weights &&
		       tree->weights[slice.to].event == tree->weights[slice.from].event)
			slice.to++;
		fputs(slice.from ? "," : "", to);
		print_event(page, slice, to);
	}
	fputs("],\n", to);
}

static void print_gaps(const struct flame_page *page, FILE *to)
{
	const struct timeline *timeline = page->timeline;

	for (size_t i = 0; i < page->nr_gaps && i < MAX_GAPS; i++) {
		const struct ledger_entry *gap = &page->gaps[i];
		fprintf(to, "%s{\"cpu\":%d,\"from_ns\":%" PRId64 ",\"to_ns\":%" PRId64 ",\"records\":%" PRIu64 ",\"cause\":",
			i ? "," : "", gap->cpu, (int64_t)(gap->from_ns - timeline->start_ns),
			(int64_t)(gap->to_ns - timeline->start_ns), gap->count);
		json_put_string(to, ledger_cause_name(gap->cause));
		fputc('}', to);
	}
}

static void print_time(const struct flame_page *page, FILE *to)
{
	const struct timeline *timeline = page->timeline;

	fprintf(to, "\"time\":{\"start_ns\":%" PRIu64 ",\"bin_ns\":%" PRIu64 ",\"bins\":%u,\n\"cpus\":[",
		timeline->start_ns, timeline->bin_ns, page->nr_bins);
	for (uint32_t i = 0; i < timeline->nr_cpus; i++) {
		fprintf(to, "%s{\"cpu\":%d,\"samples\":[", i ? ",\n" : "", timeline->cpus[i].cpu);
		for (unsigned bin = 0; bin < page->nr_bins; bin++)
			fprintf(to, "%s%u", bin ? "," : "", timeline->cpus[i].bins[bin]);
		fputs("]}", to);
	}
	fputs("],\n\"gaps\":[", to);
	print_gaps(page, to);
	fputs("]},\n", to);
}

static void print_notes(const struct flame_page *page, FILE *to)
{
	const struct flame_tree *tree = page->tree;

	fprintf(to, "\"notes\":[\"%" PRIu64 " samples.\"", tree->nr_samples);
	if (page->lost)
		fprintf(to, ",\"%" PRIu64 " samples were lost.\"", page->lost);
	if (tree->nr_cut)
		fprintf(to, ",\"%" PRIu64 " samples stand with a caller: branches with few samples are cut off.\"",
			tree->nr_cut);
	fputs("]", to);
}

void flame_page_print(const struct flame_page *page, FILE *to)
{
	const char *mark = strstr(flame_html, data_mark);

	fwrite(flame_html, 1, (size_t)(mark - flame_html), to);
	fputs("\n{\"version\":1,\"title\":", to);
	json_put_string(to, page->title);
	fputs(",\n", to);
	print_names(page->tree, to);
	print_objects(page->tree, to);
	print_nodes(page->tree, to);
	print_threads(page->tree, to);
	print_events(page, to);
	print_time(page, to);
	print_notes(page, to);
	fputs("}\n", to);
	fputs(mark + strlen(data_mark), to);
}
