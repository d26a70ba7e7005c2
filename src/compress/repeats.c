/* SPDX-License-Identifier: MIT */
#include "compress/repeats.h"

#include <endian.h>
#include <stdbool.h>
#include <string.h>

enum {
	WORD = 8,
	TABLE_LOG = 12, /* it stays in the nearest cache; with more, repeats are found that are further away: worse */
};

static uint64_t word_at(const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return le64toh(word);
}

/* Where a word stood last. What another word left there is told from the tag: `at` need not be read for it. */
struct place {
	uint32_t at;
	uint32_t tag;
};

/* How many bytes are the same, before `end` of the first. */
static size_t same_bytes(const uint8_t *one, const uint8_t *other, const uint8_t *end)
{
	const uint8_t *start = one;

	for (; end - one >= 4 * WORD; one += 4 * WORD, other += 4 * WORD)
		if (memcmp(one, other, 4 * WORD))
			break;
	for (; end - one >= WORD; one += WORD, other += WORD) {
		uint64_t differs = word_at(one) ^ word_at(other);
		if (differs)
			return (size_t)(one - start) + (size_t)__builtin_ctzll(differs) / 8;
	}
	while (one < end && *one == *other)
		one++, other++;
	return (size_t)(one - start);
}

/* How many bytes are the same before both places, up to a word. */
static size_t same_before(const uint8_t *in, size_t at, size_t earlier)
{
	if (earlier < WORD)
		return 0;
	uint64_t differs = word_at(in + at - WORD) ^ word_at(in + earlier - WORD);
	return differs ? (size_t)__builtin_clzll(differs) / 8 : WORD;
}

/*
 * Where what stands at `at` stood before; `at` itself: nowhere. After a repeat the words behind it come from behind the
 * same place, most often: records of one kind differ in a few words. Else two words are to be the same.
 */
static size_t find_earlier(const uint8_t *in, size_t at, size_t distance, struct place *table)
{
	uint64_t word = word_at(in + at);

	if (distance && distance <= at && word_at(in + at - distance) == word)
		return at - distance;
	uint64_t hash = word * 0x9e3779b185ebca87;
	struct place *place = &table[hash >> (64 - TABLE_LOG)];
	size_t earlier = place->at;
	uint32_t tag = (uint32_t)hash;
	bool is_other = place->tag != tag;
	*place = (struct place){(uint32_t)at, tag};
	if (is_other || earlier >= at || word_at(in + earlier) != word ||
	    word_at(in + earlier + WORD) != word_at(in + at + WORD))
		return at;
	return earlier;
}

size_t repeats_room(size_t bytes, size_t block_bytes)
{
	return bytes / REPEAT_BYTES_LEAST + bytes / block_bytes + 3;
}

size_t repeats_find(struct span all, size_t block_bytes, struct repeat *ret)
{
	struct place table[1 << TABLE_LOG] = {0};
	const uint8_t *in = all.ptr;
	size_t nr = 0, distance = 0;

	for (size_t block = 0, end; block < all.len; block = end) {
		end = all.len - block < block_bytes ? all.len : block + block_bytes;
		size_t most = repeats_room(end, block_bytes) - 2, literals_from = block, at = block;
		while (end - at >= 2 * WORD) {
			size_t earlier = find_earlier(in, at, distance, table);
			if (earlier == at) {
				at += WORD;
				continue;
			}
			if (nr >= most)
				return 0;
			size_t back = same_before(in, at, earlier);
			if (back > at - literals_from)
				back = at - literals_from;
			size_t behind = at + WORD + same_bytes(in + at + WORD, in + earlier + WORD, in + end);
			distance = at - earlier;
			ret[nr++] = (struct repeat){
				.distance = (uint32_t)distance,
				.literals = (uint32_t)(at - back - literals_from),
				.length = (uint32_t)(behind - at + back),
			};
			literals_from = behind;
			at = (behind + WORD - 1) / WORD * WORD;
			if (at > end)
				break;
		}
		ret[nr++] = (struct repeat){.literals = (uint32_t)(end - literals_from)};
	}
	return nr;
}
