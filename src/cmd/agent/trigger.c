/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "cmd/agent/agent.h"

static int parse_limit(const char *text, double most, double *ret)
{
	char *end;
	double limit = strtod(text, &end);

	if (end == text || *end || !(limit > 0 && limit <= most))
		return -EINVAL;
	*ret = limit;
	return 0;
}

static int parse_pressure(const char *text, struct trigger_spec *spec)
{
	static const char *const resources[] = {"cpu", "memory", "io"};
	size_t len = strcspn(text, ":");

	for (unsigned i = 0; i < sizeof(resources) / sizeof(resources[0]); i++)
		if (text[len] && strlen(resources[i]) == len && strncmp(text, resources[i], len) == 0) {
			snprintf(spec->file, sizeof(spec->file), "/proc/pressure/%s", resources[i]);
			return parse_limit(text + len + 1, 100, &spec->limit);
		}
	return -EINVAL;
}

int trigger_parse(const char *text, struct trigger_spec *ret, struct diag *reterr)
{
	static const char *const words[] = {
		[TRIGGER_LOAD] = "load:",
		[TRIGGER_PRESSURE] = "psi:",
		[TRIGGER_EVENT] = "event:",
		[TRIGGER_EXIT] = "exit:",
	};
	struct trigger_spec spec = {.text = text};

	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		const char *value = text + strlen(words[i]);
		int err = 0;
		if (strncmp(text, words[i], strlen(words[i])) != 0)
			continue;
		spec.kind = (enum trigger_kind)i;
		if (spec.kind == TRIGGER_LOAD)
			err = parse_limit(value, 1e6, &spec.limit);
		else if (spec.kind == TRIGGER_PRESSURE)
			err = parse_pressure(value, &spec);
		else
			spec.text = value;
		if (err || !*value)
			break;
		*ret = spec;
		return 0;
	}
	return diag_set(reterr, -EINVAL,
			"\"%s\" is none of load:NUMBER, psi:cpu:PERCENT (or memory, io), event:EVENT, exit:COMMAND",
			text);
}

/* The first number behind `word` in a small file. 0: it cannot be read. Source: Documentation/accounting/psi.rst. */
static double read_number(const char *path, const char *word)
{
	AUTO_BUF struct buf text = {0};

	if (fd_slurp(path, 4096, &text))
		return 0;
	const char *at = strstr(buf_text(&text), word);
	return at ? strtod(at + strlen(word), NULL) : 0;
}

bool trigger_check(struct trigger *trigger)
{
	const struct trigger_spec *spec = trigger->spec;
	bool over = spec->kind == TRIGGER_LOAD       ? read_number("/proc/loadavg", "") >= spec->limit
		    : spec->kind == TRIGGER_PRESSURE ? read_number(spec->file, "some avg10=") >= spec->limit
						     : false;
	bool rose = over && !trigger->was_over;

	trigger->was_over = over;
	return rose;
}
