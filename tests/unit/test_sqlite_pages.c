/* SPDX-License-Identifier: MIT */
/* sqlite_pages: what it writes is what SQLite reads, and SQLite finds nothing wrong with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "export/sqlite_pages.h"

static sqlite3 *open_database(const char *setup, struct sqlite_pages *pages)
{
	sqlite3 *db;
	sqlite3_file *file;

	assert_int_equal(sqlite3_open_v2("file:test?vfs=memdb", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI, NULL),
			 SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, setup, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file), SQLITE_OK);
	assert_int_equal(pages_begin(pages, file), SQLITE_OK);
	return db;
}

static int64_t ask(sqlite3 *db, const char *text)
{
	sqlite3_stmt *stmt;

	assert_int_equal(sqlite3_prepare_v2(db, text, -1, &stmt, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	int64_t number = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	return number;
}

static void assert_sound(sqlite3 *db)
{
	assert_int_equal(ask(db, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"), 1);
}

static struct page_value integer(int64_t number)
{
	return (struct page_value){.type = PAGE_INTEGER, .integer = number};
}

/* Every number of pages that a level can end with: the smallest page that SQLite has, any number of rows. */
static void test_levels(void **state)
{
	static const unsigned counts[] = {0, 1, 40, 41, 42, 500, 3000, 3001, 3100, 100000};

	(void)state;
	for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct sqlite_pages pages;
		struct page_table table = {.root = 2};
		sqlite3 *db = open_database("PRAGMA page_size = 512; CREATE TABLE t (a, b)", &pages);
		for (unsigned row = 1; row <= counts[i]; row++)
			pages_put(&pages, &table, 3 * row, (struct page_value[]){integer(row), {.type = PAGE_NULL}}, 2);
		pages_finish(&pages, &table);
		assert_int_equal(pages_end(&pages), SQLITE_OK);
		assert_sound(db);
		assert_int_equal(ask(db, "SELECT count(*) FROM t WHERE rowid = 3 * a AND b IS NULL"), counts[i]);
		assert_int_equal(ask(db, "SELECT coalesce(max(rowid), 0) FROM t"), 3 * counts[i]);
		sqlite3_close(db);
	}
}

/* Two tables at once, and SQLite before and after it. */
static void test_goes_on(void **state)
{
	struct sqlite_pages pages;
	struct page_table tables[] = {{.root = 2}, {.root = 3}};
	sqlite3 *db = open_database("CREATE TABLE a (id INTEGER PRIMARY KEY, x); CREATE TABLE b (y, z);"
				    "CREATE TABLE c (w); INSERT INTO c VALUES ('before')",
				    &pages);

	(void)state;
	for (unsigned row = 1; row <= 5000; row++) {
		pages_put(&pages, &tables[0], row, (struct page_value[]){{.type = PAGE_NULL}, integer(2 * row)}, 2);
		pages_put(&pages, &tables[1], row, (struct page_value[]){integer(-(int64_t)row), integer(0)}, 2);
	}
	pages_finish(&pages, &tables[1]);
	pages_finish(&pages, &tables[0]);
	assert_int_equal(pages_end(&pages), SQLITE_OK);
	assert_int_equal(ask(db, "SELECT count(*) FROM a JOIN b ON a.id = b.rowid WHERE x = 2 * id AND y = -id"), 5000);
	assert_int_equal(sqlite3_exec(db, "INSERT INTO a VALUES (NULL, 7); INSERT INTO c VALUES ('after')", 0, 0, 0),
			 SQLITE_OK);
	assert_int_equal(ask(db, "SELECT max(id) FROM a"), 5001);
	assert_int_equal(ask(db, "SELECT count(*) FROM c"), 2);
	assert_sound(db);
	sqlite3_close(db);
}

static void test_integers(void **state)
{
	struct sqlite_pages pages;
	struct page_table table = {.root = 2};
	sqlite3 *db = open_database("CREATE TABLE t (a, b)", &pages);
	sqlite3_stmt *stmt;
	int64_t numbers[4 * 64];
	unsigned nr = 0;

	(void)state;
	for (unsigned bit = 0; bit < 64; bit++) {
		numbers[nr++] = (int64_t)(UINT64_C(1) << bit);
		numbers[nr++] = (int64_t)((UINT64_C(1) << bit) - 1);
		numbers[nr++] = (int64_t) - (UINT64_C(1) << bit);
		numbers[nr++] = (int64_t) ~(UINT64_C(1) << bit);
	}
	for (unsigned i = 0; i < nr; i++)
		pages_put(&pages, &table, i + 1, (struct page_value[]){integer(numbers[i]), integer(i)}, 2);
	pages_finish(&pages, &table);
	assert_int_equal(pages_end(&pages), SQLITE_OK);
	assert_sound(db);
	assert_int_equal(sqlite3_prepare_v2(db, "SELECT a, b, typeof(a) FROM t", -1, &stmt, NULL), SQLITE_OK);
	for (unsigned i = 0; i < nr; i++) {
		assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
		assert_int_equal(sqlite3_column_int64(stmt, 0), numbers[i]);
		assert_int_equal(sqlite3_column_int64(stmt, 1), i);
		assert_string_equal((const char *)sqlite3_column_text(stmt, 2), "integer");
	}
	sqlite3_finalize(stmt);
	sqlite3_close(db);
}

