/* SPDX-License-Identifier: MIT */
/*
 * elf_cfi: what a table is built from: segments and call frame information of an ELF file, which may be hostile. Read
 * into memory, never mapped: a file that is cut in that time cannot harm. Private to unwind.
 */
#pragma once

#include "unwind/table.h"

struct diag;

/* Of one file. Zeroed: nothing. */
struct elf_cfi {
	struct table_source source; /* section.arch: set by the caller */
	void *owned;                /* libelf's data; see elf_cfi_close() */
};

/*
 * fd stays the caller's. 0; -ENOEXEC: no ELF file of that arch (elf_cfi.source.section.arch); -ENOENT: it has no call
 * frame information; -EFBIG: too much; -errno of reading. elf_cfi_close() in any case.
 */
int elf_cfi_open(int fd, struct elf_cfi *elf, struct diag *reterr);
void elf_cfi_close(struct elf_cfi *elf);
void elf_cfi_release(void *owned); /* of table_new(), for `owned` */
