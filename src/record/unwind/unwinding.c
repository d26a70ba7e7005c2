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
#include "base/log.h"
#include "base/thread_pool.h"
#include "perfdata/attr.h"
#include "perfdata/callchain.h"
#include "perfdata/ledger.h"
#include "record/order/ring_events.h"
#include "record/order/time_queue.h"
#include "record/synth/synth.h"
#include "record/unwind/drained_state.h"
#include "record/unwind/mapped_objects.h"
#include "record/unwind/ring_unwinders.h"
#include "record/unwind/row_makers.h"
#include "record/unwind/stack_unwinder.h"
#include "record/unwind/task_state.h"
#include "stream/batch_pool.h"
#include "sysinfo/heap.h"
#include "sysinfo/thread.h"
#include "unwind/unwind.h"

enum {
	NR_ACCOUNTS = 15,
	MOST_WORK = 64,                  /* batches, of which each is work for a thread */
	FEW_THREADS = 6,                 /* beside the one that resolves, and no more than half as many as CPUs; */
	MOST_THREADS = 16,               /* of many CPUs a quarter */
	MOST_WORKERS = MOST_THREADS + 2, /* thread_pool_new() */
};

/* Of all tables: those of some browsers. What would exceed it has none, and chains through it follow frame pointers. */
static const size_t max_table_bytes = 512 << 20;
/* Of those that no process has mapped: the programs of a build, which are started again and again, have 20 MiB. */
static const struct mapped_objects_limits idle_limits = {.idle_bytes = 32 << 20, .nr_idle = 4096};
/* Of task events that wait: of samples that are to come, and of snapshots, where it is hours of most machines. */
static const size_t max_event_bytes = 64 << 20;

static const char broken_reason[] = "unwinding: cannot be read"; /* stage_count_dropped() */

/* A record of a batch. */
struct place {
	uint64_t time_ns;
	uint32_t at, event; /* event: of a sample, its index */
};

struct places {
	struct place *list; /* heap */
	size_t nr, room;
};

/* A batch that came, in the order of its stage. */
struct unwind_batch {
	struct unwind_batch *next;
	struct unwinding_stage *stage;
	struct batch *batch; /* NULL: it was passed on */
	uint64_t read_ns;    /* of the batch */
	bool is_done;        /* nothing in it waits: it may be passed on */

	/* Of the thread that resolves, from when the batch was looked at: */
	uint64_t last_ns;                       /* of its records, by their own clock; 0: none tells */
	struct places stacks;                   /* samples that are to be unwound */
	uint64_t first_stack_ns, last_stack_ns; /* of those that are not; of all */
	size_t next_stack;                      /* those before it are unwound */
	bool is_sorted;                         /* by time: where they are not unwound all at once */
	struct places events;                   /* task events, as they came */
	uint64_t nr_losses;                     /* records about losses of such events */
	bool has_gaps;                          /* RECORD_GAP */
	size_t nr_broken;                       /* samples that were left out, for what they are cannot be read */
	struct mapped_object *missing;          /* its next sample needs the table of that; NULL: that is not known */
	struct unwind_batch *next_blocked;      /* another one that waits for a thread that builds a table */
	int err;                                /* it was read as far as that */
};

struct unwinding_stage {
	struct stage stage;
	struct unwinding *unwinding;
	struct unwinding_stage *next;
	uint64_t complete_ns; /* the stage's, for the threads of others */
	struct unwind_batch *first, *last;
	struct unwind_batch *first_new; /* of those that were not looked at */
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
	struct ring_events events;
	struct unwinding_event *by_event; /* heap */
	bool realtime;

	pthread_mutex_t lock; /* of all below */
	/*
	 * One thread resolves at a time, with helpers. While these work it releases the lock: the others queue what
	 * they have.
	 */
	bool resolving;
	bool requested_again;   /* by a thread that had no turn */
	unsigned nr_to_resolve; /* threads that wait for that */
	pthread_cond_t resolved;
	struct unwinding_stage *stages;
	struct unwind_batch *spare; /* not in use */
	uint64_t horizon_ns;        /* all records up to this time have come, by their own clock */
	struct unwinding_counts counts;
	uint64_t in_ledger[NR_ACCOUNTS];       /* of the counts, what ledgers of finished outputs have: account() */
	struct ring_unwinders *ring_unwinders; /* NULL: none; and these two, of them: */
	struct drained_state *drained;
	struct row_makers *row_makers;
	uint64_t nr_losses; /* records about losses of task events that were looked at */

	/* Of the thread that resolves: */
	struct time_queue waiting; /* struct unwind_batch with samples, each with the time of its next one */
	uint64_t newest_ns;        /* the latest time of any record that was looked at */
	enum doubt doubt;
	uint64_t doubt_ns;        /* CLOCK_MONOTONIC */
	uint64_t known_from_ns;   /* of records: what is older has come before a doubt ended */
	struct task_state *now;   /* as of the samples of rings that are drained; NULL: there are none; */
	uint64_t now_ns;          /* it has all task events up to that time */
	struct task_state *flown; /* as of the last snapshot of rings that are overwritten; NULL: there are none */
	struct mapped_objects *objects;
	struct unwind_tables *tables;
	struct thread_pool *pool; /* that helps */
	size_t nr_workers;
	struct stack_unwinder *unwinders; /* heap; of the pool's workers */
	bool is_raised[MOST_WORKERS];     /* they have their priority */

