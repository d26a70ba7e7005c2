/* SPDX-License-Identifier: MIT */
#include "base/rbtree.h"

#include <errno.h>
#include <stdlib.h>

static bool is_red(const struct rb_node *node)
{
	return node && node->red;
}

/* Puts `with` (may be NULL) where `node` hangs. */
static void replace(struct rb_node **root, struct rb_node *node, struct rb_node *with)
{
	if (!node->up)
		*root = with;
	else if (node->up->left == node)
		node->up->left = with;
	else
		node->up->right = with;
	if (with)
		with->up = node->up;
}

static void rotate_left(struct rb_node **root, struct rb_node *node)
{
	struct rb_node *right = node->right;

	node->right = right->left;
	if (right->left)
		right->left->up = node;
	replace(root, node, right);
	right->left = node;
	node->up = right;
}

static void rotate_right(struct rb_node **root, struct rb_node *node)
{
	struct rb_node *left = node->left;

	node->left = left->right;
	if (left->right)
		left->right->up = node;
	replace(root, node, left);
	left->right = node;
	node->up = left;
}

/* A red node was hung below a node that may be red too. */
static void insert_fix(struct rb_node **root, struct rb_node *node)
{
	while (is_red(node->up)) {
		struct rb_node *up = node->up, *top = up->up;
		bool at_left = up == top->left;
		struct rb_node *uncle = at_left ? top->right : top->left;

		if (is_red(uncle)) {
			up->red = uncle->red = false;
			top->red = true;
			node = top;
			continue;
		}
		if (node == (at_left ? up->right : up->left)) {
			node = up;
			at_left ? rotate_left(root, node) : rotate_right(root, node);
			up = node->up;
		}
		up->red = false;
		top->red = true;
		at_left ? rotate_right(root, top) : rotate_left(root, top);
	}
	(*root)->red = false;
}

void rb_insert(struct rb_node **root, struct rb_node **slot, struct rb_node *up, struct rb_node *node)
{
	*node = (struct rb_node){.up = up, .red = true};
	*slot = node;
	insert_fix(root, node);
}

/* The subtree `node` (may be NULL) below `up` is one black node short. */
static void remove_fix(struct rb_node **root, struct rb_node *node, struct rb_node *up)
{
	while (node != *root && !is_red(node)) {
		bool at_left = node == up->left;
		struct rb_node *sibling = at_left ? up->right : up->left;

		if (is_red(sibling)) {
			sibling->red = false;
			up->red = true;
			at_left ? rotate_left(root, up) : rotate_right(root, up);
			sibling = at_left ? up->right : up->left;
		}
		struct rb_node *near = at_left ? sibling->left : sibling->right;
		struct rb_node *far = at_left ? sibling->right : sibling->left;
		if (!is_red(near) && !is_red(far)) {
			sibling->red = true;
			node = up;
			up = node->up;
			continue;
		}
		if (!is_red(far)) {
			near->red = false;
			sibling->red = true;
			at_left ? rotate_right(root, sibling) : rotate_left(root, sibling);
			sibling = at_left ? up->right : up->left;
			far = at_left ? sibling->right : sibling->left;
		}
		sibling->red = up->red;
		up->red = false;
		far->red = false;
		at_left ? rotate_left(root, up) : rotate_right(root, up);
		node = *root;
	}
	if (node)
		node->red = false;
}

void rb_remove(struct rb_node **root, struct rb_node *node)
{
	struct rb_node *child, *child_up;
	bool black_gone = !node->red;

	if (!node->left || !node->right) {
		child = node->left ? node->left : node->right;
		child_up = node->up;
		replace(root, node, child);
	} else {
		struct rb_node *next = node->right;
		while (next->left)
			next = next->left;
		black_gone = !next->red;
		child = next->right;
		child_up = next;
		if (next->up != node) {
			child_up = next->up;
			replace(root, next, child);
			next->right = node->right;
			next->right->up = next;
		}
		replace(root, node, next);
		next->left = node->left;
		next->left->up = next;
		next->red = node->red;
	}
	if (black_gone)
		remove_fix(root, child, child_up);
}

static const struct rb_node *leftmost(const struct rb_node *node)
{
	while (node && node->left)
		node = node->left;
	return node;
}

static const struct rb_node *following(const struct rb_node *node)
{
	if (node->right)
		return leftmost(node->right);
	while (node->up && node->up->right == node)
		node = node->up;
	return node->up;
}

struct inserted {
	struct rb_node node; /* first */
	void *item;
};

int insertion_sort(void **items, size_t nr, insertion_compare *compare, const void *ctx)
{
	struct inserted *nodes = nr > 1 ? reallocarray(NULL, nr, sizeof(*nodes)) : NULL;
	struct rb_node *root = NULL;

	if (nr <= 1)
		return 0;
	if (!nodes)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++) {
		struct rb_node **slot = &root, *up = NULL;
		while (*slot) {
			up = *slot;
			slot = compare(items[i], ((struct inserted *)up)->item, ctx) < 0 ? &up->left : &up->right;
		}
		nodes[i].item = items[i];
		rb_insert(&root, slot, up, &nodes[i].node);
	}
	for (const struct rb_node *node = leftmost(root); node; node = following(node))
		*items++ = ((const struct inserted *)node)->item;
	free(nodes);
	return 0;
}
