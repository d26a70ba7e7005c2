/* SPDX-License-Identifier: MIT */
#include "analyze/report/tracepoint.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <traceevent/event-parse.h>
#include <traceevent/trace-seq.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/span.h"
#include "base/text.h"
#include "sysinfo/library.h"

/* Loaded when a recording has formats of tracepoints: its relocations would slow the start of every command. */
static struct {
	__typeof__(tep_alloc) *tep_alloc;
	__typeof__(tep_find_any_field) *tep_find_any_field;
	__typeof__(tep_find_event) *tep_find_event;
	__typeof__(tep_free) *tep_free;
	__typeof__(tep_get_long_size) *tep_get_long_size;
	__typeof__(tep_parse_event) *tep_parse_event;
	__typeof__(tep_parse_kallsyms) *tep_parse_kallsyms;
	__typeof__(tep_parse_printk_formats) *tep_parse_printk_formats;
	__typeof__(tep_parse_saved_cmdlines) *tep_parse_saved_cmdlines;
	__typeof__(tep_print_event) *tep_print_event;
	__typeof__(tep_print_field) *tep_print_field;
	__typeof__(tep_set_file_bigendian) *tep_set_file_bigendian;
	__typeof__(tep_set_flag) *tep_set_flag;
	__typeof__(tep_set_function_resolver) *tep_set_function_resolver;
	__typeof__(tep_set_local_bigendian) *tep_set_local_bigendian;
	__typeof__(tep_set_loglevel) *tep_set_loglevel;
	__typeof__(tep_set_long_size) *tep_set_long_size;
	__typeof__(tep_set_page_size) *tep_set_page_size;
	__typeof__(trace_seq_destroy) *trace_seq_destroy;
	__typeof__(trace_seq_init) *trace_seq_init;
	__typeof__(trace_seq_reset) *trace_seq_reset;
} library;

static bool traceevent_loaded;

static void load_traceevent(void)
{
	static const struct library_function functions[] = {
		LIBRARY_FUNCTION(tep_alloc, &library.tep_alloc),
		LIBRARY_FUNCTION(tep_find_any_field, &library.tep_find_any_field),
		LIBRARY_FUNCTION(tep_find_event, &library.tep_find_event),
		LIBRARY_FUNCTION(tep_free, &library.tep_free),
		LIBRARY_FUNCTION(tep_get_long_size, &library.tep_get_long_size),
		LIBRARY_FUNCTION(tep_parse_event, &library.tep_parse_event),
		LIBRARY_FUNCTION(tep_parse_kallsyms, &library.tep_parse_kallsyms),
		LIBRARY_FUNCTION(tep_parse_printk_formats, &library.tep_parse_printk_formats),
		LIBRARY_FUNCTION(tep_parse_saved_cmdlines, &library.tep_parse_saved_cmdlines),
		LIBRARY_FUNCTION(tep_print_event, &library.tep_print_event),
		LIBRARY_FUNCTION(tep_print_field, &library.tep_print_field),
		LIBRARY_FUNCTION(tep_set_file_bigendian, &library.tep_set_file_bigendian),
		LIBRARY_FUNCTION(tep_set_flag, &library.tep_set_flag),
		LIBRARY_FUNCTION(tep_set_function_resolver, &library.tep_set_function_resolver),
		LIBRARY_FUNCTION(tep_set_local_bigendian, &library.tep_set_local_bigendian),
		LIBRARY_FUNCTION(tep_set_loglevel, &library.tep_set_loglevel),
		LIBRARY_FUNCTION(tep_set_long_size, &library.tep_set_long_size),
		LIBRARY_FUNCTION(tep_set_page_size, &library.tep_set_page_size),
		LIBRARY_FUNCTION(trace_seq_destroy, &library.trace_seq_destroy),
		LIBRARY_FUNCTION(trace_seq_init, &library.trace_seq_init),
		LIBRARY_FUNCTION(trace_seq_reset, &library.trace_seq_reset),
	};

	traceevent_loaded = library_load("libtraceevent.so.1", functions, sizeof(functions) / sizeof(functions[0]));
}

/* false: it is not installed. Any thread. */
static bool traceevent_is_here(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load_traceevent);
	return traceevent_loaded;
}

/*
 * A plan: the text of a tracepoint's sample, worked out once for the event instead of for each sample, from what
 * libtraceevent parsed of the format ("print fmt"): pieces of text, numbers and strings at known places. Formats with
 * anything else (flags, symbols, functions, arithmetic) have no plan: libtraceevent prints those. What a plan prints
 * is, byte for byte, what libtraceevent prints.
 */
enum { MAX_STEPS = 64, MAX_NUMBER = 32 /* bytes that one takes, its width too */, LONG_BYTES = 8, TEXT_BYTES = 16 };

