/* SPDX-License-Identifier: MIT */
#include "export/sqlite_pages.h"

#include <endian.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum {
	DATABASE_HEADER_BYTES = 100, /* of the first page */
	AT_PAGE_BYTES = 16,
	AT_CHANGE_COUNTER = 24,
	AT_NR_PAGES = 28,
	AT_VALID_FOR = 92, /* the change counter for which the number of pages holds */
	LEAF = 0x0d,
	INTERIOR = 0x05,
	LEAF_HEADER_BYTES = 8,
	INTERIOR_HEADER_BYTES = 12,
	AT_NR_CELLS = 3,
	AT_CONTENT = 5,
	AT_RIGHT = 8,
	VARINT_MAX_BYTES = 9,
	INTERIOR_CELL_MAX_BYTES = 4 + VARINT_MAX_BYTES,
	RECORD_HEADER_MAX_BYTES = 1 + VARINT_MAX_BYTES * PAGE_COLUMNS_MAX,
	REAL_TYPE = 7,
	TEXT_TYPE = 13, /* + 2 for each byte */
	LOCK_BYTE = 1 << 30,
};

static void put_be16(uint8_t *at, size_t number)
{
	at[0] = (uint8_t)(number >> 8);
	at[1] = (uint8_t)number;
}

static void put_be32(uint8_t *at, uint32_t number)
{
	put_be16(at, number >> 16);
	put_be16(at + 2, number & 0xffff);
}

