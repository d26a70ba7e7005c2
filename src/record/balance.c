/* SPDX-License-Identifier: MIT */
#include "record/balance.h"

#include <errno.h>
#include <stdlib.h>

#define MS UINT64_C(1000000)

static const uint64_t WINDOW_NS = 250 * MS, FIRST_REST_NS = 10000 * MS, MOST_REST_NS = 640000 * MS;
enum { BEHIND_WINDOWS = 2, CALM_WINDOWS = 16 }; /* a pass of many full rings takes seconds, and tells when it has ended */

/* Of a thread's time. */
static const double BUSY = 0.6, RAN = 0.25, IDLE = 0.5, WORTH_IT = 0.15, ONE_MORE = 0.01;
/* As much more must be won where the ring's memory is far away. */
static const double OTHER_NODE = 0.05, OTHER_PACKAGE = 0.1;

struct balance_seen {
	uint64_t cpu_ns, busy_ns, nr_tight; /* at the beginning of the window */
	unsigned nr_behind; /* windows in which it found rings nearly full, while it was busy */
	unsigned nr_busy;   /* since the last of those, others in which it was busy */
	double busy;        /* in the last window */
	uint64_t came_bytes; /* to its rings since it is behind */
};

struct balance_rest {
	uint64_t bytes;    /* when its thread was not yet behind */
	uint64_t until_ns; /* it stays where it is */
	bool chosen;       /* to go now */
	uint64_t rest_ns;  /* how long it rested last; 0: it never moved */
};

int balance_init(struct balance *balance, size_t nr_threads, size_t nr_rings)
{
	*balance = (struct balance){
		.threads = calloc(nr_threads + 1, sizeof(*balance->threads)),
		.rings = calloc(nr_rings + 1, sizeof(*balance->rings)),
		.chosen = calloc(nr_rings + 1, sizeof(*balance->chosen)),
		.next_ns = UINT64_MAX,
	};
	if (balance->threads && balance->rings && balance->chosen)
		return 0;
	balance_fini(balance);
	return -ENOMEM;
}

void balance_fini(struct balance *balance)
{
	free(balance->threads);
	free(balance->rings);
	free(balance->chosen);
	*balance = (struct balance){.next_ns = UINT64_MAX};
}

bool balance_wants(const struct balance *balance, uint64_t now_ns, uint64_t nr_tight)
{
	if (!balance->threads)
		return false;
	return balance->from_ns ? now_ns >= balance->next_ns : nr_tight != balance->nr_tight;
}

static uint64_t count_tight(const struct balance_sight *sight)
{
	uint64_t nr = 0;

	for (size_t i = 0; i < sight->nr_threads; i++)
		nr += sight->threads[i].nr_tight;
	return nr;
}

/* What has come since its thread is behind. */
static uint64_t came(const struct balance *balance, const struct balance_sight *sight, size_t ring)
{
	return sight->rings[ring].bytes - balance->rings[ring].bytes;
}

static void begin_window(struct balance *balance, uint64_t now_ns, const struct balance_sight *sight)
{
	balance->from_ns = now_ns;
	balance->next_ns = now_ns + WINDOW_NS;
	balance->nr_tight = count_tight(sight);
	for (size_t i = 0; i < sight->nr_threads; i++) {
		balance->threads[i].cpu_ns = sight->threads[i].cpu_ns;
		balance->threads[i].busy_ns = sight->threads[i].busy_ns;
		balance->threads[i].nr_tight = sight->threads[i].nr_tight;
	}
	for (size_t i = 0; i < sight->nr_rings; i++)
		if (!balance->threads[sight->rings[i].thread].nr_behind)
			balance->rings[i].bytes = sight->rings[i].bytes;
}

static void note_thread(struct balance_seen *seen, const struct balance_thread *thread, double ns)
{
	double busy = (double)(thread->busy_ns - seen->busy_ns) / ns, ran = (double)(thread->cpu_ns - seen->cpu_ns) / ns;
	bool tight = thread->nr_tight != seen->nr_tight;

	seen->busy = busy < 1 ? busy : 1;
	seen->nr_busy = tight ? 0 : seen->nr_busy + 1;
	if (busy < BUSY || ran < RAN || seen->nr_busy >= CALM_WINDOWS)
		seen->nr_behind = 0;
	else
		seen->nr_behind += tight;
}

static void note_window(struct balance *balance, uint64_t now_ns, const struct balance_sight *sight)
{
	for (size_t i = 0; i < sight->nr_threads; i++) {
		note_thread(&balance->threads[i], &sight->threads[i], (double)(now_ns - balance->from_ns));
		if (sight->moving)
			balance->threads[i].nr_behind = 0;
	}
	balance->nr_calm = count_tight(sight) == balance->nr_tight ? balance->nr_calm + 1 : 0;
}

static void note_came(struct balance *balance, const struct balance_sight *sight)
{
	for (size_t i = 0; i < sight->nr_threads; i++)
		balance->threads[i].came_bytes = 0;
	for (size_t i = 0; i < sight->nr_rings; i++)
		balance->threads[sight->rings[i].thread].came_bytes += came(balance, sight, i);
}

static double farness(const struct balance_place *ring, const struct balance_place *thread)
{
	if (ring->package != thread->package)
		return OTHER_PACKAGE;
	return ring->node != thread->node ? OTHER_NODE : 0;
}

