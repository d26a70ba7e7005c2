/* SPDX-License-Identifier: MIT */
#include "analyze/insertion.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

struct node {
	struct node *left, *right, *up;
	void *item;
	bool red;
};

static bool is_red(const struct node *node)
{
	return node && node->red;
}

static void replace(struct node **root, struct node *node, struct node *with)
{
	if (!node->up)
		*root = with;
	else if (node->up->left == node)
		node->up->left = with;
	else
		node->up->right = with;
	with->up = node->up;
}

static void rotate_left(struct node **root, struct node *node)
{
	struct node *right = node->right;

	node->right = right->left;
	if (right->left)
		right->left->up = node;
	replace(root, node, right);
	right->left = node;
	node->up = right;
}

static void rotate_right(struct node **root, struct node *node)
{
	struct node *left = node->left;

	node->left = left->right;
	if (left->right)
		left->right->up = node;
	replace(root, node, left);
	left->right = node;
	node->up = left;
}

/* A red node was hung below a node that may be red too. */
static void settle(struct node **root, struct node *node)
{
	while (is_red(node->up)) {
		struct node *up = node->up, *top = up->up;
		bool at_left = up == top->left;
		struct node *uncle = at_left ? top->right : top->left;

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

static const struct node *leftmost(const struct node *node)
{
	while (node && node->left)
		node = node->left;
	return node;
}

static const struct node *following(const struct node *node)
{
	if (node->right)
		return leftmost(node->right);
	while (node->up && node->up->right == node)
		node = node->up;
	return node->up;
}

int insertion_sort(void **items, size_t nr, insertion_compare *compare, const void *of)
{
	struct node *nodes = nr > 1 ? reallocarray(NULL, nr, sizeof(*nodes)) : NULL, *root = NULL;

	if (nr <= 1)
		return 0;
	if (!nodes)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++) {
		struct node **slot = &root, *up = NULL;
		while (*slot) {
			up = *slot;
			slot = compare(items[i], up->item, of) < 0 ? &up->left : &up->right;
		}
		nodes[i] = (struct node){.up = up, .item = items[i], .red = true};
		*slot = &nodes[i];
		settle(&root, &nodes[i]);
	}
	for (const struct node *node = leftmost(root); node; node = following(node))
		*items++ = node->item;
	free(nodes);
	return 0;
}
