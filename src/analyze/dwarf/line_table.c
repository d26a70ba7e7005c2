/* SPDX-License-Identifier: MIT */
#include "analyze/dwarf/line_table.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/dwarf/elf_section.h"
#include "base/buf.h"
#include "base/cleanup.h"

enum { MAX_ROWS = 1 << 26, MAX_NAMES = 1 << 20, MAX_FORMATS = 16 };

/* The code from `address` on, up to the next row. */
struct row {
	uint64_t address;
	uint32_t line, file;
};
static const uint32_t sequence_end = UINT32_MAX; /* a file: no code follows */

/* A name, which is looked up when it is needed: units have some hundreds, of which few are. */
struct file_name {
	uint64_t text;      /* an offset, or a pointer */
	uint32_t directory; /* UINT32_MAX: it has none */
	enum { NO_TEXT, TEXT_HERE, TEXT_OF_LINES, TEXT_OF_ENTRIES } where : 8;
};

struct line_table {
	struct row *rows; /* by address */
	size_t nr, room;
	struct file_name *files; /* as they are counted */
	size_t nr_files, files_room;
	struct file_name *directories; /* likewise */
	size_t nr_directories, directories_room;
	struct elf_section *line_strings, *strings; /* borrowed */
	bool sorted;
};

/* What stands in front of the program. */
struct line_header {
	uint16_t version;
	bool is_64; /* the format: offsets have 8 bytes */
	uint8_t address_bytes, min_instruction, max_operations, line_range, first_special;
	int8_t line_base;
	const uint8_t *lengths; /* of the standard operations from 1 on: how many operands each has */
	struct cursor names, program;
};

static int add_directory(struct line_table *table, const struct file_name *directory)
{
	if (array_room_up_to(table->directories, table->nr_directories, table->directories_room, MAX_NAMES))
		return -ENOMEM;
	table->directories[table->nr_directories++] = *directory;
	return 0;
}

static int add_file(struct line_table *table, const struct file_name *file)
{
	if (array_room_up_to(table->files, table->nr_files, table->files_room, MAX_NAMES))
		return -ENOMEM;
	table->files[table->nr_files++] = *file;
	return 0;
}

static int add_row(struct line_table *table, const struct row *row)
{
	if (array_room_up_to(table->rows, table->nr, table->room, MAX_ROWS))
		return -ENOMEM;
	if (table->nr && table->rows[table->nr - 1].address > row->address)
		table->sorted = false;
	table->rows[table->nr++] = *row;
	return 0;
}

static const char *take_text(struct cursor *at)
{
	return cursor_string(at, strnlen((const char *)at->at, cursor_left(at)) + 1);
}

static struct file_name name_here(const char *text, uint64_t directory)
{
	return (struct file_name){.text = (uintptr_t)text,
				  .directory = directory < UINT32_MAX ? (uint32_t)directory : UINT32_MAX,
				  .where = text ? TEXT_HERE : NO_TEXT};
}

/* NULL: it has none, or it is not in the section. */
static const char *text_of(const struct line_table *table, const struct file_name *name)
{
	switch (name->where) {
	case TEXT_HERE: return (const char *)(uintptr_t)name->text;
	case TEXT_OF_LINES: return elf_section_text(table->line_strings, name->text);
	case TEXT_OF_ENTRIES: return elf_section_text(table->strings, name->text);
	default: return NULL;
	}
}

static uint64_t take_offset(struct cursor *at, bool is_64)
{
	return is_64 ? cursor_u64(at) : cursor_u32(at);
}

/* Up to version 4: texts, up to an empty one each; directory 0 is that of the compilation, files count from 1. */
static int read_old_names(struct line_table *table, struct cursor *at)
{
	int err = add_directory(table, &(struct file_name){0});
	const char *name;

	while (!err && (name = take_text(at)) && *name) {
		struct file_name directory = name_here(name, 0);
		err = add_directory(table, &directory);
	}
	if (!err)
		err = add_file(table, &(struct file_name){0});
	while (!err && (name = take_text(at)) && *name) {
		struct file_name file = name_here(name, cursor_uleb(at));
		cursor_uleb(at); /* when it was changed */
		cursor_uleb(at); /* its length */
		if (!at->bad)
			err = add_file(table, &file);
	}
	return err;
}

