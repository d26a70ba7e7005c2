/* SPDX-License-Identifier: MIT */
#include "cmd/text/thread_values.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/escape.h"
#include "base/span.h"
#include "read/session.h"

void threads_fini(struct threads *threads)
{
	for (size_t i = 0; i < threads->nr_rows; i++) {
		free(threads->rows[i]->values);
		free(threads->rows[i]);
	}
	free(threads->rows);
	free(threads->columns);
	hash_table_fini(&threads->known);
	*threads = (struct threads){0};
}

/* NULL: out of memory. */
static struct thread_values *find_row(struct threads *threads, uint32_t pid, uint32_t tid)
{
	uint64_t key = (uint64_t)pid << 32 | tid;
	struct thread_values *row = hash_table_find_item(&threads->known, key);

	if (row)
		return row;
	if (array_room(threads->rows, threads->nr_rows, threads->room))
		return NULL;
	row = calloc(1, sizeof(*row));
	if (!row || hash_table_add(&threads->known, key, row)) {
		free(row);
		return NULL;
	}
	row->pid = pid;
	row->tid = tid;
	threads->rows[threads->nr_rows++] = row;
	return row;
}

/* Of an event; -1: out of memory. */
static int64_t find_column(struct threads *threads, size_t event)
{
	for (size_t i = 0; i < threads->nr_columns; i++)
		if (threads->columns[i].event == event)
			return (int64_t)i;
	struct thread_column *columns =
		reallocarray(threads->columns, threads->nr_columns + 1, sizeof(*threads->columns));
	if (!columns)
		return -1;
	threads->columns = columns;
	columns[threads->nr_columns] = (struct thread_column){.event = event};
	return (int64_t)threads->nr_columns++;
}

static int wider(int width, int other)
{
	return width > other ? width : other;
}

static int add(struct threads *threads, struct thread_values *row, size_t event, uint64_t value)
{
	int64_t column = find_column(threads, event);

	if (column < 0)
		return -ENOMEM;
	if (row->nr <= (size_t)column) {
		uint64_t *values = reallocarray(row->values, (size_t)column + 1, sizeof(*values));
		if (!values)
			return -ENOMEM;
		memset(values + row->nr, 0, ((size_t)column + 1 - row->nr) * sizeof(*values));
		row->values = values;
		row->nr = (size_t)column + 1;
	}
	row->values[column] += value;
	int *width = &threads->columns[column].width;
	*width = wider(*width, snprintf(NULL, 0, "%" PRIu64, row->values[column]));
	return 0;
}

int threads_take(struct threads *threads, const struct session *session, const struct session_record *record)
{
	const struct perf_event_header *header = record->view.header;
	struct cursor at = cursor_over((struct span){header + 1, header->size - sizeof(*header)});
	size_t nr;

	if (header->type != PERF_RECORD_READ || !record->event)
		return 0;
	uint32_t pid = cursor_u32(&at), tid = cursor_u32(&at);
	uint64_t value = cursor_u64(&at); /* perf_event_open(2): the first word of read_format without GROUP */
	if (at.bad)
		return 0;
	struct thread_values *row = find_row(threads, pid, tid);
	threads->session = session;
	return row ? add(threads, row, (size_t)(record->event - session_events(session, &nr)), value) : -ENOMEM;
}

/* row NULL: the titles. */
static void print_columns(const struct threads *threads, const struct thread_values *row, FILE *to)
{
	size_t nr;
	const struct event_desc *events = threads->nr_columns ? session_events(threads->session, &nr) : NULL;

	for (size_t i = 0; i < threads->nr_columns; i++) {
		AUTO_ESCAPED name = escaped_text(events[threads->columns[i].event].name);
		int width = wider((int)name.len, threads->columns[i].width);
		if (row)
			fprintf(to, "  %*" PRIu64, width, i < row->nr ? row->values[i] : 0);
		else
			fprintf(to, "  %*s", width, name.text);
	}
	fputc('\n', to);
}

/* A line for each value; "Raw" is the number of its event in the recording. */
static void print_raw(const struct threads *threads, int pid_width, int tid_width, FILE *to)
{
	int name_width = (int)strlen("Name"), raw_width = (int)strlen("Raw"), value_width = (int)strlen("Count");
	size_t nr;
	const struct event_desc *events = threads->nr_columns ? session_events(threads->session, &nr) : NULL;

	for (size_t i = 0; i < threads->nr_columns; i++) {
		AUTO_ESCAPED name = escaped_text(events[threads->columns[i].event].name);
		name_width = wider(name_width, (int)name.len);
		raw_width = wider(raw_width, snprintf(NULL, 0, "%" PRIx64, (uint64_t)threads->columns[i].event));
		value_width = wider(value_width, threads->columns[i].width);
	}
	fprintf(to, "# %*s  %*s  %*s  %*s  %*s\n", pid_width, "PID", tid_width, "TID", name_width, "Name", raw_width,
		"Raw", value_width, "Count");
	for (size_t at = 0; at < threads->nr_rows * threads->nr_columns; at++) {
		const struct thread_values *row = threads->rows[at / threads->nr_columns];
		size_t column = at % threads->nr_columns;
		AUTO_ESCAPED name = escaped_text(events[threads->columns[column].event].name);
		fprintf(to, "  %*" PRIu32 "  %*" PRIu32 "  %*s  %*" PRIx64 "  %*" PRIu64 "\n", pid_width, row->pid,
			tid_width, row->tid, name_width, name.text, raw_width, (uint64_t)threads->columns[column].event,
			value_width, column < row->nr ? row->values[column] : 0);
	}
}

void threads_print(const struct threads *threads, enum threads_layout layout, FILE *to)
{
	int pid_width = (int)strlen("PID"), tid_width = (int)strlen("TID");

	for (size_t i = 0; i < threads->nr_rows; i++) {
		pid_width = wider(pid_width, snprintf(NULL, 0, "%" PRIu32, threads->rows[i]->pid));
		tid_width = wider(tid_width, snprintf(NULL, 0, "%" PRIu32, threads->rows[i]->tid));
	}
	if (layout == THREADS_RAW) {
		print_raw(threads, pid_width, tid_width, to);
		return;
	}
	fprintf(to, "# %*s  %*s", pid_width, "PID", tid_width, "TID");
	print_columns(threads, NULL, to);
	for (size_t i = 0; i < threads->nr_rows; i++) {
		const struct thread_values *row = threads->rows[i];
		fprintf(to, "  %*" PRIu32 "  %*" PRIu32, pid_width, row->pid, tid_width, row->tid);
		print_columns(threads, row, to);
	}
}
