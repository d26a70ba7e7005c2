/* SPDX-License-Identifier: MIT */
/*
 * unwind_registers: which sampled register is which for the unwind tables, of the recorded machine, which may not be
 * this one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sample;

enum { UNWIND_REGISTERS_MAX = 32 };

struct unwind_registers {
	const char *arch; /* as uname -m calls it */
	unsigned nr;      /* of DWARF's registers that are set before the first step */
	uint8_t sampled[UNWIND_REGISTERS_MAX]; /* the sampled register that is DWARF's register i */
	bool rows;           /* there are cfi_rows for it */
	unsigned lr, sp, ip; /* among the sampled ones, in this order; lr 0: return addresses are on the stack only */
};

/* NULL as arch: this machine's. NULL: it is not known how to unwind there. */
const struct unwind_registers *unwind_registers_of(const char *arch);

/* A sampled register, by its number there. false: it was not sampled. */
bool unwind_register(const struct sample *sample, unsigned nr, uint64_t *ret);