/* A piece of the event's format, and the value behind it. */
struct step {
	enum { STEP_TEXT /* no value */, STEP_DECIMAL, STEP_UNSIGNED, STEP_HEX, STEP_CHARS, STEP_DYNAMIC } kind;
	char text[TEXT_BYTES];
	unsigned len;    /* of the text */
	unsigned offset; /* of the field */
	unsigned bytes;  /* of the number as it is stored; STEP_CHARS: of the array */
	unsigned shown;  /* bytes of it that the conversion prints */
	unsigned width;
	char fill;
	bool prefix;   /* "%#x" */
	bool relative; /* STEP_DYNAMIC: to the end of the field */
};

struct plan {
	size_t nr;
	size_t max_bytes;  /* of the text, without what dynamic fields point to */
	bool looks_behind; /* at what stands behind the record */
	bool plain;        /* numbers, and pieces of the format with nothing to escape */
	struct step steps[MAX_STEPS];
};

/* Between '%' and the letter: "[#0][width][l|ll|h|hh]"; anything else is not for a plan. Returns the letter's place. */
static const char *read_conversion(const char *at, struct step *ret)
{
	ret->fill = ' ';
	ret->shown = sizeof(int);
	for (;; at++) {
		if (*at == '#')
			ret->prefix = true;
		else if (*at == '0')
			ret->fill = '0';
		else
			break;
	}
	for (; *at >= '0' && *at <= '9'; at++) {
		ret->width = ret->width * 10 + (unsigned)(*at - '0');
		if (ret->width > MAX_NUMBER - 8)
			return NULL;
	}
	if (*at == 'l') {
		ret->shown = LONG_BYTES;
		at += at[1] == 'l' ? 2 : 1;
	} else if (*at == 'h') {
		ret->shown = at[1] == 'h' ? 1 : 2;
		at += at[1] == 'h' ? 2 : 1;
	}
	/* A prefix counts for the width, and zeroes stand behind it: not worth a rule here. */
	return ret->prefix && ret->width ? NULL : at;
}

static bool is_number(unsigned bytes)
{
	return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
}

/* REC->field, or REC->field[number]. */
static bool find_number(struct tep_event *event, const struct tep_print_arg *arg, struct step *ret)
{
	unsigned long index = 0;
	bool element = arg->type == TEP_PRINT_OP && strcmp(arg->op.op, "[") == 0;

	if (element) {
		const struct tep_print_arg *right = arg->op.right;
		char *end;
		if (right->type != TEP_PRINT_ATOM)
			return false;
		index = strtoul(right->atom.atom, &end, 0);
		if (*end)
			return false;
		arg = arg->op.left;
	}
	if (arg->type != TEP_PRINT_FIELD)
		return false;
	const struct tep_format_field *field = library.tep_find_any_field(event, arg->field.name);
	if (!field || field->flags & TEP_FIELD_IS_DYNAMIC || !(field->flags & TEP_FIELD_IS_ARRAY) == element)
		return false;
	ret->bytes = element ? field->elementsize : (unsigned)field->size;
	if (!is_number(ret->bytes) || index >= (unsigned)field->size / ret->bytes)
		return false;
	ret->offset = (unsigned)field->offset + (unsigned)index * ret->bytes;
	return true;
}

/* A char array in the record, or __get_str(field). */
static bool find_string(struct tep_event *event, const struct tep_print_arg *arg, struct step *ret)
{
	const char *name = arg->type == TEP_PRINT_FIELD    ? arg->field.name
			   : arg->type == TEP_PRINT_STRING ? arg->string.string
							   : NULL;
	const struct tep_format_field *field = name ? library.tep_find_any_field(event, name) : NULL;

	if (!field || ret->width)
		return false;
	ret->offset = (unsigned)field->offset;
	if (arg->type == TEP_PRINT_STRING) {
		ret->kind = STEP_DYNAMIC;
		ret->relative = field->flags & TEP_FIELD_IS_RELATIVE;
		return field->flags & TEP_FIELD_IS_DYNAMIC && field->size == sizeof(uint32_t);
	}
	ret->kind = STEP_CHARS;
	ret->bytes = (unsigned)field->size;
	return field->flags & TEP_FIELD_IS_ARRAY && field->flags & TEP_FIELD_IS_STRING &&
	       !(field->flags & TEP_FIELD_IS_DYNAMIC);
}

static bool find_value(struct tep_event *event, const struct tep_print_arg *arg, char letter, struct step *ret)
{
	switch (letter) {
	case 'd':
	case 'i': ret->kind = STEP_DECIMAL; return !ret->prefix && ret->fill == ' ' && find_number(event, arg, ret);
	case 'u': ret->kind = STEP_UNSIGNED; return !ret->prefix && find_number(event, arg, ret);
	case 'x': ret->kind = STEP_HEX; return find_number(event, arg, ret);
	case 's': return !ret->prefix && ret->shown == sizeof(int) && find_string(event, arg, ret);
	default: return false;
	}
}

