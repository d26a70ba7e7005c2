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
#include "export/sqlite_pages.h"
#include "export/stack_table.h"
#include "sysinfo/library.h"

/* Loaded when a database is opened: its relocations would slow the start of every command. */
static struct {
	__typeof__(sqlite3_bind_int64) *bind_int64;
	__typeof__(sqlite3_bind_text) *bind_text;
	__typeof__(sqlite3_close) *close;
	__typeof__(sqlite3_column_bytes) *column_bytes;
	__typeof__(sqlite3_column_count) *column_count;
	__typeof__(sqlite3_column_double) *column_double;
	__typeof__(sqlite3_column_int64) *column_int64;
	__typeof__(sqlite3_column_name) *column_name;
	__typeof__(sqlite3_column_text) *column_text;
	__typeof__(sqlite3_column_type) *column_type;
	__typeof__(sqlite3_db_readonly) *db_readonly;
	__typeof__(sqlite3_errcode) *errcode;
	__typeof__(sqlite3_errmsg) *errmsg;
	__typeof__(sqlite3_errstr) *errstr;
	__typeof__(sqlite3_exec) *exec;
	__typeof__(sqlite3_file_control) *file_control;
	__typeof__(sqlite3_finalize) *finalize;
	__typeof__(sqlite3_open_v2) *open_v2;
	__typeof__(sqlite3_prepare_v2) *prepare_v2;
	__typeof__(sqlite3_reset) *reset;
	__typeof__(sqlite3_set_authorizer) *set_authorizer;
	__typeof__(sqlite3_step) *step;
} library;

static const char missing[] = "databases need libsqlite3.so.0, which %s (Debian: libsqlite3-0)";

/* false: it is not installed. */
static bool load_library(void)
{
	static const struct library_function functions[] = {
		LIBRARY_FUNCTION(sqlite3_bind_int64, &library.bind_int64),
		LIBRARY_FUNCTION(sqlite3_bind_text, &library.bind_text),
		LIBRARY_FUNCTION(sqlite3_close, &library.close),
		LIBRARY_FUNCTION(sqlite3_column_bytes, &library.column_bytes),
		LIBRARY_FUNCTION(sqlite3_column_count, &library.column_count),
		LIBRARY_FUNCTION(sqlite3_column_double, &library.column_double),
		LIBRARY_FUNCTION(sqlite3_column_int64, &library.column_int64),
		LIBRARY_FUNCTION(sqlite3_column_name, &library.column_name),
		LIBRARY_FUNCTION(sqlite3_column_text, &library.column_text),
		LIBRARY_FUNCTION(sqlite3_column_type, &library.column_type),
		LIBRARY_FUNCTION(sqlite3_db_readonly, &library.db_readonly),
		LIBRARY_FUNCTION(sqlite3_errcode, &library.errcode),
		LIBRARY_FUNCTION(sqlite3_errmsg, &library.errmsg),
		LIBRARY_FUNCTION(sqlite3_errstr, &library.errstr),
		LIBRARY_FUNCTION(sqlite3_exec, &library.exec),
		LIBRARY_FUNCTION(sqlite3_file_control, &library.file_control),
		LIBRARY_FUNCTION(sqlite3_finalize, &library.finalize),
		LIBRARY_FUNCTION(sqlite3_open_v2, &library.open_v2),
		LIBRARY_FUNCTION(sqlite3_prepare_v2, &library.prepare_v2),
		LIBRARY_FUNCTION(sqlite3_reset, &library.reset),
		LIBRARY_FUNCTION(sqlite3_set_authorizer, &library.set_authorizer),
		LIBRARY_FUNCTION(sqlite3_step, &library.step),
	};

	return library_load("libsqlite3.so.0", functions, sizeof(functions) / sizeof(functions[0]));
}

/* Tables that are written as pages: see sqlite_pages.h. */
enum table {
	TABLE_EVENTS,
	TABLE_OBJECTS,
	TABLE_SYMBOLS,
	TABLE_STACKS,
	TABLE_COMMS,
	TABLE_THREADS,
	TABLE_CGROUPS,
	TABLE_SOURCES,
	TABLE_SAMPLES,
	TABLE_TASK_EVENTS,
	TABLE_LOSSES,
	TABLE_MAP_RANGES,
	TABLE_MAPS,
	NR_TABLES,
};

static const char *const table_names[NR_TABLES] = {
	[TABLE_EVENTS] = "events",         [TABLE_OBJECTS] = "objects", [TABLE_SYMBOLS] = "symbols",
	[TABLE_STACKS] = "stacks",         [TABLE_COMMS] = "comms",     [TABLE_THREADS] = "thread_rows",
	[TABLE_CGROUPS] = "cgroups",       [TABLE_SOURCES] = "sources", [TABLE_SAMPLES] = "sample_rows",
	[TABLE_TASK_EVENTS] = "task_rows", [TABLE_LOSSES] = "losses",   [TABLE_MAP_RANGES] = "map_ranges",
	[TABLE_MAPS] = "map_rows",
};

/* What many samples have in common: a row of the table `sources`. */
struct source {
	uint32_t thread, event, cgroup;
	int32_t cpu;
	uint64_t period; /* of the first of them */
};

static bool same_source(const void *row, const void *wanted)
{
	const struct source *a = row, *b = wanted;

	return a->thread == b->thread && a->event == b->event && a->cpu == b->cpu && a->cgroup == b->cgroup;
}

