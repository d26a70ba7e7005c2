/* SPDX-License-Identifier: MIT */
#include "analyze/dwarf/line_table.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/dwarf/elf_section.h"
#include "base/buf.h"
#include "base/cleanup.h"

enum {
	MAX_ROWS = 1 << 26,
	MAX_NAMES = 1 << 20,
	MAX_FORMATS = 16,
	/* How far marks are from one another: rows, and bytes of the program. */
	MARK_ROWS = 64,
	MOST_MARK_BYTES = 4096,
};

/* The code from `address` on, up to the next row. */
struct row {
	uint64_t address;
	uint32_t line, file;
};
static const uint32_t sequence_end = UINT32_MAX; /* a file: no code follows */

/*
 * A row, and where the program goes on behind it. Of all rows only these are kept: the program is run again from the
 * one before an address.
 */
struct mark {
	uint64_t address;
	uint32_t line, file, operation;
	uint32_t at; /* in the program */
};

/* A run of rows up to one that ends it, as functions have them. */
struct sequence {
	uint64_t address, end; /* of the first and the last row */
	uint32_t number, first_mark, nr_marks;
	bool has_end; /* the last row is one that ends it */
};

/* A name, which is looked up when it is needed: units have some hundreds, of which few are. */
struct file_name {
	uint64_t text;      /* an offset, or a pointer */
	uint32_t directory; /* UINT32_MAX: it has none */
	enum { NO_TEXT, TEXT_HERE, TEXT_OF_LINES, TEXT_OF_ENTRIES } where : 8;
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

struct line_table {
	struct line_header header;
	struct sequence *sequences; /* by address, and not over one another */
	size_t nr_sequences, sequences_room;
	struct mark *marks; /* of them */
	size_t nr_marks, marks_room;
	struct row *rows; /* by address: all, where sequences overlap or go backwards; NULL: there are only marks */
	size_t nr, room;
	struct file_name *files; /* as they are counted */
	size_t nr_files, files_room;
	struct file_name *directories; /* likewise */
	size_t nr_directories, directories_room;
	struct elf_section *line_strings, *strings; /* borrowed */
	bool sorted;
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

/* What the program does next. */
enum line_event {
	LINE_GOES_ON,
	LINE_ROW,
	LINE_SEQUENCE_END, /* with a row */
	LINE_PROGRAM_END,
	LINE_NO_MEMORY,
};

/* files: takes what the program defines; NULL: it has that already. */
static enum line_event run_extended(const struct line_header *header, struct line_table *files,
				    struct line_state *state, struct cursor *at)
{
	uint64_t len = cursor_uleb(at);
	const uint8_t *bytes = cursor_take(at, len);

