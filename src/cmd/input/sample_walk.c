/* SPDX-License-Identifier: MIT */
#include "cmd/input/sample_walk.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/log.h"
#include "cmd/input/sample_key.h"

enum {
	CACHE_SLOTS = 1 << 16,
	MAX_INLINED = 32,
};

/* The stack of samples with this key; 0: the filter hides them. */
struct walked_stack {
	struct sample_key key;
	uint32_t stack;
};

int sample_walk_open(struct sample_walk *walk, const struct sample_walk_options *options)
{
	struct symbol_options symbols = options->input->machine;

	*walk = (struct sample_walk){.options = *options};
	walk->inlined = options->flags & SAMPLE_WALK_INLINED && symbols.inlined != INLINE_NONE;
	walk->filters = options->filter && sample_filter_is_set(options->filter);
	if (walk->inlined)
		symbols.inlined = INLINE_ALL;
	int err = input_open(options->input, 0, &walk->session);

	if (err)
		return err;
	walk->stacks = stacks_new();
	walk->frames = calloc(CHAIN_MOST_FRAMES, sizeof(*walk->frames));
	walk->cache = calloc(CACHE_SLOTS, sizeof(*walk->cache));
	if (!walk->stacks || !walk->frames || !walk->cache)
		err = -ENOMEM;
	if (!err)
		err = machine_new(&symbols, walk->session, &walk->machine);
	if (!err && options->max_stack)
		machine_set_max_unwound(walk->machine, options->max_stack);
	if (!err)
		err = input_records_open(&walk->records, walk->session, 1);
	if (!err && options->flags & SAMPLE_WALK_ADDRESSES)
		stacks_keep_addresses(walk->stacks);
	if (!err && !(walk->chains = chains_new(walk->machine, walk->stacks)))
		err = -ENOMEM;
	if (err)
		log_error("%s", strerror(-err));
	return err;
}

void sample_walk_close(struct sample_walk *walk)
{
	input_records_close(&walk->records);
	chains_free(walk->chains);
	stacks_free(walk->stacks);
	machine_free(walk->machine);
	session_close(walk->session);
	free(walk->frames);
	free(walk->cache);
	*walk = (struct sample_walk){0};
}

/* The frames of a sample taken at `at`, which is the innermost one whatever the chain says. Returns how many. */
static unsigned sample_frames(struct sample_walk *walk, struct task *task, const struct session_record *record,
			      const struct location *at)
{
	const struct sample *sample = &record->sample;
	struct location inner[MAX_INLINED];
	unsigned nr = 0, nr_inner = 1;

	if (sample->present & PERF_SAMPLE_CALLCHAIN)
		nr = machine_callchain(walk->machine, task, record, walk->frames, CHAIN_MOST_FRAMES - 1);
	const struct location *first = walk->frames;
	if (!nr || (first->ip != at->ip && (!at->symbol || first->symbol != at->symbol))) {
		inner[0] = *at;
		if (walk->inlined)
			nr_inner = machine_inlined(walk->machine, at, inner, MAX_INLINED);
		nr = nr + nr_inner > CHAIN_MOST_FRAMES ? CHAIN_MOST_FRAMES - nr_inner : nr;
		memmove(walk->frames + nr_inner, walk->frames, nr * sizeof(*walk->frames));
		memcpy(walk->frames, inner, nr_inner * sizeof(*inner));
		nr += nr_inner;
	}
	return walk->options.max_stack && walk->options.max_stack < nr ? walk->options.max_stack : nr;
}

static bool shows(const struct sample_filter *filter, const struct task *task, uint32_t tid, const struct location *at)
{
	const struct sample_subject subject = {
		.comm = task->comm->text,
		.pid = task->pid,
		.tid = tid,
		.dso = at->dso,
		.symbol = at->symbol,
	};

	return sample_filter_shows(filter, &subject) && sample_filter_shows_symbol(filter, at->symbol);
}

/* Does its chain begin at its address, and is it wanted whole? Then it is looked up from the callers on. */
static bool has_whole_chain(const struct sample_walk *walk, const struct sample *sample)
{
	return !walk->filters && !walk->options.max_stack && sample->present & PERF_SAMPLE_CALLCHAIN &&
	       sample->nr_ips > 1 && sample->ips[0] >= PERF_CONTEXT_MAX && sample->ips[1] == sample->ip &&
	       chains_can_intern(walk->chains, sample);
}

static int find_stack(struct sample_walk *walk, struct task *task, const struct session_record *record, uint32_t *ret)
{
	const struct sample *sample = &record->sample;
	struct location at;

	lookup_set_time(machine_lookup(walk->machine), sample);
	machine_resolve(walk->machine, task, sample->cpumode, sample->ip, &at);
	*ret = 0;
	if (walk->filters && !shows(walk->options.filter, task, sample->tid, &at))
		return 0;
	unsigned nr = sample_frames(walk, task, record, &at);
	return stacks_intern(walk->stacks, walk->frames, nr, ret);
}

/* ret->stack 0: it is hidden. 0 or -ENOMEM. */
static int take_sample(struct sample_walk *walk, const struct session_record *record, struct walk_step *ret)
{
	const struct sample *sample = &record->sample;
	struct task *task = machine_task(walk->machine, sample->pid, sample->tid);
	struct walked_stack *cached = NULL;
	struct sample_key key;
	size_t nr;

	if (!task)
		return -ENOMEM;
	*ret = (struct walk_step){record, task, (size_t)(record->event - session_events(walk->session, &nr)), 0};
	if (walk->options.filter && !sample_filter_has_cpu(walk->options.filter, sample->cpu))
		return 0;
	if (has_whole_chain(walk, sample)) {
		int err = chains_intern(walk->chains, task, record, &ret->stack);
		if (err || ret->stack)
			return err;
	}
	if (sample_has_key(walk->machine, sample, true)) {
		key = sample_key(walk->machine, task, sample, true);
		cached = &walk->cache[key.b % CACHE_SLOTS];
		if (sample_key_equals(&cached->key, &key)) {
			ret->stack = cached->stack;
			return 0;
		}
	}
	int err = find_stack(walk, task, record, &ret->stack);
	if (!err && cached)
		*cached = (struct walked_stack){key, ret->stack};
	return err;
}

int sample_walk_next(struct sample_walk *walk, struct walk_step *ret, struct diag *reterr)
{
	const struct session_record *record;
	int got;

	while ((got = input_records_next(&walk->records, &record, reterr)) > 0) {
		int err;

		input_count_losses(&walk->losses, record);
		if (record->view.header->type != PERF_RECORD_SAMPLE) {
			err = machine_process(walk->machine, record);
			*ret = (struct walk_step){.record = record};
		} else {
			err = take_sample(walk, record, ret);
			if (!err && !ret->stack)
				continue;
		}
		return err ? diag_set(reterr, err, "out of memory") : 1;
	}
	return got;
}

void sample_walk_report(struct sample_walk *walk)
{
	input_records_close(&walk->records);
	input_report_losses(&walk->losses);
	input_report_doubts(walk->machine);
	input_report_late(walk->session);
}