/* Adds a step with as much of the text as it takes; what is left is steps of its own in front. */
static bool plan_step(struct plan *plan, const char *text, size_t len, struct step step)
{
	for (; len > TEXT_BYTES; text += TEXT_BYTES, len -= TEXT_BYTES)
		if (!plan_step(plan, text, TEXT_BYTES, (struct step){.kind = STEP_TEXT}))
			return false;
	if (plan->nr == MAX_STEPS)
		return false;
	memcpy(step.text, text, len);
	step.len = (unsigned)len;
	plan->steps[plan->nr++] = step;
	plan->looks_behind |= step.kind == STEP_DYNAMIC;
	return true;
}

/* False: this format is not for a plan. */
static bool plan_format(struct plan *plan, struct tep_event *event)
{
	const char *at = event->print_fmt.format;
	const struct tep_print_arg *arg = event->print_fmt.args;

	while (*at) {
		const char *text = at;
		size_t len = strcspn(text, "%\\");
		struct step step = {.kind = STEP_TEXT};
		at += len;
		if (*at == '\\')
			return false;
		if (*at) {
			at = read_conversion(at + 1, &step);
			if (!at || !arg || !find_value(event, arg, *at, &step))
				return false;
			arg = arg->next;
			at++;
		}
		if (!plan_step(plan, text, len, step))
			return false;
	}
	return !arg;
}

static struct plan *plan_make(struct tep_event *event)
{
	if (event->handler || event->flags & (TEP_EVENT_FL_FAILED | TEP_EVENT_FL_PRINTRAW) ||
	    !event->print_fmt.format || library.tep_get_long_size(event->tep) != LONG_BYTES)
		return NULL;
	struct plan *plan = calloc(1, sizeof(*plan));
	if (plan && !plan_format(plan, event)) {
		free(plan);
		return NULL;
	}
	if (!plan)
		return NULL;
	plan->plain = true;
	for (size_t i = 0; i < plan->nr; i++) {
		const struct step *step = &plan->steps[i];
		plan->max_bytes += TEXT_BYTES + (step->kind == STEP_CHARS ? step->bytes : MAX_NUMBER);
		if (step->kind == STEP_CHARS || step->kind == STEP_DYNAMIC || escape_is_special(step->text, step->len))
			plan->plain = false;
	}
	return plan;
}

#define READ_AS(type)                                                                                                  \
	do {                                                                                                           \
		type value;                                                                                            \
		memcpy(&value, from, sizeof(value));                                                                   \
		return value;                                                                                          \
	} while (0)

/* Formats of the other byte order are refused. */
static uint64_t read_number(const void *from, unsigned bytes)
{
	switch (bytes) {
	case 1: READ_AS(uint8_t);
	case 2: READ_AS(uint16_t);
	case 4: READ_AS(uint32_t);
	default: READ_AS(uint64_t);
	}
}

static int64_t as_signed(uint64_t value, unsigned bytes)
{
	unsigned shift = 64 - 8 * bytes;

	return (int64_t)(value << shift) >> shift;
}

static uint64_t as_unsigned(uint64_t value, unsigned bytes)
{
	unsigned shift = 64 - 8 * bytes;

	return value << shift >> shift;
}

static char *put_value(char *to, const struct step *step, uint64_t stored)
{
	bool negative = step->kind == STEP_DECIMAL && as_signed(stored, step->shown) < 0;
	uint64_t value = negative ? -(uint64_t)as_signed(stored, step->shown) : as_unsigned(stored, step->shown);

	if (negative)
		*to++ = '-';
	if (step->kind != STEP_HEX)
		return digits_put_decimal(to, value);
	if (step->prefix && value) {
		*to++ = '0';
		*to++ = 'x';
	}
	return digits_put_hex(to, value);
}

/* At most MAX_NUMBER bytes. Returns where the text ends. */
static char *put_number(char *to, const struct step *step, uint64_t stored)
{
	char *end = put_value(to, step, stored);
	size_t len = (size_t)(end - to);

	if (len >= step->width)
		return end;
	size_t missing = step->width - len;
	memmove(to + missing, to, len);
	memset(to, step->fill, missing);
	return end + missing;
}

/* What the field points to, up to its NUL; it lies in the record. */
static const char *dynamic_text(const struct step *step, struct span raw)
{
	uint32_t where;

	memcpy(&where, (const char *)raw.ptr + step->offset, sizeof(where));
	size_t offset = (where & 0xffff) + (step->relative ? step->offset + sizeof(where) : 0);
	return (const char *)raw.ptr + offset;
}

