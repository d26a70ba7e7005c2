/* SPDX-License-Identifier: MIT */
#include "cmd/report_samples.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/report_details.h"
#include "read/session.h"

enum { MAX_FRAMES = 512 }; /* 127 recorded, 127 unwound, and what was inlined */

static int init_details(struct samples *samples)
{
	const struct hist_options *hist = &samples->options.hist;
	struct details_options options = {
		.quantum_ns = samples->options.quantum_ns,
		.full_paths = samples->options.full_paths,
		.symfs = samples->options.symfs,
	};
	bool any = false;

	for (unsigned i = 0; i < hist->nr_keys; i++) {
		options.wanted[hist->keys[i]] = true;
		any = any || hist->keys[i] >= HIST_SOCKET;
	}
	if (options.wanted[HIST_SRCLINE] || options.wanted[HIST_SRCFILE])
		stacks_tell_addresses(samples->stacks);
	samples->details = any ? details_new(&options, samples->session, samples->machine) : NULL;
	return any && !samples->details ? -ENOMEM : 0;
}

int samples_init(struct samples *samples, const struct samples_options *options, struct session *session,
		 struct machine *machine)
{
	*samples = (struct samples){.options = *options, .session = session, .machine = machine};
	samples->frames = calloc(MAX_FRAMES, sizeof(*samples->frames));
	samples->memo = calloc(MEMO_SLOTS, sizeof(*samples->memo));
	samples->stacks = stacks_new();
	if (!samples->frames || !samples->memo || !samples->stacks)
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
	free(samples->memo);
	stacks_free(samples->stacks);
	details_free(samples->details);
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
		.pid = task_pid(place->task),
		.tid = place->tid,
		.dso = place->dso,
		.symbol = place->symbol,
	};

	return !sample_filter_shows(&options->filter, &subject);
}

/* Two independent sums of what samples of one cell have in common. */
struct sum {
	uint64_t a, b;
};

static void sum_add(struct sum *sum, uint64_t value)
{
	sum->a = (sum->a ^ value) * 0x9e3779b97f4a7c15ull;
	sum->a ^= sum->a >> 29;
	sum->b = (sum->b + value) * 0xd6e8feb86659fd93ull;
	sum->b ^= sum->b >> 32;
}

static bool has_key(const struct samples *samples, enum hist_column key)
{
	return hist_has_key(&samples->options.hist, key);
}

static struct sum sample_sum(const struct samples *samples, const struct session_record *record,
			     const struct task *task)
{
	const struct sample *sample = &record->sample;
	struct task_epoch epoch = task_epoch(samples->machine, task);
	struct sum sum = {epoch.world, (uintptr_t)record->event};

	sum_add(&sum, (uintptr_t)task);
	sum_add(&sum, epoch.own);
	sum_add(&sum, sample->ip);
	sum_add(&sum, (uint64_t)sample->cpumode << 32 | (samples->by_cpu ? sample->cpu : 0));
	if (samples->details)
		sum_add(&sum, (uint64_t)sample->cpu << 1 | 1);
	for (uint64_t i = 0; samples->chains && i < sample->nr_ips; i++)
		sum_add(&sum, sample->ips[i]);
	sum.a |= 1; /* an empty slot is 0 */
	return sum;
}

/* Samples of a dwarf recording have stacks of their own; times and fields are each sample's own, too. */
static bool can_be_remembered(const struct samples *samples, const struct sample *sample)
{
	if (samples->each_apart)
		return false;
	return !samples->chains || !sample->user_stack.len;
}

/* As perf: a chain that is too long loses its end in the order in which callers are counted. */
static int find_chain(struct samples *samples, struct task *task, const struct session_record *record, uint32_t *ret)
{
	unsigned nr = machine_callchain(samples->machine, task, record, samples->frames, MAX_FRAMES);
	uint64_t most = samples->options.max_stack;
	unsigned dropped = most && most < nr ? nr - (unsigned)most : 0;
	bool inner = dropped && samples->options.direction == CALLTREE_CALLER;

	return stacks_intern(samples->stacks, samples->frames + (inner ? dropped : 0), nr - dropped, ret);
}

static int find_cell(struct samples *samples, struct event_samples *event, struct task *task,
		     const struct session_record *record, uint32_t *ret)
{
	const struct sample *sample = &record->sample;
	struct location at;
	uint32_t chain = 0;

	machine_resolve(samples->machine, task, sample->cpumode, sample->ip, &at);
	struct hist_place place = {
		.comm = task_comm_object(task),
		.task = task,
		.tid = sample->tid,
		.cpu = samples->by_cpu ? (int32_t)sample->cpu : 0,
		.dso = at.dso,
		.symbol = at.symbol,
		.address = at.symbol ? 0 : at.address,
		.level = at.level,
	};
	place.filtered = is_filtered(&samples->options, &place);
	if (samples->details) {
		int err = details_of_sample(samples->details, record, &at, &place.details, &samples->why);
		if (err)
			return err;
	}
	if (samples->chains && sample->present & PERF_SAMPLE_CALLCHAIN) {
		int err = find_chain(samples, task, record, &chain);
		if (err)
			return err;
	}
	return tally_find(&event->tally, &place, chain, ret);
}

static void start(struct samples *samples)
{
	bool any = any_call_chains(samples->session);

	samples->started = true;
	samples->by_cpu = has_key(samples, HIST_CPU);
	samples->each_apart = has_key(samples, HIST_TIME) || has_key(samples, HIST_TRACE);
	samples->children = samples->options.hist.children && any;
	samples->chains = any && (samples->options.chains || samples->children);
}

