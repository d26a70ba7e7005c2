/* SPDX-License-Identifier: MIT */
/* plt: the code of the procedure linkage table of x86. Pure. Private to elf.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Entries begin at multiples of it. */
enum { PLT_STEP_BYTES = 8 };

/* Where an entry jumps to. */
struct plt_jump {
	uint64_t slot;       /* address of the word with the address of the function; 0: not told, but */
	uint64_t relocation; /* the number of the relocation that the linker at run time is to carry out */
	uint64_t bytes;      /* that the entry has at most */
};

/* Where an entry may begin. */
struct plt_place {
	const uint8_t *code;
	size_t len;
	uint64_t address, got;
	bool is_64;
};

/*
 * Decodes an entry. `address` is that of `code`, of `len` bytes; `got` that of the global offset table, which code of
 * 32 bits has in a register. false: no entry of the linkers (GNU ld, gold, lld, mold) begins there. Source: the psABI
 * documents of i386 and x86-64; lld/ELF/Arch/X86_64.cpp of LLVM 14 for retpolines.
 */
bool plt_decode(const struct plt_place *place, struct plt_jump *ret);
