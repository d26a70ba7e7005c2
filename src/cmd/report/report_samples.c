/* SPDX-License-Identifier: MIT */
#include "cmd/report/report_samples.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/machine/chains.h"
#include "analyze/machine/machine.h"
#include "analyze/machine/parallelism.h"
#include "analyze/report/hist.h"
#include "analyze/report/shrink.h"
#include "analyze/report/time_bins.h"
#include "analyze/symbols/debug_info.h"
#include "base/cleanup.h"
#include "base/cpuset.h"
#include "base/diag.h"
#include "cmd/report/report_details.h"
#include "cmd/report/report_wall.h"
#include "read/session.h"
#include "tasks/off_cpu.h"

#define CELL_LEFT_OUT UINT32_MAX /* of a sample that is not counted */

static int init_details(struct samples *samples)
{
	const struct hist_options *hist = &samples->options.hist;
	struct details_options options = {
		.quantum_ns = samples->options.quantum_ns,
		.full_paths = samples->options.full_paths,
		.raw_trace = samples->options.raw_trace,
	};
	bool any = false;

	memcpy(options.fields, samples->options.fields, sizeof(options.fields));
	for (unsigned i = 0; i < hist->nr_keys; i++) {
		options.wanted[hist->keys[i]] = true;
		any = any || hist->keys[i] >= HIST_SOCKET;
	}
	if (options.wanted[HIST_SRCLINE] || options.wanted[HIST_SRCFILE] || samples->options.by_address)
		stacks_keep_addresses(samples->stacks);
	samples->details = any ? details_new(&options, samples->session, samples->machine) : NULL;
	return any && !samples->details ? -ENOMEM : 0;
}

bool samples_want_parallelism(const struct samples_options *options)
{
	bool wants = options->latency || options->parallelisms || hist_has_key(&options->hist, HIST_PARALLELISM);

	for (unsigned i = 0; i < options->hist.nr_order; i++)
		wants |= options->hist.order[i] == HIST_LATENCY;
	return wants;
}

/* Do samples that are shown and others have the same keys? Of callers, too, where the filter is by keys: that is as
 * perf. */
static bool filter_splits_rows(const struct samples_options *options)
{
	const struct sample_filter *filter = &options->filter;
	const struct hist_options *hist = &options->hist;

	return (filter->comms && !hist_has_key(hist, HIST_COMM)) || (filter->dsos && !hist_has_key(hist, HIST_DSO)) ||
	       ((filter->symbols || filter->symbol_part) && !hist_has_key(hist, HIST_SYM)) ||
	       ((filter->pids || filter->tids) && !hist_has_key(hist, HIST_TID));
}

int samples_init(struct samples *samples, const struct samples_options *options, struct session *session,
		 struct machine *machine)
{
	*samples = (struct samples){.options = *options, .session = session, .machine = machine};
	samples->options.hist.splits_filtered = filter_splits_rows(options);
	if (options->max_stack.given)
		machine_set_max_unwound(machine, options->max_stack.number);
	samples->frames = calloc(CHAIN_MOST_FRAMES, sizeof(*samples->frames));
	samples->cache = calloc(CACHE_SLOTS, sizeof(*samples->cache));
	samples->stacks = stacks_new();
	samples->chains_of = samples->stacks ? chains_new(machine, samples->stacks) : NULL;
	const char *parent = options->parent ? options->parent : CALLERS_DEFAULT_PARENT;
	samples->times = options->times ? calloc(1, sizeof(*samples->times)) : NULL;
	if (samples_want_parallelism(options)) {
		samples->parallelism = parallelism_new(session);
		if (!samples->parallelism)
			return -ENOMEM;
	}
	if (callers_init(&samples->callers, hist_has_key(&options->hist, HIST_PARENT) ? parent : NULL, options->ignored,
			 NULL))
		return -ENOMEM; /* the expressions were tried when they were given */
	if (!samples->frames || !samples->cache || !samples->chains_of || (options->times && !samples->times))
		return -ENOMEM;
	return init_details(samples);
}

void samples_fini(struct samples *samples)
{
	for (size_t i = 0; i < samples->nr; i++) {
		tally_fini(&samples->events[i].tally);
		hist_free(samples->events[i].hist);
	}
	free(samples->events);
	free(samples->frames);
	free(samples->cache);
	chains_free(samples->chains_of);
	stacks_free(samples->stacks);
	free(samples->times);
	details_free(samples->details);
	wall_free(samples->wall);
	parallelism_free(samples->parallelism);
	free(samples->rests);
	callers_fini(&samples->callers);
	*samples = (struct samples){0};
}

