/* SPDX-License-Identifier: MIT */
#include "record/unwind/unwinding.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/hash_table.h"
#include "perfdata/attr.h"
#include "perfdata/callchain.h"
#include "perfdata/ledger.h"
#include "perfdata/record.h"
#include "perfdata/sample.h"
#include "record/unwind/mapped_objects.h"
#include "record/unwind/time_queue.h"
#include "tasks/maps.h"
#include "tasks/task_event.h"
#include "tasks/tasks.h"
#include "unwind/unwind.h"

enum {
	MOST_FRAMES = 1024,
	GAP = 0, /* type of what is left behind a record that became shorter; no record of the kernel has it */
};

/* Of all tables: those of some browsers. What would exceed it has none, and chains through it follow frame pointers. */
static const size_t max_table_bytes = 512 << 20;

/* A batch that came, in the order of its stage. */
struct held {
	struct held *next;
	struct batch *batch; /* NULL: it was passed on */
	uint64_t read_ns;    /* of the batch */
	uint64_t last_ns;    /* of its records, by their own clock; 0: none tells */
	size_t nr_waiting;   /* samples that are not unwound */
	size_t nr_broken;    /* samples that were left out, for what they are cannot be read */
};

struct unwinding_stage {
	struct stage stage;
	struct unwinding *unwinding;
	struct unwinding_stage *next;
	uint64_t complete_ns; /* the stage's, for the threads of others */
	struct held *first, *last;
};

struct unwinding {
	struct stage_maker maker;
	const struct event_desc *events;
	bool *unwinds; /* heap; by event */
	size_t nr_events;
	unsigned max_stack;
	struct hash_table ids; /* of the events: index + 1 */
	int id_offset, time_offset, time_distance;
	size_t trailer_bytes;

	pthread_mutex_t lock; /* of all below */
	struct unwinding_stage *stages;
	struct time_queue samples;     /* that wait: where they are, and their struct held */
	struct time_queue task_events; /* that are younger than the last sample that was unwound: heap */
	uint64_t horizon_ns;           /* all records up to this time have come, by their own clock */
	struct tasks *tasks;           /* as of the records up to some time before that */
	struct mapped_objects *objects;
	struct unwind_tables *tables;
	struct unwind_cache *cache;
	const struct maps *maps;                   /* of the sample that is unwound */
	struct mapped_object *found;               /* looked up last */
	struct unwinding_counts counts, in_ledger; /* so far; of those, what ledgers of finished outputs have */
	uint64_t ips[MOST_FRAMES];
};

