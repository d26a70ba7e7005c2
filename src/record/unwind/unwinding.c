/* SPDX-License-Identifier: MIT */
#include "record/unwind/unwinding.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "perfdata/attr.h"
#include "perfdata/callchain.h"
#include "perfdata/ledger.h"
#include "perfdata/record.h"
#include "perfdata/sample.h"
#include "record/synth/synth.h"
#include "record/unwind/mapped_objects.h"
#include "record/unwind/task_state.h"
#include "record/unwind/time_queue.h"
#include "tasks/maps.h"
#include "unwind/unwind.h"

enum {
	MOST_FRAMES = 1024,
	NR_ACCOUNTS = 13,
	MOST_WORK = 1024,
	TASK_WORK = 32,                /* of the work, for a thread at a time */
	MOST_THREADS = 6,              /* beside the one that resolves, and no more than half as many as CPUs */
	NR_WORKERS = MOST_THREADS + 2, /* thread_pool_new() */
	GAP = 0, /* type of what is left behind a record that became shorter; no record of the kernel has it */
};

/* Of all tables: those of some browsers. What would exceed it has none, and chains through it follow frame pointers. */
static const size_t max_table_bytes = 512 << 20;
/* Of task events that wait: of samples that are to come, and of snapshots, where it is hours of most machines. */
static const size_t max_event_bytes = 64 << 20;

/* A batch that came, in the order of its stage. */
struct held {
	struct held *next;
	struct batch *batch; /* NULL: it was passed on */
	uint64_t read_ns;    /* of the batch */
	uint64_t last_ns;    /* of its records, by their own clock; 0: none tells */
	size_t nr_waiting;   /* samples that are not unwound */
	size_t nr_broken;    /* samples that were left out, for what they are cannot be read */
};

/* What one thread needs to unwind. */
struct unwinder {
	const struct unwinding *unwinding;
	const struct task_state *state; /* as of its samples */
	uint64_t known_from_ns;         /* struct unwinding's */
	struct unwind_cache *cache;
	const struct maps *maps;     /* of the sample that is unwound */
	struct mapped_object *found; /* looked up last */
	uint64_t ips[MOST_FRAMES];
	struct unwinding_counts counts; /* that are not added to the others' yet */
};

/* A sample that is unwound next, with others between which no process changes what it has mapped. */
struct work {
	uint8_t *record;
	struct held *held;
	enum outcome {
		WORK_DONE,
		WORK_BROKEN, /* cannot be read: a gap */
		WORK_WAITS,  /* for the table of `missing` */
	} outcome;
	struct mapped_object *missing;
};

/* What is to be known of an event. */
struct unwound_event {
	bool unwinds;
	bool carries_task_events; /* in its rings */
	unsigned max_stack;
};

struct unwinding_stage {
	struct stage stage;
	struct unwinding *unwinding;
	struct unwinding_stage *next;
	uint64_t complete_ns; /* the stage's, for the threads of others */
	struct held *first, *last;
};

/*
 * Records about tasks were lost: it is not known what was mapped since then, until all of /proc was read. What may be
 * older than that has the innermost frame alone.
 */
enum doubt {
	DOUBT_NONE,
	DOUBT_LOST, /* until all has come that was recorded before `doubt_ns`; then /proc is read */
	DOUBT_READ, /* until all has come that was recorded while it was read: before `doubt_ns` */
};

struct unwinding {
	struct stage_maker maker;
	const struct event_desc *events;
	struct unwound_event *by_event; /* heap */
	size_t nr_events;
	struct hash_table ids; /* of the events: index + 1 */
	int id_offset, time_offset, time_distance;
	size_t trailer_bytes;

	pthread_mutex_t lock; /* of all below */
	/*
	 * One thread resolves at a time. While it reads files it releases the lock: the others queue what they have.
	 */
	bool resolving;
	unsigned nr_to_resolve; /* threads that wait for that */
	pthread_cond_t resolved;
	struct unwinding_stage *stages;
	struct time_queue samples; /* that wait: where they are, and their struct held */
	uint64_t horizon_ns;       /* all records up to this time have come, by their own clock */
	uint64_t newest_ns;        /* likewise: the latest time of any record that has come */
	enum doubt doubt;
	uint64_t doubt_ns;      /* CLOCK_MONOTONIC */
	uint64_t known_from_ns; /* of records: what is older has come before a doubt ended */
	struct unwinding_counts counts;
	uint64_t in_ledger[NR_ACCOUNTS]; /* of the counts, what ledgers of finished outputs have: account() */

	/* Of the thread that resolves: */
	struct task_state *now;   /* as of the samples of rings that are drained; NULL: there are none */
	struct task_state *flown; /* as of the last snapshot of rings that are overwritten; NULL: there are none */
	struct mapped_objects *objects;
	struct unwind_tables *tables;
	struct thread_pool *pool;    /* that helps where there is a lot to do */
	struct unwinder *unwinders;  /* heap; of the pool's workers */
	struct work work[MOST_WORK]; /* what they do now */
	size_t nr_work;
};

