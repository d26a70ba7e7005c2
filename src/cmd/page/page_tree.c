/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/machine/stacks.h"
#include "analyze/report/tally.h"
#include "base/buf.h"
#include "cmd/page/page_times.h"
#include "cmd/page/page_tree.h"
#include "cmd/page/page_waits.h"

enum { FIRST_ROOM = 256 };

/* What one recording's numbers are in the tree. */
struct numbers {
	uint32_t *names;         /* by frame, plus 1; 0: not met yet */
	uint32_t nr_names;       /* frames there is room for */
	struct hash_table nodes; /* by base node and chain: the node, plus 1 */
};

void page_tree_fini(struct page_tree *tree)
{
	free(tree->nodes);
	free(tree->names);
	free(tree->threads);
	free(tree->weights);
	free(tree->stretches);
	hash_table_fini(&tree->by_name);
	hash_table_fini(&tree->by_parent);
	hash_table_fini(&tree->by_thread);
	pool_fini(&tree->pool);
	*tree = (struct page_tree){0};
}

static int find_name(struct page_tree *tree, const struct page_name *wanted, uint32_t *ret)
{
	uint64_t key = hash_mix(hash_mix(hash_text(wanted->text), hash_text(wanted->object)), wanted->kind);

	for (struct hash_slot *slot = hash_table_find(&tree->by_name, key); slot;
	     slot = hash_table_next(&tree->by_name, slot)) {
		const struct page_name *name = &tree->names[slot->number - 1];
		if (name->kind == wanted->kind && !strcmp(name->text, wanted->text) &&
		    !strcmp(name->object, wanted->object)) {
			*ret = (uint32_t)slot->number - 1;
			return 0;
		}
	}
	if (array_room(tree->names, tree->nr_names, tree->names_room) ||
	    hash_table_add_number(&tree->by_name, key, tree->nr_names + 1ull))
		return -ENOMEM;
	struct page_name *name = &tree->names[tree->nr_names];
	*name = *wanted;
	name->text = pool_text(&tree->pool, wanted->text, strlen(wanted->text));
	if (!name->text)
		return -ENOMEM;
	*ret = tree->nr_names++;
	return 0;
}

static int find_node(struct page_tree *tree, uint32_t parent, uint32_t name, uint32_t *ret)
{
	uint64_t key = (uint64_t)parent << 32 | name;

	*ret = (uint32_t)hash_table_find_number(&tree->by_parent, key);
	if (*ret)
		return 0;
	if (array_room(tree->nodes, tree->nr_nodes, tree->nodes_room) ||
	    hash_table_add_number(&tree->by_parent, key, tree->nr_nodes))
		return -ENOMEM;
	tree->nodes[tree->nr_nodes] = (struct page_node){parent, name};
	*ret = tree->nr_nodes++;
	return 0;
}

static int find_thread(struct page_tree *tree, const char *comm, uint32_t pid, uint32_t tid, uint32_t *ret)
{
	uint64_t key = hash_mix(hash_mix(hash_text(comm), pid), tid);

	for (struct hash_slot *slot = hash_table_find(&tree->by_thread, key); slot;
	     slot = hash_table_next(&tree->by_thread, slot)) {
		const struct page_thread *thread = &tree->threads[slot->number - 1];
		if (thread->pid == pid && thread->tid == tid && !strcmp(thread->comm, comm)) {
			*ret = (uint32_t)slot->number - 1;
			return 0;
		}
	}
	if (array_room(tree->threads, tree->nr_threads, tree->threads_room) ||
	    hash_table_add_number(&tree->by_thread, key, tree->nr_threads + 1ull))
		return -ENOMEM;
	tree->threads[tree->nr_threads] = (struct page_thread){.comm = comm, .pid = pid, .tid = tid};
	*ret = tree->nr_threads++;
	return 0;
}

static bool begins_with_any(const char *text, const char *const words[])
{
	for (; *words; words++)
		if (!strncmp(text, *words, strlen(*words)))
			return true;
	return false;
}

/*
 * By name: the functions in which interpreters run a program (CPython, perl, Ruby, Lua, PHP, bash, V8, HotSpot), and
 * those of a perf map that are not machine code: Python's trampolines (sys.activate_stack_trampoline()), and what V8
 * marks with "~".
 */
