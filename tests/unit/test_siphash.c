/* SPDX-License-Identifier: MIT */
/* Against the values of its authors ("SipHash: a fast short-input PRF", appendix A, and vectors.h of their code). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unwind/siphash.h"

/* Key and input are the bytes 0, 1, 2, ... */
static void test_known_values(void **state)
{
	static const uint64_t key[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
	static const struct {
		size_t len;
		uint64_t hash;
	} known[] = {
		{0, 0x726fdb47dd0e0e31}, {1, 0x74f839c593dc67fd}, {8, 0x93f5f5799a932462}, {15, 0xa129ca6149be45e5}};
	uint8_t bytes[16];

	(void)state;
	for (uint8_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = i;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		assert_int_equal(siphash(key, (struct span){bytes, known[i].len}), known[i].hash);
}

/* Each bit of key and input counts. */
static void test_each_bit_counts(void **state)
{
	uint64_t key[2] = {1, 2}, words[3] = {3, 4, 5};
	const struct span bytes = {words, 20};
	const uint64_t hash = siphash(key, bytes);

	(void)state;
	for (unsigned bit = 0; bit < 128; bit++) {
		key[bit / 64] ^= UINT64_C(1) << bit % 64;
		assert_int_not_equal(siphash(key, bytes), hash);
		key[bit / 64] ^= UINT64_C(1) << bit % 64;
	}
	for (unsigned bit = 0; bit < 20 * 8; bit++) {
		((uint8_t *)words)[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_not_equal(siphash(key, bytes), hash);
		((uint8_t *)words)[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(siphash(key, bytes), hash);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_values),
		cmocka_unit_test(test_each_bit_counts),
	};

	return cmocka_run_group_tests_name("siphash", tests, NULL, NULL);
}