static bool any_call_chains(const struct session *session)
{
	size_t nr;

	if (!session) /* samples_add() */
		return true;
	const struct event_desc *events = session_events(session, &nr);
	for (size_t i = 0; i < nr; i++)
		if (events[i].attr.sample_type & PERF_SAMPLE_CALLCHAIN)
			return true;
	return false;
}

static size_t event_index(const struct samples *samples, const struct event_desc *event)
{
	size_t nr;

	return (size_t)(event - session_events(samples->session, &nr));
}

/* NULL: out of memory. */
static struct event_samples *event_samples(struct samples *samples, size_t at)
{
	if (at >= samples->nr) {
		struct event_samples *events = reallocarray(samples->events, at + 1, sizeof(*events));
		if (!events)
			return NULL;
		memset(events + samples->nr, 0, (at + 1 - samples->nr) * sizeof(*events));
		samples->events = events;
		samples->nr = at + 1;
	}
	return &samples->events[at];
}

static bool is_filtered(const struct samples_options *options, const struct hist_place *place)
{
	const struct sample_subject subject = {
		.comm = place->comm->text,
		.pid = place->task->pid,
		.tid = place->tid,
		.dso = place->dso,
		.symbol = place->symbol,
	};

	if (options->parent_only && place->details && !place->details->parent)
		return true;
	if (options->socket.set && place->details && place->details->socket != (int64_t)options->socket.number)
		return true;
	return !sample_filter_shows(&options->filter, &subject);
}

static bool has_key(const struct samples *samples, enum hist_column key)
{
	return hist_has_key(&samples->options.hist, key);
}

static struct sample_key cell_key(const struct samples *samples, const struct session_record *record,
				  const struct task *task)
{
	const struct sample *sample = &record->sample;
	struct sample_key key = sample_key(samples->machine, task, sample, samples->chains);

	sample_key_add(&key, (uintptr_t)record->event);
	if (samples->by_cpu || samples->details)
		sample_key_add(&key, sample->cpu);
	return key;
}

/* Times and fields are each sample's own. */
/* Of times off the CPU; what they say of themselves is not in a key. */
static bool has_no_place(const struct sample *sample)
{
	return !sample->ip && sample->present & PERF_SAMPLE_IP;
}

static bool can_be_cached(const struct samples *samples, const struct sample *sample)
{
	return !samples->not_cacheable && !has_no_place(sample) &&
	       sample_has_key(samples->machine, sample, samples->chains);
}

static void set_filtered(const struct samples *samples, struct hist_place *place)
{
	const struct samples_options *options = &samples->options;

	place->filtered = is_filtered(options, place) || !sample_filter_shows_symbol(&options->filter, place->symbol);
}

/* As if the sample had been taken in that caller. */
static int move_place(struct samples *samples, const struct location *at, struct hist_place *place)
{
	place->dso = at->dso;
	place->symbol = at->symbol;
	place->address = samples->options.addresses ? at->address : 0;
	place->level = at->level;
	if (place->details)
		place->details = details_of_caller(samples->details, place->details, at);
	return samples->details && !place->details ? -ENOMEM : 0;
}

/* What --parent and --ignore-callees make of a chain and its sample. Returns how many inner frames go; -ENOMEM. */
static int apply_callers(struct samples *samples, const struct location frames[], unsigned nr, struct hist_place *place)
{
	unsigned ignored = callers_ignored(&samples->callers, frames, nr);
	bool outermost = samples->options.direction == CALLTREE_CALLER;
	unsigned parent = callers_parent(&samples->callers, frames, nr, outermost);
	int err = ignored ? move_place(samples, &frames[ignored], place) : 0;

	if (!err && parent < nr && place->details) {
		place->details = details_of_parent(samples->details, place->details, frames[parent].symbol->name);
		err = place->details ? 0 : -ENOMEM;
	}
	if (!err)
		set_filtered(samples, place);
	return err ? err : (int)ignored;
}

