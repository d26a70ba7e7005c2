/* SPDX-License-Identifier: MIT */
#include "cmd/text/sample_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/report/tracepoint.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/escape.h"
#include "cmd/input/sample_filter.h"
#include "cmd/text/dump.h"
#include "cmd/text/sample_details.h"
#include "cmd/text/sample_line.h"

enum { ALL_KINDS = NR_KINDS };

static const char *const kind_names[NR_KINDS] = {
	[PERF_TYPE_HARDWARE] = "hardware",
	[PERF_TYPE_SOFTWARE] = "software",
	[PERF_TYPE_TRACEPOINT] = "tracepoint",
	[PERF_TYPE_HW_CACHE] = "hardware-cache",
	[PERF_TYPE_RAW] = "raw",
	[PERF_TYPE_BREAKPOINT] = "breakpoint",
	[KIND_OTHER] = "other",
};

/* Kinds as -F has them; the rest can only be meant by "all". */
static const struct {
	const char *word;
	unsigned kind;
} kind_words[] = {
	{"hw", PERF_TYPE_HARDWARE}, {"sw", PERF_TYPE_SOFTWARE},      {"trace", PERF_TYPE_TRACEPOINT},
	{"raw", PERF_TYPE_RAW},     {"break", PERF_TYPE_BREAKPOINT},
};

/* "software", for messages. */
static const char *sample_kind_name(unsigned kind)
{
	return kind_names[kind];
}

void sample_fields_init(struct sample_fields *fields)
{
	enum {
		FRONT = FIELD_BIT(FIELD_COMM) | FIELD_BIT(FIELD_TID) | FIELD_BIT(FIELD_CPU) | FIELD_BIT(FIELD_TIME) |
			FIELD_BIT(FIELD_EVENT),
		PLACE = FIELD_BIT(FIELD_PERIOD) | FIELD_BIT(FIELD_IP) | FIELD_BIT(FIELD_SYM) | FIELD_BIT(FIELD_SYMOFF) |
			FIELD_BIT(FIELD_DSO),
		MEMORY = FIELD_BIT(FIELD_ADDR) | FIELD_BIT(FIELD_DATA_SRC) | FIELD_BIT(FIELD_WEIGHT) |
			 FIELD_BIT(FIELD_INS_LAT) | FIELD_BIT(FIELD_PHYS_ADDR) | FIELD_BIT(FIELD_DATA_PAGE_SIZE) |
			 FIELD_BIT(FIELD_CODE_PAGE_SIZE),
	};

	*fields = (struct sample_fields){0};
	for (unsigned kind = 0; kind < NR_KINDS; kind++)
		fields->kinds[kind].shown = FRONT | PLACE;
	fields->kinds[PERF_TYPE_TRACEPOINT].shown = FRONT | FIELD_BIT(FIELD_TRACE);
	fields->kinds[PERF_TYPE_RAW].shown |= MEMORY;
	fields->kinds[PERF_TYPE_SOFTWARE].shown |= FIELD_BIT(FIELD_BPF_OUTPUT);
}

static bool is_word(const char *text, size_t len, const char *word)
{
	return strlen(word) == len && memcmp(text, word, len) == 0;
}

static int parse_kind(const char *text, size_t len, unsigned *ret, struct diag *reterr)
{
	for (size_t i = 0; i < sizeof(kind_words) / sizeof(kind_words[0]); i++)
		if (is_word(text, len, kind_words[i].word)) {
			*ret = kind_words[i].kind;
			return 0;
		}
	return diag_set(reterr, -EINVAL, "\"%.*s\" is no kind of events; there are hw, sw, trace, raw, break and synth",
			(int)len, text);
}

static int no_such_field(const char *text, size_t len, struct diag *reterr)
{
	AUTO_BUF struct buf list = {0};

	for (const struct sample_field_row *row = sample_fields_table; row->name; row++)
		if (!row->refused)
			buf_printf(&list, " %s", row->name);
	return diag_set(reterr, -EINVAL, "\"%.*s\" is no field; there are%s", (int)len, text, buf_text(&list));
}

static int parse_field(const char *text, size_t len, unsigned *ret, struct diag *reterr)
{
	for (const struct sample_field_row *row = sample_fields_table; row->name; row++) {
		if (!is_word(text, len, row->name))
			continue;
		if (row->refused)
			return diag_set(reterr, -EINVAL, "\"%s\" is not supported: %s", row->name, row->refused);
		*ret = (unsigned)(row - sample_fields_table);
		return 0;
	}
	return no_such_field(text, len, reterr);
}