static bool is_interpreted(const char *text, bool jit)
{
	static const char *const loops[] = {"_PyEval_EvalFrame",
					    "PyEval_EvalFrame",
					    "Perl_runops_",
					    "vm_exec_core",
					    "rb_vm_exec",
					    "luaV_execute",
					    "lj_BC_",
					    "execute_ex",
					    "execute_command_internal",
					    NULL};
	static const char *const mapped[] = {"py::",
					     "LazyCompile:~",
					     "JS:~",
					     "Function:~",
					     "Builtin:Interpreter",
					     "Interpreter",
					     "Builtins_Interpreter",
					     "BytecodeHandler:",
					     NULL};

	return begins_with_any(text, jit ? mapped : loops) || begins_with_any(text, mapped + 6);
}

static enum page_kind kind_of(const struct location *at)
{
	bool jit = at->dso && (at->dso->kind == DSO_PERFMAP || at->dso->jit);

	if (!at->symbol)
		return PAGE_UNKNOWN;
	if (at->symbol->inlined)
		return PAGE_INLINED;
	if (at->level == 'k' || at->level == 'g')
		return PAGE_KERNEL;
	if (is_interpreted(at->symbol->name, jit))
		return PAGE_INTERPRETER;
	return jit ? PAGE_JIT : PAGE_USER;
}

static int name_location(struct page_tree *tree, const struct location *at, uint32_t *ret)
{
	const char *object = at->dso ? dso_short_name(at->dso) : "unknown";
	struct page_name name = {.object = object, .kind = kind_of(at)};
	char *text = NULL;

	if (!at->symbol && asprintf(&text, *object == '[' ? "%s" : "[%s]", object) < 0)
		return -ENOMEM;
	name.text = text ? text : at->symbol->name;
	int err = find_name(tree, &name, ret);
	free(text);
	return err;
}

static int name_frame(struct page_tree *tree, struct numbers *numbers, const struct stacks *stacks, uint32_t frame,
		      uint32_t *ret)
{
	if (frame >= numbers->nr_names) {
		uint32_t nr = frame < FIRST_ROOM ? FIRST_ROOM : frame * 2;
		uint32_t *names = reallocarray(numbers->names, nr, sizeof(*names));
		if (!names)
			return -ENOMEM;
		memset(names + numbers->nr_names, 0, (nr - numbers->nr_names) * sizeof(*names));
		numbers->names = names;
		numbers->nr_names = nr;
	}
	if (!numbers->names[frame]) {
		int err = name_location(tree, stacks_location(stacks, frame), ret);
		if (err)
			return err;
		numbers->names[frame] = *ret + 1;
	}
	*ret = numbers->names[frame] - 1;
	return 0;
}

/* A frame of an object below one of the same object says nothing more where neither has a function. */
static int step(struct page_tree *tree, uint32_t name, uint32_t *node)
{
	bool again = *node && tree->nodes[*node].name == name && tree->names[name].kind == PAGE_UNKNOWN;

	return again ? 0 : find_node(tree, *node, name, node);
}

/* The node of a chain below a base. */
static int node_of_chain(struct page_tree *tree, struct numbers *numbers, const struct stacks *stacks, uint32_t base,
			 uint32_t chain, uint32_t *ret)
{
	uint32_t links[CHAIN_MOST_FRAMES], name, node = base;
	unsigned nr = 0;
	int err = 0;

	for (; chain && nr < CHAIN_MOST_FRAMES; chain = stacks_outer(stacks, chain)) {
		node = (uint32_t)hash_table_find_number(&numbers->nodes, (uint64_t)base << 32 | chain);
		if (node--)
			break;
		node = base;
		links[nr++] = chain;
	}
	while (nr-- > 0 && !err) {
		err = name_frame(tree, numbers, stacks, stacks_frame(stacks, links[nr]), &name);
		if (!err)
			err = step(tree, name, &node);
		if (!err)
			err = hash_table_add_number(&numbers->nodes, (uint64_t)base << 32 | links[nr], node + 1ull);
	}
	*ret = node;
	return err;
}