int samples_take(struct samples *samples, const struct session_record *record)
{
	const struct sample *sample = &record->sample;
	struct task *task = machine_task(samples->machine, sample->pid, sample->tid);

	if (!samples->started)
		start(samples);
	if (!sample_filter_has_cpu(&samples->options.filter, sample->cpu))
		return 0;
	struct event_samples *event = event_samples(samples, event_index(samples, record->event));
	if (!task || !event)
		return -ENOMEM;
	bool remembered = can_be_remembered(samples, sample);
	struct sum sum = {0};
	struct sample_memo *memo = NULL;
	uint32_t cell;
	if (remembered) {
		sum = sample_sum(samples, record, task);
		memo = &samples->memo[sum.b % MEMO_SLOTS];
	}
	if (memo && memo->key[0] == sum.a && memo->key[1] == sum.b) {
		cell = memo->cell;
	} else {
		int err = find_cell(samples, event, task, record, &cell);
		if (err)
			return err;
		samples->nr_found++;
		if (memo)
			*memo = (struct sample_memo){{sum.a, sum.b}, cell};
	}
	struct hist_amount *amount = &event->tally.amounts[cell];
	amount->period += sample->period;
	amount->nr_samples++;
	return 0;
}

bool samples_recall(const struct samples *samples, const struct session_record *record, const struct task *task,
		    struct samples_place *ret)
{
	const struct sample *sample = &record->sample;
	size_t event = event_index(samples, record->event);

	if (!samples->started || event >= samples->nr || !can_be_remembered(samples, sample))
		return false;
	ret->left_out = !sample_filter_has_cpu(&samples->options.filter, sample->cpu);
	if (ret->left_out)
		return true;
	struct sum sum = sample_sum(samples, record, task);
	const struct sample_memo *memo = &samples->memo[sum.b % MEMO_SLOTS];
	ret->event = event;
	ret->cell = memo->cell;
	return memo->key[0] == sum.a && memo->key[1] == sum.b;
}

/* The frames of a chain in the order in which callers are counted, by link. Returns how many. */
static unsigned chain_links(const struct samples *samples, uint32_t chain, uint32_t *ret)
{
	unsigned nr = 0;

	for (; chain && nr < MAX_FRAMES; chain = stacks_outer(samples->stacks, chain))
		ret[nr++] = chain;
	if (samples->options.direction == CALLTREE_CALLEE)
		return nr;
	for (unsigned i = 0; i < nr / 2; i++) {
		uint32_t swap = ret[i];
		ret[i] = ret[nr - 1 - i];
		ret[nr - 1 - i] = swap;
	}
	return nr;
}

/*
 * As perf does it, and with its ways: a caller without a symbol is known by its address in memory, not in its object, and
 * one that nothing is known of is shown at the level of the frame before. Callers are shown when the sample is.
 */
static int add_callers(struct samples *samples, struct hist *hist, uint32_t index, const struct tally_cell *cell)
{
	struct hist_place place = cell->place;
	uint32_t links[MAX_FRAMES];
	unsigned nr = chain_links(samples, cell->chain, links);

	for (unsigned i = 0; i < nr; i++) {
		const struct location *caller = stacks_location(samples->stacks, stacks_frame(samples->stacks, links[i]));
		struct hist_entry *entry;
		place.dso = caller->dso;
		place.symbol = caller->symbol;
		place.address = caller->symbol ? 0 : caller->ip;
		if (caller->dso)
			place.level = caller->level;
		if (samples->details) {
			place.details = details_of_caller(samples->details, cell->place.details, caller);
			if (!place.details)
				return -ENOMEM;
		}
		int added = hist_add_caller(hist, &place, cell->amount.period, &entry);
		if (added > 0 && samples->options.chains)
			added = hist_note_use(hist, entry, &(struct use){.cell = index, .skip = i}, nr - i);
		if (added < 0)
			return added;
	}
	return 0;
}

static uint32_t chain_depth(const struct samples *samples, uint32_t chain)
{
	uint32_t nr = 0;

	for (; chain; chain = stacks_outer(samples->stacks, chain))
		nr++;
	return nr;
}

static int settle_cell(struct samples *samples, struct event_samples *event, uint32_t index)
{
	const struct tally_cell cell = tally_cell(&event->tally, index);
	struct hist_entry *entry;
	int err = hist_add(event->hist, &cell.place, &cell.amount, &entry);

	if (!err && samples->options.chains && cell.chain)
		err = hist_note_use(event->hist, entry, &(struct use){.cell = index},
				    chain_depth(samples, cell.chain));
	return err || !samples->children ? err : add_callers(samples, event->hist, index, &cell);
}

static struct hist_options settled_options(const struct samples *samples)
{
	struct hist_options options = samples->options.hist;

	options.children = samples->children;
	if (samples->children && samples->options.chains)
		options.by_depth = samples->options.direction == CALLTREE_CALLER ? 1 : -1;
	return options;
}

int samples_make_hist(struct samples *samples, size_t event, struct hist **ret)
{
	const struct hist_options options = settled_options(samples);
	int err = hist_new(&options, &samples->events[event].hist);

	if (!err)
		*ret = samples->events[event].hist;
	return err;
}

int samples_settle(struct samples *samples)
{
	const struct hist_options options = settled_options(samples);

	for (size_t i = 0; i < samples->nr; i++) {
		struct event_samples *event = &samples->events[i];
		int err = event->tally.nr ? hist_new(&options, &event->hist) : 0;
		for (uint32_t cell = 0; cell < event->tally.nr && !err; cell++)
			err = settle_cell(samples, event, cell);
		if (err)
			return err;
	}
	return 0;
}