static uint32_t get_be32(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* SQLite's: most significant bits first; a ninth byte has eight bits. Returns how many bytes. */
static inline unsigned put_varint(uint8_t *at, uint64_t number)
{
	uint8_t reversed[VARINT_MAX_BYTES];
	unsigned nr = 0;

	if (number < 0x80) {
		*at = (uint8_t)number;
		return 1;
	}
	if (number >> 56) {
		at[8] = (uint8_t)number;
		number >>= 8;
		for (unsigned i = 8; i-- > 0; number >>= 7)
			at[i] = (uint8_t)(number | 0x80);
		return 9;
	}
	for (; number; number >>= 7)
		reversed[nr++] = (uint8_t)(number | 0x80);
	reversed[0] &= 0x7f;
	for (unsigned i = 0; i < nr; i++)
		at[i] = reversed[nr - 1 - i];
	return nr;
}

static unsigned get_varint(const uint8_t *at, uint64_t *ret)
{
	*ret = 0;
	for (unsigned i = 0; i < 8; i++) {
		*ret = *ret << 7 | (at[i] & 0x7f);
		if (!(at[i] & 0x80))
			return i + 1;
	}
	*ret = *ret << 8 | at[8];
	return 9;
}

static void write_page(struct sqlite_pages *pages, uint32_t number, const uint8_t *page)
{
	const struct sqlite3_io_methods *methods = pages->file->pMethods;

	if (!pages->code)
		pages->code = methods->xWrite(pages->file, page, (int)pages->page_bytes,
					      (sqlite3_int64)(number - 1) * (sqlite3_int64)pages->page_bytes);
}

int pages_begin(struct sqlite_pages *pages, struct sqlite3_file *file)
{
	uint8_t header[DATABASE_HEADER_BYTES];
	int code = file->pMethods->xRead(file, header, sizeof(header), 0);

	if (code)
		return code;
	uint32_t page_bytes = (uint32_t)header[AT_PAGE_BYTES] << 8 | header[AT_PAGE_BYTES + 1];
	*pages = (struct sqlite_pages){
		.file = file,
		.page_bytes = page_bytes == 1 ? 65536 : page_bytes,
		.nr_pages = get_be32(header + AT_NR_PAGES),
	};
	pages->lock_page = (uint32_t)(LOCK_BYTE / pages->page_bytes) + 1;
	return 0;
}

/* SQLite sees that the file is another by the counter, and forgets what it knew of its pages. */
int pages_end(struct sqlite_pages *pages)
{
	const struct sqlite3_io_methods *methods = pages->file->pMethods;
	uint8_t header[DATABASE_HEADER_BYTES];

	if (!pages->code)
		pages->code = methods->xRead(pages->file, header, sizeof(header), 0);
	if (pages->code)
		return pages->code;
	uint32_t counter = get_be32(header + AT_CHANGE_COUNTER) + 1;
	put_be32(header + AT_CHANGE_COUNTER, counter);
	put_be32(header + AT_NR_PAGES, pages->nr_pages);
	put_be32(header + AT_VALID_FOR, counter);
	return pages->code = methods->xWrite(pages->file, header, sizeof(header), 0);
}

/* ---- pages */

/* The number of the page behind `number` that may be written. */
static uint32_t next_page(const struct sqlite_pages *pages, uint32_t number)
{
	return number + (number + 1 == pages->lock_page ? 2 : 1);
}

static void append_page(struct sqlite_pages *pages, const uint8_t *page)
{
	pages->nr_pages = next_page(pages, pages->nr_pages);
	write_page(pages, pages->nr_pages, page);
}

/* false: out of memory. */
static bool begin_page(struct sqlite_pages *pages, struct page_level *level)
{
	if (!level->page)
		level->page = malloc(pages->page_bytes);
	if (!level->page && !pages->code)
		pages->code = SQLITE_NOMEM;
	level->nr_cells = 0;
	level->content = pages->page_bytes;
	return level->page;
}

/* Room for a cell of so many bytes, and its place in the list of them; NULL: the page is full. */
static uint8_t *take_cell(struct page_level *level, size_t header_bytes, size_t bytes)
{
	size_t list_end = header_bytes + 2 * (size_t)(level->nr_cells + 1);

	if (level->content < list_end + bytes)
		return NULL;
	level->content -= bytes;
	put_be16(level->page + list_end - 2, level->content);
	level->nr_cells++;
	return level->page + level->content;
}

/* The rest of the page is not used: it must not tell what was in our memory. */
static void end_page(struct page_level *level, uint8_t type)
{
	size_t header_bytes = type == LEAF ? LEAF_HEADER_BYTES : INTERIOR_HEADER_BYTES;
	size_t list_end = header_bytes + 2 * (size_t)level->nr_cells;
	uint8_t *page = level->page;

	memset(page, 0, LEAF_HEADER_BYTES);
	page[0] = type;
	put_be16(page + AT_NR_CELLS, level->nr_cells);
	put_be16(page + AT_CONTENT, level->content); /* 0 is 65536 */
	if (type == INTERIOR)
		put_be32(page + AT_RIGHT, level->number);
	memset(page + list_end, 0, level->content - list_end);
}

static bool put_interior_cell(struct page_level *level, uint32_t number, uint64_t key)
{
	uint8_t cell[INTERIOR_CELL_MAX_BYTES];

	put_be32(cell, number);
	size_t bytes = 4 + put_varint(cell + 4, key);
	uint8_t *at = take_cell(level, INTERIOR_HEADER_BYTES, bytes);
	if (at)
		memcpy(at, cell, bytes);
	return at;
}

/*
 * A page below is complete: its greatest rowid is `key`. The newest of them is that to the right of all cells. A page
 * without a cell is damaged to SQLite: of a full one the last cell becomes its right one, so that the next page begins
 * with two.
 */
static void add_child(struct sqlite_pages *pages, struct page_table *table, unsigned at, uint32_t number, uint64_t key)
{
	for (; at < PAGE_LEVELS_MAX && !pages->code; at++) {
		struct page_level *level = &table->levels[at];
		if (!level->page && !begin_page(pages, level))
			return;
		if (!level->number || put_interior_cell(level, level->number, level->key)) {
			level->number = number;
			level->key = key;
			return;
		}
		uint32_t newest = level->number;
		uint64_t newest_key = level->key, full_key;
		const uint8_t *last = level->page + level->content;
		level->number = get_be32(last);
		size_t bytes = 4 + get_varint(last + 4, &full_key);
		level->content += bytes;
		level->nr_cells--;
		end_page(level, INTERIOR);
		append_page(pages, level->page);
		if (!begin_page(pages, level))
			return;
		put_interior_cell(level, newest, newest_key);
		level->number = number;
		level->key = key;
		number = pages->nr_pages; /* what was written goes into the level above */
		key = full_key;
	}
	if (!pages->code)
		pages->code = SQLITE_FULL;
}

static void write_leaf(struct sqlite_pages *pages, struct page_table *table)
{
	struct page_level *leaf = &table->levels[0];

	end_page(leaf, LEAF);
	append_page(pages, leaf->page);
	add_child(pages, table, 1, pages->nr_pages, leaf->key);
	begin_page(pages, leaf);
}

void pages_finish(struct sqlite_pages *pages, struct page_table *table)
{
	for (unsigned at = 0; at < PAGE_LEVELS_MAX && !pages->code && table->levels[at].page; at++) {
		struct page_level *level = &table->levels[at];
		bool top = at + 1 == PAGE_LEVELS_MAX || !table->levels[at + 1].page;
		end_page(level, at ? INTERIOR : LEAF);
		if (top) {
			write_page(pages, table->root, level->page);
		} else {
			append_page(pages, level->page);
			add_child(pages, table, at + 1, pages->nr_pages, level->key);
		}
	}
	page_table_fini(table);
}

void page_table_fini(struct page_table *table)
{
	for (unsigned at = 0; at < PAGE_LEVELS_MAX; at++)
		free(table->levels[at].page);
	*table = (struct page_table){0};
}

/* ---- rows */

/* The type of an integer, and its bytes. */
static uint8_t integer_type(int64_t value, unsigned *ret_bytes)
{
	static const uint8_t bytes_of[9] = {0, 1, 2, 3, 4, 6, 6, 8, 8}, type_of[9] = {0, 1, 2, 3, 4, 5, 5, 6, 6};
	uint64_t magnitude = (uint64_t)(value < 0 ? ~value : value);

	*ret_bytes = 0;
	if (magnitude == (uint64_t)value && magnitude <= 1)
		return (uint8_t)(8 + value);
	unsigned bits = magnitude ? 65 - (unsigned)__builtin_clzll(magnitude) : 1; /* and the sign */
	*ret_bytes = bytes_of[(bits + 7) / 8];
	return type_of[(bits + 7) / 8];
}

/* A row as it is stored, but for its texts. */
struct row_shape {
	uint8_t header[RECORD_HEADER_MAX_BYTES];
	uint8_t numbers[8 * (PAGE_COLUMNS_MAX + 1)]; /* behind each other; eight bytes are stored of each */
	uint8_t number_bytes[PAGE_COLUMNS_MAX];
	size_t header_bytes, numbers_bytes, bytes; /* bytes: of all */
	unsigned nr_columns;
};

static void measure_row(const struct page_value values[], unsigned nr, struct row_shape *ret)
{
	size_t text_bytes = 0;

	ret->header_bytes = 1;
	ret->numbers_bytes = 0;
	ret->nr_columns = nr;
	for (unsigned i = 0; i < nr; i++) {
		uint64_t type = 0;
		unsigned bytes = 0;
		if (values[i].type == PAGE_INTEGER) {
			type = integer_type(values[i].integer, &bytes);
			uint64_t stored = bytes ? htobe64((uint64_t)values[i].integer << (64 - 8 * bytes)) : 0;
			memcpy(ret->numbers + ret->numbers_bytes, &stored, sizeof(stored));
			ret->numbers_bytes += bytes;
		} else if (values[i].type == PAGE_REAL) {
			uint64_t stored;
			type = REAL_TYPE;
			bytes = sizeof(stored);
			memcpy(&stored, &values[i].real, sizeof(stored));
			stored = htobe64(stored);
			memcpy(ret->numbers + ret->numbers_bytes, &stored, sizeof(stored));
			ret->numbers_bytes += bytes;
		} else if (values[i].type == PAGE_TEXT) {
			type = TEXT_TYPE + 2 * (uint64_t)values[i].len;
			text_bytes += values[i].len;
		}
		ret->number_bytes[i] = (uint8_t)bytes;
		ret->header_bytes += put_varint(ret->header + ret->header_bytes, type);
	}
	ret->header[0] = (uint8_t)ret->header_bytes; /* of PAGE_COLUMNS_MAX columns it is less than 128 */
	ret->bytes = ret->header_bytes + ret->numbers_bytes + text_bytes;
}

static void put_row(uint8_t *at, const struct row_shape *shape, const struct page_value values[])
{
	const uint8_t *numbers = shape->numbers;

	memcpy(at, shape->header, shape->header_bytes);
	at += shape->header_bytes;
	if (shape->bytes == shape->header_bytes + shape->numbers_bytes) {
		memcpy(at, numbers, shape->numbers_bytes);
		return;
	}
	for (unsigned i = 0; i < shape->nr_columns; i++) {
		bool is_text = values[i].type == PAGE_TEXT;
		size_t bytes = is_text ? values[i].len : shape->number_bytes[i];
		memcpy(at, is_text ? (const void *)values[i].text : numbers, bytes);
		at += bytes;
		numbers += is_text ? 0 : bytes;
	}
}

/* How much of a row that is too long for a page stays in its cell. Source: "B-tree Pages", cell payload overflow. */
static size_t local_bytes(size_t page_bytes, size_t bytes)
{
	size_t least = (page_bytes - 12) * 32 / 255 - 23, more = least + (bytes - least) % (page_bytes - 4);

	return more <= page_bytes - 35 ? more : least;
}

/* The rest of it, in a chain of pages of their own. Returns the number of the first one. */
static uint32_t write_overflow(struct sqlite_pages *pages, const uint8_t *rest, size_t left)
{
	AUTO_FREE uint8_t *page = malloc(pages->page_bytes);
	uint32_t first = next_page(pages, pages->nr_pages);
	size_t room = pages->page_bytes - 4;

	if (!page && !pages->code)
		pages->code = SQLITE_NOMEM;
	while (page && left && !pages->code) {
		size_t bytes = left < room ? left : room;
		uint32_t number = next_page(pages, pages->nr_pages);
		put_be32(page, left > room ? next_page(pages, number) : 0);
		memcpy(page + 4, rest, bytes);
		memset(page + 4 + bytes, 0, room - bytes);
		append_page(pages, page);
		rest += bytes;
		left -= bytes;
	}
	return first;
}

/* A cell of the leaf for a row of so many bytes, of which `local` are in it: their place. NULL: pages->code. */
static uint8_t *begin_cell(struct sqlite_pages *pages, struct page_table *table, uint64_t rowid, size_t bytes,
			   size_t local)
{
	struct page_level *leaf = &table->levels[0];
	uint8_t head[2 * VARINT_MAX_BYTES];
	unsigned head_bytes = put_varint(head, bytes);

	head_bytes += put_varint(head + head_bytes, rowid);
	if (!leaf->page && !begin_page(pages, leaf))
		return NULL;
	uint8_t *cell = take_cell(leaf, LEAF_HEADER_BYTES, head_bytes + local);
	if (!cell) {
		write_leaf(pages, table);
		cell = pages->code ? NULL : take_cell(leaf, LEAF_HEADER_BYTES, head_bytes + local);
	}
	if (!cell)
		return NULL;
	memcpy(cell, head, head_bytes);
	leaf->key = rowid;
	return cell + head_bytes;
}

static void put_long_row(struct sqlite_pages *pages, struct page_table *table, uint64_t rowid,
			 const struct row_shape *shape, const struct page_value values[])
{
	size_t local = local_bytes(pages->page_bytes, shape->bytes);
	AUTO_FREE uint8_t *row = malloc(shape->bytes);

	if (!row) {
		pages->code = SQLITE_NOMEM;
		return;
	}
	put_row(row, shape, values);
	uint32_t overflow = write_overflow(pages, row + local, shape->bytes - local);
	uint8_t *cell = begin_cell(pages, table, rowid, shape->bytes, local + 4);
	if (cell) {
		memcpy(cell, row, local);
		put_be32(cell + local, overflow);
	}
}

void pages_put(struct sqlite_pages *pages, struct page_table *table, uint64_t rowid, const struct page_value values[],
	       unsigned nr)
{
	struct row_shape shape;

	if (pages->code)
		return;
	while (nr && values[nr - 1].type == PAGE_NULL) /* columns that a row does not have are NULL */
		nr--;
	measure_row(values, nr, &shape);
	if (shape.bytes > pages->page_bytes - 35) {
		put_long_row(pages, table, rowid, &shape, values);
		return;
	}
	uint8_t *cell = begin_cell(pages, table, rowid, shape.bytes, shape.bytes);
	if (cell)
		put_row(cell, &shape, values);
}
