/* SPDX-License-Identifier: MIT */
#include "perfdata/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash_table.h"
#include "base/span.h"
#include "perfdata/record.h"
#include "perfdata/sample.h"

enum { VERSION = 1, FLAG_COUNTED = 1, FLAG_TASK_RINGS = 2, ENTRY_BYTES = 40, COST_BYTES = 40, ACTION_BYTES = 40 };

_Static_assert(sizeof(struct ledger_entry) == ENTRY_BYTES, "as it is stored");
_Static_assert(sizeof(struct ledger_cost) == COST_BYTES, "as it is stored");

bool ledger_cause_loses(uint32_t cause)
{
	return cause != LEDGER_FROZEN && cause != LEDGER_TRIMMED && cause != LEDGER_DISABLED &&
	       cause != LEDGER_OVERWRITTEN;
}

bool ledger_cause_is_full(uint32_t cause)
{
	return cause == LEDGER_RING_FULL || cause == LEDGER_CPU_LIMIT || cause == LEDGER_STORAGE;
}

const char *ledger_cause_name(uint32_t cause)
{
	static const char *const names[LEDGER_CAUSES] = {
		[LEDGER_RING_FULL] = "ring full",
		[LEDGER_PAUSED] = "paused",
		[LEDGER_THROTTLED] = "throttled",
		[LEDGER_TRIMMED] = "trimmed",
		[LEDGER_CPU_LIMIT] = "CPU limit",
		[LEDGER_FROZEN] = "frozen",
		[LEDGER_DISK_FULL] = "disk full",
		[LEDGER_CPU_BACK] = "CPU came online",
		[LEDGER_STORAGE] = "storage did not keep up",
		[LEDGER_DROPPED] = "dropped by the recorder",
		[LEDGER_DISABLED] = "events disabled",
		[LEDGER_OVERWRITTEN] = "overwritten",
	};

	return cause < LEDGER_CAUSES ? names[cause] : "unknown";
}

_Static_assert(sizeof(struct ledger_action) == ACTION_BYTES, "as it is stored");

const char *ledger_action_kind_name(uint32_t kind)
{
	static const char *const names[LEDGER_ACTION_KINDS] = {
		[LEDGER_RING_GREW] = "ring grew",           [LEDGER_RING_STAYS] = "ring stays",
		[LEDGER_RING_SPLIT] = "ring split",         [LEDGER_LEVEL_CHANGED] = "level changed",
		[LEDGER_POLL_INTERVAL] = "poll interval",   [LEDGER_FAST_POLL] = "fast poll",
		[LEDGER_THREAD_CHANGED] = "thread changed",
	};

	return kind < LEDGER_ACTION_KINDS ? names[kind] : "unknown";
}

void ledger_fini(struct ledger *ledger)
{
	free(ledger->entries);
	free(ledger->costs);
	free(ledger->actions);
	*ledger = (struct ledger){0};
}

int ledger_add(struct ledger *ledger, const struct ledger_entry *entry)
{
	if (array_room(ledger->entries, ledger->nr_entries, ledger->entries_room))
		return -ENOMEM;
	ledger->entries[ledger->nr_entries++] = *entry;
	return 0;
}

int ledger_add_action(struct ledger *ledger, const struct ledger_action *action)
{
	if (array_room(ledger->actions, ledger->nr_actions, ledger->actions_room))
		return -ENOMEM;
	ledger->actions[ledger->nr_actions++] = *action;
	return 0;
}

static int by_moment(const void *a, const void *b)
{
	const struct ledger_action *left = a, *right = b;

	return (left->ns > right->ns) - (left->ns < right->ns);
}

int ledger_add_actions(struct ledger *ledger, const struct ledger *other)
{
	int err = 0;

	for (size_t i = 0; i < other->nr_actions && !err; i++)
		err = ledger_add_action(ledger, &other->actions[i]);
	if (ledger->nr_actions)
		qsort(ledger->actions, ledger->nr_actions, sizeof(*ledger->actions), by_moment);
	return err;
}

int ledger_add_cost(struct ledger *ledger, const char *name, uint64_t value)
{
	struct ledger_cost *grown = reallocarray(ledger->costs, ledger->nr_costs + 1, sizeof(*grown));
	struct ledger_cost cost = {.value = value};

	if (!grown)
		return -ENOMEM;
	memcpy(cost.name, name, strnlen(name, sizeof(cost.name) - 1));
	grown[ledger->nr_costs++] = cost;
	ledger->costs = grown;
	return 0;
}

int ledger_set_cost(struct ledger *ledger, const char *name, uint64_t value)
{
	for (size_t i = 0; i < ledger->nr_costs; i++)
		if (!strncmp(ledger->costs[i].name, name, sizeof(ledger->costs[i].name) - 1)) {
			ledger->costs[i].value = value;
			return 0;
		}
	return ledger_add_cost(ledger, name, value);
}