static int find_base(struct page_tree *tree, const struct page_thread *thread, uint32_t *ret)
{
	struct page_name name = {.object = "", .kind = PAGE_TASK};
	char *text = NULL;
	int len = 0;

	*ret = 0;
	switch (tree->base) {
	case PAGE_BASE_COMMAND: len = asprintf(&text, "%s", thread->comm); break;
	case PAGE_BASE_PROCESS: len = asprintf(&text, "%s %d", thread->comm, (int32_t)thread->pid); break;
	case PAGE_BASE_THREAD: len = asprintf(&text, "%s %d", thread->comm, (int32_t)thread->tid); break;
	default: return 0;
	}
	if (len < 0)
		return -ENOMEM;
	uint32_t number;
	name.text = text;
	int err = find_name(tree, &name, &number);
	free(text);
	return err ? err : find_node(tree, 0, number, ret);
}

/* Where a cell of a tally stands. */
struct cell_place {
	uint32_t thread, node;
	bool filtered;
};

static int place_cell(struct page_tree *tree, struct numbers *numbers, const struct stacks *stacks,
		      const struct tally_cell *cell, struct cell_place *ret)
{
	uint32_t base, name;

	ret->filtered = cell->place.filtered;
	if (ret->filtered)
		return 0;
	const struct hist_place *of = &cell->place;
	int err = find_thread(tree, of->comm->text, of->task->pid, of->tid, &ret->thread);
	if (!err)
		err = find_base(tree, &tree->threads[ret->thread], &base);
	if (!err && cell->chain)
		return node_of_chain(tree, numbers, stacks, base, cell->chain, &ret->node);
	const struct location at = {.dso = cell->place.dso, .symbol = cell->place.symbol, .level = cell->place.level};
	if (!err)
		err = name_location(tree, &at, &name);
	if (!err) {
		ret->node = base;
		err = step(tree, name, &ret->node);
	}
	return err;
}

static int place_cells(struct page_tree *tree, struct numbers *numbers, const struct stacks *stacks,
		       const struct tally *tally, struct cell_place **ret)
{
	struct cell_place *places = calloc(tally->nr + 1ull, sizeof(*places));

	if (!places)
		return -ENOMEM;
	*ret = places;
	for (uint32_t i = 0; i < tally->nr; i++) {
		struct tally_cell cell = tally_cell(tally, i);
		int err = place_cell(tree, numbers, stacks, &cell, &places[i]);
		if (err)
			return err;
	}
	return 0;
}

static int add_weights(struct page_tree *tree, const struct page_recording *recording, struct cell_place **places)
{
	const struct page_times *times = recording->times;

	if (tree->weights_room - tree->nr_weights < times->nr) {
		size_t room = tree->nr_weights + times->nr;
		struct page_weight *weights = reallocarray(tree->weights, room, sizeof(*weights));
		if (!weights)
			return -ENOMEM;
		tree->weights = weights;
		tree->weights_room = room;
	}
	for (size_t i = 0; i < times->nr; i++) {
		const struct page_timed *timed = &times->timed[i];
		const struct cell_place *place = &places[timed->event][timed->cell];
		if (place->filtered)
			continue;
		tree->weights[tree->nr_weights++] = (struct page_weight){
			.series = recording->first_series + timed->event,
			.thread = place->thread,
			.node = place->node,
			.bin = timed->bin,
			.period = timed->period,
			.nr = timed->nr,
		};
		tree->threads[place->thread].nr += timed->nr;
		tree->nr_samples += timed->nr;
	}
	return 0;
}

static int add_stretches(struct page_tree *tree, const struct page_waits *waits, struct cell_place **places)
{
	tree->stretches = calloc(waits->nr + 1, sizeof(*tree->stretches));
	if (!tree->stretches)
		return -ENOMEM;
	for (size_t i = 0; i < waits->nr; i++) {
		const struct page_wait *wait = &waits->waits[i];
		const struct cell_place *place = &places[wait->event][wait->cell];
		if (!place->filtered)
			tree->stretches[tree->nr_stretches++] = (struct page_stretch){place->thread, place->node, wait};
	}
	return 0;
}

static int make_root(struct page_tree *tree)
{
	if (tree->nr_nodes)
		return 0;
	if (array_room(tree->nodes, 0, tree->nodes_room))
		return -ENOMEM;
	tree->nodes[tree->nr_nodes++] = (struct page_node){0};
	return 0;
}

