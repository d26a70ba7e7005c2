/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "pack/zstd.h"
#include "read/arena.h"
#include "read/source.h"

struct source_range_state {
	struct source source;
	struct source_range range;
	struct arena arena; /* aligned copies of records that do not lie on a multiple of 8 */
	struct source_skip *skips; /* heap; ascending, from next_skip on still to come */
	size_t nr_skips, next_skip;
	uint8_t *free;      /* in the arena's current block; NULL: none */
};

static struct source_range_state *state_of(struct source *source)
{
	return (struct source_range_state *)source;
}

static void range_hold(struct source *source, const void *record)
{
	arena_hold(&state_of(source)->arena, record);
}

static void range_release(struct source *source, const void *record)
{
	arena_release(&state_of(source)->arena, record);
}

static void range_close(struct source *source)
{
	arena_fini(&state_of(source)->arena);
	free(state_of(source)->skips);
	free(source);
}

static const void *aligned_copy(struct source_range_state *state, const void *record, size_t len)
{
	if (!state->free || len > (size_t)(state->arena.current->end - state->free)) {
		struct arena_block *block = arena_renew(&state->arena);
		if (!block)
			return NULL;
		state->free = block->bytes;
	}
	void *copy = memcpy(state->free, record, len);
	state->free += (len + 7) & ~(size_t)7;
	if (state->free > state->arena.current->end)
		state->free = state->arena.current->end;
	return copy;
}

static int range_end(const struct source_range_state *state, struct diag *reterr)
{
	const struct source_range *range = &state->range;

	switch (range->shortage) {
	case SOURCE_UNFINISHED:
		return diag_set(reterr, -EBADMSG,
				"offset %#" PRIx64 ": the recording was not finished; what was there is read", range->at);
	case SOURCE_TRUNCATED:
		return diag_set(reterr, -EBADMSG, "offset %#" PRIx64 ": the file is cut off here; more was recorded",
				range->at);
	case SOURCE_UNDESCRIBED:
		return diag_set(reterr, -EBADMSG,
				"offset %#zx: the file is cut off here; all records were read, but what describes them is not all there",
				range->whole.len);
	default:
		return 0;
	}
}

static int range_cut(const struct source_range_state *state, const char *name, uint64_t need, struct diag *reterr)
{
	const struct source_range *range = &state->range;

	if (range->shortage == SOURCE_UNFINISHED || range->shortage == SOURCE_TRUNCATED)
		return range_end(state, reterr);
	return diag_set(reterr, -EBADMSG,
			"offset %#" PRIx64 ": cut off: %s takes %" PRIu64 " bytes, the data ends after %" PRIu64, range->at,
			name, need, range->end - range->at);
}

static void range_skip(struct source *source, struct source_skip *skips, size_t nr)
{
	free(state_of(source)->skips);
	state_of(source)->skips = skips;
	state_of(source)->nr_skips = nr;
}

/* What the list says is trusted no further than the range goes. */
static void pass_skips(struct source_range_state *state)
{
	struct source_range *range = &state->range;

	for (; state->next_skip < state->nr_skips; state->next_skip++) {
		const struct source_skip *skip = &state->skips[state->next_skip];
		if (skip->offset > range->at)
			return;
		if (skip->offset == range->at && skip->bytes <= range->end - range->at)
			range->at += skip->bytes;
	}
}

static bool range_stretch(struct source *source, struct source_stretch *ret)
{
	struct source_range_state *state = state_of(source);
	const struct source_range *range = &state->range;

	pass_skips(state);
	const uint8_t *bytes = (const uint8_t *)range->whole.ptr + range->at;
	uint64_t end = state->next_skip < state->nr_skips ? state->skips[state->next_skip].offset : range->end;
	if (end > range->end)
		end = range->end;
	if ((uintptr_t)bytes % 8 || range->at >= end)
		return false;
	*ret = (struct source_stretch){.records = {bytes, end - range->at}, .offset = range->at};
	return true;
}

static void range_pass(struct source *source, const struct source_passed *passed)
{
	state_of(source)->range.at += passed->bytes; /* what lies in the range stays */
}

static int range_next(struct source *source, struct source_record *ret, struct diag *reterr)
{
	struct source_range_state *state = state_of(source);
	struct source_range *range = &state->range;

	pass_skips(state);
	const uint8_t *bytes = (const uint8_t *)range->whole.ptr + range->at;
	uint64_t left = range->end - range->at;
	struct perf_event_header header;

	if (!left)
		return range_end(state, reterr);
	if (left < sizeof(header))
		return range_cut(state, "a record", sizeof(header), reterr);
	memcpy(&header, bytes, sizeof(header));
	int err = source_check_size(&header, range->at, reterr);
	if (err)
		return err;
	if (header.size > left)
		return range_cut(state, record_type_name(header.type), header.size, reterr);

	const void *record = bytes;
	if ((uintptr_t)bytes % 8) {
		record = aligned_copy(state, bytes, header.size);
		if (!record)
			return diag_set(reterr, -ENOMEM, "out of memory");
	}
	uint64_t outside = source_outside_bytes(record);
	if (outside > left - header.size)
		return range_cut(state, record_type_name(header.type), header.size + outside, reterr);

	*ret = (struct source_record){
		.view = {.header = record, .offset = range->at},
		.outside = {bytes + header.size, outside},
	};
	range->at += header.size + outside;
	return 1;
}

/* Where a COMPRESSED record starts with the magic number of a frame. By bytes: such records are not aligned. */
static bool range_find_extent(struct source *source, uint64_t offset)
{
	static const uint32_t magic = 0xfd2fb528; /* RFC 8878, 3.1.1 */
	struct source_range *range = &state_of(source)->range;
	const uint8_t *start = range->whole.ptr, *at = start + offset + sizeof(struct perf_event_header);
	const uint8_t *end = start + range->end;

	if (offset >= range->end)
		return false;
	while (at < end && (at = memmem(at, (size_t)(end - at), &magic, sizeof(magic)))) {
		struct perf_event_header header;
		memcpy(&header, at - sizeof(header), sizeof(header));
		uint64_t found = (uint64_t)(at - start) - sizeof(header);
		struct zstd_frame frame;
		if (header.type == RECORD_COMPRESSED && header.size > sizeof(header) &&
		    header.size <= range->end - found &&
		    zstd_frame_start((struct span){at, header.size - sizeof(header)}, &frame)) {
			range->at = found;
			return true;
		}
		at++;
	}
	return false;
}

static const struct source_ops range_ops = {
	.find_extent = range_find_extent,
	.leave_out = range_skip,
	.stretch = range_stretch,
	.pass = range_pass,
	.next = range_next,
	.hold = range_hold,
	.release = range_release,
	.close = range_close,
};

int source_open_range(const struct source_range *range, struct source **ret)
{
	struct source_range_state *state = calloc(1, sizeof(*state));

	if (!state)
		return -ENOMEM;
	state->source = (struct source){.ops = &range_ops, .stays = range->whole};
	state->range = *range;
	*ret = &state->source;
	return 0;
}
