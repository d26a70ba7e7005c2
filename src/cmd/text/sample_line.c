/* SPDX-License-Identifier: MIT */
#include "cmd/text/sample_line.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analyze/report/tracepoint.h"
#include "base/diag.h"
#include "base/escape.h"
#include "base/text.h"
#include "cmd/input/sample_filter.h"
#include "cmd/text/memory_text.h"
#include "cmd/text/sample_details.h"
#include "cmd/text/waker_chain.h"
#include "event/names/registers.h"
#include "tasks/off_cpu.h"

static const uint64_t SECOND_NS = 1000000000;
enum { NARROW_COMM = 8 };

static bool has(const struct sample_line *line, enum sample_field field)
{
	return line->fields & FIELD_BIT(field);
}

bool sample_line_shows_chain(const struct sample_line *line)
{
	return line->chains && has(line, FIELD_IP) && line->record->event->attr.sample_type & PERF_SAMPLE_CALLCHAIN;
}

static int print_comm(struct sample_line *line, struct diag *reterr)
{
	const char *comm = line->task->comm->text;

	(void)reterr;
	if (line->of->narrow) {
		AUTO_ESCAPED shown = escaped_text(comm);
		int len = escaped_cut(shown.text, NARROW_COMM);
		for (int i = len; i < NARROW_COMM; i++)
			output_char(line->of->out, ' ');
		output_bytes(line->of->out, shown.text, (size_t)len);
	} else {
		/* In front of a call chain the name is not aligned. */
		output_shown_padded(line->of->out, comm, sample_line_shows_chain(line) ? 0 : 16);
	}
	output_char(line->of->out, ' ');
	return 0;
}

static void print_id(struct output *out, uint32_t id)
{
	if (id == ~0u)
		output_text(out, "   -1");
	else
		output_decimal(out, id, (struct output_pad){5, ' '});
}

static int print_pid(struct sample_line *line, struct diag *reterr)
{
	(void)reterr;
	print_id(line->of->out, line->record->sample.pid);
	if (!has(line, FIELD_TID))
		output_char(line->of->out, ' ');
	return 0;
}

/* "14498/14498": behind a pid the tid is aligned to the left. */
static int print_tid(struct sample_line *line, struct diag *reterr)
{
	struct output *out = line->of->out;
	uint32_t tid = line->record->sample.tid;

	(void)reterr;
	if (!has(line, FIELD_PID)) {
		print_id(out, tid);
	} else {
		output_char(out, '/');
		if (tid == ~0u)
			output_text(out, "-1   ");
		else
			output_decimal(out, tid, (struct output_pad){0});
		for (uint64_t least = 10; tid != ~0u && least <= 10000; least *= 10)
			if (tid < least)
				output_char(out, ' ');
	}
	output_char(out, ' ');
	return 0;
}

static int print_cpu(struct sample_line *line, struct diag *reterr)
{
	struct output *out = line->of->out;

	(void)reterr;
	if (line->of->narrow) {
		if (line->record->sample.cpu == ~0u)
			output_text(out, " -1");
		else
			output_decimal(out, line->record->sample.cpu, (struct output_pad){3, ' '});
		output_char(out, ' ');
		return 0;
	}
	output_char(out, '[');
	if (line->record->sample.cpu == ~0u)
		output_text(out, "-01");
	else
		output_decimal(out, line->record->sample.cpu, (struct output_pad){3, '0'});
	output_bytes(out, "] ", 2);
	return 0;
}

