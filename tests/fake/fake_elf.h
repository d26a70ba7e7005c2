/* SPDX-License-Identifier: MIT */
/* fake_elf: a small ELF file in memory, with code that does not matter and an .eh_frame made by the caller. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
	FAKE_ELF_CODE = 0x1000,  /* file offset of the executable segment */
	FAKE_ELF_SHIFT = 0x7000, /* p_vaddr - p_offset of it */
	FAKE_ELF_CODE_BYTES = 0x1000,
	FAKE_ELF_EH_FRAME = 0x108, /* file offset, = p_vaddr */
	FAKE_ELF_BYTES = 0x2000,
};

struct fake_elf {
	uint8_t bytes[FAKE_ELF_BYTES];
	size_t at;  /* end of .eh_frame so far */
	size_t cie; /* where the last CIE is */
	uint8_t ra; /* column of the return address */
};

/* machine: EM_X86_64 or EM_AARCH64. */
void fake_elf_init(struct fake_elf *elf, uint16_t machine);

/* Code alignment 1, data alignment -8. augmentation: "zR", with S: of signal frames. */
void fake_elf_cie(struct fake_elf *elf, const char *augmentation, const void *instructions, size_t len);

/* Of the code at that offset of the segment, by the last CIE. Returns where it is in `bytes`. */
size_t fake_elf_fde(struct fake_elf *elf, uint32_t code, uint32_t bytes, const void *instructions, size_t len);

/* As a file without a name. */
int fake_elf_open(const struct fake_elf *elf);