/* What many maps have in common: a row of the table `map_ranges`. */
struct map_range {
	int64_t bytes;
	uint64_t offset;
	uint64_t start; /* of a map without the bits of MAP_PAGES */
	uint32_t object;
};

/* Bits of an address that are stored for each map, as pages: a number that takes 4 bytes. */
enum { MAP_PAGE_BYTES = 4096 };
#define MAP_PAGES (UINT64_C(0x7fffffff) * MAP_PAGE_BYTES)

static bool same_range(const void *row, const void *wanted)
{
	const struct map_range *a = row, *b = wanted;

	return a->bytes == b->bytes && a->offset == b->offset && a->start == b->start && a->object == b->object;
}

/* Rows to which many others refer, each once. */
struct shared_rows {
	struct hash_table by_key; /* number, by a hash */
	void *rows;               /* heap; by number */
	size_t row_bytes;
	bool (*same)(const void *row, const void *wanted);
	uint32_t nr, room;
};

/*
 * The ids of a table whose rows are in the order of time are times: nanoseconds since `origin_ns`. A row that is not
 * later than the one before, or has no time, has the next id, and its time in a column.
 */
struct time_ids {
	bool has_origin;
	uint64_t origin_ns; /* modulo 2^64: it may be before 0 */
	uint64_t last;
};

struct sql {
	sqlite3 *db;
};

struct sqlite {
	struct exporter exporter;
	struct sql sql;
	struct sqlite_pages pages;
	struct page_table tables[NR_TABLES];
	uint64_t nr_losses;
	uint64_t *symbol_hashes;            /* heap; by number */
	struct stack_table stacks;          /* written last: only then is it known in which of them samples end */
	bool *stack_has_samples;            /* heap; by number */
	struct shared_rows sources, ranges; /* struct source, struct map_range */
	struct text_table comms;
	uint32_t symbols_room, stacks_room;
	struct time_ids sample_ids, task_ids, map_ids;
};

/* Nothing is read while it is written, and a failure leaves no file: neither journal nor syncs are of use. */
static const char settings[] = "PRAGMA page_size = %d;" /* before anything is written; each table has a page at least */
			       "PRAGMA temp_store = MEMORY;" /* the commands write no files but their output */
			       "PRAGMA journal_mode = OFF;"
			       "PRAGMA synchronous = OFF;"
			       "PRAGMA user_version = 4;";

/* What stands for a function without a name, as frame_name_put() has it; but whole paths. */
#define IN_BRACKETS "CASE WHEN o.path GLOB '[[]*' THEN o.path ELSE '[' || o.path || ']' END"

static const char tables[] =
	"BEGIN;"
	"CREATE TABLE recording (name TEXT PRIMARY KEY, value) WITHOUT ROWID;"
	"CREATE TABLE events (id INTEGER PRIMARY KEY, name TEXT, unit TEXT, period INTEGER, frequency INTEGER);"
	"CREATE TABLE objects (id INTEGER PRIMARY KEY, path TEXT, build_id TEXT, kind TEXT);"
	"CREATE TABLE symbols (id INTEGER PRIMARY KEY, name TEXT, object INTEGER REFERENCES objects, address INTEGER,"
	" kernel INTEGER, inlined INTEGER, file TEXT, line INTEGER);"
	"CREATE TABLE stacks (id INTEGER PRIMARY KEY, outer INTEGER REFERENCES stacks, symbol INTEGER REFERENCES "
	"symbols,"
	" hash INTEGER);"
	/* What most rows do not need comes last in those that are many: it takes no room there. */
	"CREATE TABLE comms (id INTEGER PRIMARY KEY, name TEXT);"
	"CREATE TABLE thread_rows (id INTEGER PRIMARY KEY, pid INTEGER, comm INTEGER REFERENCES comms, tid INTEGER);"
	"CREATE TABLE cgroups (id INTEGER PRIMARY KEY, path TEXT, unit TEXT, container TEXT, pod TEXT);"
	"CREATE TABLE sources (id INTEGER PRIMARY KEY, cpu INTEGER, thread INTEGER REFERENCES thread_rows,"
	" event INTEGER REFERENCES events, period INTEGER, cgroup INTEGER REFERENCES cgroups);"
	"CREATE TABLE sample_rows (id INTEGER PRIMARY KEY, source INTEGER REFERENCES sources,"
	" stack INTEGER REFERENCES stacks, period INTEGER, time INTEGER);"
	"CREATE TABLE task_rows (id INTEGER PRIMARY KEY, thread_and_kind INTEGER, time INTEGER);"
	"CREATE TABLE losses (start INTEGER, end INTEGER, cpu INTEGER, records INTEGER, cause TEXT);"
	"CREATE TABLE map_ranges (id INTEGER PRIMARY KEY, bytes INTEGER, offset INTEGER,"
	" object INTEGER REFERENCES objects, start INTEGER);"
	"CREATE TABLE map_rows (id INTEGER PRIMARY KEY, range INTEGER REFERENCES map_ranges, pid INTEGER,"
	" page INTEGER, time INTEGER);"
	"COMMIT;";

_Static_assert(EXPORT_FORK < 4 && EXPORT_EXIT < 4 && EXPORT_COMM < 4 && EXPORT_EXEC < 4, "two bits of thread_and_kind");