/* The CPU mode and other bits of the record's header. Six columns. */
static int print_misc(struct sample_line *line, struct diag *reterr)
{
	static const char modes[] = " KUHGg"; /* PERF_RECORD_MISC_CPUMODE_* */
	const struct perf_event_header *header = line->record->view.header;
	unsigned mode = header->misc & PERF_RECORD_MISC_CPUMODE_MASK;
	char text[7] = "      ", *at = text;

	(void)reterr;
	if (mode && mode < sizeof(modes) - 1)
		*at++ = modes[mode];
	switch (header->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		if (header->misc & PERF_RECORD_MISC_MMAP_DATA)
			*at++ = 'M';
		break;
	case PERF_RECORD_COMM:
		if (header->misc & PERF_RECORD_MISC_COMM_EXEC)
			*at++ = 'E';
		break;
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		if (!(header->misc & PERF_RECORD_MISC_SWITCH_OUT))
			break;
		*at++ = 'S';
		if (header->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT)
			*at++ = 'p';
		break;
	default: break;
	}
	output_bytes(line->of->out, text, 6);
	return 0;
}

uint64_t sample_line_time(struct sample_line *line)
{
	struct line_context *of = line->of;
	uint64_t time = line->record->sample.time, since = 0;

	if (of->clock & CLOCK_SINCE_FIRST) {
		if (!of->first_ns)
			of->first_ns = time;
		since = of->first_ns;
	} else if (of->clock & CLOCK_SINCE_LAST) {
		since = of->last_ns ? of->last_ns : time;
		of->last_ns = time;
	}
	return since <= time ? time - since : 0; /* perf: a number far from all */
}

static void enter_second(struct second *second, uint64_t time_ns)
{
	uint64_t number = time_ns / SECOND_NS;
	char digits[DIGITS_ROOM];
	unsigned nr = (unsigned)(digits_put_decimal(digits, number) - digits), blanks = nr < 5 ? 5 - nr : 0;

	second->start_ns = number * SECOND_NS;
	second->end_ns = second->start_ns + SECOND_NS;
	memset(second->text, ' ', blanks);
	memcpy(second->text + blanks, digits, nr);
	second->text[blanks + nr] = '.';
	second->len = blanks + nr + 1;
}

static int print_time(struct sample_line *line, struct diag *reterr)
{
	struct line_context *of = line->of;
	uint64_t time = sample_line_time(line);

	(void)reterr;
	if (time < of->second.start_ns || time >= of->second.end_ns)
		enter_second(&of->second, time);
	char *to = output_reserve(of->out, OUTPUT_SLACK);
	if (!to)
		return 0;
	uint32_t rest = (uint32_t)(time - of->second.start_ns);
	unsigned len = of->second.len, nr = of->clock & CLOCK_NANOSECONDS ? 9 : 6;
	memcpy(to, of->second.text, sizeof(of->second.text)); /* there is room for more than its len */
	digits_put_last(to + len, nr == 9 ? rest : rest / 1000, nr);
	memcpy(to + len + nr, ": ", 2);
	of->out->len += len + nr + 2;
	return 0;
}

int sample_line_find_clock(struct line_context *of, struct diag *reterr)
{
	struct span payload;

	if (of->wall_clock.version)
		return 0;
	if (session_feature(of->session, FEATURE_CLOCK_DATA, &payload) &&
	    !feature_decode_clock(payload, &of->wall_clock) && of->wall_clock.version)
		return 0;
	return diag_set(reterr, -EINVAL, "\"tod\": the recording does not say what time of day it was: record with -k");
}

/* The time of day, by what both clocks said when the recording began. */
static int print_tod(struct sample_line *line, struct diag *reterr)
{
	struct line_context *of = line->of;
	int err = sample_line_find_clock(of, reterr);
	uint64_t wall_ns = of->wall_clock.wall_ns + line->record->sample.time - of->wall_clock.clock_ns;
	time_t seconds = (time_t)(wall_ns / SECOND_NS);
	char text[64], rest[DIGITS_ROOM];
	struct tm local;

	if (err)
		return err;
	if (!localtime_r(&seconds, &local) || !strftime(text, sizeof(text), "%F %H:%M:%S.", &local))
		return diag_set(reterr, -EBADMSG, "\"tod\": %llu is no time of day", (unsigned long long)wall_ns);
	unsigned nr = of->clock & CLOCK_NANOSECONDS ? 9 : 6;
	uint32_t fraction = (uint32_t)(wall_ns % SECOND_NS);
	digits_put_last(rest, nr == 9 ? fraction : fraction / 1000, nr);
	output_text(of->out, text);
	output_bytes(of->out, rest, nr);
	output_char(of->out, ' ');
	return 0;
}

