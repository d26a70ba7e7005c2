/* SPDX-License-Identifier: MIT */
#include "cmd/sample_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/srcline.h"
#include "analyze/tracepoint.h"
#include "base/diag.h"
#include "cmd/dump_record.h"
#include "cmd/sample_filter.h"
#include "cmd/sample_json.h"
#include "cmd/sample_line.h"
#include "cmd/trace_formats.h"

typedef int field_printer(struct sample_line *line, struct diag *reterr);

struct columns {
	bool decided;
	uint32_t fields;
	unsigned nr, nr_front; /* front: what stands before other records, too */
	unsigned nr_steady;    /* of the front: all but the time */
	field_printer *print[NR_FIELDS];
};

/* All that the steady columns of a line are made of. */
struct steady_key {
	const struct columns *columns; /* NULL: an empty slot */
	const char *comm;              /* in the machine's memory, where no other takes its place */
	uint32_t pid, tid, cpu;
	uint32_t type_misc; /* of the record: both */
	bool chain;
};

enum { STEADY_SLOTS = 256, STEADY_BYTES = 64 };

/* Their text: threads stay on their CPU for many lines. */
struct steady {
	struct steady_key key;
	size_t len;
	char text[STEADY_BYTES];
};

struct sample_text {
	struct sample_text_options options;
	struct columns columns[NR_KINDS];
	size_t nr_events; /* for which the columns were decided */
	struct steady steady[STEADY_SLOTS];
	struct line_context context;
};

static void arrange(struct columns *columns)
{
	columns->nr = columns->nr_front = columns->nr_steady = 0;
	for (unsigned field = 0; field < NR_FIELDS; field++) {
		field_printer *print = sample_fields_table[field].print;
		if (!print || !(columns->fields >> field & 1))
			continue;
		columns->print[columns->nr++] = print;
		if (field <= FIELD_TIME)
			columns->nr_front = columns->nr;
		if (field < FIELD_TIME)
			columns->nr_steady = columns->nr;
	}
}

struct sample_text *sample_text_new(const struct sample_text_options *options, struct session *session,
				    struct machine *machine)
{
	struct sample_text *text = calloc(1, sizeof(*text));
	struct lookup *lookup = lookup_new(machine);

	if (!text || !lookup) {
		lookup_free(lookup);
		free(text);
		return NULL;
	}
	text->options = *options;
	text->context.session = session;
	text->context.lookup = lookup;
	text->context.clock = options->clock;
	text->context.symfs = options->symfs;
	text->context.full_paths = options->full_paths;
	bool all = !options->max_frames || options->max_frames > LINE_MAX_FRAMES;
	text->context.max_frames = all ? LINE_MAX_FRAMES : options->max_frames;
	for (unsigned kind = 0; kind < NR_KINDS; kind++) {
		text->columns[kind].fields = options->fields.kinds[kind].shown;
		arrange(&text->columns[kind]);
	}
	return text;
}

void sample_text_free(struct sample_text *text)
{
	if (!text)
		return;
	tracepoints_close(text->context.tracepoints);
	srclines_free(text->context.srclines);
	buf_fini(&text->context.text);
	lookup_free(text->context.lookup);
	free(text);
}

/* Call chains bring addresses: to tracepoints, unless they have a list of their own; perf leaves the rest out in pipes. */
static void add_chains(const struct sample_text *text, const struct perf_event_attr *attr, struct columns *columns)
{
	enum { IP_SYM = FIELD_BIT(FIELD_IP) | FIELD_BIT(FIELD_SYM), REST = FIELD_BIT(FIELD_SYMOFF) | FIELD_BIT(FIELD_DSO) };
	const struct kind_fields *chosen = &text->options.fields.kinds[sample_kind(attr)];

	if (text->options.hide_chains || !(attr->sample_type & PERF_SAMPLE_CALLCHAIN))
		return;
	if (session_info(text->context.session)->pipe && !text->options.json)
		columns->fields |= IP_SYM & ~chosen->removed;
	else if (attr->type == PERF_TYPE_TRACEPOINT && !chosen->chosen)
		columns->fields |= IP_SYM | REST;
}

