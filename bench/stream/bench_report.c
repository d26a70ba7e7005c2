/* SPDX-License-Identifier: MIT */
#include "bench_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"

enum { MAX_RUNS_SHOWN = 1000, CELL = 64 };

static double megabytes_per_s(const struct bench_stream_result *result)
{
	return (double)result->bytes / result->stored_s / 1e6;
}

/* CPU seconds for each GB that went through the pump. */
static double per_gb(const struct bench_stream_result *result, uint64_t cpu_ns)
{
	return result->counters.bytes ? (double)cpu_ns / (double)result->counters.bytes : 0;
}

static double reader_cost(const struct bench_stream_result *result)
{
	return per_gb(result, result->reader_cpu_ns);
}

static double recorder_cost(const struct bench_stream_result *result)
{
	return per_gb(result, result->recorder_cpu_ns);
}

static double made(const struct bench_stream_result *result)
{
	return (double)result->load.made;
}

static double dropped(const struct bench_stream_result *result)
{
	return (double)result->load.dropped;
}

static double dropped_percent(const struct bench_stream_result *result)
{
	return result->load.made ? 100.0 * (double)result->load.dropped / (double)result->load.made : 0;
}

static double lost_any(const struct bench_stream_result *result)
{
	return result->load.lost_any;
}

static double lost_mean(const struct bench_stream_result *result)
{
	return result->load.lost_mean;
}

static double wait_p50(const struct bench_stream_result *result)
{
	return (double)latency_quantile(&result->waits, 0.50) / 1e6;
}

static double wait_p99(const struct bench_stream_result *result)
{
	return (double)latency_quantile(&result->waits, 0.99) / 1e6;
}

static double wait_max(const struct bench_stream_result *result)
{
	return (double)result->waits.max_ns / 1e6;
}

static double drain_seconds(const struct bench_stream_result *result)
{
	return result->stored_s - result->load.elapsed_s;
}

static double rounds(const struct bench_stream_result *result)
{
	return (double)result->counters.rounds;
}

static double passes(const struct bench_stream_result *result)
{
	return (double)result->counters.passes;
}

static double visits(const struct bench_stream_result *result)
{
	return (double)result->counters.chunks;
}

static double stored_bytes(const struct bench_stream_result *result)
{
	return (double)result->bytes;
}

/* Everything that is told of a run. */
static const struct column {
	const char *key;      /* in JSON */
	const char *title[2]; /* in the table; NULL: not there */
	int digits;           /* behind the point */
	double (*value)(const struct bench_stream_result *result);
} columns[] = {
	{"made", {"made", ""}, 0, made},
	{"dropped", {NULL, NULL}, 0, dropped},
	{"dropped_percent", {"dropped", "%"}, 2, dropped_percent},
	{"lost_time_any", {"lost time", "any ring"}, 3, lost_any},
	{"lost_time_mean", {"lost time", "per ring"}, 3, lost_mean},
	{"wait_p50_ms", {"wait p50", "ms"}, 2, wait_p50},
	{"wait_p99_ms", {"wait p99", "ms"}, 2, wait_p99},
	{"wait_max_ms", {"wait max", "ms"}, 1, wait_max},
	{"bytes", {NULL, NULL}, 0, stored_bytes},
	{"mb_per_s", {"stored", "MB/s"}, 1, megabytes_per_s},
	{"drain_s", {"drained", "s after"}, 2, drain_seconds},
	{"reader_cpu_s_per_gb", {"reader", "CPU-s/GB"}, 3, reader_cost},
	{"recorder_cpu_s_per_gb", {"recorder", "CPU-s/GB"}, 3, recorder_cost},
	{"rounds", {"rounds", ""}, 0, rounds},
	{"passes", {"passes", ""}, 0, passes},
	{"visits", {NULL, NULL}, 0, visits},
};

enum { NR_COLUMNS = sizeof(columns) / sizeof(columns[0]) };

static int compare_doubles(const void *a, const void *b)
{
	double one = *(const double *)a, other = *(const double *)b;

	return (one > other) - (one < other);
}

struct cell {
	char text[CELL];
};

/* "minimum/median/maximum", or the one value. */
static struct cell make_cell(const struct column *column, const struct bench_report_row *row)
{
	double values[MAX_RUNS_SHOWN];
	size_t nr = row->nr_results < MAX_RUNS_SHOWN ? row->nr_results : MAX_RUNS_SHOWN;
	struct cell cell = {"-"};

	for (size_t i = 0; i < nr; i++)
		values[i] = column->value(&row->results[i]);
	qsort(values, nr, sizeof(*values), compare_doubles);
	if (nr == 1)
		snprintf(cell.text, sizeof(cell.text), "%.*f", column->digits, values[0]);
	else if (nr)
		snprintf(cell.text, sizeof(cell.text), "%.*f/%.*f/%.*f", column->digits, values[0], column->digits,
			 (values[(nr - 1) / 2] + values[nr / 2]) / 2, column->digits, values[nr - 1]);
	return cell;
}