	if (!bytes || !len)
		return LINE_GOES_ON;
	struct cursor operands = {.at = bytes + 1, .end = bytes + len};
	switch (bytes[0]) {
	case DW_LNE_end_sequence: return LINE_SEQUENCE_END;
	case DW_LNE_set_address:
		state->address = header->address_bytes == 4 || len == 5 ? cursor_u32(&operands) : cursor_u64(&operands);
		state->operation = 0;
		break;
	case DW_LNE_define_file: {
		const char *name = take_text(&operands);
		struct file_name file = name_here(name, cursor_uleb(&operands));
		if (files && !operands.bad && add_file(files, &file))
			return LINE_NO_MEMORY;
		break;
	}
	default: break;
	}
	return LINE_GOES_ON;
}

static enum line_event run_any(const struct line_header *header, struct line_table *files, struct line_state *state,
			       struct cursor *at, uint8_t operation)
{
	if (operation >= header->first_special) {
		uint8_t special = (uint8_t)(operation - header->first_special);
		advance(state, header, special / header->line_range);
		state->line += (uint32_t)(header->line_base + special % header->line_range);
		return LINE_ROW;
	}
	switch (operation) {
	case 0: return run_extended(header, files, state, at);
	case DW_LNS_copy: return LINE_ROW;
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
	return LINE_GOES_ON;
}

/* What most operations come down to, where instructions have one operation each. */
struct operation {
	uint32_t address, line; /* which are added */
	enum {
		OPERATION_ROW,
		OPERATION_ADDS,
		OPERATION_FILE,   /* has one number: of a file */
		OPERATION_LINE,   /* what is added to the line */
		OPERATION_NUMBER, /* that is not needed */
		OPERATION_OTHER,
	} kind;
	uint32_t unused; /* addresses of 16 bytes each are faster */
};

struct operations {
	const struct line_header *header;
	struct operation of[UINT8_MAX + 1];
};

static void find_standard(const struct line_header *header, uint8_t operation, struct operation *ret)
{
	const uint8_t nr_numbers = header->lengths[operation - 1];

	switch (operation) {
	case DW_LNS_copy: ret->kind = OPERATION_ROW; break;
	case DW_LNS_advance_line: ret->kind = OPERATION_LINE; break;
	case DW_LNS_set_file: ret->kind = OPERATION_FILE; break;
	case DW_LNS_const_add_pc:
		ret->address = (255u - header->first_special) / header->line_range * header->min_instruction;
		ret->kind = OPERATION_ADDS;
		break;
	case DW_LNS_advance_pc:
	case DW_LNS_fixed_advance_pc: break;
	default:
		if (nr_numbers <= 1)
			ret->kind = nr_numbers ? OPERATION_NUMBER : OPERATION_ADDS;
	}
}

static void find_operations(const struct line_header *header, struct operations *ret)
{
	const unsigned first_special = header->max_operations == 1 ? header->first_special : UINT8_MAX + 1;
	uint32_t address = 0;

	ret->header = header;
	for (unsigned i = 0; i < first_special; i++)
		ret->of[i] = (struct operation){.kind = OPERATION_OTHER};
	for (unsigned i = 1; i < header->first_special && header->max_operations == 1; i++)
		find_standard(header, (uint8_t)i, &ret->of[i]);
	for (unsigned i = first_special; i <= UINT8_MAX; address += header->min_instruction)
		for (uint32_t line = 0; line < header->line_range && i <= UINT8_MAX; line++, i++)
			ret->of[i] = (struct operation){.address = address, .line = (uint32_t)header->line_base + line};
}

static bool is_discriminator(const uint8_t *next, const uint8_t *end)
{
	return end - next >= 2 && next[0] < 0x80 && next[0] && next[1] == DW_LNE_set_discriminator &&
	       end - next > next[0];
}

/*
 * Runs the program up to the last one of some rows, or one that goes back behind the one before, whose address *last
 * is. Inlined, so that the registers are the processor's.
 */
static inline __attribute__((always_inline)) enum line_event run(const struct operations *operations, unsigned rows,
								 uint64_t *last, struct line_table *files,
								 struct line_state *state, struct cursor *at)
{
	const uint8_t *next = at->at, *const end = at->end;
	enum line_event event = LINE_PROGRAM_END;

	while (next < end) {
		const uint8_t operation = *next++;
		const struct operation *known = &operations->of[operation];
		state->address += known->address;
		state->line += known->line;
		if (known->kind == OPERATION_ROW) {
			if (state->address < *last || !--rows) {
				event = LINE_ROW;
				break;
			}
			*last = state->address;
		} else if (known->kind == OPERATION_ADDS) {
			continue;
		} else if (known->kind != OPERATION_OTHER && next < end && *next < 0x80) {
			const uint32_t number = *next++;
			if (known->kind == OPERATION_FILE)
				state->file = number;
			else if (known->kind == OPERATION_LINE)
				state->line += number < 0x40 ? number : number - 0x80;
		} else if (!operation && is_discriminator(next, end)) {
			next += 1 + *next;
		} else {
			struct line_state copy = *state;
			struct cursor rest = {.at = next, .end = end};
			enum line_event other = run_any(operations->header, files, &copy, &rest, operation);
			next = rest.bad ? end : rest.at;
			*state = copy;
			if (other == LINE_GOES_ON)
				continue;
			if (other == LINE_ROW && state->address >= *last && --rows) {
				*last = state->address;
				continue;
			}
			event = other;
			break;
		}
	}
	at->at = next;
	return event;
}

/* The same, up to the next row. */
static enum line_event run_to_row(const struct operations *operations, struct line_table *files,
				  struct line_state *state, struct cursor *at)
{
	uint64_t last = 0;

	return run(operations, 1, &last, files, state, at);
}

/* The same for a few rows, for which to find what operations come down to takes longer than to run them. */
static enum line_event run_few(const struct line_header *header, struct line_state *state, struct cursor *at)
{
	enum line_event event = LINE_GOES_ON;