/* CROSS JOIN: by the rows of the first table, which are in the order of time. */
static const char samples_view[] =
	"CREATE VIEW samples AS SELECT coalesce(r.time, r.id + %" PRId64 ") AS time, c.cpu, c.thread, c.event,"
	" coalesce(r.period, c.period) AS period, r.stack, c.cgroup"
	" FROM sample_rows r CROSS JOIN sources c ON c.id = r.source;";

static const char task_events_view[] = "CREATE VIEW task_events AS SELECT coalesce(r.time, r.id + %" PRId64 ") AS time,"
				       " CASE r.thread_and_kind & 3 WHEN %d THEN 'fork' WHEN %d THEN 'exit' WHEN %d "
				       "THEN 'comm' WHEN %d THEN 'exec' END"
				       " AS kind, h.id AS thread, h.comm AS name"
				       " FROM task_rows r CROSS JOIN threads h ON h.id = r.thread_and_kind >> 2;";

static const char maps_view[] = "CREATE VIEW maps AS SELECT coalesce(r.time, r.id + %" PRId64
				") AS time, r.pid, g.start + r.page * %d AS start,"
				" g.start + r.page * %d + g.bytes AS end, g.offset, g.object"
				" FROM map_rows r CROSS JOIN map_ranges g ON g.id = r.range;";

static const char views[] =
	"BEGIN;"
	"CREATE VIEW threads AS SELECT r.id, r.pid, coalesce(r.tid, r.pid) AS tid,"
	" (SELECT c.name FROM comms c WHERE c.id = r.comm) AS comm FROM thread_rows r;"
	/* Samples by stack: few rows for all that is about code. */
	"CREATE VIEW stack_totals AS SELECT event, stack, count(*) AS samples, sum(period) AS period"
	" FROM samples GROUP BY event, stack;"
	"CREATE VIEW top_functions AS SELECT e.name AS event, y.name AS function, o.path AS object,"
	" sum(t.samples) AS samples, sum(t.period) AS period,"
	" round(100.0 * sum(t.period) / a.period, 2) AS percent"
	" FROM stack_totals t JOIN (SELECT event, sum(period) AS period FROM samples GROUP BY event) a"
	" ON a.event = t.event JOIN stacks k ON k.id = t.stack JOIN symbols y ON y.id = k.symbol"
	" JOIN events e ON e.id = t.event LEFT JOIN objects o ON o.id = y.object"
	" GROUP BY t.event, y.name, y.object ORDER BY period DESC;"
	/* Of stacks in which samples end: those have a hash. */
	"CREATE VIEW stack_functions AS WITH RECURSIVE part (stack, at) AS (SELECT id, id FROM stacks"
	" WHERE hash IS NOT NULL UNION ALL SELECT p.stack, k.outer FROM part p JOIN stacks k ON k.id = p.at WHERE "
	"k.outer IS NOT NULL)"
	" SELECT DISTINCT p.stack, y.name AS function, y.object FROM part p JOIN stacks k ON k.id = p.at"
	" JOIN symbols y ON y.id = k.symbol;"
	"CREATE VIEW total_functions AS SELECT e.name AS event, f.function, o.path AS object,"
	" sum(t.samples) AS samples, sum(t.period) AS period"
	" FROM stack_totals t JOIN stack_functions f ON f.stack = t.stack JOIN events e ON e.id = t.event"
	" LEFT JOIN objects o ON o.id = f.object GROUP BY t.event, f.function, f.object ORDER BY period DESC;"
	"CREATE VIEW flame AS WITH RECURSIVE path (id, line) AS ("
	" SELECT k.id, coalesce(y.name, " IN_BRACKETS ", '[unknown]') FROM stacks k"
	" JOIN symbols y ON y.id = k.symbol LEFT JOIN objects o ON o.id = y.object WHERE k.outer IS NULL"
	" UNION ALL SELECT k.id, p.line || ';' || coalesce(y.name, " IN_BRACKETS ", '[unknown]') FROM path p"
	" JOIN stacks k ON k.outer = p.id JOIN symbols y ON y.id = k.symbol LEFT JOIN objects o ON o.id = y.object)"
	" SELECT e.name AS event, h.comm || ';' || p.line AS stack, count(*) AS samples, sum(s.period) AS period"
	" FROM samples s JOIN threads h ON h.id = s.thread JOIN path p ON p.id = s.stack JOIN events e ON e.id = "
	"s.event"
	" GROUP BY s.event, h.comm, s.stack ORDER BY period DESC;"
	"CREATE VIEW thread_timeline AS SELECT h.comm, h.pid, h.tid, e.name AS event,"
	/* Without a time: as the first that has one. */
	" coalesce((nullif(s.time, 0) - (SELECT min(time) FROM samples WHERE time > 0)) / 10000000 * 10, 0) AS ms,"
	" count(*) AS samples, sum(s.period) AS period"
	" FROM samples s JOIN threads h ON h.id = s.thread JOIN events e ON e.id = s.event"
	" GROUP BY s.thread, s.event, ms ORDER BY h.pid, h.tid, ms;"
	"COMMIT;";

static struct sqlite *sqlite_of(struct exporter *exporter)
{
	return (struct sqlite *)exporter;
}

static int error_of(int code)
{
	return code == SQLITE_OK ? 0 : code == SQLITE_NOMEM ? -ENOMEM : code == SQLITE_FULL ? -ENOSPC : -EIO;
}

