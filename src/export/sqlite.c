/* SPDX-License-Identifier: MIT */
/* The tables are described in man/millrace-sql.7. Source of the calls: sqlite.org/c3ref/intro.html. */
#include "export/sqlite.h"

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/hash_table.h"
#include "export/cgroup_labels.h"
#include "export/formats.h"
#include "export/stack_table.h"

enum insert {
	INSERT_ABOUT,
	INSERT_EVENT,
	INSERT_OBJECT,
	INSERT_SYMBOL,
	INSERT_STACK,
	INSERT_THREAD,
	INSERT_CGROUP,
	INSERT_SAMPLE,
	INSERT_TASK_EVENT,
	INSERT_LOSS,
	INSERT_MAP,
	NR_INSERTS,
};

struct sql {
	sqlite3 *db;
};

struct sqlite {
	struct exporter exporter;
	struct sql sql;
	sqlite3_stmt *inserts[NR_INSERTS];
	uint64_t *symbol_hashes, *stack_hashes; /* heap; by number */
	uint32_t symbols_room, stacks_room;
};

/* Nothing is read while it is written, and a failure leaves no file: neither journal nor syncs are of use. */
static const char tables[] =
	"PRAGMA temp_store = MEMORY;"
	"PRAGMA journal_mode = OFF;"
	"PRAGMA synchronous = OFF;"
	"PRAGMA page_size = 16384;"
	"PRAGMA user_version = 1;"
	"PRAGMA temp_store = MEMORY;" /* the commands write no files but their output */
	"BEGIN;"
	"CREATE TABLE recording (name TEXT PRIMARY KEY, value) WITHOUT ROWID;"
	"CREATE TABLE events (id INTEGER PRIMARY KEY, name TEXT, unit TEXT, period INTEGER, frequency INTEGER);"
	"CREATE TABLE objects (id INTEGER PRIMARY KEY, path TEXT, build_id TEXT, kind TEXT);"
	"CREATE TABLE symbols (id INTEGER PRIMARY KEY, name TEXT, object INTEGER REFERENCES objects, address INTEGER,"
	" kernel INTEGER, inlined INTEGER, file TEXT, line INTEGER);"
	"CREATE TABLE stacks (id INTEGER PRIMARY KEY, outer INTEGER REFERENCES stacks, symbol INTEGER REFERENCES "
	"symbols,"
	" hash INTEGER);"
	"CREATE TABLE threads (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, comm TEXT);"
	"CREATE TABLE cgroups (id INTEGER PRIMARY KEY, path TEXT, unit TEXT, container TEXT, pod TEXT);"
	"CREATE TABLE samples (time INTEGER, cpu INTEGER, thread INTEGER REFERENCES threads,"
	" event INTEGER REFERENCES events, period INTEGER, stack INTEGER REFERENCES stacks,"
	" cgroup INTEGER REFERENCES cgroups);"
	"CREATE TABLE task_events (time INTEGER, kind TEXT, thread INTEGER REFERENCES threads, name TEXT);"
	"CREATE TABLE losses (start INTEGER, end INTEGER, cpu INTEGER, records INTEGER, cause TEXT);"
	"CREATE TABLE maps (time INTEGER, pid INTEGER, start INTEGER, end INTEGER, offset INTEGER,"
	" object INTEGER REFERENCES objects);";