/* As perf: a chain that is too long loses its end in the order in which callers are counted. */
static int intern_chain(struct samples *samples, const struct location frames[], unsigned nr, struct hist_place *place,
			uint32_t *ret)
{
	const struct option_limit most = samples->options.max_stack;
	unsigned dropped = most.given && most.number < nr ? nr - (unsigned)most.number : 0;
	bool inner = dropped && samples->options.direction == CALLTREE_CALLER;
	int skipped = 0;

	frames += inner ? dropped : 0;
	nr -= dropped;
	if (samples->callers.has_parent || samples->callers.has_ignored)
		skipped = apply_callers(samples, frames, nr, place);
	return skipped < 0 ? skipped : stacks_intern(samples->stacks, frames + skipped, nr - (unsigned)skipped, ret);
}

/* Frames in code without a symbol. Returns how many frames are left. */
static unsigned drop_unresolved(struct location frames[], unsigned nr)
{
	unsigned left = 0;

	for (unsigned i = 0; i < nr; i++)
		if (frames[i].symbol)
			frames[left++] = frames[i];
	return left;
}

static int find_chain(struct samples *samples, struct task *task, const struct session_record *record,
		      struct hist_place *place, uint32_t *ret)
{
	const struct samples_options *options = &samples->options;
	bool whole = !options->max_stack.given && !options->hide_unresolved && !samples->callers.has_parent &&
		     !samples->callers.has_ignored;

	if (whole && chains_can_intern(samples->chains_of, &record->sample))
		return chains_intern(samples->chains_of, task, record, ret);
	unsigned nr = machine_callchain(samples->machine, task, record, samples->frames, CHAIN_MOST_FRAMES);
	if (samples->options.hide_unresolved)
		nr = drop_unresolved(samples->frames, nr);
	return intern_chain(samples, samples->frames, nr, place, ret);
}

/* In place of an address, which such a time off the CPU does not have. */
static void name_wait(const struct session_record *record, struct hist_place *place)
{
	static const struct symbol lost = {.name = "[unknown: records were lost]", .by_name = true},
				   starting = {.name = "[starting: it has not run yet]", .by_name = true},
				   several = {.name = "[several short times]", .by_name = true};
	struct off_cpu_wait wait;

	if (place->symbol || !off_cpu_is_event(record->event) || off_cpu_decode(&record->sample, &wait))
		return;
	place->symbol = wait.flags & OFF_CPU_UNKNOWN    ? &lost
			: wait.flags & OFF_CPU_STARTING ? &starting
			: wait.flags & OFF_CPU_SUM      ? &several
							: NULL;
	place->address = 0;
}

/* 1; 0: it is not counted; -errno. */
static int find_place(struct samples *samples, struct task *task, const struct session_record *record,
		      struct hist_place *ret)
{
	const struct sample *sample = &record->sample;
	struct location at;

	lookup_set_time(machine_lookup(samples->machine), sample);
	machine_resolve(samples->machine, task, sample->cpumode, sample->ip, &at);
	if (samples->options.hide_unresolved && !at.symbol)
		return 0;
	*ret = (struct hist_place){
		.comm = task->comm,
		.task = task,
		.tid = sample->tid,
		.cpu = samples->by_cpu ? (int32_t)sample->cpu : 0,
		.dso = at.dso,
		.symbol = at.symbol,
		.address = at.symbol && !samples->options.addresses ? 0 : at.address,
		.level = at.level,
	};
	int err = samples->details ? details_of_sample(samples->details, record, &at, &ret->details, &samples->why) : 0;
	if (err)
		return err;
	if (has_no_place(sample))
		name_wait(record, ret);
	set_filtered(samples, ret);
	return 1;
}

static int find_cell(struct samples *samples, struct event_samples *event, struct task *task,
		     const struct session_record *record, uint32_t *ret)
{
	const struct sample *sample = &record->sample;
	struct hist_place place;
	uint32_t chain = 0;
	int found = find_place(samples, task, record, &place);

	if (found <= 0) {
		*ret = CELL_LEFT_OUT;
		return found;
	}
	if (samples->chains && sample->present & PERF_SAMPLE_CALLCHAIN) {
		int err = find_chain(samples, task, record, &place, &chain);
		if (err)
			return err;
	}
	return tally_find(&event->tally, &place, chain, ret);
}

/* A part of a period: what a division leaves over counts with the next sample. */
static uint64_t latency_of(struct samples *samples, uint64_t period)
{
	uint64_t sum = samples->rests[samples->running] + period;

	samples->rests[samples->running] = sum % samples->running;
	return sum / samples->running;
}

