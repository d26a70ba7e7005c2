/* SPDX-License-Identifier: MIT */
/* ELF files of both classes and byte orders, with as many headers as are allowed, and with more. */
#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyze/dwarf/dwarf.h"
#include "analyze/symbols/elf.h"
#include "sysinfo/elf_file.h"
#include "sysinfo/elf_note.h"

enum { SECTIONS_AT = 0x1000, FILE_BYTES = 64 << 20 /* of which most are a hole: all headers could be there */ };

static int new_file(const void *bytes, size_t len)
{
	int fd = memfd_create("elf", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, len, 0), len);
	assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
	return fd;
}

#define OF_FILE(big, bits, value) ((big) ? htobe##bits(value) : htole##bits(value))

/* What the header of the first section says is what counts for those numbers of the file's header. */
static int make(bool wide, bool big, uint16_t nr_sections, uint32_t first_size, uint16_t nr_segments,
		uint32_t first_info)
{
	Elf64_Ehdr file_64 = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64}};
	Elf32_Ehdr file_32 = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS32}};
	const Elf64_Shdr first_64 = {.sh_size = OF_FILE(big, 64, first_size), .sh_info = OF_FILE(big, 32, first_info)};
	const Elf32_Shdr first_32 = {.sh_size = OF_FILE(big, 32, first_size), .sh_info = OF_FILE(big, 32, first_info)};

	file_64.e_ident[EI_DATA] = file_32.e_ident[EI_DATA] = big ? ELFDATA2MSB : ELFDATA2LSB;
	file_64.e_ident[EI_VERSION] = file_32.e_ident[EI_VERSION] = EV_CURRENT;
	file_64.e_version = file_32.e_version = OF_FILE(big, 32, EV_CURRENT);
	file_64.e_shoff = OF_FILE(big, 64, SECTIONS_AT);
	file_32.e_shoff = OF_FILE(big, 32, SECTIONS_AT);
	file_64.e_shentsize = OF_FILE(big, 16, sizeof(first_64));
	file_32.e_shentsize = OF_FILE(big, 16, sizeof(first_32));
	file_64.e_shnum = file_32.e_shnum = OF_FILE(big, 16, nr_sections);
	file_64.e_phnum = file_32.e_phnum = OF_FILE(big, 16, nr_segments);
	int fd = wide ? new_file(&file_64, sizeof(file_64)) : new_file(&file_32, sizeof(file_32));
	ssize_t put = wide ? pwrite(fd, &first_64, sizeof(first_64), SECTIONS_AT)
			   : pwrite(fd, &first_32, sizeof(first_32), SECTIONS_AT);
	assert_true(put > 0);
	return fd;
}

/* Returns the number of sections that libelf sees; -1: the file is not opened. */
static long count_sections(int fd)
{
	Elf *elf = elf_file_begin(fd);
	size_t nr = 0;

	if (elf)
		assert_int_equal(elf_getshdrnum(elf, &nr), 0);
	elf_end(elf);
	close(fd);
	return elf ? (long)nr : -1;
}

static void test_numbers_of_headers(void **state)
{
	(void)state;
	for (unsigned form = 0; form < 4; form++) {
		const bool wide = form & 1, big = form & 2;
		assert_int_equal(count_sections(make(wide, big, 3, 0, 2, 0)), 3);
		assert_int_equal(count_sections(make(wide, big, 0, ELF_FILE_MOST_HEADERS, 2, 0)),
				 ELF_FILE_MOST_HEADERS);
		assert_int_equal(count_sections(make(wide, big, 0, ELF_FILE_MOST_HEADERS + 1, 2, 0)), -1);
		assert_int_equal(count_sections(make(wide, big, 0, UINT32_MAX, 2, 0)), -1);
		assert_int_equal(count_sections(make(wide, big, 3, UINT32_MAX, 2, UINT32_MAX)), 3);
		assert_int_equal(count_sections(make(wide, big, 3, 0, PN_XNUM, ELF_FILE_MOST_HEADERS)), 3);
		assert_int_equal(count_sections(make(wide, big, 3, 0, PN_XNUM, ELF_FILE_MOST_HEADERS + 1)), -1);
	}
}