static int print_period(struct sample_line *line, struct diag *reterr)
{
	(void)reterr;
	output_decimal(line->of->out, line->record->sample.period, (struct output_pad){10, ' '});
	output_char(line->of->out, ' ');
	return 0;
}

/* What was printed behind `before` is the event's label in the next lines. */
static void keep_label(struct event_label *label, const char *name, const struct line_context *of, size_t before)
{
	const struct output *out = of->out;
	size_t len = strlen(name);

	label->len = 0;
	/* The buffer may have been flushed on the way: of a wide column more may be in it than before. */
	if (len >= sizeof(label->name) || of->name_width > sizeof(label->text) || out->len < before ||
	    out->len - before > sizeof(label->text))
		return;
	memcpy(label->name, name, len + 1);
	label->len = out->len - before;
	memcpy(label->text, out->data + before, label->len);
}

static int print_event(struct sample_line *line, struct diag *reterr)
{
	const struct event_desc *event = line->record->event;
	struct output *out = line->of->out;
	struct event_label *label = &line->of->labels[(uintptr_t)event / sizeof(*event) % EVENT_LABELS];
	size_t before = out->len;

	(void)reterr;
	if (label->len && strcmp(label->name, event->name) == 0) {
		output_bytes(out, label->text, label->len);
		return 0;
	}
	output_shown_padded(out, event->name, line->of->name_width);
	output_bytes(out, ": ", 2);
	keep_label(label, event->name, line->of, before);
	return 0;
}

static int print_trace(struct sample_line *line, struct diag *reterr)
{
	struct line_context *of = line->of;
	const struct sample *sample = &line->record->sample;
	int err = trace_formats_open(of->session, of->lookup, &of->tracepoints, reterr);

	if (err || !of->tracepoints)
		return err;
	of->text.len = 0;
	if (tracepoint_print(of->tracepoints, sample->raw, sample->cpu, &of->text))
		output_bytes(of->out, (const char *)of->text.data, of->text.len);
	else
		output_shown_bytes(of->out, (const char *)of->text.data, of->text.len);
	return 0;
}

static void print_symbol(const struct sample_line *line, const struct location *location)
{
	struct output *out = line->of->out;
	const struct symbol *symbol = location->symbol;

	output_char(out, ' ');
	output_shown(out, symbol ? symbol->name : "[unknown]");
	if (!symbol || !has(line, FIELD_SYMOFF))
		return;
	output_bytes(out, "+0x", 3);
	output_hex(out, location->address - symbol->start, (struct output_pad){0});
}

static void print_object(const struct sample_line *line, const struct location *location)
{
	struct output *out = line->of->out;

	output_bytes(out, " (", 2);
	output_shown(out, location->dso ? dso_printed_name(location->dso) : "[unknown]");
	output_char(out, ')');
}

static bool is_inlined(const struct location *location)
{
	return location->symbol && location->symbol->inlined;
}

/* "ffffffff81690a75 vfs_read+0x23a ([kernel.kallsyms])" */
static void print_location(const struct sample_line *line, const struct location *location, uint64_t shown)
{
	output_hex(line->of->out, shown, (struct output_pad){16, ' '});
	if (has(line, FIELD_SYM))
		print_symbol(line, location);
	if (has(line, FIELD_DSO) && !is_inlined(location))
		print_object(line, location);
}

/* Of these software events, and of no others here, the address is one that was accessed. */
static bool address_is_data(const struct perf_event_attr *attr)
{
	return attr->type == PERF_TYPE_SOFTWARE &&
	       (attr->config == PERF_COUNT_SW_PAGE_FAULTS || attr->config == PERF_COUNT_SW_PAGE_FAULTS_MIN ||
		attr->config == PERF_COUNT_SW_PAGE_FAULTS_MAJ);
}

