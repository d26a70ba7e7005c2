/* SPDX-License-Identifier: MIT */
/*
 * elf_file: opens ELF files of others with libelf, which allocates memory for as many sections as a file says it has,
 * and of the size it says: a sparse file of a few bytes on disk can say that it has 4 billion.
 */
#pragma once

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ELF_FILE_MOST_HEADERS = 1 << 16,       /* sections, and as many segments */
	ELF_FILE_MOST_SECTION_BYTES = 1 << 30, /* that libelf reads at once */
};

/*
 * elf_begin(3) for reading, of either class and byte order. fd stays the caller's; elf_end() frees what is returned.
 * NULL: no ELF file, or one with more headers than that.
 */
Elf *elf_file_begin(int fd);

/* An ELF file that elf_file_begin() does not open, for who lets another library open it. false also for other files. */
bool elf_file_is_refused(int fd);

/*
 * As elf_getdata(3), elf_rawdata(3) and elf_getshdrstrndx(3), but not of sections of more than
 * ELF_FILE_MOST_SECTION_BYTES, which libelf would read into memory: a hole in a file costs nothing. elf_file_texts():
 * elf_strptr(3) may be called for that section.
 */
Elf_Data *elf_file_data(Elf_Scn *section);
Elf_Data *elf_file_raw_data(Elf_Scn *section);
bool elf_file_texts(Elf *elf, size_t section);
int elf_file_names(Elf *elf, size_t *ret);

/* The first section of that name, and its header; NULL: there is none. */
Elf_Scn *elf_file_section(Elf *elf, const char *name, GElf_Shdr *ret);

enum { ELF_TRAMPOLINE_BYTES = 9 };

/*
 * Where in the file the code is to which signal handlers return on x86-64: musl has neither a symbol nor call frame
 * information of it, and a name and a rule of the code before it would be wrong. The file is read up to there. Looked
 * for only in what needs no other file: a libc, or a program that was linked statically. false: there is none.
 */
bool elf_file_trampoline(Elf *elf, int fd, uint64_t *ret_offset);
