/* SPDX-License-Identifier: MIT */
#include "cmd/report/report_samples.h"

#include <errno.h>
#include <search.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/machine/machine.h"
#include "analyze/report/hist.h"
#include "analyze/report/time_bins.h"
#include "analyze/report/tracepoint.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/pool.h"
#include "cmd/text/sample_details.h"
#include "perfdata/feature_machine.h"
#include "read/session.h"

struct details_options {
	bool wanted[HIST_KEYS];
	uint64_t quantum_ns; /* of times; 0: each time for itself */
	bool full_paths;     /* of source files */
};

struct details {
	struct details_options options;
	struct session *session; /* borrowed, as the machine */
	struct machine *machine;
	struct tracepoints *formats; /* NULL until they are needed */
	struct feature_cpu_topology topology;
	bool topology_read;
	struct pool pool;    /* what the trees hold */
	void *texts, *known; /* tsearch(3): strings, struct hist_details */
};

static bool asks(const struct details *details, enum hist_column key)
{
	return details->options.wanted[key];
}

/* NULL: out of memory. */
static struct details *details_new(const struct details_options *options, struct session *session,
				   struct machine *machine)
{
	struct details *details = calloc(1, sizeof(*details));

	if (!details)
		return NULL;
	*details = (struct details){.options = *options, .session = session, .machine = machine};
	return details;
}

static void leave_to_pool(void *node)
{
	(void)node;
}

