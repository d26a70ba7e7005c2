/* SPDX-License-Identifier: MIT */
/* millrace query: SQL on a recording. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "cmd/cli/command.h"
#include "cmd/cli/json_writer.h"
#include "cmd/cli/output.h"
#include "cmd/export/feed.h"
#include "export/export.h"
#include "export/sqlite.h"
#include "sysinfo/heap.h"

struct query_options {
	struct input_options input;
	bool json, lines, no_header;
	int verbose;
};

static const struct option query_table[] = {
	INPUT_OPTIONS(struct query_options, input),
	{.name = "json",
	 .help = "Print an array of objects",
	 .set = option_set_flag,
	 .offset = offsetof(struct query_options, json),
	 .group = "Output"},
	{.name = "no-header",
	 .help = "Do not print the names of the columns",
	 .set = option_set_flag,
	 .offset = offsetof(struct query_options, no_header)},
	{.name = "lines",
	 .help = "Find the source line of each frame: takes the debug information of every object",
	 .set = option_set_flag,
	 .offset = offsetof(struct query_options, lines)},
	{.letter = 'v',
	 .name = "verbose",
	 .help = "Say more on standard error; twice: everything",
	 .set = option_set_count,
	 .offset = offsetof(struct query_options, verbose)},
	{0},
};

/* Rows as lines of fields with tabs between them, or as JSON. */
struct printer {
	const struct query_options *options;
	struct output out;
	struct json_writer json;
	struct buf buf; /* of the JSON that is not printed yet */
	const char *const *names;
};

static int print_columns(void *ctx, const char *const names[], unsigned nr)
{
	struct printer *printer = ctx;

	printer->names = names;
	for (unsigned i = 0; i < nr && !printer->options->json && !printer->options->no_header; i++) {
		output_shown(&printer->out, names[i]);
		output_char(&printer->out, i + 1 < nr ? '\t' : '\n');
	}
	return printer->out.err;
}

static void print_value(struct output *out, const struct sql_value *value)
{
	char number[32];

	switch (value->type) {
	case SQL_NULL: break;
	case SQL_INTEGER:
		snprintf(number, sizeof(number), "%lld", (long long)value->integer);
		output_text(out, number);
		break;
	case SQL_REAL:
		snprintf(number, sizeof(number), "%.15g", value->real);
		output_text(out, number);
		break;
	case SQL_TEXT: output_shown_bytes(out, value->text, value->len); break;
	}
}

static void print_json(struct json_writer *json, const char *name, const struct sql_value *value)
{
	switch (value->type) {
	case SQL_NULL: json_null(json, name); break;
	case SQL_INTEGER: json_signed(json, name, value->integer); break;
	case SQL_REAL:
		if (isinf(value->real)) /* as SQLite prints it: JSON has no word for it */
			json_printf(json, name, value->real > 0 ? "9e999" : "-9e999");
		else
			json_printf(json, name, "%.15g", value->real);
		break;
	case SQL_TEXT: json_bytes(json, name, value->text, value->len); break;
	}
}

static int print_row(void *ctx, const struct sql_value values[], unsigned nr)
{
	struct printer *printer = ctx;

	if (!printer->options->json) {
		for (unsigned i = 0; i < nr; i++) {
			print_value(&printer->out, &values[i]);
			output_char(&printer->out, i + 1 < nr ? '\t' : '\n');
		}
		return printer->out.err;
	}
	json_break(&printer->json);
	json_object(&printer->json, NULL);
	for (unsigned i = 0; i < nr; i++)
		print_json(&printer->json, printer->names[i], &values[i]);
	json_end(&printer->json);
	output_bytes(&printer->out, (const char *)printer->buf.data, printer->buf.len);
	int err = buf_status(&printer->buf);
	printer->buf.len = 0;
	return err ? err : printer->out.err;
}