static bool kind_has(unsigned field, unsigned kind)
{
	unsigned kinds = sample_fields_table[field].kinds;

	return !kinds || kinds >> kind & 1;
}

/* What a list does to its kinds: '+', '-', or '=' to replace what is shown. */
static void change(struct sample_fields *fields, unsigned only, unsigned field, char how)
{
	for (unsigned kind = 0; kind < NR_KINDS; kind++) {
		struct kind_fields *of = &fields->kinds[kind];
		if ((only != ALL_KINDS && only != kind) || !kind_has(field, kind))
			continue;
		of->shown = how == '-' ? of->shown & ~FIELD_BIT(field) : of->shown | FIELD_BIT(field);
		of->required = how == '-' ? of->required & ~FIELD_BIT(field) : of->required | FIELD_BIT(field);
		of->removed = how == '-' ? of->removed | FIELD_BIT(field) : of->removed & ~FIELD_BIT(field);
	}
}

static void choose(struct sample_fields *fields, unsigned only, bool replace)
{
	for (unsigned kind = 0; kind < NR_KINDS; kind++) {
		struct kind_fields *of = &fields->kinds[kind];
		if (only != ALL_KINDS && only != kind)
			continue;
		of->chosen = true;
		of->silenced = false;
		if (replace)
			of->shown = of->required = 0;
	}
}

static bool is_change(const char *text)
{
	return *text == '+' || *text == '-';
}

static int parse_list(const char *text, unsigned only, struct sample_fields *fields, struct diag *reterr)
{
	bool replace = !is_change(text);

	choose(fields, only, replace);
	for (const char *at = text;; at++) {
		char how = is_change(at) ? *at++ : '=';
		size_t len = strcspn(at, ",");
		unsigned field = 0;
		if (replace != (how == '='))
			return diag_set(reterr, -EINVAL, "\"%s\": either all have + or - before them, or none", text);
		int err = parse_field(at, len, &field, reterr);
		if (err)
			return err;
		if (only != ALL_KINDS && !kind_has(field, only))
			return diag_set(reterr, -EINVAL, "%s events have no field \"%.*s\"", kind_names[only], (int)len,
					at);
		change(fields, only, field, how);
		at += len;
		if (!*at)
			return 0;
	}
}

int sample_fields_parse(const char *text, struct sample_fields *fields, struct diag *reterr)
{
	size_t len = strcspn(text, ":");
	unsigned kind = ALL_KINDS;

	if (!text[len])
		return parse_list(text, ALL_KINDS, fields, reterr);
	/* What perf makes of traces of the hardware, of which there is nothing here. */
	struct sample_fields none = *fields;
	if (is_word(text, len, "synth"))
		return text[len + 1] ? parse_list(text + len + 1, ALL_KINDS, &none, reterr) : 0;
	int err = parse_kind(text, len, &kind, reterr);
	if (err)
		return err;
	if (text[len + 1])
		return parse_list(text + len + 1, kind, fields, reterr);
	choose(fields, kind, true);
	fields->kinds[kind].silenced = true;
	return 0;
}

int sample_fields_complete(struct kind_fields *fields, const struct event_desc *event, struct diag *reterr)
{
	for (unsigned field = 0; field < NR_FIELDS; field++) {
		const struct sample_field_row *row = &sample_fields_table[field];
		if (!(fields->shown >> field & 1) || !row->sample_type || event->attr.sample_type & row->sample_type)
			continue;
		if (fields->required >> field & 1)
			return diag_set(reterr, -EINVAL, "the samples of %s have no \"%s\": leave it out of -F",
					event->name, row->name);
		fields->shown &= ~FIELD_BIT(field);
	}
	if (fields->shown & FIELD_BIT(FIELD_SYMOFF) && !(fields->shown & FIELD_BIT(FIELD_SYM))) {
		if (fields->required & FIELD_BIT(FIELD_SYMOFF) || fields->removed & FIELD_BIT(FIELD_SYM))
			return diag_set(reterr, -EINVAL, "\"symoff\" is printed after \"sym\": add sym to -F");
		fields->shown &= ~FIELD_BIT(FIELD_SYMOFF);
	}
	if (fields->shown & FIELD_BIT(FIELD_SRCLINE) && !(fields->shown & FIELD_BIT(FIELD_IP)))
		return diag_set(reterr, -EINVAL, "\"srcline\" is printed after \"ip\": add ip to -F");
	return 0;
}

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
		if (field < FIELD_TOD)
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
	text->context.narrow = options->narrow;
	text->context.debug_info = machine_debug_info(machine);
	text->context.full_paths = options->full_paths;
	text->context.stop_at = options->stop_at;
	const struct option_limit most = options->max_frames;
	text->context.max_frames =
		most.given && most.number < LINE_MAX_FRAMES ? (unsigned)most.number : LINE_MAX_FRAMES;
	if (most.given)
		machine_set_max_unwound(machine, most.number);
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
	buf_fini(&text->context.text);
	lookup_free(text->context.lookup);
	free(text);
}