static int learn_events(struct unwinding *unwinding, const struct unwinding_params *params)
{
	const struct perf_event_attr *first = &params->events[0].attr;

	unwinding->by_event = calloc(params->nr_events, sizeof(*unwinding->by_event));
	if (!unwinding->by_event)
		return -ENOMEM;
	unwinding->events = params->events;
	unwinding->nr_events = params->nr_events;
	unwinding->id_offset = sample_id_offset(first);
	unwinding->time_offset = sample_time_offset(first);
	unwinding->time_distance = sample_time_distance(first);
	unwinding->trailer_bytes = sample_id_bytes(first);
	if (unwinding->time_offset < 0 || unwinding->time_distance < 0)
		return -EINVAL;
	for (size_t i = 0; i < params->nr_events; i++) {
		const struct unwinding_event *event = &params->by_event[i];
		uint32_t stack_bytes = event->unwinds ? params->events[i].attr.sample_stack_user : 0;
		unsigned max_stack = event->max_stack ? event->max_stack : CALLCHAIN_FRAMES;
		unwinding->by_event[i] =
			(struct unwound_event){.unwinds = event->unwinds,
					       .carries_task_events = event->carries_task_events,
					       .max_stack = max_stack < MOST_FRAMES ? max_stack : MOST_FRAMES};
		if (stack_bytes > unwinding->counts.stack_bytes)
			unwinding->counts.stack_bytes = stack_bytes;
		for (size_t k = 0; k < params->events[i].nr_ids; k++)
			if (hash_table_add_number(&unwinding->ids, params->events[i].ids[k], i + 1))
				return -ENOMEM;
	}
	return 0;
}

/* Index of the event whose sample it is. */
static size_t event_of(const struct unwinding *unwinding, const uint8_t *record, size_t size)
{
	uint64_t id;

	if (unwinding->nr_events == 1 || unwinding->id_offset < 0 || size < (size_t)unwinding->id_offset + sizeof(id))
		return 0;
	memcpy(&id, record + unwinding->id_offset, sizeof(id));
	uint64_t number = hash_table_find_number(&unwinding->ids, id);
	return number ? number - 1 : 0;
}

/* 0: it has none. */
static uint64_t time_of(const struct unwinding *unwinding, const uint8_t *record,
			const struct perf_event_header *header)
{
	int place = unwinding->time_offset;
	uint64_t time_ns;

	if (header->type != PERF_RECORD_SAMPLE)
		place = unwinding->time_distance < 0 ? -1 : (int)header->size - unwinding->time_distance;
	if (place < (int)sizeof(*header) || place + (int)sizeof(time_ns) > (int)header->size)
		return 0;
	memcpy(&time_ns, record + place, sizeof(time_ns));
	return time_ns;
}

/*
 * Task events.
 */

/* Whether what a LOST record tells of may have been records about tasks. */
static bool may_be_task_event(const struct unwinding *unwinding, const uint8_t *record, size_t size)
{
	uint64_t id; /* perf_event_open(2), PERF_RECORD_LOST: of an event of that ring */

	if (size < sizeof(struct perf_event_header) + sizeof(id))
		return true;
	memcpy(&id, record + sizeof(struct perf_event_header), sizeof(id));
	uint64_t number = hash_table_find_number(&unwinding->ids, id);
	return !number || unwinding->by_event[number - 1].carries_task_events;
}

static bool is_task_event(uint32_t type)
{
	return type == PERF_RECORD_COMM || type == PERF_RECORD_FORK || type == PERF_RECORD_EXIT ||
	       type == PERF_RECORD_MMAP || type == PERF_RECORD_MMAP2;
}

/* In each state that is wanted. */
static int put_event(struct unwinding *unwinding, const struct perf_event_header *record, uint64_t time_ns)
{
	int err = unwinding->now ? task_state_put(unwinding->now, record, time_ns) : 0;

	return err || !unwinding->flown ? err : task_state_put(unwinding->flown, record, time_ns);
}

/* Records that describe all tasks, into each state. Only of the thread that resolves. */
static int apply_state(struct unwinding *unwinding, struct span records)
{
	const uint8_t *bytes = records.ptr;
	int err = 0;

	for (size_t at = 0; at < records.len && !err;) {
		struct perf_event_header header;
		if (records.len - at < sizeof(header))
			return -EBADMSG;
		memcpy(&header, bytes + at, sizeof(header));
		if (header.size < sizeof(header) || header.size > records.len - at)
			return -EBADMSG;
		const struct perf_event_header *record = (const struct perf_event_header *)(bytes + at);
		if (is_task_event(header.type) && unwinding->now)
			err = task_state_apply(unwinding->now, record);
		if (is_task_event(header.type) && unwinding->flown && !err)
			err = task_state_apply(unwinding->flown, record);
		at += header.size;
	}
	return err;
}