	while (event == LINE_GOES_ON && cursor_left(at) && !at->bad) {
		const uint8_t operation = cursor_u8(at);
		event = run_any(header, NULL, state, at, operation);
	}
	return event == LINE_GOES_ON ? LINE_PROGRAM_END : event;
}

/*
 * Linkers leave the sequence of a function that they have left out: GNU ld and lld at 0, lld also at -1 or -2 (-z
 * dead-reloc-in-nonalloc). Its rows would overlap those of code that is there.
 */
static bool is_left_out(uint64_t first_address)
{
	return !first_address || first_address >= UINT64_MAX - 1;
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

static int read_rows(struct line_table *table, const struct operations *operations)
{
	struct line_state state = first_state;
	struct cursor at = table->header.program;
	size_t first = 0; /* of the sequence */
	bool was_sorted = true;
	enum line_event event;
	int err = 0;

	table->sorted = true;
	while (!err && (event = run_to_row(operations, table, &state, &at)) != LINE_PROGRAM_END) {
		if (event == LINE_NO_MEMORY)
			return -ENOMEM;
		if (event == LINE_ROW) {
			err = add_row(table, &(struct row){state.address, state.line, state.file});
			continue;
		}
		if (first < table->nr && is_left_out(table->rows[first].address)) {
			table->nr = first;
			table->sorted = was_sorted;
		} else {
			err = add_row(table, &(struct row){state.address, 0, sequence_end});
		}
		state = first_state;
		first = table->nr;
		was_sorted = table->sorted;
	}
	return err;
}

/* Of rows: where sequences are. */
struct rows_part {
	uint64_t address;
	size_t first, nr;
};

static int part_compare(const void *a, const void *b)
{
	const struct rows_part *x = a, *y = b;

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
static size_t find_parts(const struct row *rows, size_t nr_rows, bool single, struct rows_part *ret)
{
	size_t nr = 0;

	for (size_t i = 0; i < nr_rows; i++) {
		if (!i || single || rows[i - 1].file == sequence_end)
			ret[nr++] = (struct rows_part){.address = rows[i].address, .first = i};
		ret[nr - 1].nr++;
	}
	return nr;
}

/* By address; equal ones stay in their order. */
static int sort_rows(struct line_table *table)
{
	for (int single = 0; single < 2 && !table->sorted; single++) {
		AUTO_FREE struct rows_part *parts = calloc(table->nr, sizeof(*parts));
		struct row *rows = parts ? calloc(table->nr, sizeof(*rows)) : NULL;
		if (!rows)
			return -ENOMEM;
		size_t nr = find_parts(table->rows, table->nr, single, parts), at = 0;
		qsort(parts, nr, sizeof(*parts), part_compare);
		for (size_t i = 0; i < nr; at += parts[i++].nr)
			memcpy(rows + at, table->rows + parts[i].first, parts[i].nr * sizeof(*rows));
		free(table->rows);
		table->rows = rows;
		table->room = table->nr;
		table->sorted = rows_are_sorted(rows, table->nr);
	}
	return 0;
}

/* A pass over the program, which finds its sequences. */
struct scan {
	struct line_table *table;
	struct sequence sequence; /* the one that has begun; its end is the last row */
	bool goes_back, is_odd;   /* the sequence; any: then rows are needed */
};

static uint32_t place_of(const struct scan *scan, const uint8_t *at)
{
	return (uint32_t)(at - scan->table->header.program.at); /* see read_program() */
}

/* Since the last mark. */
static uint32_t bytes_since(const struct scan *scan, const uint8_t *at)
{
	return place_of(scan, at) - scan->table->marks[scan->table->nr_marks - 1].at;
}

/* At a row. */
static int add_mark(struct scan *scan, const struct line_state *state, const uint8_t *at)
{
	struct line_table *table = scan->table;
	struct sequence *sequence = &scan->sequence;

	if (!sequence->nr_marks)
		sequence->address = state->address;
	else
		scan->goes_back |= state->address < sequence->end || bytes_since(scan, at) > MOST_MARK_BYTES;
	sequence->end = state->address;
	if (array_room_up_to(table->marks, table->nr_marks, table->marks_room, MAX_ROWS))
		return -ENOMEM;
	table->marks[table->nr_marks++] =
		(struct mark){state->address, state->line, state->file, state->operation, place_of(scan, at)};
	sequence->nr_marks++;
	return 0;
}

/* has_end: with a row, at an address. */
static int end_sequence(struct scan *scan, bool has_end, uint64_t address, const uint8_t *at)
{
	struct line_table *table = scan->table;
	struct sequence *sequence = &scan->sequence;
	int err = 0;

	if (has_end && sequence->nr_marks && is_left_out(sequence->address)) {
		table->nr_marks = sequence->first_mark;
	} else if (has_end || sequence->nr_marks) {
		if (sequence->nr_marks)
			scan->is_odd |= scan->goes_back || (has_end && address < sequence->end) ||
					bytes_since(scan, at) > MOST_MARK_BYTES;
		else
			sequence->address = address;
		if (has_end)
			sequence->end = address;
		sequence->has_end = has_end;
		sequence->number = (uint32_t)table->nr_sequences;
		if (array_room_up_to(table->sequences, table->nr_sequences, table->sequences_room, MAX_ROWS))
			err = -ENOMEM;
		else
			table->sequences[table->nr_sequences++] = *sequence;
	}
	*sequence = (struct sequence){.first_mark = (uint32_t)table->nr_marks};
	scan->goes_back = false;
	return err;
}

static int scan_program(struct scan *scan, const struct operations *operations)
{
	struct line_table *table = scan->table;
	struct line_state state = first_state;
	struct cursor at = table->header.program;
	unsigned rows = 1; /* up to one with a mark: the first one of each sequence has one */
	uint64_t last = 0; /* of the rows */
	enum line_event event;
	int err = 0;

	while (!err && (event = run(operations, rows, &last, table, &state, &at)) != LINE_PROGRAM_END) {
		const struct line_state copy = state;
		scan->sequence.end = last;
		if (event == LINE_ROW) {
			err = add_mark(scan, &copy, at.at);
			rows = MARK_ROWS;
			last = copy.address;
		} else if (event == LINE_SEQUENCE_END) {
			err = end_sequence(scan, true, copy.address, at.at);
			rows = 1;
			state = first_state;
		} else {
			err = -ENOMEM;
		}
	}
	scan->sequence.end = last;
	return err ? err : end_sequence(scan, false, 0, at.at);
}

static int sequence_compare(const void *a, const void *b)
{
	const struct sequence *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->number < y->number ? -1 : 1;
}

/* The linker moves functions. false: some are over one another. */
static bool sort_sequences(struct line_table *table)
{
	struct sequence *sequences = table->sequences;
	bool sorted = true;

	for (size_t i = 1; i < table->nr_sequences && sorted; i++)
		sorted = sequences[i - 1].address <= sequences[i].address;
	if (!sorted)
		qsort(sequences, table->nr_sequences, sizeof(*sequences), sequence_compare);
	for (size_t i = 1; i < table->nr_sequences; i++)
		if (sequences[i - 1].end > sequences[i].address)
			return false;
	return true;
}

static int read_program(struct line_table *table)
{
	struct scan scan = {.table = table};
	struct operations operations;
	const size_t nr_files = table->nr_files;
	int err = 0;

	find_operations(&table->header, &operations);
	if (cursor_left(&table->header.program) > UINT32_MAX)
		scan.is_odd = true;
	else
		err = scan_program(&scan, &operations);
	if (err || (!scan.is_odd && sort_sequences(table)))
		return err;
	free(table->sequences);
	free(table->marks);
	table->sequences = NULL;
	table->marks = NULL;
	table->nr_sequences = table->nr_marks = 0;
	table->nr_files = nr_files; /* without those that the program defines */
	err = read_rows(table, &operations);
	return err ? err : sort_rows(table);
}

int line_table_read(const struct line_sections *sections, uint64_t offset, struct line_table **ret)
{
	struct line_table *table = calloc(1, sizeof(*table));

	if (!table)
		return -ENOMEM;
	table->line_strings = sections->line_strings;
	table->strings = sections->strings;
	int err = read_header(sections, offset, &table->header);
	if (!err)
		err = read_names(table, &table->header);
	if (!err)
		err = read_program(table);
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
	free(table->sequences);
	free(table->marks);
	free(table->rows);
	free(table->files);
	free(table->directories);
	free(table);
}

static bool find_row(const struct line_table *table, uint64_t address, uint32_t *ret_file, uint32_t *ret_line)
{
	const size_t behind = partition_point(table->nr, i, table->rows[i].address <= address);
	const struct row *row = behind ? &table->rows[behind - 1] : NULL;
	if (!row || row->file == sequence_end)
		return false;
	*ret_file = row->file;
	*ret_line = row->line;
	return true;
}

/* The last one that begins at an address or before it. NULL: none. */
static const struct sequence *find_sequence(const struct line_table *table, uint64_t address)
{
	const size_t behind = partition_point(table->nr_sequences, i, table->sequences[i].address <= address);
	return behind ? &table->sequences[behind - 1] : NULL;
}

bool line_table_find(const struct line_table *table, uint64_t address, uint32_t *ret_file, uint32_t *ret_line)
{
	const struct sequence *sequence = find_sequence(table, address);

	if (table->rows)
		return find_row(table, address, ret_file, ret_line);
	if (!sequence || (sequence->has_end && address >= sequence->end))
		return false;
	const struct mark *marks = table->marks + sequence->first_mark;
	/* The first one has the address of the sequence. */
	const struct mark *mark = marks + partition_point(sequence->nr_marks - 1, i, marks[i + 1].address <= address);
	struct line_state state = {mark->address, mark->file, mark->line, mark->operation}, found;
	struct cursor at = table->header.program;
	cursor_take(&at, mark->at);
	do
		found = state;
	while (run_few(&table->header, &state, &at) == LINE_ROW && state.address <= address);
	*ret_file = found.file;
	*ret_line = found.line;
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
