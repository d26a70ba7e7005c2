/* SPDX-License-Identifier: MIT */
#include "stream/pack_hold.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "stream/pack_pool.h"

struct pack_piece *pack_piece_new(struct pack_job *job)
{
	struct pack_piece *piece = malloc(sizeof(*piece) + job->out_len + job->batch.tail_len);

	if (!piece)
		return NULL;
	*piece = (struct pack_piece){
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

void pack_piece_free(struct pack_piece *piece)
{
	if (!piece)
		return;
	free(piece->info.counts);
	free(piece);
}

static size_t size_of(const struct pack_piece *piece)
{
	return sizeof(*piece) + piece->out_len + piece->tail_len;
}

struct pack_piece *pack_hold_take(struct pack_hold *hold)
{
	struct pack_piece *piece = hold->first;

	if (!piece)
		return NULL;
	hold->first = piece->next;
	if (!hold->first)
		hold->last = NULL;
	hold->bytes -= size_of(piece);
	return piece;
}

static bool is_too_much(const struct pack_hold *hold, uint64_t now_ns)
{
	return hold->first &&
	       (hold->bytes > hold->limits.bytes || hold->first->came_ns + hold->limits.duration_ns < now_ns);
}

void pack_hold_drop(struct pack_hold *hold)
{
	uint64_t now_ns = hold->asked_ns ? hold->asked_ns : clock_ns(CLOCK_MONOTONIC);

	while (is_too_much(hold, now_ns)) {
		struct pack_piece *piece = pack_hold_take(hold);
		if (piece->len && piece->info.fields.last_ns != UINT64_MAX &&
		    piece->info.fields.last_ns > hold->dropped_ns)
			hold->dropped_ns = piece->info.fields.last_ns;
		hold->dropped_bytes += piece->len;
		hold->dropped_tail_bytes += piece->tail_len;
		pack_piece_free(piece);
	}
}

void pack_hold_add(struct pack_hold *hold, struct pack_piece *piece)
{
	*(hold->last ? &hold->last->next : &hold->first) = piece;
	hold->last = piece;
	hold->bytes += size_of(piece);
	pack_hold_drop(hold);
}

uint64_t pack_hold_first_ns(const struct pack_hold *hold)
{
	uint64_t first_ns = UINT64_MAX;

	for (const struct pack_piece *piece = hold->first; piece; piece = piece->next)
		if (piece->len && piece->info.fields.first_ns < first_ns)
			first_ns = piece->info.fields.first_ns;
	return first_ns;
}

uint64_t pack_hold_last_ns(const struct pack_hold *hold)
{
	uint64_t last_ns = 0;

	for (const struct pack_piece *piece = hold->first; piece; piece = piece->next)
		if (piece->len && piece->info.fields.last_ns != UINT64_MAX && piece->info.fields.last_ns > last_ns)
			last_ns = piece->info.fields.last_ns;
	return last_ns;
}

void pack_hold_fini(struct pack_hold *hold)
{
	for (struct pack_piece *piece; (piece = pack_hold_take(hold));)
		pack_piece_free(piece);
}
