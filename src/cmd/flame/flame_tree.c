/* SPDX-License-Identifier: MIT */
#include "cmd/flame/flame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/machine/stacks.h"
#include "cmd/report/report_samples.h"

enum { MAX_DEPTH = 512 };

/* Chains by their names: what has none is one frame of its object. */
struct names {
	const struct samples *samples;
	struct stacks *stacks;
	struct flame_weight *weights; /* .node is a chain of `stacks`, .thread an index of `threads` */
	uint32_t nr_weights;
	struct flame_thread *threads;
	uint32_t nr_threads, threads_room;
	uint32_t nr_chains; /* the largest chain's number + 1 */
};

void flame_tree_fini(struct flame_tree *tree)
{
	free(tree->nodes);
	free(tree->names);
	free(tree->weights);
	free(tree->threads);
	*tree = (struct flame_tree){0};
}

static struct location name_of(const struct location *frame)
{
	return (struct location){
		.dso = frame->dso,
		.symbol = frame->symbol,
		.level = frame->level == 'k' ? 'k' : '.',
	};
}

static unsigned cell_names(const struct samples *samples, const struct tally_cell *cell, struct location *ret)
{
	unsigned nr = 0;

	for (uint32_t chain = cell->chain; chain && nr < MAX_DEPTH; chain = stacks_outer(samples->stacks, chain)) {
		ret[nr] = name_of(stacks_location(samples->stacks, stacks_frame(samples->stacks, chain)));
		bool again = nr && !ret[nr].symbol && !ret[nr - 1].symbol && ret[nr].dso == ret[nr - 1].dso;
		nr += !again; /* where nothing has a name, many frames say no more than one */
	}
	if (!nr)
		ret[nr++] = name_of(&(struct location){
			.dso = cell->place.dso, .symbol = cell->place.symbol, .level = cell->place.level});
	return nr;
}

static int find_thread(struct names *names, const struct hist_place *place, uint64_t nr, uint32_t *ret)
{
	for (uint32_t i = names->nr_threads; i-- > 0;) {
		if (names->threads[i].task == place->task && names->threads[i].comm == place->comm) {
			names->threads[i].nr += nr;
			*ret = i;
			return 0;
		}
	}
	if (names->nr_threads == names->threads_room) {
		uint32_t room = names->threads_room ? names->threads_room * 2 : 64;
		struct flame_thread *threads = reallocarray(names->threads, room, sizeof(*threads));
		if (!threads)
			return -ENOMEM;
		names->threads = threads;
		names->threads_room = room;
	}
	names->threads[names->nr_threads] = (struct flame_thread){place->task, place->comm, place->tid, nr};
	*ret = names->nr_threads++;
	return 0;
}

static int name_cell(struct names *names, uint32_t event, const struct tally_cell *cell)
{
	struct location frames[MAX_DEPTH];
	unsigned nr = cell_names(names->samples, cell, frames);
	struct flame_weight *weight = &names->weights[names->nr_weights];
	int err = stacks_intern(names->stacks, frames, nr, &weight->node);

	if (!err)
		err = find_thread(names, &cell->place, cell->amount.nr_samples, &weight->thread);
	if (err)
		return err;
	weight->event = event;
	weight->period = cell->amount.period;
	weight->nr = cell->amount.nr_samples;
	names->nr_weights++;
	if (names->nr_chains <= weight->node)
		names->nr_chains = weight->node + 1;
	return 0;
}

static int name_all(struct names *names)
{
	const struct samples *samples = names->samples;
	size_t nr = 0;

	for (size_t i = 0; i < samples->nr; i++)
		nr += samples->events[i].tally.nr;
	names->weights = calloc(nr + 1, sizeof(*names->weights));
	names->stacks = stacks_new();
	names->nr_chains = 1;
	if (!names->weights || !names->stacks)
		return -ENOMEM;
	for (size_t i = 0; i < samples->nr; i++) {
		const struct tally *tally = &samples->events[i].tally;
		for (uint32_t at = 0; at < tally->nr; at++) {
			struct tally_cell cell = tally_cell(tally, at);
			int err = name_cell(names, (uint32_t)i, &cell);
			if (err)
				return err;
		}
	}
	return 0;
}

static int compare_down(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? 1 : a > b ? -1 : 0;
}

/* The least of the samples that a node must have so that no more than `max` are left. */
static int least_samples(const uint64_t *totals, uint32_t nr, uint32_t max, uint64_t *ret)
{
	uint64_t least = 1;

	if (nr > max) {
		uint64_t *sorted = calloc(nr, sizeof(*sorted));
		if (!sorted)
			return -ENOMEM;
		memcpy(sorted, totals, nr * sizeof(*sorted));
		qsort(sorted, nr, sizeof(*sorted), compare_down);
		least = sorted[max] + 1;
		free(sorted);
	}
	*ret = least;
	return 0;
}

/* Numbers for the nodes that stay; each of the others gets that of the nearest caller that does. */
static void number_nodes(const struct names *names, const uint64_t *totals, uint64_t least, uint32_t *number,
			 struct flame_tree *tree)
{
	tree->nr_nodes = 1;
	number[0] = 0;
	for (uint32_t chain = 1; chain < names->nr_chains; chain++) {
		uint32_t outer = number[stacks_outer(names->stacks, chain)];
		if (totals[chain] < least) {
			number[chain] = outer;
			continue;
		}
		number[chain] = tree->nr_nodes;
		tree->nodes[tree->nr_nodes++] = (struct flame_node){outer, stacks_frame(names->stacks, chain)};
	}
}