/* Every branch, as Intel's BTS records them. */
static bool address_is_branch(const struct perf_event_attr *attr)
{
	return attr->type == PERF_TYPE_HARDWARE && attr->config == PERF_COUNT_HW_BRANCH_INSTRUCTIONS &&
	       attr->sample_period == 1;
}

/* Kernel code may access user memory and vice versa: the address decides which side it is. */
static void resolve_either(const struct sample_line *line, uint64_t address, struct location *ret)
{
	uint8_t mode = (int64_t)address < 0 ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER;
	uint8_t sampled = line->record->sample.cpumode;

	lookup_resolve(line->of->lookup, line->task, sampled, address, ret);
	if (!ret->dso && mode != sampled)
		lookup_resolve(line->of->lookup, line->task, mode, address, ret);
}

bool sample_line_resolve_addr(struct sample_line *line, struct location *ret)
{
	const struct perf_event_attr *attr = &line->record->event->attr;

	if (!address_is_data(attr) && !address_is_branch(attr))
		return false;
	resolve_either(line, line->record->sample.addr, ret);
	return true;
}

static int print_addr(struct sample_line *line, struct diag *reterr)
{
	struct location location;

	(void)reterr;
	output_hex(line->of->out, line->record->sample.addr, (struct output_pad){16, ' '});
	if (!sample_line_resolve_addr(line, &location))
		return 0;
	if (has(line, FIELD_SYM))
		print_symbol(line, &location);
	if (has(line, FIELD_DSO))
		print_object(line, &location);
	return 0;
}

static int print_data_src(struct sample_line *line, struct diag *reterr)
{
	struct line_context *of = line->of;
	uint64_t data_src = line->record->sample.data_src;

	(void)reterr;
	of->text.len = 0;
	memory_text_all(data_src, &of->text);
	output_hex(of->out, data_src, (struct output_pad){16, ' '});
	output_char(of->out, ' ');
	output_shown_bytes(of->out, (const char *)of->text.data, of->text.len);
	return 0;
}

static int print_weight(struct sample_line *line, struct diag *reterr)
{
	(void)reterr;
	output_decimal(line->of->out, sample_weight(&line->record->sample), (struct output_pad){16, ' '});
	return 0;
}

static int print_instruction_latency(struct sample_line *line, struct diag *reterr)
{
	(void)reterr;
	output_decimal(line->of->out, sample_instruction_latency(&line->record->sample), (struct output_pad){16, ' '});
	return 0;
}

static int print_cgroup(struct sample_line *line, struct diag *reterr)
{
	(void)reterr;
	output_char(line->of->out, ' ');
	output_shown(line->of->out, lookup_cgroup(line->of->lookup, line->record->sample.cgroup));
	return 0;
}

const char *sample_line_source(struct line_context *of, const struct location *at)
{
	if (!at->dso)
		return NULL;
	of->text.len = 0;
	source_text_line(of->debug_info, at, of->full_paths ? SOURCE_FULL_PATH : 0, &of->text);
	return buf_text(&of->text);
}

/* On a line of its own below the place. */
static void print_source(const struct sample_line *line, const struct location *at)
{
	const char *text = has(line, FIELD_SRCLINE) ? sample_line_source(line->of, at) : NULL;

	if (text) {
		output_bytes(line->of->out, "\n  ", 3);
		output_shown(line->of->out, text);
	}
	if (is_inlined(at))
		output_text(line->of->out, " (inlined)");
}

/* As perf: inside the object, but of a kernel module without symbols in memory. */
static uint64_t frame_address(const struct location *frame)
{
	return frame->dso && frame->dso->kind == DSO_MODULE && !frame->symbol ? frame->ip : frame->address;
}

static bool decode_wait(const struct sample_line *line, struct off_cpu_wait *ret)
{
	return off_cpu_is_event(line->record->event) && !off_cpu_decode(&line->record->sample, ret);
}

bool line_context_ends_chain(const struct line_context *of, const struct location *frame)
{
	return of->stop_at && frame->symbol && list_has_word(of->stop_at, frame->symbol->name);
}

