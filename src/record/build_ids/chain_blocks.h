/* SPDX-License-Identifier: MIT */
/*
 * chain_blocks: parts of call chains that came of late. Most samples have the outer calls in common with others before
 * them: a chain is cut into blocks from its end, and of a block that came before only the times are noted. What its
 * addresses lie in is looked up once, when another block takes its place, or in the end. Private to build_ids. One
 * owner, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "record/build_ids/pages.h"

enum { CHAIN_BLOCK_WORDS = 8, CHAIN_SLOT_BITS = 7, NR_CHAIN_BLOCKS = 1 << CHAIN_SLOT_BITS };

/* Whose addresses follow. */
enum chain_owner {
	CHAIN_UNKNOWN = 1, /* a guest, or no marker came before them */
	CHAIN_KERNEL,
	CHAIN_TASK,
};

struct chain_block {
	uint64_t words[CHAIN_BLOCK_WORDS]; /* addresses, and markers between them (perf_callchain_context) */
	uint64_t key;                      /* chain_key(); 0: the slot is free */
	enum chain_owner owner_behind;     /* of addresses behind it */
	struct page_times times;           /* of the samples that it came in */
};

struct chain_blocks {
	struct chain_block slots[NR_CHAIN_BLOCKS];
};

/* Of what equal words mean the same: the task, and whose the addresses are before the first marker. Never 0. */
static inline uint64_t chain_key(int32_t task_pid, enum chain_owner owner)
{
	return (uint64_t)(uint32_t)task_pid << 32 | owner;
}

static inline int32_t chain_key_pid(uint64_t key)
{
	return (int32_t)(key >> 32);
}

static inline enum chain_owner chain_key_owner(uint64_t key)
{
	return (enum chain_owner)(uint32_t)key;
}

/* Where a block of these words, which need not be aligned, belongs. Processes that were forked have equal ones. */
static inline struct chain_block *chain_block_slot(struct chain_blocks *blocks, const uint8_t *words, uint64_t key)
{
	const uint64_t golden_ratio = 0x9e3779b97f4a7c15; /* 2^64 divided by it */
	uint64_t copy[CHAIN_BLOCK_WORDS], mixed = key;

	memcpy(copy, words, sizeof(copy));
#pragma GCC unroll 8
	for (size_t i = 0; i < CHAIN_BLOCK_WORDS; i++)
		mixed = (mixed << 9 | mixed >> 55) ^ copy[i];
	return &blocks->slots[mixed * golden_ratio >> (64 - CHAIN_SLOT_BITS)];
}

static inline bool chain_block_is(const struct chain_block *block, const uint8_t *words, uint64_t key)
{
	return block->key == key && !memcmp(block->words, words, sizeof(block->words));
}

static inline void chain_block_extend(struct chain_block *block, uint64_t time_ns)
{
	if (time_ns < block->times.first_ns)
		block->times.first_ns = time_ns;
	if (time_ns > block->times.last_ns)
		block->times.last_ns = time_ns;
}
