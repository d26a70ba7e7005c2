/* SPDX-License-Identifier: MIT */
#include "analyze/tracepoint_plan.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <traceevent/event-parse.h>

#include "base/buf.h"
#include "base/digits.h"

enum { MAX_STEPS = 64, MAX_NUMBER = 32 /* bytes that one takes, its width too */, LONG_BYTES = 8, TEXT_BYTES = 16 };

struct step {
	enum { STEP_TEXT, STEP_DECIMAL, STEP_UNSIGNED, STEP_HEX, STEP_CHARS, STEP_DYNAMIC } kind;
	char text[TEXT_BYTES]; /* STEP_TEXT: a piece of the event's format */
	size_t len;       /* STEP_TEXT, STEP_CHARS */
	unsigned offset;  /* of the field */
	unsigned bytes;   /* of the number as it is stored */
	unsigned shown;   /* bytes of it that the conversion prints */
	unsigned width;
	char fill;
	bool prefix;   /* "%#x" */
	bool relative; /* STEP_DYNAMIC: to the end of the field */
};

struct tracepoint_plan {
	size_t nr;
	size_t max_bytes; /* of the text, without what dynamic fields point to */
	bool looks_behind; /* at what stands behind the record */
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
static bool place_number(struct tep_event *event, const struct tep_print_arg *arg, struct step *ret)
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
	const struct tep_format_field *field = tep_find_any_field(event, arg->field.name);
	if (!field || field->flags & TEP_FIELD_IS_DYNAMIC || !(field->flags & TEP_FIELD_IS_ARRAY) == element)
		return false;
	ret->bytes = element ? field->elementsize : (unsigned)field->size;
	if (!is_number(ret->bytes) || index >= (unsigned)field->size / ret->bytes)
		return false;
	ret->offset = (unsigned)field->offset + (unsigned)index * ret->bytes;
	return true;
}

/* A char array in the record, or __get_str(field). */
static bool place_string(struct tep_event *event, const struct tep_print_arg *arg, struct step *ret)
{
	const char *name = arg->type == TEP_PRINT_FIELD	   ? arg->field.name
			   : arg->type == TEP_PRINT_STRING ? arg->string.string
							   : NULL;
	const struct tep_format_field *field = name ? tep_find_any_field(event, name) : NULL;

	if (!field || ret->width)
		return false;
	ret->offset = (unsigned)field->offset;
	if (arg->type == TEP_PRINT_STRING) {
		ret->kind = STEP_DYNAMIC;
		ret->relative = field->flags & TEP_FIELD_IS_RELATIVE;
		return field->flags & TEP_FIELD_IS_DYNAMIC && field->size == sizeof(uint32_t);
	}
	ret->kind = STEP_CHARS;
	ret->len = (size_t)field->size;
	return field->flags & TEP_FIELD_IS_ARRAY && field->flags & TEP_FIELD_IS_STRING &&
	       !(field->flags & TEP_FIELD_IS_DYNAMIC);
}

static bool place(struct tep_event *event, const struct tep_print_arg *arg, char letter, struct step *ret)
{
	switch (letter) {
	case 'd':
	case 'i':
		ret->kind = STEP_DECIMAL;
		return !ret->prefix && ret->fill == ' ' && place_number(event, arg, ret);
	case 'u':
		ret->kind = STEP_UNSIGNED;
		return !ret->prefix && place_number(event, arg, ret);
	case 'x':
		ret->kind = STEP_HEX;
		return place_number(event, arg, ret);
	case 's':
		return !ret->prefix && ret->shown == sizeof(int) && place_string(event, arg, ret);
	default:
		return false;
	}
}

/* In pieces of a size that is known when they are copied. */
static bool plan_text(struct tracepoint_plan *plan, const char *text, size_t len)
{
	while (len && plan->nr < MAX_STEPS) {
		struct step *step = &plan->steps[plan->nr++];
		*step = (struct step){.kind = STEP_TEXT, .len = len < TEXT_BYTES ? len : TEXT_BYTES};
		memcpy(step->text, text, step->len);
		text += step->len;
		len -= step->len;
	}
	return !len;
}

/* False: this format is not for a plan. */
static bool plan_format(struct tracepoint_plan *plan, struct tep_event *event)
{
	const char *at = event->print_fmt.format;
	const struct tep_print_arg *arg = event->print_fmt.args;

	while (*at) {
		size_t len = strcspn(at, "%\\");
		if (at[len] == '\\' || !plan_text(plan, at, len))
			return false;
		at += len;
		if (!*at)
			break;
		struct step step = {0};
		at = read_conversion(at + 1, &step);
		if (!at || !arg || plan->nr == MAX_STEPS || !place(event, arg, *at, &step))
			return false;
		plan->steps[plan->nr++] = step;
		plan->looks_behind |= step.kind == STEP_DYNAMIC;
		arg = arg->next;
		at++;
	}
	return !arg;
}

struct tracepoint_plan *tracepoint_plan_make(struct tep_event *event)
{
	if (event->handler || event->flags & (TEP_EVENT_FL_FAILED | TEP_EVENT_FL_PRINTRAW) || !event->print_fmt.format ||
	    tep_get_long_size(event->tep) != LONG_BYTES)
		return NULL;
	struct tracepoint_plan *plan = calloc(1, sizeof(*plan));
	if (plan && !plan_format(plan, event)) {
		free(plan);
		return NULL;
	}
	for (size_t i = 0; plan && i < plan->nr; i++)
		plan->max_bytes += plan->steps[i].len + MAX_NUMBER;
	return plan;
}

bool tracepoint_plan_looks_behind(const struct tracepoint_plan *plan)
{
	return plan->looks_behind;
}

void tracepoint_plan_free(struct tracepoint_plan *plan)
{
	free(plan);
}

#define READ_AS(type)                            \
	do {                                     \
		type value;                      \
		memcpy(&value, from, sizeof(value)); \
		return value;                    \
	} while (0)

/* Formats of the other byte order are refused. */
static uint64_t read_number(const void *from, unsigned bytes)
{
	switch (bytes) {
	case 1:
		READ_AS(uint8_t);
	case 2:
		READ_AS(uint16_t);
	case 4:
		READ_AS(uint32_t);
	default:
		READ_AS(uint64_t);
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

void tracepoint_plan_print(const struct tracepoint_plan *plan, struct span raw, struct buf *out)
{
	char *to = buf_room(out, plan->max_bytes), *start = to;

	for (size_t i = 0; to && i < plan->nr; i++) {
		const struct step *step = &plan->steps[i];
		const char *at = (const char *)raw.ptr + step->offset;
		switch (step->kind) {
		case STEP_TEXT:
			memcpy(to, step->text, TEXT_BYTES); /* there is room for more than its len */
			to += step->len;
			break;
		case STEP_CHARS:
			to = put_bytes(to, at, strnlen(at, step->len));
			break;
		case STEP_DYNAMIC: /* of any length */
			out->len += (size_t)(to - start);
			buf_put_text(out, dynamic_text(step, raw));
			start = to = buf_room(out, plan->max_bytes);
			break;
		default:
			to = put_number(to, step, read_number(at, step->bytes));
		}
	}
	if (to)
		out->len += (size_t)(to - start);
}
