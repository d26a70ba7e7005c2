/* SPDX-License-Identifier: MIT */
#include "cmd/sample_fields.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"

enum { ALL_KINDS = NR_KINDS };

static const char *const kind_names[NR_KINDS] = {
	[PERF_TYPE_HARDWARE] = "hardware",     [PERF_TYPE_SOFTWARE] = "software",
	[PERF_TYPE_TRACEPOINT] = "tracepoint", [PERF_TYPE_HW_CACHE] = "hardware-cache",
	[PERF_TYPE_RAW] = "raw",	       [PERF_TYPE_BREAKPOINT] = "breakpoint",
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

const char *sample_kind_name(unsigned kind)
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
		MEMORY = FIELD_BIT(FIELD_ADDR) | FIELD_BIT(FIELD_WEIGHT) | FIELD_BIT(FIELD_PHYS_ADDR) |
			 FIELD_BIT(FIELD_DATA_PAGE_SIZE) | FIELD_BIT(FIELD_CODE_PAGE_SIZE),
	};

	*fields = (struct sample_fields){0};
	for (unsigned kind = 0; kind < NR_KINDS; kind++)
		fields->kinds[kind].shown = FRONT | PLACE;
	fields->kinds[PERF_TYPE_TRACEPOINT].shown = FRONT | FIELD_BIT(FIELD_TRACE);
	fields->kinds[PERF_TYPE_RAW].shown |= MEMORY;
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
	return diag_set(reterr, -EINVAL, "\"%.*s\" is no kind of events; there are hw, sw, trace, raw and break", (int)len,
			text);
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
			return diag_set(reterr, -EINVAL, "\"%s\" is not here: %s", row->name, row->refused);
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
		of->asked = how == '-' ? of->asked & ~FIELD_BIT(field) : of->asked | FIELD_BIT(field);
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
			of->shown = of->asked = 0;
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
			return diag_set(reterr, -EINVAL, "%s events have no field \"%.*s\"", kind_names[only], (int)len, at);
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
	int err = parse_kind(text, len, &kind, reterr);
	if (err)
		return err;
	if (text[len + 1])
		return parse_list(text + len + 1, kind, fields, reterr);
	choose(fields, kind, true);
	fields->kinds[kind].silenced = true;
	return 0;
}

int sample_fields_settle(struct kind_fields *fields, const struct event_desc *event, struct diag *reterr)
{
	for (unsigned field = 0; field < NR_FIELDS; field++) {
		const struct sample_field_row *row = &sample_fields_table[field];
		if (!(fields->shown >> field & 1) || !row->sample_type || event->attr.sample_type & row->sample_type)
			continue;
		if (fields->asked >> field & 1)
			return diag_set(reterr, -EINVAL, "the samples of %s have no \"%s\": leave it out of -F", event->name,
					row->name);
		fields->shown &= ~FIELD_BIT(field);
	}
	if (fields->shown & FIELD_BIT(FIELD_SYMOFF) && !(fields->shown & FIELD_BIT(FIELD_SYM))) {
		if (fields->asked & FIELD_BIT(FIELD_SYMOFF) || fields->removed & FIELD_BIT(FIELD_SYM))
			return diag_set(reterr, -EINVAL, "\"symoff\" is shown behind \"sym\", which is not chosen");
		fields->shown &= ~FIELD_BIT(FIELD_SYMOFF);
	}
	if (fields->shown & FIELD_BIT(FIELD_SRCLINE) && !(fields->shown & FIELD_BIT(FIELD_IP)))
		return diag_set(reterr, -EINVAL, "\"srcline\" is shown behind \"ip\", which is not chosen");
	return 0;
}