static char *put_bytes(char *to, const char *bytes, size_t len)
{
	memcpy(to, bytes, len);
	return to + len;
}

/*
 * Appends the text. The record holds all fixed fields and what its dynamic ones point to; if the plan looks behind it,
 * a NUL stands at raw.ptr[raw.len].
 */
static void plan_print(const struct plan *plan, struct span raw, struct buf *out)
{
	char *to = buf_room(out, plan->max_bytes), *start = to;

	for (size_t i = 0; to && i < plan->nr; i++) {
		const struct step *step = &plan->steps[i];
		const char *at = (const char *)raw.ptr + step->offset;
		memcpy(to, step->text, TEXT_BYTES); /* a known size is one store */
		to += step->len;
		switch (step->kind) {
		case STEP_TEXT: break;
		case STEP_CHARS: to = put_bytes(to, at, strnlen(at, step->bytes)); break;
		case STEP_DYNAMIC: /* of any length */
			out->len += (size_t)(to - start);
			buf_put_text(out, dynamic_text(step, raw));
			start = to = buf_room(out, plan->max_bytes);
			break;
		default: to = put_number(to, step, read_number(at, step->bytes));
		}
	}
	if (to)
		out->len += (size_t)(to - start);
}

/*
 * Layout of the blob: trace-cmd.dat(5), the part in front of the CPU data; perf.data takes it over.
 * libtraceevent works on C strings and trusts them, so every text is copied and terminated first.
 */

struct tracepoint {
	uint64_t id;
	char *name;              /* "system:event" */
	struct tep_event *event; /* owned by the tep handle */
	size_t fixed_bytes;      /* what the format's fields take */
	struct dynamic_field {
		unsigned offset;
		bool relative; /* to the end of the field, not to the start of the record */
	} * dynamic;
	size_t nr_dynamic;
	struct plan *plan;   /* NULL: libtraceevent prints this one */
	bool planned;        /* whether there can be one was looked at */
	unsigned nr_checked; /* samples for which the plan said what libtraceevent says */
};

/* So many samples of each tracepoint are printed both ways; a plan that ever differs is dropped. */
enum { PLAN_CHECKS = 16 };
enum { NR_RECENT = 16 };
/* A kernel has some thousands. libtraceevent compares each with all that it has. */
enum { MOST_FORMATS = 1 << 14 };

struct tracepoints {
	struct tep_handle *tep;
	struct trace_seq text;
	struct tracepoint *known;             /* ascending by id */
	struct tracepoint *recent[NR_RECENT]; /* by the last bits of the id */
	size_t nr, room;
	const char *(*resolve)(void *ctx, uint64_t address, uint64_t *ret_start);
	void *resolve_ctx;
	unsigned nr_formats; /* that were parsed */
	int version_tenths;  /* of the blob: 5 or 6 */
	struct buf copy;     /* of the record that is printed */
};

static void tracepoint_fini(struct tracepoint *tracepoint)
{
	free(tracepoint->name);
	free(tracepoint->dynamic);
	free(tracepoint->plan);
}

void tracepoints_close(struct tracepoints *tracepoints)
{
	if (!tracepoints)
		return;
	for (size_t i = 0; i < tracepoints->nr; i++)
		tracepoint_fini(&tracepoints->known[i]);
	free(tracepoints->known);
	buf_fini(&tracepoints->copy);
	library.trace_seq_destroy(&tracepoints->text);
	library.tep_free(tracepoints->tep);
	free(tracepoints);
}

static void tracepoints_free(struct tracepoints **tracepoints)
{
	tracepoints_close(*tracepoints);
}
#define AUTO_TRACEPOINTS __attribute__((cleanup(tracepoints_free)))

static int compare_ids(const void *a, const void *b)
{
	uint64_t left = ((const struct tracepoint *)a)->id, right = ((const struct tracepoint *)b)->id;

	return (left > right) - (left < right);
}

static struct tracepoint *find(const struct tracepoints *tracepoints, uint64_t id)
{
	struct tracepoint key = {.id = id};

	if (!tracepoints->nr)
		return NULL;
	return bsearch(&key, tracepoints->known, tracepoints->nr, sizeof(key), compare_ids);
}

