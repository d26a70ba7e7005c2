/* SPDX-License-Identifier: MIT */
#include "compress/sequences.h"

#include <endian.h>
#include <stdbool.h>
#include <string.h>

#include "compress/bmi2.h"

enum {
	LITERALS_CODES = 36,
	LENGTH_CODES = 53,
	TABLE_LOG_LEAST = 5,
	COST_SHIFT = 8,
	SHORT_NR = 128,         /* 3.1.1.3.2.1: fewer sequences are counted in one byte, else in two */
	DESCRIPTION_BYTES = 16, /* most often */
};

/* 3.1.1.3.2.1: how the table of a kind of codes is told. */
enum table_mode { MODE_ONE_CODE = 1, MODE_DESCRIBED = 2, MODE_AS_BEFORE = 3 };

/* 3.1.1.3.2.1.1: bits of the value behind the code; those of offsets are as many as the code. */
static const uint8_t literals_bits[LITERALS_CODES] = {[16] = 1, 1, 1, 1,  2,  2,  3,  3,  4,  6,
						      7,        8, 9, 10, 11, 12, 13, 14, 15, 16};
static const uint8_t length_bits[LENGTH_CODES] = {[32] = 1, 1, 1, 1,  2,  2,  3,  3,  4,  4, 5,
						  7,        8, 9, 10, 11, 12, 13, 14, 15, 16};

static void set_codes(uint8_t *codes, size_t nr_values, const uint8_t *bits)
{
	uint8_t code = 0;

	for (size_t value = 0, next = 1u << bits[0]; value < nr_values; value++) {
		if (value == next)
			next += 1u << bits[++code];
		codes[value] = code;
	}
}

/* log2, rounded, by squaring: each square that is 2 or more is a one in the next digit. libm is not loaded for it. */
static uint16_t cost_of(uint32_t share)
{
	enum { FRACTION_BITS = 31 };
	const unsigned whole = highest_bit(share);
	uint64_t value = (uint64_t)share << (FRACTION_BITS - whole); /* 1 <= value / 2^FRACTION_BITS < 2 */
	uint32_t digits = whole;

	for (unsigned i = 0; i <= COST_SHIFT; i++) {
		value = value * value >> FRACTION_BITS;
		const unsigned digit = (unsigned)(value >> (FRACTION_BITS + 1));
		digits = digits << 1 | digit;
		value >>= digit;
	}
	return (uint16_t)((digits + 1) >> 1);
}

void sequences_init(struct sequences *sequences)
{
	sequences->has_bmi2 = bmi2_is_here();
	set_codes(sequences->literals_codes, sizeof(sequences->literals_codes), literals_bits);
	set_codes(sequences->length_codes, sizeof(sequences->length_codes), length_bits);
	for (size_t share = 1; share <= 1 << TABLE_LOG_MAX; share++)
		sequences->costs[share] = cost_of((uint32_t)share);
}

void sequences_begin_frame(struct sequences *sequences)
{
	static const uint32_t first[3] = {1, 4, 8}; /* 3.1.1.5 */

	memcpy(sequences->recent, first, sizeof(first));
	sequences->has_tables = false;
}

void sequences_begin_block(struct sequences *sequences)
{
	memcpy(sequences->recent_before, sequences->recent, sizeof(sequences->recent));
	memset(sequences->counts, 0, sizeof(sequences->counts));
	sequences->nr = 0;
}

void sequences_forget_block(struct sequences *sequences)
{
	memcpy(sequences->recent, sequences->recent_before, sizeof(sequences->recent));
	sequences->has_tables = false; /* ours are those of the block that is not stored so */
}

void sequences_go_back(struct sequences *sequences, const uint32_t recent[3])
{
	memcpy(sequences->recent, recent, sizeof(sequences->recent));
	sequences->has_tables = false; /* ours are those of a block that is not stored */
}

/* Bits from the lowest on. */
struct bit_writer {
	uint64_t bits;
	unsigned nr; /* below 8 after flush_bits() */
	uint8_t *at; /* 8 bytes may be written */
};

ALWAYS_INLINE void put_bits(struct bit_writer *to, uint64_t value, unsigned nr)
{
	to->bits |= (value & ((UINT64_C(1) << nr) - 1)) << to->nr;
	to->nr += nr;
}

ALWAYS_INLINE void flush_bits(struct bit_writer *to)
{
	uint64_t bits = htole64(to->bits);

	memcpy(to->at, &bits, sizeof(bits));
	to->at += to->nr / 8;
	to->bits >>= to->nr & ~7u;
	to->nr &= 7;
}

ALWAYS_INLINE uint8_t *end_bits(struct bit_writer *to)
{
	flush_bits(to);
	return to->at + (to->nr > 0);
}

