/* SPDX-License-Identifier: MIT */
/* Line tables of units in which the linker has left a function out: its rows stay behind, at an address of no code. */
#include <dwarf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/dwarf/elf_section.h"
#include "analyze/dwarf/line_table.h"
#include "base/buf.h"
#include "base/cleanup.h"

enum { LIVE = 0x1108, LIVE_BYTES = 0x40, DEAD_BYTES = 0x1500, STEP = 0x10, LIVE_LINE = 100, DEAD_LINE = 5000 };

/* A row each STEP bytes, all of one line. */
static void put_sequence(struct buf *program, uint64_t address, uint32_t bytes, uint32_t line)
{
	const uint8_t set[] = {0, 9, DW_LNE_set_address}, end[] = {0, 1, DW_LNE_end_sequence};

	buf_put(program, set, sizeof(set));
	buf_put_u64(program, address);
	buf_put_u8(program, DW_LNS_advance_line);
	for (line--; line >= 0x40; line >>= 7) /* from 1 on */
		buf_put_u8(program, (uint8_t)(line | 0x80));
	buf_put_u8(program, (uint8_t)line);
	for (uint32_t at = 0; at < bytes; at += STEP) {
		buf_put_u8(program, DW_LNS_copy);
		buf_put_u8(program, DW_LNS_advance_pc);
		buf_put_u8(program, STEP);
	}
	buf_put(program, end, sizeof(end));
}

/* With one file, in the directory of the compilation. */
static void put_table_of(struct buf *out, const struct buf *program, const char *file)
{
	static const uint8_t lengths[] = {0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1};
	static const uint8_t file_end[] = {0, 0, 0, 0}; /* directory, time, length; no more files */
	const uint8_t front[] = {1, 1, 1, (uint8_t)-5, 14, sizeof(lengths) + 1};
	const uint32_t name_bytes = (uint32_t)strlen(file) + 1;
	const uint32_t header_bytes = sizeof(front) + sizeof(lengths) + 1 + name_bytes + sizeof(file_end);

	buf_put_u32(out, (uint32_t)(sizeof(uint16_t) + sizeof(uint32_t) + header_bytes + program->len));
	buf_put_u16(out, 4);
	buf_put_u32(out, header_bytes);
	buf_put(out, front, sizeof(front));
	buf_put(out, lengths, sizeof(lengths));
	buf_put_u8(out, 0); /* no more directories */
	buf_put(out, file, name_bytes);
	buf_put(out, file_end, sizeof(file_end));
	buf_put(out, program->data, program->len);
}

static void put_table(struct buf *out, const struct buf *program)
{
	put_table_of(out, program, "a.c");
}

static struct line_table *read_at(const struct buf *bytes, uint64_t offset, uint64_t *bytes_left)
{
	struct line_table *table;
	struct elf_section section = {.len = bytes->len, .whole = {bytes->data, bytes->len}, .fd = -1};
	const struct line_sections sections = {.line = &section, .bytes_left = bytes_left};

	assert_int_equal(line_table_read(&sections, offset, &table), 0);
	return table;
}

static struct line_table *read_table(const struct buf *program, struct buf *bytes)
{
	put_table(bytes, program);
	uint64_t bytes_left = bytes->len;
	return read_at(bytes, 0, &bytes_left);
}

static void expect_live_rows_only(const struct line_table *table)
{
	uint32_t file, line;

	for (uint64_t address = LIVE; address < LIVE + LIVE_BYTES; address += STEP / 2) {
		assert_true(line_table_find(table, address, &file, &line));
		assert_int_equal(line, LIVE_LINE);
	}
	assert_false(line_table_find(table, LIVE - 1, &file, &line));
	assert_false(line_table_find(table, LIVE + LIVE_BYTES, &file, &line));
}

/* GNU ld and lld by default; lld with -z dead-reloc-in-nonalloc=.debug_*=-1 or -2, from where addresses go on at 0. */
static void test_rows_that_the_linker_left(void **state)
{
	const uint64_t starts[] = {0, UINT64_MAX, UINT64_MAX - 1};

	(void)state;
	for (unsigned i = 0; i < 2 * sizeof(starts) / sizeof(starts[0]); i++) {
		AUTO_BUF struct buf program = {0}, bytes = {0};
		if (i % 2)
			put_sequence(&program, starts[i / 2], DEAD_BYTES, DEAD_LINE);
		put_sequence(&program, LIVE, LIVE_BYTES, LIVE_LINE);
		put_sequence(&program, starts[i / 2], DEAD_BYTES, DEAD_LINE);
		struct line_table *table = read_table(&program, &bytes);
		expect_live_rows_only(table);
		line_table_free(table);
	}
}