/* Both counts in front of both lists, so that a later version can add a list behind them. */
void ledger_encode(const struct ledger *ledger, struct buf *out)
{
	buf_put_u32(out, VERSION);
	buf_put_u32(out, (ledger->counted ? FLAG_COUNTED : 0) | (ledger->task_rings ? FLAG_TASK_RINGS : 0));
	buf_put_u64(out, ledger->started_ns);
	buf_put_u64(out, ledger->ended_ns);
	buf_put_u64(out, ledger->nr_entries);
	buf_put_u64(out, ledger->nr_costs);
	buf_put(out, ledger->entries, ledger->nr_entries * sizeof(*ledger->entries));
	buf_put(out, ledger->costs, ledger->nr_costs * sizeof(*ledger->costs));
	buf_put_u64(out, ledger->nr_actions);
	buf_put(out, ledger->actions, ledger->nr_actions * sizeof(*ledger->actions));
}

/* A copy of `nr` things that must all be there. NULL and a bad cursor, or NULL alone: out of memory. */
static void *take_list(struct cursor *at, uint64_t nr, size_t bytes)
{
	const void *from = nr <= cursor_left(at) / bytes ? cursor_take(at, nr * bytes) : NULL;

	at->bad |= !from;
	void *copy = from ? malloc(nr * bytes + 1) : NULL;
	if (copy)
		memcpy(copy, from, nr * bytes);
	return copy;
}

int ledger_decode(struct span payload, struct ledger *ret)
{
	struct cursor at = cursor_over(payload);
	struct ledger ledger = {0};
	uint32_t version = cursor_u32(&at), flags = cursor_u32(&at);

	ledger.counted = flags & FLAG_COUNTED;
	ledger.task_rings = flags & FLAG_TASK_RINGS;
	ledger.started_ns = cursor_u64(&at);
	ledger.ended_ns = cursor_u64(&at);
	ledger.nr_entries = cursor_u64(&at);
	ledger.nr_costs = cursor_u64(&at);
	if (at.bad || version != VERSION)
		return -EBADMSG;
	ledger.entries = take_list(&at, ledger.nr_entries, sizeof(*ledger.entries));
	ledger.costs = at.bad ? NULL : take_list(&at, ledger.nr_costs, sizeof(*ledger.costs));
	/* The first files have no actions. */
	ledger.nr_actions = at.bad || !cursor_left(&at) ? 0 : cursor_u64(&at);
	ledger.actions = at.bad ? NULL : take_list(&at, ledger.nr_actions, sizeof(*ledger.actions));
	if (!ledger.entries || !ledger.costs || !ledger.actions) {
		ledger_fini(&ledger);
		return at.bad ? -EBADMSG : -ENOMEM;
	}
	for (size_t i = 0; i < ledger.nr_costs; i++)
		ledger.costs[i].name[sizeof(ledger.costs[i].name) - 1] = '\0';
	*ret = ledger;
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct ledger_entry *left = a, *right = b;

	if (left->cpu != right->cpu)
		return left->cpu < right->cpu ? -1 : 1;
	if (left->tid != right->tid)
		return left->tid < right->tid ? -1 : 1;
	return (left->from_ns > right->from_ns) - (left->from_ns < right->from_ns);
}

static int by_time(const void *a, const void *b)
{
	const struct ledger_entry *left = a, *right = b;

	return (left->from_ns > right->from_ns) - (left->from_ns < right->from_ns);
}

/* What the gaps cover together; `apart`: sorted by place, each for itself; else by time. */
static uint64_t covered_ns(const struct ledger_entry *gaps, size_t nr, bool apart)
{
	uint64_t sum = 0, end = 0;

	for (size_t i = 0; i < nr; i++) {
		if (apart && i && (gaps[i].cpu != gaps[i - 1].cpu || gaps[i].tid != gaps[i - 1].tid))
			end = 0;
		if (!ledger_cause_loses(gaps[i].cause))
			continue;
		uint64_t from = gaps[i].from_ns > end ? gaps[i].from_ns : end;
		if (gaps[i].to_ns > from)
			sum += gaps[i].to_ns - from;
		end = gaps[i].to_ns > end ? gaps[i].to_ns : end;
	}
	return sum;
}

static int place_order(const struct ledger_entry *a, const struct ledger_entry *b)
{
	if (a->cpu != b->cpu)
		return a->cpu < b->cpu ? -1 : 1;
	return (a->tid > b->tid) - (a->tid < b->tid);
}

enum { SLACK_NS = 1000000 }; /* the two clocks were compared at the start and at the end only */

/* A reading that found that a ring was full, and which of those before it, of the same place, ended last. */
struct reading {
	struct ledger_entry entry;
	uint64_t last_ns;
	uint32_t last_cause;
};

/* By place and time. Heap; NULL: out of memory. */
static struct reading *readings_by_place(struct ledger *ledger, size_t *ret_nr)
{
	struct reading *readings = calloc(ledger->nr_entries + 1, sizeof(*readings));
	size_t nr = 0;

