/* SPDX-License-Identifier: MIT */
#include "cmd/dump.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "analyze/machine.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "cmd/dump_record.h"
#include "read/session.h"

enum { BYTES_PER_LINE = 16 };

static void machine_cleanup(struct machine **machine)
{
	machine_free(*machine);
}

/* ".  0010:  a2 03 00 …  ................" */
static void print_line(FILE *to, const uint8_t *bytes, size_t at, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	char line[16 + BYTES_PER_LINE * 4], *end = line + snprintf(line, 16, ".  %04zx: ", at);

	for (size_t i = 0; i < BYTES_PER_LINE; i++) {
		bool there = i < len;
		*end++ = ' ';
		*end++ = there ? digits[bytes[at + i] >> 4] : ' ';
		*end++ = there ? digits[bytes[at + i] & 15] : ' ';
	}
	*end++ = ' ';
	*end++ = ' ';
	for (size_t i = 0; i < BYTES_PER_LINE; i++)
		*end++ = i >= len ? ' ' : isprint(bytes[at + i]) ? (char)bytes[at + i] : '.';
	*end++ = '\n';
	fwrite(line, 1, (size_t)(end - line), to);
}

static void print_bytes(FILE *to, const struct session_info *info, uint64_t offset, const struct record_view *view)
{
	const struct perf_event_header *record = view->header;
	const uint8_t *bytes = (const uint8_t *)record;

	fprintf(to, "\n%#" PRIx64 "@%s%s%s [%#x]: event: %u\n.\n. ... raw event: size %u bytes\n", offset,
		strcmp(info->path, "-") ? info->path : "pipe", view->file ? "/" : "", view->file ? view->file : "",
		record->size, record->type, record->size);
	for (size_t at = 0; at < record->size; at += BYTES_PER_LINE) {
		size_t left = record->size - at;
		print_line(to, bytes, at, left < BYTES_PER_LINE ? left : BYTES_PER_LINE);
	}
	fputc('\n', to);
}

/* CPU and time stand in front when any event samples them. */
static void print_front(FILE *to, const struct session *session, const struct session_record *record)
{
	size_t nr;
	const struct event_desc *events = session_events(session, &nr);
	uint64_t types = 0;

	for (size_t i = 0; i < nr; i++)
		types |= events[i].attr.sample_type;
	if (record->view.header->type != PERF_RECORD_SAMPLE && (!nr || !events[0].attr.sample_id_all)) {
		fputs("-1 -1 ", to);
		return;
	}
	bool user = record->view.header->type >= RECORD_USER_FIRST;
	if (types & PERF_SAMPLE_CPU)
		fprintf(to, "%u ", user ? 0 : record->sample.cpu);
	if (types & PERF_SAMPLE_TIME)
		fprintf(to, "%" PRIu64 " ", record->sample.time);
}

/* Whose sample it is, and where it was taken. */
static int print_place(FILE *to, struct machine *machine, const struct session_record *record)
{
	const struct sample *sample = &record->sample;
	struct task *task = machine_task(machine, sample->pid, sample->tid);
	struct location location;

	if (!task)
		return -ENOMEM;
	machine_resolve(machine, task, sample->cpumode, sample->ip, &location);
	fprintf(to, " ... thread: %s:%d\n", task_comm(task), (int)sample->tid);
	fprintf(to, " ...... dso: %s\n", location.dso ? dso_long_name(location.dso) : "<not found>");
	return 0;
}

static int dump_record(struct session *session, struct machine *machine, const struct session_record *record, FILE *to)
{
	const struct session_info *info = session_info(session);
	const struct perf_event_header *header = record->view.header;
	/* perf counts the bytes of a pipe from behind its header. */
	uint64_t offset = record->view.offset - (info->pipe ? LAYOUT_PIPE_HEADER_BYTES : 0);

	print_bytes(to, info, offset, &record->view);
	print_front(to, session, record);
	fprintf(to, "%#" PRIx64 " [%#x]: PERF_RECORD_%s", offset, header->size, record_type_name(header->type));
	dump_record_text(record, to);
	if (header->type == PERF_RECORD_SAMPLE)
		return print_place(to, machine, record);
	return machine_process(machine, record);
}

int dump_session(struct session *session, const struct machine_options *options, FILE *to, struct diag *reterr)
{
	__attribute__((cleanup(machine_cleanup))) struct machine *machine = NULL;
	struct session_record record;
	int err = machine_new(options, session, &machine), got = 1;

	while (!err && !ferror(to) && (got = session_next(session, &record, reterr)) > 0)
		err = dump_record(session, machine, &record, to);
	return err ? diag_set(reterr, err, "%s", strerror(-err)) : got < 0 ? got : 0;
}
