/* SPDX-License-Identifier: MIT */
/*
 * stack_cut: user stack dumps (PERF_SAMPLE_STACK_USER) as short as what is in them.
 *
 * The kernel reserves as much as the event asks for in every sample and then tells how much of it is the stack
 * (dyn_size); behind that stands whatever the ring held before. Owned by the pool; used by many threads at once.
 * Source: kernel/events/core.c perf_output_sample_ustack().
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct event_desc;
struct measure;
struct stack_cutter;

/* Borrows `measure`. *ret is NULL when none of the events dumps stacks. 0 or -ENOMEM. */
int stack_cutter_new(const struct event_desc *events, size_t nr_events, const struct measure *measure,
		     struct stack_cutter **ret);
void stack_cutter_free(struct stack_cutter *cutter); /* NULL is fine */

/*
 * `record` is 8-aligned, and its header.size bytes are there. Takes out of the dump of a SAMPLE what is not stack, and
 * changes the sizes in the record to that. Returns by how many bytes the record is shorter now: 0 for all others.
 */
size_t stack_cut(const struct stack_cutter *cutter, uint8_t *record);