/* What SQLite says of its last failure. */
static int failed(sqlite3 *db, struct diag *reterr)
{
	int code = db ? library.errcode(db) : SQLITE_NOMEM;

	return diag_set(reterr, error_of(code), "SQLite: %s", db ? library.errmsg(db) : "out of memory");
}

/* Of the database that is written: a file that takes no more is an error of the output, which the caller names. */
static int not_written(struct sqlite *sqlite, int code, struct diag *reterr)
{
	int number = 0;

	if ((code & 0xff) == SQLITE_FULL) /* of extended codes the last byte is the code */
		return -ENOSPC;
	if ((code & 0xff) == SQLITE_IOERR &&
	    library.file_control(sqlite->sql.db, "main", SQLITE_FCNTL_LAST_ERRNO, &number) == SQLITE_OK && number > 0)
		return -number;
	return diag_set(reterr, error_of(code & 0xff), "SQLite: %s", library.errstr(code));
}

static int run(struct sqlite *sqlite, const char *text, struct diag *reterr)
{
	int code = library.exec(sqlite->sql.db, text, NULL, NULL, NULL);

	return code == SQLITE_OK ? 0 : not_written(sqlite, code, reterr);
}

static struct page_value integer_value(uint64_t number)
{
	return (struct page_value){.type = PAGE_INTEGER, .integer = (int64_t)number};
}

/* Of a damaged record it may be more than an integer of SQLite's: then nearly so many. */
static struct page_value count_value(uint64_t count)
{
	return count <= INT64_MAX ? integer_value(count)
				  : (struct page_value){.type = PAGE_REAL, .real = (double)count};
}

/* 0 is NULL. */
static struct page_value reference_value(uint64_t number)
{
	return number ? integer_value(number) : (struct page_value){.type = PAGE_NULL};
}

static struct page_value signed_value(int32_t number)
{
	return (struct page_value){.type = PAGE_INTEGER, .integer = number};
}

static struct page_value cpu_value(int32_t cpu)
{
	return cpu >= 0 ? signed_value(cpu) : (struct page_value){.type = PAGE_NULL};
}

/* NULL is NULL. Valid as long as the text and `copy`. */
static struct page_value text_value(const char *text, struct buf *copy)
{
	const char *valid = text ? utf8_of(text, copy) : NULL;

	return valid ? (struct page_value){.type = PAGE_TEXT, .text = valid, .len = strlen(valid)}
		     : (struct page_value){.type = PAGE_NULL};
}

/* The row with this id; its values begin with a NULL where the table has a column for it. */
static int put(struct sqlite *sqlite, enum table table, uint64_t id, const struct page_value values[], unsigned nr)
{
	pages_put(&sqlite->pages, &sqlite->tables[table], id, values, nr);
	return sqlite->pages.code == SQLITE_OK ? 0 : not_written(sqlite, sqlite->pages.code, sqlite->exporter.why);
}

#define NR(values) (sizeof(values) / sizeof((values)[0]))

static int put_about(struct sqlite *sqlite, struct diag *reterr)
{
	const struct export_profile *about = &sqlite->exporter.profile;
	const struct {
		const char *name, *value;
	} texts[] = {
		{"title", about->title},           {"command", about->command}, {"hostname", about->hostname},
		{"os_release", about->os_release}, {"arch", about->arch},       {"cpu", about->cpu},
	};
	sqlite3_stmt *stmt = NULL;
	int code = library.prepare_v2(sqlite->sql.db, "INSERT INTO recording VALUES (?, ?)", -1, &stmt, NULL);

	for (unsigned i = 0; i < NR(texts) && code == SQLITE_OK; i++) {
		AUTO_BUF struct buf copy = {0};
		if (!texts[i].value)
			continue;
		library.bind_text(stmt, 1, texts[i].name, -1, SQLITE_STATIC);
		library.bind_text(stmt, 2, utf8_of(texts[i].value, &copy), -1, SQLITE_TRANSIENT);
		library.step(stmt);
		code = library.reset(stmt);
	}
	if (code == SQLITE_OK && about->wall_offset_ns) {
		library.bind_text(stmt, 1, "wall_offset_ns", -1, SQLITE_STATIC);
		library.bind_int64(stmt, 2, about->wall_offset_ns);
		library.step(stmt);
		code = library.reset(stmt);
	}
	library.finalize(stmt);
	return code == SQLITE_OK ? 0 : not_written(sqlite, code, reterr);
}

/* From here on SQLite leaves its file alone, until end_pages(). */
static int begin_pages(struct sqlite *sqlite, struct diag *reterr)
{
	sqlite3_stmt *stmt = NULL;
	sqlite3_file *file = NULL;
	int code = library.file_control(sqlite->sql.db, "main", SQLITE_FCNTL_FILE_POINTER, &file);

	if (code == SQLITE_OK)
		code = library.prepare_v2(sqlite->sql.db, "SELECT rootpage FROM sqlite_master WHERE name = ?", -1,
					  &stmt, NULL);
	for (unsigned i = 0; i < NR_TABLES && code == SQLITE_OK; i++) {
		library.bind_text(stmt, 1, table_names[i], -1, SQLITE_STATIC);
		if (library.step(stmt) == SQLITE_ROW)
			sqlite->tables[i].root = (uint32_t)library.column_int64(stmt, 0);
		code = library.reset(stmt);
	}
	library.finalize(stmt);
	if (code == SQLITE_OK)
		code = pages_begin(&sqlite->pages, file);
	return code == SQLITE_OK ? 0 : not_written(sqlite, code, reterr);
}

