/* SPDX-License-Identifier: MIT */
#include "record/adapt/steering.h"

#include "base/clock.h"
#include "base/log.h"
#include "record/drain/reader.h"
#include "stream/batch_pool.h"

int steering_open(struct steering *steering, const struct governor_bounds *bounds)
{
	*steering = (struct steering){0};
	governor_init(&steering->governor, bounds);
	return notifier_open(&steering->notifier);
}

void steering_close(struct steering *steering)
{
	notifier_close(&steering->notifier);
	ledger_fini(&steering->done);
}

/* After many, those of one kind that follow each other are one. Out of memory: it was told with -v. */
static void note(struct steering *steering, const struct governor_action *action, uint64_t now_ns)
{
	enum { MANY = 16384 };
	struct ledger *done = &steering->done;
	struct ledger_action *last = done->nr_actions ? &done->actions[done->nr_actions - 1] : NULL;
	const struct ledger_action noted = {
		.ns = now_ns, .kind = action->kind, .cpu = -1, .tid = -1, .from = action->from, .to = action->to};

	if (done->nr_actions >= MANY && last->kind == noted.kind)
		last->to = noted.to;
	else
		(void)!ledger_add_action(done, &noted);
}

static void carry_out(struct steering *steering, const struct governor_action *action)
{
	switch (action->kind) {
	case LEDGER_LEVEL_CHANGED:
		batch_pool_set_level(steering->pool, (int)action->to);
		log_verbose("compression: level %d instead of %d: %s", (int)action->to, (int)action->from,
			    action->to > action->from            ? "there is CPU time for it again"
			    : steering->governor.is_memory_short ? "records wait in memory to be compressed"
								 : "--max-cpu");
		break;
	case LEDGER_POLL_INTERVAL:
		reader_control_set_interval(steering->readers, (unsigned)(action->to / 1000000));
		log_verbose(
			"rings are visited every %d ms (0: when they wake the recorder), not every %d, for --max-cpu",
			(int)(action->to / 1000000), (int)(action->from / 1000000));
		break;
	case LEDGER_FAST_POLL:
		atomic_store_explicit(&steering->readers->fast_poll_ms, (unsigned)(action->to / 1000000),
				      memory_order_relaxed);
		log_verbose(action->to ? "rings are visited every ms, before they wake the recorder: some were found "
					 "nearly full"
				       : "rings are visited when they wake the recorder again: none was found nearly "
					 "full any more");
		break;
	default: /* others are others' */ break;
	}
}

/* A system call, unlike other clocks: only where CPU time is bounded. */
static uint64_t used_ns(const struct steering *steering)
{
	return steering->governor.bounds.cpus ? clock_ns(CLOCK_PROCESS_CPUTIME_ID) : 0;
}

/* The notifier is needed where the governor does not look again by itself, or only much later. */
static void sleep_on(struct steering *steering)
{
	if (!steering->governor.bounds.cpus || steering->governor.next_ns == UINT64_MAX)
		notifier_arm(&steering->notifier);
	else
		notifier_disarm(&steering->notifier);
}

static void look(struct steering *steering)
{
	const struct batch_pool_stats packing = batch_pool_stats(steering->pool);
	const struct governor_stats stats = {
		.now_ns = clock_ns(CLOCK_MONOTONIC),
		.cpu_ns = used_ns(steering),
		.nr_extents = packing.nr_extents,
		.nr_free = packing.nr_free,
		.nr_to_pack = packing.nr_to_pack,
		.nr_packing = packing.nr_packing,
		.nr_blocked = packing.nr_blocked,
		.nr_unwritten = packing.nr_unwritten,
		.nr_packed = packing.nr_packed,
		.nr_near_full = atomic_load_explicit(&steering->readers->nr_near_full, memory_order_relaxed),
	};
	struct governor_action actions[GOVERNOR_MOST_ACTIONS];
	size_t nr = governor_decide(&steering->governor, &stats, actions);

	for (size_t i = 0; i < nr; i++) {
		note(steering, &actions[i], stats.now_ns);
		carry_out(steering, &actions[i]);
	}
	sleep_on(steering);
}

void steering_start(struct steering *steering, struct batch_pool *pool, struct reader_control *readers)
{
	steering->pool = pool;
	steering->readers = readers;
	steering->start_ns = clock_ns(CLOCK_MONOTONIC);
	steering->start_cpu_ns = used_ns(steering);
	look(steering);
}

uint64_t steering_next_ns(const struct steering *steering)
{
	return steering->governor.next_ns;
}

void steering_step(struct steering *steering, bool notified)
{
	if (notified)
		notifier_acknowledge(&steering->notifier);
	if (notified || clock_ns(CLOCK_MONOTONIC) >= steering->governor.next_ns)
		look(steering);
}

void steering_stop(struct steering *steering)
{
	steering->end_ns = clock_ns(CLOCK_MONOTONIC);
	steering->end_cpu_ns = used_ns(steering);
}

int steering_cost(const struct steering *steering, struct ledger *ledger)
{
	if (!steering->governor.bounds.cpus)
		return 0;
	int err = ledger_add_cost(ledger, "cpu bound percent", (uint64_t)(steering->governor.bounds.cpus * 100 + 0.5));

	if (!err)
		err = ledger_add_cost(ledger, "bounded time ns", steering->end_ns - steering->start_ns);
	return err ? err : ledger_add_cost(ledger, "bounded cpu ns", steering->end_cpu_ns - steering->start_cpu_ns);
}

int steering_account(struct steering *steering, struct ledger *ledger)
{
	return ledger_add_actions(ledger, &steering->done);
}

struct steering_result steering_result(const struct steering *steering, const struct ledger *ledger)
{
	struct steering_result result = {.bound = steering->governor.bounds.cpus,
					 .lowest_level = steering->governor.bounds.level};

	for (size_t i = 0; i < steering->done.nr_actions; i++) {
		const struct ledger_action *action = &steering->done.actions[i];
		if (action->kind == LEDGER_LEVEL_CHANGED && (int)action->to < result.lowest_level)
			result.lowest_level = (int)action->to;
		if (action->kind == LEDGER_POLL_INTERVAL && action->to > result.slowest_ns)
			result.slowest_ns = action->to;
	}
	result.was_low = result.lowest_level < steering->governor.bounds.level;
	for (size_t i = 0; i < ledger->nr_entries; i++)
		result.nr_dropped += ledger->entries[i].cause == LEDGER_CPU_LIMIT ? ledger->entries[i].count : 0;
	if (steering->end_ns > steering->start_ns)
		result.used = (double)(steering->end_cpu_ns - steering->start_cpu_ns) /
			      (double)(steering->end_ns - steering->start_ns);
	return result;
}
