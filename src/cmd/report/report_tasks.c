/* SPDX-License-Identifier: MIT */
#include "cmd/report/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>

#include "analyze/machine/machine.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "tasks/maps.h"

enum { MOST_INDENT = 1024 /* levels; a chain of forks may be of millions */ };

/* A task in the tree. */
struct node {
	const struct task *task;
	struct node *parent;              /* NULL: the root */
	struct node *first, *last, *next; /* children, and the next one of the parent */
	size_t placed;                    /* in which call of place(); 0: it is not yet */
};

struct tree {
	struct node root;
	struct node *nodes; /* by order_of() */
	size_t nr;
	size_t nr_calls; /* of place() */
};

/* perf's: its tables have 256 chains. */
static uint64_t order_of(uint32_t tid)
{
	return (uint64_t)(tid % 256) << 32 | tid;
}

static int compare_order(const void *left, const void *right)
{
	const struct node *a = left, *b = right;
	uint64_t first = order_of(a->task->tid), second = order_of(b->task->tid);

	return first < second ? -1 : first > second;
}

static struct node *find_node(const struct tree *tree, uint32_t tid)
{
	const size_t first = partition_point(tree->nr, i, order_of(tree->nodes[i].task->tid) < order_of(tid));
	return first < tree->nr && tree->nodes[first].task->tid == tid ? &tree->nodes[first] : NULL;
}

static struct node *parent_of(struct tree *tree, const struct node *node)
{
	struct node *parent = node->task->parent == UINT32_MAX ? NULL : find_node(tree, node->task->parent);

	return parent ? parent : &tree->root;
}

/*
 * Behind the children that its parent has; then the parent itself, and so on. A tid that is used again may make a task
 * its own ancestor: then this call has placed it. What earlier calls have placed is below the root.
 */
static void place(struct tree *tree, struct node *node)
{
	const size_t call = ++tree->nr_calls;

	while (node != &tree->root && !node->placed) {
		struct node *parent = parent_of(tree, node);
		if (parent == node || parent->placed == call)
			parent = &tree->root;
		if (parent->last)
			parent->last->next = node;
		else
			parent->first = node;
		parent->last = node;
		node->parent = parent;
		node->placed = call;
		node = parent;
	}
}

struct map_printer {
	FILE *to;
	int indent;
};

static void print_map(const struct map *map, void *ctx)
{
	const struct map_printer *printer = ctx;
	unsigned rights = map->rights;
	AUTO_ESCAPED name = escaped_text(dso_long_name(map->object));

	fprintf(printer->to, "%*s  %" PRIx64 "-%" PRIx64 " %c%c%c%c %08" PRIx64 " %" PRIu64 " %s\n", printer->indent,
		"", map->start, map->end, rights & MAP_MAY_READ ? 'r' : '-', rights & MAP_MAY_WRITE ? 'w' : '-',
		rights & MAP_MAY_EXECUTE ? 'x' : '-', rights & MAP_IS_SHARED ? 's' : 'p', map->pgoff, map->inode,
		name.text);
}

static void print_task(FILE *to, const struct task *task, int level, bool maps)
{
	AUTO_ESCAPED comm = escaped_text(task->comm->text);
	int indent = fprintf(to, "  %8d %8d %8d |%*s", (int)task->pid, (int)task->tid, (int)task->parent,
			     level < MOST_INDENT ? level : MOST_INDENT, "");

	fprintf(to, "%s\n", comm.text);
	if (maps && task->maps)
		maps_visit(task->maps, print_map, &(struct map_printer){to, indent});
}

/* Without recursion: a recording may have as deep a tree as it likes. */
static void print_tree(FILE *to, const struct tree *tree, bool maps)
{
	const struct node *node = tree->root.first;
	int level = 0;

	while (node && !ferror(to)) {
		print_task(to, node->task, level, maps);
		if (node->first) {
			node = node->first;
			level++;
			continue;
		}
		while (node && !node->next) {
			node = node->parent;
			level--;
		}
		node = node ? node->next : NULL;
	}
}

int report_tasks_print(FILE *to, const struct machine *machine, bool maps)
{
	AUTO_FREE struct task **tasks = NULL;
	struct tree tree = {0};
	int err = machine_list_tasks(machine, &tasks, &tree.nr);

	if (err)
		return err;
	AUTO_FREE struct node *nodes = calloc(tree.nr + 1, sizeof(*nodes));
	if (!nodes)
		return -ENOMEM;
	tree.nodes = nodes;
	for (size_t i = 0; i < tree.nr; i++)
		nodes[i].task = tasks[i];
	qsort(nodes, tree.nr, sizeof(*nodes), compare_order);
	for (size_t i = 0; i < tree.nr; i++)
		place(&tree, &nodes[i]);
	fprintf(to, "# %8s %8s %8s  %s\n", "pid", "tid", "ppid", "comm");
	print_tree(to, &tree, maps);
	return 0;
}