static int end_pages(struct sqlite *sqlite, struct diag *reterr)
{
	for (unsigned i = 0; i < NR_TABLES; i++)
		pages_finish(&sqlite->pages, &sqlite->tables[i]);
	int code = pages_end(&sqlite->pages);

	return code == SQLITE_OK ? 0 : not_written(sqlite, code, reterr);
}

static int put_events(struct sqlite *sqlite)
{
	static const char *const units[] = {
		[EXPORT_COUNT] = "count", [EXPORT_CPU_NS] = "ns", [EXPORT_OFF_CPU_NS] = "ns"};
	int err = 0;

	for (size_t i = 0; i < sqlite->exporter.profile.nr_events && !err; i++) {
		const struct export_event *event = &sqlite->exporter.profile.events[i];
		AUTO_BUF struct buf name = {0};
		const struct page_value row[] = {
			{.type = PAGE_NULL},
			text_value(event->name, &name),
			text_value(units[event->unit], NULL),
			event->period ? count_value(event->period) : (struct page_value){.type = PAGE_NULL},
			reference_value(event->frequency),
		};
		err = put(sqlite, TABLE_EVENTS, i + 1, row, NR(row));
	}
	return err;
}

/* Small ones for a small recording, of which most tables fill no page; 0 bytes: its size is not known. */
static int page_bytes_for(uint64_t recording_bytes)
{
	enum { MIB = 1 << 20 };

	return !recording_bytes || recording_bytes >= 8 * MIB ? 4096 : recording_bytes >= MIB ? 1024 : 512;
}

static int make_tables(struct sqlite *sqlite, struct diag *reterr)
{
	AUTO_BUF struct buf text = {0};

	buf_printf(&text, settings, page_bytes_for(sqlite->exporter.profile.bytes));
	buf_put_text(&text, tables);
	return text.failed ? -ENOMEM : run(sqlite, buf_text(&text), reterr);
}

static int sqlite_open(struct exporter *exporter, struct diag *reterr)
{
	struct sqlite *sqlite = sqlite_of(exporter);
	sqlite3_int64 most_bytes = INT64_MAX; /* of what is in memory: by default 1 GiB */

	sqlite->sources = (struct shared_rows){.row_bytes = sizeof(struct source), .same = same_source};
	sqlite->ranges = (struct shared_rows){.row_bytes = sizeof(struct map_range), .same = same_range};
	/*
	 * The file is new and ours: no locks, which would end when the caller closes its descriptor of it. In memory it
	 * is a file of SQLite's, too: ":memory:" has no pages that can be written.
	 */
	if (!load_library())
		return diag_set(reterr, -ENOTSUP, missing, library_problem());
	if (library.open_v2(exporter->path ? exporter->path : "file:recording?vfs=memdb", &sqlite->sql.db,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | (exporter->path ? 0 : SQLITE_OPEN_URI),
			    exporter->path ? "unix-none" : NULL) != SQLITE_OK)
		return failed(sqlite->sql.db, reterr);
	if (!exporter->path)
		library.file_control(sqlite->sql.db, "main", SQLITE_FCNTL_SIZE_LIMIT, &most_bytes);
	int err = make_tables(sqlite, reterr);
	if (!err)
		err = put_about(sqlite, reterr);
	if (!err)
		err = begin_pages(sqlite, reterr);
	return err ? err : put_events(sqlite);
}

static int sqlite_object(struct exporter *exporter, uint32_t number, const struct export_object *object)
{
	static const char *const kinds[] = {
		[EXPORT_FILE] = "file",
		[EXPORT_KERNEL] = "kernel",
		[EXPORT_MODULE] = "module",
		[EXPORT_GENERATED] = "generated",
	};
	AUTO_BUF struct buf id = {0}, path = {0};

	for (size_t i = 0; i < object->build_id_bytes; i++)
		buf_printf(&id, "%02x", object->build_id[i]);
	const struct page_value row[] = {
		{.type = PAGE_NULL},
		text_value(object->path, &path),
		text_value(object->build_id ? buf_text(&id) : NULL, NULL),
		text_value(kinds[object->kind], NULL),
	};
	return put(sqlite_of(exporter), TABLE_OBJECTS, number, row, NR(row));
}

static int sqlite_frame(struct exporter *exporter, uint32_t number, const struct export_frame *frame)
{
	struct sqlite *sqlite = sqlite_of(exporter);
	AUTO_BUF struct buf name = {0}, file = {0};

	if (table_make_room((void **)&sqlite->symbol_hashes, sizeof(uint64_t), number, &sqlite->symbols_room))
		return -ENOMEM;
	sqlite->symbol_hashes[number] =
		frame->function ? stable_hash_text(frame->function) : stable_hash_mix(1, frame->address);
	const struct page_value row[] = {
		{.type = PAGE_NULL},
		text_value(frame->function, &name),
		reference_value(frame->object),
		integer_value(frame->function ? frame->start : frame->address),
		integer_value(frame->kernel),
		integer_value(frame->inlined),
		text_value(frame->file, &file),
		reference_value(frame->line),
	};
	return put(sqlite, TABLE_SYMBOLS, number, row, NR(row));
}