static int take_initial_state(struct stage_maker *maker, struct span records)
{
	return apply_state((struct unwinding *)maker, records);
}

/*
 * Samples.
 */

/* Why the user part of a chain is the innermost frame alone. */
enum unresolved {
	RESOLVED,
	UNRESOLVED_MEMORY, /* there was none to wait in */
	UNRESOLVED_LOSS,   /* enum doubt */
	UNRESOLVED_NO_PROCESS,
	UNRESOLVED_LATE,  /* TASK_STATE_TOO_LATE */
	UNRESOLVED_TABLE, /* not yet: the table of an object is to be built */
};

static struct unwind_object *find_object(void *ctx, uint64_t pc, uint64_t *ret_offset)
{
	struct unwinder *unwinder = ctx;
	const struct map *map = maps_find(unwinder->maps, pc);

	if (!map || !map->object)
		return NULL;
	unwinder->found = map->object;
	*ret_offset = map_address(map, pc);
	return mapped_object_table(map->object);
}

/* The innermost frame, where the program was sampled and not the kernel. Returns how many frames that is. */
static unsigned innermost(const struct sample *sample, uint64_t *ret_ip)
{
	bool user = sample->cpumode == PERF_RECORD_MISC_USER;

	*ret_ip = sample->ip;
	return user && sample->present & PERF_SAMPLE_IP ? 1 : 0;
}

/* What of the kernel's own chain is of the program: by frame pointers, and longer than the copy of the stack. */
static void find_recorded(const struct sample *sample, struct unwind_chain *chain)
{
	uint64_t at = 0;

	while (at < sample->nr_ips && sample->ips[at] != (uint64_t)PERF_CONTEXT_USER)
		at++;
	if (at == sample->nr_ips)
		return;
	chain->recorded = sample->ips + at + 1;
	for (at++; at < sample->nr_ips && sample->ips[at] < (uint64_t)PERF_CONTEXT_MAX; at++)
		chain->nr_recorded++;
}

/*
 * The user frames of a sample whose registers are there, into unwinder->ips, by what was mapped at its time. *ret_nr:
 * how many.
 */
static enum unresolved user_frames(struct unwinder *unwinder, const struct sample *sample, unsigned max,
				   unsigned *ret_nr)
{
	struct unwind_chain chain = {.ips = unwinder->ips, .max = max};

	if (sample->time < unwinder->known_from_ns)
		return UNRESOLVED_LOSS;
	switch (task_state_maps(unwinder->state, sample, &unwinder->maps)) {
	case TASK_STATE_NO_PROCESS: return UNRESOLVED_NO_PROCESS;
	case TASK_STATE_TOO_LATE: return UNRESOLVED_LATE;
	case TASK_STATE_KNOWN: break;
	}
	find_recorded(sample, &chain);
	const struct unwind_space space = {
		.find = find_object, .ctx = unwinder, .generation = maps_generation(unwinder->maps)};
	unwind_chain(unwinder->cache, &space, &sample->user_regs, sample->user_stack, &chain);
	if (chain.end == UNWIND_NOT_READY)
		return UNRESOLVED_TABLE;
	unwinder->counts.by_end[chain.end]++;
	*ret_nr = chain.nr;
	return RESOLVED;
}

static void put_gap(uint8_t *at, size_t size)
{
	struct perf_event_header gap = {.type = GAP, .size = (uint16_t)size};

	if (size)
		memcpy(at, &gap, sizeof(gap));
}

static void count(struct unwinding_counts *counts, enum unresolved why)
{
	counts->nr_stacks++;
	counts->nr_too_soon += why == UNRESOLVED_MEMORY;
	counts->nr_after_loss += why == UNRESOLVED_LOSS;
	counts->nr_unmapped += why == UNRESOLVED_NO_PROCESS;
	counts->nr_too_late += why == UNRESOLVED_LATE;
}

/*
 * Replaces the stack in the record by its chain, and leaves a gap behind it. Without `state` it could not wait until it
 * is known what was mapped, and has the innermost frame alone.
 */
static enum outcome unwind_record(struct unwinder *unwinder, uint8_t *bytes)
{
	const struct unwinding *unwinding = unwinder->unwinding;
	struct perf_event_header *record = (struct perf_event_header *)bytes;
	size_t size = record->size, event = event_of(unwinding, bytes, size);
	const struct perf_event_attr *attr = &unwinding->events[event].attr;
	struct callchain user = {.ips = unwinder->ips, .most = unwinding->by_event[event].max_stack};
	struct sample sample;

