/* SPDX-License-Identifier: MIT */
/*
 * stack_cut: user stack dumps (PERF_SAMPLE_STACK_USER) as short as what is in them.
 *
 * The kernel reserves as much as the event asks for in every sample and then tells how much of it is the stack
 * (dyn_size); behind that stands whatever the ring held before. When memory runs short, dumps are cut shorter than
 * that, and counted. Owned by the pool; used by many threads at once. Source: kernel/events/core.c
 * perf_output_sample_ustack().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_desc;
struct extent_stats;
struct stack_cutter;

enum { STACK_CUT_NOTHING = 1 << 16 }; /* no dump is as long */

/* Borrows `stats`. *ret is NULL when none of the events dumps stacks. 0 or -ENOMEM. */
int stack_cutter_new(const struct event_desc *events, size_t nr_events, const struct extent_stats *stats,
		     struct stack_cutter **ret);
void stack_cutter_free(struct stack_cutter *cutter); /* NULL is fine */

/*
 * `record` is 8-aligned, and its header.size bytes are there. Takes out of the dump of a SAMPLE what is not stack, and
 * changes the sizes in the record to that; of the stack not more than `most` bytes (a multiple of 8) stay, those of the
 * innermost calls. Returns by how many bytes the record is shorter now: 0 for all others.
 */
size_t stack_cut(struct stack_cutter *cutter, uint8_t *record, uint64_t most);

/*
 * Copies the record to `to`, 8-aligned, as stack_cut() would leave it, and hardly touches what goes. Returns the bytes
 * of the copy.
 */
size_t stack_cut_copy(struct stack_cutter *cutter, const uint8_t *record, uint64_t most, uint8_t *to);

/* So many stacks of an event were cut short on a CPU (-1: the samples do not say where), so far. */
struct stack_cut_count {
	uint32_t event;
	int32_t cpu;
	uint64_t count;
};
/* One after the other from 0 on, also those of which there are none. false: there are no more. From any thread. */
bool stack_cut_count(const struct stack_cutter *cutter, size_t index, struct stack_cut_count *ret);