static const char views[] =
	"CREATE INDEX stacks_outer ON stacks (outer);"
	/* Samples by stack: few rows for all that is about code. */
	"CREATE VIEW stack_totals AS SELECT event, stack, count(*) AS samples, sum(period) AS period"
	" FROM samples GROUP BY event, stack;"
	"CREATE VIEW top_functions AS SELECT e.name AS event, y.name AS function, o.path AS object,"
	" sum(t.samples) AS samples, sum(t.period) AS period,"
	" round(100.0 * sum(t.period) / (SELECT sum(period) FROM samples WHERE event = t.event), 2) AS percent"
	" FROM stack_totals t JOIN stacks k ON k.id = t.stack JOIN symbols y ON y.id = k.symbol"
	" JOIN events e ON e.id = t.event LEFT JOIN objects o ON o.id = y.object"
	" GROUP BY t.event, y.name, y.object ORDER BY period DESC;"
	"CREATE VIEW stack_functions AS WITH RECURSIVE part (stack, at) AS (SELECT id, id FROM stacks"
	" UNION ALL SELECT p.stack, k.outer FROM part p JOIN stacks k ON k.id = p.at WHERE k.outer IS NOT NULL)"
	" SELECT DISTINCT p.stack, y.name AS function, y.object FROM part p JOIN stacks k ON k.id = p.at"
	" JOIN symbols y ON y.id = k.symbol;"
	"CREATE VIEW total_functions AS SELECT e.name AS event, f.function, o.path AS object,"
	" sum(t.samples) AS samples, sum(t.period) AS period"
	" FROM stack_totals t JOIN stack_functions f ON f.stack = t.stack JOIN events e ON e.id = t.event"
	" LEFT JOIN objects o ON o.id = f.object GROUP BY t.event, f.function, f.object ORDER BY period DESC;"
	"CREATE VIEW flame AS WITH RECURSIVE path (id, line) AS ("
	" SELECT k.id, coalesce(y.name, '[' || o.path || ']', '[unknown]') FROM stacks k"
	" JOIN symbols y ON y.id = k.symbol LEFT JOIN objects o ON o.id = y.object WHERE k.outer IS NULL"
	" UNION ALL SELECT k.id, p.line || ';' || coalesce(y.name, '[' || o.path || ']', '[unknown]') FROM path p"
	" JOIN stacks k ON k.outer = p.id JOIN symbols y ON y.id = k.symbol LEFT JOIN objects o ON o.id = y.object)"
	" SELECT e.name AS event, h.comm || ';' || p.line AS stack, count(*) AS samples, sum(s.period) AS period"
	" FROM samples s JOIN threads h ON h.id = s.thread JOIN path p ON p.id = s.stack JOIN events e ON e.id = "
	"s.event"
	" GROUP BY s.event, h.comm, s.stack ORDER BY period DESC;"
	"CREATE VIEW thread_timeline AS SELECT h.comm, h.pid, h.tid, e.name AS event,"
	" (s.time - (SELECT min(time) FROM samples)) / 10000000 * 10 AS ms, count(*) AS samples, sum(s.period) AS "
	"period"
	" FROM samples s JOIN threads h ON h.id = s.thread JOIN events e ON e.id = s.event"
	" GROUP BY s.thread, s.event, ms ORDER BY h.pid, h.tid, ms;"
	"COMMIT;";

static const char *const insert_texts[NR_INSERTS] = {
	[INSERT_ABOUT] = "INSERT INTO recording VALUES (?, ?)",
	[INSERT_EVENT] = "INSERT INTO events VALUES (?, ?, ?, ?, ?)",
	[INSERT_OBJECT] = "INSERT INTO objects VALUES (?, ?, ?, ?)",
	[INSERT_SYMBOL] = "INSERT INTO symbols VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
	[INSERT_STACK] = "INSERT INTO stacks VALUES (?, ?, ?, ?)",
	[INSERT_THREAD] = "INSERT INTO threads VALUES (?, ?, ?, ?)",
	[INSERT_CGROUP] = "INSERT INTO cgroups VALUES (?, ?, ?, ?, ?)",
	[INSERT_SAMPLE] = "INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?, ?)",
	[INSERT_TASK_EVENT] = "INSERT INTO task_events VALUES (?, ?, ?, ?)",
	[INSERT_LOSS] = "INSERT INTO losses VALUES (?, ?, ?, ?, ?)",
	[INSERT_MAP] = "INSERT INTO maps VALUES (?, ?, ?, ?, ?, ?)",
};

static struct sqlite *sqlite_of(struct exporter *exporter)
{
	return (struct sqlite *)exporter;
}

/* What SQLite says of its last failure. */
static int failed(sqlite3 *db, struct diag *reterr)
{
	int code = db ? sqlite3_errcode(db) : SQLITE_NOMEM;
	int err = code == SQLITE_NOMEM ? -ENOMEM : code == SQLITE_FULL ? -ENOSPC : -EIO;

	return diag_set(reterr, err, "SQLite: %s", db ? sqlite3_errmsg(db) : "out of memory");
}