	if (readings && ledger->nr_entries)
		qsort(ledger->entries, ledger->nr_entries, sizeof(*ledger->entries), by_place);
	for (size_t i = 0; readings && i < ledger->nr_entries; i++) {
		const struct ledger_entry *entry = &ledger->entries[i];
		const struct reading *before = nr ? &readings[nr - 1] : NULL;
		if (!ledger_cause_is_full(entry->cause))
			continue;
		bool later = !before || place_order(&before->entry, entry) || before->last_ns <= entry->to_ns;
		readings[nr++] = (struct reading){.entry = *entry,
						  .last_ns = later ? entry->to_ns : before->last_ns,
						  .last_cause = later ? entry->cause : before->last_cause};
	}
	*ret_nr = nr;
	return readings;
}

/* Of those that touch a gap and end at `end`: the last to begin. There is one. What a hostile file has is cut short. */
static uint32_t cause_of(const struct reading *readings, size_t first, size_t end, uint64_t from_ns)
{
	enum { MOST_LOOKED_AT = 64 };

	for (size_t i = end; i > first && end - i < MOST_LOOKED_AT; i--)
		if (readings[i - 1].entry.to_ns >= from_ns)
			return readings[i - 1].entry.cause;
	return readings[end - 1].last_cause;
}

static void clip_gap(const struct reading *readings, size_t nr, struct ledger_entry *gap)
{
	/* The first to reach the gap is the first behind which the last end so far is not before the gap. */
	size_t first = partition_point(nr, i, ({
					       int order = place_order(&readings[i].entry, gap);
					       order < 0 || (!order && readings[i].last_ns < gap->from_ns);
				       }));
	size_t end = partition_point(nr, i, ({
					     int order = place_order(&readings[i].entry, gap);
					     order < 0 || (!order && readings[i].entry.from_ns <= gap->to_ns);
				     }));

	if (first >= end)
		return;
	uint64_t from = readings[first].entry.from_ns, to = readings[end - 1].last_ns;
	gap->cause = cause_of(readings, first, end, gap->from_ns);
	from -= from < SLACK_NS ? from : SLACK_NS;
	to += SLACK_NS;
	if (from > gap->from_ns)
		gap->from_ns = from;
	if (to < gap->to_ns)
		gap->to_ns = to;
}

int ledger_clip(struct ledger *ledger, struct ledger_entry *gaps, size_t nr_gaps)
{
	size_t nr;

	if (!ledger->nr_entries || !nr_gaps || !ledger->counted)
		return 0;
	struct reading *readings = readings_by_place(ledger, &nr);
	if (!readings)
		return -ENOMEM;
	qsort(gaps, nr_gaps, sizeof(*gaps), by_place);
	for (size_t i = 0; i < nr_gaps; i++)
		if (gaps[i].cause == LEDGER_RING_FULL)
			clip_gap(readings, nr, &gaps[i]);
	free(readings);
	return 0;
}

/* The ledger's entries of what no record tells, or not so well. */
static bool only_in_ledger(const struct ledger_entry *entry)
{
	return !ledger_cause_is_full(entry->cause) && entry->cause != LEDGER_THROTTLED &&
	       ledger_cause_loses(entry->cause);
}

int ledger_join(struct ledger *ledger, struct ledger_entry *reported, size_t nr_reported, struct ledger_entry **ret,
		size_t *ret_nr)
{
	struct ledger_entry *gaps = calloc(nr_reported + ledger->nr_entries + 1, sizeof(*gaps));
	size_t nr = 0;

	if (!gaps || ledger_clip(ledger, reported, nr_reported)) {
		free(gaps);
		return -ENOMEM;
	}
	for (size_t i = 0; i < nr_reported; i++)
		if (reported[i].cause != LEDGER_PAUSED || !ledger->ended_ns)
			gaps[nr++] = reported[i];
	for (size_t i = 0; i < ledger->nr_entries; i++)
		if (only_in_ledger(&ledger->entries[i]))
			gaps[nr++] = ledger->entries[i];
	*ret = gaps;
	*ret_nr = nr;
	return 0;
}