/* 4.1.1: the shares of all codes up to the last one in use. Returns their end. */
static uint8_t *describe(const struct code_table *table, unsigned last, uint8_t *out)
{
	struct bit_writer to = {.at = out};
	uint32_t left = 1u << table->log;

	put_bits(&to, table->log - TABLE_LOG_LEAST, 4);
	for (unsigned code = 0; code <= last;) {
		uint32_t share = table->shares[code++], value = share + 1;
		unsigned nr = highest_bit(left + 1) + 1;
		uint32_t nr_short = (1u << nr) - 2 - left; /* values that take a bit less */
		if (value < nr_short)
			put_bits(&to, value, nr - 1);
		else
			put_bits(&to, value < 1u << (nr - 1) ? value : value + nr_short, nr);
		flush_bits(&to);
		left -= share;
		if (share)
			continue;
		unsigned zeros = 0;
		while (!table->shares[code + zeros])
			zeros++;
		code += zeros;
		for (; zeros >= 3; zeros -= 3) {
			put_bits(&to, 3, 2);
			flush_bits(&to);
		}
		put_bits(&to, zeros, 2);
	}
	return end_bits(&to);
}

/* 4.1.1: each code gets its states in steps over the table; to which it leads follows from their order. */
static void make_states(struct code_table *table, unsigned last)
{
	const unsigned nr_states = 1u << table->log, step = nr_states / 2 + nr_states / 8 + 3;
	uint8_t code_of[1 << TABLE_LOG_MAX];
	uint16_t next[CODES_MAX];
	unsigned first = 0, at = 0;

	for (unsigned code = 0; code <= last; first += table->shares[code++]) {
		uint32_t share = table->shares[code];
		next[code] = (uint16_t)first;
		if (!share)
			continue;
		unsigned most_bits = table->log - (share > 1 ? highest_bit(share - 1) : 0);
		table->codes[code].bits = (most_bits << 16) - (share << most_bits);
		table->codes[code].place = (int32_t)first - (int32_t)share;
		for (uint32_t i = 0; i < share; i++) {
			code_of[at] = (uint8_t)code;
			at = (at + step) & (nr_states - 1);
		}
	}
	for (unsigned state = 0; state < nr_states; state++)
		table->states[next[code_of[state]]++] = (uint16_t)(nr_states + state);
}

static void set_one_code(struct code_table *table, unsigned code)
{
	memset(table->shares, 0, sizeof(table->shares));
	table->log = 0;
	table->shares[code] = 1;
	table->codes[code].bits = UINT32_MAX; /* none */
	table->codes[code].place = -1;
	table->states[0] = 1;
}

/* By their counts; whichever occurs has one. */
static void set_shares(struct code_table *table, const uint32_t *counts, unsigned last, uint32_t nr)
{
	const uint32_t nr_states = 1u << table->log;
	uint32_t sum = 0;
	unsigned most = 0;

	memset(table->shares, 0, sizeof(table->shares));
	for (unsigned code = 0; code <= last; code++) {
		if (!counts[code])
			continue;
		uint32_t share = counts[code] * nr_states / nr;
		table->shares[code] = (uint16_t)(share ? share : 1);
		sum += table->shares[code];
		if (counts[code] > counts[most])
			most = code;
	}
	for (; sum > nr_states; sum--) {
		for (unsigned code = 0; code <= last; code++)
			if (table->shares[code] > table->shares[most])
				most = code;
		table->shares[most]--;
	}
	table->shares[most] = (uint16_t)(table->shares[most] + nr_states - sum);
}

/* 3.1.1.3.2.1: the most that is allowed. Larger tables than there are sequences only take longer. */
static unsigned table_log(enum sequence_code kind, unsigned last, uint32_t nr)
{
	const unsigned most = kind == CODE_OFFSET ? 8 : TABLE_LOG_MAX, of_codes = highest_bit(last) + 2;
	unsigned log = nr > 1 ? highest_bit(nr - 1) : 0;

	log = log > TABLE_LOG_LEAST + 2 ? log - 2 : TABLE_LOG_LEAST;
	if (log < of_codes)
		log = of_codes;
	return log < most ? log : most;
}

/* In bits; UINT64_MAX: a code has no states. */
static uint64_t cost(const struct sequences *sequences, const struct code_table *table, const uint32_t *counts,
		     unsigned last)
{
	uint64_t sum = 0;

	for (unsigned code = 0; code <= last; code++) {
		if (!counts[code])
			continue;
		if (!table->shares[code])
			return UINT64_MAX;
		sum += (uint64_t)counts[code] * ((table->log << COST_SHIFT) - sequences->costs[table->shares[code]]);
	}
	return sum >> COST_SHIFT;
}

/* Chooses the table of one kind of codes, and writes what readers need for it at *out. */
static enum table_mode choose_table(struct sequences *sequences, enum sequence_code kind, uint8_t **out)
{
	struct code_table *table = &sequences->tables[kind], made;
	const uint32_t *counts = sequences->counts[kind];
	unsigned last = CODES_MAX - 1;

