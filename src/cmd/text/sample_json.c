/* SPDX-License-Identifier: MIT */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyze/report/tracepoint.h"
#include "base/diag.h"
#include "cmd/cli/json_writer.h"
#include "cmd/text/sample_details.h"
#include "cmd/text/sample_line.h"
#include "cmd/text/waker_chain.h"
#include "event/names/registers.h"
#include "tasks/off_cpu.h"

static bool has(const struct sample_line *line, enum sample_field field)
{
	return line->fields & FIELD_BIT(field);
}

/* ~0 stands for what the kernel did not record. */
static void put_id(struct json_writer *json, const char *name, uint32_t id)
{
	if (id == ~0u)
		json_null(json, name);
	else
		json_number(json, name, id);
}

static void put_place(struct json_writer *json, const struct sample_line *line, const struct location *at)
{
	const struct symbol *symbol = at->symbol;

	if (has(line, FIELD_SYM))
		json_text(json, "sym", symbol ? symbol->name : NULL);
	if (has(line, FIELD_SYMOFF) && symbol)
		json_address(json, "symoff", at->address - symbol->start);
	if (has(line, FIELD_DSO))
		json_text(json, "dso", at->dso ? dso_long_name(at->dso) : NULL);
	if (symbol && symbol->inlined)
		json_bool(json, "inlined", true);
}

static void put_source(struct json_writer *json, const struct sample_line *line, const struct location *at)
{
	const char *text = has(line, FIELD_SRCLINE) ? sample_line_source(line->of, at) : NULL;

	if (text)
		json_text(json, "srcline", text);
}

/* The frames of the context. */
static void put_frames(struct json_writer *json, const char *key, const struct sample_line *line, unsigned nr)
{
	const struct line_context *of = line->of;

	json_array(json, key);
	for (unsigned i = 0; i < nr; i++) {
		json_object(json, NULL);
		json_address(json, "ip", of->frames[i].address);
		put_place(json, line, &of->frames[i]);
		put_source(json, line, &of->frames[i]);
		json_end(json);
		if (line_context_ends_chain(of, &of->frames[i]))
			break;
	}
	json_end(json);
}

static void put_chain(struct json_writer *json, struct sample_line *line)
{
	struct line_context *of = line->of;
	unsigned nr = lookup_callchain(of->lookup, line->task, line->record, of->frames, of->max_frames);
	struct off_cpu_wait wait;

	put_frames(json, "callchain", line, nr);
	if (!has(line, FIELD_WAIT) || !off_cpu_is_event(line->record->event) ||
	    off_cpu_decode(&line->record->sample, &wait) || !wait.waker_ips.len)
		return;
	nr = waker_chain(of->lookup, line->record, &wait, of->frames, of->max_frames);
	put_frames(json, "waker_callchain", line, nr);
}

static void put_ip(struct json_writer *json, struct sample_line *line)
{
	const struct sample *sample = &line->record->sample;
	struct location location;

	lookup_set_time(line->of->lookup, sample);
	lookup_resolve(line->of->lookup, line->task, sample->cpumode, sample->ip, &location);
	json_address(json, "ip", sample->ip);
	put_place(json, line, &location);
	put_source(json, line, &location);
	if (sample_line_shows_chain(line))
		put_chain(json, line);
}

static void put_addr(struct json_writer *json, struct sample_line *line)
{
	struct location location;

	json_address(json, "addr", line->record->sample.addr);
	if (!sample_line_resolve_addr(line, &location))
		return;
	if (has(line, FIELD_SYM))
		json_text(json, "addr_sym", location.symbol ? location.symbol->name : NULL);
	if (has(line, FIELD_DSO))
		json_text(json, "addr_dso", location.dso ? dso_long_name(location.dso) : NULL);
}

static void put_registers(struct json_writer *json, const char *name, const char *arch, const struct sample_regs *regs)
{
	unsigned nr = 0;
	char key[32];

	json_object(json, name);
	for (unsigned i = 0; regs->regs && i < 64; i++) {
		if (!(regs->mask >> i & 1))
			continue;
		/* Each key once: those without a name by their bits, and of two bits with one name (XMM0) the second.
		 */
		const char *known = register_name(arch, i);
		if (!strcmp(known, "unknown"))
			snprintf(key, sizeof(key), "unknown%u", i);
		else
			snprintf(key, sizeof(key), "%s%s", known,
				 i && !strcmp(known, register_name(arch, i - 1)) ? "_high" : "");
		json_address(json, key, regs->regs[nr++]);
	}
	json_end(json);
}

/* The object begins with the first value; where the values cannot be read it is null. */
struct trace {
	struct json_writer *json;
	struct buf *text;
	bool begun;
};