	if (sample_decode(attr, record, &sample)) { /* the kernel makes no such sample; it may hold a stack */
		put_gap(bytes, size);
		return WORK_BROKEN;
	}
	if (sample.user_regs.abi != PERF_SAMPLE_REGS_ABI_NONE) {
		enum unresolved why = UNRESOLVED_MEMORY;
		if (unwinder->state)
			why = user_frames(unwinder, &sample, user.most, &user.nr);
		if (why == UNRESOLVED_TABLE)
			return WORK_WAITS;
		count(&unwinder->counts, why);
		if (!user.nr)
			user.nr = innermost(&sample, unwinder->ips);
	}
	size_t new_size = callchain_convert(attr, record, &sample, &user);
	put_gap(bytes + new_size, size - new_size);
	return WORK_DONE;
}

/* The lock is held. */
static void add_counts(struct unwinding *unwinding, struct unwinder *unwinder)
{
	struct unwinding_counts *sum = &unwinding->counts, *counts = &unwinder->counts;

	for (size_t i = 0; i < UNWIND_NR_ENDS; i++)
		sum->by_end[i] += counts->by_end[i];
	sum->nr_stacks += counts->nr_stacks;
	sum->nr_unmapped += counts->nr_unmapped;
	sum->nr_too_soon += counts->nr_too_soon;
	sum->nr_after_loss += counts->nr_after_loss;
	sum->nr_too_late += counts->nr_too_late;
	sum->cpu_ns += counts->cpu_ns;
	*counts = (struct unwinding_counts){0};
}

/* It does not wait any longer. The lock is held. */
static enum outcome unwind_unresolved(struct unwinding *unwinding, uint8_t *record)
{
	struct unwinder unwinder; /* hardly any of its room is used */

	unwinder.unwinding = unwinding;
	unwinder.state = NULL;
	unwinder.counts = (struct unwinding_counts){0};
	enum outcome outcome = unwind_record(&unwinder, record);
	add_counts(unwinding, &unwinder);
	return outcome;
}

static void do_work(struct unwinder *unwinder, struct work *work)
{
	work->outcome = unwind_record(unwinder, work->record);
	if (work->outcome == WORK_WAITS)
		work->missing = unwinder->found;
}

/* thread_pool_task */
static void do_works(void *ctx, unsigned worker, unsigned task)
{
	struct unwinding *unwinding = ctx;
	uint64_t from_ns = worker ? clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
	size_t first = (size_t)task * TASK_WORK;

	for (size_t i = first; i < first + TASK_WORK && i < unwinding->nr_work; i++)
		do_work(&unwinding->unwinders[worker], &unwinding->work[i]);
	if (worker) /* the other's time is that of the stage */
		unwinding->unwinders[worker].counts.cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - from_ns;
}

/* The samples in unwinding->work, by that state. The lock is held, and released for that. */
static void unwind_work(struct unwinding *unwinding, const struct task_state *state)
{
	unsigned nr_tasks = (unsigned)((unwinding->nr_work + TASK_WORK - 1) / TASK_WORK);

	for (size_t i = 0; i < NR_WORKERS; i++) {
		unwinding->unwinders[i].state = state;
		unwinding->unwinders[i].known_from_ns = unwinding->known_from_ns;
	}
	pthread_mutex_unlock(&unwinding->lock);
	if (nr_tasks > 1) {
		thread_pool_begin(unwinding->pool, do_works, unwinding, nr_tasks);
		thread_pool_finish(unwinding->pool);
	} else {
		do_works(unwinding, 0, 0);
	}
	for (size_t i = 0; i < unwinding->nr_work; i++) {
		struct work *work = &unwinding->work[i];
		while (work->outcome == WORK_WAITS) { /* each turn builds a table */
			mapped_object_build(work->missing);
			do_work(&unwinding->unwinders[0], work);
		}
	}
	pthread_mutex_lock(&unwinding->lock);
	for (size_t i = 0; i < NR_WORKERS; i++)
		add_counts(unwinding, &unwinding->unwinders[i]);
	for (size_t i = 0; i < unwinding->nr_work; i++) {
		struct held *held = unwinding->work[i].held;
		if (!held)
			continue;
		held->nr_waiting--;
		held->nr_broken += unwinding->work[i].outcome == WORK_BROKEN;
	}
}

/*
 * The first samples of the queue up to that time, with the task events before them, as far as no process changes what
 * it has mapped between them. The lock is held, and released for that. 0 or -ENOMEM.
 */
static int unwind_first(struct unwinding *unwinding, struct task_state *state, struct time_queue *samples,
			uint64_t until_ns)
{
	const struct time_entry *first = time_queue_first(samples);
	int err = task_state_advance(state, first->time_ns);
	uint64_t change_ns = task_state_next_ns(state);

	unwinding->nr_work = 0;
	do {
		unwinding->work[unwinding->nr_work++] = (struct work){.record = first->item, .held = first->owner};
		time_queue_drop_first(samples);
		first = time_queue_first(samples);
	} while (first && first->time_ns <= until_ns && first->time_ns < change_ns && unwinding->nr_work < MOST_WORK);
	unwind_work(unwinding, err ? NULL : state);
	return err;
}