int page_tree_add(struct page_tree *tree, const struct page_recording *recording)
{
	struct numbers numbers = {0};
	struct cell_place **places = calloc(recording->nr_events + 1ull, sizeof(*places));
	int err = places ? 0 : -ENOMEM;

	if (!err)
		err = make_root(tree);
	for (uint32_t i = 0; i < recording->nr_events && !err; i++)
		err = place_cells(tree, &numbers, recording->stacks, recording->events[i], &places[i]);
	if (!err)
		err = add_weights(tree, recording, places);
	if (!err && recording->waits)
		err = add_stretches(tree, recording->waits, places);
	for (uint32_t i = 0; places && i < recording->nr_events; i++)
		free(places[i]);
	free(places);
	free(numbers.names);
	hash_table_fini(&numbers.nodes);
	return err;
}

int page_tree_add_row(struct page_tree *tree, const struct page_row *row)
{
	uint32_t thread, name, node = 0;
	int err = make_root(tree);

	if (!err)
		err = find_thread(tree, row->thread, row->number, row->number, &thread);
	if (!err && tree->base != PAGE_BASE_NONE) {
		const struct page_name base = {.text = row->base, .object = "", .kind = PAGE_TASK};
		err = find_name(tree, &base, &name);
		if (!err)
			err = find_node(tree, 0, name, &node);
	}
	for (unsigned i = 0; i < row->nr_frames && !err; i++) {
		const char *text = row->frames[i];
		bool in_kernel = i + row->nr_kernel >= row->nr_frames;
		const struct page_name frame = {.text = text,
						.object = "",
						.kind = *text == '[' ? PAGE_UNKNOWN
							: in_kernel  ? PAGE_KERNEL
								     : PAGE_USER};
		err = find_name(tree, &frame, &name);
		if (!err)
			err = step(tree, name, &node);
	}
	if (err)
		return err;
	if (array_room(tree->weights, tree->nr_weights, tree->weights_room))
		return -ENOMEM;
	tree->weights[tree->nr_weights++] = (struct page_weight){
		.series = row->series,
		.thread = thread,
		.node = node,
		.bin = row->bin,
		.period = row->period,
		.nr = row->nr,
	};
	tree->threads[thread].nr += row->nr;
	tree->nr_samples += row->nr;
	return 0;
}

static int compare_down(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? 1 : a > b ? -1 : 0;
}

/*
 * Which nodes stay, so that there are no more than `max`: those with the most samples, callers before what they called;
 * of those with as many as the last one, the first ones. The root does not count.
 */
static int choose_nodes(const struct page_tree *tree, const uint64_t *totals, uint32_t max, bool *ret)
{
	uint64_t *sorted = calloc(tree->nr_nodes + 1ull, sizeof(*sorted)), least = 0;
	uint32_t room = max;

	if (!sorted)
		return -ENOMEM;
	if (tree->nr_nodes - 1 > max) {
		memcpy(sorted, totals + 1, (tree->nr_nodes - 1ull) * sizeof(*sorted));
		qsort(sorted, tree->nr_nodes - 1, sizeof(*sorted), compare_down);
		least = sorted[max];
		for (uint32_t i = 0; i < max && sorted[i] > least; i++)
			room--;
	}
	free(sorted);
	ret[0] = true;
	for (uint32_t i = 1; i < tree->nr_nodes; i++) {
		ret[i] = totals[i] > least || (totals[i] && totals[i] == least && room && ret[tree->nodes[i].parent]);
		room -= totals[i] == least && ret[i];
	}
	return 0;
}

struct ranked {
	const struct page_name *name;
	uint32_t number;
};

static int compare_names(const void *left, const void *right)
{
	const struct page_name *a = ((const struct ranked *)left)->name, *b = ((const struct ranked *)right)->name;
	int order = strcmp(a->text, b->text);

	if (!order)
		order = strcmp(a->object, b->object);
	return order ? order : (int)a->kind - (int)b->kind;
}