static int run(struct sqlite *sqlite, const char *text, struct diag *reterr)
{
	return sqlite3_exec(sqlite->sql.db, text, NULL, NULL, NULL) == SQLITE_OK ? 0 : failed(sqlite->sql.db, reterr);
}

static void bind_number(sqlite3_stmt *stmt, int at, uint64_t number)
{
	sqlite3_bind_int64(stmt, at, (sqlite3_int64)number);
}

/* 0 is NULL. */
static void bind_reference(sqlite3_stmt *stmt, int at, uint64_t number)
{
	if (number)
		bind_number(stmt, at, number);
	else
		sqlite3_bind_null(stmt, at);
}

static void bind_cpu(sqlite3_stmt *stmt, int at, int32_t cpu)
{
	if (cpu >= 0)
		sqlite3_bind_int(stmt, at, cpu);
	else
		sqlite3_bind_null(stmt, at);
}

/* NULL is NULL. */
static void bind_text(sqlite3_stmt *stmt, int at, const char *text)
{
	AUTO_BUF struct buf valid = {0};

	sqlite3_bind_text(stmt, at, text ? utf8_of(text, &valid) : NULL, -1, SQLITE_TRANSIENT);
}

static int insert(struct sqlite *sqlite, enum insert which)
{
	sqlite3_stmt *stmt = sqlite->inserts[which];
	int code = sqlite3_step(stmt);

	sqlite3_reset(stmt);
	return code == SQLITE_DONE ? 0 : code == SQLITE_NOMEM ? -ENOMEM : code == SQLITE_FULL ? -ENOSPC : -EIO;
}

static int put_about(struct sqlite *sqlite)
{
	const struct export_profile *about = &sqlite->exporter.profile;
	const struct {
		const char *name, *value;
	} texts[] = {
		{"title", about->title},           {"command", about->command}, {"hostname", about->hostname},
		{"os_release", about->os_release}, {"arch", about->arch},       {"cpu", about->cpu},
	};
	int err = 0;

	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]) && !err; i++) {
		bind_text(sqlite->inserts[INSERT_ABOUT], 1, texts[i].name);
		bind_text(sqlite->inserts[INSERT_ABOUT], 2, texts[i].value);
		err = texts[i].value ? insert(sqlite, INSERT_ABOUT) : 0;
	}
	if (!err && about->wall_offset_ns) {
		bind_text(sqlite->inserts[INSERT_ABOUT], 1, "wall_offset_ns");
		bind_number(sqlite->inserts[INSERT_ABOUT], 2, (uint64_t)about->wall_offset_ns);
		err = insert(sqlite, INSERT_ABOUT);
	}
	return err;
}

static int put_events(struct sqlite *sqlite)
{
	static const char *const units[] = {
		[EXPORT_COUNT] = "count", [EXPORT_CPU_NS] = "ns", [EXPORT_OFF_CPU_NS] = "ns"};
	sqlite3_stmt *stmt = sqlite->inserts[INSERT_EVENT];
	int err = 0;

	for (size_t i = 0; i < sqlite->exporter.profile.nr_events && !err; i++) {
		const struct export_event *event = &sqlite->exporter.profile.events[i];
		bind_number(stmt, 1, i + 1);
		bind_text(stmt, 2, event->name);
		bind_text(stmt, 3, units[event->unit]);
		bind_reference(stmt, 4, event->period);
		bind_reference(stmt, 5, event->frequency);
		err = insert(sqlite, INSERT_EVENT);
	}
	return err;
}

static int sqlite_open(struct exporter *exporter, struct diag *reterr)
{
	struct sqlite *sqlite = sqlite_of(exporter);
	const char *path = exporter->path ? exporter->path : ":memory:";

	/* The file is new and ours: no locks, which would end when the caller closes its descriptor of it. */
	if (sqlite3_open_v2(path, &sqlite->sql.db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
			    exporter->path ? "unix-none" : NULL) != SQLITE_OK)
		return failed(sqlite->sql.db, reterr);
	int err = run(sqlite, tables, reterr);
	for (unsigned i = 0; i < NR_INSERTS && !err; i++)
		if (sqlite3_prepare_v3(sqlite->sql.db, insert_texts[i], -1, SQLITE_PREPARE_PERSISTENT,
				       &sqlite->inserts[i], NULL) != SQLITE_OK)
			err = failed(sqlite->sql.db, reterr);
	if (!err && (put_about(sqlite) || put_events(sqlite)))
		err = failed(sqlite->sql.db, reterr);
	return err;
}