/*
 * Whether this thread resolves now. `all`: it waits until it may; else another thread that does will come to what is
 * resolvable, or comes again. The lock is held.
 */
static bool begin_to_resolve(struct unwinding *unwinding, bool all)
{
	if (!all && (unwinding->resolving || unwinding->nr_to_resolve))
		return false;
	unwinding->nr_to_resolve++;
	while (unwinding->resolving)
		pthread_cond_wait(&unwinding->resolved, &unwinding->lock);
	unwinding->nr_to_resolve--;
	unwinding->resolving = true;
	return true;
}

static void end_resolving(struct unwinding *unwinding)
{
	unwinding->resolving = false;
	pthread_cond_broadcast(&unwinding->resolved);
}

/*
 * All samples up to the horizon, with the task events before each. The lock is held, and released now and then: the
 * horizon may rise. Without `all` it ends early when another thread waits for its turn.
 */
static int unwind_known(struct unwinding *unwinding, bool all)
{
	const struct time_entry *first;
	int err = 0;

	while (!err && (first = time_queue_first(&unwinding->samples)) && first->time_ns <= unwinding->horizon_ns &&
	       (all || !unwinding->nr_to_resolve))
		err = unwind_first(unwinding, unwinding->now, &unwinding->samples, unwinding->horizon_ns);
	first = time_queue_first(&unwinding->samples);
	if (!err && unwinding->now && (!first || first->time_ns > unwinding->horizon_ns))
		err = task_state_advance(unwinding->now, unwinding->horizon_ns);
	if (!err && unwinding->now)
		err = task_state_trim(unwinding->now);
	return err || !unwinding->flown ? err : task_state_trim(unwinding->flown);
}

/* Up to when all records of all outputs have come. CLOCK_MONOTONIC; UINT64_MAX: there is no output. */
static uint64_t complete_until(const struct unwinding *unwinding)
{
	uint64_t complete_ns = UINT64_MAX;

	for (struct unwinding_stage *each = unwinding->stages; each; each = each->next)
		if (each->complete_ns < complete_ns)
			complete_ns = each->complete_ns;
	return complete_ns;
}

/* Those of batches that had been read by then are among them. */
static void find_horizon(struct unwinding *unwinding)
{
	uint64_t complete_ns = complete_until(unwinding);

	for (struct unwinding_stage *each = unwinding->stages; each; each = each->next)
		for (struct held *held = each->first; held && held->read_ns <= complete_ns; held = held->next)
			if (held->last_ns > unwinding->horizon_ns)
				unwinding->horizon_ns = held->last_ns;
}

/*
 * Doubts.
 */

/* Whatever came so far tells nothing about what is mapped. The lock is held. */
static void begin_doubt(struct unwinding *unwinding)
{
	if (unwinding->doubt == DOUBT_NONE)
		log_verbose("records about tasks were lost: what is mapped is read again");
	unwinding->doubt = DOUBT_LOST;
	unwinding->doubt_ns = clock_ns(CLOCK_MONOTONIC);
	unwinding->known_from_ns = UINT64_MAX;
}

/* Of all processes, by a thread that resolves. The lock is held, and released while /proc is read. */
static int read_tasks(struct unwinding *unwinding)
{
	const struct synth_params params = {.trailer_bytes = unwinding->trailer_bytes, .mmap2 = true};
	AUTO_BUF struct buf records = {0};
	int err = unwinding->now ? task_state_forget(unwinding->now) : 0;

	if (!err && unwinding->flown)
		err = task_state_forget(unwinding->flown);
	if (err)
		return err;
	pthread_mutex_unlock(&unwinding->lock);
	err = synth_all_tasks(&params, &records);
	pthread_mutex_lock(&unwinding->lock);
	if (records.failed)
		return -ENOMEM;
	if (err)
		log_note("what is mapped cannot be read after a loss: %s: call chains of processes that run already "
			 "have one frame",
			 strerror(-err));
	return apply_state(unwinding, buf_span(&records));
}

/* When all has come that may be older than what is known. The lock is held, by a thread that resolves. */
static int end_doubt(struct unwinding *unwinding)
{
	int err = 0;

	if (unwinding->doubt == DOUBT_LOST && complete_until(unwinding) >= unwinding->doubt_ns) {
		unwinding->doubt = DOUBT_READ;
		err = read_tasks(unwinding);
		unwinding->doubt_ns = clock_ns(CLOCK_MONOTONIC);
	} else if (unwinding->doubt == DOUBT_READ && complete_until(unwinding) >= unwinding->doubt_ns) {
		unwinding->doubt = DOUBT_NONE;
		unwinding->known_from_ns = unwinding->newest_ns + 1;
	}
	return err;
}

/*
 * Batches.
 */

