/* SPDX-License-Identifier: MIT */
#include "cmd/sample_json.h"

#include <errno.h>
#include <inttypes.h>

#include "analyze/tracepoint.h"
#include "base/diag.h"
#include "cmd/json_text.h"
#include "cmd/sample_line.h"
#include "cmd/trace_formats.h"
#include "event/registers.h"

static bool has(const struct sample_line *line, enum sample_field field)
{
	return line->fields & FIELD_BIT(field);
}

/* The first key of an object has no comma before it. */
struct object {
	FILE *to;
	bool begun;
};

static void put_key(struct object *object, const char *name)
{
	fputc(object->begun ? ',' : '{', object->to);
	object->begun = true;
	json_put_string(object->to, name);
	fputc(':', object->to);
}

static void put_end(struct object *object)
{
	fputs(object->begun ? "}" : "{}", object->to);
}

static void put_number(struct object *object, const char *name, uint64_t number)
{
	put_key(object, name);
	fprintf(object->to, "%" PRIu64, number);
}

/* As text: half of the readers of JSON know no integers of 64 bits. */
static void put_address(struct object *object, const char *name, uint64_t address)
{
	put_key(object, name);
	fprintf(object->to, "\"%#" PRIx64 "\"", address);
}

static void put_text(struct object *object, const char *name, const char *text)
{
	put_key(object, name);
	if (text)
		json_put_string(object->to, text);
	else
		fputs("null", object->to);
}

/* ~0 stands for what the kernel did not tell. */
static void put_id(struct object *object, const char *name, uint32_t id)
{
	put_key(object, name);
	if (id == ~0u)
		fputs("null", object->to);
	else
		fprintf(object->to, "%" PRIu32, id);
}

static void put_place(struct object *object, const struct sample_line *line, const struct location *at)
{
	const struct symbol *symbol = at->symbol;

	if (has(line, FIELD_SYM))
		put_text(object, "sym", symbol ? symbol->name : NULL);
	if (has(line, FIELD_SYMOFF) && symbol)
		put_address(object, "symoff", at->address - symbol->start);
	if (has(line, FIELD_DSO))
		put_text(object, "dso", at->dso ? dso_long_name(at->dso) : NULL);
	if (symbol && symbol->inlined) {
		put_key(object, "inlined");
		fputs("true", object->to);
	}
}

static void put_source(struct object *object, const struct sample_line *line, const struct location *at,
		       const struct location *inner)
{
	const char *text = has(line, FIELD_SRCLINE) ? sample_line_source(line->of, at, inner) : NULL;

	if (text)
		put_text(object, "srcline", text);
}

static void put_chain(struct object *object, struct sample_line *line)
{
	struct line_context *of = line->of;
	unsigned nr = lookup_callchain(of->lookup, line->task, line->record, of->frames, of->max_frames);

	put_key(object, "callchain");
	fputc('[', object->to);
	for (unsigned i = 0; i < nr; i++) {
		struct object frame = {.to = object->to};
		if (i)
			fputc(',', object->to);
		put_address(&frame, "ip", of->frames[i].address);
		put_place(&frame, line, &of->frames[i]);
		put_source(&frame, line, &of->frames[i], i ? &of->frames[i - 1] : NULL);
		put_end(&frame);
	}
	fputc(']', object->to);
}

static void put_ip(struct object *object, struct sample_line *line)
{
	const struct sample *sample = &line->record->sample;
	struct location location;

	lookup_resolve(line->of->lookup, line->task, sample->cpumode, sample->ip, &location);
	put_address(object, "ip", sample->ip);
	put_place(object, line, &location);
	put_source(object, line, &location, NULL);
	if (sample_line_shows_chain(line))
		put_chain(object, line);
}

static void put_addr(struct object *object, struct sample_line *line)
{
	struct location location;

	put_address(object, "addr", line->record->sample.addr);
	if (!sample_line_resolve_addr(line, &location))
		return;
	if (has(line, FIELD_SYM))
		put_text(object, "addr_sym", location.symbol ? location.symbol->name : NULL);
	if (has(line, FIELD_DSO))
		put_text(object, "addr_dso", location.dso ? dso_long_name(location.dso) : NULL);
}

