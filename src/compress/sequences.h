/* SPDX-License-Identifier: MIT */
/*
 * sequences: what a block of a zstd frame is made of (literals, and the bytes that repeat earlier ones behind them),
 * and their code: RFC 8878, 3.1.1.3.2. libzstd codes sequences of others, too, by functions that it calls experimental,
 * in twice the time. Private to compress. One owner, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SEQUENCES_MAX = (128 << 10) / 8 + 1,      /* of a block: each repeat has a word at least */
	SEQUENCES_BYTES_MAX = 11 * SEQUENCES_MAX, /* of their code, with its tables: more than ever is written */
	SEQUENCE_LENGTH_LEAST = 3,                /* of a repeat */
};

enum sequence_code { CODE_LITERALS, CODE_OFFSET, CODE_LENGTH, NR_CODES };

/* 3.1.1.3.2.1.1: a value is a code, and some of its lower bits. */
struct sequence {
	uint32_t literals, offset, length; /* of the repeat: less SEQUENCE_LENGTH_LEAST */
	uint8_t codes[NR_CODES];
};

enum { TABLE_LOG_MAX = 9, CODES_MAX = 64 };

/* What codes of one kind become: 4.1. */
struct code_table {
	unsigned log;               /* of the number of states; 0: one code, without bits */
	uint16_t shares[CODES_MAX]; /* of the states, 2^log in all; 0: the code has none */
	struct {
		uint32_t bits; /* from which, with a state, the number of bits follows */
		int32_t place; /* of its states in `states`, less the first state */
	} codes[CODES_MAX];
	uint16_t states[1 << TABLE_LOG_MAX];
};

struct sequences {
	uint32_t nr;
	uint32_t recent[3], recent_before[3]; /* distances: now, and before the block */
	uint32_t counts[NR_CODES][CODES_MAX]; /* of this block's codes */
	bool has_bmi2;
	bool has_tables; /* of the block before */
	struct code_table tables[NR_CODES];
	uint8_t literals_codes[64], length_codes[128]; /* of small values */
	uint16_t costs[(1 << TABLE_LOG_MAX) + 1];      /* log2 of a share, in 1/256 */
	struct sequence list[SEQUENCES_MAX];
};

void sequences_init(struct sequences *sequences);
void sequences_begin_frame(struct sequences *sequences);
void sequences_begin_block(struct sequences *sequences);

/* The block is stored as it is: readers have no tables and distances of it. */
void sequences_forget_block(struct sequences *sequences);

/* What came since the distances were these is not stored at all. */
void sequences_go_back(struct sequences *sequences, const uint32_t recent[3]);

/* Writes the section of this block's sequences, at most SEQUENCES_BYTES_MAX. Returns its end. */
uint8_t *sequences_write(struct sequences *sequences, uint8_t *out);

static inline unsigned highest_bit(uint32_t value)
{
	return 31 - (unsigned)__builtin_clz(value);
}

static inline void move_to_front(uint32_t recent[3], unsigned nr)
{
	uint32_t distance = recent[nr];

	if (nr == 2)
		recent[2] = recent[1];
	recent[1] = recent[0];
	recent[0] = distance;
}

/* 3.1.1.5: the last three distances have the numbers 1 to 3; without literals the last one is not among them. */
static inline uint32_t sequence_offset(uint32_t recent[3], uint32_t distance, bool literals)
{
	if (literals && recent[0] == distance) /* nearly always */
		return 1;
	for (unsigned nr = !literals; nr < 3; nr++) {
		if (recent[nr] == distance) {
			if (nr)
				move_to_front(recent, nr);
			return nr + literals;
		}
	}
	if (!literals && distance + 1 == recent[0]) {
		recent[2] = recent[1];
		recent[1] = recent[0];
		recent[0] = distance;
		return 3;
	}
	recent[2] = recent[1];
	recent[1] = recent[0];
	recent[0] = distance;
	return distance + 3;
}

/* From 128 on each code has twice as many values as the one before. */
static inline uint8_t length_code(const struct sequences *sequences, uint32_t length)
{
	return length < sizeof(sequences->length_codes) ? sequences->length_codes[length]
							: (uint8_t)(highest_bit(length) + 36);
}

/* There is room. length: SEQUENCE_LENGTH_LEAST or more; all three up to 128 KiB, but the distance up to 16 MiB. */
static inline void sequences_add(struct sequences *sequences, uint32_t literals, uint32_t length, uint32_t distance)
{
	struct sequence *sequence = &sequences->list[sequences->nr++];
	uint32_t offset = sequence_offset(sequences->recent, distance, literals > 0);
	uint32_t more = length - SEQUENCE_LENGTH_LEAST;
	/* From 64 on each code has twice as many values as the one before. */
	uint8_t of_literals = literals < sizeof(sequences->literals_codes) ? sequences->literals_codes[literals]
									   : (uint8_t)(highest_bit(literals) + 19);
	uint8_t of_length = length_code(sequences, more), of_offset = (uint8_t)highest_bit(offset);

	*sequence = (struct sequence){literals, offset, more, {of_literals, of_offset, of_length}};
	sequences->counts[CODE_LITERALS][of_literals]++;
	sequences->counts[CODE_OFFSET][of_offset]++;
	sequences->counts[CODE_LENGTH][of_length]++;
}

/* The same with the distance of the sequence before: 1 to 8 literals. */
static inline void sequences_add_near(struct sequences *sequences, uint32_t literals, uint32_t length)
{
	struct sequence *sequence = &sequences->list[sequences->nr++];
	uint32_t more = length - SEQUENCE_LENGTH_LEAST;
	uint8_t of_length = length_code(sequences, more);

	*sequence = (struct sequence){literals, 1, more, {(uint8_t)literals, 0, of_length}};
	sequences->counts[CODE_LITERALS][literals]++;
	sequences->counts[CODE_OFFSET][0]++;
	sequences->counts[CODE_LENGTH][of_length]++;
}