/* Closes the gaps. Returns the bytes that are left. */
static size_t compact(uint8_t *records, size_t len)
{
	size_t to = 0;

	for (size_t at = 0; at < len;) {
		struct perf_event_header header;
		memcpy(&header, records + at, sizeof(header));
		if (header.type != GAP) {
			if (to != at)
				memmove(records + to, records + at, header.size);
			to += header.size;
		}
		at += header.size;
	}
	return to;
}

/* The batches in front that nothing waits for any more. The lock is held, and released for that. */
static int pass_on(struct unwinding_stage *stage)
{
	struct unwinding *unwinding = stage->unwinding;
	struct held *held;
	int err = 0;

	/* What tells of a horizon that is still to come stays, without its batch. */
	for (held = stage->first; held && !held->nr_waiting && !err; held = held->next) {
		struct batch *batch = held->batch;
		held->batch = NULL;
		if (!batch)
			continue;
		pthread_mutex_unlock(&unwinding->lock);
		batch->len = compact(batch->records, batch->len);
		if (held->nr_broken)
			stage_count_dropped(&stage->stage, "unwinding: cannot be read", held->nr_broken);
		err = stage_pass(&stage->stage, batch);
		pthread_mutex_lock(&unwinding->lock);
	}
	while ((held = stage->first) && !held->batch && held->last_ns <= unwinding->horizon_ns) {
		stage->first = held->next;
		if (!stage->first)
			stage->last = NULL;
		free(held);
	}
	return err;
}

/* What is known to be resolvable now; `all`: also when another thread is at it. The lock is held. */
static int unwind_complete(struct unwinding_stage *stage, bool all)
{
	struct unwinding *unwinding = stage->unwinding;
	int err = 0;

	stage->complete_ns = stage->stage.complete_ns;
	find_horizon(unwinding);
	if (begin_to_resolve(unwinding, all)) {
		err = end_doubt(unwinding);
		if (!err)
			err = unwind_known(unwinding, all);
		end_resolving(unwinding);
	}
	int pass_err = pass_on(stage);
	return err ? err : pass_err;
}

/* One record of a batch that came. */
static int look_at(struct unwinding *unwinding, struct held *held, uint8_t *record,
		   const struct perf_event_header *header)
{
	bool is_sample = header->type == PERF_RECORD_SAMPLE;

	if (header->type == PERF_RECORD_LOST && may_be_task_event(unwinding, record, header->size))
		begin_doubt(unwinding);
	if (!is_sample && !is_task_event(header->type))
		return 0;
	uint64_t time_ns = time_of(unwinding, record, header);
	if (time_ns > held->last_ns)
		held->last_ns = time_ns;
	if (!is_sample)
		return put_event(unwinding, (const struct perf_event_header *)record, time_ns);
	if (!unwinding->by_event[event_of(unwinding, record, header->size)].unwinds)
		return 0;
	const struct time_entry entry = {.time_ns = time_ns, .item = record, .owner = held};
	if (time_queue_put(&unwinding->samples, &entry))
		held->nr_broken += unwind_unresolved(unwinding, record) == WORK_BROKEN;
	else
		held->nr_waiting++;
	return 0;
}

/* After an error nothing that was not looked at stays in it. */
static int look_at_batch(struct unwinding *unwinding, struct held *held)
{
	struct batch *batch = held->batch;
	int err = 0;

	for (size_t at = 0; at < batch->len && !err;) {
		const size_t left = batch->len - at;
		struct perf_event_header header = {0};
		memcpy(&header, batch->records + at, left < sizeof(header) ? left : sizeof(header));
		err = header.size < sizeof(header) || header.size > left ? -EBADMSG : 0; /* not a ring's bytes */
		size_t size = header.size;                                               /* look_at() may change it */
		if (!err)
			err = look_at(unwinding, held, batch->records + at, &header);
		if (err)
			batch->len = at;
		at += size;
	}
	if (held->last_ns > unwinding->newest_ns)
		unwinding->newest_ns = held->last_ns;
	return err;
}

static uint64_t cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static int process(struct stage *base, struct batch *batch)
{
	struct unwinding_stage *stage = (struct unwinding_stage *)base;
	struct unwinding *unwinding = stage->unwinding;
	struct held *held = calloc(1, sizeof(*held));
	uint64_t from_ns = cpu_ns();

	if (!held) {
		stage_batch_free(base, batch); /* no stack is stored, whatever happens */
		return -ENOMEM;
	}
	pthread_mutex_lock(&unwinding->lock);
	*held = (struct held){.batch = batch, .read_ns = batch->read_ns};
	if (stage->last)
		stage->last->next = held;
	else
		stage->first = held;
	stage->last = held;
	int err = look_at_batch(unwinding, held);
	int pass_err = unwind_complete(stage, false);
	unwinding->counts.cpu_ns += cpu_ns() - from_ns;
	pthread_mutex_unlock(&unwinding->lock);
	return err ? err : pass_err;
}

