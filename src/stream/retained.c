/* SPDX-License-Identifier: MIT */
#include "stream/retained.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "stream/batch_job.h"
#include "stream/batch_pool.h"

struct retained_extent *retained_extent_new(struct batch_job *job)
{
	struct retained_extent *extent = malloc(sizeof(*extent) + job->out_len + job->batch.tail_len);

	if (!extent)
		return NULL;
	*extent = (struct retained_extent){
		.info = job->info,
		.came_ns = clock_ns(CLOCK_MONOTONIC),
		.len = job->came_len,
		.out_len = job->out_len,
		.tail_len = job->batch.tail_len,
		.producer_number = job->producer_number,
		.came_end = job->came_end,
	};
	job->info = (struct extent_info){0};
	memcpy(extent->bytes, job->batch.records, job->out_len);
	memcpy(extent->bytes + job->out_len, job->tail, job->batch.tail_len);
	return extent;
}

void retained_extent_free(struct retained_extent *extent)
{
	if (!extent)
		return;
	free(extent->info.counts);
	free(extent);
}

static size_t size_of(const struct retained_extent *extent)
{
	return sizeof(*extent) + extent->out_len + extent->tail_len;
}

struct retained_extent *retained_take(struct retained *hold)
{
	struct retained_extent *extent = hold->first;

	if (!extent)
		return NULL;
	hold->first = extent->next;
	if (!hold->first)
		hold->last = NULL;
	hold->bytes -= size_of(extent);
	return extent;
}

int retained_add_producer(struct retained *hold)
{
	if (array_room(hold->dropped, hold->nr_producers, hold->room_producers))
		return -ENOMEM;
	hold->dropped[hold->nr_producers++] = 0;
	return 0;
}

static bool is_too_much(const struct retained *hold, uint64_t now_ns)
{
	return hold->first &&
	       (hold->bytes > hold->limits.bytes || hold->first->came_ns + hold->limits.duration_ns < now_ns);
}

void retained_drop(struct retained *hold)
{
	uint64_t now_ns = hold->requested_ns ? hold->requested_ns : clock_ns(CLOCK_MONOTONIC);

	while (is_too_much(hold, now_ns)) {
		struct retained_extent *extent = retained_take(hold);
		if (extent->len && extent->info.fields.last_ns != UINT64_MAX &&
		    extent->info.fields.last_ns > hold->dropped_ns)
			hold->dropped_ns = extent->info.fields.last_ns;
		if (extent->came_end)
			hold->dropped[extent->producer_number] = extent->came_end;
		hold->dropped_bytes += extent->len;
		hold->dropped_tail_bytes += extent->tail_len;
		retained_extent_free(extent);
	}
}

void retained_add(struct retained *hold, struct retained_extent *extent)
{
	*(hold->last ? &hold->last->next : &hold->first) = extent;
	hold->last = extent;
	hold->bytes += size_of(extent);
	retained_drop(hold);
}

uint64_t retained_first_ns(const struct retained *hold)
{
	uint64_t first_ns = UINT64_MAX;

	for (const struct retained_extent *extent = hold->first; extent; extent = extent->next)
		if (extent->len && extent->info.fields.first_ns < first_ns)
			first_ns = extent->info.fields.first_ns;
	return first_ns;
}

uint64_t retained_last_ns(const struct retained *hold)
{
	uint64_t last_ns = 0;

	for (const struct retained_extent *extent = hold->first; extent; extent = extent->next)
		if (extent->len && extent->info.fields.last_ns != UINT64_MAX && extent->info.fields.last_ns > last_ns)
			last_ns = extent->info.fields.last_ns;
	return last_ns;
}

void retained_fini(struct retained *hold)
{
	for (struct retained_extent *extent; (extent = retained_take(hold));)
		retained_extent_free(extent);
	free(take_ptr(hold->dropped));
}