/* Puts the names in order, and their new numbers into the nodes. */
static int order_names(struct page_tree *tree)
{
	struct ranked *ranked = calloc(tree->nr_names + 1ull, sizeof(*ranked));
	uint32_t *number = calloc(tree->nr_names + 1ull, sizeof(*number));
	struct page_name *names = calloc(tree->nr_names + 1ull, sizeof(*names));
	int err = ranked && number && names ? 0 : -ENOMEM;

	for (uint32_t i = 0; !err && i < tree->nr_names; i++)
		ranked[i] = (struct ranked){&tree->names[i], i};
	if (!err)
		qsort(ranked, tree->nr_names, sizeof(*ranked), compare_names);
	for (uint32_t i = 0; !err && i < tree->nr_names; i++) {
		names[i] = *ranked[i].name;
		number[ranked[i].number] = i;
	}
	for (uint32_t i = 1; !err && i < tree->nr_nodes; i++)
		tree->nodes[i].name = number[tree->nodes[i].name];
	if (!err) {
		free(tree->names);
		tree->names = names;
		names = NULL;
	}
	free(names);
	free(number);
	free(ranked);
	return err;
}

/*
 * The nodes that stay, sorted by parent and then by name, from the second on, and for each node where those of it begin
 * in *first, one more at the end. By counting, twice.
 */
static int sort_children(const struct page_tree *tree, const bool *stays, uint32_t *sorted, uint32_t *first)
{
	uint32_t *by_name = calloc(tree->nr_nodes + 1ull, sizeof(*by_name)), nr = 0;
	uint32_t *starts = calloc(tree->nr_names + 2ull, sizeof(*starts));
	int err = by_name && starts ? 0 : -ENOMEM;

	for (uint32_t i = 1; !err && i < tree->nr_nodes; i++) {
		if (!stays[i])
			continue;
		starts[tree->nodes[i].name + 1]++;
		first[tree->nodes[i].parent + 1]++;
		nr++;
	}
	for (uint32_t i = 0; !err && i < tree->nr_names; i++)
		starts[i + 1] += starts[i];
	for (uint32_t i = 0; !err && i < tree->nr_nodes; i++)
		first[i + 1] += first[i];
	for (uint32_t i = 1; !err && i < tree->nr_nodes; i++)
		if (stays[i])
			by_name[starts[tree->nodes[i].name]++] = i;
	uint32_t *next = calloc(tree->nr_nodes + 1ull, sizeof(*next));
	err = next ? err : -ENOMEM;
	if (!err)
		memcpy(next, first, (tree->nr_nodes + 1ull) * sizeof(*next));
	for (uint32_t i = 0; !err && i < nr; i++)
		sorted[next[tree->nodes[by_name[i]].parent]++] = by_name[i];
	free(next);
	free(by_name);
	free(starts);
	return err;
}

/* What the new numbers are made with; of the old numbers. */
struct order {
	uint32_t *sorted, *first, *number, *todo;
	struct page_node *nodes; /* by new numbers */
};

/* Each node before those it called, and these by name: the order in which they are drawn. */
static void number_nodes(struct page_tree *tree, struct order *order)
{
	uint32_t nr_todo = 0, nr = 0;

	order->todo[nr_todo++] = 0;
	while (nr_todo) {
		uint32_t node = order->todo[--nr_todo];
		order->number[node] = nr;
		order->nodes[nr++] =
			(struct page_node){order->number[tree->nodes[node].parent], tree->nodes[node].name};
		for (uint32_t i = order->first[node + 1]; i-- > order->first[node];)
			order->todo[nr_todo++] = order->sorted[i];
	}
	/* The others are counted with the nearest caller that stays; callers come first. */
	for (uint32_t i = 1; i < tree->nr_nodes; i++)
		if (!order->number[i])
			order->number[i] = order->number[tree->nodes[i].parent];
	free(tree->nodes);
	tree->nodes = order->nodes;
	order->nodes = NULL;
	tree->nr_nodes = nr;
}