/* Functions whose order the linker has changed. */
static void test_sequences_are_sorted(void **state)
{
	AUTO_BUF struct buf program = {0}, bytes = {0};
	uint32_t file, line;

	(void)state;
	put_sequence(&program, LIVE + 0x1000, LIVE_BYTES, LIVE_LINE + 1);
	put_sequence(&program, 0, DEAD_BYTES, DEAD_LINE);
	put_sequence(&program, LIVE, LIVE_BYTES, LIVE_LINE);
	struct line_table *table = read_table(&program, &bytes);
	expect_live_rows_only(table);
	assert_true(line_table_find(table, LIVE + 0x1000, &file, &line));
	assert_int_equal(line, LIVE_LINE + 1);
	line_table_free(table);
}

enum { FIRST_SPECIAL = 13, LINE_BASE = -5, LINE_RANGE = 14, MANY = 1000, ROW_BYTES = 2 };

/* `nr` rows, of which each has the next line, one byte of the program, and ROW_BYTES of code. */
static void put_many_rows(struct buf *program, uint64_t address, uint32_t nr)
{
	const uint8_t set[] = {0, 9, DW_LNE_set_address}, end[] = {0, 1, DW_LNE_end_sequence};

	buf_put(program, set, sizeof(set));
	buf_put_u64(program, address);
	for (uint32_t i = 0; i < nr; i++) /* the first one is ROW_BYTES behind the address */
		buf_put_u8(program, FIRST_SPECIAL + ROW_BYTES * LINE_RANGE + 1 - LINE_BASE);
	buf_put_u8(program, DW_LNS_advance_pc);
	buf_put_u8(program, ROW_BYTES);
	buf_put(program, end, sizeof(end));
}

static void expect_many_rows(const struct line_table *table, uint64_t address, uint32_t nr)
{
	uint32_t file, line;

	for (uint32_t i = 0; i < nr * ROW_BYTES; i++) {
		assert_true(line_table_find(table, address + ROW_BYTES + i, &file, &line));
		assert_int_equal(line, 2 + i / ROW_BYTES);
	}
	assert_false(line_table_find(table, address + (nr + 1) * ROW_BYTES, &file, &line));
}

/* Each is found, also where functions are not in order, or over one another: then the one that begins later counts. */
static void test_many_rows(void **state)
{
	static const uint64_t starts[] = {LIVE + 0x10000, LIVE, LIVE + 0x8000};
	AUTO_BUF struct buf program = {0}, bytes = {0}, more = {0};
	uint32_t file, line;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		put_many_rows(&program, starts[i], MANY + i);
	struct line_table *table = read_table(&program, &bytes);
	for (unsigned i = 0; i < 3; i++)
		expect_many_rows(table, starts[i], MANY + i);
	assert_false(line_table_find(table, LIVE + ROW_BYTES - 1, &file, &line));
	line_table_free(table);

	put_sequence(&program, LIVE + 0x8000 + 100 * ROW_BYTES, ROW_BYTES, LIVE_LINE);
	table = read_table(&program, &more);
	expect_many_rows(table, LIVE, MANY + 1);
	assert_true(line_table_find(table, LIVE + 0x8000 + 100 * ROW_BYTES, &file, &line));
	assert_int_equal(line, LIVE_LINE);
	assert_true(line_table_find(table, LIVE + 0x8000 + 99 * ROW_BYTES, &file, &line));
	assert_int_equal(line, 100);
	line_table_free(table);
}

/* Where rows are far from one another in the program, each is found, too. */
static void test_rows_far_from_one_another(void **state)
{
	AUTO_BUF struct buf program = {0}, bytes = {0};
	uint32_t file, line;

	(void)state;
	for (unsigned row = 0; row < 2; row++) {
		const uint8_t set[] = {0, 9, DW_LNE_set_address};
		buf_put(&program, set, sizeof(set));
		buf_put_u64(&program, LIVE + row * STEP);
		buf_put_u8(&program, DW_LNS_copy);
		for (unsigned i = 0; i < 10000; i++)
			buf_put_u8(&program, DW_LNS_negate_stmt);
		buf_put_u8(&program, DW_LNS_advance_line);
		buf_put_u8(&program, 1);
	}
	struct line_table *table = read_table(&program, &bytes);
	for (unsigned i = 0; i < 2 * STEP; i++) {
		assert_true(line_table_find(table, LIVE + i, &file, &line));
		assert_int_equal(line, 1 + i / STEP);
	}
	assert_false(line_table_find(table, LIVE - 1, &file, &line));
	line_table_free(table);
}

/* The linker puts it in the place of libc's (--wrap). */
void *__real_reallocarray(void *old, size_t nr, size_t bytes);
void *__wrap_reallocarray(void *old, size_t nr, size_t bytes);

static size_t largest_array; /* bytes */

void *__wrap_reallocarray(void *old, size_t nr, size_t bytes)
{
	if (nr * bytes > largest_array)
		largest_array = nr * bytes;
	return __real_reallocarray(old, nr, bytes);
}

