/* SPDX-License-Identifier: MIT */
/*
 * unwind_steps: call chains of x86_64 from sampled stacks by cfi_rows, in the same frames as libdwfl. Objects and their
 * rows are kept, whichever process has them mapped. One owner, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct maps;
struct sample;
struct unwind_registers;
struct unwind_steps;

/* symfs is borrowed. NULL: out of memory. */
struct unwind_steps *unwind_steps_new(const char *symfs);
void unwind_steps_free(struct unwind_steps *steps); /* NULL is fine */

/* What was found; at most `max`. */
struct unwind_chain {
	uint64_t *ips;
	unsigned nr, max;
};

/*
 * As unwind_sample(), of a sample that has registers and stack. false: some step needs more than the rows say, and
 * what is in the chain is worth nothing.
 */
bool unwind_steps(struct unwind_steps *steps, const struct unwind_registers *registers, struct maps *maps,
		  const struct sample *sample, struct unwind_chain *chain);
