/* SPDX-License-Identifier: MIT */
#include "cmd/report/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/report/count.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/text.h"
#include "cmd/cli/terminal.h"
#include "cmd/text/put_text.h"
#include "cmd/text/sample_details.h"

static const char level_on[] = "|          ", level_off[] = "           ";
enum { LEVEL_WIDTH = sizeof(level_off) - 1 };

/* Every line of a graph begins with it. */
static const char graph_indent[] = "            ", flat_indent[] = "                ";

/* Longer text is written before it is complete. */
enum { WRITTEN_AT_ONCE = 1 << 16 };

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

/* Nothing: not known. */
static void put_line(const struct frame_lines *lines, const struct location *at, struct buf *out)
{
	unsigned flags = lines->full_paths ? SOURCE_FULL_PATH : 0;

	if (source_text_line(lines->info, at, flags, out))
		return;
	out->len = 0;
	if (lines->offsets && at->symbol)
		buf_printf(out, "+%" PRIu64, at->address - at->symbol->start);
}

/* One of several threads that look up the same line keeps it for all. */
static const char *find_line(struct frame_lines *lines, uint32_t frame)
{
	AUTO_BUF struct buf text = {0};

	put_line(lines, stacks_location(lines->stacks, frame), &text);
	const char *wanted = buf_text(&text), *kept = "";
	if (wanted[0]) {
		pthread_mutex_lock(&lines->lock);
		kept = keep_line(lines, wanted, text.len);
		pthread_mutex_unlock(&lines->lock);
	}
	kept = kept ? kept : "";
	/* Pairs with the load in frame_line(). */
	atomic_store_explicit(&lines->texts[frame], kept, memory_order_release);
	return kept;
}

/* NULL: not known, or not asked for. */
static const char *frame_line(void *ctx, uint32_t frame)
{
	struct frame_lines *lines = ctx;

	if (!lines->texts)
		return NULL;
	const char *text = atomic_load_explicit(&lines->texts[frame], memory_order_acquire);
	if (!text)
		text = find_line(lines, frame);
	return text[0] ? text : NULL;
}

int frame_lines_init(struct frame_lines *lines, const struct graph_options *options, const struct samples *samples)
{
	*lines = (struct frame_lines){
		.info = machine_debug_info(samples->machine),
		.stacks = samples->stacks,
		.full_paths = options->full_paths,
		.offsets = options->key == CALLTREE_ADDRESS,
	};
	pthread_mutex_init(&lines->lock, NULL);
	if (options->key != CALLTREE_FUNCTION)
		lines->texts = calloc(stacks_end_frame(samples->stacks), sizeof(*lines->texts));
	return options->key != CALLTREE_FUNCTION && !lines->texts ? -ENOMEM : 0;
}

void frame_lines_fini(struct frame_lines *lines)
{
	free(lines->texts);
	hash_table_fini(&lines->kept);
	pool_fini(&lines->pool);
	pthread_mutex_destroy(&lines->lock);
}

int graph_init(struct graph *graph, const struct graph_options *options, const struct tally *tally,
	       struct frame_lines *lines)
{
	const struct calltree_lines texts = {.line = frame_line, .ctx = lines};

	*graph = (struct graph){.options = options, .tally = tally, .stacks = lines->stacks, .lines = lines};
	return calltree_init(&graph->tree, lines->stacks, options->key, &texts);
}

void graph_fini(struct graph *graph)
{
	calltree_fini(&graph->tree);
	buf_fini(&graph->text);
	buf_fini(&graph->levels);
}

static const struct calltree_node *node_at(const struct graph *graph, uint32_t node)
{
	return &graph->tree.nodes[node];
}

/* 0 or -ENOMEM */
static int write_text(struct graph *graph)
{
	put_bytes(graph->to, (const char *)graph->text.data, graph->text.len);
	graph->text.len = 0;
	return graph->levels.failed ? -ENOMEM : buf_status(&graph->text);
}

/* Behind a line. */
static void end_line(struct graph *graph)
{
	buf_put_u8(&graph->text, '\n');
	if (graph->text.len > WRITTEN_AT_ONCE)
		write_text(graph);
}

static void put_margin(struct graph *graph, int margin)
{
	buf_put_text(&graph->text, graph_indent);
	for (int i = 0; i < margin; i++)
		buf_put_u8(&graph->text, ' ');
}

static void put_frame(struct graph *graph, uint32_t node)
{
	const struct location *at = stacks_location(graph->stacks, node_at(graph, node)->frame);
	const char *line = frame_line(graph->lines, node_at(graph, node)->frame);
	struct buf *text = &graph->text;

	if (!at->symbol) {
		buf_printf(text, "%#" PRIx64, at->ip);
		return;
	}
	const size_t name = text->len;
	escape_put_text(text, at->symbol->name);
	if (graph->options->mode == GRAPH_FOLDED && !graph->options->separator)
		for (size_t i = name; i < text->len; i++) /* a semicolon would part the name */
			if (text->data[i] == ';')
				text->data[i] = ':';
	if (line) {
		buf_put_u8(text, ' ');
		escape_put_text(text, line);
	}
	buf_put_text(text, at->symbol->inlined ? " (inlined)" : "");
}

static void put_percent(struct graph *graph, double share)
{
	struct colour_marks colour = colour_of_share(graph->options->coloured, share);
	char text[HUNDREDTHS_ROOM];

	buf_put_text(&graph->text, colour.on);
	buf_put(&graph->text, text, (size_t)(digits_put_hundredths(text, share) - text));
	buf_put_u8(&graph->text, '%');
	buf_put_text(&graph->text, colour.off);
}

