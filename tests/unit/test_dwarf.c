/* SPDX-License-Identifier: MIT */
/* Which unit of debug information an address is in, in an object with two, of which .debug_aranges names one. */
#include <dwarf.h>
#include <elf.h>
#include <libelf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "analyze/dwarf/debug_functions.h"
#include "analyze/dwarf/dwarf.h"
#include "analyze/dwarf/elf_section.h"
#include "base/buf.h"
#include "base/cleanup.h"

enum {
	BEFORE = 0xf80,
	TEXT = 0x1000,
	SECOND = 0x1080,
	LINKAGE = 0x1100,
	ABOVE = 0x10000,
	TEXT_BYTES = 0x100,
	UNIT_BYTES = 0x80,
	MORE_BYTES = 0x40
};

/* A unit of one entry; returns where it is. */
static uint32_t put_unit(struct buf *info, uint32_t abbrevs, uint8_t code, uint64_t low, uint32_t bytes)
{
	uint32_t offset = (uint32_t)info->len;

	buf_put_u32(info, 2 + 4 + 1 + 1 + 8 + 4);
	buf_put_u16(info, 4);
	buf_put_u32(info, abbrevs);
	buf_put_u8(info, 8);
	buf_put_u8(info, code);
	buf_put_u64(info, low);
	buf_put_u32(info, bytes);
	return offset;
}

static void put_abbrev(struct buf *abbrevs, uint8_t code)
{
	const uint8_t unit[] = {
		code, DW_TAG_compile_unit, DW_CHILDREN_no, DW_AT_low_pc, DW_FORM_addr, DW_AT_high_pc, DW_FORM_data4, 0,
		0};

	buf_put(abbrevs, unit, sizeof(unit));
}

static void put_aranges(struct buf *aranges, uint32_t unit, uint64_t low, uint64_t bytes)
{
	buf_put_u32(aranges, 2 + 4 + 1 + 1 + 4 + 4 * 8);
	buf_put_u16(aranges, 2);
	buf_put_u32(aranges, unit);
	buf_put_u8(aranges, 8);
	buf_put_u8(aranges, 0);
	buf_put_u32(aranges, 0);
	buf_put_u64(aranges, low);
	buf_put_u64(aranges, bytes);
	buf_put_u64(aranges, 0);
	buf_put_u64(aranges, 0);
}

struct file {
	struct buf bytes, names, headers;
};

static void put_section(struct file *file, const char *name, Elf64_Shdr header, const struct buf *content)
{
	header.sh_name = (uint32_t)file->names.len;
	buf_put(&file->names, name, strlen(name) + 1);
	if (content) {
		header.sh_offset = file->bytes.len;
		header.sh_size = content->len;
		buf_put(&file->bytes, content->data, content->len);
	}
	buf_put(&file->headers, &header, sizeof(header));
}

/* As strip --only-keep-debug leaves it: code has headers and no bytes. ranges NULL: there are none. */
static int write_sections(const struct buf *info, const struct buf *abbrevs, bool is_packed, const struct buf *aranges,
			  const struct buf *ranges)
{
	const Elf64_Shdr text = {
		.sh_type = SHT_NOBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR, .sh_addr = TEXT, .sh_size = TEXT_BYTES};
	const Elf64_Shdr linkage = {.sh_type = SHT_NOBITS,
				    .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				    .sh_addr = LINKAGE,
				    .sh_size = MORE_BYTES};
	const Elf64_Shdr bits = {.sh_type = SHT_PROGBITS};
	const Elf64_Shdr packed = {.sh_type = SHT_PROGBITS, .sh_flags = SHF_COMPRESSED};
	struct file file = {0};
	Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
					 __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB,
					 EV_CURRENT},
			     .e_type = ET_DYN,
			     .e_machine = EM_X86_64,
			     .e_version = EV_CURRENT,
			     .e_ehsize = sizeof(header),
			     .e_shentsize = sizeof(Elf64_Shdr)};

	buf_put(&file.bytes, &header, sizeof(header));
	put_section(&file, "", (Elf64_Shdr){0}, NULL);
	put_section(&file, ".text", text, NULL);
	put_section(&file, ".plt.sec", linkage, NULL);
	put_section(&file, ".debug_info", bits, info);
	put_section(&file, ".debug_abbrev", is_packed ? packed : bits, abbrevs);
	put_section(&file, ".debug_aranges", bits, aranges);
	if (ranges)
		put_section(&file, ".debug_ranges", bits, ranges);
	buf_put(&file.names, ".shstrtab", sizeof(".shstrtab"));
	const Elf64_Shdr names = {.sh_name = (uint32_t)(file.names.len - sizeof(".shstrtab")),
				  .sh_type = SHT_STRTAB,
				  .sh_offset = file.bytes.len,
				  .sh_size = file.names.len};
	buf_put(&file.headers, &names, sizeof(names));
	buf_put(&file.bytes, file.names.data, file.names.len);
	buf_align(&file.bytes, 8);
	header.e_shoff = file.bytes.len;
	header.e_shnum = (uint16_t)(file.headers.len / sizeof(names));
	header.e_shstrndx = header.e_shnum - 1;
	buf_put(&file.bytes, file.headers.data, file.headers.len);
	memcpy(file.bytes.data, &header, sizeof(header));

	int fd = memfd_create("object", MFD_CLOEXEC);
	assert_int_equal(write(fd, file.bytes.data, file.bytes.len), (ssize_t)file.bytes.len);
	buf_fini(&file.bytes);
	buf_fini(&file.names);
	buf_fini(&file.headers);
	return fd;
}

