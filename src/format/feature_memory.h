/* SPDX-License-Identifier: MIT */
/* feature_memory: what the header tells of the memory: NUMA_TOPOLOGY, MEM_TOPOLOGY. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "format/feature.h"

/* NUMA_TOPOLOGY: a list; encoded as the u32 count and then that many entries. */
struct feature_numa_node {
	uint32_t node;
	uint64_t total_kb, free_kb;
	const char *cpus; /* "0-3" */
};
void feature_put_numa(const struct feature_numa_node *node, struct buf *out);
int feature_list_numa(struct feature_list *list, struct feature_numa_node *ret);

/* MEM_TOPOLOGY: which blocks of physical memory belong to which node. */
struct feature_memory_node {
	uint64_t node;
	uint64_t nr_blocks;  /* highest block of the node, and one */
	const uint8_t *bits; /* one of each block: u64 words in native order, unaligned */
};

/* Words of `bits` that nr_blocks take. */
static inline uint64_t feature_memory_words(uint64_t nr_blocks)
{
	return nr_blocks / 64 + (nr_blocks % 64 != 0);
}

/* block < nr_blocks. */
bool feature_memory_has(const struct feature_memory_node *node, uint64_t block);

/* The payload begins so; nr nodes follow. */
void feature_put_memory_begin(uint64_t nr, uint64_t block_bytes, struct buf *out);
void feature_put_memory(const struct feature_memory_node *node, struct buf *out);

/* A list with version and block size before it. -EBADMSG also for a version that is not 1. */
int feature_memory_open(struct span payload, struct feature_list *ret, uint64_t *ret_block_bytes);
int feature_list_memory(struct feature_list *list, struct feature_memory_node *ret);
