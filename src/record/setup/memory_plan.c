/* SPDX-License-Identifier: MIT */
#include "record/setup/memory_plan.h"

#include <errno.h>
#include <unistd.h>

#include "base/cpuset.h"
#include "base/diag.h"
#include "compress/extent.h"
#include "event/parse/configure.h"
#include "record/setup/options.h"
#include "sysinfo/memory.h"

/* Is there memory before the writer whose size the user did not name? */
static bool has_default_pool(const struct recording_options *options)
{
	return !options->buffer_bytes && !options->rotation.history_ns;
}

/* Storage may stall for seconds: what comes then waits here. Memory is touched when it is needed, not before. */
static size_t default_pool_bytes(const struct recording_options *options)
{
	enum { LEAST = 1 << 20, MOST = 1 << 30, WHEN_FROZEN = 64 << 20, PART_OF_AVAILABLE = 8 };
	/* All of the latter is touched at the start, and tasks are stopped before it is full. */
	size_t most = options->on_pressure == ON_PRESSURE_FREEZE ? WHEN_FROZEN : MOST;
	uint64_t available = memory_available("");
	uint64_t bytes = available / PART_OF_AVAILABLE;

	if (!available)
		return options->on_pressure == ON_PRESSURE_FREEZE ? WHEN_FROZEN : 0; /* the pool's own */
	if (bytes > most)
		return most;
	return bytes > LEAST ? (size_t)bytes : LEAST;
}

/*
 * Of the pool, from the start. A page that is touched for the first time costs a draining thread as much as some
 * hundred records; where all CPUs are busy one thread stores what several drain, late, so that much of the memory is
 * used. Of stacks all of it is. Of those that are unwound little is left, but while their threads are late they wait
 * there, too: twice as much is ready for them. And where nothing may be lost no thread waits for pages.
 */
static size_t ready_bytes(const struct recording_options *options)
{
	enum { OF_EACH_CPU = 4 << 20, LEAST_SHARED = 64 << 20 };
	const bool unwinds = event_list_only_unwinds(options->events);
	const bool keeps_stacks = event_list_copies_stacks(options->events) && !unwinds;
	size_t bytes = OF_EACH_CPU * cpuset_count_allowed() * (unwinds ? 2 : 1);

	if (options->on_pressure == ON_PRESSURE_FREEZE || (options->cpus_per_thread && keeps_stacks))
		return SIZE_MAX;
	if (!options->cpus_per_thread)
		return options->threads ? bytes : 0;
	return bytes > LEAST_SHARED ? bytes : LEAST_SHARED;
}

/*
 * Stacks that are unwound at once are large in the rings, little is left of them: what a wake-up costs is a large part
 * of the work. 0: others come, or they come too irregularly to know.
 */
static uint64_t ring_margin_bytes(const struct recording_options *options)
{
	enum { OTHER_FIELDS = 1 << 10 };
	static const uint64_t late_ns = 100000000;
	uint64_t interval_ns = event_list_interval_ns(options->events), bytes = 0;

	if (options->threads || !event_list_only_unwinds(options->events) || !interval_ns)
		return 0;
	for (size_t i = 0; i < options->events->nr; i++)
		if (!attr_is_dummy(&options->events->events[i].attr))
			bytes += options->events->events[i].attr.sample_stack_user + OTHER_FIELDS;
	return late_ns / interval_ns * bytes;
}

/* Of tasks that wait, of which there may be thousands, for a long time: a part of the pool's again. */
static size_t wait_bytes(const struct recording_options *options, size_t pool_bytes)
{
	enum { PART_OF_POOL = 4, OF_UNKNOWN = 16 << 20 };
	bool keeps_stacks = event_list_copies_stacks(options->events) && !event_list_only_unwinds(options->events);

	if (!options->sampling.off_cpu.on || !keeps_stacks)
		return 0;
	return pool_bytes ? pool_bytes / PART_OF_POOL : OF_UNKNOWN;
}

int memory_plan_make(const struct recording_options *options, struct memory_plan *ret, struct diag *reterr)
{
	enum { PART_OF_MEMORY = 32 };
	uint64_t half = options->max_memory / 2;
	struct memory_plan plan = {
		.most_ring_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / PART_OF_MEMORY,
		.ring_margin_bytes = ring_margin_bytes(options),
		.pool_bytes = has_default_pool(options) ? default_pool_bytes(options) : options->buffer_bytes,
		.ready_bytes = ready_bytes(options),
	};

	/* In place of pages that are there from the start others would be touched, by who drains. */
	plan.pool_spares = plan.ready_bytes != SIZE_MAX && !memory_counts_addresses("");
	if (options->max_memory && has_default_pool(options) && plan.pool_bytes > half)
		plan.pool_bytes = (size_t)half;
	plan.wait_bytes = wait_bytes(options, plan.pool_bytes);
	if (options->max_memory && plan.pool_bytes + plan.wait_bytes >= options->max_memory)
		return diag_set(reterr, -ENOMEM,
				"--max-memory=%lluK leaves nothing for rings beside --buffer-memory=%zuK",
				(unsigned long long)options->max_memory / 1024, plan.pool_bytes / 1024);
	if (options->max_memory)
		plan.most_ring_bytes = options->max_memory - plan.pool_bytes - plan.wait_bytes;
	*ret = plan;
	return 0;
}

/* --flight drops whole extents: small enough that little more than the limit demands is dropped. */
static size_t history_extent_bytes(uint64_t limit_bytes)
{
	enum { PARTS = 16, LEAST = 64 << 10 };
	uint64_t bytes = limit_bytes / PARTS / 4096 * 4096;

	return bytes < LEAST ? LEAST : bytes > EXTENT_BYTES_SMALL ? EXTENT_BYTES_SMALL : (size_t)bytes;
}

/* Files end at a size as it is seen, batch by batch. 0: the default does. */
static size_t marked_batch_bytes(const struct recording_options *options)
{
	enum { PARTS = 8, LEAST = 64 << 10, MOST = 1 << 20 };
	uint64_t mark = options->rotation.bytes;

	if (options->max_bytes && (!mark || options->max_bytes < mark))
		mark = options->max_bytes;
	uint64_t bytes = mark / PARTS / 4096 * 4096;
	return !mark || bytes > MOST ? 0 : bytes < LEAST ? LEAST : (size_t)bytes;
}

size_t memory_plan_extent_bytes(const struct recording_options *options, bool pipe)
{
	if (options->rotation.history_ns)
		return history_extent_bytes(options->rotation.history_bytes);
	if (!options->compression_level)
		return marked_batch_bytes(options);
	/* Who looks on gets an extent for each pass, however little is in it; little is left of stacks. */
	return pipe || event_list_only_unwinds(options->events) ? EXTENT_BYTES_SMALL : 0;
}
