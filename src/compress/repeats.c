/* SPDX-License-Identifier: MIT */
#include "compress/repeats.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "compress/bmi2.h"
#include "compress/sequences.h"

enum {
	WORD = 8,
	TABLE_LOG = 12, /* it stays in the nearest cache; with more, repeats are found that are further away: worse */
	FRAME_HEADER_BYTES = 9,
	BLOCK_BYTES = 128 << 10, /* 3.1.1.2.4: the most that are allowed */
	BLOCK_HEADER_BYTES = 3,
	LITERALS_HEADER_BYTES = 3,
	COPY_BYTES = 16, /* of literals, which most often are fewer */
	AT_MASK = (1 << 24) - 1,
	AHEAD_BYTES = 2048, /* that are fetched while a word is looked at */
};

/* How far a frame has come. */
struct frame_end {
	uint8_t *at;
	uint8_t *last_block; /* its header; NULL: there is none yet */
	size_t len;          /* of its content */
};

struct repeats_packer {
	/* Where a word stood last, below a tag: what another word left there is told without a look at it. */
	uint32_t places[1 << TABLE_LOG];
	uint8_t *frame; /* borrowed */
	size_t room;
	struct frame_end end, marked;
	uint32_t marked_recent[3]; /* of the sequences */
	struct sequences sequences;
};

int repeats_packer_new(struct repeats_packer **ret)
{
	struct repeats_packer *packer = malloc(sizeof(*packer)); /* few of its pages are ever touched */

	if (!packer)
		return -ENOMEM;
	sequences_init(&packer->sequences);
	*ret = packer;
	return 0;
}

void repeats_packer_free(struct repeats_packer *packer)
{
	free(packer);
}

size_t repeats_bound(size_t bytes)
{
	size_t blocks = bytes / BLOCK_BYTES + 1;

	/* A block that turns out to be longer than its bytes is stored as it is, but was written. */
	return FRAME_HEADER_BYTES + bytes + blocks * BLOCK_HEADER_BYTES + LITERALS_HEADER_BYTES + COPY_BYTES +
	       SEQUENCES_BYTES_MAX;
}

ALWAYS_INLINE uint64_t word_at(const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return le64toh(word);
}

ALWAYS_INLINE bool same_32_bytes(const uint8_t *one, const uint8_t *other)
{
#ifdef __SSE2__
	const __m128i *a = (const void *)one, *b = (const void *)other;
	__m128i same = _mm_and_si128(_mm_cmpeq_epi8(_mm_loadu_si128(a), _mm_loadu_si128(b)),
				     _mm_cmpeq_epi8(_mm_loadu_si128(a + 1), _mm_loadu_si128(b + 1)));

	return _mm_movemask_epi8(same) == 0xffff;
#else
	return memcmp(one, other, 32) == 0;
#endif
}

/*
 * The first word from `at` on that differs from the one `distance` before; or where less than a word is left. Found by
 * branches, which a CPU predicts, so that it is ahead of the loads.
 */
ALWAYS_INLINE const uint8_t *differing_word(const uint8_t *at, size_t distance, const uint8_t *end)
{
	while (end - at >= 32 && same_32_bytes(at, at - distance))
		at += 32;
	while (end - at >= WORD && word_at(at) == word_at(at - distance))
		at += WORD;
	return at;
}

/* The first byte of that word that differs; of less than a word none may: `end`. */
ALWAYS_INLINE const uint8_t *differing_byte(const uint8_t *at, size_t distance, const uint8_t *end)
{
	if (end - at >= WORD)
		return at + __builtin_ctzll(word_at(at) ^ word_at(at - distance)) / 8;
	while (at < end && *at == at[-(ptrdiff_t)distance])
		at++;
	return at;
}

/* How many bytes are the same before both places, up to a word. */
ALWAYS_INLINE size_t same_before(const uint8_t *at, size_t distance)
{
	uint64_t differs = word_at(at - WORD) ^ word_at(at - distance - WORD);

	return differs ? (size_t)__builtin_clzll(differs) / 8 : WORD;
}

/* What is looked at, and where it begins in the content of the frame. */
struct part {
	const uint8_t *bytes;
	size_t begins;
};

/*
 * How far before `at` the two words stood that are there now; 0: they did not, as far as is known. The table has the
 * places where a first word stood last.
 */