static int sqlite_stack(struct exporter *exporter, uint32_t number, uint32_t outer, uint32_t frame)
{
	struct sqlite *sqlite = sqlite_of(exporter);

	if (table_make_room((void **)&sqlite->stack_has_samples, sizeof(bool), number, &sqlite->stacks_room))
		return -ENOMEM;
	sqlite->stack_has_samples[number] = false;
	return stack_table_add(&sqlite->stacks, number, outer, frame);
}

/* A stack has a higher number than that of its callers. */
static int put_stacks(struct sqlite *sqlite)
{
	const struct stack_table *stacks = &sqlite->stacks;
	AUTO_FREE uint64_t *hashes = calloc((size_t)stacks->nr + 1, sizeof(*hashes));
	int err = hashes ? 0 : -ENOMEM;

	for (uint32_t number = 1; number <= stacks->nr && !err; number++) {
		const struct stack_link *stack = &stacks->links[number];
		hashes[number] = stable_hash_mix(hashes[stack->outer], sqlite->symbol_hashes[stack->frame]);
		const struct page_value row[] = {
			{.type = PAGE_NULL},
			reference_value(stack->outer),
			integer_value(stack->frame),
			sqlite->stack_has_samples[number] ? integer_value(hashes[number])
							  : (struct page_value){.type = PAGE_NULL},
		};
		err = put(sqlite, TABLE_STACKS, number, row, NR(row));
	}
	return err;
}

/* The number of the name of a thread; 0: it has none. */
static int find_comm(struct sqlite *sqlite, const char *comm, uint32_t *ret)
{
	AUTO_BUF struct buf copy = {0};

	*ret = 0;
	if (!comm)
		return 0;
	int added = text_table_add(&sqlite->comms, comm, ret);
	if (added < 0)
		return added;
	const struct page_value row[] = {{.type = PAGE_NULL}, text_value(comm, &copy)};
	*ret += 1; /* ids begin with 1 */
	return added ? put(sqlite, TABLE_COMMS, *ret, row, NR(row)) : 0;
}

static int sqlite_thread(struct exporter *exporter, uint32_t number, const struct export_thread *thread)
{
	struct sqlite *sqlite = sqlite_of(exporter);
	uint32_t comm;
	int err = find_comm(sqlite, thread->comm, &comm);

	if (err)
		return err;
	const struct page_value none = {.type = PAGE_NULL};
	const struct page_value row[] = {
		none,
		signed_value((int32_t)thread->pid),
		reference_value(comm),
		thread->tid == thread->pid ? none : signed_value((int32_t)thread->tid),
	};
	return put(sqlite, TABLE_THREADS, number, row, NR(row));
}

static int sqlite_cgroup(struct exporter *exporter, uint32_t number, const char *path)
{
	struct buf copies[1 + NR_CGROUP_LABELS] = {0};
	struct page_value row[2 + NR_CGROUP_LABELS] = {{.type = PAGE_NULL}, text_value(path, &copies[0])};
	struct cgroup_labels labels;

	cgroup_labels_of(path, &labels);
	for (int i = 0; i < NR_CGROUP_LABELS; i++)
		row[2 + i] = text_value(*labels.texts[i] ? labels.texts[i] : NULL, &copies[1 + i]);
	int err = put(sqlite_of(exporter), TABLE_CGROUPS, number, row, NR(row));
	for (unsigned i = 0; i < NR(copies); i++)
		buf_fini(&copies[i]);
	return err;
}

/* The number of the row that is the same as `wanted`; 1: it is new; 0: it was there; -ENOMEM. */
static int share_row(struct shared_rows *shared, uint64_t key, const void *wanted, uint32_t *ret)
{
	for (struct hash_slot *slot = hash_table_find(&shared->by_key, key); slot;
	     slot = hash_table_next(&shared->by_key, slot)) {
		*ret = (uint32_t)slot->number;
		if (shared->same((const char *)shared->rows + slot->number * shared->row_bytes, wanted))
			return 0;
	}
	*ret = shared->nr + 1;
	if (table_make_room(&shared->rows, shared->row_bytes, *ret, &shared->room) ||
	    hash_table_add_number(&shared->by_key, key, *ret))
		return -ENOMEM;
	memcpy((char *)shared->rows + *ret * shared->row_bytes, wanted, shared->row_bytes);
	shared->nr = *ret;
	return 1;
}

static void shared_rows_fini(struct shared_rows *shared)
{
	hash_table_fini(&shared->by_key);
	free(shared->rows);
}

/* The number of its source, which is made when it is new, and the period of that. */
static int find_source(struct sqlite *sqlite, const struct export_sample *sample, uint32_t *ret, uint64_t *ret_period)
{
	const struct source wanted = {
		.thread = sample->thread,
		.event = sample->event,
		.cgroup = sample->cgroup,
		.cpu = sample->cpu,
		.period = sample->period,
	};
	uint64_t key = hash_mix(hash_mix((uint64_t)sample->event << 32 | sample->thread, sample->cgroup),
				(uint32_t)sample->cpu);
	int added = share_row(&sqlite->sources, key, &wanted, ret);

	if (added < 0)
		return added;
	*ret_period = ((const struct source *)sqlite->sources.rows)[*ret].period;
	if (!added)
		return 0;
	const struct page_value row[] = {
		{.type = PAGE_NULL},           cpu_value(sample->cpu),
		integer_value(sample->thread), integer_value(sample->event + 1),
		count_value(sample->period),   reference_value(sample->cgroup),
	};
	return put(sqlite, TABLE_SOURCES, *ret, row, NR(row));
}