/* The frames of the context. */
static void print_frames(const struct sample_line *line, unsigned nr)
{
	struct line_context *of = line->of;

	for (unsigned i = 0; i < nr; i++) {
		output_char(of->out, '\t');
		print_location(line, &of->frames[i], frame_address(&of->frames[i]));
		print_source(line, &of->frames[i]);
		output_char(of->out, '\n');
		if (line_context_ends_chain(of, &of->frames[i]))
			break;
	}
}

static void print_chain(const struct sample_line *line)
{
	struct line_context *of = line->of;
	struct off_cpu_wait wait;

	output_char(of->out, '\n');
	print_frames(line, lookup_callchain(of->lookup, line->task, line->record, of->frames, of->max_frames));
	if (!has(line, FIELD_WAIT) || !decode_wait(line, &wait))
		return;
	unsigned nr = waker_chain(of->lookup, line->record, &wait, of->frames, of->max_frames);
	if (!nr)
		return;
	output_text(of->out, "    woken in:\n");
	print_frames(line, nr);
}

static int print_ip(struct sample_line *line, struct diag *reterr)
{
	const struct sample *sample = &line->record->sample;
	struct location location;

	(void)reterr;
	if (sample_line_shows_chain(line)) {
		print_chain(line);
		return 0;
	}
	lookup_set_time(line->of->lookup, sample);
	lookup_resolve(line->of->lookup, line->task, sample->cpumode, sample->ip, &location);
	output_char(line->of->out, ' ');
	print_location(line, &location, sample->ip);
	print_source(line, &location);
	return 0;
}

static void print_registers(struct line_context *of, const struct sample_regs *regs)
{
	const char *arch = regs->regs ? session_arch(of->session) : NULL;
	struct output *out = of->out;
	unsigned nr = 0;

	if (!regs->regs)
		return;
	output_text(out, " ABI:");
	output_decimal(out, regs->abi, (struct output_pad){0});
	output_char(out, ' ');
	for (unsigned i = 0; i < 64; i++) {
		if (!(regs->mask >> i & 1))
			continue;
		output_padded(out, register_name(arch, i), 5);
		output_bytes(out, ":0x", 3);
		output_hex(out, regs->regs[nr++], (struct output_pad){0});
		output_char(out, ' ');
	}
}

static int print_iregs(struct sample_line *line, struct diag *reterr)
{
	(void)reterr;
	print_registers(line->of, &line->record->sample.intr_regs);
	return 0;
}

static int print_uregs(struct sample_line *line, struct diag *reterr)
{
	(void)reterr;
	print_registers(line->of, &line->record->sample.user_regs);
	return 0;
}

/* Source: <linux/perf_event.h>, PERF_BR_*; "": not known. The words are perf's. */
static const char *branch_type(const struct perf_branch_entry *entry)
{
	static const char *const types[] = {
		"",       "COND",      "UNCOND",   "IND",  "CALL", "IND_CALL", "RET",   "SYSCALL",
		"SYSRET", "COND_CALL", "COND_RET", "ERET", "IRQ",  "SERROR",   "NO_TX",
	};
	static const char *const new_types[] = {
		"FAULT_ALGN", "FAULT_DATA", "FAULT_INST", "ARCH_1", "ARCH_2", "ARCH_3", "ARCH_4", "ARCH_5",
	};

	if (entry->type < sizeof(types) / sizeof(types[0]))
		return types[entry->type];
	return entry->new_type < sizeof(new_types) / sizeof(new_types[0]) ? new_types[entry->new_type] : "";
}

/* "/P/-/-/12/COND " */
static void print_branch_flags(struct output *out, const struct perf_branch_entry *entry)
{
	const char flags[] = {'/', entry->predicted ? 'P' : entry->mispred ? 'M' : '-',
			      '/', entry->in_tx ? 'X' : '-',
			      '/', entry->abort ? 'A' : '-',
			      '/'};

	output_bytes(out, flags, sizeof(flags));
	output_decimal(out, entry->cycles, (struct output_pad){0});
	output_char(out, '/');
	output_text(out, branch_type(entry));
	output_char(out, ' ');
}