/* What a record of this event must hold, so that libtraceevent, which does not check, reads nothing else. */
static int measure(struct tracepoint *tracepoint)
{
	struct tep_format *format = &tracepoint->event->format;
	struct tep_format_field *lists[] = {format->common_fields, format->fields};

	for (unsigned i = 0; i < 2; i++) {
		for (struct tep_format_field *field = lists[i]; field; field = field->next) {
			if (field->offset < 0 || field->size < 0)
				return -EBADMSG;
			size_t end = (size_t)field->offset + (size_t)field->size;
			if (end > tracepoint->fixed_bytes)
				tracepoint->fixed_bytes = end;
			if (!(field->flags & TEP_FIELD_IS_DYNAMIC) || field->size < 4)
				continue;
			void *more = reallocarray(tracepoint->dynamic, tracepoint->nr_dynamic + 1,
						  sizeof(*tracepoint->dynamic));
			if (!more)
				return -ENOMEM;
			tracepoint->dynamic = more;
			tracepoint->dynamic[tracepoint->nr_dynamic++] = (struct dynamic_field){
				.offset = (unsigned)field->offset,
				.relative = field->flags & TEP_FIELD_IS_RELATIVE,
			};
		}
	}
	return 0;
}

static int add_known(struct tracepoints *tracepoints, struct tep_event *event)
{
	struct tracepoint made = {.id = (uint64_t)event->id, .event = event};

	if (array_room(tracepoints->known, tracepoints->nr, tracepoints->room))
		return -ENOMEM;
	int err = asprintf(&made.name, "%s:%s", event->system, event->name) < 0 ? -ENOMEM : 0;
	if (err)
		made.name = NULL;
	else
		err = measure(&made);
	if (err) {
		tracepoint_fini(&made);
		return err == -ENOMEM ? err : 0;
	}
	tracepoints->known[tracepoints->nr++] = made;
	return 0;
}

/* The next `len` bytes as a C string of their own. NULL: not there, or out of memory (with *ret_err). */
static char *take_text(struct cursor *at, uint64_t len, int *ret_err)
{
	const char *bytes = cursor_take(at, len);

	if (!bytes) {
		*ret_err = -EBADMSG;
		return NULL;
	}
	char *text = strndup(bytes, len);
	if (!text)
		*ret_err = -ENOMEM;
	return text;
}

/* A NUL-terminated word of the blob, where it lies. */
static const char *take_word(struct cursor *at)
{
	const void *end = memchr(at->at, '\0', cursor_left(at));

	if (at->bad || !end) {
		at->bad = true;
		return NULL;
	}
	return cursor_take(at, (uint64_t)((const uint8_t *)end - at->at) + 1);
}

static int add_format(struct tracepoints *tracepoints, struct cursor *at, const char *system)
{
	int err = 0;
	AUTO_FREE char *text = take_text(at, cursor_u64(at), &err);

	if (!text)
		return err;
	if (tracepoints->nr_formats == MOST_FORMATS) {
		tracepoints->nr_formats++;
		log_note("of the formats of tracepoints only the first %d are used", MOST_FORMATS);
	}
	if (tracepoints->nr_formats > MOST_FORMATS)
		return 0;
	tracepoints->nr_formats++;
	/* Its size must be that of the text: the parser reads past a NUL that comes earlier. */
	struct tep_event *event = NULL;
	if (library.tep_parse_event(tracepoints->tep, text, strlen(text), system) == TEP_ERRNO__MEM_ALLOC_FAILED)
		return -ENOMEM;
	const char *id = strstr(text, "\nID:");
	if (id)
		event = library.tep_find_event(tracepoints->tep, atoi(id + 4));
	return event ? add_known(tracepoints, event) : 0;
}

static int read_systems(struct tracepoints *tracepoints, struct cursor *at)
{
	uint32_t nr_ftrace = cursor_u32(at);

	for (uint32_t i = 0; i < nr_ftrace && !at->bad; i++) {
		int err = add_format(tracepoints, at, "ftrace");
		if (err)
			return err;
	}
	uint32_t nr_systems = cursor_u32(at);
	for (uint32_t i = 0; i < nr_systems && !at->bad; i++) {
		const char *system = take_word(at);
		uint32_t nr_events = cursor_u32(at);
		for (uint32_t j = 0; j < nr_events && !at->bad; j++) {
			int err = add_format(tracepoints, at, system);
			if (err)
				return err;
		}
	}
	return at->bad ? -EBADMSG : 0;
}