/* One that only carries records which are no samples. */
static bool is_dummy(const struct perf_event_attr *attr)
{
	return attr->type == PERF_TYPE_SOFTWARE && attr->config == PERF_COUNT_SW_DUMMY;
}

static int check_silenced(const struct sample_text *text, struct diag *reterr)
{
	for (unsigned kind = 0; kind < NR_KINDS; kind++)
		if (text->options.fields.kinds[kind].silenced && !text->columns[kind].decided)
			return diag_set(reterr, -EINVAL, "there are no %s events, which -F speaks of", sample_kind_name(kind));
	return 0;
}

int sample_text_settle(struct sample_text *text, struct diag *reterr)
{
	size_t nr;
	const struct event_desc *events = session_events(text->context.session, &nr);

	memset(text->steady, 0, sizeof(text->steady)); /* of other columns */
	for (size_t i = text->nr_events; i < nr; i++) {
		const struct perf_event_attr *attr = &events[i].attr;
		struct columns *columns = &text->columns[sample_kind(attr)];
		/* perf decides by the first one that has samples, in a pipe by the first. */
		if (!columns->decided && (!is_dummy(attr) || session_info(text->context.session)->pipe)) {
			struct kind_fields fields = text->options.fields.kinds[sample_kind(attr)];
			int err = sample_fields_settle(&fields, &events[i], reterr);
			if (err)
				return err;
			columns->fields = fields.shown;
			columns->decided = true;
		}
		add_chains(text, attr, columns);
		arrange(columns);
	}
	text->nr_events = nr;
	return session_info(text->context.session)->pipe ? 0 : check_silenced(text, reterr);
}

static void measure_names(struct sample_text *text)
{
	size_t nr;
	const struct event_desc *events = session_events(text->context.session, &nr);

	for (size_t i = 0; i < nr; i++) {
		size_t len = strlen(events[i].name);
		if (len > text->context.name_width)
			text->context.name_width = (unsigned)len;
	}
}

/* The columns of a record's event; NULL: bad ones, and the diag says why. */
static const struct columns *columns_of(struct sample_text *text, const struct session_record *record,
					struct diag *reterr)
{
	size_t nr;

	session_events(text->context.session, &nr);
	if (nr != text->nr_events && sample_text_settle(text, reterr))
		return NULL;
	return &text->columns[sample_kind(&record->event->attr)];
}

static struct steady_key steady_key(const struct columns *columns, const struct sample_line *line)
{
	const struct perf_event_header *header = line->record->view.header;
	const struct sample *sample = &line->record->sample;

	return (struct steady_key){
		.columns = columns,
		.comm = task_comm(line->task),
		.pid = sample->pid,
		.tid = sample->tid,
		.cpu = sample->cpu,
		.type_misc = header->type << 16 | header->misc,
		.chain = sample_line_shows_chain(line),
	};
}

static bool same_key(const struct steady_key *a, const struct steady_key *b)
{
	return a->columns == b->columns && a->comm == b->comm && a->pid == b->pid && a->tid == b->tid && a->cpu == b->cpu &&
	       a->type_misc == b->type_misc && a->chain == b->chain;
}

static int print_columns(const struct columns *columns, unsigned from, unsigned to, struct sample_line *line,
			 struct diag *reterr)
{
	int err = 0;

	for (unsigned i = from; i < to && !err; i++)
		err = columns->print[i](line, reterr);
	return err;
}

static int print_steady(struct sample_text *text, const struct columns *columns, struct sample_line *line,
			struct diag *reterr)
{
	const struct steady_key key = steady_key(columns, line);
	struct steady *steady = &text->steady[(key.tid * 31 + key.cpu * 7 + key.type_misc) % STEADY_SLOTS];
	struct output *out = text->context.out;
	size_t before = out->len;

	if (same_key(&steady->key, &key)) {
		output_bytes(out, steady->text, steady->len);
		return 0;
	}
	int err = print_columns(columns, 0, columns->nr_steady, line, reterr);
	steady->key.columns = NULL;
	if (err || out->len < before || out->len - before > STEADY_BYTES) /* less: it was flushed on the way */
		return err;
	steady->key = key;
	steady->len = out->len - before;
	memcpy(steady->text, out->data + before, steady->len);
	return 0;
}