static void put_registers(struct object *object, const char *name, const struct sample_regs *regs)
{
	struct object of = {.to = object->to};
	unsigned nr = 0;

	put_key(object, name);
	for (unsigned i = 0; regs->regs && i < 64; i++)
		if (regs->mask >> i & 1)
			put_address(&of, register_name(i), regs->regs[nr++]);
	put_end(&of);
}

struct trace {
	struct object object;
	struct buf *text;
};

static void put_value(const struct tracepoint_value *value, void *of)
{
	struct trace *trace = of;
	FILE *to = trace->object.to;

	put_key(&trace->object, value->name);
	switch (value->kind) {
	case VALUE_SIGNED:
		fprintf(to, "%" PRId64, (int64_t)value->number);
		break;
	case VALUE_UNSIGNED:
		fprintf(to, "%" PRIu64, value->number);
		break;
	case VALUE_TEXT:
		trace->text->len = 0;
		buf_put(trace->text, value->bytes.ptr, value->bytes.len);
		json_put_string(to, buf_text(trace->text));
		break;
	case VALUE_BYTES:
		fputc('"', to);
		for (size_t i = 0; i < value->bytes.len; i++)
			fprintf(to, "%02x", ((const uint8_t *)value->bytes.ptr)[i]);
		fputc('"', to);
		break;
	}
}

static int put_trace(struct object *object, struct sample_line *line, struct diag *reterr)
{
	struct line_context *of = line->of;
	struct trace trace = {.object.to = object->to, .text = &of->text};
	int err = trace_formats_open(of->session, of->lookup, &of->tracepoints, reterr);

	if (err)
		return err;
	put_key(object, "trace");
	if (!of->tracepoints || tracepoint_values(of->tracepoints, line->record->sample.raw, put_value, &trace))
		fputs("null", object->to);
	else
		put_end(&trace.object);
	return of->text.failed ? diag_set(reterr, -ENOMEM, "out of memory") : 0;
}

static void put_memory(struct object *object, const struct sample_line *line)
{
	const struct sample *sample = &line->record->sample;

	if (has(line, FIELD_WEIGHT))
		put_number(object, "weight", sample->weight);
	if (has(line, FIELD_PHYS_ADDR))
		put_address(object, "phys_addr", sample->phys_addr);
	if (has(line, FIELD_DATA_PAGE_SIZE))
		put_number(object, "data_page_size", sample->data_page_size);
	if (has(line, FIELD_CODE_PAGE_SIZE))
		put_number(object, "code_page_size", sample->code_page_size);
}

static void put_front(struct object *object, struct sample_line *line)
{
	const struct sample *sample = &line->record->sample;

	if (has(line, FIELD_COMM))
		put_text(object, "comm", task_comm(line->task));
	if (has(line, FIELD_PID))
		put_id(object, "pid", sample->pid);
	if (has(line, FIELD_TID))
		put_id(object, "tid", sample->tid);
	if (has(line, FIELD_CPU))
		put_id(object, "cpu", sample->cpu);
	if (has(line, FIELD_MISC))
		put_number(object, "misc", line->record->view.header->misc);
	if (has(line, FIELD_TIME))
		put_number(object, "time_ns", sample_line_time(line));
	if (has(line, FIELD_PERIOD))
		put_number(object, "period", sample->period);
	if (has(line, FIELD_EVENT))
		put_text(object, "event", line->record->event->name);
}

int sample_json_print(struct sample_line *line, FILE *to, struct diag *reterr)
{
	const struct sample *sample = &line->record->sample;
	struct object object = {.to = to};
	int err = 0;

	put_front(&object, line);
	if (has(line, FIELD_TRACE))
		err = put_trace(&object, line, reterr);
	if (err)
		return err;
	if (has(line, FIELD_ADDR))
		put_addr(&object, line);
	if (has(line, FIELD_IP))
		put_ip(&object, line);
	if (has(line, FIELD_IREGS))
		put_registers(&object, "iregs", &sample->intr_regs);
	if (has(line, FIELD_UREGS))
		put_registers(&object, "uregs", &sample->user_regs);
	put_memory(&object, line);
	put_end(&object);
	fputc('\n', to);
	return 0;
}
