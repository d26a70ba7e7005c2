/* SPDX-License-Identifier: MIT */
/* What zlib packed comes back, in parts of any length, from ISA-L (where it is installed) as from zlib itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "compress/zlib_unpacker.h"

enum { BYTES = 100000, ROOM = 2 * BYTES, ROUNDS = 300 };

static const enum zlib_unpack_by all[] = {ZLIB_UNPACK_BEST, ZLIB_UNPACK_BY_ZLIB};

/* Words that repeat, and numbers that do not. */
static void make_bytes(uint8_t *bytes, size_t len, unsigned *seed)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = i % 40 < 30 ? (uint8_t) "a name that comes again and again"[i % 40] : (uint8_t)rand_r(seed);
}

static size_t make_packed(const uint8_t *bytes, size_t len, int level, uint8_t packed[ROOM])
{
	uLongf packed_len = ROOM;

	assert_int_equal(compress2(packed, &packed_len, bytes, len, level), Z_OK);
	return packed_len;
}

/* In parts of up to so many bytes. Returns whether all came, and it ended well. */
static bool unpack(struct span packed, enum zlib_unpack_by by, size_t most, unsigned *seed, uint8_t *ret, size_t len)
{
	struct zlib_unpacker *unpacker = zlib_unpacker_new(packed, by);
	size_t done = 0;
	bool came = true;

	assert_non_null(unpacker);
	while (came && done < len) {
		size_t part = 1 + (size_t)rand_r(seed) % most;
		part = part < len - done ? part : len - done;
		came = zlib_unpack(unpacker, ret + done, part) == part;
		done += part;
	}
	bool good = came && zlib_unpack_is_complete(unpacker);
	zlib_unpacker_free(unpacker);
	return good;
}

static void test_gives_back_what_was_packed(void **state)
{
	static uint8_t bytes[BYTES], packed[ROOM], got[BYTES];
	unsigned seed = 1;

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		size_t len = 1 + (size_t)rand_r(&seed) % BYTES, most = round % 2 ? 300 : BYTES;
		make_bytes(bytes, len, &seed);
		struct span in = {packed, make_packed(bytes, len, round % 10, packed)};
		for (size_t i = 0; i < 2; i++) {
			memset(got, 0, len);
			assert_true(unpack(in, all[i], most, &seed, got, len));
			assert_memory_equal(got, bytes, len);
		}
	}
}

static void test_damage_is_seen_by_both(void **state)
{
	static uint8_t bytes[BYTES], packed[ROOM], got[BYTES];
	unsigned seed = 2;
	size_t nr_good = 0;

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		make_bytes(bytes, BYTES, &seed);
		struct span in = {packed, make_packed(bytes, BYTES, 1 + round % 9, packed)};
		if (round % 3)
			packed[(size_t)rand_r(&seed) % in.len] ^= (uint8_t)(1 << rand_r(&seed) % 8);
		else
			in.len = 1 + (size_t)rand_r(&seed) % (in.len - 1);
		bool good = unpack(in, ZLIB_UNPACK_BY_ZLIB, BYTES, &seed, got, BYTES);
		assert_int_equal(unpack(in, ZLIB_UNPACK_BEST, BYTES, &seed, got, BYTES), good);
		nr_good += good;
	}
	assert_true(nr_good < ROUNDS / 10); /* of a header not all bits matter */
}

static void test_fewer_bytes_than_wanted(void **state)
{
	static uint8_t bytes[BYTES], packed[ROOM], got[2 * BYTES];
	unsigned seed = 3;

	(void)state;
	make_bytes(bytes, BYTES, &seed);
	struct span in = {packed, make_packed(bytes, BYTES, 6, packed)};
	for (size_t i = 0; i < 2; i++) {
		struct zlib_unpacker *unpacker = zlib_unpacker_new(in, all[i]);
		assert_int_equal(zlib_unpack(unpacker, got, sizeof(got)), BYTES);
		assert_int_equal(zlib_unpack(unpacker, got, sizeof(got)), 0);
		assert_true(zlib_unpack_is_complete(unpacker));
		zlib_unpacker_free(unpacker);
		/* There is more. */
		unpacker = zlib_unpacker_new(in, all[i]);
		assert_int_equal(zlib_unpack(unpacker, got, BYTES - 1), BYTES - 1);
		assert_false(zlib_unpack_is_complete(unpacker));
		zlib_unpacker_free(unpacker);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gives_back_what_was_packed),
		cmocka_unit_test(test_damage_is_seen_by_both),
		cmocka_unit_test(test_fewer_bytes_than_wanted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
