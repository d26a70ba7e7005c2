/* SPDX-License-Identifier: MIT */
/* frame: what is known of one frame of a chain, and expressions over it. Private to unwind. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/span.h"
#include "unwind/arch.h"
#include "unwind/unwind.h"

struct frame {
	const uint8_t *stack; /* the copy */
	uint64_t stack_start, stack_bytes;
	uint64_t pc;
	uint64_t low;       /* the CFA is above: the CFA of the frame before, or the stack pointer */
	uint64_t cfa;       /* 0: not known */
	uint64_t led_by_fp; /* the CFA of the last frame whose caller was found by its frame pointer; 0: none */
	uint64_t known;     /* registers, as bits */
	uint64_t registers[UNWIND_REGISTERS];
	uint64_t missing;        /* where the return address is, if it was not copied; 0: that is not known */
	uint64_t switched_fp[2]; /* behind a switch of stacks: what the caller's frame pointer may be; 0: not known */
	bool joined;             /* what was between two frames is on another stack, and left out */
	bool exact;              /* pc is where it was interrupted, not where a call comes back to */
	bool cut;                /* a register is lost because its part of the stack was not copied */
	bool elsewhere;          /* it is on another stack than the one that was copied */
};

static inline bool frame_register(const struct frame *frame, uint64_t nr, uint64_t *ret)
{
	if (nr >= UNWIND_REGISTERS || !(frame->known >> nr & 1))
		return false;
	*ret = frame->registers[nr];
	return true;
}

/* Eight bytes of the stack. */
static inline bool frame_load(const struct frame *frame, uint64_t address, uint64_t *ret)
{
	uint64_t offset = address - frame->stack_start, end;

	if (__builtin_add_overflow(offset, sizeof(*ret), &end) || end > frame->stack_bytes)
		return false;
	memcpy(ret, frame->stack + offset, sizeof(*ret));
	return true;
}

/* Whether an address that could not be read may be on this stack, above what was copied. */
static inline bool frame_is_cut(const struct frame *frame, uint64_t address)
{
	enum { STACK_MAX_BYTES = 64 << 20 }; /* 8 MB is the usual limit; of threads of some runtimes more */

	return address >= frame->stack_start && address - frame->stack_start <= STACK_MAX_BYTES;
}

/*
 * Computes a DWARF expression. cfa: pushed first; NULL: nothing is. false: it needs what is not known, or is none; then
 * *ret_cut says whether it needed a part of the stack that was not copied, else it is untouched. Bounded time.
 */
bool frame_compute(const struct frame *frame, struct span expression, const uint64_t *cfa, uint64_t *ret,
		   bool *ret_cut);
