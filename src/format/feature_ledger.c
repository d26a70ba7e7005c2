/* SPDX-License-Identifier: MIT */
#include "format/feature_ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cursor.h"

enum { VERSION = 1, FLAG_COUNTED = 1, ENTRY_BYTES = 40, COST_BYTES = 40, ACTION_BYTES = 40 };

_Static_assert(sizeof(struct ledger_entry) == ENTRY_BYTES, "as it is stored");
_Static_assert(sizeof(struct ledger_cost) == COST_BYTES, "as it is stored");

bool ledger_cause_loses(uint32_t cause)
{
	return cause != LEDGER_FROZEN && cause != LEDGER_TRIMMED;
}

const char *ledger_cause_name(uint32_t cause)
{
	static const char *const names[LEDGER_CAUSES] = {
		[LEDGER_RING_FULL] = "ring full", [LEDGER_PAUSED] = "paused",	    [LEDGER_THROTTLED] = "throttled",
		[LEDGER_TRIMMED] = "trimmed",	  [LEDGER_SHED] = "shed",	    [LEDGER_FROZEN] = "frozen",
		[LEDGER_DISK_FULL] = "disk full", [LEDGER_CPU_BACK] = "CPU came online",
	};

	return cause < LEDGER_CAUSES ? names[cause] : "unknown";
}

_Static_assert(sizeof(struct ledger_action) == ACTION_BYTES, "as it is stored");

const char *ledger_deed_name(uint32_t deed)
{
	static const char *const names[LEDGER_DEEDS] = {
		[LEDGER_RING_GREW] = "ring grew",
		[LEDGER_RING_STAYS] = "ring stays",
		[LEDGER_RING_SPLIT] = "ring split",
		[LEDGER_LEVEL_CHANGED] = "level changed",
		[LEDGER_DRAIN_PACED] = "drain paced",
		[LEDGER_DRAIN_HURRIED] = "drain hurried",
		[LEDGER_THREAD_CHANGED] = "thread changed",
	};

	return deed < LEDGER_DEEDS ? names[deed] : "unknown";
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
	struct ledger_entry *grown = reallocarray(ledger->entries, ledger->nr_entries + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	grown[ledger->nr_entries++] = *entry;
	ledger->entries = grown;
	return 0;
}

int ledger_add_action(struct ledger *ledger, const struct ledger_action *action)
{
	struct ledger_action *grown = reallocarray(ledger->actions, ledger->nr_actions + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	grown[ledger->nr_actions++] = *action;
	ledger->actions = grown;
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
	buf_put_u32(out, ledger->counted ? FLAG_COUNTED : 0);
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

/* Of a ring that was full LOST records tell, too, but not why. */
static bool is_of_full_ring(const struct ledger_entry *entry)
{
	return entry->cause == LEDGER_RING_FULL || entry->cause == LEDGER_SHED;
}

/* `readings` begin with those that may touch the gap. */
static void clip_gap(const struct ledger_entry *readings, size_t nr, struct ledger_entry *gap)
{
	enum { SLACK_NS = 1000000 }; /* the two clocks were compared at the start and at the end only */
	uint64_t from = UINT64_MAX, to = 0;

	for (size_t i = 0; i < nr && !place_order(&readings[i], gap) && readings[i].from_ns <= gap->to_ns; i++) {
		if (!is_of_full_ring(&readings[i]) || readings[i].to_ns < gap->from_ns)
			continue;
		gap->cause = readings[i].cause;
		from = readings[i].from_ns < from ? readings[i].from_ns : from;
		to = readings[i].to_ns > to ? readings[i].to_ns : to;
	}
	if (!to)
		return;
	if (from > SLACK_NS && from - SLACK_NS > gap->from_ns)
		gap->from_ns = from - SLACK_NS;
	if (to + SLACK_NS < gap->to_ns)
		gap->to_ns = to + SLACK_NS;
}

void ledger_clip(struct ledger *ledger, struct ledger_entry *gaps, size_t nr_gaps)
{
	const struct ledger_entry *readings = ledger->entries;
	size_t at = 0, nr = ledger->nr_entries;

	if (!nr || !nr_gaps || !ledger->counted)
		return;
	qsort(ledger->entries, nr, sizeof(*gaps), by_place);
	qsort(gaps, nr_gaps, sizeof(*gaps), by_place);
	for (size_t i = 0; i < nr_gaps; i++) {
		if (gaps[i].cause != LEDGER_RING_FULL)
			continue;
		while (at < nr && (place_order(&readings[at], &gaps[i]) < 0 ||
				   (!place_order(&readings[at], &gaps[i]) && readings[at].to_ns < gaps[i].from_ns)))
			at++;
		clip_gap(readings + at, nr - at, &gaps[i]);
	}
}

/* The ledger's entries of what no record tells, or not so well. */
static bool only_in_ledger(const struct ledger_entry *entry)
{
	return !is_of_full_ring(entry) && entry->cause != LEDGER_THROTTLED &&
	       ledger_cause_loses(entry->cause);
}

int ledger_join(struct ledger *ledger, struct ledger_entry *told, size_t nr_told, struct ledger_entry **ret,
		size_t *ret_nr)
{
	struct ledger_entry *gaps = calloc(nr_told + ledger->nr_entries + 1, sizeof(*gaps));
	size_t nr = 0;

	if (!gaps)
		return -ENOMEM;
	ledger_clip(ledger, told, nr_told);
	for (size_t i = 0; i < nr_told; i++)
		if (told[i].cause != LEDGER_PAUSED || !ledger->ended_ns)
			gaps[nr++] = told[i];
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