/* The id of a row with this time, which may be 0: unknown. */
static uint64_t next_id(struct time_ids *ids, uint64_t time_ns, bool *ret_is_time)
{
	bool is_time = time_ns > 0 && time_ns <= INT64_MAX;

	if (is_time && !ids->has_origin) {
		ids->has_origin = true;
		ids->origin_ns = time_ns - ids->last - 1;
	}
	uint64_t id = time_ns - ids->origin_ns;
	/* A leap to the limit is none of a recording, and would leave no ids. */
	*ret_is_time = is_time && id > ids->last && id < UINT64_C(1) << 62;
	ids->last = *ret_is_time ? id : ids->last + 1;
	return ids->last;
}

static int sqlite_sample(struct exporter *exporter, const struct export_sample *sample)
{
	struct sqlite *sqlite = sqlite_of(exporter);
	uint64_t period;
	uint32_t source;
	bool is_time;
	int err = find_source(sqlite, sample, &source, &period);

	if (err)
		return err;
	uint64_t id = next_id(&sqlite->sample_ids, sample->time_ns, &is_time);
	const struct page_value none = {.type = PAGE_NULL};
	const struct page_value row[] = {
		none,
		integer_value(source),
		integer_value(sample->stack),
		sample->period == period ? none : count_value(sample->period),
		is_time ? none : integer_value(sample->time_ns),
	};
	if (sample->stack) /* 0: the sample has no address */
		sqlite->stack_has_samples[sample->stack] = true;
	return put(sqlite, TABLE_SAMPLES, id, row, NR(row));
}

static int put_loss(struct sqlite *sqlite, const struct export_marker *marker)
{
	AUTO_BUF struct buf cause = {0};
	const struct page_value row[] = {
		integer_value(marker->from_ns), integer_value(marker->to_ns),     cpu_value(marker->cpu),
		count_value(marker->count),     text_value(marker->text, &cause),
	};

	return put(sqlite, TABLE_LOSSES, ++sqlite->nr_losses, row, NR(row));
}

/* Its text is the name of the thread, which is stored there. */
static int sqlite_marker(struct exporter *exporter, const struct export_marker *marker)
{
	struct sqlite *sqlite = sqlite_of(exporter);
	bool is_time;

	if (marker->kind == EXPORT_LOST)
		return put_loss(sqlite, marker);
	uint64_t id = next_id(&sqlite->task_ids, marker->from_ns, &is_time);
	const struct page_value none = {.type = PAGE_NULL};
	const struct page_value row[] = {
		none,
		integer_value((uint64_t)marker->thread << 2 | marker->kind),
		is_time ? none : integer_value(marker->from_ns),
	};
	return put(sqlite, TABLE_TASK_EVENTS, id, row, NR(row));
}

/* The number of the range, which is made when it is new. */
static int find_range(struct sqlite *sqlite, const struct map_range *wanted, uint32_t *ret)
{
	uint64_t key =
		hash_mix(hash_mix(hash_mix((uint64_t)wanted->bytes, wanted->offset), wanted->object), wanted->start);
	int added = share_row(&sqlite->ranges, key, wanted, ret);

	if (added <= 0)
		return added;
	const struct page_value row[] = {
		{.type = PAGE_NULL},           integer_value((uint64_t)wanted->bytes),
		integer_value(wanted->offset), reference_value(wanted->object),
		integer_value(wanted->start),
	};
	return put(sqlite, TABLE_MAP_RANGES, *ret, row, NR(row));
}

static int sqlite_map(struct exporter *exporter, const struct export_map *map)
{
	struct sqlite *sqlite = sqlite_of(exporter);
	struct map_range wanted = {
		.offset = map->offset,
		.start = map->start & ~MAP_PAGES,
		.object = map->object,
	};
	uint32_t range;
	bool is_time;

	/* Addresses of processes end far below this: it is a damaged record. SQLite's sum would be a REAL. */
	if (__builtin_sub_overflow((int64_t)map->end, (int64_t)map->start, &wanted.bytes))
		return 0;
	int err = find_range(sqlite, &wanted, &range);
	if (err)
		return err;
	uint64_t id = next_id(&sqlite->map_ids, map->time_ns, &is_time);
	const struct page_value none = {.type = PAGE_NULL};
	const struct page_value row[] = {
		none,
		integer_value(range),
		signed_value((int32_t)map->pid),
		integer_value((map->start & MAP_PAGES) / MAP_PAGE_BYTES),
		is_time ? none : integer_value(map->time_ns),
	};
	return put(sqlite, TABLE_MAPS, id, row, NR(row));
}

/* Those whose times are computed from ids. */
static int make_time_views(struct sqlite *sqlite, struct diag *reterr)
{
	AUTO_BUF struct buf text = {0};

	buf_printf(&text, samples_view, (int64_t)sqlite->sample_ids.origin_ns);
	buf_printf(&text, task_events_view, (int64_t)sqlite->task_ids.origin_ns, EXPORT_FORK, EXPORT_EXIT, EXPORT_COMM,
		   EXPORT_EXEC);
	buf_printf(&text, maps_view, (int64_t)sqlite->map_ids.origin_ns, MAP_PAGE_BYTES, MAP_PAGE_BYTES);
	return text.failed ? -ENOMEM : run(sqlite, buf_text(&text), reterr);
}

