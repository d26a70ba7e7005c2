/* SPDX-License-Identifier: MIT */
/*
 * elf_file: opens ELF files of others with libelf, which allocates memory for as many sections as a file says it has: a
 * sparse file of a few bytes on disk can say that it has 4 billion.
 */
#pragma once

#include <libelf.h>

enum { ELF_FILE_MOST_HEADERS = 1 << 16 }; /* sections, and as many segments */

/*
 * elf_begin(3) for reading, of either class and byte order. fd stays the caller's; elf_end() frees what is returned.
 * NULL: no ELF file, or one with more headers than that.
 */
Elf *elf_file_begin(int fd);
