/* SPDX-License-Identifier: MIT */
#include "analyze/symbols_tree.h"

#include <stdbool.h>
#include <stddef.h>

#include "analyze/symbols.h"

static bool is_red(const struct symbol_entry *node)
{
	return node && node->red;
}

/* Puts `with` (may be NULL) where `node` hangs. */
static void replace(struct symbols_tree *tree, struct symbol_entry *node, struct symbol_entry *with)
{
	if (!node->up)
		tree->root = with;
	else if (node->up->left == node)
		node->up->left = with;
	else
		node->up->right = with;
	if (with)
		with->up = node->up;
}

static void rotate_left(struct symbols_tree *tree, struct symbol_entry *node)
{
	struct symbol_entry *right = node->right;

	node->right = right->left;
	if (right->left)
		right->left->up = node;
	replace(tree, node, right);
	right->left = node;
	node->up = right;
}

static void rotate_right(struct symbols_tree *tree, struct symbol_entry *node)
{
	struct symbol_entry *left = node->left;

	node->left = left->right;
	if (left->right)
		left->right->up = node;
	replace(tree, node, left);
	left->right = node;
	node->up = left;
}

/* A red node was hung below a node that may be red too. */
static void insert_fix(struct symbols_tree *tree, struct symbol_entry *node)
{
	while (is_red(node->up)) {
		struct symbol_entry *up = node->up, *top = up->up;
		bool at_left = up == top->left;
		struct symbol_entry *uncle = at_left ? top->right : top->left;

		if (is_red(uncle)) {
			up->red = uncle->red = false;
			top->red = true;
			node = top;
			continue;
		}
		if (node == (at_left ? up->right : up->left)) {
			node = up;
			at_left ? rotate_left(tree, node) : rotate_right(tree, node);
			up = node->up;
		}
		up->red = false;
		top->red = true;
		at_left ? rotate_right(tree, top) : rotate_left(tree, top);
	}
	tree->root->red = false;
}

void symbols_tree_insert(struct symbols_tree *tree, struct symbol_entry *entry)
{
	struct symbol_entry **slot = &tree->root, *up = NULL;

	while (*slot) {
		up = *slot;
		slot = entry->symbol.start < up->symbol.start ? &up->left : &up->right;
	}
	entry->left = entry->right = NULL;
	entry->up = up;
	entry->red = true;
	*slot = entry;
	insert_fix(tree, entry);
}

/* The subtree `node` (may be NULL) below `up` is one black node short. */
static void remove_fix(struct symbols_tree *tree, struct symbol_entry *node, struct symbol_entry *up)
{
	while (node != tree->root && !is_red(node)) {
		bool at_left = node == up->left;
		struct symbol_entry *sibling = at_left ? up->right : up->left;

		if (is_red(sibling)) {
			sibling->red = false;
			up->red = true;
			at_left ? rotate_left(tree, up) : rotate_right(tree, up);
			sibling = at_left ? up->right : up->left;
		}
		struct symbol_entry *near = at_left ? sibling->left : sibling->right;
		struct symbol_entry *far = at_left ? sibling->right : sibling->left;
		if (!is_red(near) && !is_red(far)) {
			sibling->red = true;
			node = up;
			up = node->up;
			continue;
		}
		if (!is_red(far)) {
			near->red = false;
			sibling->red = true;
			at_left ? rotate_right(tree, sibling) : rotate_left(tree, sibling);
			sibling = at_left ? up->right : up->left;
			far = at_left ? sibling->right : sibling->left;
		}
		sibling->red = up->red;
		up->red = false;
		far->red = false;
		at_left ? rotate_left(tree, up) : rotate_right(tree, up);
		node = tree->root;
	}
	if (node)
		node->red = false;
}

void symbols_tree_remove(struct symbols_tree *tree, struct symbol_entry *entry)
{
	struct symbol_entry *child, *child_up;
	bool black_gone = !entry->red;

	if (!entry->left || !entry->right) {
		child = entry->left ? entry->left : entry->right;
		child_up = entry->up;
		replace(tree, entry, child);
	} else {
		struct symbol_entry *next = entry->right;
		while (next->left)
			next = next->left;
		black_gone = !next->red;
		child = next->right;
		child_up = next;
		if (next->up != entry) {
			child_up = next->up;
			replace(tree, next, child);
			next->right = entry->right;
			next->right->up = next;
		}
		replace(tree, entry, next);
		next->left = entry->left;
		next->left->up = next;
		next->red = entry->red;
	}
	if (black_gone)
		remove_fix(tree, child, child_up);
}

struct symbol_entry *symbols_tree_find(const struct symbols_tree *tree, uint64_t address)
{
	struct symbol_entry *node = tree->root;

	while (node) {
		const struct symbol *symbol = &node->symbol;
		if (address < symbol->start)
			node = node->left;
		else if (address > symbol->end || (address == symbol->end && address != symbol->start))
			node = node->right;
		else
			return node;
	}
	return NULL;
}