int ledger_sum(struct ledger_entry *entries, size_t nr, struct ledger_sum *ret)
{
	struct ledger_sum sum = {0};
	struct ledger_entry *all = calloc(nr + 1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	if (nr) {
		qsort(entries, nr, sizeof(*entries), by_place);
		memcpy(all, entries, nr * sizeof(*entries));
		qsort(all, nr, sizeof(*all), by_time);
	}
	sum.gap_ns = covered_ns(entries, nr, true);
	sum.any_ns = covered_ns(all, nr, false);
	free(all);
	const struct ledger_entry *worst = NULL;
	for (size_t i = 0; i < nr; i++) {
		const struct ledger_entry *entry = &entries[i];
		if (!ledger_cause_loses(entry->cause))
			continue;
		if (!worst || entry->to_ns - entry->from_ns > worst->to_ns - worst->from_ns)
			worst = entry;
	}
	if (worst)
		sum.worst = *worst;
	*ret = sum;
	return 0;
}

bool loss_times_samples(const struct loss_times *times, uint32_t event)
{
	const struct perf_event_attr *attr = event < times->nr_events ? &times->events[event].attr : NULL;

	return !attr || attr->type != PERF_TYPE_SOFTWARE || attr->config != PERF_COUNT_SW_DUMMY;
}

/* Rings are told apart by what fills them: samples, or only what the tracking event of a ring of its own tells. */
static bool samples(const struct loss_times *times, const struct loss_id *id)
{
	return loss_times_samples(times, id->event);
}

static int by_ring(const void *a, const void *b, void *arg)
{
	const struct loss_times *times = arg;
	const struct loss_id *left = &times->ids[*(const size_t *)a], *right = &times->ids[*(const size_t *)b];

	if (left->cpu != right->cpu)
		return left->cpu < right->cpu ? -1 : 1;
	if (left->tid != right->tid)
		return left->tid < right->tid ? -1 : 1;
	return (int)samples(times, left) - (int)samples(times, right);
}

static bool same_place(const struct loss_id *a, const struct loss_id *b)
{
	return a->cpu == b->cpu && a->tid == b->tid;
}

/*
 * Each ring is known by one of its ids. Indexes that tell another thing each time, which no recorder writes, are not
 * followed for ever.
 */
static int find_rings(struct loss_times *times)
{
	enum { MOST_SORTED = 1 << 22 };

	if (!times->rings_changed || times->nr_sorted > MOST_SORTED)
		return 0;
	times->rings_changed = false;
	times->nr_sorted += times->nr_ids;
	size_t *order = calloc(times->nr_ids + 1, sizeof(*order));
	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < times->nr_ids; i++)
		order[i] = i;
	qsort_r(order, times->nr_ids, sizeof(*order), by_ring, times);
	times->nr_places = 0;
	for (size_t i = 0; i < times->nr_ids; i++) {
		struct loss_id *id = &times->ids[order[i]], *before = i ? &times->ids[order[i - 1]] : NULL;
		id->ring = before && !by_ring(&order[i - 1], &order[i], times) ? before->ring : order[i];
		/* Another one may have kept it, before there were more of them. */
		if (id->last_ns > times->ids[id->ring].last_ns)
			times->ids[id->ring].last_ns = id->last_ns;
		times->nr_places += !before || !same_place(before, id);
	}
	free(order);
	return 0;
}

/*
 * Where a sample of the one event of a file without ids tells its CPU: perf_event_open(2) for the order of the fields.
 */
static void find_cpu(struct loss_times *times)
{
	uint64_t type = times->events[0].attr.sample_type;
	const uint64_t before =
		PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_STREAM_ID;

	times->cpu_offset = -1;
	if (type & PERF_SAMPLE_CPU)
		times->cpu_offset =
			(int)(sizeof(struct perf_event_header) + 8 * (size_t)__builtin_popcountll(type & before));
	times->cpu_distance = times->events[0].attr.sample_id_all && type & PERF_SAMPLE_CPU ? 8 : -1;
}

/* With what its records have in common, of which there are many. */
static struct loss_id loss_id_of(const struct loss_times *times, uint64_t id, size_t event)
{
	const struct perf_event_attr *attr = &times->events[event].attr;
	const bool waits = attr->type == PERF_TYPE_SOFTWARE && attr->config == PERF_COUNT_SW_CONTEXT_SWITCHES &&
			   attr->sample_type & PERF_SAMPLE_RAW;

	return (struct loss_id){
		.id = id,
		.event = (uint32_t)event,
		.time_offset = sample_time_offset(attr),
		.time_distance = sample_time_distance(attr),
		.wait_offset = waits ? sample_period_offset(attr) : -1,
		.cpu = -1,
		.tid = -1,
	};
}

/* In front of the last one, which is of records without an id. 0 or -ENOMEM. */
static int add_id(struct loss_times *times, uint64_t id, size_t event)
{
	/* More than there are, and the last one. */
	if (array_room(times->ids, times->nr_ids + 1, times->ids_room) ||
	    hash_table_add_number(&times->numbers, id, times->nr_ids + 1))
		return -ENOMEM;
	times->ids[times->nr_ids + 1] = times->ids[times->nr_ids];
	times->ids[times->nr_ids + 1].ring = times->nr_ids + 1;
	times->ids[times->nr_ids++] = loss_id_of(times, id, event);
	return 0;
}

int loss_times_add_events(struct loss_times *times, const struct event_desc *events, size_t nr_events)
{
	const size_t nr_before = times->nr_events;
	int err = 0;

	times->events = events;
	times->nr_events = nr_events;
	if (!nr_before && nr_events) {
		times->id_offset = sample_id_offset(&events[0].attr);
		times->id_distance = sample_id_distance(&events[0].attr);
		times->ids = calloc(1, sizeof(*times->ids));
		if (!times->ids)
			return -ENOMEM;
		times->ids_room = 1;
		times->ids[0] = loss_id_of(times, 0, 0);
		find_cpu(times);
	}
	for (size_t i = nr_before; i < nr_events; i++)
		for (size_t k = 0; k < events[i].nr_ids && !err; k++)
			err = add_id(times, events[i].ids[k], i);
	times->rings_changed |= times->nr_places; /* which were found for those before */
	return err;
}