static int sqlite_object(struct exporter *exporter, uint32_t number, const struct export_object *object)
{
	static const char *const kinds[] = {
		[EXPORT_FILE] = "file",
		[EXPORT_KERNEL] = "kernel",
		[EXPORT_MODULE] = "module",
		[EXPORT_GENERATED] = "generated",
	};
	sqlite3_stmt *stmt = sqlite_of(exporter)->inserts[INSERT_OBJECT];
	AUTO_BUF struct buf id = {0};

	for (size_t i = 0; i < object->build_id_bytes; i++)
		buf_printf(&id, "%02x", object->build_id[i]);
	bind_number(stmt, 1, number);
	bind_text(stmt, 2, object->path);
	bind_text(stmt, 3, object->build_id ? buf_text(&id) : NULL);
	bind_text(stmt, 4, kinds[object->kind]);
	return insert(sqlite_of(exporter), INSERT_OBJECT);
}

static int sqlite_frame(struct exporter *exporter, uint32_t number, const struct export_frame *frame)
{
	struct sqlite *sqlite = sqlite_of(exporter);
	sqlite3_stmt *stmt = sqlite->inserts[INSERT_SYMBOL];

	if (table_make_room((void **)&sqlite->symbol_hashes, sizeof(uint64_t), number, &sqlite->symbols_room))
		return -ENOMEM;
	sqlite->symbol_hashes[number] = frame->function ? hash_text(frame->function) : hash_mix(1, frame->address);
	bind_number(stmt, 1, number);
	bind_text(stmt, 2, frame->function);
	bind_reference(stmt, 3, frame->object);
	bind_number(stmt, 4, frame->function ? frame->start : frame->address);
	sqlite3_bind_int(stmt, 5, frame->kernel);
	sqlite3_bind_int(stmt, 6, frame->inlined);
	bind_text(stmt, 7, frame->file);
	bind_reference(stmt, 8, frame->line);
	return insert(sqlite, INSERT_SYMBOL);
}

static int sqlite_stack(struct exporter *exporter, uint32_t number, uint32_t outer, uint32_t frame)
{
	struct sqlite *sqlite = sqlite_of(exporter);
	sqlite3_stmt *stmt = sqlite->inserts[INSERT_STACK];

	if (table_make_room((void **)&sqlite->stack_hashes, sizeof(uint64_t), number, &sqlite->stacks_room))
		return -ENOMEM;
	sqlite->stack_hashes[number] = hash_mix(outer ? sqlite->stack_hashes[outer] : 0, sqlite->symbol_hashes[frame]);
	bind_number(stmt, 1, number);
	bind_reference(stmt, 2, outer);
	bind_number(stmt, 3, frame);
	bind_number(stmt, 4, sqlite->stack_hashes[number]);
	return insert(sqlite, INSERT_STACK);
}

static int sqlite_thread(struct exporter *exporter, uint32_t number, const struct export_thread *thread)
{
	sqlite3_stmt *stmt = sqlite_of(exporter)->inserts[INSERT_THREAD];

	bind_number(stmt, 1, number);
	sqlite3_bind_int(stmt, 2, (int32_t)thread->pid);
	sqlite3_bind_int(stmt, 3, (int32_t)thread->tid);
	bind_text(stmt, 4, thread->comm);
	return insert(sqlite_of(exporter), INSERT_THREAD);
}

static int sqlite_cgroup(struct exporter *exporter, uint32_t number, const char *path)
{
	sqlite3_stmt *stmt = sqlite_of(exporter)->inserts[INSERT_CGROUP];
	struct cgroup_labels labels;

	cgroup_labels_of(path, &labels);
	bind_number(stmt, 1, number);
	bind_text(stmt, 2, path);
	for (int i = 0; i < NR_CGROUP_LABELS; i++)
		bind_text(stmt, 3 + i, *labels.texts[i] ? labels.texts[i] : NULL);
	return insert(sqlite_of(exporter), INSERT_CGROUP);
}

