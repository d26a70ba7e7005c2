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

enum user_part { USER_LEAVES, USER_STAYS };

/* How much of the recorded chain stays: not more than `most` frames. */
static struct callchain_kept count_kept(const struct sample *sample, unsigned most, enum user_part user)
{
	const uint64_t *const ips = sample->ips, nr = sample->nr_ips;
	struct callchain_kept kept = {0};

	for (; kept.nr_words < nr; kept.nr_words++) {
		const uint64_t ip = ips[kept.nr_words];
		if (ip >= (uint64_t)PERF_CONTEXT_MAX) { /* a marker: <linux/perf_event.h> */
			if (ip == (uint64_t)PERF_CONTEXT_USER && user == USER_LEAVES)
				break;
		} else if (kept.nr_frames == most) {
			break;
		} else {
			kept.nr_frames++;
		}
	}
	return kept;
}

struct callchain_kept callchain_kernel_part(const struct sample *sample, unsigned most)
{
	return count_kept(sample, most, USER_LEAVES);
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
	const struct callchain_kept kept = user->nr ? user->kernel : count_kept(sample, user->most, USER_STAYS);

	/* In words: what there is room for, what the chain's count and the marker take. */
	size_t room = (size_t)(behind_chain - start) - at + sample->user_dump.len;
	size_t taken = (1 + kept.nr_words + 1) * sizeof(uint64_t);
	size_t nr_user = user->nr < user->most - kept.nr_frames ? user->nr : user->most - kept.nr_frames;
	if (taken >= room)
		nr_user = 0;
	else if (nr_user > (room - taken) / sizeof(uint64_t))
		nr_user = (room - taken) / sizeof(uint64_t);

	uint64_t nr = kept.nr_words + (nr_user ? 1 + nr_user : 0), marker = PERF_CONTEXT_USER;
	uint8_t *chain = to + at, *user_part = chain + (1 + kept.nr_words) * sizeof(uint64_t);
	uint8_t *behind = chain + (1 + nr) * sizeof(uint64_t); /* the chain: what stood between that and the dump, */
	size_t between_bytes = (size_t)(dump - behind_chain), last_bytes = (size_t)(end - behind_dump);
	if (to != start)
		memcpy(to, start, has_chain ? at + (1 + kept.nr_words) * sizeof(uint64_t) : at);
	if (between_bytes) /* of most events there is nothing */
		memmove(behind, behind_chain, between_bytes);
	behind += between_bytes; /* and what stood behind the dump */
	if (last_bytes)
		memmove(behind, behind_dump, last_bytes);
	memcpy(chain, &nr, sizeof(nr));
	if (nr_user) {
		memcpy(user_part, &marker, sizeof(marker));
		memcpy(user_part + sizeof(marker), user->ips, nr_user * sizeof(uint64_t));
	}
	struct perf_event_header *header = (struct perf_event_header *)to;
	header->size = (uint16_t)(behind + last_bytes - to);
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
