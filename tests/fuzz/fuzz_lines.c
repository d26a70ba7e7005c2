/* SPDX-License-Identifier: MIT */
/* Any bytes as .debug_line, and as the texts it refers to: rows come back in order, and files are named or are not. */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/dwarf/elf_section.h"
#include "analyze/dwarf/line_table.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "fuzz.h"

static void check(const struct line_table *table, uint64_t address)
{
	AUTO_BUF struct buf path = {0};
	uint32_t file, line;

	if (!line_table_find(table, address, &file, &line))
		return;
	if (line_table_path(table, file, "/src", &path) && !path.len)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_section all = {.len = size, .whole = {data, size}, .fd = -1};
	struct elf_section half = {.len = size / 2, .whole = {data, size / 2}, .fd = -1};
	uint64_t bytes_left = size;
	const struct line_sections sections = {&all, &all, &half, &bytes_left};
	struct line_table *table;

	if (line_table_read(&sections, 0, &table))
		return 0;
	for (uint64_t address = 0x1000; address < 0x1100; address += 3)
		check(table, address);
	check(table, 0);
	check(table, UINT64_MAX);
	line_table_free(table);
	return 0;
}

static void put_program(struct buf *out, bool backwards)
{
	const uint8_t start[] = {0, 9, DW_LNE_set_address};
	const uint8_t rows[] = {DW_LNS_copy,
				DW_LNS_advance_line,
				0x7e,
				30,
				200,
				DW_LNS_set_file,
				1,
				DW_LNS_copy,
				DW_LNS_const_add_pc,
				40,
				DW_LNS_fixed_advance_pc,
				4,
				0,
				DW_LNS_advance_pc,
				8,
				0,
				1,
				DW_LNE_end_sequence};

	for (unsigned i = 0; i < 2; i++) {
		buf_put(out, start, sizeof(start));
		buf_put_u64(out, backwards ? 0x1080 - 0x80 * i : 0x1000 + 0x80 * i);
		buf_put(out, rows, sizeof(rows));
	}
}

/* version 4 and 5, the second with sequences that are not in order. */
bool fuzz_seed(unsigned number, struct buf *out)
{
	static const uint8_t lengths[] = {0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1};
	static const uint8_t old_names[] = "dir\0\0a.c\0\1\0\0b.c\0\0\0\0";
	static const uint8_t new_names[] = {1,
					    DW_LNCT_path,
					    DW_FORM_string,
					    1,
					    '/',
					    'd',
					    0,
					    2,
					    DW_LNCT_path,
					    8,
					    DW_LNCT_directory_index,
					    DW_FORM_udata,
					    2,
					    'a',
					    0,
					    0,
					    'b',
					    0,
					    0};
	AUTO_BUF struct buf names = {0}, body = {0};

	if (number > 1)
		return false;
	buf_put_u8(&names, 1);
	buf_put_u8(&names, 1);
	buf_put_u8(&names, 1);
	buf_put_u8(&names, (uint8_t)-5);
	buf_put_u8(&names, 14);
	buf_put_u8(&names, sizeof(lengths) + 1);
	buf_put(&names, lengths, sizeof(lengths));
	buf_put(&names, number ? new_names : old_names, number ? sizeof(new_names) : sizeof(old_names));
	buf_put_u16(&body, number ? 5 : 4);
	if (number)
		buf_put_u16(&body, 8); /* size of addresses, and of no selectors */
	buf_put_u32(&body, (uint32_t)names.len);
	buf_put(&body, names.data, names.len);
	put_program(&body, number);
	buf_put_u32(out, (uint32_t)body.len);
	buf_put(out, body.data, body.len);
	return true;
}