int loss_times_init(struct loss_times *times, const struct event_desc *events, size_t nr_events)
{
	*times = (struct loss_times){.id_offset = -1, .id_distance = -1};
	return loss_times_add_events(times, events, nr_events);
}

void loss_times_fini(struct loss_times *times)
{
	hash_table_fini(&times->numbers);
	free(times->ids);
	free(times->gaps);
	*times = (struct loss_times){0};
}

static struct loss_id *find_id(struct loss_times *times, uint64_t id)
{
	if (times->last < times->nr_ids && times->ids[times->last].id == id)
		return &times->ids[times->last];
	uint64_t number = hash_table_find_number(&times->numbers, id);
	if (!number)
		return NULL;
	times->last = (size_t)number - 1;
	return &times->ids[times->last];
}

static uint64_t u64_at(const uint8_t *record, size_t at, size_t size)
{
	uint64_t value = 0;

	if (at + sizeof(value) <= size)
		memcpy(&value, record + at, sizeof(value));
	return value;
}

/* A file of one event has no ids in its records: the CPU tells which it would be, if that is there. */
static struct loss_id *id_of_cpu(struct loss_times *times, const uint8_t *record,
				 const struct perf_event_header *header)
{
	bool sample = header->type == PERF_RECORD_SAMPLE;
	int known = sample ? times->cpu_offset : times->cpu_distance;
	struct loss_id *unknown = &times->ids[times->nr_ids];

	if (times->nr_ids == 1)
		return times->ids;
	/* LOST_SAMPLES is made by recorders, who leave the CPU of its trailer 0. */
	if (known < 0 || (size_t)known + sizeof(uint64_t) > header->size || header->type == PERF_RECORD_LOST_SAMPLES)
		return unknown;
	int32_t cpu = (int32_t)u64_at(record, sample ? (size_t)known : header->size - (size_t)known, header->size);
	if (times->ids[times->last].cpu == cpu)
		return &times->ids[times->last];
	for (size_t i = 0; i < times->nr_ids; i++) {
		if (times->ids[i].cpu == cpu) {
			times->last = i;
			return &times->ids[i];
		}
	}
	return unknown;
}

/* The event's id that the record belongs to. NULL: none. */
static struct loss_id *id_of(struct loss_times *times, const uint8_t *record, const struct perf_event_header *header)
{
	bool sample = header->type == PERF_RECORD_SAMPLE;
	int known = sample ? times->id_offset : times->id_distance;

	if (known < 0)
		return id_of_cpu(times, record, header);
	if ((size_t)known > header->size)
		return NULL;
	return find_id(times, u64_at(record, sample ? (size_t)known : header->size - (size_t)known, header->size));
}

static uint64_t time_of(const struct loss_id *id, const uint8_t *record, const struct perf_event_header *header)
{
	bool sample = header->type == PERF_RECORD_SAMPLE;
	int known = sample ? id->time_offset : id->time_distance;

	if (known < 0 || (size_t)known > header->size)
		return 0;
	return u64_at(record, sample ? (size_t)known : header->size - (size_t)known, header->size);
}

/*
 * The sample of a time off the CPU tells of a record of the ring, but stands where all rings had come to its time,
 * behind later ones. One whose period is 0 tells of none: the recorder has made it of what other CPUs know, since
 * records were lost.
 */
static void take_time(struct loss_times *times, const struct loss_id *id, const uint8_t *record,
		      const struct perf_event_header *header, uint64_t time_ns)
{
	uint64_t *last_ns = &times->ids[id->ring].last_ns;

	if (id->wait_offset < 0 || (time_ns > *last_ns && u64_at(record, (size_t)id->wait_offset, header->size)))
		*last_ns = time_ns;
}

/* ID_INDEX: nr, then {id, index, cpu, tid} of 64 bits each. */
static int take_index(struct loss_times *times, const uint8_t *record, const struct perf_event_header *header)
{
	enum { FRONT = 16, ENTRY = 32 };
	uint64_t nr = u64_at(record, sizeof(*header), header->size);

	for (uint64_t i = 0; i < nr && FRONT + (i + 1) * ENTRY <= header->size; i++) {
		size_t at = FRONT + (size_t)i * ENTRY;
		struct loss_id *id = find_id(times, u64_at(record, at, header->size));
		if (!id)
			continue;
		int32_t cpu = (int32_t)u64_at(record, at + 16, header->size);
		/* Else the ring is that of the CPU. */
		int32_t tid = cpu < 0 ? (int32_t)u64_at(record, at + 24, header->size) : -1;
		times->rings_changed |= id->cpu != cpu || id->tid != tid;
		id->cpu = cpu;
		id->tid = tid;
	}
	times->rings_changed |= !times->nr_places;
	return times->nr_places ? 0 : find_rings(times); /* else with the next record: there may be many indexes */
}