	while (!counts[last])
		last--;
	uint64_t as_before = sequences->has_tables ? cost(sequences, table, counts, last) : UINT64_MAX;
	if (counts[last] == sequences->nr) {
		if (as_before == 0)
			return MODE_AS_BEFORE;
		set_one_code(table, last);
		*(*out)++ = (uint8_t)last;
		return MODE_ONE_CODE;
	}
	made.log = table_log(kind, last, sequences->nr);
	set_shares(&made, counts, last, sequences->nr);
	if (as_before <= cost(sequences, &made, counts, last) + 8 * DESCRIPTION_BYTES)
		return MODE_AS_BEFORE;
	*out = describe(&made, last, *out);
	make_states(&made, last);
	memcpy(table, &made, sizeof(made));
	return MODE_DESCRIBED;
}

/* The state with which a reader ends. */
ALWAYS_INLINE uint32_t last_state(const struct code_table *table, unsigned code)
{
	uint32_t nr_bits = (table->codes[code].bits + (1u << 15)) >> 16;
	uint32_t value = (nr_bits << 16) - table->codes[code].bits;

	return table->states[(int32_t)(value >> nr_bits) + table->codes[code].place];
}

/* The state before, from which a reader comes to this one by the bits. */
ALWAYS_INLINE uint32_t put_code(struct bit_writer *to, const struct code_table *table, uint32_t state, unsigned code)
{
	uint32_t nr_bits = (state + table->codes[code].bits) >> 16;

	put_bits(to, state, nr_bits);
	return table->states[(int32_t)(state >> nr_bits) + table->codes[code].place];
}

/* What of the values is not in their codes. At most 7 + 3 * 9 bits are there already. */
ALWAYS_INLINE void put_rest(struct bit_writer *to, const struct sequence *sequence)
{
	const unsigned literals = literals_bits[sequence->codes[CODE_LITERALS]];
	const unsigned length = length_bits[sequence->codes[CODE_LENGTH]], offset = sequence->codes[CODE_OFFSET];

	put_bits(to, sequence->literals, literals);
	if (literals + length + offset > 63 - 7 - 3 * 9) /* seldom */
		flush_bits(to);
	put_bits(to, sequence->length, length);
	put_bits(to, sequence->offset, offset);
	flush_bits(to);
}

/* 3.1.1.3.2.1.2: they are read from the last bit on, so all comes in reverse. */
ALWAYS_INLINE uint8_t *put_sequences(const struct sequences *sequences, uint8_t *out)
{
	const struct code_table *literals = &sequences->tables[CODE_LITERALS];
	const struct code_table *offset = &sequences->tables[CODE_OFFSET];
	const struct code_table *length = &sequences->tables[CODE_LENGTH];
	const struct sequence *sequence = &sequences->list[sequences->nr - 1];
	struct bit_writer to = {.at = out};
	uint32_t literals_state = last_state(literals, sequence->codes[CODE_LITERALS]);
	uint32_t offset_state = last_state(offset, sequence->codes[CODE_OFFSET]);
	uint32_t length_state = last_state(length, sequence->codes[CODE_LENGTH]);

	put_rest(&to, sequence);
	while (sequence-- != sequences->list) {
		offset_state = put_code(&to, offset, offset_state, sequence->codes[CODE_OFFSET]);
		length_state = put_code(&to, length, length_state, sequence->codes[CODE_LENGTH]);
		literals_state = put_code(&to, literals, literals_state, sequence->codes[CODE_LITERALS]);
		put_rest(&to, sequence);
	}
	put_bits(&to, length_state, length->log);
	put_bits(&to, offset_state, offset->log);
	put_bits(&to, literals_state, literals->log);
	put_bits(&to, 1, 1); /* where readers begin */
	return end_bits(&to);
}

static uint8_t *put_sequences_plain(const struct sequences *sequences, uint8_t *out)
{
	return put_sequences(sequences, out);
}

BMI2_TARGET static uint8_t *put_sequences_bmi2(const struct sequences *sequences, uint8_t *out)
{
	return put_sequences(sequences, out);
}

uint8_t *sequences_write(struct sequences *sequences, uint8_t *out)
{
	const uint32_t nr = sequences->nr;

	if (nr >= SHORT_NR)
		*out++ = (uint8_t)((nr >> 8) + SHORT_NR);
	*out++ = (uint8_t)nr;
	if (!nr)
		return out;
	uint8_t *modes = out++;
	enum table_mode literals = choose_table(sequences, CODE_LITERALS, &out);
	enum table_mode offset = choose_table(sequences, CODE_OFFSET, &out);
	enum table_mode length = choose_table(sequences, CODE_LENGTH, &out);
	*modes = (uint8_t)(literals << 6 | offset << 4 | length << 2);
	sequences->has_tables = true;
	return sequences->has_bmi2 ? put_sequences_bmi2(sequences, out) : put_sequences_plain(sequences, out);
}