static void put_load(const struct bench_stream_options *options, size_t nr_runs, struct buf *ret)
{
	const struct synthetic_load_options *load = &options->load;
	double mean = load->off_ns ? (double)load->on_ns / (double)(load->on_ns + load->off_ns) : 1;
	double peak = load->rate * (double)load->nr_busy * (double)load->sample_bytes / 1e6;

	buf_printf(ret, "%zu rings of %zu KiB, %zu of them busy with %.0f samples/s of %zu bytes: %.1f MB/s",
		   options->nr_rings, options->ring_bytes / 1024, load->nr_busy, load->rate, load->sample_bytes, peak);
	if (load->off_ns)
		buf_printf(ret, " for %.0f of every %.0f ms, %.1f MB/s on the whole", (double)load->on_ns / 1e6,
			   (double)(load->on_ns + load->off_ns) / 1e6, peak * mean);
	buf_printf(ret, "; %.1f s; ", (double)load->duration_ns / 1e9);
	if (options->storage_bytes_per_s)
		buf_printf(ret, "storage takes %.1f MB/s", (double)options->storage_bytes_per_s / 1e6);
	else
		buf_printf(ret, "%s", options->output ? options->output : "a temporary file");
	if (nr_runs > 1)
		buf_printf(ret, "; minimum/median/maximum of %zu runs", nr_runs);
	buf_printf(ret, "\n\n");
}

void bench_report_table(const struct bench_stream_options *options, const struct bench_report_row rows[],
			size_t nr_rows, struct buf *ret)
{
	int first = (int)strlen("writer"), widths[NR_COLUMNS];
	AUTO_FREE struct cell *cells = calloc(nr_rows * NR_COLUMNS, sizeof(*cells));

	if (!cells || !nr_rows)
		return;
	for (size_t row = 0; row < nr_rows; row++)
		first = (int)strlen(rows[row].writer) > first ? (int)strlen(rows[row].writer) : first;
	for (size_t i = 0; i < NR_COLUMNS; i++) {
		widths[i] = 0;
		for (int line = 0; line < 2 && columns[i].title[0]; line++)
			if ((int)strlen(columns[i].title[line]) > widths[i])
				widths[i] = (int)strlen(columns[i].title[line]);
		for (size_t row = 0; row < nr_rows; row++) {
			struct cell *cell = &cells[row * NR_COLUMNS + i];
			*cell = make_cell(&columns[i], &rows[row]);
			widths[i] = (int)strlen(cell->text) > widths[i] ? (int)strlen(cell->text) : widths[i];
		}
	}
	put_load(options, rows[0].nr_results, ret);
	for (int line = 0; line < 2; line++) {
		buf_printf(ret, "%-*s", first, line ? "" : "writer");
		for (size_t i = 0; i < NR_COLUMNS; i++)
			if (columns[i].title[0])
				buf_printf(ret, "  %*s", widths[i], columns[i].title[line]);
		buf_printf(ret, "\n");
	}
	for (size_t row = 0; row < nr_rows; row++) {
		buf_printf(ret, "%-*s", first, rows[row].writer);
		for (size_t i = 0; i < NR_COLUMNS; i++)
			if (columns[i].title[0])
				buf_printf(ret, "  %*s", widths[i], cells[row * NR_COLUMNS + i].text);
		buf_printf(ret, "\n");
	}
}

static void put_json_run(const struct bench_stream_result *result, struct buf *ret)
{
	for (size_t i = 0; i < NR_COLUMNS; i++)
		buf_printf(ret, "%s\"%s\": %.*f", i ? ", " : "{", columns[i].key, columns[i].digits ? 6 : 0,
			   columns[i].value(result));
	buf_printf(ret, "}");
}

void bench_report_json(const struct bench_stream_options *options, const struct bench_report_row rows[], size_t nr_rows,
		       struct buf *ret)
{
	const struct synthetic_load_options *load = &options->load;

	buf_printf(
		ret,
		"{\"rings\": %zu, \"ring_bytes\": %zu, \"busy\": %zu, \"samples_per_s\": %.6f, \"sample_bytes\": %zu,\n"
		" \"on_ms\": %.6f, \"off_ms\": %.6f, \"duration_s\": %.6f, \"storage_mb_per_s\": %.6f,\n"
		" \"writers\": [",
		options->nr_rings, options->ring_bytes, load->nr_busy, load->rate, load->sample_bytes,
		(double)load->on_ns / 1e6, (double)load->off_ns / 1e6, (double)load->duration_ns / 1e9,
		(double)options->storage_bytes_per_s / 1e6);
	for (size_t row = 0; row < nr_rows; row++) {
		/* The name went through the parser of --writer: letters, digits, ",=". */
		buf_printf(ret, "%s\n  {\"writer\": \"%s\", \"runs\": [", row ? "," : "", rows[row].writer);
		for (size_t run = 0; run < rows[row].nr_results; run++) {
			buf_printf(ret, "%s\n   ", run ? "," : "");
			put_json_run(&rows[row].results[run], ret);
		}
		buf_printf(ret, "]}");
	}
	buf_printf(ret, "]}\n");
}
