/* SPDX-License-Identifier: MIT */
#include "record/steering.h"

#include "base/clock.h"
#include "base/log.h"
#include "record/drain_watch.h"
#include "record/plan.h"
#include "record/reader.h"
#include "stream/pack_pool.h"

int steering_open(struct steering *steering, const struct governor_bounds *bounds)
{
	*steering = (struct steering){0};
	governor_init(&steering->governor, bounds);
	return bell_open(&steering->bell);
}

void steering_close(struct steering *steering)
{
	bell_close(&steering->bell);
	governor_fini(&steering->governor);
	ledger_fini(&steering->done);
}

/* After many, those of one kind that follow each other are one. Out of memory: it was told with -v. */
static void note(struct steering *steering, const struct governor_action *action, uint64_t now_ns)
{
	enum { MANY = 16384 };
	struct ledger *done = &steering->done;
	struct ledger_action *last = done->nr_actions ? &done->actions[done->nr_actions - 1] : NULL;
	const struct ledger_action noted = {
		.ns = now_ns, .deed = action->deed, .cpu = -1, .tid = -1, .from = action->from, .to = action->to};

	if (done->nr_actions >= MANY && last->deed == noted.deed)
		last->to = noted.to;
	else
		(void)!ledger_add_action(done, &noted);
}

/* The governor leaves a ring where it is for long: they are not many. Out of memory: it was told with -v. */
static void note_move(struct steering *steering, const struct balance_move *move, size_t index, uint64_t done_ns)
{
	const struct plan_ring *ring = &steering->drain->plan->rings[index];
	const struct ledger_action noted = {
		.ns = done_ns,
		.deed = LEDGER_THREAD_CHANGED,
		.cpu = ring->cpu,
		.tid = ring->tid,
		.from = move->from,
		.to = move->to,
	};

	(void)!ledger_add_action(&steering->done, &noted);
	log_verbose("the ring of %s %d is drained by thread %zu instead of %zu: that one was busy for %.0f %% of its time, this one for %.0f %%",
		    ring->cpu < 0 ? "thread" : "CPU", ring->cpu < 0 ? ring->tid : ring->cpu, move->to, move->from,
		    100 * move->busy_from, 100 * move->busy_to);
}

static void settle_move(struct steering *steering)
{
	struct balance_move move;
	uint64_t done_ns;

	if (!steering->drain || !drain_watch_done(steering->drain, &move, &done_ns))
		return;
	for (size_t i = 0; i < move.nr_rings; i++)
		note_move(steering, &move, move.rings[i], done_ns);
}

static void carry_out(struct steering *steering, const struct governor_action *action)
{
	switch (action->deed) {
	case LEDGER_LEVEL_CHANGED:
		pack_pool_set_level(steering->pool, (int)action->to);
		log_verbose("compression: level %d instead of %d: %s", (int)action->to, (int)action->from,
			    action->to > action->from		  ? "there is time for it again"
			    : steering->governor.pressed ? "records wait in memory to be compressed"
							  : "--max-cpu");
		break;
	case LEDGER_DRAIN_PACED:
		reader_control_pace(steering->readers, (unsigned)(action->to / 1000000));
		log_verbose("rings are visited every %d ms (0: when they wake us), not every %d, for --max-cpu",
			    (int)(action->to / 1000000), (int)(action->from / 1000000));
		break;
	case LEDGER_DRAIN_HURRIED:
		atomic_store_explicit(&steering->readers->hurry_ms, (unsigned)(action->to / 1000000), memory_order_relaxed);
		log_verbose(action->to ? "rings are visited every ms, before they wake us: some were found nearly full"
				       : "rings are visited when they wake us again: none was found nearly full any more");
		break;
	case LEDGER_THREAD_CHANGED:
		drain_watch_order(steering->drain, &action->move);
		break;
	default: /* others are others' */
		break;
	}
}

/* A system call, unlike other clocks. Nobody wants to know where nothing is bounded. */
static uint64_t used_ns(const struct steering *steering)
{
	return steering->governor.bounds.cpus ? clock_ns(CLOCK_PROCESS_CPUTIME_ID) : 0;
}

/* Who looks again by itself need not be told; what fills the memory may come sooner than that. */
static void sleep_on(struct steering *steering)
{
	if (!steering->governor.bounds.cpus || steering->governor.next_ns == UINT64_MAX)
		bell_arm(&steering->bell);
	else
		bell_disarm(&steering->bell);
	if (steering->drain)
		drain_watch_attend(steering->drain, steering->governor.balance.next_ns != UINT64_MAX);
}