static int learn_events(struct unwinding *unwinding, const struct unwinding_params *params)
{
	const struct perf_event_attr *first = &params->events[0].attr;

	unwinding->unwinds = calloc(params->nr_events, sizeof(*unwinding->unwinds));
	if (!unwinding->unwinds)
		return -ENOMEM;
	memcpy(unwinding->unwinds, params->unwinds, params->nr_events * sizeof(*unwinding->unwinds));
	unwinding->events = params->events;
	unwinding->nr_events = params->nr_events;
	unwinding->id_offset = sample_id_offset(first);
	unwinding->time_offset = sample_time_offset(first);
	unwinding->time_distance = sample_time_distance(first);
	unwinding->trailer_bytes = sample_id_bytes(first);
	if (unwinding->time_offset < 0 || unwinding->time_distance < 0)
		return -EINVAL;
	for (size_t i = 0; i < params->nr_events; i++)
		if (params->unwinds[i] && params->events[i].attr.sample_stack_user > unwinding->counts.stack_bytes)
			unwinding->counts.stack_bytes = params->events[i].attr.sample_stack_user;
	for (size_t i = 0; i < params->nr_events; i++)
		for (size_t k = 0; k < params->events[i].nr_ids; k++)
			if (hash_table_add_number(&unwinding->ids, params->events[i].ids[k], i + 1))
				return -ENOMEM;
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

static int add_map(struct unwinding *unwinding, const struct task_event *event)
{
	struct map map = {.start = event->start, .pgoff = event->pgoff};

	if (event->pid == UINT32_MAX || (event->misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_USER)
		return 0; /* the kernel's */
	struct task *task = tasks_make(unwinding->tasks, event->pid, event->tid);
	if (!task)
		return -ENOMEM;
	if (__builtin_add_overflow(event->start, event->len, &map.end))
		map.end = UINT64_MAX;
	map.object = mapped_objects_find(unwinding->objects, event);
	return task->maps ? maps_insert(task->maps, &map) : 0;
}

static int apply(struct unwinding *unwinding, const struct perf_event_header *record, size_t trailer_bytes)
{
	struct task_event event;
	struct task *task;

	if (task_event_decode(record, record, trailer_bytes, &event) <= 0)
		return 0;
	switch (event.type) {
	case PERF_RECORD_COMM:
		task = event.misc & PERF_RECORD_MISC_COMM_EXEC ? tasks_find(unwinding->tasks, event.tid) : NULL;
		if (task)
			tasks_exec(unwinding->tasks, task);
		return 0;
	case PERF_RECORD_FORK: return tasks_fork(unwinding->tasks, &event, tasks_find(unwinding->tasks, event.ptid));
	case PERF_RECORD_EXIT:
		task = tasks_find(unwinding->tasks, event.tid);
		if (task && task->pid == event.pid)
			tasks_end(unwinding->tasks, task);
		return 0;
	default: return add_map(unwinding, &event);
	}
}

/* Those up to that time. */
static int apply_until(struct unwinding *unwinding, uint64_t time_ns)
{
	const struct time_entry *first;
	int err = 0;

	while (!err && (first = time_queue_first(&unwinding->task_events)) && first->time_ns <= time_ns) {
		void *record = first->item;
		time_queue_drop_first(&unwinding->task_events);
		err = apply(unwinding, record, unwinding->trailer_bytes);
		free(record);
	}
	return err;
}

static int take_task_event(struct unwinding *unwinding, const uint8_t *record, const struct perf_event_header *header,
			   uint64_t time_ns)
{
	struct time_entry entry = {.time_ns = time_ns, .item = malloc(header->size)};

	if (!entry.item)
		return -ENOMEM;
	memcpy(entry.item, record, header->size);
	int err = time_queue_put(&unwinding->task_events, &entry);
	if (err)
		free(entry.item);
	return err;
}

static bool is_task_event(uint32_t type)
{
	return type == PERF_RECORD_COMM || type == PERF_RECORD_FORK || type == PERF_RECORD_EXIT ||
	       type == PERF_RECORD_MMAP || type == PERF_RECORD_MMAP2;
}

static int take_initial_state(struct stage_maker *maker, struct span records)
{
	struct unwinding *unwinding = (struct unwinding *)maker;
	const uint8_t *bytes = records.ptr;
	int err = 0;

	for (size_t at = 0; at < records.len && !err;) {
		struct perf_event_header header;
		if (records.len - at < sizeof(header))
			return -EBADMSG;
		memcpy(&header, bytes + at, sizeof(header));
		if (header.size < sizeof(header) || header.size > records.len - at)
			return -EBADMSG;
		if (is_task_event(header.type))
			err = apply(unwinding, (const struct perf_event_header *)(bytes + at),
				    unwinding->trailer_bytes);
		at += header.size;
	}
	return err;
}

/*
 * Samples.
 */

/* NULL: no record has said anything about its process. */
static struct maps *maps_of(const struct unwinding *unwinding, const struct sample *sample)
{
	const struct task *task = tasks_find(unwinding->tasks, sample->tid);

	if (!task || task->pid != sample->pid)
		task = tasks_find(unwinding->tasks, sample->pid);
	return task ? task->maps : NULL;
}

static struct unwind_object *find_object(void *ctx, uint64_t pc, uint64_t *ret_offset)
{
	struct unwinding *unwinding = ctx;
	const struct map *map = maps_find(unwinding->maps, pc);

	if (!map || !map->object)
		return NULL;
	unwinding->found = map->object;
	*ret_offset = map_address(map, pc);
	return mapped_object_table(map->object);
}

/* The innermost frame alone, where the program was sampled and not the kernel. */
static unsigned innermost(const struct sample *sample, uint64_t *ret_ip)
{
	bool user = sample->cpumode == PERF_RECORD_MISC_USER;

	*ret_ip = sample->ip;
	return user && sample->present & PERF_SAMPLE_IP ? 1 : 0;
}

/* The user frames of a sample whose registers are there, into unwinding->ips. Returns how many. */
static unsigned user_frames(struct unwinding *unwinding, const struct sample *sample)
{
	struct unwind_chain chain = {.ips = unwinding->ips, .max = unwinding->max_stack};

	unwinding->maps = maps_of(unwinding, sample);
	if (!unwinding->maps) {
		unwinding->counts.nr_unmapped++;
		return 0;
	}
	const struct unwind_space space = {
		.find = find_object, .ctx = unwinding, .generation = maps_generation(unwinding->maps)};
	for (;;) { /* each turn builds a table */
		unwind_chain(unwinding->cache, &space, &sample->user_regs, sample->user_stack, &chain);
		if (chain.end != UNWIND_NOT_READY)
			break;
		mapped_object_build(unwinding->found);
	}
	unwinding->counts.by_end[chain.end]++;
	return chain.nr;
}

static void put_gap(uint8_t *at, size_t size)
{
	struct perf_event_header gap = {.type = GAP, .size = (uint16_t)size};

	if (size)
		memcpy(at, &gap, sizeof(gap));
}

/*
 * Replaces the stack in the record by its chain, and leaves a gap behind it. With `resolved` the tasks are as of its
 * time; else they are not known, and the chain has the innermost frame alone.
 */
static void unwind_record(struct unwinding *unwinding, struct held *held, uint8_t *bytes, bool resolved)
{
	struct perf_event_header *record = (struct perf_event_header *)bytes;
	size_t size = record->size;
	const struct perf_event_attr *attr = &unwinding->events[event_of(unwinding, bytes, size)].attr;
	struct callchain user = {.ips = unwinding->ips, .most = unwinding->max_stack};
	struct sample sample;

	if (sample_decode(attr, record, &sample)) { /* the kernel makes no such sample; it may hold a stack */
		held->nr_broken++;
		put_gap(bytes, size);
		return;
	}
	if (sample.user_regs.abi != PERF_SAMPLE_REGS_ABI_NONE) {
		unwinding->counts.nr_stacks++;
		unwinding->counts.nr_too_soon += !resolved;
		if (resolved)
			user.nr = user_frames(unwinding, &sample);
		if (!user.nr)
			user.nr = innermost(&sample, unwinding->ips);
	}
	size_t new_size = callchain_convert(attr, record, &sample, &user);
	put_gap(bytes + new_size, size - new_size);
}

/* All samples up to that time, with the task events before each. */
static int unwind_until(struct unwinding *unwinding, uint64_t time_ns)
{
	const struct time_entry *first;
	int err = 0;

	while (!err && (first = time_queue_first(&unwinding->samples)) && first->time_ns <= time_ns) {
		const struct time_entry sample = *first;
		time_queue_drop_first(&unwinding->samples);
		err = apply_until(unwinding, sample.time_ns);
		unwind_record(unwinding, sample.owner, sample.item, true);
		((struct held *)sample.owner)->nr_waiting--;
	}
	return err ? err : apply_until(unwinding, time_ns);
}

/* Up to when all records of all outputs have come: those of batches that had been read by then are among them. */
static void find_horizon(struct unwinding *unwinding)
{
	uint64_t complete_ns = UINT64_MAX;

	for (struct unwinding_stage *each = unwinding->stages; each; each = each->next)
		if (each->complete_ns < complete_ns)
			complete_ns = each->complete_ns;
	for (struct unwinding_stage *each = unwinding->stages; each; each = each->next)
		for (struct held *held = each->first; held && held->read_ns <= complete_ns; held = held->next)
			if (held->last_ns > unwinding->horizon_ns)
				unwinding->horizon_ns = held->last_ns;
}

/*
 * Batches.
 */

/* Closes the gaps. */
static void compact(struct batch *batch)
{
	uint8_t *records = batch->records;
	size_t to = 0;

	for (size_t at = 0; at < batch->len;) {
		struct perf_event_header header;
		memcpy(&header, records + at, sizeof(header));
		if (header.type != GAP) {
			if (to != at)
				memmove(records + to, records + at, header.size);
			to += header.size;
		}
		at += header.size;
	}
	batch->len = to;
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
		compact(batch);
		pthread_mutex_unlock(&unwinding->lock);
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

/* What is known to be resolvable now. The lock is held. */
static int unwind_complete(struct unwinding_stage *stage)
{
	stage->complete_ns = stage->stage.complete_ns;
	find_horizon(stage->unwinding);
	int err = unwind_until(stage->unwinding, stage->unwinding->horizon_ns);
	int pass_err = pass_on(stage);

	return err ? err : pass_err;
}

/* One record of a batch that came. */
static int look_at(struct unwinding *unwinding, struct held *held, uint8_t *record,
		   const struct perf_event_header *header)
{
	bool is_sample = header->type == PERF_RECORD_SAMPLE;

	if (!is_sample && !is_task_event(header->type))
		return 0;
	uint64_t time_ns = time_of(unwinding, record, header);
	if (time_ns > held->last_ns)
		held->last_ns = time_ns;
	if (!is_sample)
		return take_task_event(unwinding, record, header, time_ns);
	if (!unwinding->unwinds[event_of(unwinding, record, header->size)])
		return 0;
	const struct time_entry entry = {.time_ns = time_ns, .item = record, .owner = held};
	if (time_queue_put(&unwinding->samples, &entry))
		unwind_record(unwinding, held, record, false);
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
	int pass_err = unwind_complete(stage);
	unwinding->counts.cpu_ns += cpu_ns() - from_ns;
	pthread_mutex_unlock(&unwinding->lock);
	return err ? err : pass_err;
}

/* Everything that this stage has goes, resolved or not. The lock is held. */
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
			unwind_record(unwinding, held, first->item, false);
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
	int err = unwind_complete(stage);
	if (why == STAGE_MEMORY || err) {
		int give_up_err = give_up_waiting(stage);
		int pass_err = pass_on(stage);
		err = err ? err : give_up_err ? give_up_err : pass_err;
	}
	unwinding->counts.cpu_ns += cpu_ns() - from_ns;
	pthread_mutex_unlock(&unwinding->lock);
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
	static const char *const names[UNWIND_NR_ENDS] = {
		[UNWIND_COMPLETE] = "stacks whole",
		[UNWIND_FULL] = "stacks of more frames",
		[UNWIND_CUT_STACK] = "stacks cut",
		[UNWIND_NO_CFI] = "stacks without CFI",
		[UNWIND_BAD_MEMORY] = "stacks of bad memory",
		[UNWIND_NO_OBJECT] = "stacks without object",
		[UNWIND_NO_REGISTERS] = "stacks missing",
	};
	struct unwinding *unwinding = (struct unwinding *)maker;
	struct unwinding_counts *now = &unwinding->counts, *before = &unwinding->in_ledger;
	int err = 0;

	pthread_mutex_lock(&unwinding->lock);
	for (size_t i = 0; i < UNWIND_NR_ENDS && !err; i++)
		if (names[i] && now->by_end[i] > before->by_end[i])
			err = ledger_add_cost(ledger, names[i], now->by_end[i] - before->by_end[i]);
	if (!err && now->nr_unmapped > before->nr_unmapped)
		err = ledger_add_cost(ledger, "stacks without maps", now->nr_unmapped - before->nr_unmapped);
	if (!err && now->nr_too_soon > before->nr_too_soon)
		err = ledger_add_cost(ledger, "stacks without memory", now->nr_too_soon - before->nr_too_soon);
	if (!err && now->cpu_ns > before->cpu_ns)
		err = ledger_add_cost(ledger, "unwinding cpu ns", now->cpu_ns - before->cpu_ns);
	*before = *now;
	pthread_mutex_unlock(&unwinding->lock);
	return err;
}

int unwinding_new(const struct unwinding_params *params, struct unwinding **ret)
{
	struct unwinding *unwinding = calloc(1, sizeof(*unwinding));

	if (!unwinding)
		return -ENOMEM;
	pthread_mutex_init(&unwinding->lock, NULL);
	unwinding->maker = (struct stage_maker){.make = make, .initial_state = take_initial_state, .account = account};
	unwinding->max_stack = params->max_stack ? params->max_stack : CALLCHAIN_FRAMES;
	if (unwinding->max_stack > MOST_FRAMES)
		unwinding->max_stack = MOST_FRAMES;
	unwinding->tasks = tasks_new(0);
	unwinding->tables = unwind_tables_new(NULL, max_table_bytes);
	unwinding->cache = unwinding->tables ? unwind_cache_new(unwinding->tables) : NULL;
	unwinding->objects = mapped_objects_new(unwinding->tables);
	bool made = unwinding->tasks && unwinding->objects && unwinding->cache;
	int err = made ? learn_events(unwinding, params) : -ENOMEM;
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
	for (size_t i = 0; i < unwinding->task_events.nr; i++)
		free(unwinding->task_events.entries[i].item);
	time_queue_fini(&unwinding->task_events);
	time_queue_fini(&unwinding->samples);
	unwind_cache_free(unwinding->cache);
	tasks_free(unwinding->tasks);
	mapped_objects_free(unwinding->objects);
	unwind_tables_free(unwinding->tables);
	hash_table_fini(&unwinding->ids);
	free(unwinding->unwinds);
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
