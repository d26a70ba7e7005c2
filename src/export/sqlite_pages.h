/* SPDX-License-Identifier: MIT */
/*
 * sqlite_pages: rows of tables written as pages of an SQLite database, without SQLite, which takes ten times as long to
 * insert a row. For tables with rowids, whose rows come in the order of these. One owner, one thread.
 *
 * SQLite makes the database with empty tables, and does nothing with it from pages_begin() to pages_end(); then it goes
 * on. Source of the format: sqlite.org/fileformat2.html, "B-tree Pages", "Record Format".
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct sqlite3_file;

/* A page that is being filled. */
struct page_level {
	uint8_t *page; /* heap; NULL: there is none */
	unsigned nr_cells;
	size_t content;  /* where the newest cell begins */
	uint64_t key;    /* the rowid of the newest row, or of the newest page below, */
	uint32_t number; /* whose number this is; 0: none */
};

enum { PAGE_LEVELS_MAX = 10, PAGE_COLUMNS_MAX = 8 };

enum page_type { PAGE_NULL, PAGE_INTEGER, PAGE_REAL, PAGE_TEXT };

/* Of a column. */
struct page_value {
	enum page_type type;
	int64_t integer;
	double real;
	const char *text;
	size_t len;
};

struct page_table {
	uint32_t root; /* its page, by sqlite_schema */
	struct page_level levels[PAGE_LEVELS_MAX];
};

struct sqlite_pages {
	struct sqlite3_file *file; /* borrowed */
	size_t page_bytes;
	uint32_t nr_pages;  /* of the file */
	uint32_t lock_page; /* that SQLite locks bytes of, at 1 GiB: nothing is in it ("The Lock-Byte Page") */
	int code;           /* SQLite's, of what failed first; then nothing more is written */
};

/* 0, or an SQLite result code. */
int pages_begin(struct sqlite_pages *pages, struct sqlite3_file *file);

/*
 * A row: NULL, numbers and texts in UTF-8, at most PAGE_COLUMNS_MAX. `rowid` is greater than that of the row before;
 * in a table whose id is an INTEGER PRIMARY KEY that column is PAGE_NULL. Failures are kept in pages->code.
 */
void pages_put(struct sqlite_pages *pages, struct page_table *table, uint64_t rowid, const struct page_value values[],
	       unsigned nr);

/* The table is complete; its memory is freed. */
void pages_finish(struct sqlite_pages *pages, struct page_table *table);
void page_table_fini(struct page_table *table); /* after a failure; zeroed is fine */

/* All tables are. 0, or pages->code. */
int pages_end(struct sqlite_pages *pages);
