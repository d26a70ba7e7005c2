/* SPDX-License-Identifier: MIT */
#include "stream/retained.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "stream/batch_job.h"
#include "stream/batch_pool.h"

struct retained_extent *retained_extent_new(struct batch_job *job)
{
	struct retained_extent *piece = malloc(sizeof(*piece) + job->out_len + job->batch.tail_len);

	if (!piece)
		return NULL;
	*piece = (struct retained_extent){
		.info = job->info,
		.came_ns = clock_ns(CLOCK_MONOTONIC),
		.len = job->came_len,
		.out_len = job->out_len,
		.tail_len = job->batch.tail_len,
	};
	job->info = (struct extent_info){0};
	memcpy(piece->bytes, job->batch.records, job->out_len);
	memcpy(piece->bytes + job->out_len, job->tail, job->batch.tail_len);
	return piece;
}

void retained_extent_free(struct retained_extent *piece)
{
	if (!piece)
		return;
	free(piece->info.counts);
	free(piece);
}

static size_t size_of(const struct retained_extent *piece)
{
	return sizeof(*piece) + piece->out_len + piece->tail_len;
}

struct retained_extent *retained_take(struct retained *hold)
{
	struct retained_extent *piece = hold->first;

	if (!piece)
		return NULL;
	hold->first = piece->next;
	if (!hold->first)
		hold->last = NULL;
	hold->bytes -= size_of(piece);
	return piece;
}

static bool is_too_much(const struct retained *hold, uint64_t now_ns)
{
	return hold->first &&
	       (hold->bytes > hold->limits.bytes || hold->first->came_ns + hold->limits.duration_ns < now_ns);
}

void retained_drop(struct retained *hold)
{
	uint64_t now_ns = hold->asked_ns ? hold->asked_ns : clock_ns(CLOCK_MONOTONIC);

	while (is_too_much(hold, now_ns)) {
		struct retained_extent *piece = retained_take(hold);
		if (piece->len && piece->info.fields.last_ns != UINT64_MAX &&
		    piece->info.fields.last_ns > hold->dropped_ns)
			hold->dropped_ns = piece->info.fields.last_ns;
		hold->dropped_bytes += piece->len;
		hold->dropped_tail_bytes += piece->tail_len;
		retained_extent_free(piece);
	}
}

void retained_add(struct retained *hold, struct retained_extent *piece)
{
	*(hold->last ? &hold->last->next : &hold->first) = piece;
	hold->last = piece;
	hold->bytes += size_of(piece);
	retained_drop(hold);
}

uint64_t retained_first_ns(const struct retained *hold)
{
	uint64_t first_ns = UINT64_MAX;

	for (const struct retained_extent *piece = hold->first; piece; piece = piece->next)
		if (piece->len && piece->info.fields.first_ns < first_ns)
			first_ns = piece->info.fields.first_ns;
	return first_ns;
}

uint64_t retained_last_ns(const struct retained *hold)
{
	uint64_t last_ns = 0;

	for (const struct retained_extent *piece = hold->first; piece; piece = piece->next)
		if (piece->len && piece->info.fields.last_ns != UINT64_MAX && piece->info.fields.last_ns > last_ns)
			last_ns = piece->info.fields.last_ns;
	return last_ns;
}

void retained_fini(struct retained *hold)
{
	for (struct retained_extent *piece; (piece = retained_take(hold));)
		retained_extent_free(piece);
}