/* NULL is fine */
static void details_free(struct details *details)
{
	if (!details)
		return;
	tdestroy(details->texts, leave_to_pool);
	tdestroy(details->known, leave_to_pool);
	tracepoints_close(details->formats);
	pool_fini(&details->pool);
	free(details);
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* The one object with that text. NULL: out of memory. */
static const char *keep_text(struct details *details, struct buf *text)
{
	const char *wanted = buf_text(text);
	char *const *found = tfind(wanted, &details->texts, compare_texts);

	if (found || text->failed)
		return found ? *found : NULL;
	char *copy = pool_text(&details->pool, wanted, strlen(wanted));
	return copy && tsearch(copy, &details->texts, compare_texts) ? copy : NULL;
}

static int compare_pointers(const void *a, const void *b)
{
	return (uintptr_t)a < (uintptr_t)b ? -1 : (uintptr_t)a > (uintptr_t)b;
}

/* Any order; texts are one object each. */
static int compare_known(const void *left, const void *right)
{
	const struct hist_details *a = left, *b = right;
	int order = (a->socket > b->socket) - (a->socket < b->socket);

	if (!order)
		order = (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns);
	if (!order)
		order = compare_pointers(a->srcline, b->srcline);
	if (!order)
		order = compare_pointers(a->srcfile, b->srcfile);
	if (!order)
		order = compare_pointers(a->trace, b->trace);
	return order ? order : memcmp(a->numbers, b->numbers, sizeof(a->numbers));
}

static const struct hist_details *keep(struct details *details, const struct hist_details *wanted)
{
	struct hist_details *const *found = tfind(wanted, &details->known, compare_known);

	if (found)
		return *found;
	struct hist_details *copy = pool_take(&details->pool, sizeof(*copy));
	if (!copy)
		return NULL;
	*copy = *wanted;
	return tsearch(copy, &details->known, compare_known) ? copy : NULL;
}

/* -1: not in the recording. */
static int32_t socket_of(struct details *details, const struct sample *sample)
{
	struct feature_cpu_topology *topology = &details->topology;
	struct feature_nrcpus nr;
	struct feature_cpu_ids ids;
	struct span payload;

	if (!details->topology_read && session_feature(details->session, FEATURE_NRCPUS, &payload) &&
	    !feature_decode_nrcpus(payload, &nr) && session_feature(details->session, FEATURE_CPU_TOPOLOGY, &payload) &&
	    feature_decode_cpu_topology(payload, nr.available, topology))
		*topology = (struct feature_cpu_topology){0};
	details->topology_read = true;
	if (!topology->has_ids || !(sample->present & PERF_SAMPLE_CPU) || sample->cpu >= topology->nr_cpus)
		return -1;
	feature_cpu_topology_ids(topology, sample->cpu, &ids);
	return (int32_t)ids.package;
}

static const char *trace_of(struct details *details, const struct session_record *record, struct diag *reterr)
{
	AUTO_BUF struct buf text = {0};

	if (record->event->attr.type != PERF_TYPE_TRACEPOINT)
		buf_put_text(&text, "N/A");
	else if (trace_formats_open(details->session, machine_lookup(details->machine), &details->formats, reterr))
		return NULL;
	else if (details->formats)
		tracepoint_print(details->formats, record->sample.raw, record->sample.cpu, &text);
	return keep_text(details, &text);
}

/* false: out of memory. */
static bool add_source(struct details *details, const struct location *at, struct hist_details *ret)
{
	unsigned flags = SOURCE_SYMBOL | (details->options.full_paths ? SOURCE_FULL_PATH : 0);
	AUTO_BUF struct buf line = {0}, file = {0};

	if (asks(details, HIST_SRCLINE)) {
		source_text_line(machine_debug_info(details->machine), at, flags, &line);
		ret->srcline = keep_text(details, &line);
		if (!ret->srcline)
			return false;
	}
	if (asks(details, HIST_SRCFILE)) {
		source_text_file(machine_debug_info(details->machine), at, flags, &file);
		ret->srcfile = keep_text(details, &file);
		if (!ret->srcfile)
			return false;
	}
	return true;
}

static void set_number(struct hist_details *details, enum hist_column key, uint64_t number)
{
	details->numbers[key - HIST_WEIGHT] = number;
}

/* The numbers of a sample that are asked for. */
static void add_numbers(const struct details *details, const struct session_record *record, struct hist_details *ret)
{
	const struct sample *sample = &record->sample;

	if (asks(details, HIST_WEIGHT))
		set_number(ret, HIST_WEIGHT, sample_weight(sample));
	if (asks(details, HIST_LOCAL_WEIGHT))
		set_number(ret, HIST_LOCAL_WEIGHT, sample_weight(sample));
	if (asks(details, HIST_INS_LAT))
		set_number(ret, HIST_INS_LAT, sample_instruction_latency(sample));
	if (asks(details, HIST_LOCAL_INS_LAT))
		set_number(ret, HIST_LOCAL_INS_LAT, sample_instruction_latency(sample));
	if (asks(details, HIST_CODE_PAGE_SIZE))
		set_number(ret, HIST_CODE_PAGE_SIZE, sample->code_page_size);
	if (asks(details, HIST_CGROUP)) {
		set_number(ret, HIST_CGROUP, sample->cgroup);
		ret->cgroup = machine_cgroup(details->machine, sample->cgroup);
	}
}

/* And those of a place in code. */
static void add_place_numbers(const struct details *details, const struct location *at, struct hist_details *ret)
{
	if (asks(details, HIST_ADDRESS))
		set_number(ret, HIST_ADDRESS, at->ip);
}

/* Of a sample that was taken at `at`. Valid until details_free(). 0, or -ENOMEM or -EBADMSG and why. */
static int details_of_sample(struct details *details, const struct session_record *record, const struct location *at,
			     const struct hist_details **ret, struct diag *reterr)
{
	uint64_t quantum = details->options.quantum_ns, time = record->sample.time;
	struct hist_details found = {0};

	diag_set(reterr, -ENOMEM, "out of memory");
	if (asks(details, HIST_TIME))
		found.time_ns = quantum ? time / quantum * quantum : time;
	if (asks(details, HIST_SOCKET))
		found.socket = socket_of(details, &record->sample);
	if (asks(details, HIST_TRACE)) {
		found.trace = trace_of(details, record, reterr);
		if (!found.trace)
			return -EBADMSG;
	}
	add_numbers(details, record, &found);
	add_place_numbers(details, at, &found);
	if (!add_source(details, at, &found))
		return -ENOMEM;
	*ret = keep(details, &found);
	return *ret ? 0 : -ENOMEM;
}

/* Of a caller at `at` of a sample with details `callee`: NULL: out of memory. */
static const struct hist_details *details_of_caller(struct details *details, const struct hist_details *callee,
						    const struct location *at)
{
	struct hist_details found = *callee;

	add_place_numbers(details, at, &found);
	return add_source(details, at, &found) ? keep(details, &found) : NULL;
}

#define CELL_LEFT_OUT UINT32_MAX /* of a sample that is not counted */

enum { MAX_FRAMES = 512 }; /* 127 recorded, 127 unwound, and what was inlined */

static int init_details(struct samples *samples)
{
	const struct hist_options *hist = &samples->options.hist;
	struct details_options options = {
		.quantum_ns = samples->options.quantum_ns,
		.full_paths = samples->options.full_paths,
	};
	bool any = false;

	for (unsigned i = 0; i < hist->nr_keys; i++) {
		options.wanted[hist->keys[i]] = true;
		any = any || hist->keys[i] >= HIST_SOCKET;
	}
	if (options.wanted[HIST_SRCLINE] || options.wanted[HIST_SRCFILE] || samples->options.by_address)
		stacks_keep_addresses(samples->stacks);
	samples->details = any ? details_new(&options, samples->session, samples->machine) : NULL;
	return any && !samples->details ? -ENOMEM : 0;
}

int samples_init(struct samples *samples, const struct samples_options *options, struct session *session,
		 struct machine *machine)
{
	*samples = (struct samples){.options = *options, .session = session, .machine = machine};
	samples->frames = calloc(MAX_FRAMES, sizeof(*samples->frames));
	samples->cache = calloc(CACHE_SLOTS, sizeof(*samples->cache));
	samples->stacks = stacks_new();
	samples->times = options->times ? calloc(1, sizeof(*samples->times)) : NULL;
	if (!samples->frames || !samples->cache || !samples->stacks || (options->times && !samples->times))
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
	stacks_free(samples->stacks);
	free(samples->times);
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
		.pid = place->task->pid,
		.tid = place->tid,
		.dso = place->dso,
		.symbol = place->symbol,
	};

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
static bool can_be_cached(const struct samples *samples, const struct sample *sample)
{
	return !samples->not_cacheable && sample_has_key(samples->machine, sample, samples->chains);
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

	lookup_set_time(machine_lookup(samples->machine), sample);
	machine_resolve(samples->machine, task, sample->cpumode, sample->ip, &at);
	if (samples->options.hide_unresolved && !at.symbol) {
		*ret = CELL_LEFT_OUT;
		return 0;
	}
	struct hist_place place = {
		.comm = task->comm,
		.task = task,
		.tid = sample->tid,
		.cpu = samples->by_cpu ? (int32_t)sample->cpu : 0,
		.dso = at.dso,
		.symbol = at.symbol,
		.address = at.symbol && !samples->options.addresses ? 0 : at.address,
		.level = at.level,
	};
	place.filtered = is_filtered(&samples->options, &place) ||
			 !sample_filter_shows_symbol(&samples->options.filter, place.symbol);
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
	samples->not_cacheable = has_key(samples, HIST_TIME);
	for (enum hist_column key = HIST_TRACE; key < HIST_KEYS; key++)
		samples->not_cacheable |= has_key(samples, key);
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
	struct hist_amount *amount = &event->tally.amounts[cell];
	amount->period += sample->period;
	amount->nr_samples++;
	if (samples->times && sample->present & PERF_SAMPLE_TIME)
		time_bins_add(samples->times, sample->time);
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

static bool hides_sample(void *ctx, const struct hist_place *place)
{
	const struct samples *samples = ctx;

	return is_filtered(&samples->options, place);
}

static bool hides_symbol(void *ctx, const struct symbol *symbol)
{
	const struct samples *samples = ctx;

	return !sample_filter_shows_symbol(&samples->options.filter, symbol);
}

static const struct hist_details *caller_details(void *ctx, const struct hist_details *callee,
						 const struct location *at)
{
	const struct samples *samples = ctx;

	return details_of_caller(samples->details, callee, at);
}

struct count_options samples_count_options(struct samples *samples)
{
	struct count_options options = {
		.hist = samples->options.hist,
		.uses = samples->options.chains,
		.direction = samples->options.direction,
		.rules = {.hides_sample = hides_sample,
			  .hides_symbol = hides_symbol,
			  .caller_details = caller_details,
			  .ctx = samples},
	};

	options.hist.children = samples->children;
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