	/* What they do now: */
	struct unwind_batch *work[MOST_WORK];
	size_t nr_work;
	void (*work_on)(struct stack_unwinder *unwinder, struct unwind_batch *pending, uint64_t until_ns);
	uint64_t until_ns;
	pthread_mutex_t work_lock;                          /* of all below. With `lock` held it is not taken */
	pthread_cond_t built;                               /* a table */
	size_t next_work;                                   /* those of work[] before it were taken */
	struct unwind_batch *blocked;                       /* each by a table of building[]; the first first */
	const struct mapped_object *building[MOST_WORKERS]; /* by the worker with that number; NULL: none */
};

static int learn_events(struct unwinding *unwinding, const struct unwinding_params *params)
{
	unwinding->by_event = calloc(params->nr_events, sizeof(*unwinding->by_event));
	int err =
		unwinding->by_event ? ring_events_init(&unwinding->events, params->events, params->nr_events) : -ENOMEM;

	for (size_t i = 0; i < params->nr_events && !err; i++) {
		struct unwinding_event *event = &unwinding->by_event[i];
		*event = params->by_event[i];
		event->attr = &params->events[i].attr;
		event->shape = dump_shape(event->attr);
		uint32_t stack_bytes = event->unwinds ? params->events[i].attr.sample_stack_user : 0;
		unsigned max_stack = event->max_stack ? event->max_stack : CALLCHAIN_FRAMES;
		event->max_stack = max_stack < UNWINDER_MOST_FRAMES ? max_stack : UNWINDER_MOST_FRAMES;
		if (stack_bytes > unwinding->counts.stack_bytes)
			unwinding->counts.stack_bytes = stack_bytes;
		if (event->unwinds && event->max_stack > unwinding->counts.most_frames)
			unwinding->counts.most_frames = event->max_stack;
	}
	return err;
}

/*
 * Task events.
 */