static int read_front(struct tracepoints *tracepoints, struct cursor *at)
{
	static const char magic[] = {0x17, 0x08, 0x44, 't', 'r', 'a', 'c', 'i', 'n', 'g'};
	const void *start = cursor_take(at, sizeof(magic));

	if (!start || memcmp(start, magic, sizeof(magic)))
		return -EBADMSG;
	const char *version = take_word(at);
	if (!version)
		return -EBADMSG;
	tracepoints->version_tenths = (int)(strtod(version, NULL) * 10 + 0.5);
	bool big = cursor_u8(at);
	unsigned long_bytes = cursor_u8(at);
	uint32_t page_bytes = cursor_u32(at);
	if (at->bad || big || (long_bytes != 4 && long_bytes != 8) || page_bytes > INT32_MAX)
		return -EBADMSG;
	library.tep_set_file_bigendian(tracepoints->tep, TEP_LITTLE_ENDIAN);
	library.tep_set_local_bigendian(tracepoints->tep, TEP_LITTLE_ENDIAN);
	library.tep_set_long_size(tracepoints->tep, (int)long_bytes);
	library.tep_set_page_size(tracepoints->tep, (int)page_bytes);

	for (unsigned i = 0; i < 2; i++) { /* header_page, header_event: nothing that a sample needs */
		const char *name = take_word(at);
		if (!name || strcmp(name, i ? "header_event" : "header_page"))
			return -EBADMSG;
		cursor_take(at, cursor_u64(at));
	}
	return at->bad ? -EBADMSG : 0;
}

/* Symbols, printk formats, names of tasks. Absent or broken, they cost only some text. */
static int read_names(struct tracepoints *tracepoints, struct cursor *at)
{
	int err = 0;
	AUTO_FREE char *kallsyms = take_text(at, cursor_u32(at), &err);
	AUTO_FREE char *formats = kallsyms ? take_text(at, cursor_u32(at), &err) : NULL;
	AUTO_FREE char *comms = NULL;

	if (formats && tracepoints->version_tenths >= 6)
		comms = take_text(at, cursor_u64(at), &err);
	if (err)
		return err;
	if (*kallsyms)
		library.tep_parse_kallsyms(tracepoints->tep, kallsyms);
	if (*formats)
		library.tep_parse_printk_formats(tracepoints->tep, formats);
	if (comms && *comms)
		library.tep_parse_saved_cmdlines(tracepoints->tep, comms);
	return 0;
}

int tracepoints_open(struct span blob, struct tracepoints **ret, struct diag *reterr)
{
	struct cursor at = cursor_over(blob);

	if (!traceevent_is_here())
		return diag_set(reterr, -ENOTSUP,
				"fields of tracepoints need libtraceevent.so.1, which %s (Debian: libtraceevent1)",
				library_problem());
	AUTO_TRACEPOINTS struct tracepoints *tracepoints = calloc(1, sizeof(*tracepoints));
	if (!tracepoints)
		return diag_set(reterr, -ENOMEM, "out of memory");
	library.tep_set_loglevel(TEP_LOG_NONE);
	library.trace_seq_init(&tracepoints->text);
	tracepoints->tep = library.tep_alloc();
	if (!tracepoints->tep)
		return diag_set(reterr, -ENOMEM, "out of memory");
	library.tep_set_flag(tracepoints->tep, TEP_NSEC_OUTPUT);

	int err = read_front(tracepoints, &at);
	if (!err)
		err = read_systems(tracepoints, &at);
	if (!err)
		err = read_names(tracepoints, &at);
	if (err == -ENOMEM)
		return diag_set(reterr, err, "out of memory");
	if (err)
		return diag_set(reterr, err, "the tracepoint formats are damaged (byte %zu of %zu)",
				blob.len - cursor_left(&at), blob.len);
	qsort(tracepoints->known, tracepoints->nr, sizeof(*tracepoints->known), compare_ids);
	*ret = take_ptr(tracepoints);
	return 0;
}

/* The signature is libtraceevent's; it does not write to the name. */
static char *resolve_function(void *ctx, unsigned long long *address, char **module)
{
	struct tracepoints *tracepoints = ctx;
	uint64_t start = *address;
	const char *name = tracepoints->resolve(tracepoints->resolve_ctx, *address, &start);

	*module = NULL;
	*address = start;
	return (char *)(uintptr_t)name;
}

void tracepoints_set_resolver(struct tracepoints *tracepoints,
			      const char *(*resolve)(void *ctx, uint64_t address, uint64_t *ret_start), void *ctx)
{
	tracepoints->resolve = resolve;
	tracepoints->resolve_ctx = ctx;
	library.tep_set_function_resolver(tracepoints->tep, resolve_function, tracepoints);
}

const char *tracepoint_name(const struct tracepoints *tracepoints, uint64_t id)
{
	const struct tracepoint *tracepoint = find(tracepoints, id);

	return tracepoint ? tracepoint->name : NULL;
}

/* The fields, and what they point to ("__data_loc": offset, and length << 16), lie in the record. */
static bool fits(const struct tracepoint *tracepoint, struct span raw)
{
	if (raw.len < tracepoint->fixed_bytes)
		return false;
	for (size_t i = 0; i < tracepoint->nr_dynamic; i++) {
		const struct dynamic_field *field = &tracepoint->dynamic[i];
		uint32_t place;
		memcpy(&place, (const char *)raw.ptr + field->offset, sizeof(place));
		size_t offset = (place & 0xffff) + (field->relative ? field->offset + sizeof(place) : 0);
		if (offset > raw.len || place >> 16 > raw.len - offset)
			return false;
	}
	return true;
}