/* Everything that this stage has goes, resolved or not. The lock is held, and no thread resolves. */
static int give_up_waiting(struct unwinding_stage *stage)
{
	struct unwinding *unwinding = stage->unwinding;
	struct time_queue others = {.next_number = unwinding->samples.next_number};
	int err = 0;

	for (const struct time_entry *first; (first = time_queue_first(&unwinding->samples));) {
		struct held *held = first->owner, *own = stage->first;
		while (own && own != held)
			own = own->next;
		if (own) {
			held->nr_broken += unwind_unresolved(unwinding, first->item) == WORK_BROKEN;
			held->nr_waiting--;
		} else {
			err = err ? err : time_queue_put(&others, first);
		}
		time_queue_drop_first(&unwinding->samples);
	}
	time_queue_fini(&unwinding->samples);
	unwinding->samples = others;
	return err;
}

static int flush(struct stage *base, enum stage_flush why)
{
	struct unwinding_stage *stage = (struct unwinding_stage *)base;
	struct unwinding *unwinding = stage->unwinding;
	uint64_t from_ns = cpu_ns();

	pthread_mutex_lock(&unwinding->lock);
	/* All that this output will ever have has come, and of the others what is as old. */
	for (struct held *held = why == STAGE_END ? stage->first : NULL; held; held = held->next)
		if (held->last_ns > unwinding->horizon_ns)
			unwinding->horizon_ns = held->last_ns;
	int err = unwind_complete(stage, why == STAGE_END);
	if (why == STAGE_MEMORY || err) {
		begin_to_resolve(unwinding, true); /* what is in the hands of another thread comes back first */
		int give_up_err = give_up_waiting(stage);
		end_resolving(unwinding);
		int pass_err = pass_on(stage);
		err = err ? err : give_up_err ? give_up_err : pass_err;
	}
	unwinding->counts.cpu_ns += cpu_ns() - from_ns;
	pthread_mutex_unlock(&unwinding->lock);
	return err;
}

int unwinding_snapshot(struct unwinding *unwinding, struct buf *records)
{
	struct time_queue samples = {0};
	int err = 0;

	if (!unwinding || !unwinding->flown)
		return 0;
	for (size_t at = 0; at < records->len && !err;) {
		struct perf_event_header *record = (struct perf_event_header *)(records->data + at);
		size_t event = event_of(unwinding, (const uint8_t *)record, record->size);
		if (record->type == PERF_RECORD_SAMPLE && unwinding->by_event[event].unwinds)
			err = time_queue_put(
				&samples,
				&(struct time_entry){.time_ns = time_of(unwinding, (const uint8_t *)record, record),
						     .item = record});
		at += record->size;
	}
	pthread_mutex_lock(&unwinding->lock);
	begin_to_resolve(unwinding, true);
	while (!err && time_queue_first(&samples))
		err = unwind_first(unwinding, unwinding->flown, &samples, UINT64_MAX);
	end_resolving(unwinding);
	pthread_mutex_unlock(&unwinding->lock);
	time_queue_fini(&samples);
	records->len = err ? 0 : compact(records->data, records->len);
	return err;
}

static void stage_free(struct stage *base)
{
	struct unwinding_stage *stage = (struct unwinding_stage *)base;
	struct unwinding *unwinding = stage->unwinding;

	pthread_mutex_lock(&unwinding->lock);
	for (struct unwinding_stage **at = &unwinding->stages; *at; at = &(*at)->next) {
		if (*at != stage)
			continue;
		*at = stage->next;
		break;
	}
	pthread_mutex_unlock(&unwinding->lock);
	for (struct held *held = stage->first, *next; held; held = next) {
		next = held->next;
		free(held);
	}
	free(stage);
}

static const struct stage_ops unwinding_ops = {
	.name = "unwind",
	.process = process,
	.flush = flush,
	.free = stage_free,
};

static int make(struct stage_maker *maker, const struct stage_output *output, struct stage **ret)
{
	struct unwinding *unwinding = (struct unwinding *)maker;
	struct unwinding_stage *stage = calloc(1, sizeof(*stage));

	(void)output;
	if (!stage)
		return -ENOMEM;
	stage->stage.ops = &unwinding_ops;
	stage->unwinding = unwinding;
	pthread_mutex_lock(&unwinding->lock);
	stage->next = unwinding->stages;
	unwinding->stages = stage;
	pthread_mutex_unlock(&unwinding->lock);
	*ret = &stage->stage;
	return 0;
}

