/* SPDX-License-Identifier: MIT */
#include "sysinfo/elf_file.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static bool read_at(int fd, uint64_t offset, void *to, size_t len)
{
	return offset <= INT64_MAX && pread(fd, to, len, (off_t)offset) == (ssize_t)len;
}

/* From the byte order of the file to that of this machine, in place. */
static bool convert(const unsigned char *ident, Elf_Type type, void *bytes, size_t len)
{
	Elf_Data data = {.d_buf = bytes, .d_type = type, .d_version = EV_CURRENT, .d_size = len};

	return ident[EI_CLASS] == ELFCLASS64 ? elf64_xlatetom(&data, &data, ident[EI_DATA])
					     : elf32_xlatetom(&data, &data, ident[EI_DATA]);
}

/* Numbers that are too large for the file's header stand in that of the first section. Source: elf(5). */
static bool are_few(uint64_t nr_sections, uint64_t nr_segments, uint64_t first_size, uint64_t first_info)
{
	return (nr_sections ? nr_sections : first_size) <= ELF_FILE_MOST_HEADERS &&
	       (nr_segments == PN_XNUM ? first_info : nr_segments) <= ELF_FILE_MOST_HEADERS;
}

static bool has_few_headers_64(int fd, const unsigned char *ident)
{
	Elf64_Ehdr file;
	Elf64_Shdr first = {0};

	if (!read_at(fd, 0, &file, sizeof(file)) || !convert(ident, ELF_T_EHDR, &file, sizeof(file)))
		return false;
	if (file.e_shoff && read_at(fd, file.e_shoff, &first, sizeof(first)) &&
	    !convert(ident, ELF_T_SHDR, &first, sizeof(first)))
		return false;
	return are_few(file.e_shnum, file.e_phnum, first.sh_size, first.sh_info);
}

static bool has_few_headers_32(int fd, const unsigned char *ident)
{
	Elf32_Ehdr file;
	Elf32_Shdr first = {0};

	if (!read_at(fd, 0, &file, sizeof(file)) || !convert(ident, ELF_T_EHDR, &file, sizeof(file)))
		return false;
	if (file.e_shoff && read_at(fd, file.e_shoff, &first, sizeof(first)) &&
	    !convert(ident, ELF_T_SHDR, &first, sizeof(first)))
		return false;
	return are_few(file.e_shnum, file.e_phnum, first.sh_size, first.sh_info);
}

Elf *elf_file_begin(int fd)
{
	unsigned char ident[EI_NIDENT];

	elf_version(EV_CURRENT);
	if (!read_at(fd, 0, ident, sizeof(ident)) || memcmp(ident, ELFMAG, SELFMAG))
		return NULL;
	if (ident[EI_CLASS] != ELFCLASS32 && ident[EI_CLASS] != ELFCLASS64)
		return NULL;
	bool few = ident[EI_CLASS] == ELFCLASS64 ? has_few_headers_64(fd, ident) : has_few_headers_32(fd, ident);
	return few ? elf_begin(fd, ELF_C_READ, NULL) : NULL;
}