bool sample_text_has_lines_apart(const struct sample_text_options *options)
{
	uint32_t fields = 0;

	for (unsigned kind = 0; kind < NR_KINDS; kind++)
		fields |= options->fields.kinds[kind].shown;
	/* Lines of source are read by one thread. */
	return !options->json && !(options->clock & (CLOCK_SINCE_FIRST | CLOCK_SINCE_LAST)) &&
	       !(fields & FIELD_BIT(FIELD_SRCLINE));
}

int sample_text_prepare(struct sample_text *text)
{
	struct line_context *context = &text->context;
	const struct columns *columns = &text->columns[PERF_TYPE_TRACEPOINT];
	int err = sample_text_settle(text, NULL);

	if (err || !columns->decided || !(columns->fields & FIELD_BIT(FIELD_TRACE)))
		return err;
	return trace_formats_open(context->session, context->lookup, &context->tracepoints, NULL);
}

struct lookup *sample_text_lookup(struct sample_text *text)
{
	return text->context.lookup;
}

static bool asks_for_places(const struct sample_filter *filter)
{
	return filter->comms || filter->pids || filter->tids || filter->dsos || filter->symbols;
}

static bool is_shown(struct sample_text *text, const struct sample *sample, struct task *task)
{
	const struct sample_filter *filter = text->options.filter;
	struct location at;

	if (!asks_for_places(filter))
		return true;
	lookup_resolve(text->context.lookup, task, sample->cpumode, sample->ip, &at);
	const struct sample_subject subject = {
		.comm = task_comm(task),
		.pid = task_pid(task),
		.tid = sample->tid,
		.dso = at.dso,
		.symbol = at.symbol,
	};
	return sample_filter_shows(filter, &subject);
}

int sample_text_print(struct sample_text *text, const struct session_record *record, struct output *out,
		      struct diag *reterr)
{
	const struct sample *sample = &record->sample;

	if (!sample_filter_has_cpu(text->options.filter, sample->cpu))
		return 0;
	struct task *task = lookup_task(text->context.lookup, sample->pid, sample->tid);
	if (!task)
		return diag_set(reterr, -ENOMEM, "out of memory");
	if (!is_shown(text, sample, task))
		return 0;
	const struct columns *columns = columns_of(text, record, reterr);
	struct sample_line line = {
		.of = &text->context,
		.record = record,
		.task = task,
		.fields = columns ? columns->fields : 0,
		.chains = !text->options.hide_chains,
	};

	if (!columns)
		return -EINVAL;
	if (!columns->fields)
		return 0;
	text->context.out = out;
	if (text->options.json)
		return sample_json_print(&line, text->options.json, reterr);
	if (!text->context.name_width)
		measure_names(text);
	int err = print_steady(text, columns, &line, reterr);
	if (!err)
		err = print_columns(columns, columns->nr_steady, columns->nr, &line, reterr);
	if (!err)
		output_char(out, '\n');
	return err;
}

/* What a record says, as a dump has it. 0 or -ENOMEM. */
static int print_meaning(const struct session_record *record, struct output *out)
{
	char *meaning = NULL;
	size_t len = 0;
	FILE *to = open_memstream(&meaning, &len);

	if (!to)
		return -ENOMEM;
	fprintf(to, "PERF_RECORD_%s", record_type_name(record->view.header->type));
	dump_record_text(record, to);
	int err = fclose(to) ? -ENOMEM : 0;
	if (!err)
		output_bytes(out, meaning, len);
	free(meaning);
	return err;
}

int sample_text_print_record(struct sample_text *text, const struct session_record *record, struct task *task,
			     struct output *out, struct diag *reterr)
{
	const struct columns *columns = record->event ? columns_of(text, record, reterr) : NULL;
	struct sample_line line = {
		.of = &text->context,
		.record = record,
		.task = task,
		.fields = columns ? columns->fields : 0,
		.chains = !text->options.hide_chains,
	};

	if (record->event && !columns)
		return -EINVAL;
	text->context.out = out;
	int err = columns ? print_columns(columns, 0, columns->nr_front, &line, reterr) : 0;
	if (err)
		return err;
	return print_meaning(record, out) ? diag_set(reterr, -ENOMEM, "out of memory") : 0;
}