/* Numbers of chains by how they end, for `report --loss`. */
static int account(struct stage_maker *maker, struct ledger *ledger)
{
	struct unwinding *unwinding = (struct unwinding *)maker;
	const struct unwinding_counts *now = &unwinding->counts;
	int err = 0;

	pthread_mutex_lock(&unwinding->lock);
	const struct {
		const char *name;
		uint64_t nr;
	} rows[NR_ACCOUNTS] = {
		{"stacks whole", now->by_end[UNWIND_COMPLETE]},
		{"stacks of more frames", now->by_end[UNWIND_FULL]},
		{"stacks cut", now->by_end[UNWIND_CUT_STACK]},
		{"stacks continued", now->by_end[UNWIND_CONTINUED]},
		{"stacks without CFI", now->by_end[UNWIND_NO_CFI]},
		{"stacks of bad memory", now->by_end[UNWIND_BAD_MEMORY]},
		{"stacks without object", now->by_end[UNWIND_NO_OBJECT]},
		{"stacks missing", now->by_end[UNWIND_NO_REGISTERS]},
		{"stacks without maps", now->nr_unmapped},
		{"stacks without memory", now->nr_too_soon},
		{"stacks after a loss", now->nr_after_loss},
		{"stacks too old", now->nr_too_late},
		{"unwinding cpu ns", now->cpu_ns},
	};
	for (size_t i = 0; i < NR_ACCOUNTS && !err; i++) {
		if (rows[i].nr > unwinding->in_ledger[i])
			err = ledger_add_cost(ledger, rows[i].name, rows[i].nr - unwinding->in_ledger[i]);
		unwinding->in_ledger[i] = rows[i].nr;
	}
	pthread_mutex_unlock(&unwinding->lock);
	return err;
}

static int make_states(struct unwinding *unwinding)
{
	for (size_t i = 0; i < unwinding->nr_events; i++) {
		if (!unwinding->by_event[i].unwinds)
			continue;
		struct task_state **state =
			unwinding->events[i].attr.write_backward ? &unwinding->flown : &unwinding->now;
		if (!*state)
			*state = task_state_new(unwinding->objects, unwinding->trailer_bytes, max_event_bytes);
		if (!*state)
			return -ENOMEM;
	}
	return 0;
}

static int make_unwinders(struct unwinding *unwinding)
{
	long nr_cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned nr_threads = nr_cpus / 2 < MOST_THREADS ? (unsigned)(nr_cpus / 2) : MOST_THREADS;

	unwinding->unwinders = calloc(NR_WORKERS, sizeof(*unwinding->unwinders));
	for (size_t i = 0; unwinding->unwinders && i < NR_WORKERS; i++) {
		unwinding->unwinders[i].unwinding = unwinding;
		unwinding->unwinders[i].cache = unwind_cache_new(unwinding->tables);
		if (!unwinding->unwinders[i].cache)
			return -ENOMEM;
	}
	return unwinding->unwinders ? thread_pool_new(nr_threads + 2, &unwinding->pool) : -ENOMEM;
}

int unwinding_new(const struct unwinding_params *params, struct unwinding **ret)
{
	struct unwinding *unwinding = calloc(1, sizeof(*unwinding));

	if (!unwinding)
		return -ENOMEM;
	pthread_mutex_init(&unwinding->lock, NULL);
	pthread_cond_init(&unwinding->resolved, NULL);
	unwinding->maker = (struct stage_maker){.make = make, .initial_state = take_initial_state, .account = account};
	unwinding->tables = unwind_tables_new(NULL, max_table_bytes);
	unwinding->objects = mapped_objects_new(unwinding->tables);
	int err = unwinding->objects && unwinding->tables ? learn_events(unwinding, params) : -ENOMEM;
	if (!err)
		err = make_states(unwinding);
	if (!err)
		err = make_unwinders(unwinding);
	if (err) {
		unwinding_free(unwinding);
		return err;
	}
	*ret = unwinding;
	return 0;
}

void unwinding_free(struct unwinding *unwinding)
{
	if (!unwinding)
		return;
	time_queue_fini(&unwinding->samples);
	thread_pool_free(unwinding->pool);
	for (size_t i = 0; unwinding->unwinders && i < NR_WORKERS; i++)
		unwind_cache_free(unwinding->unwinders[i].cache);
	free(unwinding->unwinders);
	task_state_free(unwinding->now);
	task_state_free(unwinding->flown);
	mapped_objects_free(unwinding->objects);
	unwind_tables_free(unwinding->tables);
	hash_table_fini(&unwinding->ids);
	free(unwinding->by_event);
	pthread_cond_destroy(&unwinding->resolved);
	pthread_mutex_destroy(&unwinding->lock);
	free(unwinding);
}

struct stage_maker *unwinding_maker(struct unwinding *unwinding)
{
	return &unwinding->maker;
}

struct unwinding_counts unwinding_counts(struct unwinding *unwinding)
{
	struct unwinding_counts counts = {0};
	struct unwind_stats stats;

	if (!unwinding)
		return counts;
	pthread_mutex_lock(&unwinding->lock);
	counts = unwinding->counts;
	pthread_mutex_unlock(&unwinding->lock);
	unwind_tables_stats(unwinding->tables, &stats);
	counts.nr_tables = stats.nr_tables;
	counts.table_bytes = stats.table_bytes;
	counts.build_ns = stats.build_ns;
	return counts;
}
