/* SPDX-License-Identifier: MIT */
#include "perfdata/callchain.h"

#include <string.h>

static const uint64_t dump_bits = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;

bool callchain_is_dump(const struct perf_event_attr *attr)
{
	return (attr->sample_type & dump_bits) == dump_bits;
}

void callchain_convert_attr(struct perf_event_attr *attr, unsigned max_stack)
{
	attr->sample_type = (attr->sample_type & ~dump_bits) | PERF_SAMPLE_CALLCHAIN;
	attr->exclude_callchain_user = 0;
	attr->sample_regs_user = 0;
	attr->sample_stack_user = 0;
	attr->sample_max_stack = (uint16_t)max_stack;
}

unsigned callchain_max_frames(const struct perf_event_attr *attr)
{
	return attr->sample_max_stack > CALLCHAIN_FRAMES ? attr->sample_max_stack : CALLCHAIN_FRAMES;
}

static bool is_marker(uint64_t ip)
{
	return ip >= (uint64_t)PERF_CONTEXT_MAX; /* <linux/perf_event.h> */
}

/* How much of the recorded chain stays: up to its user part, and not more than `most` frames. */
static uint64_t count_kept(const struct sample *sample, const struct callchain *user, unsigned *ret_frames)
{
	uint64_t i;

	*ret_frames = 0;
	for (i = 0; i < sample->nr_ips; i++) {
		if (user->nr && sample->ips[i] == (uint64_t)PERF_CONTEXT_USER)
			break;
		if (is_marker(sample->ips[i]))
			continue;
		if (*ret_frames == user->most)
			break;
		++*ret_frames;
	}
	return i;
}

unsigned callchain_user_most(const struct sample *sample, unsigned most)
{
	const struct callchain user = {.nr = 1, .most = most};
	unsigned nr_kept;

	count_kept(sample, &user, &nr_kept);
	return most - nr_kept;
}

/* `to` may be the record. */
static size_t convert(const struct perf_event_attr *attr, const struct perf_event_header *record,
		      const struct sample *sample, const struct callchain *user, uint8_t *to)
{
	const uint8_t *start = (const uint8_t *)record, *end = start + record->size;
	bool has_chain = attr->sample_type & PERF_SAMPLE_CALLCHAIN;
	/* The chain, its count first, is the first field of many words, but for READ. */
	const size_t at = has_chain ? (size_t)((const uint8_t *)sample->ips - start) - sizeof(sample->nr_ips)
				    : sample_shape(attr).words_bytes + sample->read.len;
	const uint8_t *behind_chain = start + at + (has_chain ? (1 + sample->nr_ips) * sizeof(uint64_t) : 0);
	const uint8_t *dump = sample->user_dump.ptr;
	const uint8_t *behind_dump = dump + sample->user_dump.len;
	unsigned nr_frames;
	uint64_t nr_kept = count_kept(sample, user, &nr_frames);

	/* In words: what there is room for, what the chain's count and the marker take. */
	size_t room = (size_t)(behind_chain - start) - at + sample->user_dump.len;
	size_t taken = (1 + nr_kept + 1) * sizeof(uint64_t);
	size_t nr_user = user->nr < user->most - nr_frames ? user->nr : user->most - nr_frames;
	if (taken >= room)
		nr_user = 0;
	else if (nr_user > (room - taken) / sizeof(uint64_t))
		nr_user = (room - taken) / sizeof(uint64_t);

	uint64_t nr = nr_kept + (nr_user ? 1 + nr_user : 0), marker = PERF_CONTEXT_USER;
	uint8_t *chain = to + at, *user_part = chain + (1 + nr_kept) * sizeof(uint64_t);
	uint8_t *middle = chain + (1 + nr) * sizeof(uint64_t); /* of what stands between chain and dump */
	size_t middle_bytes = (size_t)(dump - behind_chain);
	if (to != start)
		memcpy(to, start, has_chain ? at + (1 + nr_kept) * sizeof(uint64_t) : at);
	memmove(middle, behind_chain, middle_bytes);
	memmove(middle + middle_bytes, behind_dump, (size_t)(end - behind_dump));
	memcpy(chain, &nr, sizeof(nr));
	if (nr_user) {
		memcpy(user_part, &marker, sizeof(marker));
		memcpy(user_part + sizeof(marker), user->ips, nr_user * sizeof(uint64_t));
	}
	struct perf_event_header *header = (struct perf_event_header *)to;
	header->size = (uint16_t)(middle + middle_bytes + (end - behind_dump) - to);
	return header->size;
}

size_t callchain_convert(const struct perf_event_attr *attr, struct perf_event_header *record,
			 const struct sample *sample, const struct callchain *user)
{
	return convert(attr, record, sample, user, (uint8_t *)record);
}

size_t callchain_convert_copy(const struct perf_event_attr *attr, const struct perf_event_header *record,
			      const struct sample *sample, const struct callchain *user, uint8_t *to)
{
	return convert(attr, record, sample, user, to);
}