bool unwinding_lacks_task_events(const struct ring_events *events, const struct unwinding_event *by_event,
				 const uint8_t *lost)
{
	struct perf_event_header header;
	uint64_t id; /* perf_event_open(2), PERF_RECORD_LOST: of an event of that ring */

	memcpy(&header, lost, sizeof(header));
	if (header.size < sizeof(header) + sizeof(id))
		return true;
	memcpy(&id, lost + sizeof(header), sizeof(id));
	uint64_t number = hash_table_find_number(&events->ids, id);
	return !number || by_event[number - 1].carries_task_events;
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
 * Work on batches, side by side.
 */

/* Of a thread that helps, when it begins. */
static void raise_priority(struct unwinding *unwinding, unsigned worker)
{
	struct priority before; /* not restored: the thread does nothing else */
	const char *unused;

	if (!worker || !unwinding->realtime || unwinding->is_raised[worker])
		return;
	unwinding->is_raised[worker] = true;
	(void)!priority_raise(0, &before, &unused);
}

static bool is_being_built(const struct unwinding *unwinding, const struct mapped_object *object)
{
	for (size_t i = 0; i < MOST_WORKERS; i++)
		if (unwinding->building[i] == object)
			return true;
	return false;
}

/* The first blocked batch that can go on. NULL: there is none. */
static struct unwind_batch *take_unblocked(struct unwinding *unwinding)
{
	for (struct unwind_batch **at = &unwinding->blocked; *at; at = &(*at)->next_blocked) {
		struct unwind_batch *pending = *at;
		if (is_being_built(unwinding, pending->missing))
			continue;
		*at = pending->next_blocked;
		return pending;
	}
	return NULL;
}

/* Waits while all that is left is blocked. NULL: nothing is left. The work lock is held, and released for that. */
static struct unwind_batch *take_work(struct unwinding *unwinding)
{
	for (;;) {
		struct unwind_batch *pending = take_unblocked(unwinding);
		if (!pending && unwinding->next_work < unwinding->nr_work)
			pending = unwinding->work[unwinding->next_work++];
		if (pending || !unwinding->blocked)
			return pending;
		pthread_cond_wait(&unwinding->built, &unwinding->work_lock);
	}
}

/*
 * Builds the table that a batch needs; where another worker builds it, the batch is blocked until then. The work lock
 * is held, and released for that.
 */
static bool build_missing(struct unwinding *unwinding, unsigned worker, struct unwind_batch *pending)
{
	struct unwind_batch **last = &unwinding->blocked;

	if (is_being_built(unwinding, pending->missing)) {
		while (*last)
			last = &(*last)->next_blocked;
		pending->next_blocked = NULL;
		*last = pending;
		return false;
	}
	unwinding->building[worker] = pending->missing;
	pthread_mutex_unlock(&unwinding->work_lock);
	mapped_object_build(unwinding->objects, pending->missing);
	if (unwinding->drained)
		drained_state_retry(unwinding->drained);
	pthread_mutex_lock(&unwinding->work_lock);
	unwinding->building[worker] = NULL;
	pthread_cond_broadcast(&unwinding->built);
	return true;
}

/* thread_pool_task: work as long as there is some, a batch at a time. */
static void do_work(void *ctx, unsigned worker, unsigned unused)
{
	struct unwinding *unwinding = ctx;
	struct stack_unwinder *unwinder = &unwinding->unwinders[worker];
	uint64_t from_ns = worker ? clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
	struct unwind_batch *pending;

	(void)unused;
	raise_priority(unwinding, worker);
	pthread_mutex_lock(&unwinding->work_lock);
	while ((pending = take_work(unwinding))) {
		do {
			pending->missing = NULL;
			pthread_mutex_unlock(&unwinding->work_lock);
			unwinding->work_on(unwinder, pending, unwinding->until_ns);
			pthread_mutex_lock(&unwinding->work_lock);
		} while (pending->missing && build_missing(unwinding, worker, pending));
	}
	pthread_mutex_unlock(&unwinding->work_lock);
	if (worker) /* the other's time is that of the stage */
		unwinder->counts.cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - from_ns;
}

void unwinding_counts_add(struct unwinding_counts *sum, struct unwinding_counts *counts)
{
	for (size_t i = 0; i < UNWIND_NR_ENDS; i++)
		sum->by_end[i] += counts->by_end[i];
	sum->nr_stacks += counts->nr_stacks;
	sum->nr_continued += counts->nr_continued;
	sum->nr_in_rings += counts->nr_in_rings;
	sum->nr_unmapped += counts->nr_unmapped;
	sum->nr_too_soon += counts->nr_too_soon;
	sum->nr_after_loss += counts->nr_after_loss;
	sum->nr_too_late += counts->nr_too_late;
	sum->cpu_ns += counts->cpu_ns;
	*counts = (struct unwinding_counts){0};
}

/* On all batches in unwinding->work. The lock is held, and released for that. */
static void carry_out(struct unwinding *unwinding,
		      void (*work_on)(struct stack_unwinder *unwinder, struct unwind_batch *pending, uint64_t until_ns),
		      const struct task_state *state, uint64_t until_ns)
{
	const size_t nr_tasks = unwinding->nr_work < unwinding->nr_workers ? unwinding->nr_work : unwinding->nr_workers;

	for (size_t i = 0; i < unwinding->nr_workers; i++) {
		unwinding->unwinders[i].state = state;
		unwinding->unwinders[i].known_from_ns = unwinding->known_from_ns;
	}
	unwinding->work_on = work_on;
	unwinding->until_ns = until_ns;
	unwinding->next_work = 0; /* no worker works now */
	pthread_mutex_unlock(&unwinding->lock);
	if (nr_tasks > 1) {
		thread_pool_begin(unwinding->pool, do_work, unwinding, (unsigned)nr_tasks);
		thread_pool_finish(unwinding->pool);
	} else if (nr_tasks) {
		do_work(unwinding, 0, 0);
	}
	pthread_mutex_lock(&unwinding->lock);
	for (size_t i = 0; i < unwinding->nr_workers; i++)
		unwinding_counts_add(&unwinding->counts, &unwinding->unwinders[i].counts);
}

/*
 * Looking at what came.
 */

static int place_add(struct places *places, const struct place *place)
{
	if (array_room(places->list, places->nr, places->room))
		return -ENOMEM;
	places->list[places->nr++] = *place;
	return 0;
}

/* Of the same time, as they came. */
static int by_time(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static void free_all(struct unwind_batch *pending)
{
	for (struct unwind_batch *next; pending; pending = next) {
		next = pending->next;
		free(pending->stacks.list);
		free(pending->events.list);
		free(pending);
	}
}

/* One that was used before has room already. NULL: out of memory. The lock is held. */
static struct unwind_batch *take_spare(struct unwinding *unwinding)
{
	struct unwind_batch *pending = unwinding->spare;

	if (!pending)
		return calloc(1, sizeof(*pending));
	unwinding->spare = pending->next;
	pending->stacks.nr = pending->events.nr = 0;
	*pending = (struct unwind_batch){.stacks = pending->stacks, .events = pending->events};
	return pending;
}

/* Nothing in it waits any more. */
static void finish_batch(struct unwind_batch *pending)
{
	if (pending->has_gaps)
		pending->batch->len = record_gaps_close(pending->batch->records, pending->batch->len);
	stage_examine(&pending->stage->stage, pending->batch);
}

/* One record. 0 or -ENOMEM. */
static int look_at(struct stack_unwinder *unwinder, struct unwind_batch *pending, size_t at,
		   struct perf_event_header *header)
{
	uint8_t *record = pending->batch->records + at;
	const bool is_unwound = header->type == RECORD_UNWOUND;
	const bool is_sample = is_unwound || header->type == PERF_RECORD_SAMPLE;

	if (is_unwound)
		((struct perf_event_header *)record)->type = header->type = PERF_RECORD_SAMPLE;
	if (header->type == PERF_RECORD_LOST)
		pending->nr_losses += unwinding_lacks_task_events(unwinder->events, unwinder->by_event, record);
	if (!is_sample && !is_task_event(header->type))
		return 0;
	uint64_t time_ns = ring_events_time(unwinder->events, record, header);
	if (time_ns > pending->last_ns)
		pending->last_ns = time_ns;
	if (is_unwound)
		return 0;
	struct place place = {.time_ns = time_ns, .at = (uint32_t)at};
	if (!is_sample)
		return place_add(&pending->events, &place);
	place.event = (uint32_t)ring_events_index(unwinder->events, record, header->size);
	if (!unwinder->by_event[place.event].unwinds)
		return 0;
	if (place_add(&pending->stacks, &place)) { /* it cannot wait */
		pending->nr_broken += stack_unwinder_convert(unwinder, record, place.event) == UNWIND_BROKEN;
		pending->has_gaps = true;
		return 0;
	}
	if (pending->stacks.nr == 1 || time_ns < pending->first_stack_ns)
		pending->first_stack_ns = time_ns;
	if (time_ns > pending->last_stack_ns)
		pending->last_stack_ns = time_ns;
	return 0;
}

/* -EBADMSG: those are no ring's bytes. */
static int header_at(const struct batch *batch, size_t at, struct perf_event_header *ret)
{
	const size_t left = batch->len - at;

	if (left < sizeof(*ret))
		return -EBADMSG;
	memcpy(ret, batch->records + at, sizeof(*ret));
	return ret->size < sizeof(*ret) || ret->size > left ? -EBADMSG : 0;
}

/* After an error nothing that was not looked at stays in it. */
static void look_at_batch(struct stack_unwinder *unwinder, struct unwind_batch *pending, uint64_t unused)
{
	struct batch *batch = pending->batch;

	(void)unused;
	for (size_t at = 0; at < batch->len && !pending->err;) {
		struct perf_event_header header;
		pending->err = header_at(batch, at, &header);
		if (!pending->err)
			pending->err = look_at(unwinder, pending, at, &header);
		if (pending->err)
			batch->len = at;
		else
			at += header.size;
	}
	if (!pending->stacks.nr && !pending->events.nr)
		finish_batch(pending);
}

/*
 * Samples.
 */

/* Its samples up to that time, by the state as of then. */
static void unwind_batch(struct stack_unwinder *unwinder, struct unwind_batch *pending, uint64_t until_ns)
{
	const struct places *stacks = &pending->stacks;

	if (until_ns < pending->last_stack_ns && !pending->is_sorted) {
		qsort(stacks->list, stacks->nr, sizeof(stacks->list[0]), by_time);
		pending->is_sorted = true;
	}
	for (; pending->next_stack < stacks->nr; pending->next_stack++) {
		const struct place *place = &stacks->list[pending->next_stack];
		pending->first_stack_ns = place->time_ns;
		if (place->time_ns > until_ns)
			return;
		enum unwind_outcome outcome =
			stack_unwinder_convert(unwinder, pending->batch->records + place->at, place->event);
		if (outcome == UNWIND_WAITS) {
			pending->missing = unwinder->found;
			return;
		}
		pending->nr_broken += outcome == UNWIND_BROKEN;
		pending->has_gaps = true;
	}
	finish_batch(pending);
}

/* It waits for the time of its next sample, or is done. The lock is held. */
static void put_waiting(struct unwinding *unwinding, struct unwind_batch *pending)
{
	struct time_entry entry = {.item = pending};

	if (pending->next_stack < pending->stacks.nr) {
		entry.time_ns = pending->first_stack_ns;
		if (!time_queue_put(&unwinding->waiting, &entry))
			return;
		struct stack_unwinder *unwinder = &unwinding->unwinders[0]; /* nothing works now */
		unwinder->state = NULL;
		unwind_batch(unwinder, pending, UINT64_MAX);
		unwinding_counts_add(&unwinding->counts, &unwinder->counts);
	}
	pending->is_done = true;
}

/*
 * Whether this thread resolves now. `all`: it waits until it may; else the thread that does comes to what is
 * resolvable. The lock is held.
 */
static bool begin_to_resolve(struct unwinding *unwinding, bool all)
{
	if (!all && (unwinding->resolving || unwinding->nr_to_resolve)) {
		unwinding->requested_again = true;
		return false;
	}
	unwinding->nr_to_resolve++;
	while (unwinding->resolving)
		pthread_cond_wait(&unwinding->resolved, &unwinding->lock);
	unwinding->nr_to_resolve--;
	unwinding->resolving = true;
	return true;
}

/* Threads that drain may unwind, if it is known what is mapped. */
static void open_drained_state(struct unwinding *unwinding)
{
	if (!unwinding->drained || unwinding->doubt != DOUBT_NONE)
		return;
	ring_unwinders_note_losses(unwinding->ring_unwinders, unwinding->nr_losses);
	if (drained_state_open(unwinding->drained, unwinding->now, unwinding->now_ns, unwinding->known_from_ns))
		log_verbose("out of memory: no sample is unwound in its ring");
}

static void end_resolving(struct unwinding *unwinding)
{
	open_drained_state(unwinding);
	unwinding->resolving = false;
	pthread_cond_broadcast(&unwinding->resolved);
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
		for (struct unwind_batch *pending = each->first; pending && pending->read_ns <= complete_ns;
		     pending = pending->next)
			if (pending->last_ns > unwinding->horizon_ns)
				unwinding->horizon_ns = pending->last_ns;
}

/*
 * Doubts.
 */

/* Whatever came so far tells nothing about what is mapped. */
static void begin_doubt(struct unwinding *unwinding)
{
	if (unwinding->doubt == DOUBT_NONE)
		log_verbose("records about tasks were lost: the maps of all processes are read again");
	if (unwinding->drained)
		drained_state_close(unwinding->drained);
	unwinding->doubt = DOUBT_LOST;
	unwinding->doubt_ns = clock_ns(CLOCK_MONOTONIC);
	unwinding->known_from_ns = UINT64_MAX;
}

/* Of all processes, by a thread that resolves. The lock is held, and released while /proc is read. */
static int read_tasks(struct unwinding *unwinding)
{
	const struct synth_params params = {.trailer_bytes = unwinding->events.trailer_bytes, .mmap2 = true};
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
		log_note("the maps of processes cannot be read again after a loss: %s: call chains of processes that "
			 "run already have one frame",
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

/* What was found in a batch has its effects. The lock is held. */
static void apply_found(struct unwinding *unwinding, struct unwind_batch *pending)
{
	const struct places *events = &pending->events;

	unwinding->nr_losses += pending->nr_losses;
	if (pending->nr_losses)
		begin_doubt(unwinding);
	for (size_t i = 0; i < events->nr; i++) {
		const void *record = pending->batch->records + events->list[i].at;
		int err = put_event(unwinding, record, events->list[i].time_ns);
		pending->err = pending->err ? pending->err : err;
	}
	if (!pending->stacks.nr &&
	    events->nr) /* not earlier: samples that could not wait left gaps before the events */
		finish_batch(pending);
	if (pending->last_ns > unwinding->newest_ns)
		unwinding->newest_ns = pending->last_ns;
	put_waiting(unwinding, pending);
}

/* The state `now` as of that time. */
static int advance(struct unwinding *unwinding, uint64_t time_ns)
{
	int err = task_state_advance(unwinding->now, time_ns);

	if (!err && time_ns > unwinding->now_ns)
		unwinding->now_ns = time_ns;
	return err;
}

/* Of the states. */
static int trim(struct unwinding *unwinding)
{
	int err = unwinding->now ? task_state_trim(unwinding->now) : 0;

	return err || !unwinding->flown ? err : task_state_trim(unwinding->flown);
}

/* At all batches that came, of all outputs. The lock is held, and released for that. */
static void look_at_new(struct unwinding *unwinding)
{
	do {
		unwinding->nr_work = 0;
		for (struct unwinding_stage *each = unwinding->stages; each; each = each->next)
			for (; each->first_new && unwinding->nr_work < MOST_WORK;
			     each->first_new = each->first_new->next)
				unwinding->work[unwinding->nr_work++] = each->first_new;
		if (unwinding->nr_work)
			carry_out(unwinding, look_at_batch, NULL, 0);
		for (size_t i = 0; i < unwinding->nr_work; i++)
			apply_found(unwinding, unwinding->work[i]);
	} while (unwinding->nr_work);
}

/*
 * The first samples that wait, up to that time, with the task events before them, as far as no process changes what it
 * has mapped between them. The lock is held, and released for that. 0 or -ENOMEM.
 */
static int unwind_first(struct unwinding *unwinding, uint64_t until_ns)
{
	struct time_queue *waiting = &unwinding->waiting;
	const struct time_entry *first = time_queue_first(waiting);
	int err = advance(unwinding, first->time_ns);
	uint64_t change_ns = task_state_next_ns(unwinding->now);

	if (change_ns > first->time_ns && until_ns >= change_ns) /* not where the last of all times waits */
		until_ns = change_ns - 1;
	unwinding->nr_work = 0;
	do {
		unwinding->work[unwinding->nr_work++] = first->item;
		time_queue_drop_first(waiting);
		first = time_queue_first(waiting);
	} while (first && first->time_ns <= until_ns && unwinding->nr_work < MOST_WORK);
	carry_out(unwinding, unwind_batch, err ? NULL : unwinding->now, until_ns);
	for (size_t i = 0; i < unwinding->nr_work; i++)
		put_waiting(unwinding, unwinding->work[i]);
	return err;
}

/* Also after an error: the batches in front that nothing waits for. The lock is held, and released for that. */
static int pass_on(struct unwinding_stage *stage)
{
	struct unwinding *unwinding = stage->unwinding;
	struct unwind_batch *pending;
	int err = 0;

	/* What tells of a horizon that is still to come stays, without its batch. */
	for (pending = stage->first; pending && pending->is_done; pending = pending->next) {
		struct batch *batch = pending->batch;
		pending->batch = NULL;
		if (!batch)
			continue;
		pthread_mutex_unlock(&unwinding->lock);
		if (pending->nr_broken)
			stage_count_dropped(&stage->stage, broken_reason, pending->nr_broken);
		int pass_err = stage_pass(&stage->stage, batch);
		err = err ? err : pending->err ? pending->err : pass_err;
		pthread_mutex_lock(&unwinding->lock);
	}
	while ((pending = stage->first) && pending->is_done && !pending->batch &&
	       pending->last_ns <= unwinding->horizon_ns) {
		stage->first = pending->next;
		if (!stage->first)
			stage->last = NULL;
		pending->next = unwinding->spare;
		unwinding->spare = pending;
	}
	return err;
}

/*
 * All samples up to the horizon, with the task events before each. What is done is passed on in between: others wait
 * for that memory, and all samples may take a second. The lock is held, and released for that.
 */
static int unwind_known(struct unwinding_stage *stage)
{
	struct unwinding *unwinding = stage->unwinding;
	const uint64_t until_ns = unwinding->horizon_ns; /* of what was looked at; it may rise */
	const struct time_entry *first;
	int err = 0;

	while (!err && (first = time_queue_first(&unwinding->waiting)) && first->time_ns <= until_ns) {
		err = unwind_first(unwinding, until_ns);
		if (!err)
			err = pass_on(stage);
	}
	if (!err && unwinding->now)
		err = advance(unwinding, until_ns);
	return err ? err : trim(unwinding);
}

/* What this stage still has is not known any better: all of it goes. The lock is held, and released for that. */
static void give_up_waiting(struct unwinding_stage *stage)
{
	struct unwinding *unwinding = stage->unwinding;
	struct unwind_batch *pending = stage->first;

	while (pending) {
		unwinding->nr_work = 0;
		for (; pending && pending != stage->first_new && unwinding->nr_work < MOST_WORK;
		     pending = pending->next)
			if (!pending->is_done)
				unwinding->work[unwinding->nr_work++] = pending;
		if (!unwinding->nr_work)
			break;
		carry_out(unwinding, unwind_batch, NULL, UINT64_MAX);
		for (size_t i = 0; i < unwinding->nr_work; i++) {
			time_queue_remove(&unwinding->waiting, unwinding->work[i]);
			put_waiting(unwinding, unwinding->work[i]);
		}
	}
}

static void mark(void *ctx, struct mapped_object *object)
{
	mapped_object_mark(ctx, object);
}

/* That they can be given up: of the samples in rings, too. false: not now. */
static bool lock_objects(struct unwinding *unwinding)
{
	if (!unwinding->drained)
		return true;
	if (!row_makers_trylock(unwinding->row_makers))
		return false;
	if (drained_state_lock_objects(unwinding->drained, mark, unwinding->objects))
		return true;
	row_makers_unlock(unwinding->row_makers);
	return false;
}

static void unlock_objects(struct unwinding *unwinding)
{
	if (!unwinding->drained)
		return;
	drained_state_unlock(unwinding->drained);
	row_makers_unlock(unwinding->row_makers);
}

/*
 * Gives up tables that no process needs, where these have become many. Threads that drain may unwind: what is given up
 * is in no state. The lock is held, by the thread that resolves, and released for that.
 */
static void give_up_tables(struct unwinding *unwinding)
{
	struct mapped_objects *objects = unwinding->objects;
	int err = 0;

	if (!mapped_objects_are_many(objects) || !lock_objects(unwinding))
		return;
	pthread_mutex_unlock(&unwinding->lock);
	if (unwinding->now)
		err = task_state_visit_objects(unwinding->now, mark, objects);
	if (unwinding->flown && !err)
		err = task_state_visit_objects(unwinding->flown, mark, objects);
	if (!err && mapped_objects_give_up(objects))
		heap_trim(); /* else new tables lie behind what is left of others, and the heap grows for hours */
	unlock_objects(unwinding);
	pthread_mutex_lock(&unwinding->lock);
}

/* All that is known, and what has to go. The lock is held by the thread that resolves, and released for that. */
static int resolve(struct unwinding_stage *stage, enum stage_flush why)
{
	struct unwinding *unwinding = stage->unwinding;
	int err = 0;

	do {
		unwinding->requested_again = false;
		look_at_new(unwinding);
		/* All that this output will ever have has come, and of the others what is as old. */
		for (struct unwind_batch *pending = why == STAGE_END ? stage->first : NULL; pending;
		     pending = pending->next)
			if (pending->last_ns > unwinding->horizon_ns)
				unwinding->horizon_ns = pending->last_ns;
		find_horizon(unwinding);
		err = end_doubt(unwinding);
		if (!err)
			err = unwind_known(stage);
	} while (!err && unwinding->requested_again && !unwinding->nr_to_resolve);
	give_up_tables(unwinding);
	if (why == STAGE_MEMORY || err)
		give_up_waiting(stage);
	return err;
}

static uint64_t cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* It waits for a flush, with what else has come until then. */
static int process(struct stage *base, struct batch *batch)
{
	struct unwinding_stage *stage = (struct unwinding_stage *)base;
	struct unwinding *unwinding = stage->unwinding;

	pthread_mutex_lock(&unwinding->lock);
	struct unwind_batch *pending = take_spare(unwinding);
	if (!pending) {
		pthread_mutex_unlock(&unwinding->lock);
		stage_batch_free(base, batch); /* no stack is stored, whatever happens */
		return -ENOMEM;
	}
	pending->stage = stage;
	pending->batch = batch;
	pending->read_ns = batch->read_ns;
	*(stage->last ? &stage->last->next : &stage->first) = pending;
	stage->last = pending;
	if (!stage->first_new)
		stage->first_new = pending;
	pthread_mutex_unlock(&unwinding->lock);
	return 0;
}

static int flush(struct stage *base, enum stage_flush why)
{
	struct unwinding_stage *stage = (struct unwinding_stage *)base;
	struct unwinding *unwinding = stage->unwinding;
	uint64_t from_ns = cpu_ns();
	int err = 0;

	pthread_mutex_lock(&unwinding->lock);
	stage->complete_ns = stage->stage.complete_ns;
	if (begin_to_resolve(unwinding, why == STAGE_MEMORY || why == STAGE_END)) {
		err = resolve(stage, why);
		end_resolving(unwinding);
	}
	int pass_err = pass_on(stage);
	unwinding->counts.cpu_ns += cpu_ns() - from_ns;
	pthread_mutex_unlock(&unwinding->lock);
	return err ? err : pass_err;
}

int unwinding_snapshot(struct unwinding *unwinding, struct batch_pool *pool, struct buf *records)
{
	if (!unwinding || !unwinding->flown)
		return 0;
	struct unwinding_stage none = {.unwinding = unwinding};
	struct batch batch = {.records = records->data, .len = records->len};
	struct unwind_batch pending = {.stage = &none, .batch = &batch};
	pthread_mutex_lock(&unwinding->lock);
	begin_to_resolve(unwinding, true);
	look_at_new(unwinding); /* a flush may have left that to the thread that has just resolved */
	unwinding->work[0] = &pending;
	unwinding->nr_work = 1;
	carry_out(unwinding, look_at_batch, NULL, 0);
	if (!pending.stacks.nr && pending.events.nr)
		finish_batch(&pending);
	while (!pending.err && pending.next_stack < pending.stacks.nr) {
		pending.err = task_state_advance(unwinding->flown, pending.first_stack_ns);
		if (!pending.err)
			carry_out(unwinding, unwind_batch, unwinding->flown, task_state_next_ns(unwinding->flown) - 1);
	}
	end_resolving(unwinding);
	pthread_mutex_unlock(&unwinding->lock);
	if (pending.nr_broken)
		batch_pool_count_dropped(pool, broken_reason, pending.nr_broken);
	free(pending.stacks.list);
	free(pending.events.list);
	records->len = pending.err ? 0 : batch.len;
	return pending.err;
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
	free_all(stage->first);
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

/* What threads that drain have unwound, and the threads that help them have used. The lock is held. */
static void count_drained(struct unwinding *unwinding)
{
	ring_unwinders_count(unwinding->ring_unwinders, &unwinding->counts);
	if (unwinding->drained)
		unwinding->counts.cpu_ns +=
			drained_state_cpu_ns(unwinding->drained) + row_makers_cpu_ns(unwinding->row_makers);
}

/* Numbers of chains by how they end, for `report --loss`. */
static int account(struct stage_maker *maker, struct ledger *ledger)
{
	struct unwinding *unwinding = (struct unwinding *)maker;
	const struct unwinding_counts *now = &unwinding->counts;
	int err = 0;

	pthread_mutex_lock(&unwinding->lock);
	count_drained(unwinding);
	const struct {
		const char *name;
		uint64_t nr;
	} rows[NR_ACCOUNTS] = {
		{"stacks whole", now->by_end[UNWIND_COMPLETE]},
		{"stacks of more frames", now->by_end[UNWIND_FULL]},
		{"stacks cut", now->by_end[UNWIND_CUT_STACK]},
		{"stacks copied in part", now->by_end[UNWIND_SHORT_COPY]},
		{"stacks of signal handlers", now->by_end[UNWIND_OTHER_STACK]},
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

static void close_rings(struct unwinding *unwinding)
{
	ring_unwinders_free(take_ptr(unwinding->ring_unwinders));
	row_makers_free(take_ptr(unwinding->row_makers));
	drained_state_free(take_ptr(unwinding->drained));
}

static int make_ring_unwinders(struct unwinding *unwinding, const struct unwinding_rings *rings)
{
	const struct drained_state_params state = {.rings = rings,
						   .events = &unwinding->events,
						   .objects = unwinding->objects,
						   .realtime = unwinding->realtime};
	struct row_makers_params makers = {.events = &unwinding->events,
					   .by_event = unwinding->by_event,
					   .objects = unwinding->objects,
					   .tables = unwinding->tables,
					   .realtime = unwinding->realtime};
	struct ring_unwinders_params params = {.rings = rings,
					       .events = &unwinding->events,
					       .by_event = unwinding->by_event,
					       .tables = unwinding->tables};
	int err = drained_state_new(&state, &unwinding->drained);

	makers.state = params.state = unwinding->drained;
	if (!err)
		err = row_makers_new(&makers, &unwinding->row_makers);
	params.makers = unwinding->row_makers;
	return err ? err : ring_unwinders_new(&params, &unwinding->ring_unwinders);
}

int unwinding_open_rings(struct unwinding *unwinding, const struct unwinding_rings *rings, struct batch_pool *pool)
{
	if (!unwinding->now)
		return 0;
	int err = make_ring_unwinders(unwinding, rings);
	if (err) {
		close_rings(unwinding);
		return err;
	}
	err = drained_state_start(unwinding->drained);
	if (!err)
		err = row_makers_start(unwinding->row_makers);
	if (err) {
		log_verbose("no sample is unwound in its ring: cannot start a thread: %s", strerror(-err));
		close_rings(unwinding);
		return 0;
	}
	pool->observer = ring_unwinders_observer(unwinding->ring_unwinders);
	open_drained_state(unwinding);
	return 0;
}

struct ring_converter *unwinding_converter(struct unwinding *unwinding, size_t thread)
{
	return unwinding->ring_unwinders ? ring_unwinders_get(unwinding->ring_unwinders, thread) : NULL;
}

static int make_states(struct unwinding *unwinding)
{
	const struct ring_events *events = &unwinding->events;

	for (size_t i = 0; i < events->nr_events; i++) {
		if (!unwinding->by_event[i].unwinds)
			continue;
		struct task_state **state = events->events[i].attr.write_backward ? &unwinding->flown : &unwinding->now;
		if (!*state)
			*state = task_state_new(unwinding->objects, events->trailer_bytes, max_event_bytes);
		if (!*state)
			return -ENOMEM;
	}
	return 0;
}

static unsigned nr_helpers(void)
{
	long nr_cpus = sysconf(_SC_NPROCESSORS_ONLN), nr = nr_cpus / 2 < FEW_THREADS ? nr_cpus / 2 : FEW_THREADS;

	nr = nr_cpus / 4 > nr ? nr_cpus / 4 : nr;
	return nr < MOST_THREADS ? (unsigned)nr : MOST_THREADS;
}

static int make_unwinders(struct unwinding *unwinding)
{
	const unsigned nr = nr_helpers() + 2;

	unwinding->unwinders = calloc(nr, sizeof(*unwinding->unwinders));
	if (!unwinding->unwinders)
		return -ENOMEM;
	for (; unwinding->nr_workers < nr; unwinding->nr_workers++) {
		struct stack_unwinder *unwinder = &unwinding->unwinders[unwinding->nr_workers];
		unwinder->events = &unwinding->events;
		unwinder->by_event = unwinding->by_event;
		unwinder->cache = unwind_cache_new(unwinding->tables);
		if (!unwinder->cache)
			return -ENOMEM;
	}
	return thread_pool_new(nr, &unwinding->pool);
}

int unwinding_new(const struct unwinding_params *params, struct unwinding **ret)
{
	struct unwinding *unwinding = calloc(1, sizeof(*unwinding));

	if (!unwinding)
		return -ENOMEM;
	pthread_mutex_init(&unwinding->lock, NULL);
	pthread_cond_init(&unwinding->resolved, NULL);
	pthread_mutex_init(&unwinding->work_lock, NULL);
	pthread_cond_init(&unwinding->built, NULL);
	unwinding->maker = (struct stage_maker){.make = make, .initial_state = take_initial_state, .account = account};
	unwinding->realtime = params->realtime;
	unwinding->tables = unwind_tables_new(NULL, max_table_bytes);
	unwinding->objects = mapped_objects_new(unwinding->tables, &idle_limits, params->watch);
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
	free_all(unwinding->spare);
	time_queue_fini(&unwinding->waiting);
	thread_pool_free(unwinding->pool);
	close_rings(unwinding);
	for (size_t i = 0; i < unwinding->nr_workers; i++)
		unwind_cache_free(unwinding->unwinders[i].cache);
	free(unwinding->unwinders);
	task_state_free(unwinding->now);
	task_state_free(unwinding->flown);
	mapped_objects_free(unwinding->objects);
	unwind_tables_free(unwinding->tables);
	ring_events_fini(&unwinding->events);
	free(unwinding->by_event);
	pthread_cond_destroy(&unwinding->built);
	pthread_mutex_destroy(&unwinding->work_lock);
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
	count_drained(unwinding);
	counts = unwinding->counts;
	pthread_mutex_unlock(&unwinding->lock);
	unwind_tables_stats(unwinding->tables, &stats);
	counts.nr_tables = stats.nr_tables;
	counts.table_bytes = stats.table_bytes;
	counts.nr_given_up = stats.nr_given_up;
	counts.build_ns = stats.build_ns;
	return counts;
}
