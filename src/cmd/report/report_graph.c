/* SPDX-License-Identifier: MIT */
#include "cmd/report/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/report/count.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "cmd/cli/terminal.h"
#include "cmd/text/sample_details.h"

static const char level_on[] = "|          ", level_off[] = "           ";
enum { LEVEL_WIDTH = sizeof(level_off) - 1 };

/* Every line of a graph begins with it. */
static const char graph_indent[] = "            ";

/* One copy: lines of many addresses are the same, and are compared often. NULL: out of memory. */
static const char *keep_line(struct frame_lines *lines, const char *text, size_t len)
{
	const uint64_t key = hash_bytes(text, len);

	for (struct hash_slot *slot = hash_table_find(&lines->kept, key); slot;
	     slot = hash_table_next(&lines->kept, slot))
		if (strcmp(slot->item, text) == 0)
			return slot->item;
	char *copy = pool_text(&lines->pool, text, len);
	return copy && !hash_table_add(&lines->kept, key, copy) ? copy : NULL;
}

/* "": not known. */
static const char *look_up_line(struct frame_lines *lines, const struct location *at)
{
	unsigned flags = lines->full_paths ? SOURCE_FULL_PATH : 0;
	AUTO_BUF struct buf text = {0};

	if (!source_text_line(lines->info, at, flags, &text)) {
		text.len = 0;
		if (lines->offsets && at->symbol)
			buf_printf(&text, "+%" PRIu64, at->address - at->symbol->start);
	}
	const char *kept = text.len && !text.failed ? keep_line(lines, buf_text(&text), text.len) : NULL;
	return kept ? kept : "";
}

/* NULL: not known, or not asked for. */
static const char *frame_line(void *ctx, uint32_t frame)
{
	struct frame_lines *lines = ctx;

	if (!lines->texts)
		return NULL;
	if (!lines->texts[frame])
		lines->texts[frame] = look_up_line(lines, stacks_location(lines->stacks, frame));
	return lines->texts[frame][0] ? lines->texts[frame] : NULL;
}

int graph_init(struct graph *graph, const struct graph_options *options, const struct samples *samples,
	       const struct tally *tally)
{
	const struct calltree_lines lines = {.line = frame_line, .ctx = &graph->lines};

	*graph = (struct graph){.options = options, .tally = tally, .stacks = samples->stacks};
	if (options->key != CALLTREE_FUNCTION) {
		graph->lines = (struct frame_lines){
			.info = machine_debug_info(samples->machine),
			.stacks = samples->stacks,
			.full_paths = options->full_paths,
			.offsets = options->key == CALLTREE_ADDRESS,
			.texts = calloc(stacks_end_frame(samples->stacks), sizeof(*graph->lines.texts)),
		};
		if (!graph->lines.texts)
			return -ENOMEM;
	}
	return calltree_init(&graph->tree, samples->stacks, options->key, &lines);
}

void graph_fini(struct graph *graph)
{
	calltree_fini(&graph->tree);
	free(graph->lines.texts);
	hash_table_fini(&graph->lines.kept);
	pool_fini(&graph->lines.pool);
}

static const struct calltree_node *node_at(const struct graph *graph, uint32_t node)
{
	return &graph->tree.nodes[node];
}

static void print_margin(const struct graph *graph, int margin)
{
	fprintf(graph->to, "%s%*s", graph_indent, margin, "");
}

static void print_frame(struct graph *graph, uint32_t node)
{
	const struct location *at = stacks_location(graph->stacks, node_at(graph, node)->frame);
	const char *line = frame_line(&graph->lines, node_at(graph, node)->frame);

	if (!at->symbol) {
		fprintf(graph->to, "%#" PRIx64, at->ip);
		return;
	}
	AUTO_ESCAPED name = escaped_text(at->symbol->name);
	const char *rest = name.text;
	if (graph->options->mode == GRAPH_FOLDED && !graph->options->separator) {
		for (size_t len; rest[len = strcspn(rest, ";")]; rest += len + 1) /* a semicolon would part the name */
			fprintf(graph->to, "%.*s:", (int)len, rest);
	}
	fputs(rest, graph->to);
	if (line) {
		AUTO_ESCAPED shown = escaped_text(line);
		fprintf(graph->to, " %s", shown.text);
	}
	fputs(at->symbol->inlined ? " (inlined)" : "", graph->to);
}

static void print_share(const struct graph *graph, double share)
{
	struct colour_marks colour = colour_of_share(graph->options->coloured, share);

	fprintf(graph->to, "%s%.2f%%%s", colour.on, share, colour.off);
}