ALWAYS_INLINE size_t find_distance(const struct part *part, const uint8_t *at, uint64_t word, uint32_t *places)
{
	uint64_t hash = word * 0x9e3779b185ebca87;
	uint32_t *place = &places[hash >> (64 - TABLE_LOG)], was = *place, tag = (uint32_t)hash & ~AT_MASK;
	size_t ago = part->begins + (size_t)(at - part->bytes) - (was & AT_MASK);

	*place = (uint32_t)(part->begins + (size_t)(at - part->bytes)) | tag;
	/* In this part: a distance of 0, or below it, is none either. */
	if ((was & ~AT_MASK) != tag || ago - 1 >= (size_t)(at - part->bytes) || word_at(at - ago) != word ||
	    word_at(at - ago + WORD) != word_at(at + WORD))
		return 0;
	return ago;
}

/* There is room for COPY_BYTES behind them. */
ALWAYS_INLINE uint8_t *copy_literals(const uint8_t *from, size_t len, const uint8_t *in_end, uint8_t *to)
{
	if (len <= COPY_BYTES && in_end - from >= COPY_BYTES)
		memcpy(to, from, COPY_BYTES);
	else
		memcpy(to, from, len);
	return to + len;
}

/*
 * After a repeat the words behind it come from behind the same place, most often: records of one kind differ in single
 * words. Adds such repeats, and writes the bytes that differ. *at: the word behind a repeat, and then behind the last
 * one, as differing_word() tells; *literals: where it ends. Returns the end of what was written.
 */
ALWAYS_INLINE uint8_t *repeats_behind(struct sequences *sequences, const uint8_t **at, const uint8_t **literals,
				      size_t distance, const uint8_t *end, uint8_t *out)
{
	const uint8_t *word = *at, *from = *literals;

	while (end - word >= 3 * WORD && word_at(word + WORD) == word_at(word + WORD - distance)) {
		__builtin_prefetch((const void *)((uintptr_t)word + AHEAD_BYTES));
		const uint8_t *start = word + WORD - same_before(word + WORD, distance);
		memcpy(out, from, WORD);
		out += start - from;
		word = differing_word(word + 2 * WORD, distance, end);
		const uint8_t *behind = differing_byte(word, distance, end);
		sequences_add_near(sequences, (uint32_t)(start - from), (uint32_t)(behind - start));
		from = behind;
	}
	*at = word;
	*literals = from;
	return out;
}

/*
 * Writes the literals of a block; its sequences are kept. Returns their end. Two words are to be the same where no
 * repeat came before.
 */
ALWAYS_INLINE uint8_t *find_repeats(struct repeats_packer *packer, const struct part *part, size_t from, size_t to,
				    size_t *last_distance, uint8_t *out)
{
	const uint8_t *at = part->bytes + from, *const end = part->bytes + to, *literals = at;
	size_t distance = *last_distance;

	while (end - at >= 2 * WORD) {
		uint64_t word = word_at(at);
		__builtin_prefetch((const void *)((uintptr_t)at + AHEAD_BYTES));
		if (!distance || word_at(at - distance) != word) {
			size_t found = find_distance(part, at, word, packer->places);
			if (!found) {
				at += WORD;
				continue;
			}
			distance = found;
		}
		const uint8_t *start = at;
		if (at - part->bytes >= (ptrdiff_t)(distance + WORD))
			start -= same_before(at, distance);
		if (start < literals)
			start = literals;
		out = copy_literals(literals, (size_t)(start - literals), end, out);
		at = differing_word(at + WORD, distance, end);
		const uint8_t *behind = differing_byte(at, distance, end);
		sequences_add(&packer->sequences, (uint32_t)(start - literals), (uint32_t)(behind - start),
			      (uint32_t)distance);
		literals = behind;
		out = repeats_behind(&packer->sequences, &at, &literals, distance, end, out);
		if (end - at < WORD)
			break;
		if (literals > at) /* its first byte is of a repeat */
			at += WORD;
	}
	*last_distance = distance;
	return copy_literals(literals, (size_t)(end - literals), end, out);
}

static uint8_t *find_repeats_plain(struct repeats_packer *packer, const struct part *part, size_t from, size_t to,
				   size_t *last_distance, uint8_t *out)
{
	return find_repeats(packer, part, from, to, last_distance, out);
}