static void add_period(struct samples *samples, struct event_samples *event, uint32_t cell, uint64_t period)
{
	struct hist_amount *amount = &event->tally.amounts[cell];
	uint64_t latency = samples->parallelism ? latency_of(samples, period) : 0;

	amount->period += samples->options.latency ? latency : period;
	amount->latency += samples->options.latency ? period : latency;
}

static void count(struct samples *samples, struct event_samples *event, uint32_t cell, uint64_t period)
{
	add_period(samples, event, cell, period);
	event->tally.amounts[cell].nr_samples++;
}

/* 1; 0: the sample is not counted; -ENOMEM. */
static int find_parallelism(struct samples *samples, const struct session_record *record)
{
	if (off_cpu_is_event(record->event)) /* it tells nothing of how many ran in that time; its task did not */
		return 0;
	samples->running = parallelism_at(samples->parallelism, record);
	if (!samples->running)
		return -ENOMEM;
	if (samples->running >= samples->rests_room) {
		uint32_t room = samples->running * 2 + 64;
		uint64_t *rests = reallocarray(samples->rests, room, sizeof(*rests));
		if (!rests)
			return -ENOMEM;
		memset(rests + samples->rests_room, 0, (room - samples->rests_room) * sizeof(*rests));
		samples->rests = rests;
		samples->rests_room = room;
	}
	if (samples->details)
		details_set_parallelism(samples->details, samples->running);
	return !samples->options.parallelisms || cpuset_has(samples->options.parallelisms, samples->running);
}

int samples_observe(struct samples *samples, const struct session_record *record)
{
	if (samples->wall)
		wall_observe(samples->wall, record);
	return samples->parallelism ? parallelism_observe(samples->parallelism, record) : 0;
}

/* The mode of an address is not known: as perf, that in which there is something. */
static void resolve_any_mode(struct samples *samples, struct task *task, uint64_t ip, struct location *ret)
{
	machine_resolve(samples->machine, task, PERF_RECORD_MISC_USER, ip, ret);
	if (!ret->dso)
		machine_resolve(samples->machine, task, PERF_RECORD_MISC_KERNEL, ip, ret);
	if (!ret->dso)
		ret->level = 'H';
}

/* Each branch of a sample is one, in the order of the record; in its place is where it went to. */
static int take_branches(struct samples *samples, struct event_samples *event, struct task *task,
			 const struct session_record *record)
{
	const struct sample_branch_stack *branches = &record->sample.branches;
	const struct hist_details *details;
	struct hist_place place;
	int found = branches->nr ? find_place(samples, task, record, &place) : 0;

	if (found <= 0)
		return found;
	details = place.details;
	for (uint64_t i = 0; i < branches->nr; i++) {
		struct location from, to;
		uint32_t cell;
		resolve_any_mode(samples, task, branches->entries[i].to, &to);
		resolve_any_mode(samples, task, branches->entries[i].from, &from);
		if (samples->options.hide_unresolved && !(from.symbol && to.symbol))
			continue;
		place.dso = to.dso;
		place.symbol = to.symbol;
		place.address = to.symbol && !samples->options.addresses ? 0 : to.address;
		if (details) {
			place.details = details_of_branch(samples->details, details, record, i,
							  &(struct branch_ends){&from, &to});
			if (!place.details)
				return -ENOMEM;
		}
		if (tally_find(&event->tally, &place, 0, &cell))
			return -ENOMEM;
		count(samples, event, cell, 1);
	}
	return 0;
}

static int take_access(struct samples *samples, struct event_samples *event, struct task *task,
		       const struct session_record *record)
{
	const struct sample *sample = &record->sample;
	uint64_t weight = sample_weight(sample);
	struct location data, code;
	struct hist_place place;
	uint32_t chain = 0, cell;
	int err = find_place(samples, task, record, &place);

	if (err <= 0)
		return err;
	resolve_any_mode(samples, task, sample->ip, &code);
	machine_resolve(samples->machine, task, sample->cpumode, sample->addr, &data);
	if (samples->details) {
		place.details =
			details_of_access(samples->details, place.details, record, &(struct access_ends){&data, &code});
		if (!place.details)
			return -ENOMEM;
	}
	err = 0;
	if (samples->chains && sample->present & PERF_SAMPLE_CALLCHAIN)
		err = find_chain(samples, task, record, &place, &chain);
	if (!err)
		err = tally_find(&event->tally, &place, chain, &cell);
	if (!err)
		count(samples, event, cell, weight ? weight : 1);
	return err;
}