/* Less than a row has of the program, since a unit may have a million, and few are looked up. */
static void test_memory(void **state)
{
	enum { NR = 1 << 20 };
	AUTO_BUF struct buf program = {0}, bytes = {0};
	uint32_t file, line;

	(void)state;
	put_many_rows(&program, LIVE, NR);
	put_table(&bytes, &program);
	uint64_t bytes_left = bytes.len;
	largest_array = 0;
	struct line_table *table = read_at(&bytes, 0, &bytes_left);
	assert_in_range(largest_array, 1, NR - 1);
	assert_true(line_table_find(table, LIVE + NR * ROW_BYTES, &file, &line));
	assert_int_equal(line, NR + 1);
	line_table_free(table);
}

static bool has_live_rows(const struct buf *bytes, uint64_t offset, uint64_t *bytes_left)
{
	struct line_table *table = read_at(bytes, offset, bytes_left);
	uint32_t file, line;
	bool found = line_table_find(table, LIVE, &file, &line);

	line_table_free(table);
	return found;
}

/* Tables behind one another are all read; a section with tables in one another is not read many times. */
static void test_tables_do_not_overlap(void **state)
{
	enum { NR_TABLES = 8 };
	AUTO_BUF struct buf program = {0}, inner = {0}, bytes = {0};
	uint64_t bytes_left;
	size_t table_bytes = 0;

	(void)state;
	put_sequence(&program, LIVE, LIVE_BYTES, LIVE_LINE);
	for (unsigned i = 0; i < NR_TABLES; i++) {
		put_table(&bytes, &program);
		table_bytes = bytes.len / (i + 1);
	}
	bytes_left = bytes.len;
	for (unsigned i = 0; i < NR_TABLES; i++)
		assert_true(has_live_rows(&bytes, i * table_bytes, &bytes_left));
	assert_false(has_live_rows(&bytes, 0, &bytes_left));

	bytes.len = 0;
	put_sequence(&inner, LIVE, LIVE_BYTES, LIVE_LINE);
	put_table(&inner, &program); /* operations of the outer one, too */
	put_table(&bytes, &inner);
	bytes_left = bytes.len;
	assert_true(has_live_rows(&bytes, 0, &bytes_left));
	assert_false(has_live_rows(&bytes, bytes.len - table_bytes, &bytes_left));
	bytes_left = bytes.len;
	assert_true(has_live_rows(&bytes, bytes.len - table_bytes, &bytes_left));
}

static bool has_path(const char *name, const char *comp_dir)
{
	AUTO_BUF struct buf program = {0}, bytes = {0}, path = {0};
	uint64_t bytes_left = UINT64_MAX;

	put_table_of(&bytes, &program, name);
	struct line_table *table = read_at(&bytes, 0, &bytes_left);
	bool found = line_table_path(table, 1, comp_dir, &path);
	if (found) {
		assert_non_null(strstr(buf_text(&path), name));
		assert_int_equal(path.len, strlen(name) + 1 + strlen(comp_dir));
	}
	line_table_free(table);
	return found;
}

static void test_path_of_a_long_text(void **state)
{
	char *name = malloc(ELF_TEXT_MAX + 2);

	(void)state;
	assert_non_null(name);
	memset(name, 'n', ELF_TEXT_MAX + 1);
	name[ELF_TEXT_MAX + 1] = '\0';
	assert_false(has_path(name, "/src"));
	name[ELF_TEXT_MAX] = '\0';
	assert_true(has_path(name, "/src"));
	free(name);
}

/* What is behind the last NUL is no text. */
static void test_texts_of_a_section(void **state)
{
	static const char bytes[] = {'a', 'b', 0, 'c', 0, 'd', 'e'};
	struct elf_section section = {.len = sizeof(bytes), .whole = {bytes, sizeof(bytes)}, .fd = -1};
	struct elf_section none = {.len = 2, .whole = {bytes + 5, 2}, .fd = -1};

	(void)state;
	assert_string_equal(elf_section_text(&section, 0), "ab");
	assert_string_equal(elf_section_text(&section, 1), "b");
	assert_string_equal(elf_section_text(&section, 4), "");
	assert_null(elf_section_text(&section, 5));
	assert_null(elf_section_text(&section, sizeof(bytes)));
	assert_null(elf_section_text(&none, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_that_the_linker_left), cmocka_unit_test(test_sequences_are_sorted),
		cmocka_unit_test(test_tables_do_not_overlap),     cmocka_unit_test(test_path_of_a_long_text),
		cmocka_unit_test(test_texts_of_a_section),        cmocka_unit_test(test_many_rows),
		cmocka_unit_test(test_rows_far_from_one_another), cmocka_unit_test(test_memory)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