static void test_no_elf_file(void **state)
{
	static const char archive[] = "!<arch>\n";
	const unsigned char odd_class[EI_NIDENT] = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, 7};
	Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT}};

	(void)state;
	assert_null(elf_file_begin(-1));
	assert_int_equal(count_sections(new_file(archive, sizeof(archive))), -1);
	assert_int_equal(count_sections(new_file(odd_class, sizeof(odd_class))), -1);
	for (size_t len = 0; len <= sizeof(header); len++) {
		int fd = new_file(&header, sizeof(header));
		assert_int_equal(ftruncate(fd, (off_t)len), 0);
		assert_int_equal(count_sections(fd), len < sizeof(header) ? -1 : 0);
	}
}

static const uint8_t trampoline[ELF_TRAMPOLINE_BYTES] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};

/* Code at SECTIONS_AT that has it at `at`, in a file whose second segment is such. 0: it is not found. */
static uint64_t find_trampoline(uint64_t at, uint64_t code_bytes, uint16_t machine, uint32_t type, uint64_t tag)
{
	enum { DYNAMIC_AT = 0x800 };
	const Elf64_Dyn entries[] = {{.d_tag = DT_SONAME}, {.d_tag = (Elf64_Sxword)tag}, {.d_tag = DT_NULL}};
	const struct {
		Elf64_Ehdr file;
		Elf64_Phdr segments[2];
	} headers = {
		.file = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
				     __BYTE_ORDER == __LITTLE_ENDIAN ? ELFDATA2LSB : ELFDATA2MSB, EV_CURRENT},
			 .e_machine = machine,
			 .e_version = EV_CURRENT,
			 .e_phoff = sizeof(headers.file),
			 .e_phentsize = sizeof(headers.segments[0]),
			 .e_phnum = 2},
		.segments =
			{{.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = SECTIONS_AT, .p_filesz = code_bytes},
			 {.p_type = type, .p_offset = DYNAMIC_AT, .p_filesz = sizeof(entries)}},
	};
	uint64_t offset = 0;
	int fd = new_file(&headers, sizeof(headers));

	assert_int_equal(pwrite(fd, entries, sizeof(entries), DYNAMIC_AT), sizeof(entries));
	for (uint64_t i = 0; i + 3 < at; i += 1 + i % 50) /* its end, elsewhere */
		assert_int_equal(pwrite(fd, trampoline + 6, 3, SECTIONS_AT + (off_t)i), 3);
	assert_int_equal(pwrite(fd, trampoline, sizeof(trampoline), SECTIONS_AT + (off_t)at), sizeof(trampoline));
	Elf *elf = elf_file_begin(fd);
	assert_non_null(elf);
	const bool found = elf_file_trampoline(elf, fd, &offset);
	assert_int_equal(found, offset != 0);
	elf_end(elf);
	close(fd);
	return offset;
}

static void test_trampoline(void **state)
{
	static const uint64_t places[] = {0, 1, 0xfff0, 0xfff7, 0xfff8, 0xffff, 0x10000, 0x1fff0, 0x20000, 0x54321};

	(void)state;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const uint64_t at = places[i], end = at + sizeof(trampoline);
		assert_int_equal(find_trampoline(at, end, EM_X86_64, PT_DYNAMIC, DT_SYMTAB), SECTIONS_AT + at);
		assert_int_equal(find_trampoline(at, end + 12345, EM_X86_64, PT_NOTE, DT_NEEDED), SECTIONS_AT + at);
		assert_int_equal(find_trampoline(at, end - 1, EM_X86_64, PT_NOTE, 0), 0);
	}
	/* Of another machine; of what needs a libc. */
	assert_int_equal(find_trampoline(0, 99, EM_AARCH64, PT_NOTE, 0), 0);
	assert_int_equal(find_trampoline(0, 99, EM_X86_64, PT_INTERP, 0), 0);
	assert_int_equal(find_trampoline(0, 99, EM_X86_64, PT_DYNAMIC, DT_NEEDED), 0);
}

