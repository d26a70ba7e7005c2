/* SPDX-License-Identifier: MIT */
#include "export/sqlite.h"

#include <errno.h>

#include "base/diag.h"

struct sql *sql_of_exporter(struct exporter *exporter)
{
	(void)exporter;
	return NULL;
}

int sql_open(const char *path, struct sql **ret, struct diag *reterr)
{
	(void)path, (void)ret;
	return diag_set(reterr, -ENOTSUP, "this build has no SQLite");
}

void sql_close(struct sql *sql)
{
	(void)sql;
}

int sql_query(struct sql *sql, const char *text, const struct sql_receiver *receiver, struct diag *reterr)
{
	(void)sql, (void)text, (void)receiver;
	return diag_set(reterr, -ENOTSUP, "this build has no SQLite");
}
