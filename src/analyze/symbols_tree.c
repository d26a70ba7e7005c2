/* SPDX-License-Identifier: MIT */
#include "analyze/symbols_tree.h"

#include <stddef.h>


static bool is_red(const struct symbols_node *node)
{
	return node && node->red;
}

/* Puts `with` (may be NULL) where `node` hangs. */
static void replace(struct symbols_tree *tree, struct symbols_node *node, struct symbols_node *with)
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

static void rotate_left(struct symbols_tree *tree, struct symbols_node *node)
{
	struct symbols_node *right = node->right;

	node->right = right->left;
	if (right->left)
		right->left->up = node;
	replace(tree, node, right);
	right->left = node;
	node->up = right;
}

static void rotate_right(struct symbols_tree *tree, struct symbols_node *node)
{
	struct symbols_node *left = node->left;

	node->left = left->right;
	if (left->right)
		left->right->up = node;
	replace(tree, node, left);
	left->right = node;
	node->up = left;
}

/* A red node was hung below a node that may be red too. */
static void insert_fix(struct symbols_tree *tree, struct symbols_node *node)
{
	while (is_red(node->up)) {
		struct symbols_node *up = node->up, *top = up->up;
		bool at_left = up == top->left;
		struct symbols_node *uncle = at_left ? top->right : top->left;

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

void symbols_tree_insert(struct symbols_tree *tree, struct symbols_node *node)
{
	struct symbols_node **slot = &tree->root, *up = NULL;

	while (*slot) {
		up = *slot;
		slot = node->start < up->start ? &up->left : &up->right;
	}
	node->left = node->right = NULL;
	node->up = up;
	node->red = true;
	*slot = node;
	insert_fix(tree, node);
}

/* The subtree `node` (may be NULL) below `up` is one black node short. */
static void remove_fix(struct symbols_tree *tree, struct symbols_node *node, struct symbols_node *up)
{
	while (node != tree->root && !is_red(node)) {
		bool at_left = node == up->left;
		struct symbols_node *sibling = at_left ? up->right : up->left;

		if (is_red(sibling)) {
			sibling->red = false;
			up->red = true;
			at_left ? rotate_left(tree, up) : rotate_right(tree, up);
			sibling = at_left ? up->right : up->left;
		}
		struct symbols_node *near = at_left ? sibling->left : sibling->right;
		struct symbols_node *far = at_left ? sibling->right : sibling->left;
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

void symbols_tree_remove(struct symbols_tree *tree, struct symbols_node *node)
{
	struct symbols_node *child, *child_up;
	bool black_gone = !node->red;

	if (!node->left || !node->right) {
		child = node->left ? node->left : node->right;
		child_up = node->up;
		replace(tree, node, child);
	} else {
		struct symbols_node *next = node->right;
		while (next->left)
			next = next->left;
		black_gone = !next->red;
		child = next->right;
		child_up = next;
		if (next->up != node) {
			child_up = next->up;
			replace(tree, next, child);
			next->right = node->right;
			next->right->up = next;
		}
		replace(tree, node, next);
		next->left = node->left;
		next->left->up = next;
		next->red = node->red;
	}
	if (black_gone)
		remove_fix(tree, child, child_up);
}

struct symbols_node *symbols_tree_find(const struct symbols_tree *tree, uint64_t address)
{
	struct symbols_node *node = tree->root;

	while (node) {
		if (address < node->start)
			node = node->left;
		else if (address > node->end || (address == node->end && address != node->start))
			node = node->right;
		else
			return node;
	}
	return NULL;
}