static int write_object(const struct buf *info, const struct buf *abbrevs, bool is_packed, const struct buf *aranges)
{
	return write_sections(info, abbrevs, is_packed, aranges, NULL);
}

static int make_object(uint32_t *ret_second)
{
	AUTO_BUF struct buf info = {0}, abbrevs = {0}, aranges = {0};

	put_aranges(&aranges, put_unit(&info, 0, 1, BEFORE, TEXT + UNIT_BYTES - BEFORE), TEXT, UNIT_BYTES);
	*ret_second = put_unit(&info, 0, 1, SECOND, TEXT_BYTES + MORE_BYTES - (SECOND - TEXT));
	put_abbrev(&abbrevs, 1);
	buf_put_u8(&abbrevs, 0);
	return write_object(&info, &abbrevs, false, &aranges);
}

/* The second unit says that code of the linker is its own: it is not asked. */
static void test_linkage_is_in_no_unit(void **state)
{
	uint32_t second;
	struct dwarf *dwarf = dwarf_open(make_object(&second), false);

	(void)state;
	assert_non_null(dwarf);
	assert_null(dwarf_unit_at(dwarf, LINKAGE));
	assert_null(dwarf_unit_at(dwarf, LINKAGE + MORE_BYTES - 1));
	const struct dwarf_unit *unit = dwarf_unit_at(dwarf, TEXT);
	assert_non_null(unit);
	assert_int_equal(unit->offset, 0);
	assert_null(dwarf_unit_at(dwarf, LINKAGE + MORE_BYTES));
	unit = dwarf_unit_at(dwarf, LINKAGE - 1);
	assert_non_null(unit);
	assert_int_equal(unit->offset, second);
	assert_null(dwarf_unit_at(dwarf, LINKAGE));
	dwarf_free(dwarf);
}

/* The first unit's entry says more than .debug_aranges does: it is not read, as it is not where these agree. */
static void test_aranges_count(void **state)
{
	uint32_t second;
	struct dwarf *dwarf = dwarf_open(make_object(&second), false);

	(void)state;
	assert_non_null(dwarf);
	assert_null(dwarf_unit_at(dwarf, BEFORE));
	const struct dwarf_unit *unit = dwarf_unit_at(dwarf, TEXT);
	assert_non_null(unit);
	assert_int_equal(unit->offset, 0);
	unit = dwarf_unit_at(dwarf, SECOND);
	assert_non_null(unit);
	assert_int_equal(unit->offset, second);
	dwarf_free(dwarf);
}

static unsigned count_units_with_code(const struct buf *info, const struct buf *abbrevs, unsigned nr)
{
	const struct buf no_aranges = {0};
	struct dwarf *dwarf = dwarf_open(write_object(info, abbrevs, false, &no_aranges), false);
	unsigned found = 0;

	assert_non_null(dwarf);
	for (unsigned i = 0; i < nr; i++)
		found += dwarf_unit_at(dwarf, ABOVE + i * UNIT_BYTES) != NULL;
	dwarf_free(dwarf);
	return found;
}

enum { NR_UNITS = 1000, NR_ABBREVS = 120, ABBREV_BYTES = 9 };

/* As compilers write them. */
static void test_abbreviations_of_each_unit(void **state)
{
	AUTO_BUF struct buf info = {0}, abbrevs = {0};

	(void)state;
	for (unsigned i = 0; i < NR_UNITS; i++) {
		put_unit(&info, (uint32_t)abbrevs.len, NR_ABBREVS, ABOVE + i * UNIT_BYTES, UNIT_BYTES);
		for (uint8_t code = 1; code <= NR_ABBREVS; code++)
			put_abbrev(&abbrevs, code);
		buf_put_u8(&abbrevs, 0);
	}
	assert_int_equal(count_units_with_code(&info, &abbrevs, NR_UNITS), NR_UNITS);
}