static int sqlite_sample(struct exporter *exporter, const struct export_sample *sample)
{
	sqlite3_stmt *stmt = sqlite_of(exporter)->inserts[INSERT_SAMPLE];

	bind_number(stmt, 1, sample->time_ns);
	bind_cpu(stmt, 2, sample->cpu);
	bind_number(stmt, 3, sample->thread);
	bind_number(stmt, 4, sample->event + 1);
	bind_number(stmt, 5, sample->period);
	bind_number(stmt, 6, sample->stack);
	bind_reference(stmt, 7, sample->cgroup);
	return insert(sqlite_of(exporter), INSERT_SAMPLE);
}

static int put_loss(struct sqlite *sqlite, const struct export_marker *marker)
{
	sqlite3_stmt *stmt = sqlite->inserts[INSERT_LOSS];

	bind_number(stmt, 1, marker->from_ns);
	bind_number(stmt, 2, marker->to_ns);
	bind_cpu(stmt, 3, marker->cpu);
	bind_number(stmt, 4, marker->count);
	bind_text(stmt, 5, marker->text);
	return insert(sqlite, INSERT_LOSS);
}

static int sqlite_marker(struct exporter *exporter, const struct export_marker *marker)
{
	static const char *const kinds[] = {
		[EXPORT_FORK] = "fork",
		[EXPORT_EXIT] = "exit",
		[EXPORT_COMM] = "comm",
		[EXPORT_EXEC] = "exec",
	};
	sqlite3_stmt *stmt = sqlite_of(exporter)->inserts[INSERT_TASK_EVENT];

	if (marker->kind == EXPORT_LOST)
		return put_loss(sqlite_of(exporter), marker);
	bind_number(stmt, 1, marker->from_ns);
	bind_text(stmt, 2, kinds[marker->kind]);
	bind_number(stmt, 3, marker->thread);
	bind_text(stmt, 4, marker->text);
	return insert(sqlite_of(exporter), INSERT_TASK_EVENT);
}

static int sqlite_map(struct exporter *exporter, const struct export_map *map)
{
	sqlite3_stmt *stmt = sqlite_of(exporter)->inserts[INSERT_MAP];

	bind_number(stmt, 1, map->time_ns);
	sqlite3_bind_int(stmt, 2, (int32_t)map->pid);
	bind_number(stmt, 3, map->start);
	bind_number(stmt, 4, map->end);
	bind_number(stmt, 5, map->offset);
	bind_reference(stmt, 6, map->object);
	return insert(sqlite_of(exporter), INSERT_MAP);
}

static void drop_inserts(struct sqlite *sqlite)
{
	for (unsigned i = 0; i < NR_INSERTS; i++) {
		sqlite3_finalize(sqlite->inserts[i]);
		sqlite->inserts[i] = NULL;
	}
}

static int sqlite_close_(struct exporter *exporter, struct diag *reterr)
{
	struct sqlite *sqlite = sqlite_of(exporter);

	drop_inserts(sqlite);
	int err = run(sqlite, views, reterr);
	if (!err && exporter->path && sqlite3_close(sqlite->sql.db) != SQLITE_OK)
		return failed(sqlite->sql.db, reterr);
	if (!err && exporter->path)
		sqlite->sql.db = NULL;
	return err;
}

static void sqlite_free_(struct exporter *exporter)
{
	struct sqlite *sqlite = sqlite_of(exporter);

	drop_inserts(sqlite);
	sqlite3_close(sqlite->sql.db);
	free(sqlite->symbol_hashes);
	free(sqlite->stack_hashes);
}

const struct export_format export_sqlite = {
	.name = "sqlite",
	.suffix = ".db",
	.about = "tables for SQL: millrace-sql(7)",
	.needs_file = true,
	.state_bytes = sizeof(struct sqlite),
	.open = sqlite_open,
	.object = sqlite_object,
	.frame = sqlite_frame,
	.stack = sqlite_stack,
	.thread = sqlite_thread,
	.cgroup = sqlite_cgroup,
	.sample = sqlite_sample,
	.marker = sqlite_marker,
	.map = sqlite_map,
	.close = sqlite_close_,
	.free = sqlite_free_,
};