static int sqlite_close_(struct exporter *exporter, struct diag *reterr)
{
	struct sqlite *sqlite = sqlite_of(exporter);
	int err = put_stacks(sqlite);

	if (!err)
		err = end_pages(sqlite, reterr);
	if (!err)
		err = make_time_views(sqlite, reterr);
	if (!err)
		err = run(sqlite, views, reterr);
	int code = err || !exporter->path ? SQLITE_OK : library.close(sqlite->sql.db);
	if (code != SQLITE_OK)
		return not_written(sqlite, code, reterr);
	if (!err && exporter->path)
		sqlite->sql.db = NULL;
	return err;
}

static void sqlite_free_(struct exporter *exporter)
{
	struct sqlite *sqlite = sqlite_of(exporter);

	for (unsigned i = 0; i < NR_TABLES; i++)
		page_table_fini(&sqlite->tables[i]);
	if (sqlite->sql.db)
		library.close(sqlite->sql.db);
	shared_rows_fini(&sqlite->sources);
	shared_rows_fini(&sqlite->ranges);
	text_table_fini(&sqlite->comms);
	free(sqlite->symbol_hashes);
	stack_table_fini(&sqlite->stacks);
	free(sqlite->stack_has_samples);
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
	if (!load_library())
		return diag_set(reterr, -ENOTSUP, missing, library_problem());
	struct sql *sql = calloc(1, sizeof(*sql));
	if (!sql)
		return diag_set(reterr, -ENOMEM, "out of memory");
	if (library.open_v2(path, &sql->db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK ||
	    library.exec(sql->db, "PRAGMA temp_store = MEMORY", NULL, NULL, NULL) != SQLITE_OK) {
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
		library.close(sql->db);
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

/* What would change a view fails before may_read() is called, and only the text of the error tells. */
static bool is_refused(sqlite3 *db)
{
	static const char of_view[] = "cannot modify ";

	return library.errcode(db) == SQLITE_AUTH || strncmp(library.errmsg(db), of_view, sizeof(of_view) - 1) == 0;
}

/*
 * What SQLite says of a statement that failed. Of a database that is only read SQLITE_READONLY and SQLITE_CANTOPEN mean
 * that reading it would write beside it: to FILE-shm of the WAL mode, or of a journal that is to be rolled back.
 */
static void explain(sqlite3 *db, int err, struct diag *reterr)
{
	int code = library.errcode(db);

	if (library.db_readonly(db, "main") == 1 && (code == SQLITE_READONLY || code == SQLITE_CANTOPEN))
		diag_set(reterr, err,
			 "%s: it is in WAL mode, or was not written to its end: sqlite3 FILE 'PRAGMA journal_mode = "
			 "DELETE' makes it readable, by who may write it and its directory",
			 library.errmsg(db));
	else
		diag_set(reterr, err, "%s", library.errmsg(db));
}

static void take_value(sqlite3_stmt *stmt, int at, struct sql_value *ret)
{
	*ret = (struct sql_value){.type = SQL_NULL};
	switch (library.column_type(stmt, at)) {
	case SQLITE_NULL: break;
	case SQLITE_INTEGER:
		ret->type = SQL_INTEGER;
		ret->integer = library.column_int64(stmt, at);
		break;
	case SQLITE_FLOAT:
		ret->type = SQL_REAL;
		ret->real = library.column_double(stmt, at);
		break;
	default:
		ret->type = SQL_TEXT;
		ret->text = (const char *)library.column_text(stmt, at);
		ret->len = ret->text ? (size_t)library.column_bytes(stmt, at) : 0;
	}
}

/* -EIO: SQLite says why. */
static int run_statement(sqlite3_stmt *stmt, const struct sql_receiver *receiver)
{
	int nr = library.column_count(stmt), err = 0, code = SQLITE_ROW;
	AUTO_FREE const char **names = calloc((size_t)nr + 1, sizeof(*names));
	AUTO_FREE struct sql_value *values = calloc((size_t)nr + 1, sizeof(*values));

	if (!names || !values)
		return -ENOMEM;
	for (int i = 0; i < nr; i++)
		names[i] = library.column_name(stmt, i);
	if (nr)
		err = receiver->columns(receiver->ctx, names, (unsigned)nr);
	while (!err && (code = library.step(stmt)) == SQLITE_ROW) {
		for (int i = 0; i < nr; i++)
			take_value(stmt, i, &values[i]);
		err = receiver->row(receiver->ctx, values, (unsigned)nr);
	}
	return err ? err : code == SQLITE_DONE ? 0 : -EIO;
}

int sql_query(struct sql *sql, const char *text, const struct sql_receiver *receiver, struct diag *reterr)
{
	int err = 0;

	library.set_authorizer(sql->db, may_read, NULL);
	while (*text && !err) {
		sqlite3_stmt *stmt = NULL;
		if (library.prepare_v2(sql->db, text, -1, &stmt, &text) != SQLITE_OK) {
			if (is_refused(sql->db))
				return diag_set(reterr, -EPERM, "this statement is refused: only SELECT may be used");
			explain(sql->db, -EINVAL, reterr);
			return -EINVAL;
		}
		if (!stmt)
			continue;
		err = run_statement(stmt, receiver);
		if (err == -EIO)
			explain(sql->db, err, reterr);
		library.finalize(stmt);
	}
	return err;
}
