/* SPDX-License-Identifier: MIT */
#include "record/control_command.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "event/event.h"
#include "format/attr_text.h"
#include "record/control.h"
#include "record/event_switch.h"
#include "record/eventset.h"

void control_acknowledge(struct control *control)
{
	control_reply(control, "ack\n");
}

/* Told without what a terminal or a parser of lines could take for something else. */
static void refuse(struct control *control, const char *why, const char *what, unsigned *nr_refused)
{
	enum { TOLD = 20, SHOWN = 60 };
	char text[SHOWN + 1], line[SHOWN + 64];
	size_t len = strnlen(what, SHOWN);

	for (size_t i = 0; i < len; i++)
		text[i] = isprint((unsigned char)what[i]) ? what[i] : '?';
	text[len] = '\0';
	snprintf(line, sizeof(line), "error: %s: %s\n", why, text);
	control_reply(control, line);
	if ((*nr_refused)++ < TOLD)
		log_error("--control: %s: \"%s\"", why, text);
	else if (*nr_refused == TOLD + 1)
		log_error("--control: further errors are not told");
}

static enum control_request enable(struct control *control, struct eventset *set, const char *name, bool on,
				   unsigned *nr_refused)
{
	int event = *name ? event_switch_find(set, name) : EVENT_SWITCH_ALL;

	if (*name && event < 0) {
		refuse(control, "no such event", name, nr_refused);
		return CONTROL_NOTHING;
	}
	if (event_switch(set, event, on)) {
		refuse(control, on ? "cannot be enabled" : "cannot be disabled", *name ? name : "events", nr_refused);
		return CONTROL_NOTHING;
	}
	log_note("%s%s %s", *name ? "event " : "events", name, on ? "enabled" : "disabled");
	control_acknowledge(control);
	return CONTROL_NOTHING;
}

static void list_event(const struct event *event, const char *how)
{
	AUTO_BUF struct buf text = {0};
	const struct perf_event_attr *attr = &event->attr;

	buf_put_text(&text, event->name);
	if (strstr(how, "-v")) {
		buf_put_text(&text, ": ");
		attr_text(attr, ": ", &text);
	} else if (strstr(how, "-F")) {
		buf_printf(&text, ": sample_%s=%llu", attr->freq ? "freq" : "period",
			   (unsigned long long)attr->sample_freq);
	}
	log_note("%s", buf_text(&text));
}

static enum control_request list(struct control *control, struct eventset *set, const char *how, unsigned *nr_refused)
{
	if (*how && strcmp(how, "-v") && strcmp(how, "-g") && strcmp(how, "-F")) {
		refuse(control, "evlist takes -v, -g or -F", how, nr_refused);
		return CONTROL_NOTHING;
	}
	for (size_t i = 0; i < set->events->nr; i++)
		list_event(&set->events->events[i], how);
	control_acknowledge(control);
	return CONTROL_NOTHING;
}

/* What follows the word and blanks; NULL: it is another word. */
static const char *after(const char *line, const char *word)
{
	size_t len = strlen(word);

	if (strncmp(line, word, len) || (line[len] && line[len] != ' '))
		return NULL;
	return line + len + strspn(line + len, " ");
}

enum control_request control_command(struct control *control, struct eventset *set, const char *line,
				     unsigned *nr_refused)
{
	const char *rest;

	if ((rest = after(line, "enable")))
		return enable(control, set, rest, true, nr_refused);
	if ((rest = after(line, "disable")))
		return enable(control, set, rest, false, nr_refused);
	if ((rest = after(line, "evlist")))
		return list(control, set, rest, nr_refused);
	if ((rest = after(line, "snapshot")) && !*rest)
		return CONTROL_SNAPSHOT;
	if ((rest = after(line, "stop")) && !*rest) {
		control_acknowledge(control);
		return CONTROL_STOP;
	}
	if ((rest = after(line, "ping")) && !*rest)
		control_acknowledge(control);
	else
		refuse(control, "unknown command", line, nr_refused);
	return CONTROL_NOTHING;
}
