/* SPDX-License-Identifier: MIT */
#include "cmd/sample_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/machine.h"
#include "analyze/tracepoint.h"
#include "base/buf.h"
#include "base/diag.h"
#include "cmd/output.h"

/* Kinds of events, each with its columns: the types of perf_event_attr, and one for all dynamic types. */
enum { KIND_OTHER = PERF_TYPE_MAX, NR_KINDS };

enum { MAX_FRAMES = 4096 };

struct columns {
	bool decided;
	bool tid, cpu, time, period, fields, address;
	bool offset_and_object; /* behind the symbol of an address */
};

struct sample_text {
	struct session *session;
	struct machine *machine;
	struct output *out;
	struct columns columns[NR_KINDS];
	size_t nr_events; /* for which the columns were decided */
	unsigned name_width;
	struct tracepoints *tracepoints; /* NULL until the first sample of one */
	struct buf fields;
	struct location frames[MAX_FRAMES];
};

static const char *resolve_kernel(void *of, uint64_t address, uint64_t *ret_start)
{
	struct sample_text *text = of;
	struct task *task = machine_task(text->machine, 0, 0);
	struct location location;

	if (!task)
		return NULL;
	machine_resolve(text->machine, task, PERF_RECORD_MISC_KERNEL, address, &location);
	if (!location.symbol)
		return NULL;
	*ret_start = address - (location.address - location.symbol->start);
	return location.symbol->name;
}

struct sample_text *sample_text_new(struct session *session, struct machine *machine, struct output *out)
{
	struct sample_text *text = calloc(1, sizeof(*text));

	if (!text)
		return NULL;
	text->session = session;
	text->machine = machine;
	text->out = out;
	return text;
}

void sample_text_free(struct sample_text *text)
{
	if (!text)
		return;
	tracepoints_close(text->tracepoints);
	buf_fini(&text->fields);
	free(text);
}

static unsigned kind_of(const struct perf_event_attr *attr)
{
	return attr->type < PERF_TYPE_MAX ? attr->type : KIND_OTHER;
}

static void decide(struct columns *columns, const struct perf_event_attr *attr)
{
	uint64_t type = attr->sample_type;
	bool tracepoint = attr->type == PERF_TYPE_TRACEPOINT;

	*columns = (struct columns){
		.decided = true,
		.tid = type & PERF_SAMPLE_TID,
		.cpu = type & PERF_SAMPLE_CPU,
		.time = type & PERF_SAMPLE_TIME,
		.period = !tracepoint,
		.fields = tracepoint,
		.address = !tracepoint && type & PERF_SAMPLE_IP,
		.offset_and_object = true,
	};
}

/* Again when a pipe brought more events. */
static void decide_columns(struct sample_text *text)
{
	bool pipe = session_info(text->session)->pipe;
	size_t nr;
	const struct event_desc *events = session_events(text->session, &nr);

	if (nr == text->nr_events)
		return;
	for (size_t i = text->nr_events; i < nr; i++) {
		const struct perf_event_attr *attr = &events[i].attr;
		struct columns *columns = &text->columns[kind_of(attr)];
		if (!columns->decided)
			decide(columns, attr);
		if (!(attr->sample_type & PERF_SAMPLE_CALLCHAIN))
			continue;
		/* Tracepoints show addresses when one of them has call chains; perf leaves the rest out in pipes. */
		if (attr->type == PERF_TYPE_TRACEPOINT && !columns->address)
			columns->offset_and_object = !pipe;
		columns->address = true;
	}
	text->nr_events = nr;
}

static void measure_names(struct sample_text *text)
{
	size_t nr;
	const struct event_desc *events = session_events(text->session, &nr);

	for (size_t i = 0; i < nr; i++) {
		size_t len = strlen(events[i].name);
		if (len > text->name_width)
			text->name_width = (unsigned)len;
	}
}