static void print_branch_end(const struct sample_line *line, uint64_t ip, enum sample_field how)
{
	struct output *out = line->of->out;
	struct location at;

	resolve_either(line, ip, &at);
	if (how == FIELD_BRANCH_SYMBOLS) {
		output_shown(out, at.symbol ? at.symbol->name : "[unknown]");
		if (at.symbol) {
			output_bytes(out, "+0x", 3);
			output_hex(out, at.address - at.symbol->start, (struct output_pad){0});
		}
	} else {
		output_bytes(out, "0x", 2);
		output_hex(out, how == FIELD_BRANCH_OFFSETS ? at.address : ip, (struct output_pad){0});
	}
	if (!has(line, FIELD_DSO))
		return;
	output_char(out, '(');
	output_shown(out, at.dso ? dso_printed_name(at.dso) : "[unknown]");
	output_char(out, ')');
}

/* The newest first, as recorded. */
static int print_branch_stack(struct sample_line *line, enum sample_field how)
{
	const struct sample_branch_stack *branches = &line->record->sample.branches;
	struct output *out = line->of->out;

	for (uint64_t i = 0; i < branches->nr; i++) {
		if (how != FIELD_BRANCH_SYMBOLS)
			output_char(out, ' ');
		print_branch_end(line, branches->entries[i].from, how);
		output_char(out, '/');
		print_branch_end(line, branches->entries[i].to, how);
		print_branch_flags(out, &branches->entries[i]);
	}
	return 0;
}

static int print_branches(struct sample_line *line, struct diag *reterr)
{
	(void)reterr;
	return print_branch_stack(line, FIELD_BRANCHES);
}

/* As perf: one of the three is enough. */
static int print_branch_symbols(struct sample_line *line, struct diag *reterr)
{
	(void)reterr;
	return has(line, FIELD_BRANCHES) ? 0 : print_branch_stack(line, FIELD_BRANCH_SYMBOLS);
}

static int print_branch_offsets(struct sample_line *line, struct diag *reterr)
{
	(void)reterr;
	if (has(line, FIELD_BRANCHES) || has(line, FIELD_BRANCH_SYMBOLS))
		return 0;
	return print_branch_stack(line, FIELD_BRANCH_OFFSETS);
}

static int print_phys_addr(struct sample_line *line, struct diag *reterr)
{
	(void)reterr;
	output_hex(line->of->out, line->record->sample.phys_addr, (struct output_pad){16, ' '});
	return 0;
}

/* " 4K", " 2M", and " 1024M": one of a unit is printed in the smaller unit. */
static void print_page_size(struct output *out, uint64_t bytes)
{
	static const char units[] = "BKMG";
	unsigned unit = 0;

	if (!bytes) {
		output_text(out, " N/A");
		return;
	}
	for (; units[unit + 1] && bytes / 1024 > 1; bytes /= 1024)
		unit++;
	output_char(out, ' ');
	output_decimal(out, bytes, (struct output_pad){0});
	output_char(out, units[unit]);
}

static int print_data_page_size(struct sample_line *line, struct diag *reterr)
{
	(void)reterr;
	print_page_size(line->of->out, line->record->sample.data_page_size);
	return 0;
}

static int print_code_page_size(struct sample_line *line, struct diag *reterr)
{
	(void)reterr;
	print_page_size(line->of->out, line->record->sample.code_page_size);
	return 0;
}

/* The state in which the task left the CPU. */
static int print_state(struct sample_line *line, struct diag *reterr)
{
	struct off_cpu_wait wait;

	(void)reterr;
	output_char(line->of->out, ' ');
	output_padded(line->of->out, decode_wait(line, &wait) ? off_cpu_state_letter(&wait) : "-", 2);
	return 0;
}

static void print_labelled(struct output *out, const char *label, uint64_t number)
{
	output_text(out, label);
	output_decimal(out, number, (struct output_pad){0});
}