static int run_query(struct sql *sql, const char *text, const struct query_options *options)
{
	struct printer printer = {.options = options, .json = {.buf = &printer.buf}};
	const struct sql_receiver receiver = {print_columns, print_row, &printer};
	struct diag diag = {0};
	int err = output_open(&printer.out, STDOUT_FILENO);

	if (err)
		return err;
	if (options->json)
		json_array(&printer.json, NULL);
	err = sql_query(sql, text, &receiver, &diag);
	if (options->json) {
		json_end(&printer.json);
		buf_put_u8(&printer.buf, '\n');
		output_bytes(&printer.out, (const char *)printer.buf.data, printer.buf.len);
	}
	buf_fini(&printer.buf);
	int written = output_close(&printer.out);
	if (written == -EPIPE) /* | head */
		return 0;
	if (written)
		log_error("standard output: %s", strerror(-written));
	else if (err)
		log_error("%s", *diag.text ? diag.text : strerror(-err));
	return err ? err : written;
}

/* Whether the file is one that export made. Source: sqlite.org/fileformat.html, "The Database Header". */
static bool is_database(const char *path)
{
	static const char magic[16] = "SQLite format 3";
	char head[sizeof(magic)];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool is = fd >= 0 && fd_pread(fd, head, sizeof(head), 0) == 0 && memcmp(head, magic, sizeof(magic)) == 0;

	if (fd >= 0)
		close(fd);
	return is;
}

static int query_database(const char *path, const char *text, const struct query_options *options)
{
	struct diag diag = {0};
	struct sql *sql;
	int err = sql_open(path, &sql, &diag);

	if (err) {
		log_error("%s", diag.text);
		return err;
	}
	err = run_query(sql, text, options);
	sql_close(sql);
	return err;
}

static int query_recording(const char *text, const struct query_options *options)
{
	const struct feed_options feed = {.input = &options->input, .lines = options->lines};
	const struct export_target memory = {.fd = -1, .name = "memory"};
	const struct export_format *format = export_format_find("sqlite", NULL);
	struct exporter *exporter;
	struct feed_counts counts;

	if (!format) {
		log_error("this build has no SQLite");
		return -ENOTSUP;
	}
	heap_use_huge_pages();
	int err = feed_recording(&feed, format, &memory, &exporter, &counts);
	if (exporter && (!err || err == -EBADMSG)) {
		int query_err = run_query(sql_of_exporter(exporter), text, options);
		err = err ? err : query_err;
	}
	export_free(exporter);
	return err;
}

static int query_run(int argc, char **argv)
{
	struct query_options options = {0};
	AUTO_CONFIGURATION struct configuration config = {0};
	enum option_result result = configuration_parse(&command_query, argc, argv, &options, &config);

	if (result != OPTION_OK)
		return result == OPTION_EXIT ? 0 : COMMAND_USAGE;
	if (config.given.first + 1 != argc) {
		log_error("query takes the statement as one argument: millrace query -i FILE 'SELECT * FROM "
			  "top_functions'");
		return COMMAND_USAGE;
	}
	log_set_level(options.verbose);
	input_enter_sandbox(&options.input, NULL, 0);
	const char *text = argv[config.given.first];
	const char *path = input_path(&options.input);
	bool database = is_database(path);
	if (database && options.input.time) {
		log_error("%s: --time is for recordings, and this is a database: choose a part of it with WHERE time",
			  path);
		return COMMAND_USAGE;
	}
	int err = database ? query_database(path, text, &options) : query_recording(text, &options);
	return err ? INPUT_EXIT_ERROR : 0;
}

const struct command command_query = {
	.name = "query",
	.summary = "Query a recording in SQL",
	.usage = "[OPTIONS] SQL",
	.description =
		"Reads a recording into tables in memory, or opens a file of millrace export --format=sqlite, and "
		"prints what the statement selects: the names of the columns, and a line for each row with tabs "
		"between its fields. Nothing can be changed. The tables are in millrace-sql(7).\n"
		"\n"
		"Examples:\n"
		"  millrace query 'SELECT * FROM top_functions LIMIT 10'\n"
		"  millrace query --json 'SELECT * FROM thread_timeline'",
	.options = query_table,
	.run = query_run,
};