/* By libtraceevent; the record has a NUL behind it. */
static void print_event(struct tracepoints *tracepoints, struct span raw, uint32_t cpu, struct buf *out)
{
	struct tep_record record = {.cpu = (int)cpu, .size = (int)raw.len, .data = (void *)(uintptr_t)raw.ptr};

	library.trace_seq_reset(&tracepoints->text);
	library.tep_print_event(tracepoints->tep, &tracepoints->text, &record, "%s", TEP_PRINT_INFO);
	buf_put(out, tracepoints->text.buffer, tracepoints->text.len);
}

/* Both ways. */
static void print_checked(struct tracepoints *tracepoints, struct tracepoint *tracepoint, struct span raw, uint32_t cpu,
			  struct buf *out)
{
	AUTO_BUF struct buf planned = {0};
	size_t before = out->len;

	print_event(tracepoints, raw, cpu, out);
	plan_print(tracepoint->plan, raw, &planned);
	if (out->failed || planned.failed)
		return;
	tracepoint->nr_checked++;
	size_t printed = out->len - before;
	if (planned.len == printed && (!printed || !memcmp(planned.data, out->data + before, printed)))
		return;
	log_verbose("%s: libtraceevent formats it, as our own formatting gives another text", tracepoint->name);
	free(tracepoint->plan);
	tracepoint->plan = NULL;
}

/* The tracepoint that wrote these bytes; NULL: not known. */
static struct tracepoint *tracepoint_of(struct tracepoints *tracepoints, struct span raw)
{
	uint16_t id;

	if (raw.len < sizeof(id))
		return NULL;
	memcpy(&id, raw.ptr, sizeof(id)); /* common_type */
	struct tracepoint **recent = &tracepoints->recent[id % NR_RECENT];
	if (!*recent || (*recent)->id != id)
		*recent = find(tracepoints, id);
	return *recent;
}

/* Where the bytes of a field are: a dynamic one tells it, as offset and length << 16. */
static struct span field_bytes(const struct tep_format_field *field, struct span raw)
{
	const char *at = (const char *)raw.ptr + field->offset;
	uint32_t place;

	if (!(field->flags & TEP_FIELD_IS_DYNAMIC))
		return (struct span){at, (size_t)field->size};
	if (field->size < (int)sizeof(place))
		return (struct span){at, 0};
	memcpy(&place, at, sizeof(place));
	size_t base = field->flags & TEP_FIELD_IS_RELATIVE ? (size_t)field->offset + sizeof(place) : 0;
	return (struct span){(const char *)raw.ptr + base + (place & 0xffff), place >> 16};
}

/* Little-endian, as the formats that are read are; false: no number. */
static bool field_number(const struct tep_format_field *field, struct span bytes, struct tracepoint_value *value)
{
	unsigned bits = (unsigned)bytes.len * 8;

	if (field->flags & (TEP_FIELD_IS_ARRAY | TEP_FIELD_IS_DYNAMIC) || !bytes.len ||
	    bytes.len > sizeof(value->number))
		return false;
	value->number = 0;
	memcpy(&value->number, bytes.ptr, bytes.len);
	value->kind = field->flags & TEP_FIELD_IS_SIGNED ? VALUE_SIGNED : VALUE_UNSIGNED;
	if (value->kind == VALUE_SIGNED && bits < 64 && value->number >> (bits - 1))
		value->number |= UINT64_MAX << bits;
	return true;
}

int tracepoint_values(struct tracepoints *tracepoints, struct span raw, tracepoint_visitor *visit, void *ctx)
{
	const struct tracepoint *tracepoint = tracepoint_of(tracepoints, raw);

	if (!tracepoint)
		return -ENOENT;
	if (!fits(tracepoint, raw))
		return -EBADMSG;
	for (const struct tep_format_field *field = tracepoint->event->format.fields; field; field = field->next) {
		struct tracepoint_value value = {.name = field->name, .kind = VALUE_BYTES};
		value.bytes = field_bytes(field, raw);
		if (field->flags & TEP_FIELD_IS_STRING) {
			value.kind = VALUE_TEXT;
			value.bytes.len = strnlen(value.bytes.ptr, value.bytes.len);
		} else {
			field_number(field, value.bytes, &value);
		}
		visit(&value, ctx);
	}
	return 0;
}

