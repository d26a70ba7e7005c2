/* SPDX-License-Identifier: MIT */
/*
 * sqlite: a profile as SQL tables, millrace-sql(7), and queries on them. Without libsqlite3 the build has neither the
 * export format nor queries (sqlite_none.c). One thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct diag;
struct exporter;
struct sql;

enum sql_type { SQL_NULL, SQL_INTEGER, SQL_REAL, SQL_TEXT };

struct sql_value {
	enum sql_type type;
	int64_t integer;
	double real;
	const char *text; /* NUL-terminated */
	size_t len;
};

/*
 * Receives the rows of a query. Values are valid for the call, names until the last row of the statement. The functions
 * return 0, or an error that ends the query. columns() is called once for each statement that has a result, before its
 * rows.
 */
struct sql_receiver {
	int (*columns)(void *ctx, const char *const names[], unsigned nr);
	int (*row)(void *ctx, const struct sql_value values[], unsigned nr);
	void *ctx;
};

/*
 * The tables of a closed exporter of the format sqlite that has neither file nor path: they are in memory. The exporter
 * owns them.
 */
struct sql *sql_of_exporter(struct exporter *exporter);

/* Opens a file of the format sqlite, read-only. 0, or -errno and why. */
int sql_open(const char *path, struct sql **ret, struct diag *reterr);
void sql_close(struct sql *sql); /* not for those of an exporter; NULL is fine */

/*
 * Runs SQL statements, one after the other. Statements that would change something, or open another file, are refused.
 * 0, or -errno and why.
 */
int sql_query(struct sql *sql, const char *text, const struct sql_receiver *receiver, struct diag *reterr);