static int add_gap(struct loss_times *times, const struct loss_id *id, enum ledger_cause cause, uint64_t from_ns,
		   uint64_t to_ns, uint64_t count)
{
	if (array_room(times->gaps, times->nr_gaps, times->gaps_room))
		return -ENOMEM;
	times->gaps[times->nr_gaps++] = (struct ledger_entry){
		/* Of a ring, but for what loss_times_end() may leave out. */
		.event = cause == LEDGER_THROTTLED || !samples(times, id) ? id->event : (uint32_t)LEDGER_NO_EVENT,
		.cause = cause,
		.cpu = id->cpu,
		.tid = id->tid,
		.from_ns = from_ns && from_ns < to_ns ? from_ns : to_ns,
		.to_ns = to_ns,
		.count = count,
	};
	return 0;
}

static int take_lost(struct loss_times *times, struct loss_id *id, const uint8_t *record,
		     const struct perf_event_header *header, uint64_t time_ns)
{
	uint64_t count = u64_at(record, sizeof(*header) + sizeof(uint64_t), header->size);
	struct loss_id *ring = &times->ids[id->ring];
	uint64_t from_ns = ring->last_ns;
	/* A ring that is overwritten is never full. */
	bool overwritten = times->events[id->event].attr.write_backward;
	enum ledger_cause cause = overwritten ? LEDGER_PAUSED : LEDGER_RING_FULL;

	id->lost_records += count;
	if (time_ns)
		ring->last_ns = time_ns;
	return time_ns ? add_gap(times, id, cause, from_ns, time_ns, count) : 0;
}

/* The times of both stand in their bodies: {time, id, stream_id}. */
static int take_throttle(struct loss_times *times, const uint8_t *record, const struct perf_event_header *header)
{
	uint64_t time_ns = u64_at(record, sizeof(*header), header->size);
	struct loss_id *id = find_id(times, u64_at(record, sizeof(*header) + sizeof(uint64_t), header->size));
	uint64_t from_ns;

	if (!id || !time_ns)
		return 0;
	from_ns = id->throttled_from_ns;
	id->throttled_from_ns = header->type == PERF_RECORD_THROTTLE ? (from_ns ? from_ns : time_ns) : 0;
	if (header->type == PERF_RECORD_THROTTLE || !from_ns)
		return 0;
	return add_gap(times, id, LEDGER_THROTTLED, from_ns, time_ns, 0);
}

void loss_times_reach(struct loss_times *times, uint64_t first_ns, uint64_t last_ns)
{
	if (first_ns && (!times->first_ns || first_ns < times->first_ns))
		times->first_ns = first_ns;
	if (last_ns > times->last_ns)
		times->last_ns = last_ns;
}

int loss_times_take(struct loss_times *times, const uint8_t *record, const struct perf_event_header *header)
{
	uint32_t type = header->type;

	if (!times->ids)
		return 0;
	if (type == RECORD_ID_INDEX)
		return take_index(times, record, header);
	int err = find_rings(times);
	if (err)
		return err;
	if (type == PERF_RECORD_THROTTLE || type == PERF_RECORD_UNTHROTTLE)
		return take_throttle(times, record, header);
	if (type != PERF_RECORD_SAMPLE && type != PERF_RECORD_LOST && type != PERF_RECORD_LOST_SAMPLES)
		return 0;
	struct loss_id *id = id_of(times, record, header);
	if (!id)
		return 0;
	if (type == PERF_RECORD_LOST_SAMPLES) {
		id->lost_samples += u64_at(record, sizeof(*header), header->size);
		return 0;
	}
	uint64_t time_ns = time_of(id, record, header);
	if (type == PERF_RECORD_LOST)
		return take_lost(times, id, record, header, time_ns);
	id->captured++;
	if (!time_ns)
		return 0;
	take_time(times, id, record, header, time_ns);
	loss_times_reach(times, time_ns, time_ns);
	return 0;
}

/* Where only task events were lost no sample is missing, and how long that lasted is not known. */
static void leave_out_task_events(struct loss_times *times, bool task_rings)
{
	size_t nr = 0;

	for (size_t i = 0; i < times->nr_gaps; i++) {
		struct ledger_entry gap = times->gaps[i];
		bool task_events = gap.cause == LEDGER_RING_FULL && gap.event != (uint32_t)LEDGER_NO_EVENT;
		if (task_events && task_rings)
			continue;
		if (task_events)
			gap.event = (uint32_t)LEDGER_NO_EVENT;
		times->gaps[nr++] = gap;
	}
	times->nr_gaps = nr;
}

/* What is known of the rings of one CPU, or of one task that has a ring. */
struct loss_at {
	int32_t cpu, tid;
	uint64_t reported; /* by LOST records */
	uint64_t last_ns;  /* of the last record */
};

static int by_loss_place(const void *a, const void *b)
{
	const struct loss_at *left = a, *right = b;

	if (left->cpu != right->cpu)
		return left->cpu < right->cpu ? -1 : 1;
	return (left->tid > right->tid) - (left->tid < right->tid);
}

/* In the order of places. Heap; NULL: out of memory. */
static struct loss_at *reported_by_place(const struct loss_times *times, bool task_rings, size_t *ret_nr)
{
	struct loss_at *all = calloc(times->nr_ids + 1, sizeof(*all));
	size_t nr = 0, nr_all = 0;