/* The build-id behind so many segments of notes, each of a MB, that hold none. */
static int find_behind(unsigned nr_others, uint8_t ret[ELF_NOTE_BUILD_ID_MAX])
{
	enum { NOTES_BYTES = 1 << 20, MOST = 32, ID_AT = 0x800 };
	static const uint8_t id[] = {4, 0, 0, 0, 4, 0, 0, 0, NT_GNU_BUILD_ID, 0, 0, 0, 'G', 'N', 'U', 0, 1, 2, 3, 4};
	struct {
		Elf64_Ehdr file;
		Elf64_Phdr segments[MOST];
	} headers = {.file = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
					  __BYTE_ORDER == __LITTLE_ENDIAN ? ELFDATA2LSB : ELFDATA2MSB, EV_CURRENT},
			      .e_version = EV_CURRENT,
			      .e_phoff = sizeof(headers.file),
			      .e_phentsize = sizeof(headers.segments[0]),
			      .e_phnum = (uint16_t)(nr_others + 1)}};

	for (unsigned i = 0; i < nr_others; i++)
		headers.segments[i] = (Elf64_Phdr){
			.p_type = PT_NOTE, .p_offset = SECTIONS_AT + 4 * (uint64_t)i, .p_filesz = NOTES_BYTES};
	headers.segments[nr_others] = (Elf64_Phdr){.p_type = PT_NOTE, .p_offset = ID_AT, .p_filesz = sizeof(id)};
	int fd = new_file(&headers, sizeof(headers));
	assert_int_equal(pwrite(fd, id, sizeof(id), ID_AT), sizeof(id));
	int len = elf_note_of_fd(fd, ret);
	close(fd);
	return len;
}

/* Not all of a file is read, however many notes it has. */
static void test_many_notes(void **state)
{
	uint8_t id[ELF_NOTE_BUILD_ID_MAX];

	(void)state;
	assert_int_equal(find_behind(0, id), 4);
	assert_int_equal(find_behind(15, id), 4);
	assert_memory_equal(id, "\1\2\3\4", 4);
	assert_int_equal(find_behind(16, id), -ENOENT);
	assert_int_equal(find_behind(31, id), -ENOENT);
}

/* Its callers refuse what it refuses. */
static void test_build_ids_of_refused_files(void **state)
{
	uint8_t id[ELF_NOTE_BUILD_ID_MAX];

	(void)state;
	int fd = make(true, __BYTE_ORDER == __BIG_ENDIAN, 0, ELF_FILE_MOST_HEADERS, 0, 0);
	assert_int_equal(elf_note_of_fd(fd, id), -ENOENT);
	close(fd);
	fd = make(true, __BYTE_ORDER == __BIG_ENDIAN, 0, ELF_FILE_MOST_HEADERS + 1, 0, 0);
	assert_int_equal(elf_note_of_fd(fd, id), -EINVAL);
	close(fd);
}

/*
 * Names of sections, .debug_info with nothing in it, and .note.gnu.build-id with an id and then a hole. The header says
 * that there are more sections: all zero.
 */