/*
 * Call chains bring addresses: to tracepoints, unless they have a list of their own; perf leaves the rest out in pipes.
 */
static void add_chains(const struct sample_text *text, const struct perf_event_attr *attr, struct columns *columns)
{
	enum {
		IP_SYM = FIELD_BIT(FIELD_IP) | FIELD_BIT(FIELD_SYM),
		REST = FIELD_BIT(FIELD_SYMOFF) | FIELD_BIT(FIELD_DSO)
	};
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
			return diag_set(reterr, -EINVAL, "-F names %s events, but the recording has none",
					sample_kind_name(kind));
	return 0;
}

int sample_text_check(struct sample_text *text, struct diag *reterr)
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
			int err = sample_fields_complete(&fields, &events[i], reterr);
			if (err)
				return err;
			if (fields.shown & FIELD_BIT(FIELD_TOD) && !session_info(text->context.session)->pipe)
				err = sample_line_find_clock(&text->context, reterr);
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
		AUTO_ESCAPED name = escaped_text(events[i].name);
		if ((unsigned)name.len > text->context.name_width)
			text->context.name_width = (unsigned)name.len;
	}
}

/* The columns of a record's event; NULL: bad ones, and the diag says why. */
static const struct columns *columns_of(struct sample_text *text, const struct session_record *record,
					struct diag *reterr)
{
	size_t nr;

	session_events(text->context.session, &nr);
	if (nr != text->nr_events && sample_text_check(text, reterr))
		return NULL;
	return &text->columns[sample_kind(&record->event->attr)];
}

static struct steady_key steady_key(const struct columns *columns, const struct sample_line *line)
{
	const struct perf_event_header *header = line->record->view.header;
	const struct sample *sample = &line->record->sample;

	return (struct steady_key){
		.columns = columns,
		.comm = line->task->comm->text,
		.pid = sample->pid,
		.tid = sample->tid,
		.cpu = sample->cpu,
		.type_misc = header->type << 16 | header->misc,
		.chain = sample_line_shows_chain(line),
	};
}

static bool same_key(const struct steady_key *a, const struct steady_key *b)
{
	return a->columns == b->columns && a->comm == b->comm && a->pid == b->pid && a->tid == b->tid &&
	       a->cpu == b->cpu && a->type_misc == b->type_misc && a->chain == b->chain;
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
	if (steady->len) /* an output that is empty may have no memory: memcpy(3) takes no NULL */
		memcpy(steady->text, out->data + before, steady->len);
	return 0;
}

bool sample_text_lines_are_independent(const struct sample_text_options *options)
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
	int err = sample_text_check(text, NULL);

	if (err || !columns->decided || !(columns->fields & FIELD_BIT(FIELD_TRACE)))
		return err;
	return trace_formats_open(context->session, context->lookup, &context->tracepoints, NULL);
}

struct lookup *sample_text_lookup(struct sample_text *text)
{
	return text->context.lookup;
}

static bool needs_place(const struct sample_filter *filter)
{
	return filter->comms || filter->pids || filter->tids || filter->dsos || filter->symbols;
}

static bool is_shown(struct sample_text *text, const struct sample *sample, struct task *task)
{
	const struct sample_filter *filter = text->options.filter;
	struct location at;

	if (!needs_place(filter))
		return true;
	lookup_set_time(text->context.lookup, sample);
	lookup_resolve(text->context.lookup, task, sample->cpumode, sample->ip, &at);
	const struct sample_subject subject = {
		.comm = task->comm->text,
		.pid = task->pid,
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

/* What a record says that is no sample, as a dump has it. 0 or -ENOMEM. */
static int print_meaning(const struct session_record *record, struct output *out)
{
	char *meaning = NULL;
	size_t len = 0;
	FILE *to = text_stream_open(&meaning, &len);

	if (!to)
		return -ENOMEM;
	fprintf(to, "PERF_RECORD_%s", record_type_name(record->view.header->type));
	dump_record_text(record, NULL, to);
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
