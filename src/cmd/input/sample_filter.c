/* SPDX-License-Identifier: MIT */
#include "cmd/input/sample_filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/machine/machine.h"
#include "base/diag.h"
#include "base/log.h"
#include "cmd/cli/option.h"
#include "read/session.h"

bool list_has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = list; *at;) {
		size_t entry = strcspn(at, ",");
		if (entry == len && strncmp(at, word, len) == 0)
			return true;
		at += entry;
		at += *at == ',';
	}
	return false;
}

static bool list_has_number(const char *list, unsigned number)
{
	char *end;

	for (const char *at = list; *at; at = *end ? end + 1 : end)
		if (strtoul(at, &end, 10) == number && end != at)
			return true;
		else if (end == at)
			return false;
	return false;
}

int sample_filter_set_numbers(const struct option *option, const char *arg, bool negated, void *text,
			      struct diag *reterr)
{
	if (!negated && (!*arg || strspn(arg, "0123456789,") != strlen(arg) || *arg == ',' || strstr(arg, ",,")))
		return diag_set(reterr, -EINVAL, "\"%s\" is no list of %s numbers", arg,
				strcmp(option->name, "pid") == 0 ? "process" : "thread");
	*(const char **)text = negated ? NULL : arg;
	return 0;
}

int sample_filter_set_cpus(const struct option *option, const char *arg, bool negated, void *text, struct diag *reterr)
{
	struct cpuset set = {0};
	int err = negated ? 0 : cpuset_parse(&set, arg);

	(void)option;
	cpuset_fini(&set);
	if (err)
		return diag_set(reterr, err, "\"%s\" is no list of CPUs", arg);
	*(const char **)text = negated ? NULL : arg;
	return 0;
}

int sample_filter_need_cpus(const struct session *session, struct diag *reterr)
{
	size_t nr;
	const struct event_desc *events = session_events(session, &nr);

	for (size_t i = 0; i < nr; i++)
		if (events[i].attr.sample_type & PERF_SAMPLE_CPU)
			return 0;
	return !nr ? 0
		   : diag_set(reterr, -EINVAL,
			      "this recording does not have the CPUs of its samples: record it with -a, -C or "
			      "--sample-cpu");
}

int sample_filter_check_cpus(const struct session *session, struct diag *reterr)
{
	size_t nr;
	const struct event_desc *events = session_events(session, &nr);
	int err = sample_filter_need_cpus(session, reterr);

	for (size_t i = 0; i < nr && !err; i++) {
		const struct perf_event_attr *attr = &events[i].attr;
		bool dummy = attr->type == PERF_TYPE_SOFTWARE && attr->config == PERF_COUNT_SW_DUMMY;
		if (!(attr->sample_type & PERF_SAMPLE_CPU) && !dummy)
			log_note("%s: its samples do not have their CPUs, and are left out: record it with -a, -C or "
				 "--sample-cpu",
				 events[i].name);
	}
	return err;
}

int sample_filter_complete(struct sample_filter *filter, struct diag *reterr)
{
	int err = filter->cpus ? cpuset_parse(&filter->cpu_set, filter->cpus) : 0;

	return err ? diag_set(reterr, err, "%s: %s", filter->cpus, strerror(-err)) : 0;
}

int sample_filter_set_percentage(const struct option *option, const char *arg, bool negated, void *value,
				 struct diag *reterr)
{
	(void)option, (void)negated;
	if (strcmp(arg, "relative") && strcmp(arg, "absolute"))
		return diag_set(reterr, -EINVAL, "\"%s\" is neither relative nor absolute", arg);
	*(bool *)value = !strcmp(arg, "relative");
	return 0;
}

void sample_filter_fini(struct sample_filter *filter)
{
	cpuset_fini(&filter->cpu_set);
}

bool sample_filter_shows(const struct sample_filter *filter, const struct sample_subject *subject)
{
	const char *name = subject->symbol ? subject->symbol->name : NULL;

	if (filter->comms && !list_has_word(filter->comms, subject->comm))
		return false;
	if (filter->pids && !list_has_number(filter->pids, subject->pid))
		return false;
	if (filter->tids && !list_has_number(filter->tids, subject->tid))
		return false;
	if (filter->dsos && !(subject->dso && (list_has_word(filter->dsos, dso_short_name(subject->dso)) ||
					       list_has_word(filter->dsos, dso_long_name(subject->dso)))))
		return false;
	if (filter->symbols && !(name && list_has_word(filter->symbols, name)))
		return false;
	return true;
}

bool sample_filter_shows_symbol(const struct sample_filter *filter, const struct symbol *symbol)
{
	return !filter->symbol_part || (symbol && strstr(symbol->name, filter->symbol_part));
}