bool tracepoint_print(struct tracepoints *tracepoints, struct span raw, uint32_t cpu, struct buf *out)
{
	struct tracepoint *tracepoint = tracepoint_of(tracepoints, raw);

	if (!tracepoint)
		return true;
	if (!fits(tracepoint, raw)) {
		buf_printf(out, "[%zu bytes are not what the format says]", raw.len);
		return true;
	}
	if (tracepoint->plan && tracepoint->nr_checked == PLAN_CHECKS && !tracepoint->plan->looks_behind) {
		plan_print(tracepoint->plan, raw, out);
		return tracepoint->plan->plain;
	}
	/* A copy with a NUL behind it: strings of dynamic length are printed up to one, wherever it is. */
	tracepoints->copy.len = 0;
	buf_put(&tracepoints->copy, raw.ptr, raw.len);
	buf_put_u64(&tracepoints->copy, 0);
	if (tracepoints->copy.failed)
		return true;
	struct span copy = {tracepoints->copy.data, raw.len};
	if (!tracepoint->planned) {
		tracepoint->planned = true;
		tracepoint->plan = plan_make(tracepoint->event);
	}
	if (!tracepoint->plan)
		print_event(tracepoints, copy, cpu, out);
	else if (tracepoint->nr_checked < PLAN_CHECKS)
		print_checked(tracepoints, tracepoint, copy, cpu, out);
	else
		plan_print(tracepoint->plan, copy, out);
	return false;
}

/* " name=value" of a text; {NULL, 0}: it has none. */
static struct span value_in_text(struct buf *text, const char *name)
{
	const char *at = buf_text(text);
	size_t len = strlen(name);

	while (*at) {
		size_t word = strcspn(at, " ");
		/* As perf: a word that begins with the name, whatever stands between that and the value. */
		if (word > len && memcmp(at, name, len) == 0)
			return (struct span){at + len + 1, word - len - 1};
		at += word;
		at += *at == ' ';
	}
	return (struct span){0};
}

int tracepoint_print_field(struct tracepoints *tracepoints, struct span raw, const struct tracepoint_field_query *query,
			   struct tracepoint_field *ret, struct buf *out)
{
	const struct tracepoint *tracepoint = tracepoint_of(tracepoints, raw);
	struct tep_format_field *field = tracepoint ? library.tep_find_any_field(tracepoint->event, query->name) : NULL;
	AUTO_BUF struct buf text = {0};

	if (!field)
		return -ENOENT;
	if (!fits(tracepoint, raw))
		return -EBADMSG;
	*ret = (struct tracepoint_field){
		.bytes = field_bytes(field, raw),
		.width = (unsigned)field->size * (field->flags & TEP_FIELD_IS_STRING ? 1 : 2),
	};
	if (!(field->flags & TEP_FIELD_IS_STRING))
		ret->width += strlen("0x");
	if (field->flags & TEP_FIELD_IS_DYNAMIC && ret->width < ret->bytes.len) /* as perf: with the NUL of a string */
		ret->width = (unsigned)ret->bytes.len;
	if (!query->raw) {
		tracepoint_print(tracepoints, raw, query->cpu, &text);
		struct span value = value_in_text(&text, query->name);
		if (value.ptr) {
			buf_put(out, value.ptr, value.len);
			return 0;
		}
	}
	library.trace_seq_reset(&tracepoints->text);
	tracepoints->copy.len = 0; /* with a NUL behind it, as in tracepoint_print() */
	buf_put(&tracepoints->copy, raw.ptr, raw.len);
	buf_put_u64(&tracepoints->copy, 0);
	if (tracepoints->copy.failed)
		return 0;
	library.tep_print_field(&tracepoints->text, tracepoints->copy.data, field);
	buf_put(out, tracepoints->text.buffer, tracepoints->text.len);
	return 0;
}

void tracepoint_print_raw(struct tracepoints *tracepoints, struct span raw, struct buf *out)
{
	const struct tracepoint *tracepoint = tracepoint_of(tracepoints, raw);

	for (unsigned i = 0; tracepoint; i++) {
		struct tracepoint_field field;
		const char *name = tracepoint_field_name(tracepoints, tracepoint->id, i);
		if (!name)
			return;
		buf_printf(out, " %s=", name);
		tracepoint_print_field(tracepoints, raw, &(struct tracepoint_field_query){name, true, 0}, &field, out);
	}
}

const char *tracepoint_field_name(const struct tracepoints *tracepoints, uint64_t id, unsigned index)
{
	const struct tracepoint *tracepoint = find(tracepoints, id);
	const struct tep_format_field *field = tracepoint ? tracepoint->event->format.fields : NULL;

	while (field && index--)
		field = field->next;
	return field ? field->name : NULL;
}

bool tracepoint_has_field(const struct tracepoints *tracepoints, uint64_t id, const char *name)
{
	const struct tracepoint *tracepoint = find(tracepoints, id);

	return tracepoint && library.tep_find_any_field(tracepoint->event, name);
}