static int make_with_sections(uint32_t nr_sections, uint64_t names_bytes, uint64_t note_bytes)
{
	enum { NAMES_AT = 0x100, NOTE_AT = 0x200, INFO_AT = 0x300 };
	static const char names[] = "\0.debug_info\0.note.gnu.build-id";
	static const uint8_t id[] = {4, 0, 0, 0, 4, 0, 0, 0, NT_GNU_BUILD_ID, 0, 0, 0, 'G', 'N', 'U', 0, 1, 2, 3, 4};
	const Elf64_Ehdr file = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
				 .e_version = EV_CURRENT,
				 .e_shoff = SECTIONS_AT,
				 .e_shentsize = sizeof(Elf64_Shdr),
				 .e_shstrndx = 1};
	const Elf64_Shdr sections[] = {
		{.sh_size = nr_sections},
		{.sh_type = SHT_STRTAB, .sh_offset = NAMES_AT, .sh_size = names_bytes},
		{.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_offset = INFO_AT, .sh_size = 16},
		{.sh_name = 13, .sh_type = SHT_NOTE, .sh_offset = NOTE_AT, .sh_size = note_bytes}};
	int fd = new_file(&file, sizeof(file));

	assert_int_equal(ftruncate(fd, (off_t)ELF_FILE_MOST_SECTION_BYTES * 2), 0);
	assert_int_equal(pwrite(fd, sections, sizeof(sections), SECTIONS_AT), sizeof(sections));
	assert_int_equal(pwrite(fd, names, sizeof(names), NAMES_AT), sizeof(names));
	assert_int_equal(pwrite(fd, id, sizeof(id), NOTE_AT), sizeof(id));
	return fd;
}

/* Takes over the descriptor. 0, or -errno of elf_source_open(); whether it has a build-id. */
static int open_source(int fd, bool *ret_has_id)
{
	struct elf_source source;
	struct elf_id id;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int err = elf_source_open(path, NULL, &source);
	*ret_has_id = !err && elf_source_build_id(&source, &id) && id.len == 4;
	if (!err)
		elf_source_close(&source);
	close(fd);
	return err;
}

/* Nor do those that read symbols and debug information open such files, or read such sections. */
static void test_readers_of_refused_files(void **state)
{
	const uint64_t most = ELF_FILE_MOST_SECTION_BYTES;
	bool has_id;

	(void)state;
	assert_int_equal(open_source(make_with_sections(ELF_FILE_MOST_HEADERS, 64, 20), &has_id), 0);
	assert_true(has_id);
	assert_int_equal(open_source(make_with_sections(ELF_FILE_MOST_HEADERS + 1, 64, 20), &has_id), -ENOEXEC);
	assert_int_equal(open_source(make_with_sections(4, 64, most + 1), &has_id), 0);
	assert_false(has_id);
	assert_int_equal(open_source(make_with_sections(4, most + 1, 20), &has_id), 0);
	assert_false(has_id);
#if __BYTE_ORDER == __LITTLE_ENDIAN
	struct dwarf *dwarf = dwarf_open(make_with_sections(ELF_FILE_MOST_HEADERS, 64, 20), false);
	assert_non_null(dwarf);
	dwarf_free(dwarf);
	assert_null(dwarf_open(make_with_sections(ELF_FILE_MOST_HEADERS + 1, 64, 20), false));
	assert_null(dwarf_open(make_with_sections(4, most + 1, 20), false));
#endif
	int fd = make_with_sections(ELF_FILE_MOST_HEADERS + 1, 64, 20);
	assert_true(elf_file_is_refused(fd));
	close(fd);
	fd = make_with_sections(ELF_FILE_MOST_HEADERS, 64, 20);
	assert_false(elf_file_is_refused(fd));
	close(fd);
	fd = new_file("\x1f\x8b", 2); /* modules may be compressed */
	assert_false(elf_file_is_refused(fd));
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers_of_headers),
		cmocka_unit_test(test_no_elf_file),
		cmocka_unit_test(test_trampoline),
		cmocka_unit_test(test_many_notes),
		cmocka_unit_test(test_build_ids_of_refused_files),
		cmocka_unit_test(test_readers_of_refused_files),
	};

	return cmocka_run_group_tests_name("elf_file", tests, NULL, NULL);
}
