/* SPDX-License-Identifier: MIT */
#include "format/feature_memory.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"

enum { MEMORY_VERSION = 1 };

void feature_put_numa(const struct feature_numa_node *node, struct buf *out)
{
	buf_put_u32(out, node->node);
	buf_put_u64(out, node->total_kb);
	buf_put_u64(out, node->free_kb);
	feature_put_string(out, node->cpus);
}

int feature_list_numa(struct feature_list *list, struct feature_numa_node *ret)
{
	struct feature_numa_node node;

	if (!list->left)
		return 0;
	node.node = cursor_u32(&list->at);
	node.total_kb = cursor_u64(&list->at);
	node.free_kb = cursor_u64(&list->at);
	node.cpus = feature_take_string(&list->at);
	if (list->at.bad)
		return -EBADMSG;
	list->left--;
	*ret = node;
	return 1;
}

bool feature_memory_has(const struct feature_memory_node *node, uint64_t block)
{
	uint64_t word;

	memcpy(&word, node->bits + block / 64 * sizeof(word), sizeof(word));
	return word >> block % 64 & 1;
}

void feature_put_memory_begin(uint64_t nr, uint64_t block_bytes, struct buf *out)
{
	buf_put_u64(out, MEMORY_VERSION);
	buf_put_u64(out, block_bytes);
	buf_put_u64(out, nr);
}

void feature_put_memory(const struct feature_memory_node *node, struct buf *out)
{
	buf_put_u64(out, node->node);
	/* Twice: size of the node, then that of the bitmap. */
	buf_put_u64(out, node->nr_blocks);
	buf_put_u64(out, node->nr_blocks);
	buf_put(out, node->bits, feature_memory_words(node->nr_blocks) * sizeof(uint64_t));
}

int feature_memory_open(struct span payload, struct feature_list *ret, uint64_t *ret_block_bytes)
{
	struct cursor at = cursor_over(payload);
	uint64_t version = cursor_u64(&at);
	uint64_t block_bytes = cursor_u64(&at);
	uint64_t nr = cursor_u64(&at);

	if (at.bad || version != MEMORY_VERSION)
		return -EBADMSG;
	*ret = (struct feature_list){.at = at, .left = nr};
	*ret_block_bytes = block_bytes;
	return 0;
}

int feature_list_memory(struct feature_list *list, struct feature_memory_node *ret)
{
	struct feature_memory_node node;

	if (!list->left)
		return 0;
	node.node = cursor_u64(&list->at);
	cursor_u64(&list->at); /* the same number as the next one, which says how many words there are */
	node.nr_blocks = cursor_u64(&list->at);
	uint64_t words = feature_memory_words(node.nr_blocks);
	if (words > cursor_left(&list->at) / sizeof(uint64_t))
		list->at.bad = true;
	node.bits = cursor_take(&list->at, words * sizeof(uint64_t));
	if (list->at.bad)
		return -EBADMSG;
	list->left--;
	*ret = node;
	return 1;
}
