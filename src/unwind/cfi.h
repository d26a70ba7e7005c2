/* SPDX-License-Identifier: MIT */
/*
 * cfi: reads a section of call frame information and carries out its instructions. The bytes may be hostile: time is
 * linear in their number, and nothing is allocated. Private to unwind.
 * Source: DWARF 5, 6.4; Linux Standard Base, "Exception Frames".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "unwind/arch.h"

enum {
	CFI_SECTION_MAX_BYTES = 128 << 20,
	CFI_REMEMBERED = 8, /* states that DW_CFA_remember_state may have waiting; compilers use one */
	CFI_CIE_CACHE = 64, /* a power of two */
	CFI_CIE_MAX_BYTES = 512,
};

/* How the caller's value of a register is found. */
enum cfi_how {
	CFI_SAME,             /* unchanged */
	CFI_LOST,             /* unknown; of the return address: there is no caller */
	CFI_STORED,           /* stored at CFA + value */
	CFI_VALUE,            /* CFA + value */
	CFI_REGISTER,         /* in the register `value` */
	CFI_EXPRESSION,       /* stored where the expression says; value: see cfi_expression() */
	CFI_VALUE_EXPRESSION, /* what the expression computes */
};

struct cfi_register {
	uint8_t how; /* enum cfi_how */
	int32_t value;
};

/* The rules at an address. */
struct cfi_state {
	bool cfa_is_expression;
	uint8_t cfa_register;  /* UINT8_MAX: there is no rule */
	int32_t cfa_value;     /* register + it, or an expression */
	uint32_t lost, stored; /* as bits: registers that are CFI_LOST, that are CFI_STORED */
	struct cfi_register registers[UNWIND_REGISTERS];
};

struct cfi_section {
	struct span bytes;
	uint64_t address; /* of the first byte, as p_vaddr */
	bool is_eh_frame; /* false: .debug_frame */
	const struct unwind_arch *arch;
};

/* A common information entry, decoded. */
struct cfi_cie {
	uint32_t offset; /* in the section, + 1; 0: none */
	bool valid;
	uint8_t encoding; /* DW_EH_PE_* of addresses */
	bool has_augmentation, is_signal;
	uint64_t code_align;
	int64_t data_align;
	struct cfi_state state; /* in which every function begins */
};

/* A frame description entry. */
struct cfi_fde {
	uint64_t start, end;   /* addresses; end exclusive */
	uint32_t entry, cie;   /* offsets in the section: its own, of its CIE */
	uint32_t at, nr_bytes; /* of instructions, in the section */
};

/* Zeroed but for `section`. Large: on the heap. */
struct cfi_reader {
	struct cfi_section section;
	size_t at;          /* the next entry */
	uint64_t cie_bytes; /* decoded so far */
	bool broken; /* an entry had a length that cannot be, or too much was asked for: what follows is not read */
	uint64_t nr_skipped; /* entries that could not be understood */
	struct cfi_cie cies[CFI_CIE_CACHE];
};

/* The next entry of a function. false: there are no more. */
bool cfi_next_fde(struct cfi_reader *reader, struct cfi_fde *ret);

/* The entry at an offset that cfi_next_fde() has returned as ret->entry. false: it cannot be understood. */
bool cfi_fde_at(struct cfi_reader *reader, uint32_t entry, struct cfi_fde *ret);

/* The rows of one function. */
struct cfi_run {
	const struct cfi_cie *cie;
	const uint8_t *at, *end;
	uint64_t start, next, limit; /* addresses of the current row: from start to next; of the function's end */
	struct cfi_state state;      /* of the current row */
	bool bad; /* an instruction that is unknown or breaks off: there are no rows from `start` on */
	unsigned nr_remembered;
	struct cfi_state remembered[CFI_REMEMBERED];
	const struct cfi_section *section;
};

void cfi_run_begin(struct cfi_run *run, struct cfi_reader *reader, const struct cfi_fde *fde);

/* The next row of at least one byte, in ascending order. false: there are no more, or `bad`. */
bool cfi_run_next(struct cfi_run *run);

/* The operations of an expression. */
struct span cfi_expression(const struct cfi_section *section, int32_t value);