/* The columns before the event's name, "sh  9599 [000]  1381.218827:     250000 ". */
static void print_front(struct sample_text *text, const struct columns *columns, const struct sample *sample,
			const char *comm)
{
	struct output *out = text->out;

	/* In front of a call chain the name is not aligned. */
	output_padded(out, comm, sample->present & PERF_SAMPLE_CALLCHAIN && columns->address ? 0 : 16);
	output_char(out, ' ');
	if (columns->tid) {
		if (sample->tid == ~0u)
			output_text(out, "   -1");
		else
			output_decimal(out, sample->tid, (struct output_pad){5, ' '});
		output_char(out, ' ');
	}
	if (columns->cpu) {
		output_char(out, '[');
		if (sample->cpu == ~0u)
			output_text(out, "-01");
		else
			output_decimal(out, sample->cpu, (struct output_pad){3, '0'});
		output_bytes(out, "] ", 2);
	}
	if (columns->time) {
		output_decimal(out, sample->time / 1000000000, (struct output_pad){5, ' '});
		output_char(out, '.');
		output_decimal(out, sample->time % 1000000000 / 1000, (struct output_pad){6, '0'});
		output_bytes(out, ": ", 2);
	}
	if (columns->period) {
		output_decimal(out, sample->period, (struct output_pad){10, ' '});
		output_char(out, ' ');
	}
}

/* The formats come once, in the file or before the first sample of a pipe. */
static int open_tracepoints(struct sample_text *text, struct diag *reterr)
{
	struct span blob;

	if (text->tracepoints || !session_feature(text->session, FEATURE_TRACING_DATA, &blob))
		return 0;
	int err = tracepoints_open(blob, &text->tracepoints, reterr);
	if (!err)
		tracepoints_set_resolver(text->tracepoints, resolve_kernel, text);
	return err;
}

static int print_fields(struct sample_text *text, const struct sample *sample, struct diag *reterr)
{
	int err = open_tracepoints(text, reterr);

	if (err || !text->tracepoints)
		return err;
	text->fields.len = 0;
	tracepoint_print(text->tracepoints, sample->raw, sample->cpu, &text->fields);
	output_bytes(text->out, (const char *)text->fields.data, text->fields.len);
	return 0;
}

/* "ffffffff81690a75 vfs_read+0x23a ([kernel.kallsyms])" */
static void print_location(struct sample_text *text, const struct columns *columns,
			   const struct location *location, uint64_t shown)
{
	struct output *out = text->out;
	const struct symbol *symbol = location->symbol;

	output_hex(out, shown, (struct output_pad){16, ' '});
	output_char(out, ' ');
	output_text(out, symbol ? symbol->name : "[unknown]");
	if (!columns->offset_and_object)
		return;
	if (symbol) {
		output_bytes(out, "+0x", 3);
		output_hex(out, location->address - symbol->start, (struct output_pad){0});
	}
	output_bytes(out, " (", 2);
	if (symbol && symbol->inlined)
		output_text(out, "inlined");
	else
		output_text(out, location->dso ? dso_long_name(location->dso) : "[unknown]");
	output_char(out, ')');
}

static void print_chain(struct sample_text *text, const struct columns *columns, struct task *task,
			const struct session_record *record)
{
	unsigned nr = machine_callchain(text->machine, task, record, text->frames, MAX_FRAMES);

	output_char(text->out, '\n');
	for (unsigned i = 0; i < nr; i++) {
		output_char(text->out, '\t');
		print_location(text, columns, &text->frames[i], text->frames[i].address);
		output_char(text->out, '\n');
	}
}

int sample_text_print(struct sample_text *text, const struct session_record *record, struct diag *reterr)
{
	const struct sample *sample = &record->sample;
	struct task *task = machine_task(text->machine, sample->pid, sample->tid);
	struct output *out = text->out;

	if (!task)
		return diag_set(reterr, -ENOMEM, "out of memory");
	decide_columns(text);
	if (!text->name_width)
		measure_names(text);

	const struct columns *columns = &text->columns[kind_of(&record->event->attr)];
	print_front(text, columns, sample, task_comm(task));
	output_padded(out, record->event->name, text->name_width);
	output_bytes(out, ": ", 2);
	if (columns->fields) {
		int err = print_fields(text, sample, reterr);
		if (err)
			return err;
	}
	if (columns->address && sample->present & PERF_SAMPLE_CALLCHAIN) {
		print_chain(text, columns, task, record);
	} else if (columns->address) {
		struct location location;
		machine_resolve(text->machine, task, sample->cpumode, sample->ip, &location);
		output_char(out, ' ');
		print_location(text, columns, &location, sample->ip);
	}
	output_char(out, '\n');
	return 0;
}