/* A number or text of version 5; what is not needed is passed over. */
static void take_form(struct cursor *at, const struct line_header *header, uint64_t form, struct file_name *ret)
{
	uint64_t number = 0;

	switch (form) {
	case DW_FORM_string: *ret = name_here(take_text(at), 0); break;
	case DW_FORM_line_strp:
		*ret = (struct file_name){.text = take_offset(at, header->is_64), .where = TEXT_OF_LINES};
		break;
	case DW_FORM_strp:
		*ret = (struct file_name){.text = take_offset(at, header->is_64), .where = TEXT_OF_ENTRIES};
		break;
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_strp_alt: take_offset(at, header->is_64); break;
	case DW_FORM_udata: number = cursor_uleb(at); break;
	case DW_FORM_data1: number = cursor_u8(at); break;
	case DW_FORM_data2: number = cursor_u16(at); break;
	case DW_FORM_data4: number = cursor_u32(at); break;
	case DW_FORM_data8: number = cursor_u64(at); break;
	case DW_FORM_data16: cursor_take(at, 16); break;
	case DW_FORM_block: cursor_take(at, cursor_uleb(at)); break;
	case DW_FORM_block1: cursor_take(at, cursor_u8(at)); break;
	default: at->bad = true;
	}
	if (number)
		ret->directory = number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

struct entry_format {
	uint64_t content[MAX_FORMATS], form[MAX_FORMATS];
	unsigned nr;
};

static void take_entry(struct cursor *at, const struct line_header *header, const struct entry_format *format,
		       struct file_name *ret)
{
	*ret = (struct file_name){0};
	for (unsigned i = 0; i < format->nr; i++) {
		struct file_name part = {0};
		take_form(at, header, format->form[i], &part);
		if (format->content[i] == DW_LNCT_path) {
			ret->text = part.text;
			ret->where = part.where;
		} else if (format->content[i] == DW_LNCT_directory_index) {
			ret->directory = part.directory;
		}
	}
}

/* The directories, or the files. */
static int read_new_names(struct line_table *table, struct cursor *at, const struct line_header *header,
			  bool directories)
{
	struct entry_format format = {.nr = cursor_u8(at)};
	int err = 0;

	if (format.nr > MAX_FORMATS)
		return -EBADMSG;
	for (unsigned i = 0; i < format.nr; i++) {
		format.content[i] = cursor_uleb(at);
		format.form[i] = cursor_uleb(at);
	}
	uint64_t nr = cursor_uleb(at);
	if (at->bad || (!format.nr && nr) || nr > MAX_NAMES)
		return -EBADMSG;
	for (uint64_t i = 0; i < nr && !err && !at->bad; i++) {
		struct file_name entry;
		take_entry(at, header, &format, &entry);
		if (!at->bad)
			err = directories ? add_directory(table, &entry) : add_file(table, &entry);
	}
	return err;
}

static int read_names(struct line_table *table, struct line_header *header)
{
	if (header->version < 5)
		return read_old_names(table, &header->names);
	int err = read_new_names(table, &header->names, header, true);
	return err ? err : read_new_names(table, &header->names, header, false);
}

static int read_header(const struct line_sections *sections, uint64_t offset, struct line_header *ret)
{
	struct elf_section *section = sections->line;
	struct line_header header = {.max_operations = 1, .address_bytes = sizeof(uint64_t)};
	uint8_t first[12];
	uint64_t nr_first = elf_section_peek(section, offset, first, sizeof(first));
	struct cursor length = cursor_over((struct span){first, nr_first});

	uint64_t len = cursor_u32(&length);
	header.is_64 = len == UINT32_MAX;
	if (header.is_64)
		len = cursor_u64(&length);
	if (length.bad || offset > UINT64_MAX - sizeof(first) || len > *sections->bytes_left)
		return -EBADMSG;
	struct span rest = elf_section_part(section, offset + (header.is_64 ? 12 : 4), len);
	if (!rest.len)
		return -EBADMSG;
	*sections->bytes_left -= rest.len;
	struct cursor at = cursor_over(rest);
	header.version = cursor_u16(&at);
	if (header.version < 2 || header.version > 5)
		return -EBADMSG;
	if (header.version == 5) {
		header.address_bytes = cursor_u8(&at);
		cursor_u8(&at); /* the size of segment selectors, of which there are none */
	}
	uint64_t header_len = take_offset(&at, header.is_64);
	if (at.bad || header_len > cursor_left(&at))
		return -EBADMSG;
	header.program = (struct cursor){.at = at.at + header_len, .end = at.end};
	header.names = (struct cursor){.at = at.at, .end = at.at + header_len};
	struct cursor *front = &header.names;
	header.min_instruction = cursor_u8(front);
	if (header.version >= 4)
		header.max_operations = cursor_u8(front);
	cursor_u8(front); /* whether rows begin as statements: all count here */
	header.line_base = (int8_t)cursor_u8(front);
	header.line_range = cursor_u8(front);
	header.first_special = cursor_u8(front);
	header.lengths = cursor_take(front, header.first_special ? header.first_special - 1u : 0);
	if (front->bad || !header.line_range || !header.first_special || !header.max_operations)
		return -EBADMSG;
	*ret = header;
	return 0;
}

/* The registers of the machine that the program is for. */
struct line_state {
	uint64_t address;
	uint32_t file, line, operation;
	size_t first_row; /* of this sequence, in the table */
	bool was_sorted;  /* the table, before it */
};

static const struct line_state first_state = {.file = 1, .line = 1};

static void advance(struct line_state *state, const struct line_header *header, uint64_t operations)
{
	if (header->max_operations == 1) {
		state->address += operations * header->min_instruction;
		return;
	}
	uint64_t sum = state->operation + operations;
	state->address += header->min_instruction * (sum / header->max_operations);
	state->operation = (uint32_t)(sum % header->max_operations);
}

static int put_row(struct line_table *table, const struct line_state *state)
{
	return add_row(table, &(struct row){state->address, state->line, state->file});
}

static void begin_sequence(const struct line_table *table, struct line_state *state)
{
	*state = first_state;
	state->first_row = table->nr;
	state->was_sorted = table->sorted;
}

/*
 * Linkers leave the sequence of a function that they have left out: GNU ld and lld at 0, lld also at -1 or -2 (-z
 * dead-reloc-in-nonalloc). Its rows would overlap those of code that is there.
 */
static int end_sequence(struct line_table *table, const struct line_state *state)
{
	const struct row *first = state->first_row < table->nr ? &table->rows[state->first_row] : NULL;

	if (!first || (first->address && first->address < UINT64_MAX - 1))
		return add_row(table, &(struct row){state->address, 0, sequence_end});
	table->nr = state->first_row;
	table->sorted = state->was_sorted;
	return 0;
}

static int run_extended(struct line_table *table, const struct line_header *header, struct line_state *state,
			struct cursor *at)
{
	uint64_t len = cursor_uleb(at);
	const uint8_t *bytes = cursor_take(at, len);
	int err = 0;

	if (!bytes || !len)
		return 0;
	struct cursor operands = {.at = bytes + 1, .end = bytes + len};
	switch (bytes[0]) {
	case DW_LNE_end_sequence:
		err = end_sequence(table, state);
		begin_sequence(table, state);
		break;
	case DW_LNE_set_address:
		state->address = header->address_bytes == 4 || len == 5 ? cursor_u32(&operands) : cursor_u64(&operands);
		state->operation = 0;
		break;
	case DW_LNE_define_file: {
		const char *name = take_text(&operands);
		struct file_name file = name_here(name, cursor_uleb(&operands));
		err = operands.bad ? 0 : add_file(table, &file);
		break;
	}
	default: break;
	}
	return err;
}

/* An operation below the special ones. */
static int run_standard(struct line_table *table, const struct line_header *header, struct line_state *state,
			struct cursor *at, uint8_t operation)
{
	switch (operation) {
	case DW_LNS_copy: return put_row(table, state);
	case DW_LNS_advance_pc: advance(state, header, cursor_uleb(at)); break;
	case DW_LNS_advance_line: state->line += (uint32_t)cursor_sleb(at); break;
	case DW_LNS_set_file: state->file = (uint32_t)cursor_uleb(at); break;
	case DW_LNS_const_add_pc: advance(state, header, (255u - header->first_special) / header->line_range); break;
	case DW_LNS_fixed_advance_pc:
		state->address += cursor_u16(at);
		state->operation = 0;
		break;
	default:
		for (uint8_t i = 0; i < header->lengths[operation - 1]; i++)
			cursor_uleb(at);
	}
	return 0;
}

static int run_program(struct line_table *table, struct line_header *header)
{
	struct cursor *at = &header->program;
	struct line_state state;
	int err = 0;

	begin_sequence(table, &state);
	while (cursor_left(at) && !at->bad && !err) {
		uint8_t operation = *at->at++;
		if (operation >= header->first_special) {
			uint8_t special = (uint8_t)(operation - header->first_special);
			advance(&state, header, special / header->line_range);
			state.line += (uint32_t)(header->line_base + special % header->line_range);
			err = put_row(table, &state);
		} else if (operation) {
			err = run_standard(table, header, &state, at, operation);
		} else {
			err = run_extended(table, header, &state, at);
		}
	}
	return err;
}

/* A run of rows up to one that ends it, as functions have them. */
struct sequence {
	uint64_t address;
	size_t first, nr;
};

static int sequence_compare(const void *a, const void *b)
{
	const struct sequence *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->first < y->first ? -1 : 1;
}

static bool rows_are_sorted(const struct row *rows, size_t nr)
{
	for (size_t i = 1; i < nr; i++)
		if (rows[i].address < rows[i - 1].address)
			return false;
	return true;
}

/* What sequences hold are single rows, where they overlap or go backwards. */
static size_t find_sequences(const struct row *rows, size_t nr_rows, bool single, struct sequence *ret)
{
	size_t nr = 0;

	for (size_t i = 0; i < nr_rows; i++) {
		if (!i || single || rows[i - 1].file == sequence_end)
			ret[nr++] = (struct sequence){.address = rows[i].address, .first = i};
		ret[nr - 1].nr++;
	}
	return nr;
}

/* By address; equal ones stay in their order. The linker moves functions, but hardly ever what is in them. */
static int sort_rows(struct line_table *table)
{
	for (int single = 0; single < 2 && !table->sorted; single++) {
		AUTO_FREE struct sequence *sequences = calloc(table->nr, sizeof(*sequences));
		struct row *rows = sequences ? calloc(table->nr, sizeof(*rows)) : NULL;
		if (!rows)
			return -ENOMEM;
		size_t nr = find_sequences(table->rows, table->nr, single, sequences), at = 0;
		qsort(sequences, nr, sizeof(*sequences), sequence_compare);
		for (size_t i = 0; i < nr; at += sequences[i++].nr)
			memcpy(rows + at, table->rows + sequences[i].first, sequences[i].nr * sizeof(*rows));
		free(table->rows);
		table->rows = rows;
		table->room = table->nr;
		table->sorted = rows_are_sorted(rows, table->nr);
	}
	return 0;
}

int line_table_read(const struct line_sections *sections, uint64_t offset, struct line_table **ret)
{
	struct line_table *table = calloc(1, sizeof(*table));
	struct line_header header;

	if (!table)
		return -ENOMEM;
	table->sorted = true;
	table->line_strings = sections->line_strings;
	table->strings = sections->strings;
	int err = read_header(sections, offset, &header);
	if (!err)
		err = read_names(table, &header);
	if (!err)
		err = run_program(table, &header);
	if (!err)
		err = sort_rows(table);
	if (err == -ENOMEM) {
		line_table_free(table);
		return err;
	}
	*ret = table;
	return 0;
}

void line_table_free(struct line_table *table)
{
	if (!table)
		return;
	free(table->rows);
	free(table->files);
	free(table->directories);
	free(table);
}

bool line_table_find(const struct line_table *table, uint64_t address, uint32_t *ret_file, uint32_t *ret_line)
{
	size_t low = 0, high = table->nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (table->rows[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	const struct row *row = low ? &table->rows[low - 1] : NULL;
	if (!row || row->file == sequence_end)
		return false;
	*ret_file = row->file;
	*ret_line = row->line;
	return true;
}

bool line_table_path(const struct line_table *table, uint64_t file, const char *comp_dir, struct buf *out)
{
	const struct file_name *found = file < table->nr_files ? &table->files[file] : NULL;

	const char *name = found ? text_of(table, found) : NULL, *directory = NULL;

	if (!name || elf_text_is_too_long(name))
		return false;
	if (found->directory < table->nr_directories)
		directory = text_of(table, &table->directories[found->directory]);
	if (directory && elf_text_is_too_long(directory))
		return false;
	if (name[0] != '/') {
		if ((!directory || directory[0] != '/') && comp_dir)
			buf_printf(out, "%s/", comp_dir);
		if (directory)
			buf_printf(out, "%s/", directory);
	}
	buf_put_text(out, name);
	return true;
}