/* Names by the numbers that the nodes use, in place of those of the frames. 0 or -ENOMEM. */
static int number_names(const struct names *names, struct flame_tree *tree)
{
	uint32_t nr_frames = 1;

	for (uint32_t i = 1; i < tree->nr_nodes; i++)
		nr_frames = tree->nodes[i].name >= nr_frames ? tree->nodes[i].name + 1 : nr_frames;
	uint32_t *number = calloc(nr_frames, sizeof(*number));
	tree->names = calloc(nr_frames, sizeof(*tree->names));
	if (!number || !tree->names) {
		free(number);
		return -ENOMEM;
	}
	for (uint32_t i = 1; i < tree->nr_nodes; i++) {
		uint32_t frame = tree->nodes[i].name;
		if (!number[frame]) {
			const struct location *at = stacks_location(names->stacks, frame);
			tree->names[tree->nr_names] = (struct flame_name){
				.text = at->symbol ? at->symbol->name : NULL,
				.dso = at->dso,
				.kernel = at->level == 'k',
				.inlined = at->symbol && at->symbol->inlined,
			};
			number[frame] = ++tree->nr_names;
		}
		tree->nodes[i].name = number[frame] - 1;
	}
	free(number);
	return 0;
}

static int prune(struct names *names, const struct flame_limits *limits, struct flame_tree *tree)
{
	uint64_t *totals = calloc(names->nr_chains, sizeof(*totals)), least = 1;
	uint32_t *number = calloc(names->nr_chains, sizeof(*number));
	int err = -ENOMEM;

	tree->nodes = calloc(names->nr_chains, sizeof(*tree->nodes));
	if (totals && number && tree->nodes) {
		for (uint32_t i = 0; i < names->nr_weights; i++)
			totals[names->weights[i].node] += names->weights[i].nr;
		for (uint32_t chain = names->nr_chains - 1; chain; chain--)
			totals[stacks_outer(names->stacks, chain)] += totals[chain];
		err = least_samples(totals + 1, names->nr_chains - 1, limits->nodes, &least);
	}
	if (!err) {
		number_nodes(names, totals, least, number, tree);
		for (uint32_t i = 0; i < names->nr_weights; i++) {
			struct flame_weight *weight = &names->weights[i];
			tree->nr_samples += weight->nr;
			tree->nr_cut += totals[weight->node] < least ? weight->nr : 0;
			weight->node = number[weight->node];
		}
	}
	free(totals);
	free(number);
	return err ? err : number_names(names, tree);
}

struct ranked {
	uint64_t nr;
	uint32_t thread;
};

static int compare_ranked(const void *left, const void *right)
{
	const struct ranked *a = left, *b = right;

	if (a->nr != b->nr)
		return a->nr < b->nr ? 1 : -1;
	return a->thread < b->thread ? -1 : a->thread > b->thread;
}

/* The busiest threads first; those beyond the limit become one. */
static int rank_threads(struct names *names, uint32_t max, struct flame_tree *tree)
{
	struct ranked *ranked = calloc(names->nr_threads + 1, sizeof(*ranked));
	uint32_t *number = calloc(names->nr_threads + 1, sizeof(*number));

	tree->threads = calloc((size_t)names->nr_threads + 1, sizeof(*tree->threads));
	if (!ranked || !number || !tree->threads) {
		free(ranked);
		free(number);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < names->nr_threads; i++)
		ranked[i] = (struct ranked){names->threads[i].nr, i};
	qsort(ranked, names->nr_threads, sizeof(*ranked), compare_ranked);
	for (uint32_t i = 0; i < names->nr_threads; i++) {
		uint32_t at = i < max ? i : max;
		number[ranked[i].thread] = at;
		if (i < max)
			tree->threads[at] = names->threads[ranked[i].thread];
		else
			tree->threads[at].nr += ranked[i].nr;
		tree->nr_threads = at + 1;
	}
	for (uint32_t i = 0; i < names->nr_weights; i++)
		names->weights[i].thread = number[names->weights[i].thread];
	free(ranked);
	free(number);
	return 0;
}

static int compare_weights(const void *left, const void *right)
{
	const struct flame_weight *a = left, *b = right;

	if (a->event != b->event)
		return a->event < b->event ? -1 : 1;
	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	return a->node < b->node ? -1 : a->node > b->node;
}

static void merge_weights(struct names *names, struct flame_tree *tree)
{
	struct flame_weight *weights = names->weights;
	uint32_t nr = 0;

	qsort(weights, names->nr_weights, sizeof(*weights), compare_weights);
	for (uint32_t i = 0; i < names->nr_weights; i++) {
		if (nr && compare_weights(&weights[nr - 1], &weights[i]) == 0) {
			weights[nr - 1].period += weights[i].period;
			weights[nr - 1].nr += weights[i].nr;
		} else {
			weights[nr++] = weights[i];
		}
	}
	tree->weights = weights;
	tree->nr_weights = nr;
	names->weights = NULL;
}

int flame_tree_make(const struct samples *samples, const struct flame_limits *limits, struct flame_tree *ret)
{
	struct names names = {.samples = samples};

	*ret = (struct flame_tree){0};
	int err = name_all(&names);
	if (!err)
		err = prune(&names, limits, ret);
	if (!err)
		err = rank_threads(&names, limits->threads, ret);
	if (!err)
		merge_weights(&names, ret);
	stacks_free(names.stacks);
	free(names.weights);
	free(names.threads);
	return err;
}