struct sql *sql_of_exporter(struct exporter *exporter)
{
	return exporter->format == &export_sqlite ? &sqlite_of(exporter)->sql : NULL;
}

int sql_open(const char *path, struct sql **ret, struct diag *reterr)
{
	struct sql *sql = calloc(1, sizeof(*sql));

	if (!sql)
		return diag_set(reterr, -ENOMEM, "out of memory");
	if (sqlite3_open_v2(path, &sql->db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK ||
	    sqlite3_exec(sql->db, "PRAGMA temp_store = MEMORY", NULL, NULL, NULL) != SQLITE_OK) {
		int err = failed(sql->db, reterr);
		diag_prefix(reterr, "%s", path);
		sql_close(sql);
		return err;
	}
	*ret = sql;
	return 0;
}

void sql_close(struct sql *sql)
{
	if (sql)
		sqlite3_close(sql->db);
	free(sql);
}

static int may_read(void *ctx, int action, const char *first, const char *second, const char *db, const char *by)
{
	(void)ctx, (void)first, (void)second, (void)db, (void)by;
	return action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_FUNCTION ||
			       action == SQLITE_RECURSIVE
		       ? SQLITE_OK
		       : SQLITE_DENY;
}

static void take_value(sqlite3_stmt *stmt, int at, struct sql_value *ret)
{
	*ret = (struct sql_value){.type = SQL_NULL};
	switch (sqlite3_column_type(stmt, at)) {
	case SQLITE_NULL: break;
	case SQLITE_INTEGER:
		ret->type = SQL_INTEGER;
		ret->integer = sqlite3_column_int64(stmt, at);
		break;
	case SQLITE_FLOAT:
		ret->type = SQL_REAL;
		ret->real = sqlite3_column_double(stmt, at);
		break;
	default:
		ret->type = SQL_TEXT;
		ret->text = (const char *)sqlite3_column_text(stmt, at);
		ret->len = ret->text ? (size_t)sqlite3_column_bytes(stmt, at) : 0;
	}
}

/* -EIO: SQLite says why. */
static int run_statement(sqlite3_stmt *stmt, const struct sql_receiver *receiver)
{
	enum { MOST_COLUMNS = 128 };
	const char *names[MOST_COLUMNS];
	struct sql_value values[MOST_COLUMNS];
	int nr = sqlite3_column_count(stmt), err = 0, code = SQLITE_ROW;

	nr = nr < MOST_COLUMNS ? nr : MOST_COLUMNS;
	for (int i = 0; i < nr; i++)
		names[i] = sqlite3_column_name(stmt, i);
	if (nr)
		err = receiver->columns(receiver->ctx, names, (unsigned)nr);
	while (!err && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		for (int i = 0; i < nr; i++)
			take_value(stmt, i, &values[i]);
		err = receiver->row(receiver->ctx, values, (unsigned)nr);
	}
	return err ? err : code == SQLITE_DONE ? 0 : -EIO;
}

int sql_query(struct sql *sql, const char *text, const struct sql_receiver *receiver, struct diag *reterr)
{
	int err = 0;

	sqlite3_set_authorizer(sql->db, may_read, NULL);
	while (*text && !err) {
		sqlite3_stmt *stmt = NULL;
		if (sqlite3_prepare_v2(sql->db, text, -1, &stmt, &text) != SQLITE_OK) {
			int code = sqlite3_errcode(sql->db);
			return code == SQLITE_AUTH
				       ? diag_set(reterr, -EPERM, "this statement is refused: only SELECT may be used")
				       : diag_set(reterr, -EINVAL, "%s", sqlite3_errmsg(sql->db));
		}
		if (!stmt)
			continue;
		err = run_statement(stmt, receiver);
		if (err == -EIO)
			diag_set(reterr, err, "%s", sqlite3_errmsg(sql->db));
		sqlite3_finalize(stmt);
	}
	return err;
}
