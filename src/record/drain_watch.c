/* SPDX-License-Identifier: MIT */
#include "record/drain_watch.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "record/plan.h"
#include "record/readers.h"
#include "record/thread_spec.h"
#include "record/thread_use.h"
#include "record/topology.h"

static int group_of(const struct topology *topology, enum topology_level level, int cpu)
{
	const struct cpuset *group = cpu < 0 ? NULL : topology_group(topology, level, (unsigned)cpu);

	return group ? (int)(group - topology->levels[level].groups) : -1;
}

static struct balance_place place_of_cpu(const struct topology *topology, int cpu)
{
	return (struct balance_place){
		.node = group_of(topology, TOPOLOGY_NODE, cpu),
		.package = group_of(topology, TOPOLOGY_PACKAGE, cpu),
	};
}

static struct balance_place place_of_cpus(const struct topology *topology, const struct cpuset *cpus)
{
	int first = cpuset_next(cpus, 0);
	struct balance_place place = place_of_cpu(topology, first);

	for (int cpu = first; cpu >= 0; cpu = cpuset_next(cpus, cpu + 1)) {
		const struct balance_place other = place_of_cpu(topology, cpu);
		place.node = place.node == other.node ? place.node : -1;
		place.package = place.package == other.package ? place.package : -1;
	}
	return place;
}

static void find_places(struct drain_watch *watch, const struct drain_watch_params *params)
{
	bool of_tasks = params->plan->nr_drained && params->plan->rings[0].cpu < 0;

	for (size_t i = 0; i < watch->sight.nr_threads; i++)
		watch->threads[i].place = of_tasks ? (struct balance_place){-1, -1}
						   : place_of_cpus(params->topology, &params->layout->threads[i].maps);
	for (size_t i = 0; i < watch->sight.nr_rings; i++) {
		const struct plan_ring *ring = &params->plan->rings[i];
		watch->rings[i] = (struct balance_ring){
			.thread = thread_layout_of_ring(params->layout, ring),
			.stays = ring->channel != CHANNEL_DATA,
			.place = place_of_cpu(params->topology, ring->cpu),
		};
	}
}

int drain_watch_open(struct drain_watch *watch, const struct drain_watch_params *params)
{
	*watch = (struct drain_watch){.plan = params->plan, .restless_ns = params->restless_ns, .random = 1};
	if (!params->readers->control.move)
		return 0;
	watch->sight.nr_threads = params->readers->nr;
	watch->sight.nr_rings = params->plan->nr_drained;
	watch->sight.threads = watch->threads = calloc(watch->sight.nr_threads + 1, sizeof(*watch->threads));
	watch->sight.rings = watch->rings = calloc(watch->sight.nr_rings + 1, sizeof(*watch->rings));
	if (!watch->threads || !watch->rings)
		return -ENOMEM;
	watch->readers = params->readers;
	find_places(watch, params);
	return 0;
}

void drain_watch_close(struct drain_watch *watch)
{
	free(watch->threads);
	free(watch->rings);
	*watch = (struct drain_watch){0};
}

uint64_t drain_watch_tight(const struct drain_watch *watch)
{
	uint64_t nr = 0;

	for (size_t i = 0; i < watch->sight.nr_threads; i++)
		nr += atomic_load_explicit(&watch->readers->readers[i].nr_tight, memory_order_relaxed);
	return nr;
}

const struct balance_sight *drain_watch_look(struct drain_watch *watch)
{
	const struct readers *readers = watch->readers;

	for (size_t i = 0; i < watch->sight.nr_threads; i++) {
		const struct thread_times times = thread_times_of(readers->readers[i].tid);
		/* One that has ended tells nothing more. */
		if (times.cpu_ns > watch->threads[i].cpu_ns) {
			watch->threads[i].cpu_ns = times.cpu_ns;
			watch->threads[i].busy_ns = times.cpu_ns + times.waited_ns;
		}
		watch->threads[i].nr_tight = atomic_load_explicit(&readers->readers[i].nr_tight, memory_order_relaxed);
	}
	for (size_t i = 0; i < watch->sight.nr_rings; i++)
		watch->rings[i].bytes = atomic_load_explicit(&readers->ring_bytes[i], memory_order_relaxed);
	return &watch->sight;
}

void drain_watch_attend(struct drain_watch *watch, bool attends)
{
	atomic_store_explicit(&watch->readers->control.watched, attends, memory_order_relaxed);
}

void drain_watch_order(struct drain_watch *watch, const struct balance_move *move)
{
	watch->under_way = *move;
	watch->sight.moving = true;
	ring_move_order(watch->readers->control.move, &watch->readers->control, move);
}

bool drain_watch_done(struct drain_watch *watch, struct balance_move *ret, uint64_t *ret_ns)
{
	if (!watch->sight.moving || !ring_move_is(watch->readers->control.move, RING_MOVE_NONE, 0))
		return false;
	watch->sight.moving = false;
	*ret = watch->under_way;
	ret->rings = watch->readers->move.rings;
	ret->nr_rings = watch->readers->move.nr_rings;
	*ret_ns = watch->readers->move.done_ns;
	for (size_t i = 0; i < ret->nr_rings; i++)
		watch->rings[ret->rings[i]].thread = ret->to;
	return true;
}

/* Of one thread's. */
static size_t choose_some(struct drain_watch *watch, size_t from)
{
	const struct balance_sight *sight = &watch->sight;
	size_t nr = 0;

	for (size_t i = 0; i < sight->nr_rings && nr < sizeof(watch->some) / sizeof(watch->some[0]); i++)
		if (sight->rings[i].thread == from && !sight->rings[i].stays && rand_r(&watch->random) % 2)
			watch->some[nr++] = i;
	return nr;
}

bool drain_watch_any_move(struct drain_watch *watch, struct balance_move *ret)
{
	size_t nr = watch->sight.nr_threads, from = (size_t)rand_r(&watch->random) % nr;
	size_t to = (from + 1 + (size_t)rand_r(&watch->random) % (nr - 1)) % nr;

	if (watch->sight.moving)
		return false;
	*ret = (struct balance_move){.rings = watch->some, .nr_rings = choose_some(watch, from), .from = from, .to = to};
	return ret->nr_rings > 0;
}