/* In any order, and of one code the first. */
static void test_abbreviations_without_order(void **state)
{
	AUTO_BUF struct buf info = {0}, abbrevs = {0};
	static const uint8_t other[] = {7, DW_TAG_compile_unit, DW_CHILDREN_no, 0, 0};
	static const uint8_t codes[] = {1, 100, 7, 2, 50, 3};

	(void)state;
	for (unsigned i = 0; i < sizeof(codes); i++) {
		put_unit(&info, 0, codes[i], ABOVE + i * UNIT_BYTES, UNIT_BYTES);
		put_abbrev(&abbrevs, codes[i]);
	}
	put_unit(&info, 0, 8, ABOVE + sizeof(codes) * UNIT_BYTES, UNIT_BYTES);
	for (uint8_t code = 1; code <= 100; code += 3) {
		buf_put_u8(&abbrevs, code == 8 ? 9 : code);
		buf_put(&abbrevs, other + 1, sizeof(other) - 1);
	}
	buf_put_u8(&abbrevs, 0);
	assert_int_equal(count_units_with_code(&info, &abbrevs, sizeof(codes) + 1), sizeof(codes));
}

/* Each unit begins at another abbreviation of one table, so that it would be read again for each. */
static void test_abbreviations_that_units_share_in_part(void **state)
{
	AUTO_BUF struct buf info = {0}, abbrevs = {0};

	(void)state;
	for (unsigned i = 0; i < NR_UNITS; i++) {
		put_unit(&info, i * ABBREV_BYTES, 1, ABOVE + i * UNIT_BYTES, UNIT_BYTES);
		put_abbrev(&abbrevs, 2);
	}
	for (unsigned i = 0; i < 10 * NR_UNITS; i++)
		put_abbrev(&abbrevs, 2);
	put_abbrev(&abbrevs, 1);
	buf_put_u8(&abbrevs, 0);
	assert_in_range(count_units_with_code(&info, &abbrevs, NR_UNITS), 1, 3);
}

/* They are told apart by nothing; searching one of them among the others would take a step for each. */
static void test_abbreviations_of_one_code(void **state)
{
	AUTO_BUF struct buf info = {0}, abbrevs = {0};

	(void)state;
	put_unit(&info, 0, 1, ABOVE, UNIT_BYTES);
	for (unsigned i = 0; i < 1 << 20; i++)
		put_abbrev(&abbrevs, 2);
	put_abbrev(&abbrevs, 1);
	buf_put_u8(&abbrevs, 0);
	assert_int_equal(count_units_with_code(&info, &abbrevs, 1), 1);
}

/* Behind `nr` others. */
static bool has_packed_abbreviation(unsigned nr)
{
	AUTO_BUF struct buf info = {0}, abbrevs = {0}, packed = {0};
	const struct buf no_aranges = {0};

	for (unsigned i = 0; i < nr; i++)
		put_abbrev(&abbrevs, 2);
	put_abbrev(&abbrevs, 1);
	buf_put_u8(&abbrevs, 0);
	const Elf64_Chdr header = {.ch_type = ELFCOMPRESS_ZLIB, .ch_size = abbrevs.len, .ch_addralign = 1};
	uLongf len = compressBound(abbrevs.len);
	buf_put(&packed, &header, sizeof(header));
	uint8_t *room = buf_room(&packed, len);
	assert_non_null(room);
	assert_int_equal(compress(room, &len, abbrevs.data, abbrevs.len), Z_OK);
	packed.len += len;
	put_unit(&info, 0, 1, ABOVE, UNIT_BYTES);
	struct dwarf *dwarf = dwarf_open(write_object(&info, &packed, true, &no_aranges), false);
	assert_non_null(dwarf);
	bool found = dwarf_unit_at(dwarf, ABOVE) != NULL;
	dwarf_free(dwarf);
	return found;
}

/* A few KB may stand for megabytes: how much is read depends on the file, too. */
static void test_abbreviations_that_are_packed(void **state)
{
	(void)state;
	assert_true(has_packed_abbreviation(10));
	assert_true(has_packed_abbreviation(5000));
	assert_false(has_packed_abbreviation(200000));
}

/* A unit of one entry with a name, and the code at ABOVE. */
static bool has_name(size_t len)
{
	static const uint8_t unit[] = {1,
				       DW_TAG_compile_unit,
				       DW_CHILDREN_no,
				       DW_AT_low_pc,
				       DW_FORM_addr,
				       DW_AT_high_pc,
				       DW_FORM_data4,
				       DW_AT_name,
				       DW_FORM_string,
				       0,
				       0,
				       0};
	AUTO_BUF struct buf info = {0}, abbrevs = {0};
	const struct buf no_aranges = {0};
	struct die root;

	put_unit(&info, 0, 1, ABOVE, UNIT_BYTES);
	for (size_t i = 0; i < len; i++)
		buf_put_u8(&info, 'n');
	buf_put_u8(&info, 0);
	uint32_t unit_len = (uint32_t)info.len - sizeof(unit_len);
	memcpy(info.data, &unit_len, sizeof(unit_len));
	buf_put(&abbrevs, unit, sizeof(unit));
	struct dwarf *dwarf = dwarf_open(write_object(&info, &abbrevs, false, &no_aranges), false);
	assert_non_null(dwarf);
	struct dwarf_unit *found = dwarf_unit_at(dwarf, ABOVE);
	assert_non_null(found);
	assert_true(die_root(found, &root));
	const char *name = die_text(&root, DW_AT_name);
	bool is_whole = name && strlen(name) == len;
	assert_true(is_whole || !name);
	dwarf_free(dwarf);
	return is_whole;
}

