/* SPDX-License-Identifier: MIT */
/*
 * sqlite: a profile as tables, millrace-sql(7), and questions to them. Without libsqlite3 there is neither the format
 * nor an answer (sqlite_none.c). One thread.
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
	const char *text; /* with a NUL behind it */
	size_t len;
};

/*
 * Who gets the rows. Values are valid for the call, names until the last row of the statement. 0, or an error that ends
 * the query. columns() comes once for each statement that has a result, before its rows.
 */
struct sql_receiver {
	int (*columns)(void *ctx, const char *const names[], unsigned nr);
	int (*row)(void *ctx, const struct sql_value values[], unsigned nr);
	void *ctx;
};

/* The tables of a closed exporter of the format sqlite whose target had neither file nor path: they are in memory. */
struct sql *sql_of_exporter(struct exporter *exporter);

/* A file that was exported, read-only. 0, or -errno and why. */
int sql_open(const char *path, struct sql **ret, struct diag *reterr);
void sql_close(struct sql *sql); /* not one of an exporter; NULL is fine */

/*
 * Statements that read, one after the other; what would change anything, or open another file, is refused. 0, or
 * -errno and why.
 */
int sql_query(struct sql *sql, const char *text, const struct sql_receiver *receiver, struct diag *reterr);