/* " waited=10061550 runnable=35833 waker=442/454", in nanoseconds; and what the number is not. */
static int print_wait(struct sample_line *line, struct diag *reterr)
{
	struct output *out = line->of->out;
	struct off_cpu_wait wait;

	(void)reterr;
	if (!decode_wait(line, &wait))
		return 0;
	print_labelled(out, " waited=", wait.ns - wait.runnable_ns);
	print_labelled(out, " runnable=", wait.runnable_ns);
	if (wait.flags & OFF_CPU_SUM)
		print_labelled(out, " times=", wait.nr_times);
	if (wait.flags & OFF_CPU_BY_INTERRUPT)
		output_text(out, " waker=interrupt");
	if (wait.waker_pid || wait.waker_tid) {
		print_labelled(out, " waker=", wait.waker_pid);
		print_labelled(out, "/", wait.waker_tid);
	}
	for (const struct wait_word *word = wait_words; word->text; word++) {
		if (wait.flags & word->flag) {
			output_char(out, ' ');
			output_text(out, word->text);
		}
	}
	return 0;
}

/* The bytes that a BPF program put out, eight in a line, as numbers and as text. */
static int print_bpf_output(struct sample_line *line, struct diag *reterr)
{
	enum { BYTES = 8 };
	const struct perf_event_attr *attr = &line->record->event->attr;
	struct output *out = line->of->out;
	struct span raw = line->record->sample.raw;
	const unsigned char *bytes = raw.ptr;
	size_t len = raw.len ? strnlen(raw.ptr, raw.len) : 0;
	bool printable = len < raw.len;

	(void)reterr;
	if (attr->config != PERF_COUNT_SW_BPF_OUTPUT || !raw.len)
		return 0;
	for (size_t i = 0; i < raw.len; i++)
		printable &= i < len ? bytes[i] >= ' ' && bytes[i] <= '~' : !bytes[i];
	output_char(out, '\n');
	for (size_t at = 0; at < raw.len; at += BYTES) {
		char text[96], *to = text + snprintf(text, sizeof(text),
						     "%17s %04zx:", at ? "           " : "BPF output:", at);
		for (size_t i = 0; i < BYTES; i++)
			to += at + i < raw.len ? sprintf(to, " %02x", bytes[at + i]) : sprintf(to, "   ");
		to += sprintf(to, "  ");
		for (size_t i = 0; i < BYTES; i++) {
			unsigned char c = at + i < raw.len ? bytes[at + i] : ' ';
			*to++ = (char)(c >= ' ' && c <= '~' ? c : '.');
		}
		*to++ = '\n';
		output_bytes(out, text, (size_t)(to - text));
	}
	if (printable) {
		output_text(out, "      BPF string: \"");
		output_shown_bytes(out, raw.ptr, len);
		output_text(out, "\"\n");
	}
	return 0;
}

#define USE_PERF .refused = "source lines are shown in the view of millrace report (a); or use perf script"
#define GUESTS .refused = "it belongs to recordings of guests, which are not looked into: use perf script"
#define HARDWARE_TRACES .refused = "it belongs to traces of the hardware, which are not decoded here: use perf script"