	for (size_t i = 0; all && i < times->nr_ids; i++) {
		const struct loss_id *id = &times->ids[i];
		if (samples(times, id) || !task_rings)
			all[nr_all++] = (struct loss_at){id->cpu, id->tid, id->lost_records, id->last_ns};
	}
	if (nr_all)
		qsort(all, nr_all, sizeof(*all), by_loss_place);
	for (size_t i = 0; i < nr_all; i++) {
		if (!nr || by_loss_place(&all[nr - 1], &all[i])) {
			all[nr++] = all[i];
			continue;
		}
		all[nr - 1].reported += all[i].reported;
		all[nr - 1].last_ns = all[i].last_ns > all[nr - 1].last_ns ? all[i].last_ns : all[nr - 1].last_ns;
	}
	*ret_nr = nr;
	return all;
}

/* Readings that found that a ring was full, and lost samples: by place and time. Heap; NULL: out of memory. */
static struct ledger_entry *full_readings(const struct loss_times *times, const struct ledger *ledger, size_t *ret_nr)
{
	struct ledger_entry *readings = calloc(ledger->nr_entries + 1, sizeof(*readings));
	size_t nr = 0;

	for (size_t i = 0; readings && i < ledger->nr_entries; i++) {
		const struct ledger_entry *entry = &ledger->entries[i];
		if (ledger_cause_is_full(entry->cause) &&
		    (!ledger->task_rings || loss_times_samples(times, entry->event)))
			readings[nr++] = *entry;
	}
	if (nr)
		qsort(readings, nr, sizeof(*readings), by_place);
	*ret_nr = nr;
	return readings;
}

/* No record of its ring that was written while this file was recorded stands before it. */
static bool began_earlier(const struct ledger_entry *gap, bool first, uint64_t started_ns)
{
	return ledger_cause_is_full(gap->cause) && (gap->from_ns < started_ns || (first && gap->from_ns == gap->to_ns));
}

/* Of the gap's place, when readings are in the order of places: those that began before it ended. */
static uint64_t found_before(const struct ledger_entry *readings, const uint64_t *sums, size_t nr,
			     const struct ledger_entry *gap)
{
	const struct ledger_entry end = {.cpu = gap->cpu, .tid = gap->tid, .from_ns = gap->to_ns + SLACK_NS};
	size_t from = partition_point(nr, i, place_order(&readings[i], gap) < 0);
	size_t to = partition_point(nr, i, by_place(&readings[i], &end) < 0);

	return to > from ? sums[to] - sums[from] : 0;
}

/* Keeps `found` records at most. false: none is left. */
static bool leave_out_of(struct ledger_entry *gap, uint64_t found, uint64_t started_ns, struct loss_at *at)
{
	const uint64_t earlier = gap->count > found ? gap->count - found : 0;

	if (at)
		at->reported -= earlier < at->reported ? earlier : at->reported;
	gap->count -= earlier;
	if (started_ns < gap->to_ns)
		gap->from_ns = started_ns;
	return found;
}

static struct loss_at *find_place(struct loss_at *places, size_t nr, const struct ledger_entry *entry)
{
	const struct loss_at key = {.cpu = entry->cpu, .tid = entry->tid};

	return nr ? bsearch(&key, places, nr, sizeof(key), by_loss_place) : NULL;
}

/*
 * A LOST record is written before the next record of its ring, which may be in a later file of --switch-output than the
 * loss and its count. Of gaps that began earlier this file keeps what its own readings have found. The gaps are in the
 * order of places.
 */
static int leave_out_earlier(struct loss_times *times, uint64_t started_ns, const struct ledger_entry *readings,
			     size_t nr_readings, struct loss_at *places, size_t nr_places)
{
	uint64_t *sums = calloc(nr_readings + 1, sizeof(*sums)), used = 0;
	struct ledger_entry before = {0};
	size_t nr = 0;

	if (!sums)
		return -ENOMEM;
	for (size_t i = 0; i < nr_readings; i++)
		sums[i + 1] = sums[i] + readings[i].count;
	for (size_t i = 0; i < times->nr_gaps; i++) {
		struct ledger_entry gap = times->gaps[i];
		bool first = !i || place_order(&before, &gap), kept = true;
		used = first ? 0 : used;
		before = gap;
		if (began_earlier(&gap, first, started_ns)) {
			uint64_t found = found_before(readings, sums, nr_readings, &gap);
			kept = leave_out_of(&gap, found > used ? found - used : 0, started_ns,
					    find_place(places, nr_places, &gap));
			used += gap.count;
		}
		if (kept)
			times->gaps[nr++] = gap;
	}
	times->nr_gaps = nr;
	free(sums);
	return 0;
}

/* What records tell of gaps. */
struct reported {
	struct ledger_entry *gaps; /* heap; that LOST records ended: in the order of place and time */
	size_t nr;
	size_t nr_all; /* others as well: the first ones of the loss_times */
};