static void test_names_that_are_too_long(void **state)
{
	(void)state;
	assert_true(has_name(1));
	assert_true(has_name(ELF_TEXT_MAX));
	assert_false(has_name(ELF_TEXT_MAX + 1));
}

/* A function with an inlined one, which is in every second one of many pieces of it. */
static int make_function(unsigned nr_pieces, unsigned piece_bytes)
{
	static const uint8_t all[] = {1,
				      DW_TAG_compile_unit,
				      DW_CHILDREN_yes,
				      DW_AT_low_pc,
				      DW_FORM_addr,
				      DW_AT_high_pc,
				      DW_FORM_data4,
				      0,
				      0,
				      2,
				      DW_TAG_subprogram,
				      DW_CHILDREN_yes,
				      DW_AT_low_pc,
				      DW_FORM_addr,
				      DW_AT_high_pc,
				      DW_FORM_data4,
				      0,
				      0,
				      3,
				      DW_TAG_inlined_subroutine,
				      DW_CHILDREN_no,
				      DW_AT_ranges,
				      DW_FORM_sec_offset,
				      DW_AT_name,
				      DW_FORM_string,
				      0,
				      0,
				      0};
	AUTO_BUF struct buf info = {0}, abbrevs = {0}, ranges = {0};
	const struct buf no_aranges = {0};

	put_unit(&info, 0, 1, ABOVE, nr_pieces * piece_bytes);
	buf_put_u8(&info, 2);
	buf_put_u64(&info, ABOVE);
	buf_put_u32(&info, nr_pieces * piece_bytes);
	buf_put_u8(&info, 3);
	buf_put_u32(&info, 0);
	buf_put(&info, "inner", sizeof("inner"));
	buf_put_u8(&info, 0);
	buf_put_u8(&info, 0);
	uint32_t unit_len = (uint32_t)info.len - sizeof(unit_len);
	memcpy(info.data, &unit_len, sizeof(unit_len));
	buf_put(&abbrevs, all, sizeof(all));
	for (uint64_t i = 0; i < nr_pieces; i += 2) {
		buf_put_u64(&ranges, i * piece_bytes);
		buf_put_u64(&ranges, (i + 1) * piece_bytes);
	}
	buf_put_u64(&ranges, 0);
	buf_put_u64(&ranges, 0);
	return write_sections(&info, &abbrevs, false, &no_aranges, &ranges);
}

/* To go through all pieces for each address would take a minute. */
static void test_function_in_many_pieces(void **state)
{
	enum { NR_PIECES = 800000, PIECE_BYTES = 2 };
	struct dwarf *dwarf = dwarf_open(make_function(NR_PIECES, PIECE_BYTES), false);
	struct debug_functions *functions = debug_functions_new(NULL);

	(void)state;
	assert_non_null(dwarf);
	assert_non_null(functions);
	struct dwarf_unit *unit = dwarf_unit_at(dwarf, ABOVE);
	assert_non_null(unit);
	for (unsigned at = 0; at < NR_PIECES * PIECE_BYTES; at += 7) {
		struct scope *scope = debug_functions_find(functions, unit, ABOVE + at);
		assert_non_null(scope);
		assert_true(at / PIECE_BYTES % 2 ? !scope->outer : scope->outer && strcmp(scope->name, "inner") == 0);
	}
	assert_null(debug_functions_find(functions, unit, ABOVE + NR_PIECES * PIECE_BYTES));
	debug_functions_free(functions);
	dwarf_free(dwarf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_linkage_is_in_no_unit),
					   cmocka_unit_test(test_aranges_count),
					   cmocka_unit_test(test_abbreviations_of_each_unit),
					   cmocka_unit_test(test_abbreviations_without_order),
					   cmocka_unit_test(test_abbreviations_that_units_share_in_part),
					   cmocka_unit_test(test_abbreviations_of_one_code),
					   cmocka_unit_test(test_abbreviations_that_are_packed),
					   cmocka_unit_test(test_names_that_are_too_long),
					   cmocka_unit_test(test_function_in_many_pieces)};

	elf_version(EV_CURRENT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
