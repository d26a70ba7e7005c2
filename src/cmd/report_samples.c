/* SPDX-License-Identifier: MIT */
#include "cmd/report_samples.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "read/session.h"

enum { MAX_FRAMES = 512 }; /* 127 recorded, 127 unwound, and what was inlined */

bool list_has(const char *list, const char *word)
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

int samples_init(struct samples *samples, const struct samples_options *options, struct session *session,
		 struct machine *machine)
{
	*samples = (struct samples){.options = *options, .session = session, .machine = machine};
	samples->chain = calloc(MAX_FRAMES, sizeof(*samples->chain));
	return samples->chain ? 0 : -ENOMEM;
}

void samples_fini(struct samples *samples)
{
	for (size_t i = 0; i < samples->nr; i++)
		hist_free(samples->hists[i]);
	free(samples->hists);
	free(samples->chain);
	*samples = (struct samples){0};
}

static bool any_call_chains(const struct session *session)
{
	size_t nr;
	const struct event_desc *events = session_events(session, &nr);

	for (size_t i = 0; i < nr; i++)
		if (events[i].attr.sample_type & PERF_SAMPLE_CALLCHAIN)
			return true;
	return false;
}

/* NULL: out of memory. */
static struct hist *event_hist(struct samples *samples, const struct event_desc *event)
{
	size_t nr, at = (size_t)(event - session_events(samples->session, &nr));

	if (at >= samples->nr) {
		struct hist **hists = reallocarray(samples->hists, at + 1, sizeof(struct hist *));
		if (!hists)
			return NULL;
		memset(hists + samples->nr, 0, (at + 1 - samples->nr) * sizeof(struct hist *));
		samples->hists = hists;
		samples->nr = at + 1;
	}
	if (!samples->hists[at]) {
		struct hist_options options = samples->options.hist;
		options.children = samples->children;
		if (hist_new(&options, &samples->hists[at]))
			return NULL;
	}
	return samples->hists[at];
}

static bool is_filtered(const struct samples_options *options, const struct hist_place *place)
{
	if (options->comms && !list_has(options->comms, place->comm->text))
		return true;
	if (options->dsos && !(place->dso && (list_has(options->dsos, dso_short_name(place->dso)) ||
					      list_has(options->dsos, dso_long_name(place->dso)))))
		return true;
	return options->symbols && !(place->symbol && list_has(options->symbols, place->symbol->name));
}

/*
 * From the outermost caller inwards, as perf does it, and with its ways: a caller without a symbol is known
 * by its address in memory, not in its object, and one that nothing is known of is shown at the level of the
 * frame before.
 */
static int add_callers(struct samples *samples, struct hist *hist, struct hist_place place, struct task *task,
		       const struct session_record *record)
{
	unsigned nr = machine_callchain(samples->machine, task, record, samples->chain, MAX_FRAMES);

	for (unsigned i = nr; i-- > 0;) {
		const struct location *caller = &samples->chain[i];
		place.dso = caller->dso;
		place.symbol = caller->symbol;
		place.address = caller->symbol ? caller->address : caller->ip;
		if (caller->dso)
			place.level = caller->level;
		place.filtered = is_filtered(&samples->options, &place);
		int err = hist_add_caller(hist, &place, record->sample.period);
		if (err)
			return err;
	}
	return 0;
}

int samples_take(struct samples *samples, const struct session_record *record)
{
	const struct sample *sample = &record->sample;
	struct task *task = machine_task(samples->machine, sample->pid, sample->tid);
	struct location at;

	if (!samples->started) {
		samples->started = true;
		samples->children = samples->options.hist.children && any_call_chains(samples->session);
	}
	struct hist *hist = event_hist(samples, record->event);
	if (!task || !hist)
		return -ENOMEM;
	machine_resolve(samples->machine, task, sample->cpumode, sample->ip, &at);
	struct hist_place place = {
		.comm = task_comm_object(task),
		.task = task,
		.tid = sample->tid,
		.cpu = (int32_t)sample->cpu,
		.dso = at.dso,
		.symbol = at.symbol,
		.address = at.address,
		.level = at.level,
	};
	place.filtered = is_filtered(&samples->options, &place);
	int err = hist_add(hist, &place, sample->period);
	return err || !samples->children ? err : add_callers(samples, hist, place, task, record);
}
