/* SPDX-License-Identifier: MIT */
/* What is packed by its repeats is what libzstd unpacks, for any bytes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compress/repeats.h"
#include "compress/zstd.h"

enum { MOST = 300 << 10, RECORD_WORDS = 14 };

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

struct fixture {
	struct repeats_packer *packer;
	struct zstd_unpacker *unpacker;
	uint8_t *bytes, *frame, *out; /* MOST, what that can become, MOST */
};

static int set_up(void **state)
{
	static struct fixture fixture;

	if (!zstd_available())
		return 0;
	assert_int_equal(repeats_packer_new(&fixture.packer), 0);
	assert_int_equal(zstd_unpacker_new(&fixture.unpacker), 0);
	fixture.bytes = calloc(1, MOST);
	fixture.frame = malloc(repeats_bound(MOST));
	fixture.out = malloc(MOST);
	*state = &fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	if (!f)
		return 0;
	repeats_packer_free(f->packer);
	zstd_unpacker_free(f->unpacker);
	free(f->bytes);
	free(f->frame);
	free(f->out);
	return 0;
}

static struct fixture *fixture_of(void **state)
{
	if (!*state)
		skip();
	return *state;
}

/* In memory of just that length, so that sanitizers see what is read behind it. Returns the length of the frame. */
static int64_t check_gives_back(struct fixture *f, size_t len)
{
	uint8_t *bytes = malloc(len + !len);

	memcpy(bytes, f->bytes, len);
	int64_t packed = repeats_pack(f->packer, (struct span){bytes, len}, f->frame);
	free(bytes);
	if (packed == -ENOTSUP)
		return packed;
	assert_true(packed > 0 && (size_t)packed <= repeats_bound(len));
	const struct span frame = {f->frame, (size_t)packed};
	assert_int_equal(zstd_unpack_frame(f->unpacker, frame, f->out, len), len);
	assert_memory_equal(f->out, f->bytes, len);
	return packed;
}

static void test_records(void **state)
{
	struct fixture *f = fixture_of(state);
	unsigned seed = 1;

	make_records(f->bytes, MOST, &seed);
	/* 15 times without the distances that follow one of the same length, 10 where codes have no bits of their own.
	 */
	assert_in_range(check_gives_back(f, MOST), 1, MOST / 17);
	for (size_t len = 1; len < 12 << 10; len += 1 + (size_t)rand_r(&seed) % 37)
		assert_true(check_gives_back(f, len) > 0);
}

/* Also bytes in which nothing repeats, and such that repeat more often than it is worth. */
static void test_any_bytes(void **state)
{
	struct fixture *f = fixture_of(state);
	unsigned seed = 2, nr_packed = 0, nr_refused = 0;

	for (unsigned round = 0; round < 400; round++) {
		size_t len = 1 + (size_t)rand_r(&seed) % (round % 8 ? MOST / 8 : MOST);
		unsigned values = 1U << rand_r(&seed) % 9, run = 1 + (unsigned)rand_r(&seed) % 400;
		for (size_t at = 0; at < len; at++)
			f->bytes[at] =
				at % run && at >= 16 ? f->bytes[at - 16] : (uint8_t)((unsigned)rand_r(&seed) % values);
		int64_t packed = check_gives_back(f, len);
		nr_packed += packed > 0;
		nr_refused += packed < 0;
	}
	assert_true(nr_packed > 300 && nr_refused > 10);
	memset(f->bytes, 0, MOST);
	assert_in_range(check_gives_back(f, MOST), 1, 100);
}

/* One part in memory of its own, which is overwritten afterwards. */
static int add_part(struct fixture *f, size_t at, size_t len)
{
	uint8_t *part = malloc(len);

	memcpy(part, f->bytes + at, len);
	int err = repeats_add(f->packer, (struct span){part, len}, MOST);
	memset(part, 0xee, len);
	free(part);
	return err;
}

/* Parts of any size, and at times one that is taken back, or that is refused. */
static void test_parts(void **state)
{
	struct fixture *f = fixture_of(state);
	unsigned seed = 7, nr_undone = 0, nr_refused = 0;

	for (unsigned round = 0; round < 100; round++) {
		size_t at = 0, len = 0;
		make_records(f->bytes, MOST, &seed);
		repeats_begin(f->packer, f->frame, repeats_bound(MOST));
		while (len < MOST / 2 || at == 0) {
			size_t part = 1 + (size_t)rand_r(&seed) % (1U << rand_r(&seed) % 18);
			part = part < MOST - len ? part : MOST - len;
			repeats_mark(f->packer);
			if (rand_r(&seed) % 8 == 0) /* of bytes that do not repeat nothing may be left */
				for (size_t i = len; i < len + part; i += 16)
					f->bytes[i] = (uint8_t)rand_r(&seed);
			int err = add_part(f, len, part);
			assert_true(err == 0 || err == -ENOTSUP);
			if (err || rand_r(&seed) % 4 == 0) {
				repeats_undo(f->packer);
				nr_refused += err != 0;
				nr_undone++;
				make_records(f->bytes + len, MOST - len, &seed);
				continue;
			}
			at = len += part;
		}
		const struct span frame = {f->frame, repeats_end(f->packer)};
		assert_int_equal(zstd_unpack_frame(f->unpacker, frame, f->out, len), len);
		assert_memory_equal(f->out, f->bytes, len);
	}
	assert_true(nr_undone > 100 && nr_refused > 10);
}