static void test_reals(void **state)
{
	static const double numbers[] = {9223372036854775808.0, 18446744073709551615.0, -1.5, 0};
	struct sqlite_pages pages;
	struct page_table table = {.root = 2};
	sqlite3 *db = open_database("CREATE TABLE t (a, b INTEGER, c)", &pages);
	sqlite3_stmt *stmt;

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		pages_put(&pages, &table, i + 1,
			  (struct page_value[]){{.type = PAGE_TEXT, .text = "text", .len = 4},
						{.type = PAGE_REAL, .real = numbers[i]},
						integer(i)},
			  3);
	pages_finish(&pages, &table);
	assert_int_equal(pages_end(&pages), SQLITE_OK);
	assert_sound(db);
	assert_int_equal(sqlite3_prepare_v2(db, "SELECT a, b, c, typeof(b) FROM t", -1, &stmt, NULL), SQLITE_OK);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
		assert_string_equal((const char *)sqlite3_column_text(stmt, 0), "text");
		double found = sqlite3_column_double(stmt, 1);
		assert_memory_equal(&found, &numbers[i], sizeof(found));
		assert_int_equal(sqlite3_column_int64(stmt, 2), i);
		assert_string_equal((const char *)sqlite3_column_text(stmt, 3), "real");
	}
	sqlite3_finalize(stmt);
	sqlite3_close(db);
}

/* Of every length around those at which a row leaves its page. */
static void test_texts(void **state)
{
	enum { MOST = 5000 };
	struct sqlite_pages pages;
	struct page_table table = {.root = 2};
	sqlite3 *db = open_database("PRAGMA page_size = 512; CREATE TABLE t (a, b)", &pages);
	char text[MOST + 7];
	unsigned nr = 0;

	(void)state;
	for (unsigned i = 0; i < sizeof(text); i++)
		text[i] = (char)('a' + i % 26);
	for (size_t len = 0; len <= MOST; len += len < 1200 ? 1 : 517) {
		const struct page_value row[] = {integer((int64_t)len),
						 {.type = PAGE_TEXT, .text = text + len % 7, .len = len}};
		pages_put(&pages, &table, ++nr, row, 2);
	}
	pages_finish(&pages, &table);
	assert_int_equal(pages_end(&pages), SQLITE_OK);
	assert_sound(db);
	assert_int_equal(ask(db, "SELECT count(*) FROM t WHERE length(b) = a AND typeof(b) = 'text'"), nr);
	sqlite3_stmt *stmt;
	assert_int_equal(sqlite3_prepare_v2(db, "SELECT a, b FROM t", -1, &stmt, NULL), SQLITE_OK);
	while (sqlite3_step(stmt) == SQLITE_ROW) {
		size_t len = (size_t)sqlite3_column_int64(stmt, 0);
		const char *got = (const char *)sqlite3_column_text(stmt, 1);
		assert_true(!len || (got[0] >= 'a' && memcmp(got, text + (got[0] - 'a'), len) == 0));
	}
	sqlite3_finalize(stmt);
	sqlite3_close(db);
}

/* SQLite locks bytes of one page, and takes a file for damaged that has something there. */
static void test_lock_page(void **state)
{
	enum { LOCK_PAGE = 40, PAGE_BYTES = 512 };
	char text[30 * PAGE_BYTES];

	(void)state;
	memset(text, 'x', sizeof(text));
	for (unsigned before = 0; before < LOCK_PAGE; before++) {
		struct sqlite_pages pages;
		struct page_table tables[] = {{.root = 2}, {.root = 3}};
		int lock_byte = sqlite3_test_control(SQLITE_TESTCTRL_PENDING_BYTE, (LOCK_PAGE - 1) * PAGE_BYTES);
		sqlite3 *db =
			open_database("PRAGMA page_size = 512; CREATE TABLE t (a, b); CREATE TABLE u (a)", &pages);
		assert_int_equal(pages.lock_page, lock_byte / PAGE_BYTES + 1);
		pages.lock_page = LOCK_PAGE;
		for (unsigned row = 1; row <= 40 * before; row++)
			pages_put(&pages, &tables[0], row, (struct page_value[]){integer(row), integer(row)}, 2);
		pages_put(&pages, &tables[1], 1,
			  &(struct page_value){.type = PAGE_TEXT, .text = text, .len = sizeof(text)}, 1);
		pages_finish(&pages, &tables[0]);
		pages_finish(&pages, &tables[1]);
		assert_int_equal(pages_end(&pages), SQLITE_OK);
		assert_sound(db);
		assert_int_equal(ask(db, "SELECT count(*) FROM t WHERE rowid = a"), 40 * before);
		assert_int_equal(ask(db, "SELECT length(a) FROM u"), sizeof(text));
		sqlite3_close(db);
		sqlite3_test_control(SQLITE_TESTCTRL_PENDING_BYTE, lock_byte);
	}
}

/* A file that is full: said once, kept, and nothing is written after it. */
static void test_full(void **state)
{
	struct sqlite_pages pages;
	struct page_table table = {.root = 2};
	sqlite3 *db = open_database("CREATE TABLE t (a, b)", &pages);
	sqlite3_int64 limit = 100000;

	(void)state;
	sqlite3_file_control(db, "main", SQLITE_FCNTL_SIZE_LIMIT, &limit);
	for (unsigned row = 1; row <= 100000; row++)
		pages_put(&pages, &table, row, (struct page_value[]){integer(row), integer(row)}, 2);
	assert_int_equal(pages.code, SQLITE_FULL);
	pages_finish(&pages, &table);
	assert_int_equal(pages_end(&pages), SQLITE_FULL);
	sqlite3_close(db);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_levels), cmocka_unit_test(test_goes_on), cmocka_unit_test(test_integers),
		cmocka_unit_test(test_reals),  cmocka_unit_test(test_texts),   cmocka_unit_test(test_lock_page),
		cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