BMI2_TARGET static uint8_t *find_repeats_bmi2(struct repeats_packer *packer, const struct part *part, size_t from,
					      size_t to, size_t *last_distance, uint8_t *out)
{
	return find_repeats(packer, part, from, to, last_distance, out);
}

static void put_u24(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)value;
	at[1] = (uint8_t)(value >> 8);
	at[2] = (uint8_t)(value >> 16);
}

/* 3.1.1.2, 3.1.1.3.1.1: header, literals as they are, sequences. Not marked as the last one. Returns its end. */
static uint8_t *put_block(struct repeats_packer *packer, const struct part *part, size_t from, size_t end,
			  size_t *distance, uint8_t *out)
{
	enum { RAW = 0, COMPRESSED = 2, LITERALS_OF_20_BITS = 3 << 2 };
	uint8_t *literals_header = out + BLOCK_HEADER_BYTES, *literals = literals_header + LITERALS_HEADER_BYTES;
	const size_t len = end - from;

	sequences_begin_block(&packer->sequences);
	uint8_t *at = (packer->sequences.has_bmi2 ? find_repeats_bmi2 : find_repeats_plain)(packer, part, from, end,
											    distance, literals);
	put_u24(literals_header, LITERALS_OF_20_BITS | (uint32_t)(at - literals) << 4);
	at = sequences_write(&packer->sequences, at);
	size_t bytes = (size_t)(at - literals_header);
	uint32_t type = bytes < len ? COMPRESSED : RAW;
	if (type == RAW) {
		sequences_forget_block(&packer->sequences);
		memcpy(literals_header, part->bytes + from, len);
		bytes = len;
	}
	put_u24(out, type << 1 | (uint32_t)bytes << 3);
	return literals_header + bytes;
}

void repeats_begin(struct repeats_packer *packer, uint8_t *out, size_t room)
{
	memset(packer->places, 0, sizeof(packer->places));
	sequences_begin_frame(&packer->sequences);
	packer->frame = out;
	packer->room = room;
	packer->end = (struct frame_end){.at = out + FRAME_HEADER_BYTES};
}

void repeats_mark(struct repeats_packer *packer)
{
	packer->marked = packer->end;
	memcpy(packer->marked_recent, packer->sequences.recent, sizeof(packer->marked_recent));
}

void repeats_undo(struct repeats_packer *packer)
{
	packer->end = packer->marked;
	sequences_go_back(&packer->sequences, packer->marked_recent);
}

int repeats_add(struct repeats_packer *packer, struct span added, size_t block_bytes_most)
{
	const struct part part = {added.ptr, packer->end.len};
	size_t distance = 0, nr_repeats = 0;

	for (size_t from = 0, end; from < added.len; from = end) {
		uint8_t *const block = packer->end.at;
		end = added.len - from < BLOCK_BYTES ? added.len : from + BLOCK_BYTES;
		if (packer->room - (size_t)(block - packer->frame) < repeats_bound(end - from) - FRAME_HEADER_BYTES)
			return -ENOSPC;
		packer->end.at = put_block(packer, &part, from, end, &distance, block);
		packer->end.last_block = block;
		nr_repeats += packer->sequences.nr;
		if (nr_repeats > end / REPEAT_BYTES_LEAST + 1 ||
		    (size_t)(packer->end.at - block) > BLOCK_HEADER_BYTES + block_bytes_most)
			return -ENOTSUP;
	}
	packer->end.len += added.len;
	return 0;
}

size_t repeats_end(struct repeats_packer *packer)
{
	enum { SIZE_OF_4_BYTES = 2 << 6, SINGLE_SEGMENT = 1 << 5, LAST_BLOCK = 1 };
	const uint32_t magic = htole32(0xfd2fb528), len = htole32((uint32_t)packer->end.len); /* 3.1.1, 3.1.1.1 */

	memcpy(packer->frame, &magic, sizeof(magic));
	packer->frame[4] = SIZE_OF_4_BYTES | SINGLE_SEGMENT;
	memcpy(packer->frame + 5, &len, sizeof(len));
	packer->end.last_block[0] |= LAST_BLOCK;
	return (size_t)(packer->end.at - packer->frame);
}

int64_t repeats_pack(struct repeats_packer *packer, struct span in, uint8_t *out)
{
	repeats_begin(packer, out, repeats_bound(in.len));
	int err = repeats_add(packer, in, BLOCK_BYTES);

	return err ? err : (int64_t)repeats_end(packer);
}
