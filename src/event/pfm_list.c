/* SPDX-License-Identifier: MIT */
/* The list of --pfm-events: names of libpfm4, separated by commas; those in braces are a group. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "event/event.h"
#include "event/list.h"
#include "event/parse.h"
#include "event/pfm.h"

struct pfm_list {
	struct parse parse; /* for what is said of errors; the text has no tokens of -e */
	struct event_list found;
	size_t group; /* where the group began */
	bool in_group;
};

static int add_name(struct pfm_list *list, const char *text, size_t start, size_t len)
{
	__attribute__((cleanup(event_fini))) struct event event = list_new_event(0, 0);
	const char *why;

	event.name = strndup(text + start, len);
	if (!event.name)
		return diag_set(list->parse.reterr, -ENOMEM, "out of memory");
	if (pfm_encode(event.name, &event.attr, &why))
		return parse_error(&list->parse, start, "libpfm4: %s", why);
	return list_add(&list->found, &event, list->parse.reterr);
}

static int take_brace(struct pfm_list *list, const char *text, size_t at)
{
	if (text[at] == '{' && !list->in_group) {
		list->in_group = true;
		list->group = list->found.nr;
		return 0;
	}
	if (text[at] == '{')
		return parse_error(&list->parse, at, "a group cannot be a member of a group");
	if (!list->in_group || list->found.nr == list->group)
		return parse_error(&list->parse, at, "a group without events");
	list->in_group = false;
	list_make_group(&list->found, list->group, NULL);
	return 0;
}

static int take_all(struct pfm_list *list, const char *text)
{
	int err = 0;

	for (size_t at = 0; text[at] && !err;) {
		size_t len = strcspn(text + at, ",{}");
		if (len)
			err = add_name(list, text, at, len);
		at += len;
		if (err || !text[at])
			break;
		if (text[at] != ',')
			err = take_brace(list, text, at);
		at++;
	}
	if (!err && list->in_group)
		err = parse_error(&list->parse, strlen(text), "expected '}', found the end");
	if (!err && !list->found.nr)
		err = parse_error(&list->parse, 0, "expected an event of libpfm4, found the end");
	return err;
}

int event_list_parse_pfm(struct event_list *list, const char *text, struct diag *reterr)
{
	struct pfm_list made = {0};

	parse_init(&made.parse, text, reterr);
	int err = take_all(&made, text);
	if (!err)
		err = list_append(list, &made.found, reterr);
	event_list_fini(&made.found);
	return err;
}
