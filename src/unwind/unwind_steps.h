/* SPDX-License-Identifier: MIT */
/*
 * unwind_steps: call chains from sampled stacks by cfi_rows, in the same frames as libdwfl; and which sampled register
 * is which for the unwind tables, of the recorded machine, which may not be this one. Private to unwind. One owner, one
 * thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct maps;
struct sample;
struct unwind_steps;

enum { UNWIND_REGISTERS_MAX = 32 };

struct unwind_registers {
	const char *arch;                      /* as uname -m calls it */
	unsigned nr;                           /* of DWARF's registers that are set before the first step */
	uint8_t sampled[UNWIND_REGISTERS_MAX]; /* the sampled register that is DWARF's register i */
	bool rows;                             /* cfi_rows can be read for it */
	unsigned lr, sp, ip; /* among the sampled ones, in this order; lr 0: return addresses are on the stack only */
};

/* NULL as arch: this machine's. NULL: it is not known how to unwind there. */
const struct unwind_registers *unwind_registers_of(const char *arch);

/* A sampled register, by its number there. false: it was not sampled. */
bool unwind_register(const struct sample *sample, unsigned nr, uint64_t *ret);

/* Objects and their rows are kept, whichever process has them mapped. open, ctx: as in struct unwind_objects. NULL: out
 * of memory. */
struct unwind_steps *unwind_steps_new(int (*open)(void *object, void *ctx), void *ctx);
void unwind_steps_free(struct unwind_steps *steps); /* NULL is fine */

struct steps_chain {
	uint64_t *ips;
	unsigned nr, max;
};

/*
 * As unwind_sample(), of a sample that has registers and stack. false: some step needs more than the rows have; the
 * chain is not to be used.
 */
bool unwind_steps(struct unwind_steps *steps, const struct unwind_registers *registers, struct maps *maps,
		  const struct sample *sample, struct steps_chain *chain);
