/* SPDX-License-Identifier: MIT */
/*
 * stack_cut: shortens user stack dumps (PERF_SAMPLE_STACK_USER) to the bytes that the kernel copied.
 *
 * In every sample the kernel reserves as many bytes as the event asks for, and then states how many of them are the
 * stack (dyn_size); the rest are old bytes of the ring. When the pool runs short of memory (--on-pressure=trim) dumps
 * are cut shorter than that, which is counted. A stack_cutter is owned by the batch_pool and used by many threads at
 * once. Source: kernel/events/core.c perf_output_sample_ustack().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct event_desc;
struct extent_stats;
struct stack_cutter;

enum { STACK_CUT_NOTHING = 1 << 16 }; /* as `most`: longer than any dump */

/* Borrows `stats`. *ret is NULL when none of the events dumps stacks. 0 or -ENOMEM. */
int stack_cutter_new(const struct event_desc *events, size_t nr_events, const struct extent_stats *stats,
		     struct stack_cutter **ret);
void stack_cutter_free(struct stack_cutter *cutter); /* NULL is fine */

/*
 * `record` is 8-aligned, and its header.size bytes are readable. Removes from the dump of a SAMPLE the bytes that are
 * not stack, and of the stack all but the `most` bytes (a multiple of 8) of the innermost calls; sets the sizes in the
 * record accordingly. Returns by how many bytes the record became shorter; 0 for records without a dump.
 */
size_t stack_cut(struct stack_cutter *cutter, uint8_t *record, uint64_t most);

/*
 * Copies the record to `to` (8-aligned) as stack_cut() would leave it, without reading the bytes that are removed.
 * Returns the length of the copy in bytes.
 */
size_t stack_cut_copy(struct stack_cutter *cutter, const uint8_t *record, uint64_t most, uint8_t *to);

/*
 * Copies a SAMPLE to `to`, with `keep` bytes of its stack: `stack` is the user_stack that sample_decode() has found in
 * it, with a pointer. Returns the length of the copy, which is not longer.
 */
size_t stack_cut_sample(const uint8_t *record, struct span stack, uint64_t keep, uint8_t *to);

/* How many stacks of an event were cut short to `most` bytes on a CPU so far (cpu -1: samples have no CPU field). */
struct stack_cut_count {
	uint32_t event;
	int32_t cpu;
	uint64_t count;
};
/* The count number `index`, from 0 on; it may be 0. false: `index` is past the last one. From any thread. */
bool stack_cut_count(const struct stack_cutter *cutter, size_t index, struct stack_cut_count *ret);