static void print_value(const struct graph *graph, uint64_t period, uint64_t nr, uint64_t total)
{
	switch (graph->options->value) {
	case GRAPH_PERIOD: fprintf(graph->to, "%" PRIu64, period); break;
	case GRAPH_COUNT: fprintf(graph->to, "%u", (unsigned)nr); break;
	default: print_share(graph, total ? (double)period * 100.0 / (double)total : 0);
	}
}

/* What stands left of a level: a bit for each outer level that goes on. perf's mask has 32 bits, too, and wraps. */
struct rails {
	int depth, margin;
	uint32_t mask;
};

static uint32_t rail(int depth)
{
	return 1u << ((unsigned)depth & 31);
}

static bool goes_on(const struct rails *rails, int depth)
{
	return rails->mask & rail(depth);
}

/* What stands left of names, put together: a call of stdio for each level takes as long as all the rest of a graph. */
struct rails_text {
	FILE *to;
	size_t len;
	char text[1024];
};

static void flush(struct rails_text *text)
{
	fwrite(text->text, 1, text->len, text->to);
	text->len = 0;
}

/* len: less than there is room for. */
static void put(struct rails_text *text, const char *bytes, size_t len)
{
	if (len > sizeof(text->text) - text->len)
		flush(text);
	memcpy(text->text + text->len, bytes, len);
	text->len += len;
}

/* The margin, and the first `depth` levels. */
static void print_levels(const struct graph *graph, const struct rails *rails, int depth)
{
	struct rails_text text;

	text.to = graph->to;
	text.len = 0;
	put(&text, graph_indent, sizeof(graph_indent) - 1);
	for (int i = 0; i < rails->margin; i++)
		put(&text, " ", 1);
	for (int i = 0; i < depth; i++)
		put(&text, goes_on(rails, i) ? level_on : level_off, LEVEL_WIDTH);
	flush(&text);
}

static void print_gap(const struct graph *graph, const struct rails *rails)
{
	print_levels(graph, rails, rails->depth);
	fputc('\n', graph->to);
}

/* Up to where the name of a node stands; `value`: it is the first of its run, after its share. */
static void print_rails(const struct graph *graph, const struct rails *rails, const struct calltree_node *value,
			uint64_t total)
{
	const int last = rails->depth - 1;

	print_levels(graph, rails, value && last >= 0 ? last : rails->depth);
	if (!value || last < 0)
		return;
	fputs(goes_on(rails, last) ? "|--" : " --", graph->to);
	print_value(graph, calltree_period(value), (uint64_t)value->nr + value->children_nr, total);
	fputs("--", graph->to);
}

/* The frames from a node to the end of its run. */
static uint32_t next_in_run(const struct graph *graph, uint32_t head, uint32_t node)
{
	return node == node_at(graph, head)->last ? 0 : node_at(graph, node)->child;
}

static void print_run(struct graph *graph, uint32_t head, const struct rails *rails, uint64_t total)
{
	/* All of a run have the counts of its head. */
	for (uint32_t node = head; node; node = next_in_run(graph, head, node)) {
		print_rails(graph, rails, node == head ? node_at(graph, head) : NULL, total);
		print_frame(graph, node);
		fputc('\n', graph->to);
	}
}

/* In fractal graphs: what the branches that are shown leave of their parent. */
static void print_remainder(const struct graph *graph, uint32_t parent, const struct calltree_node *left,
			    struct rails rails, uint64_t total)
{
	if (graph->options->mode != GRAPH_FRACTAL || !left->period || left->period == total)
		return;
	if (graph->options->value == GRAPH_COUNT && (int)left->nr <= 0 && parent)
		return;
	rails.mask &= ~rail(rails.depth - 1);
	print_rails(graph, &rails, left, total);
	fputs("[...]\n", graph->to);
}

/* The branches below the run of `parent`. */
static bool print_branches(struct graph *graph, uint32_t parent, uint64_t total, struct rails rails)
{
	const struct calltree_node *above = node_at(graph, node_at(graph, parent)->last);
	struct calltree_node left = {.period = total, .nr = above->children_nr};
	uint32_t mask = rails.mask;
	unsigned nr = 0;

	for (uint32_t child = above->child; child; child = node_at(graph, child)->next) {
		const struct calltree_node *node = node_at(graph, child), *last = node_at(graph, node->last);
		left.period -= calltree_period(node);
		left.nr -= node->nr + node->children_nr;
		if (!node->next && (graph->options->mode != GRAPH_FRACTAL || !left.period))
			mask &= ~rail(rails.depth - 1);
		print_gap(graph, &rails);
		struct rails here = {rails.depth, rails.margin, mask};
		print_run(graph, child, &here, total);
		struct rails below = {rails.depth + 1, rails.margin, mask | rail(rails.depth)};
		print_branches(graph, child, graph->options->mode == GRAPH_FRACTAL ? last->children_period : total,
			       below);
		if (++nr == graph->options->max_lines)
			break;
	}
	rails.mask = mask;
	print_remainder(graph, parent, &left, rails, total);
	return nr;
}