/* Memory of just that length, so that sanitizers see what is written behind it. */
static void test_parts_without_room(void **state)
{
	struct fixture *f = fixture_of(state);
	const size_t part = 10 << 10, room = repeats_bound(0) + 12 * part;
	uint8_t *frame = malloc(room);
	unsigned seed = 8;
	size_t len = 0;
	int err = 0;

	make_records(f->bytes, MOST, &seed);
	repeats_begin(f->packer, frame, room);
	for (; !err; len += err ? 0 : part) {
		repeats_mark(f->packer);
		err = add_part(f, len % (MOST - part), part);
	}
	assert_int_equal(err, -ENOSPC);
	repeats_undo(f->packer);
	assert_true(len > 12 * part);
	uint8_t *out = malloc(len);
	assert_int_equal(zstd_unpack_frame(f->unpacker, (struct span){frame, repeats_end(f->packer)}, out, len), len);
	free(out);
	free(frame);
}

/*
 * Repeats of all lengths, behind all numbers of literals, from all distances: blocks with few and many codes, with the
 * tables of the block before and their own, with one code, and blocks that are stored as they are between them.
 */
static void test_all_codes(void **state)
{
	struct fixture *f = fixture_of(state);
	unsigned seed = 5, nr_packed = 0;

	for (unsigned round = 0; round < 60; round++) {
		unsigned literals_bits = 1 + round % 16, length_bits = 6 + round / 4 % 12;
		size_t at = 0;
		while (at < MOST) {
			size_t nr = 8 * (1 + (size_t)rand_r(&seed) % (1U << literals_bits) / 8);
			for (; nr && at < MOST; nr--)
				f->bytes[at++] = (uint8_t)rand_r(&seed);
			size_t length = 48 + (size_t)rand_r(&seed) % (1U << length_bits);
			size_t distance = 16 + ((size_t)rand_r(&seed) << rand_r(&seed) % 8) % MOST;
			distance -= distance % 8;
			for (; length && at < MOST && distance <= at; length--, at++)
				f->bytes[at] = f->bytes[at - distance];
		}
		nr_packed += check_gives_back(f, MOST) > 0;
	}
	assert_true(nr_packed > 30);
}

/* For which zstd's own search makes much smaller files. */
static void test_short_repeats_are_not_for_it(void **state)
{
	struct fixture *f = fixture_of(state);

	for (uint64_t at = 0, i = 0; at < MOST; at += 8, i++)
		memcpy(f->bytes + at, &(uint64_t){i % 3 ? i / 3 % 50 * 3 + i % 3 : i * i}, 8);
	assert_int_equal(check_gives_back(f, MOST), -ENOTSUP);
}

/* Also what stood more than zstd's usual window before, for a reader that has the frame's window only. */
static void test_far_repeats_are_in_the_window(void **state)
{
	enum { FAR = 3 << 20, PART = 16 << 10, PIECE = 64 << 10, SINGLE_SEGMENT = 1 << 5 };
	struct fixture *f = fixture_of(state);
	uint8_t *bytes = calloc(1, FAR), *frame = malloc(repeats_bound(FAR)), *out = malloc(PIECE);
	struct zstd_frame start;
	unsigned seed = 4;
	size_t at = 0;

	for (size_t i = 0; i < PART; i++)
		bytes[i] = bytes[FAR - PART + i] = (uint8_t)rand_r(&seed);
	int64_t len = repeats_pack(f->packer, (struct span){bytes, FAR}, frame);
	struct span rest = {frame, (size_t)len};
	assert_in_range(len, PART, PART * 3 / 2);
	assert_true(zstd_frame_start(rest, &start));
	assert_int_equal(start.bytes, FAR);
	assert_true(frame[4] & SINGLE_SEGMENT);
	for (int64_t got; (got = zstd_unpack(f->unpacker, &rest, out, PIECE)) > 0; at += (size_t)got) {
		assert_true(at + (size_t)got <= FAR);
		assert_memory_equal(out, bytes + at, got);
	}
	assert_int_equal(at, FAR);
	free(out);
	free(frame);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_records),
		cmocka_unit_test(test_any_bytes),
		cmocka_unit_test(test_all_codes),
		cmocka_unit_test(test_short_repeats_are_not_for_it),
		cmocka_unit_test(test_far_repeats_are_in_the_window),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_parts_without_room),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