const struct sample_field_row sample_fields_table[] = {
	[FIELD_COMM] = {.name = "comm", .print = print_comm},
	[FIELD_PID] = {.name = "pid", .print = print_pid, .sample_type = PERF_SAMPLE_TID},
	[FIELD_TID] = {.name = "tid", .print = print_tid, .sample_type = PERF_SAMPLE_TID},
	[FIELD_CPU] = {.name = "cpu", .print = print_cpu, .sample_type = PERF_SAMPLE_CPU},
	[FIELD_MISC] = {.name = "misc", .print = print_misc},
	[FIELD_TOD] = {.name = "tod", .print = print_tod, .sample_type = PERF_SAMPLE_TIME},
	[FIELD_TIME] = {.name = "time", .print = print_time, .sample_type = PERF_SAMPLE_TIME},
	[FIELD_PERIOD] = {.name = "period", .print = print_period},
	[FIELD_EVENT] = {.name = "event", .print = print_event},
	[FIELD_TRACE] = {.name = "trace", .print = print_trace, .kinds = 1 << PERF_TYPE_TRACEPOINT},
	[FIELD_ADDR] = {.name = "addr", .print = print_addr, .sample_type = PERF_SAMPLE_ADDR},
	[FIELD_DATA_SRC] = {.name = "data_src", .print = print_data_src, .sample_type = PERF_SAMPLE_DATA_SRC},
	[FIELD_WEIGHT] = {.name = "weight",
			  .print = print_weight,
			  .sample_type = PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT},
	/* These two, of offcpu-time, are not perf's. */
	[FIELD_STATE] = {.name = "state", .print = print_state},
	[FIELD_WAIT] = {.name = "wait", .print = print_wait},
	[FIELD_IP] = {.name = "ip", .print = print_ip, .sample_type = PERF_SAMPLE_IP},
	[FIELD_SYM] = {.name = "sym", .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_ADDR},
	[FIELD_SYMOFF] = {.name = "symoff"},
	[FIELD_DSO] = {.name = "dso", .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_ADDR},
	[FIELD_IREGS] = {.name = "iregs", .print = print_iregs, .sample_type = PERF_SAMPLE_REGS_INTR},
	[FIELD_UREGS] = {.name = "uregs", .print = print_uregs, .sample_type = PERF_SAMPLE_REGS_USER},
	[FIELD_BRANCHES] = {.name = "brstack", .print = print_branches, .sample_type = PERF_SAMPLE_BRANCH_STACK},
	[FIELD_BRANCH_SYMBOLS] = {.name = "brstacksym",
				  .print = print_branch_symbols,
				  .sample_type = PERF_SAMPLE_BRANCH_STACK},
	[FIELD_BRANCH_OFFSETS] = {.name = "brstackoff",
				  .print = print_branch_offsets,
				  .sample_type = PERF_SAMPLE_BRANCH_STACK},
	[FIELD_BPF_OUTPUT] = {.name = "bpf-output", .print = print_bpf_output, .kinds = 1 << PERF_TYPE_SOFTWARE},
	[FIELD_PHYS_ADDR] = {.name = "phys_addr", .print = print_phys_addr, .sample_type = PERF_SAMPLE_PHYS_ADDR},
	[FIELD_DATA_PAGE_SIZE] = {.name = "data_page_size",
				  .print = print_data_page_size,
				  .sample_type = PERF_SAMPLE_DATA_PAGE_SIZE},
	[FIELD_CODE_PAGE_SIZE] = {.name = "code_page_size",
				  .print = print_code_page_size,
				  .sample_type = PERF_SAMPLE_CODE_PAGE_SIZE},
	[FIELD_SRCLINE] = {.name = "srcline", .sample_type = PERF_SAMPLE_IP},
	[FIELD_INS_LAT] = {.name = "ins_lat",
			   .print = print_instruction_latency,
			   .sample_type = PERF_SAMPLE_WEIGHT_STRUCT},
	[FIELD_CGROUP] = {.name = "cgroup", .print = print_cgroup, .sample_type = PERF_SAMPLE_CGROUP},
	{.name = "srccode", USE_PERF},
	{.name = "metric", .refused = "counts are not recorded here: use perf stat"},
	{.name = "brstackinsn", .refused = "instructions are not decoded here: use perf script"},
	{.name = "brstackinsnlen", .refused = "instructions are not decoded here: use perf script"},
	{.name = "insn", HARDWARE_TRACES},
	{.name = "insnlen", HARDWARE_TRACES},
	{.name = "flags", HARDWARE_TRACES},
	{.name = "callindent", HARDWARE_TRACES},
	{.name = "ipc", HARDWARE_TRACES},
	{.name = "synth", HARDWARE_TRACES},
	{.name = "machine_pid", GUESTS},
	{.name = "vcpu", GUESTS},
	{0},
};