static int order_nodes(struct page_tree *tree, uint32_t max)
{
	size_t room = tree->nr_nodes + 2ull;
	uint64_t *totals = calloc(room, sizeof(*totals));
	bool *stays = calloc(room, sizeof(*stays));
	struct order order = {
		.sorted = calloc(room, sizeof(uint32_t)),
		.first = calloc(room, sizeof(uint32_t)),
		.number = calloc(room, sizeof(uint32_t)),
		.todo = calloc(room, sizeof(uint32_t)),
		.nodes = calloc(room, sizeof(struct page_node)),
	};
	bool made = totals && stays && order.sorted && order.first && order.number && order.todo && order.nodes;
	int err = made ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < tree->nr_weights; i++)
		totals[tree->weights[i].node] += tree->weights[i].nr;
	for (uint32_t i = tree->nr_nodes; !err && i-- > 1;)
		totals[tree->nodes[i].parent] += totals[i];
	if (!err)
		err = choose_nodes(tree, totals, max, stays);
	if (!err)
		err = sort_children(tree, stays, order.sorted, order.first);
	if (!err) {
		for (size_t i = 0; i < tree->nr_weights; i++)
			tree->nr_cut += stays[tree->weights[i].node] ? 0 : tree->weights[i].nr;
		number_nodes(tree, &order);
		for (size_t i = 0; i < tree->nr_weights; i++)
			tree->weights[i].node = order.number[tree->weights[i].node];
		for (size_t i = 0; i < tree->nr_stretches; i++)
			tree->stretches[i].node = order.number[tree->stretches[i].node];
	}
	free(totals);
	free(stays);
	free(order.sorted);
	free(order.first);
	free(order.number);
	free(order.todo);
	free(order.nodes);
	return err;
}

struct busy {
	uint64_t nr;
	uint32_t thread;
};

static int compare_busy(const void *left, const void *right)
{
	const struct busy *a = left, *b = right;

	if (a->nr != b->nr)
		return a->nr < b->nr ? 1 : -1;
	return a->thread < b->thread ? -1 : a->thread > b->thread;
}

/* The busiest threads first; those beyond the limit become one. */
static int order_threads(struct page_tree *tree, uint32_t max)
{
	struct busy *busy = calloc(tree->nr_threads + 1ull, sizeof(*busy));
	uint32_t *number = calloc(tree->nr_threads + 1ull, sizeof(*number)), nr = 0;
	struct page_thread *threads = calloc(tree->nr_threads + 1ull, sizeof(*threads));

	if (!busy || !number || !threads) {
		free(busy);
		free(number);
		free(threads);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < tree->nr_threads; i++)
		busy[i] = (struct busy){tree->threads[i].nr, i};
	qsort(busy, tree->nr_threads, sizeof(*busy), compare_busy);
	for (uint32_t i = 0; i < tree->nr_threads; i++) {
		uint32_t at = i < max ? i : max;
		number[busy[i].thread] = at;
		if (i < max)
			threads[at] = tree->threads[busy[i].thread];
		else
			threads[at].nr += busy[i].nr;
		nr = at + 1;
	}
	for (size_t i = 0; i < tree->nr_weights; i++)
		tree->weights[i].thread = number[tree->weights[i].thread];
	for (size_t i = 0; i < tree->nr_stretches; i++)
		tree->stretches[i].thread = number[tree->stretches[i].thread];
	free(tree->threads);
	tree->threads = threads;
	tree->nr_threads = nr;
	free(busy);
	free(number);
	return 0;
}

static int compare_weights(const void *left, const void *right)
{
	const struct page_weight *a = left, *b = right;

	if (a->series != b->series)
		return a->series < b->series ? -1 : 1;
	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	if (a->node != b->node)
		return a->node < b->node ? -1 : 1;
	return a->bin < b->bin ? -1 : a->bin > b->bin;
}

static void merge_weights(struct page_tree *tree)
{
	struct page_weight *weights = tree->weights;
	size_t nr = 0;

	if (tree->nr_weights)
		qsort(weights, tree->nr_weights, sizeof(*weights), compare_weights);
	for (size_t i = 0; i < tree->nr_weights; i++) {
		if (nr && compare_weights(&weights[nr - 1], &weights[i]) == 0) {
			weights[nr - 1].period += weights[i].period;
			weights[nr - 1].nr += weights[i].nr;
		} else {
			weights[nr++] = weights[i];
		}
	}
	tree->nr_weights = nr;
}

static int compare_stretches(const void *left, const void *right)
{
	const struct page_stretch *a = left, *b = right;

	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	return a->wait->from_ns < b->wait->from_ns ? -1 : a->wait->from_ns > b->wait->from_ns;
}

int page_tree_finish(struct page_tree *tree, const struct page_limits *limits)
{
	int err = order_names(tree);

	if (!err)
		err = order_nodes(tree, limits->nodes);
	if (!err)
		err = order_threads(tree, limits->threads);
	if (!err)
		merge_weights(tree);
	if (tree->nr_stretches)
		qsort(tree->stretches, tree->nr_stretches, sizeof(*tree->stretches), compare_stretches);
	return err;
}