/* Of gaps that are in the order of place and time. 0 or -ENOMEM. */
static int find_reported(const struct loss_times *times, struct reported *ret)
{
	*ret = (struct reported){.gaps = calloc(times->nr_gaps + 1, sizeof(*ret->gaps)), .nr_all = times->nr_gaps};
	for (size_t i = 0; ret->gaps && i < times->nr_gaps; i++)
		if (ledger_cause_is_full(times->gaps[i].cause))
			ret->gaps[ret->nr++] = times->gaps[i];
	return ret->gaps ? 0 : -ENOMEM;
}

/* Does a gap that a LOST record ended touch it? */
static bool is_reported(const struct reported *reported, const struct ledger_entry *reading)
{
	const struct ledger_entry key = {.cpu = reading->cpu, .tid = reading->tid, .from_ns = reading->to_ns};
	size_t behind = partition_point(reported->nr, i, by_place(&reported->gaps[i], &key) < 0);
	const struct ledger_entry *gap = behind ? &reported->gaps[behind - 1] : NULL;

	return gap && !place_order(gap, &key) && gap->to_ns > reading->from_ns;
}

/* One gap with that which comes behind it, when nothing lies between. */
static int add_unreported_gap(struct loss_times *times, size_t nr_reported, const struct ledger_entry *reading,
			      uint64_t last_ns, uint64_t count)
{
	struct ledger_entry *later = times->nr_gaps > nr_reported ? &times->gaps[times->nr_gaps - 1] : NULL;
	uint64_t from_ns = last_ns > reading->from_ns ? last_ns : reading->from_ns;
	const struct loss_id place = {.cpu = reading->cpu, .tid = reading->tid, .event = reading->event};

	if (from_ns >= reading->to_ns)
		from_ns = reading->from_ns;
	if (later && later->cpu == reading->cpu && later->tid == reading->tid && later->cause == reading->cause &&
	    later->from_ns <= reading->to_ns) {
		later->from_ns = from_ns < later->from_ns ? from_ns : later->from_ns;
		later->count += count;
		return 0;
	}
	int err = add_gap(times, &place, (enum ledger_cause)reading->cause, from_ns, reading->to_ns, count);
	if (!err)
		times->gaps[times->nr_gaps - 1].event = (uint32_t)LEDGER_NO_EVENT;
	return err;
}

/*
 * `readings`: all of one place. The last come first: a loss that a LOST record tells came before those that none does.
 */
static int add_unreported_of(struct loss_times *times, const struct reported *reported,
			     const struct ledger_entry *readings, size_t nr, const struct loss_at *at)
{
	uint64_t counted = 0, unreported;
	int err = 0;

	for (size_t i = 0; i < nr; i++)
		counted += readings[i].count;
	unreported = counted > at->reported ? counted - at->reported : 0;
	for (size_t i = nr; i-- > 0 && unreported && !err;) {
		uint64_t count = readings[i].count < unreported ? readings[i].count : unreported;
		if (is_reported(reported, &readings[i]))
			continue;
		err = add_unreported_gap(times, reported->nr_all, &readings[i], at->last_ns, count);
		unreported -= count;
	}
	if (!unreported || err)
		return err;
	return add_unreported_gap(times, reported->nr_all, &readings[nr - 1], at->last_ns, unreported);
}

/*
 * A LOST record is written before the next record of its ring. Where none came any more the counters alone tell that
 * there was a gap: from the last record, or the reading before the loss, to the reading that found it.
 */
static int add_untold(struct loss_times *times, const struct ledger *ledger)
{
	size_t nr_places, nr_readings, end;
	struct loss_at *places = reported_by_place(times, ledger->task_rings, &nr_places);
	struct ledger_entry *readings = full_readings(times, ledger, &nr_readings);
	struct reported reported = {0};
	int err = places && readings ? 0 : -ENOMEM;

	if (!err && times->nr_gaps)
		qsort(times->gaps, times->nr_gaps, sizeof(*times->gaps), by_place);
	if (!err && ledger->started_ns)
		err = leave_out_earlier(times, ledger->started_ns, readings, nr_readings, places, nr_places);
	err = err ? err : find_reported(times, &reported);
	for (size_t i = 0; !err && i < nr_readings; i = end) {
		for (end = i + 1; end < nr_readings && !place_order(&readings[end], &readings[i]);)
			end++;
		const struct loss_at *at = find_place(places, nr_places, &readings[i]);
		if (at)
			err = add_unreported_of(times, &reported, readings + i, end - i, at);
	}
	free(places);
	free(readings);
	free(reported.gaps);
	return err;
}

int loss_times_end(struct loss_times *times, uint64_t end_ns, const struct ledger *ledger)
{
	int err = times->ids ? find_rings(times) : 0;

	leave_out_task_events(times, ledger && ledger->task_rings);
	if (!err && ledger && ledger->counted && times->ids)
		err = add_untold(times, ledger);
	for (size_t i = 0; times->ids && i < times->nr_ids && !err; i++) {
		struct loss_id *id = &times->ids[i];
		if (id->throttled_from_ns && end_ns > id->throttled_from_ns)
			err = add_gap(times, id, LEDGER_THROTTLED, id->throttled_from_ns, end_ns, 0);
		id->throttled_from_ns = 0;
	}
	return err;
}