static void put_value(const struct tracepoint_value *value, void *ctx)
{
	struct trace *trace = ctx;

	if (!trace->begun)
		json_object(trace->json, "trace");
	trace->begun = true;
	switch (value->kind) {
	case VALUE_SIGNED: json_signed(trace->json, value->name, (int64_t)value->number); break;
	case VALUE_UNSIGNED: json_number(trace->json, value->name, value->number); break;
	case VALUE_TEXT:
		json_bytes(trace->json, value->name, value->bytes.ptr, strnlen(value->bytes.ptr, value->bytes.len));
		break;
	case VALUE_BYTES:
		trace->text->len = 0;
		for (size_t i = 0; i < value->bytes.len; i++)
			buf_printf(trace->text, "%02x", ((const uint8_t *)value->bytes.ptr)[i]);
		json_text(trace->json, value->name, buf_text(trace->text));
		break;
	}
}

static int put_trace(struct json_writer *json, struct sample_line *line, struct diag *reterr)
{
	struct line_context *of = line->of;
	struct trace trace = {.json = json, .text = &of->text};
	int err = trace_formats_open(of->session, of->lookup, &of->tracepoints, reterr);

	if (err)
		return err;
	int bad = of->tracepoints ? tracepoint_values(of->tracepoints, line->record->sample.raw, put_value, &trace)
				  : -ENOENT;
	if (bad) {
		json_null(json, "trace");
	} else {
		if (!trace.begun)
			json_object(json, "trace");
		json_end(json);
	}
	return of->text.failed ? diag_set(reterr, -ENOMEM, "out of memory") : 0;
}

static void put_known(struct json_writer *json, const char *name, bool known, uint64_t number)
{
	if (known)
		json_number(json, name, number);
	else
		json_null(json, name);
}

static void put_wait(struct json_writer *json, const struct off_cpu_wait *wait)
{
	const bool known = !(wait->flags & OFF_CPU_UNKNOWN);
	const char *state = off_cpu_state_letter(wait);

	json_text(json, "state", *state == '?' ? NULL : state);
	put_known(json, "waited", known, wait->ns - wait->runnable_ns);
	put_known(json, "runnable", known && !(wait->flags & OFF_CPU_NO_WAKE_UP), wait->runnable_ns);
	json_number(json, "times", wait->nr_times);
	put_known(json, "waker", wait->waker_pid || wait->waker_tid, wait->waker_tid);
	json_array(json, "flags");
	if (wait->flags & OFF_CPU_BY_INTERRUPT)
		json_text(json, NULL, "interrupt");
	for (const struct wait_word *word = wait_words; word->text; word++)
		if (wait->flags & word->flag)
			json_text(json, NULL, word->text);
	json_end(json);
}

static void put_memory(struct json_writer *json, const struct sample_line *line)
{
	const struct sample *sample = &line->record->sample;

	if (has(line, FIELD_WEIGHT))
		json_number(json, "weight", sample_weight(sample));
	if (has(line, FIELD_PHYS_ADDR))
		json_address(json, "phys_addr", sample->phys_addr);
	if (has(line, FIELD_DATA_PAGE_SIZE))
		json_number(json, "data_page_size", sample->data_page_size);
	if (has(line, FIELD_CODE_PAGE_SIZE))
		json_number(json, "code_page_size", sample->code_page_size);
	if (has(line, FIELD_INS_LAT))
		json_number(json, "ins_lat", sample_instruction_latency(sample));
	struct off_cpu_wait wait;
	if (has(line, FIELD_WAIT) && off_cpu_is_event(line->record->event) && !off_cpu_decode(sample, &wait))
		put_wait(json, &wait);
	if (has(line, FIELD_CGROUP))
		json_text(json, "cgroup", lookup_cgroup(line->of->lookup, sample->cgroup));
}

static void put_front(struct json_writer *json, struct sample_line *line)
{
	const struct sample *sample = &line->record->sample;

	if (has(line, FIELD_COMM))
		json_text(json, "comm", line->task->comm->text);
	if (has(line, FIELD_PID))
		put_id(json, "pid", sample->pid);
	if (has(line, FIELD_TID))
		put_id(json, "tid", sample->tid);
	if (has(line, FIELD_CPU))
		put_id(json, "cpu", sample->cpu);
	if (has(line, FIELD_MISC))
		json_number(json, "misc", line->record->view.header->misc);
	if (has(line, FIELD_TIME))
		json_number(json, "time_ns", sample_line_time(line));
	if (has(line, FIELD_PERIOD))
		json_number(json, "period", sample->period);
	if (has(line, FIELD_EVENT))
		json_text(json, "event", line->record->event->name);
}

int sample_json_print(struct sample_line *line, FILE *to, struct diag *reterr)
{
	const struct sample *sample = &line->record->sample;
	struct json_writer json = {.to = to};
	int err = 0;

	json_object(&json, NULL);
	put_front(&json, line);
	if (has(line, FIELD_TRACE))
		err = put_trace(&json, line, reterr);
	if (err)
		return err;
	if (has(line, FIELD_ADDR))
		put_addr(&json, line);
	if (has(line, FIELD_IP))
		put_ip(&json, line);
	if (has(line, FIELD_IREGS))
		put_registers(&json, "iregs", session_arch(line->of->session), &sample->intr_regs);
	if (has(line, FIELD_UREGS))
		put_registers(&json, "uregs", session_arch(line->of->session), &sample->user_regs);
	put_memory(&json, line);
	json_end(&json);
	fputc('\n', to);
	return 0;
}