/*
 * A time off the CPU in two parts, with a state each, where that makes a difference: before the task could run again,
 * and then. It is one sample, but for the rows of states: there it is one in both.
 */
static int take_wait(struct samples *samples, struct event_samples *event, struct task *task,
		     const struct session_record *record, const struct off_cpu_wait *wait)
{
	const uint64_t ready_ns = samples->by_state || samples->wall ? wait->runnable_ns : 0;
	const uint64_t parts[2] = {wait->ns - ready_ns, ready_ns};
	struct hist_place place;
	uint32_t chain = 0, cell;
	int err = find_place(samples, task, record, &place);

	if (err <= 0)
		return err;
	err = samples->chains ? find_chain(samples, task, record, &place, &chain) : 0;
	const struct hist_details *details = place.details;
	for (unsigned ready = 0; ready < 2 && !err; ready++) {
		if (!parts[ready] && (ready || ready_ns))
			continue;
		uint64_t period = wait->flags & OFF_CPU_UNKNOWN && !samples->wall ? 0 : parts[ready];
		place.activity = wait->flags & OFF_CPU_UNKNOWN ? ACTIVITY_UNKNOWN
				 : ready                       ? ACTIVITY_RUNNABLE
							       : ACTIVITY_BLOCKED;
		if (details)
			place.details = details_of_wait(samples->details, details, wait, ready);
		err = place.details || !details ? tally_find(&event->tally, &place, chain, &cell) : -ENOMEM;
		if (!err && ready && parts[0])
			add_period(samples, event, cell, period);
		else if (!err)
			count(samples, event, cell, period);
	}
	return err;
}

/*
 * All counts in the event of the times off the CPU, in nanoseconds. Also what is not counted, as it was on another CPU
 * than those that are chosen, ends a time of its thread.
 */
static int take_time(struct samples *samples, struct task *task, const struct session_record *record, bool counted)
{
	size_t index = event_index(samples, record->event), event = wall_off_cpu_event(samples->wall);
	struct event_samples *into = event_samples(samples, event);
	struct off_cpu_wait wait;
	uint64_t on_ns;
	uint32_t cell;

	if (!into)
		return -ENOMEM;
	if (index == event) {
		if (off_cpu_decode(&record->sample, &wait))
			return 0;
		int counts = wall_take_off_cpu(samples->wall, &record->sample, &wait);
		return counts > 0 && counted ? take_wait(samples, into, task, record, &wait) : counts < 0 ? counts : 0;
	}
	if (index != wall_on_cpu_event(samples->wall) || !record->sample.tid)
		return 0;
	int err = wall_take_on_cpu(samples->wall, &record->sample, &on_ns);
	if (err <= 0 || !counted)
		return err < 0 ? err : 0;
	err = find_cell(samples, into, task, record, &cell);
	if (!err && cell != CELL_LEFT_OUT)
		count(samples, into, cell, on_ns);
	return err;
}

static void start(struct samples *samples)
{
	bool any = any_call_chains(samples->session);

	samples->started = true;
	samples->by_cpu = has_key(samples, HIST_CPU);
	samples->by_state = has_key(samples, HIST_STATE);
	samples->by_waker = has_key(samples, HIST_WAKER);
	samples->not_cacheable = has_key(samples, HIST_TIME) || samples->wall || samples->parallelism;
	for (enum hist_column key = HIST_TRACE; key < HIST_KEYS; key++)
		samples->not_cacheable |= key != HIST_PARENT && has_key(samples, key);
	samples->not_cacheable |= samples->options.mode != SAMPLES_PLAIN;
	any = any && samples->options.mode != SAMPLES_BRANCHES;
	samples->children = samples->options.hist.children && any && samples->options.mode == SAMPLES_PLAIN;
	samples->chains = any && (samples->options.chains || samples->children || samples->callers.has_parent);
	const bool lines = has_key(samples, HIST_SRCLINE) || has_key(samples, HIST_SRCFILE) ||
			   (samples->chains && samples->options.by_address);
	debug_info_unpack_ahead(machine_debug_info(samples->machine), samples->session,
				(samples->chains ? DEBUG_CHAINS : 0) | (lines ? DEBUG_LINES : 0));
	/* Samples may count as if they had been taken in a caller, whose line is needed at once then. */
	const bool key_lines = has_key(samples, HIST_SRCLINE) || has_key(samples, HIST_SRCFILE);
	const bool at_once = key_lines && (samples->options.mode != SAMPLES_PLAIN || samples->callers.has_ignored);
	const bool by_line = samples->options.by_line && !samples->details; /* details may be of addresses */
	const unsigned needs = (lines ? CHAINS_LINES : 0) | (by_line ? CHAINS_BY_LINE : 0) |
			       (key_lines || samples->options.by_line ? CHAINS_ALL_LINES : 0);
	samples->completes_later = samples->completes_later && (samples->chains || key_lines) && !at_once &&
				   chains_expand_later(samples->chains_of, needs);
	if (samples->completes_later && key_lines)
		details_complete_later(samples->details, samples->chains_of);
}

