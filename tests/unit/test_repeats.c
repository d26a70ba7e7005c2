/* SPDX-License-Identifier: MIT */
/* Literals and repeats give back what they were found in, for any bytes, and no block holds too much. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compress/repeats.h"
#include "compress/zstd.h"

enum { BLOCK = 4096, MOST = 64 << 10, RECORD_WORDS = 14 };

/* Four kinds of records that follow each other, of which the time and at times another word are new. */
static void make_records(uint8_t *bytes, size_t len, unsigned *seed)
{
	for (size_t at = 0, nr = 0; at < len; nr++) {
		uint64_t words[RECORD_WORDS];
		for (size_t i = 0; i < RECORD_WORDS; i++)
			words[i] = 0x0102030405060708 * (i + 1) + nr % 4;
		words[3] = nr * 1000 + (uint64_t)rand_r(seed) % 1000;
		if (rand_r(seed) % 8 == 0)
			words[10] = (uint64_t)rand_r(seed);
		size_t part = len - at < sizeof(words) ? len - at : sizeof(words);
		memcpy(bytes + at, words, part);
		at += part;
	}
}

/* Returns how many bytes were literals. */
static size_t check_gives_back(const uint8_t *in, size_t len)
{
	size_t room = repeats_room(len, BLOCK), at = 0, in_block = 0, nr_literals = 0;
	struct repeat *found = calloc(room, sizeof(*found));
	uint8_t *out = malloc(len + 1);
	size_t nr = repeats_find((struct span){in, len}, BLOCK, found);

	assert_true(nr <= room);
	for (size_t i = 0; i < nr; i++) {
		in_block += found[i].literals + found[i].length;
		assert_true(at + found[i].literals + found[i].length <= len && in_block <= BLOCK);
		memcpy(out + at, in + at, found[i].literals);
		at += found[i].literals;
		nr_literals += found[i].literals;
		assert_true(found[i].distance <= at && !found[i].distance == !found[i].length);
		for (size_t k = 0; k < found[i].length; k++, at++)
			out[at] = out[at - found[i].distance];
		if (!found[i].distance)
			in_block = 0;
	}
	if (nr) {
		assert_int_equal(at, len);
		assert_memory_equal(out, in, len);
	}
	free(out);
	free(found);
	return nr ? nr_literals : len;
}

static void test_records(void **state)
{
	uint8_t *bytes = malloc(MOST);
	unsigned seed = 1;

	(void)state;
	make_records(bytes, MOST, &seed);
	assert_true(check_gives_back(bytes, MOST) < MOST / 8);
	for (size_t len = 0; len < 3 * BLOCK; len += 1 + (size_t)rand_r(&seed) % 37)
		check_gives_back(bytes, len);
	free(bytes);
}

/* Also bytes in which nothing repeats, and such that repeat more often than it is worth. */
static void test_any_bytes(void **state)
{
	uint8_t *bytes = malloc(MOST);
	unsigned seed = 2;

	(void)state;
	for (unsigned round = 0; round < 200; round++) {
		size_t len = (size_t)rand_r(&seed) % MOST;
		unsigned values = 1U << rand_r(&seed) % 9, run = 1 + (unsigned)rand_r(&seed) % 40;
		for (size_t at = 0; at < len; at++)
			bytes[at] = at % run && at >= 16 ? bytes[at - 16] : (uint8_t)((unsigned)rand_r(&seed) % values);
		check_gives_back(bytes, len);
	}
	memset(bytes, 0, MOST);
	check_gives_back(bytes, MOST);
	free(bytes);
}

static void test_zstd_encodes_them(void **state)
{
	uint8_t *bytes = malloc(MOST), *frame = malloc(zstd_bound(MOST)), *out = malloc(MOST);
	struct zstd_packer *packer;
	struct zstd_unpacker *unpacker;
	unsigned seed = 3;

	(void)state;
	if (!zstd_available())
		skip();
	make_records(bytes, MOST, &seed);
	assert_int_equal(zstd_packer_new(&packer), 0);
	assert_int_equal(zstd_unpacker_new(&unpacker), 0);
	int64_t len = zstd_pack_repeats(packer, (struct span){bytes, MOST}, frame, zstd_bound(MOST));
	if (len > 0) {                        /* else this libzstd does not take them */
		assert_true(len < MOST / 17); /* 15 without the distances that follow one of the same length */
		assert_int_equal(zstd_unpack_frame(unpacker, (struct span){frame, (size_t)len}, out, MOST), MOST);
		assert_memory_equal(out, bytes, MOST);
	}
	zstd_unpacker_free(unpacker);
	zstd_packer_free(packer);
	free(out);
	free(frame);
	free(bytes);
}

/* Also what stood more than zstd's usual window before, for a reader that has the frame's window only. */
static void test_far_repeats_are_in_the_window(void **state)
{
	enum { FAR = 3 << 20, PART = 16 << 10, PIECE = 64 << 10 };
	const struct zstd_pack_params no_size = {.level = 1, .no_size = true};
	uint8_t *bytes = calloc(1, FAR), *frame = malloc(zstd_bound(FAR)), *out = malloc(PIECE);
	struct zstd_packer *packer;
	struct zstd_unpacker *unpacker;
	unsigned seed = 4;
	size_t at = 0;

	(void)state;
	if (!zstd_available())
		skip();
	for (size_t i = 0; i < PART; i++)
		bytes[i] = bytes[FAR - PART + i] = (uint8_t)rand_r(&seed);
	assert_int_equal(zstd_packer_new(&packer), 0);
	assert_int_equal(zstd_unpacker_new(&unpacker), 0);
	/* What an earlier frame was packed with does not count. */
	assert_true(zstd_pack(packer, &no_size, (struct span){bytes, PIECE}, frame, zstd_bound(FAR)) > 0);
	int64_t len = zstd_pack_repeats(packer, (struct span){bytes, FAR}, frame, zstd_bound(FAR));
	if (len > 0) { /* else this libzstd does not take them */
		struct span rest = {frame, (size_t)len};
		struct zstd_frame start;
		assert_true(zstd_frame_start(rest, &start));
		assert_int_equal(start.bytes, FAR);
		assert_true(len < PART * 3 / 2);
		for (int64_t got; (got = zstd_unpack(unpacker, &rest, out, PIECE)) > 0; at += (size_t)got) {
			assert_true(at + (size_t)got <= FAR);
			assert_memory_equal(out, bytes + at, got);
		}
		assert_int_equal(at, FAR);
	}
	zstd_unpacker_free(unpacker);
	zstd_packer_free(packer);
	free(out);
	free(frame);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_records),
		cmocka_unit_test(test_any_bytes),
		cmocka_unit_test(test_zstd_encodes_them),
		cmocka_unit_test(test_far_repeats_are_in_the_window),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
