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

enum { CHAIN_BLOCK_WORDS = 8, NR_CHAIN_BLOCKS = 128 };

struct chain_block {
	uint64_t words[CHAIN_BLOCK_WORDS]; /* addresses, and markers between them (perf_callchain_context); else 0 */
	uint32_t nr;                       /* of the words; 0: the slot is free */
	int32_t task_pid;
	int64_t owner, owner_behind; /* of addresses before and behind the first marker in it: see scan.c */
	struct page_times times;     /* of the samples that it came in */
};

/* What is to be looked for: up to CHAIN_BLOCK_WORDS of a chain. */
struct chain_part {
	const uint8_t *from; /* not aligned */
	size_t nr;
	int32_t task_pid;
	int64_t owner;
};

static inline uint64_t chain_word(const struct chain_part *part, size_t i)
{
	uint64_t word;

	memcpy(&word, part->from + i * sizeof(word), sizeof(word));
	return word;
}

struct chain_blocks {
	struct chain_block slots[NR_CHAIN_BLOCKS];
};

/* Where a block belongs. */
static inline struct chain_block *chain_block_slot(struct chain_blocks *blocks, const struct chain_part *part)
{
	const uint64_t golden_ratio = 0x9e3779b97f4a7c15; /* 2^64 divided by it */
	uint64_t mixed = part->nr;

	for (size_t i = 0; i < part->nr; i++)
		mixed = (mixed << 9 | mixed >> 55) ^ chain_word(part, i);
	return &blocks->slots[(mixed * golden_ratio >> 32) % NR_CHAIN_BLOCKS];
}

static inline bool chain_block_is(const struct chain_block *block, const struct chain_part *part)
{
	uint64_t differs = 0;

	if (block->nr != part->nr || block->task_pid != part->task_pid || block->owner != part->owner)
		return false;
	for (size_t i = 0; i < part->nr; i++)
		differs |= block->words[i] ^ chain_word(part, i);
	return !differs;
}

static inline void chain_block_extend(struct chain_block *block, uint64_t time_ns)
{
	if (time_ns < block->times.first_ns)
		block->times.first_ns = time_ns;
	if (time_ns > block->times.last_ns)
		block->times.last_ns = time_ns;
}