static const struct hist_details *complete_details(void *ctx, const struct hist_details *before)
{
	return details_complete(ctx, before);
}

int samples_complete(struct samples *samples)
{
	AUTO_FREE uint32_t *numbers = NULL;
	const bool late = samples->started && samples->completes_later;
	int err = late ? chains_expand(samples->chains_of, &numbers) : 0;
	const struct tally_change change = {
		.chains = numbers,
		.details = late && samples->details ? complete_details : NULL,
		.ctx = samples->details,
	};

	samples->completes_later = false;
	if (change.details)
		details_complete_begin(samples->details);
	for (size_t i = 0; i < samples->nr && (change.chains || change.details); i++) {
		struct tally *tally = &samples->events[i].tally, complete;
		int failed = tally_select(tally, &change, &complete); /* then it is empty */
		tally_fini(tally);
		*tally = complete;
		err = err ? err : failed;
	}
	memset(samples->cache, 0, CACHE_SLOTS * sizeof(*samples->cache));
	return err;
}

/* Of a sample that was counted without an error. Returns that. */
static int with_time(struct samples *samples, const struct sample *sample, int err)
{
	if (!err && samples->times && sample->present & PERF_SAMPLE_TIME)
		time_bins_add(samples->times, sample->time);
	return err;
}

int samples_take(struct samples *samples, const struct session_record *record)
{
	const struct sample *sample = &record->sample;
	struct task *task = machine_task(samples->machine, sample->pid, sample->tid);
	bool counted = sample_filter_has_cpu(&samples->options.filter, sample->cpu);

	if (!samples->started)
		start(samples);
	samples->last = (struct samples_place){.left_out = true};
	if (!counted && !samples->wall)
		return 0;
	struct event_samples *event = event_samples(samples, event_index(samples, record->event));
	if (!task || !event)
		return -ENOMEM;
	if (samples->parallelism) {
		int found = find_parallelism(samples, record);
		if (found <= 0)
			return found;
	}
	struct off_cpu_wait wait;
	if (samples->wall) {
		int err = take_time(samples, task, record, counted);
		return counted && !wall_is_later(samples->wall, sample->time) ? with_time(samples, sample, err) : err;
	}
	if (samples->options.mode == SAMPLES_BRANCHES)
		return with_time(samples, sample, take_branches(samples, event, task, record));
	if (samples->options.mode == SAMPLES_MEMORY)
		return with_time(samples, sample, take_access(samples, event, task, record));
	if ((samples->by_state || samples->by_waker) && off_cpu_is_event(record->event) &&
	    !off_cpu_decode(sample, &wait))
		return with_time(samples, sample, take_wait(samples, event, task, record, &wait));
	bool cacheable = can_be_cached(samples, sample);
	struct sample_key key = {0};
	struct cached_sample *cached = NULL;
	uint32_t cell;
	if (cacheable) {
		key = cell_key(samples, record, task);
		cached = &samples->cache[key.b % CACHE_SLOTS];
	}
	if (cached && sample_key_equals(&cached->key, &key)) {
		cell = cached->cell;
	} else {
		int err = find_cell(samples, event, task, record, &cell);
		if (err)
			return err;
		samples->nr_found++;
		if (cached)
			*cached = (struct cached_sample){key, cell};
	}
	if (cell == CELL_LEFT_OUT)
		return 0;
	samples->last = (struct samples_place){.event = event_index(samples, record->event), .cell = cell};
	count(samples, event, cell, sample->period);
	return with_time(samples, sample, 0);
}

