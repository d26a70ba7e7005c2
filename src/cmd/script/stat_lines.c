/* SPDX-License-Identifier: MIT */
#include "cmd/script/stat_lines.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/span.h"
#include "cmd/cli/output.h"
#include "perfdata/attr.h"
#include "perfdata/record.h"
#include "read/session.h"

enum {
	COUNTS_MAX_BYTES = 256 << 20, /* of one round */
	THREAD_BYTES = 24,            /* of RECORD_THREAD_MAP: pid, comm[16] */
};

/* A RECORD_STAT. */
struct stat_count {
	uint64_t event; /* from 1 on; 0: unknown */
	uint64_t value, enabled_ns, running_ns;
	uint64_t at; /* among those of the round */
	uint32_t cpu, thread;
};

static struct span payload_of(const struct session_record *record)
{
	const struct perf_event_header *header = record->view.header;

	return (struct span){header + 1, header->size - sizeof(*header)};
}

static int take_threads(struct stat_lines *lines, struct cursor at)
{
	uint64_t nr = cursor_u64(&at);

	if (at.bad || nr > cursor_left(&at) / THREAD_BYTES)
		return -EBADMSG;
	uint64_t *pids = realloc(lines->pids, (size_t)(nr + 1) * sizeof(*pids));
	if (!pids)
		return -ENOMEM;
	lines->pids = pids;
	lines->nr_pids = (size_t)nr;
	for (size_t i = 0; i < nr; i++) {
		pids[i] = cursor_u64(&at);
		cursor_take(&at, THREAD_BYTES - sizeof(uint64_t));
	}
	return 0;
}

/* The number of the event that has this id, from 1 on; 0: none. */
static uint64_t event_of(struct stat_lines *lines, const struct session *session, uint64_t id)
{
	size_t nr;
	const struct event_desc *events = session_events(session, &nr);

	for (; lines->nr_ids_of_events < nr; lines->nr_ids_of_events++) {
		const struct event_desc *event = &events[lines->nr_ids_of_events];
		for (size_t i = 0; i < event->nr_ids; i++)
			if (hash_table_add_number(&lines->ids, event->ids[i], lines->nr_ids_of_events + 1))
				return 0;
	}
	const struct hash_slot *slot = hash_table_find(&lines->ids, id);
	return slot ? slot->number : 0;
}

/* struct perf_record_stat behind its header, tools/lib/perf/include/perf/event.h. */
static int take_count(struct stat_lines *lines, const struct session *session, struct cursor at)
{
	struct stat_count count = {.event = event_of(lines, session, cursor_u64(&at)), .at = lines->counts.len};

	count.cpu = cursor_u32(&at);
	count.thread = cursor_u32(&at);
	count.value = cursor_u64(&at);
	count.enabled_ns = cursor_u64(&at);
	count.running_ns = cursor_u64(&at);
	if (at.bad || lines->counts.len > COUNTS_MAX_BYTES)
		return -EBADMSG;
	buf_put(&lines->counts, &count, sizeof(count));
	return lines->counts.failed ? -ENOMEM : 0;
}

/* As perf prints them: event by event. */
static int compare_counts(const void *left, const void *right)
{
	const struct stat_count *a = left, *b = right;

	if (a->event != b->event)
		return a->event < b->event ? -1 : 1;
	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	return a->at < b->at ? -1 : a->at > b->at;
}

static void print_round(struct stat_lines *lines, const struct session *session, uint64_t time_ns, struct output *out)
{
	struct stat_count *counts = (struct stat_count *)lines->counts.data;
	size_t nr = lines->counts.len / sizeof(*counts), nr_events;
	const struct event_desc *events = session_events(session, &nr_events);
	char text[160];

	snprintf(text, sizeof(text), "%3s %8s %15s %15s %15s %15s %s\n", "CPU", "THREAD", "VAL", "ENA", "RUN", "TIME",
		 "EVENT");
	output_text(out, lines->titled ? "" : text);
	lines->titled = true;
	if (nr)
		qsort(counts, nr, sizeof(*counts), compare_counts);
	for (const struct stat_count *count = counts; count < counts + nr; count++) {
		int pid = count->thread < lines->nr_pids ? (int)lines->pids[count->thread] : -1;
		snprintf(text, sizeof(text), "%3d %8d %15" PRIu64 " %15" PRIu64 " %15" PRIu64 " %15" PRIu64 " ",
			 (int)count->cpu, pid, count->value, count->enabled_ns, count->running_ns, time_ns);
		output_text(out, text);
		output_shown(out, count->event ? events[count->event - 1].name : "[unknown]");
		output_char(out, '\n');
	}
	lines->counts.len = 0;
}

int stat_lines_take(struct stat_lines *lines, const struct session *session, const struct session_record *record,
		    struct output *out, struct diag *reterr)
{
	struct cursor at = cursor_over(payload_of(record));
	uint32_t type = record->view.header->type;
	int err = 0;

	if (type == RECORD_THREAD_MAP) {
		err = take_threads(lines, at);
	} else if (type == RECORD_STAT) {
		err = take_count(lines, session, at);
	} else if (type == RECORD_STAT_ROUND) {
		cursor_u64(&at); /* whether it is the last one */
		uint64_t time_ns = cursor_u64(&at);
		err = at.bad ? -EBADMSG : 0;
		if (!err)
			print_round(lines, session, time_ns, out);
	}
	if (err == -ENOMEM)
		return diag_set(reterr, err, "out of memory");
	return err ? diag_set(reterr, err, "a record of counts is too short, or there are too many of them") : 0;
}

void stat_lines_fini(struct stat_lines *lines)
{
	buf_fini(&lines->counts);
	hash_table_fini(&lines->ids);
	free(lines->pids);
	*lines = (struct stat_lines){0};
}
