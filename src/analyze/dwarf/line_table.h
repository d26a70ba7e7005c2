/* SPDX-License-Identifier: MIT */
/*
 * line_table: the source file and line of each address of a unit: the result of the line number program in .debug_line.
 * Input may be damaged or hostile; invalid parts are left out. One owner, one thread: names are read when they are
 * needed. Source: DWARF 5, 6.2 "Line Number Information"; versions 2 to 5.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct elf_section;
struct line_table;

/* Sections of one object, which must be valid as long as its tables; NULL: the object has no such section. */
struct line_sections {
	struct elf_section *line, *line_strings, *strings; /* .debug_line, .debug_line_str, .debug_str */
	/* Of .debug_line, that may still be read for all tables: those of compilers do not overlap. Borrowed. */
	uint64_t *bytes_left;
};

/*
 * The table at an offset of .debug_line; an empty one if there is none, it cannot be read, or is longer than
 * bytes_left. It takes at most 16 bytes of memory for each byte of its length, or 32 for a moment; a compiler's less
 * than one. 0 or -ENOMEM.
 */
int line_table_read(const struct line_sections *sections, uint64_t offset, struct line_table **ret);
void line_table_free(struct line_table *table); /* NULL is fine */

/* false: no row has the address. */
bool line_table_find(const struct line_table *table, uint64_t address, uint32_t *ret_file, uint32_t *ret_line);

/* Appends the path of a file, as the rows and DW_AT_call_file count. comp_dir NULL: not known. false: no such file. */
bool line_table_path(const struct line_table *table, uint64_t file, const char *comp_dir, struct buf *out);