/* One thread's work that another could do. */
struct shift {
	size_t from, to;
	double busy_from, busy_to; /* afterwards */
};

/* By how much the busier one of the two is less busy when `part` of their time goes over, too. */
static double gain_of(const struct shift *shift, double part)
{
	double from = shift->busy_from - part, to = shift->busy_to + part;
	double before = shift->busy_from > shift->busy_to ? shift->busy_from : shift->busy_to;

	return before - (from > to ? from : to);
}

static bool may_go(const struct balance *balance, uint64_t now_ns, const struct balance_sight *sight, size_t ring, size_t from)
{
	const struct balance_rest *rest = &balance->rings[ring];

	return sight->rings[ring].thread == from && !sight->rings[ring].stays && !rest->chosen && now_ns >= rest->until_ns;
}

/* What a ring takes of its thread's time. */
static double part_of(const struct balance *balance, const struct balance_sight *sight, size_t ring)
{
	const struct balance_seen *thread = &balance->threads[sight->rings[ring].thread];

	return thread->came_bytes ? thread->busy * (double)came(balance, sight, ring) / (double)thread->came_bytes : 0;
}

/* The one by which most is won, more than `least`; SIZE_MAX: none. */
static size_t find_ring(const struct balance *balance, uint64_t now_ns, const struct balance_sight *sight,
			const struct shift *shift, double *least)
{
	size_t best = SIZE_MAX;

	for (size_t r = 0; r < sight->nr_rings; r++) {
		if (!may_go(balance, now_ns, sight, r, shift->from))
			continue;
		double gain = gain_of(shift, part_of(balance, sight, r));
		if (gain <= *least)
			continue;
		*least = gain;
		best = r;
	}
	return best;
}

/* One ring after the other, as long as that helps. What is won, less what it has to be more for a thread that is far away. */
static double choose(struct balance *balance, uint64_t now_ns, const struct balance_sight *sight, struct shift *shift, size_t *ret_nr)
{
	double all = 0, gain = ONE_MORE;
	size_t ring;

	*ret_nr = 0;
	while ((ring = find_ring(balance, now_ns, sight, shift, &gain)) != SIZE_MAX) {
		double part = part_of(balance, sight, ring);
		balance->chosen[(*ret_nr)++] = ring;
		balance->rings[ring].chosen = true;
		shift->busy_from -= part;
		shift->busy_to += part;
		all += gain;
		gain = ONE_MORE;
	}
	for (size_t i = 0; i < *ret_nr; i++)
		balance->rings[balance->chosen[i]].chosen = false;
	return *ret_nr ? all - farness(&sight->rings[balance->chosen[0]].place, &sight->threads[shift->to].place) : 0;
}

/* The busiest of those who are behind and can be helped, by the one who can help most. */
static bool find_move(struct balance *balance, uint64_t now_ns, const struct balance_sight *sight, struct balance_move *ret)
{
	struct shift best = {.from = SIZE_MAX};
	double most = 0;
	size_t nr;

	for (size_t from = 0; from < sight->nr_threads; from++) {
		const struct balance_seen *behind = &balance->threads[from];
		if (behind->nr_behind < BEHIND_WINDOWS || (best.from != SIZE_MAX && behind->busy <= balance->threads[best.from].busy))
			continue;
		most = WORTH_IT;
		for (size_t to = 0; to < sight->nr_threads; to++) {
			const struct balance_seen *other = &balance->threads[to];
			struct shift shift = {from, to, behind->busy, other->busy};
			if (to == from || other->nr_behind || other->busy >= IDLE)
				continue;
			double gain = choose(balance, now_ns, sight, &shift, &nr);
			if (gain < most)
				continue;
			most = gain;
			best = (struct shift){from, to, behind->busy, other->busy};
		}
	}
	if (best.from == SIZE_MAX)
		return false;
	*ret = (struct balance_move){balance->chosen, 0, best.from, best.to, best.busy_from, best.busy_to};
	choose(balance, now_ns, sight, &best, &ret->nr_rings);
	return true;
}

/* Nobody is behind before it was seen what this is good for. Before the next window begins. */
static void rest(struct balance *balance, uint64_t now_ns, const struct balance_sight *sight, const struct balance_move *move)
{
	for (size_t i = 0; i < move->nr_rings; i++) {
		struct balance_rest *moved = &balance->rings[move->rings[i]];
		moved->rest_ns = !moved->rest_ns ? FIRST_REST_NS : 2 * moved->rest_ns < MOST_REST_NS ? 2 * moved->rest_ns : MOST_REST_NS;
		moved->until_ns = now_ns + moved->rest_ns;
	}
	for (size_t i = 0; i < sight->nr_threads; i++)
		balance->threads[i].nr_behind = 0;
}

bool balance_decide(struct balance *balance, uint64_t now_ns, const struct balance_sight *sight, struct balance_move *ret)
{
	bool found = false;

	if (!balance_wants(balance, now_ns, count_tight(sight)))
		return false;
	if (balance->from_ns) {
		note_window(balance, now_ns, sight);
		note_came(balance, sight);
		found = find_move(balance, now_ns, sight, ret);
	}
	if (found)
		rest(balance, now_ns, sight, ret);
	begin_window(balance, now_ns, sight);
	if (balance->nr_calm >= CALM_WINDOWS) {
		balance->from_ns = balance->nr_calm = 0;
		balance->next_ns = UINT64_MAX;
	}
	return found;
}