/* Only when it is time: it costs a system call or two for each thread. */
static const struct balance_sight *look_at_drain(struct steering *steering, uint64_t now_ns)
{
	struct drain_watch *drain = steering->drain;

	return drain && balance_wants(&steering->governor.balance, now_ns, drain_watch_tight(drain)) ? drain_watch_look(drain) : NULL;
}

static void be_restless(struct steering *steering)
{
	struct balance_move move;

	if (clock_ns(CLOCK_MONOTONIC) < steering->restless_ns)
		return;
	steering->restless_ns = clock_ns(CLOCK_MONOTONIC) + steering->drain->restless_ns;
	if (drain_watch_any_move(steering->drain, &move))
		drain_watch_order(steering->drain, &move);
}

static void look(struct steering *steering)
{
	const struct pack_sight packing = pack_pool_sight(steering->pool);
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	const struct governor_sight sight = {
		.now_ns = now_ns,
		.cpu_ns = used_ns(steering),
		.nr_extents = packing.nr_extents,
		.nr_free = packing.nr_free,
		.nr_to_pack = packing.nr_to_pack,
		.nr_packing = packing.nr_packing,
		.nr_blocked = packing.nr_blocked,
		.nr_unwritten = packing.nr_unwritten,
		.nr_packed = packing.nr_packed,
		.nr_tight = atomic_load_explicit(&steering->readers->nr_tight, memory_order_relaxed),
		.drain = look_at_drain(steering, now_ns),
	};
	struct governor_action actions[GOVERNOR_MOST_ACTIONS];
	size_t nr = governor_decide(&steering->governor, &sight, actions);

	for (size_t i = 0; i < nr; i++) {
		if (actions[i].deed != LEDGER_THREAD_CHANGED) /* it is noted when it is done */
			note(steering, &actions[i], sight.now_ns);
		carry_out(steering, &actions[i]);
	}
	sleep_on(steering);
}

/* Out of memory: rings stay. */
static void watch_drain(struct steering *steering, struct drain_watch *drain)
{
	steering->restless_ns = UINT64_MAX;
	if (!drain->readers)
		return;
	if (drain->restless_ns)
		steering->restless_ns = clock_ns(CLOCK_MONOTONIC) + drain->restless_ns;
	else if (governor_watch_threads(&steering->governor, drain->sight.nr_threads, drain->sight.nr_rings))
		return;
	steering->drain = drain;
}

void steering_start(struct steering *steering, struct pack_pool *pool, struct reader_control *readers, struct drain_watch *drain)
{
	steering->pool = pool;
	steering->readers = readers;
	watch_drain(steering, drain);
	steering->start_ns = clock_ns(CLOCK_MONOTONIC);
	steering->start_cpu_ns = used_ns(steering);
	look(steering);
}

uint64_t steering_next_ns(const struct steering *steering)
{
	uint64_t next_ns = steering->governor.next_ns;

	return next_ns < steering->restless_ns ? next_ns : steering->restless_ns;
}

void steering_step(struct steering *steering, bool rung)
{
	if (rung)
		bell_answer(&steering->bell);
	settle_move(steering);
	be_restless(steering);
	if (rung || clock_ns(CLOCK_MONOTONIC) >= steering->governor.next_ns)
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
	settle_move(steering);
	return ledger_add_actions(ledger, &steering->done);
}

struct steering_result steering_result(const struct steering *steering, const struct ledger *ledger)
{
	struct steering_result result = {.bound = steering->governor.bounds.cpus, .lowest_level = steering->governor.bounds.level};

	for (size_t i = 0; i < steering->done.nr_actions; i++) {
		const struct ledger_action *action = &steering->done.actions[i];
		if (action->deed == LEDGER_LEVEL_CHANGED && (int)action->to < result.lowest_level)
			result.lowest_level = (int)action->to;
		if (action->deed == LEDGER_DRAIN_PACED && action->to > result.slowest_ns)
			result.slowest_ns = action->to;
	}
	result.was_low = result.lowest_level < steering->governor.bounds.level;
	for (size_t i = 0; i < ledger->nr_entries; i++)
		result.shed += ledger->entries[i].cause == LEDGER_SHED ? ledger->entries[i].count : 0;
	if (steering->end_ns > steering->start_ns)
		result.used = (double)(steering->end_cpu_ns - steering->start_cpu_ns) / (double)(steering->end_ns - steering->start_ns);
	return result;
}
