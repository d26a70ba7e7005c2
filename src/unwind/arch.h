/* SPDX-License-Identifier: MIT */
/*
 * arch: the registers of an architecture: DWARF's numbers of them, which of them are sampled, and which of them
 * functions keep for their callers. Private to unwind. Constant.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	UNWIND_REGISTERS = 33, /* DWARF registers of a frame that are followed, at most */
	UNWIND_SLOTS = 12,     /* of those, what a struct unwind_rule has an offset for, at most; */
	SLOT_OF_FP = 1,        /* that of the frame pointer */
};

struct unwind_arch {
	const char *name; /* as uname -m says it */
	uint16_t elf_machine;
	uint8_t nr;         /* DWARF registers 0 to nr - 1 are followed */
	uint8_t ra, sp, fp; /* DWARF numbers. Frame record: at fp the caller's fp, 8 bytes above the return address */
	uint8_t nr_slots, slots[UNWIND_SLOTS]; /* DWARF numbers: what code saves: the return address, fp, others */
	uint64_t kept;                         /* registers that a caller finds unchanged unless CFI says otherwise */
	uint64_t address_bits;                 /* of a return address; others may be a signature */
	uint8_t call_bytes;                    /* on the stack, when a function begins */
	/*
	 * Where a signal handler returns to: how far above the stack pointer the kernel has stored the registers, and
	 * which of those words are the DWARF registers and the pc. Where that code has no CFI it is known by what the
	 * kernel has stored, or by its bytes: RULE_TRAMPOLINE.
	 */
	uint16_t signal_registers;
	uint8_t signal_words[UNWIND_REGISTERS], signal_pc;
	bool has_signal_record;                     /* what the kernel stores ends with a frame record */
	uint8_t nr_sampled;                         /* DWARF registers 0 to nr_sampled - 1 are sampled */
	uint8_t sampled[UNWIND_REGISTERS];          /* under which number of <asm/perf_regs.h> */
	uint8_t sampled_pc, sampled_sp, sampled_lr; /* likewise; lr 0: return addresses are on the stack only */
};

/* NULL: it is not known how to unwind there. arch NULL: this machine's. */
const struct unwind_arch *unwind_arch_of(const char *arch);
