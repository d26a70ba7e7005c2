/* SPDX-License-Identifier: MIT */
#include "sysinfo/elf_file.h"

#include <elf.h>
#include <gelf.h>
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

static bool is_elf(int fd, unsigned char ret_ident[EI_NIDENT])
{
	return read_at(fd, 0, ret_ident, EI_NIDENT) && memcmp(ret_ident, ELFMAG, SELFMAG) == 0;
}

static bool is_usable(int fd, const unsigned char *ident)
{
	elf_version(EV_CURRENT);
	switch (ident[EI_CLASS]) {
	case ELFCLASS32: return has_few_headers_32(fd, ident);
	case ELFCLASS64: return has_few_headers_64(fd, ident);
	default: return false;
	}
}

Elf *elf_file_begin(int fd)
{
	unsigned char ident[EI_NIDENT];

	return is_elf(fd, ident) && is_usable(fd, ident) ? elf_begin(fd, ELF_C_READ, NULL) : NULL;
}

bool elf_file_is_refused(int fd)
{
	unsigned char ident[EI_NIDENT];

	return is_elf(fd, ident) && !is_usable(fd, ident);
}

/* Also when it is unpacked, as elf_strptr(3) does. gelf_getchdr(3) reads the whole section, which is small then. */
static bool is_small(Elf_Scn *section)
{
	GElf_Shdr header;
	GElf_Chdr unpacked;

	if (!section || !gelf_getshdr(section, &header))
		return false;
	if (header.sh_type == SHT_NOBITS)
		return true;
	if (header.sh_size > ELF_FILE_MOST_SECTION_BYTES)
		return false;
	return !(header.sh_flags & SHF_COMPRESSED) ||
	       (gelf_getchdr(section, &unpacked) && unpacked.ch_size <= ELF_FILE_MOST_SECTION_BYTES);
}

Elf_Data *elf_file_data(Elf_Scn *section)
{
	return is_small(section) ? elf_getdata(section, NULL) : NULL;
}

Elf_Data *elf_file_raw_data(Elf_Scn *section)
{
	return is_small(section) ? elf_rawdata(section, NULL) : NULL;
}

bool elf_file_texts(Elf *elf, size_t section)
{
	return is_small(elf_getscn(elf, section));
}

int elf_file_names(Elf *elf, size_t *ret)
{
	return elf_getshdrstrndx(elf, ret) || !elf_file_texts(elf, *ret) ? -1 : 0;
}

Elf_Scn *elf_file_section(Elf *elf, const char *name, GElf_Shdr *ret)
{
	Elf_Scn *section = NULL;
	size_t names;

	if (elf_file_names(elf, &names))
		return NULL;
	while ((section = elf_nextscn(elf, section))) {
		const char *its = gelf_getshdr(section, ret) ? elf_strptr(elf, names, ret->sh_name) : NULL;
		if (its && strcmp(its, name) == 0)
			return section;
	}
	return NULL;
}

/* ---- what signal handlers return to ---- */

/* mov $15 (rt_sigreturn), %rax; syscall. */
static const uint8_t trampoline[ELF_TRAMPOLINE_BYTES] = {0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05};

static bool names_needed_file(Elf *elf, const GElf_Phdr *dynamic)
{
	enum { MOST_BYTES = 1 << 16 };
	Elf64_Dyn entry;

	if (dynamic->p_filesz > MOST_BYTES || dynamic->p_offset > INT64_MAX)
		return true;
	const Elf_Data *data = elf_getdata_rawchunk(elf, (int64_t)dynamic->p_offset, dynamic->p_filesz, ELF_T_BYTE);
	for (size_t at = 0; data && data->d_buf && data->d_size - at >= sizeof(entry); at += sizeof(entry)) {
		memcpy(&entry, (const uint8_t *)data->d_buf + at, sizeof(entry));
		if (entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag == DT_NEEDED)
			return true;
	}
	return false;
}

static bool needs_others(Elf *elf, size_t nr_segments)
{
	GElf_Phdr header;

	for (size_t i = 0; i < nr_segments; i++)
		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type == PT_INTERP ||
		    (header.p_type == PT_DYNAMIC && names_needed_file(elf, &header)))
			return true;
	return false;
}

/*
 * The first place among those bytes, or NULL. By its last byte, which is rare in code, so that most of it is passed in
 * vectors: memmem() takes five times as long.
 */
static const uint8_t *find_trampoline(const uint8_t *bytes, size_t len)
{
	enum { BEFORE = sizeof(trampoline) - 1 };
	const uint8_t *at = bytes + (len < BEFORE ? len : BEFORE), *end = bytes + len;

	while (at < end && (at = memchr(at, trampoline[BEFORE], (size_t)(end - at)))) {
		if (!memcmp(at - BEFORE, trampoline, BEFORE))
			return at - BEFORE;
		at++;
	}
	return NULL;
}

/* The first place among those bytes of the file. */
static bool find_code(int fd, uint64_t at, uint64_t bytes, uint64_t *ret_offset)
{
	uint8_t buf[1 << 16];
	size_t kept = 0; /* of the bytes before `at`, with which it may begin */

	while (bytes) {
		size_t want = bytes < sizeof(buf) - kept ? (size_t)bytes : sizeof(buf) - kept;
		const ssize_t got = pread(fd, buf + kept, want, (off_t)at);
		if (got <= 0)
			return false;
		at += (uint64_t)got;
		bytes -= (uint64_t)got;
		const size_t len = kept + (size_t)got;
		const uint8_t *found = find_trampoline(buf, len);
		if (found) {
			*ret_offset = at - (uint64_t)(buf + len - found);
			return true;
		}
		kept = len < sizeof(trampoline) ? len : sizeof(trampoline) - 1;
		memmove(buf, buf + len - kept, kept);
	}
	return false;
}

bool elf_file_trampoline(Elf *elf, int fd, uint64_t *ret_offset)
{
	GElf_Ehdr file;
	GElf_Phdr load;
	size_t nr;

	if (!gelf_getehdr(elf, &file) || file.e_machine != EM_X86_64 || file.e_ident[EI_CLASS] != ELFCLASS64 ||
	    elf_getphdrnum(elf, &nr) || needs_others(elf, nr))
		return false;
	for (size_t i = 0; i < nr; i++)
		if (gelf_getphdr(elf, (int)i, &load) && load.p_type == PT_LOAD && load.p_flags & PF_X &&
		    find_code(fd, load.p_offset, load.p_filesz, ret_offset))
			return true;
	return false;
}
