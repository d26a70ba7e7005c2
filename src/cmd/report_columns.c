/* SPDX-License-Identifier: MIT */
#include "cmd/report_columns.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/diag.h"

/* In the order in which a beginning is looked for: perf's. */
static const struct {
	const char *word;
	enum hist_column column;
} words[] = {
	{"pid", HIST_TID},
	{"comm", HIST_COMM},
	{"dso", HIST_DSO},
	{"symbol", HIST_SYM},
	{"cpu", HIST_CPU},
	{"socket", HIST_SOCKET},
	{"srcline", HIST_SRCLINE},
	{"srcfile", HIST_SRCFILE},
	{"trace", HIST_TRACE},
	{"time", HIST_TIME},
	{"overhead", HIST_SELF},
	{"overhead_sys", HIST_SELF_KERNEL},
	{"overhead_us", HIST_SELF_USER},
	{"overhead_guest_sys", HIST_SELF_GUEST_KERNEL},
	{"overhead_guest_us", HIST_SELF_GUEST_USER},
	{"overhead_children", HIST_CHILDREN},
	{"sample", HIST_SAMPLES},
	{"period", HIST_PERIOD},
	{"tid", HIST_TID}, /* not perf's */
};

static const struct column_list default_sort = {.columns = {HIST_COMM, HIST_DSO, HIST_SYM}, .nr = 3};

static bool list_has(const struct column_list *list, enum hist_column column)
{
	for (unsigned i = 0; i < list->nr; i++)
		if (list->columns[i] == column)
			return true;
	return false;
}

static void list_add(struct column_list *list, enum hist_column column)
{
	if (!list_has(list, column))
		list->columns[list->nr++] = column;
}

static void list_add_all(struct column_list *list, const struct column_list *more)
{
	for (unsigned i = 0; i < more->nr; i++)
		list_add(list, more->columns[i]);
}

static int parse_word(const char *word, size_t len, enum hist_column *ret, struct diag *reterr)
{
	for (size_t i = 0; len && i < sizeof(words) / sizeof(words[0]); i++)
		if (strncasecmp(words[i].word, word, len) == 0) {
			*ret = words[i].column;
			return 0;
		}
	return diag_set(reterr, -EINVAL,
			"\"%.*s\" is none of pid, tid, comm, dso, symbol, cpu, socket, srcline, srcfile, trace, time, overhead, "
			"overhead_sys, overhead_us, overhead_guest_sys, overhead_guest_us, overhead_children, sample, period",
			(int)len, word);
}

int column_list_parse(const char *text, struct column_list *ret, struct diag *reterr)
{
	struct column_list list = {0};

	for (const char *at = text;; at++) {
		size_t len = strcspn(at, ",");
		enum hist_column column = HIST_COLUMNS;
		int err = parse_word(at, len, &column, reterr);
		if (err)
			return err;
		list_add(&list, column);
		at += len;
		if (!*at)
			break;
	}
	*ret = list;
	return 0;
}

static const struct column_list *sort_of(const struct column_choice *choice)
{
	return choice->sort.nr ? &choice->sort : &default_sort;
}

void column_choice_settle(const struct column_choice *choice, struct hist_options *ret)
{
	struct column_list order = {0};

	if (!choice->fields.nr) {
		list_add(&order, HIST_CHILDREN);
		list_add(&order, HIST_SELF);
		list_add_all(&order, sort_of(choice));
	} else {
		list_add_all(&order, &choice->sort);
		list_add_all(&order, &choice->fields);
	}
	memcpy(ret->order, order.columns, sizeof(ret->order));
	ret->nr_order = order.nr;
	ret->nr_keys = 0;
	for (unsigned i = 0; i < order.nr; i++)
		if (order.columns[i] < HIST_KEYS)
			ret->keys[ret->nr_keys++] = order.columns[i];
}

void column_choice_shown(const struct column_choice *choice, bool children, struct column_list *ret)
{
	*ret = choice->fields;
	if (choice->fields.nr) {
		list_add_all(ret, &choice->sort);
		return;
	}
	if (children)
		list_add(ret, HIST_CHILDREN);
	list_add(ret, HIST_SELF);
	if (choice->levels) {
		list_add(ret, HIST_SELF_KERNEL);
		list_add(ret, HIST_SELF_USER);
	}
	if (choice->sample_counts)
		list_add(ret, HIST_SAMPLES);
	if (choice->periods)
		list_add(ret, HIST_PERIOD);
	list_add_all(ret, sort_of(choice));
}

bool column_choice_begins_with(const struct column_choice *choice, enum hist_column column)
{
	return choice->sort.nr && choice->sort.columns[0] == column;
}