/* A first run that has all of the entry needs no share: it stands on the left, and the branches below it. */
static bool print_trunk(struct graph *graph, uint32_t head)
{
	unsigned nr = 0;
	bool first = graph->options->skip_first, printed = false;

	for (uint32_t node = head; node; node = next_in_run(graph, head, node)) {
		if (first) {
			first = false;
			continue;
		}
		if (printed) {
			print_margin(graph, 3);
		} else {
			print_margin(graph, 0);
			fputs("|\n", graph->to);
			print_margin(graph, 0);
			fputs("---", graph->to);
			printed = true;
		}
		print_frame(graph, node);
		fputc('\n', graph->to);
		if (++nr == graph->options->max_lines)
			break;
	}
	return printed;
}

static void print_tree(struct graph *graph)
{
	const struct calltree_node *root = node_at(graph, 0);
	uint32_t head = root->child;
	bool trunk =
		head && !node_at(graph, head)->next && calltree_period(node_at(graph, head)) == graph->entry_period;
	bool printed = trunk && print_trunk(graph, head);
	uint64_t total = graph->options->mode == GRAPH_FRACTAL ? graph->entry_period : graph->total;
	struct rails rails = {.depth = 1, .margin = printed ? 3 : 0, .mask = 1};

	printed |= print_branches(graph, trunk ? head : 0, total, rails);
	if (printed)
		fputc('\n', graph->to);
}

/* From the root to the node; depth is bounded by that of the chains. */
static void print_flat_chain(struct graph *graph, uint32_t node)
{
	if (!node)
		return;
	print_flat_chain(graph, node_at(graph, node)->parent);
	fprintf(graph->to, "%16s", "");
	print_frame(graph, node);
	fputc('\n', graph->to);
}

static void print_folded_chain(struct graph *graph, uint32_t node)
{
	uint32_t parent = node_at(graph, node)->parent;

	if (parent) {
		print_folded_chain(graph, parent);
		fputc(graph->options->separator ? graph->options->separator : ';', graph->to);
	}
	print_frame(graph, node);
}

static void print_ends(struct graph *graph)
{
	bool folded = graph->options->mode == GRAPH_FOLDED;

	for (uint32_t i = 0; i < graph->tree.nr_ends; i++) {
		uint32_t end = calltree_end(&graph->tree, i);
		const struct calltree_node *node = node_at(graph, end);
		uint64_t period = folded ? node->period : calltree_period(node);
		uint64_t count = folded ? node->nr : (uint64_t)node->nr + node->children_nr;
		fprintf(graph->to, "%*s", folded ? 0 : LEVEL_WIDTH, "");
		print_value(graph, period, count, graph->total);
		if (folded) {
			fputc(' ', graph->to);
			print_folded_chain(graph, end);
		} else {
			fputc('\n', graph->to);
			print_flat_chain(graph, end);
		}
		fputc('\n', graph->to);
		if (i + 1 == graph->options->max_lines)
			break;
	}
}

/* How branches are ordered, and which are too small. */
static enum calltree_sort sort_of(enum graph_mode mode)
{
	if (mode == GRAPH_FRACTAL)
		return CALLTREE_RELATIVE;
	return mode == GRAPH_FLAT || mode == GRAPH_FOLDED ? CALLTREE_ENDS : CALLTREE_ABSOLUTE;
}

int graph_print(struct graph *graph, const struct hist_entry *entry, uint64_t entry_period)
{
	const struct graph_options *options = graph->options;
	enum calltree_sort sort = sort_of(options->mode);
	double limit = options->min_percent / 100;
	uint64_t least = 0;

	if (sort != CALLTREE_RELATIVE) {
		limit *= (double)graph->shown_total;
		least = (uint64_t)limit;
	}
	if (entry_period < least) /* none of its branches is larger than itself */
		return 0;
	const struct count_part part = {graph->tally, entry};
	int err = count_tree(&part, 1, options->direction, least, &graph->tree);
	if (!err)
		err = calltree_sort(&graph->tree, sort, limit);
	if (err)
		return err;
	graph->entry_period = entry_period;
	if (sort == CALLTREE_ENDS)
		print_ends(graph);
	else
		print_tree(graph);
	return 0;
}