static void put_value(struct graph *graph, uint64_t period, uint64_t nr, uint64_t total)
{
	switch (graph->options->value) {
	case GRAPH_PERIOD: buf_printf(&graph->text, "%" PRIu64, period); break;
	case GRAPH_COUNT: buf_printf(&graph->text, "%u", (unsigned)nr); break;
	default: put_percent(graph, total ? (double)period * 100.0 / (double)total : 0);
	}
}

/* What stands left of a level: a bit for each outer level that goes on. perf's mask has 32 bits, too, and wraps. */
static uint32_t rail(int depth)
{
	return 1u << ((unsigned)depth & 31);
}

static bool goes_on(const struct rails *rails, int depth)
{
	return rails->mask & rail(depth);
}

/* How many levels of a line are those of the line before. */
static int same_levels(const struct rails *a, const struct rails *b)
{
	const uint32_t differs = a->mask ^ b->mask;
	int nr = a->depth < b->depth ? a->depth : b->depth;

	if (a->margin != b->margin)
		return 0;
	return differs && __builtin_ctz(differs) < nr ? __builtin_ctz(differs) : nr;
}

/* The margin, and the first `depth` levels: most are those of the line before. */
static void put_levels(struct graph *graph, const struct rails *rails, int depth)
{
	struct buf *line = &graph->levels;
	const size_t front = sizeof(graph_indent) - 1 + (size_t)rails->margin;
	const struct rails wanted = {depth, rails->margin, rails->mask};
	int same = same_levels(&graph->levels_of, &wanted);

	if (!same) {
		line->len = 0;
		buf_put_text(line, graph_indent);
		for (int i = 0; i < rails->margin; i++)
			buf_put_u8(line, ' ');
	}
	if (!line->failed)
		line->len = front + (size_t)same * LEVEL_WIDTH;
	for (; same < depth; same++)
		buf_put(line, goes_on(rails, same) ? level_on : level_off, LEVEL_WIDTH);
	if (line->failed)
		return;
	graph->levels_of = wanted;
	buf_put(&graph->text, line->data, line->len);
}

static void put_gap(struct graph *graph, const struct rails *rails)
{
	put_levels(graph, rails, rails->depth);
	end_line(graph);
}

/* Up to where the name of a node stands; `value`: it is the first of its run, after its share. */
static void put_rails(struct graph *graph, const struct rails *rails, const struct calltree_node *value, uint64_t total)
{
	const int last = rails->depth - 1;

	put_levels(graph, rails, value && last >= 0 ? last : rails->depth);
	if (!value || last < 0)
		return;
	buf_put_text(&graph->text, goes_on(rails, last) ? "|--" : " --");
	put_value(graph, calltree_period(value), (uint64_t)value->nr + value->children_nr, total);
	buf_put_text(&graph->text, "--");
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
		put_rails(graph, rails, node == head ? node_at(graph, head) : NULL, total);
		put_frame(graph, node);
		end_line(graph);
	}
}

/* In fractal graphs: what the branches that are shown leave of their parent. */
static void print_remainder(struct graph *graph, uint32_t parent, const struct calltree_node *left, struct rails rails,
			    uint64_t total)
{
	if (graph->options->mode != GRAPH_FRACTAL || !left->period || left->period == total)
		return;
	if (graph->options->value == GRAPH_COUNT && (int)left->nr <= 0 && parent)
		return;
	rails.mask &= ~rail(rails.depth - 1);
	put_rails(graph, &rails, left, total);
	buf_put_text(&graph->text, "[...]\n");
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
		put_gap(graph, &rails);
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
			put_margin(graph, 3);
		} else {
			put_margin(graph, 0);
			buf_put_text(&graph->text, "|\n");
			put_margin(graph, 0);
			buf_put_text(&graph->text, "---");
			printed = true;
		}
		put_frame(graph, node);
		end_line(graph);
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
		end_line(graph);
}

/* From the root to the node; depth is bounded by that of the chains. */
static void print_flat_chain(struct graph *graph, uint32_t node)
{
	if (!node)
		return;
	print_flat_chain(graph, node_at(graph, node)->parent);
	buf_put_text(&graph->text, flat_indent);
	put_frame(graph, node);
	end_line(graph);
}

static void print_folded_chain(struct graph *graph, uint32_t node)
{
	uint32_t parent = node_at(graph, node)->parent;

	if (parent) {
		print_folded_chain(graph, parent);
		buf_put_u8(&graph->text, graph->options->separator ? (uint8_t)graph->options->separator : ';');
	}
	put_frame(graph, node);
}

static void print_ends(struct graph *graph)
{
	bool folded = graph->options->mode == GRAPH_FOLDED;

	for (uint32_t i = 0; i < graph->tree.nr_ends; i++) {
		uint32_t end = calltree_end(&graph->tree, i);
		const struct calltree_node *node = node_at(graph, end);
		uint64_t period = folded ? node->period : calltree_period(node);
		uint64_t count = folded ? node->nr : (uint64_t)node->nr + node->children_nr;
		buf_put_text(&graph->text, folded ? "" : level_off);
		put_value(graph, period, count, graph->total);
		if (folded) {
			buf_put_u8(&graph->text, ' ');
			print_folded_chain(graph, end);
		} else {
			end_line(graph);
			print_flat_chain(graph, end);
		}
		end_line(graph);
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
	return write_text(graph);
}