int samples_add(struct samples *samples, const struct samples_row *row)
{
	const struct location *at = row->frames;
	struct hist_place place = {
		.comm = row->task->comm,
		.task = row->task,
		.tid = row->task->tid,
		.dso = at->dso,
		.symbol = at->symbol,
		.level = at->level,
	};
	uint32_t chain = 0, cell;

	if (!samples->started)
		start(samples);
	struct event_samples *event = event_samples(samples, row->event);
	place.details = samples->details ? details_of_host(samples->details, row->host) : NULL;
	if (!event || (samples->details && !place.details))
		return -ENOMEM;
	set_filtered(samples, &place);
	int err = samples->chains ? intern_chain(samples, row->frames, row->nr_frames, &place, &chain) : 0;
	if (!err)
		err = tally_find(&event->tally, &place, chain, &cell);
	if (err)
		return err;
	struct hist_amount *amount = &event->tally.amounts[cell];
	amount->period += row->amount.period;
	amount->nr_samples += row->amount.nr_samples;
	return 0;
}

bool samples_find_cached(const struct samples *samples, const struct session_record *record, const struct task *task,
			 struct samples_place *ret)
{
	const struct sample *sample = &record->sample;
	size_t event = event_index(samples, record->event);

	if (!samples->started || event >= samples->nr || !can_be_cached(samples, sample))
		return false;
	ret->left_out = !sample_filter_has_cpu(&samples->options.filter, sample->cpu);
	if (ret->left_out)
		return true;
	struct sample_key key = cell_key(samples, record, task);
	const struct cached_sample *cached = &samples->cache[key.b % CACHE_SLOTS];
	ret->event = event;
	ret->cell = cached->cell;
	ret->left_out = cached->cell == CELL_LEFT_OUT;
	return sample_key_equals(&cached->key, &key);
}

static bool hides_sample(const void *ctx, const struct hist_place *place)
{
	const struct samples *samples = ctx;

	return is_filtered(&samples->options, place);
}

static bool hides_symbol(const void *ctx, const struct symbol *symbol)
{
	const struct samples *samples = ctx;

	return !sample_filter_shows_symbol(&samples->options.filter, symbol);
}

static const struct hist_details *caller_details(const void *ctx, const struct hist_details *callee,
						 const struct location *at)
{
	const struct samples *samples = ctx;

	return details_of_caller(samples->details, callee, at);
}

static const void *caller_common(const void *ctx, const struct hist_details *callee)
{
	const struct samples *samples = ctx;

	return details_of_callers(samples->details, callee);
}

struct count_options samples_count_options(const struct samples *samples)
{
	struct count_options options = {
		.hist = samples->options.hist,
		.uses = samples->options.chains,
		.direction = samples->options.direction,
		.rules = {.hides_sample = hides_sample,
			  .hides_symbol = hides_symbol,
			  .caller_details = caller_details,
			  .caller_common = caller_common,
			  .ctx = samples},
	};

	options.hist.children = samples->children;
	options.hist.activities = samples->options.wall;
	return options;
}

int samples_make_hist(struct samples *samples, size_t event, struct hist **ret)
{
	const struct count_options options = samples_count_options(samples);
	int err = count_nothing(&options, &samples->events[event].hist);

	if (!err)
		*ret = samples->events[event].hist;
	return err;
}

int samples_count(struct samples *samples)
{
	const struct count_options options = samples_count_options(samples);

	for (size_t i = 0; i < samples->nr; i++) {
		struct event_samples *event = &samples->events[i];
		int err = event->tally.nr ? count_cells(&event->tally, samples->stacks, &options, &event->hist) : 0;
		if (err)
			return err;
	}
	return 0;
}

size_t samples_bytes(const struct samples *samples)
{
	size_t bytes = stacks_bytes(samples->stacks);

	for (size_t i = 0; i < samples->nr; i++)
		bytes += tally_bytes(&samples->events[i].tally);
	return bytes;
}

int samples_shrink(struct samples *samples, struct tally *const shown[])
{
	AUTO_FREE struct tally **tallies = calloc(samples->nr + 1, sizeof(*tallies));
	const struct shrink shrink = {samples->machine, samples->stacks, tallies, shown, samples->nr};

	if (!tallies)
		return -ENOMEM;
	for (size_t i = 0; i < samples->nr; i++)
		tallies[i] = &samples->events[i].tally;
	chains_forget(samples->chains_of);
	memset(samples->cache, 0, CACHE_SLOTS * sizeof(*samples->cache));
	return shrink_tallies(&shrink);
}
