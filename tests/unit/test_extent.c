/* SPDX-License-Identifier: MIT */
/* Extents of bytes of all kinds, cut into COMPRESSED records as perf wants them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compress/extent.h"
#include "compress/extent_stats.h"
#include "compress/repeats.h"
#include "compress/zstd.h"
#include "perfdata/attr.h"
#include "perfdata/record.h"

enum { MIB = 1 << 20, EXTENT_BYTES = 4 * MIB };

struct fixture {
	struct extent_packer *packer;
	struct zstd_packer *zstd;
	struct zstd_unpacker *unpacker;
	uint8_t *records, *out, *frame, *again; /* EXTENT_BYTES each, and as much again */
};

static uint8_t *new_bytes(void)
{
	uint8_t *bytes = calloc(2, EXTENT_BYTES);

	assert_non_null(bytes);
	return bytes;
}

static int begin(void **state)
{
	static struct fixture fixture;

	if (!zstd_available())
		return 0; /* the tests are skipped */
	assert_int_equal(extent_packer_new(&fixture.packer), 0);
	assert_int_equal(zstd_packer_new(&fixture.zstd), 0);
	assert_int_equal(zstd_unpacker_new(&fixture.unpacker), 0);
	fixture.records = new_bytes();
	fixture.out = new_bytes();
	fixture.frame = new_bytes();
	fixture.again = new_bytes();
	*state = &fixture;
	return 0;
}

static int end(void **state)
{
	struct fixture *f = *state;

	if (!f)
		return 0;
	extent_packer_free(f->packer);
	zstd_packer_free(f->zstd);
	zstd_unpacker_free(f->unpacker);
	free(f->records);
	free(f->out);
	free(f->frame);
	free(f->again);
	return 0;
}

static struct fixture *fixture_of(void **state)
{
	if (!*state)
		skip();
	return *state;
}

/* Words that repeat, as those of records do. */
static void fill(uint8_t *bytes, size_t len)
{
	for (size_t at = 0; at + 8 <= len; at += 8) {
		uint64_t word = at % 64 ? at % 64 : at / 4096;
		memcpy(bytes + at, &word, sizeof(word));
	}
}

/* That no compressor makes shorter. */
static void fill_hard(uint8_t *bytes, size_t len)
{
	uint64_t seed = 1;

	for (size_t at = 0; at < len; at++) {
		seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		bytes[at] = (uint8_t)(seed >> 56);
	}
}

/* The frame in the COMPRESSED records, each of which must give bytes, but not too many. Returns its length, without
 * that of the hash in front of it, which is taken away. */
static size_t check_records(struct fixture *f, size_t len)
{
	size_t frame_bytes = 0, given = 0;

	zstd_unpack_reset(f->unpacker);
	for (size_t at = 0; at < len;) {
		struct perf_event_header header;
		memcpy(&header, f->out + at, sizeof(header));
		assert_int_equal(header.type, RECORD_COMPRESSED);
		assert_in_range(header.size, sizeof(header) + 1, len - at);
		struct span payload = {f->out + at + sizeof(header), header.size - sizeof(header)};
		memcpy(f->frame + frame_bytes, payload.ptr, payload.len);
		frame_bytes += payload.len;
		int64_t got = zstd_unpack(f->unpacker, &payload, f->again + given, 2 * EXTENT_BYTES - given);
		assert_in_range(got, 1, EXTENT_RECORD_BYTES_MAX);
		given += (size_t)got;
		at += header.size;
	}
	struct zstd_frame start;
	assert_true(zstd_frame_start((struct span){f->frame, frame_bytes}, &start));
	assert_true(start.header_bytes > ZSTD_HASH_BYTES && start.checksum_bytes == 0);
	frame_bytes -= ZSTD_HASH_BYTES;
	memmove(f->frame, f->frame + ZSTD_HASH_BYTES, frame_bytes);
	return frame_bytes;
}

/* Packs the records, and finds them again in the result. Returns the length of the frame. */
static size_t check_pack_as(struct fixture *f, const struct extent_pack_params *how)
{
	int64_t len = extent_pack(f->packer, how, (struct span){f->records, EXTENT_BYTES}, f->out, 2 * EXTENT_BYTES);

	assert_in_range(len, 1, 2 * EXTENT_BYTES);
	size_t frame_bytes = check_records(f, (size_t)len);
	memset(f->again, 0, EXTENT_BYTES);
	assert_int_equal(zstd_unpack_frame(f->unpacker, (struct span){f->frame, frame_bytes}, f->again, EXTENT_BYTES),
			 EXTENT_BYTES);
	assert_memory_equal(f->again, f->records, EXTENT_BYTES);
	return frame_bytes;
}

static size_t check_pack(struct fixture *f, int level)
{
	return check_pack_as(f, &(struct extent_pack_params){.level = level});
}

/* What fits into records as it is costs nothing but their headers. */
static void frames_are_as_short_as_without_records(void **state)
{
	const struct zstd_pack_params alone = {.level = 3};
	struct fixture *f = fixture_of(state);

	fill(f->records, EXTENT_BYTES);
	size_t frame_bytes = check_pack(f, 3);
	assert_int_equal(frame_bytes,
			 zstd_pack(f->zstd, &alone, (struct span){f->records, EXTENT_BYTES}, f->out, 2 * EXTENT_BYTES));
}

/* A block of 128 KiB that does not become shorter fits into no record; a few places in the extent may not show that. */
static void hard_bytes_fit_wherever_they_are(void **state)
{
	struct fixture *f = fixture_of(state);

	for (size_t place = 8 << 10; place < MIB; place += 200 << 10) { /* the first one in the first block */
		fill(f->records, EXTENT_BYTES);
		fill_hard(f->records + place, 150 << 10);
		check_pack(f, 1);
		check_pack(f, 3);
	}
	fill_hard(f->records, EXTENT_BYTES);
	check_pack(f, 3);
}

/* Words that hardly repeat: random ones, and among each eight of them one of a few. */
static void fill_stacks(uint8_t *bytes, size_t len)
{
	fill_hard(bytes, len);
	for (size_t at = 0; at + 8 <= len; at += 64)
		memcpy(bytes + at, &(uint64_t){0x7f0000001000 + at / 64 * 7 % 50 * 8}, 8);
}

/* A few places of an extent tell whether its bytes are hard, and are packed in less time. Not of one that is short. */
static void short_extents_are_not_probed(void **state)
{
	enum { PROBED = 64 << 10, BLOCK = 60 << 10 };
	const struct extent_pack_params how = {.level = 3};
	struct fixture *f = fixture_of(state);

	fill_stacks(f->records, PROBED);
	for (size_t bytes = PROBED - 8; bytes <= PROBED; bytes += 8) {
		const struct span records = {f->records, bytes};
		int64_t lens[2];
		for (unsigned hard = 0; hard < 2; hard++) {
			const struct zstd_pack_params params = {
				.level = 3, .block_bytes = hard ? BLOCK : 0, .hard = hard};
			lens[hard] = zstd_pack(f->zstd, &params, records, f->again, EXTENT_BYTES);
			assert_true(lens[hard] > 0);
		}
		assert_int_not_equal(lens[0], lens[1]);
		int64_t len = extent_pack(f->packer, &how, records, f->out, EXTENT_BYTES);
		assert_in_range(len, 1, EXTENT_BYTES);
		assert_int_equal(check_records(f, (size_t)len), lens[bytes == PROBED]);
	}
}

/* Low levels take long steps through bytes that hardly shrink, and all of a kind the same ones. */
static void levels_of_bytes_that_hardly_shrink(void **state)
{
	static const int levels[] = {1, 2, 3, 4, 5, 12};
	enum { BYTES = 256 << 10 };
	struct fixture *f = fixture_of(state);
	int64_t lens[sizeof(levels) / sizeof(levels[0])];

	fill_stacks(f->records, BYTES);
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		const struct zstd_pack_params params = {.level = levels[i], .hard = true};
		lens[i] = zstd_pack(f->zstd, &params, (struct span){f->records, BYTES}, f->again, EXTENT_BYTES);
		assert_true(lens[i] > 0);
	}
	for (size_t i = 0; i + 1 < sizeof(levels) / sizeof(levels[0]); i++)
		if (i % 2 == 0)
			assert_int_equal(lens[i], lens[i + 1]);
		else
			assert_int_not_equal(lens[i], lens[i + 1]);
}

enum {
	PROBE = 4 << 10,
	NR_PROBES = 16,
	PROBED = NR_PROBES * PROBE, /* the shortest extent that is probed */
	STEP = (PROBED - PROBE) / NR_PROBES,
	SMALL_BLOCK = 60 << 10,
};

/* Whether the first bytes of that extent are packed with small blocks, and as those that hardly shrink. */
static void expect_way(struct fixture *f, int level, bool small_blocks, bool hard)
{
	const struct extent_pack_params how = {.level = level};
	const struct span records = {f->records, PROBED};
	int64_t len = extent_pack(f->packer, &how, records, f->out, EXTENT_BYTES);

	assert_in_range(len, 1, EXTENT_BYTES);
	size_t frame_bytes = check_records(f, (size_t)len);
	for (unsigned way = 0; way < 4; way++) {
		const struct zstd_pack_params params = {
			.level = level, .block_bytes = way & 1 ? SMALL_BLOCK : 0, .hard = way & 2};
		len = zstd_pack(f->zstd, &params, records, f->again, EXTENT_BYTES);
		bool same = len == (int64_t)frame_bytes && !memcmp(f->again, f->frame, frame_bytes);
		assert_int_equal(same, way == (small_blocks | (unsigned)hard << 1));
	}
}

/* At low levels it takes two places of sixteen that hardly shrink, at higher ones most of them. */
static void as_many_places_as_it_takes(void **state)
{
	enum { QUICK = 5, NR_QUICK = 2, NR_OTHER = 14 };
	struct fixture *f = fixture_of(state);

	for (int level = QUICK; level <= QUICK + 1; level++) {
		const size_t enough = level == QUICK ? NR_QUICK : NR_OTHER;
		for (size_t nr = enough - 1; nr <= enough; nr++) {
			fill(f->records, PROBED);
			fill_hard(f->records, nr * STEP);
			memset(f->records, 0xff, sizeof(struct perf_event_header)); /* of a record that is not short */
			expect_way(f, level, true, nr == enough);
		}
	}
}

/* What half of a place's length is left of is long, and seven eighths hard. */
static void places_that_hardly_shrink(void **state)
{
	enum { NEAR = 120 };
	static const size_t limits[] = {PROBE / 2, PROBE / 8 * 7};
	const struct zstd_pack_params fast = {.level = 1};
	struct fixture *f = fixture_of(state);
	static uint8_t hard[STEP];

	fill_hard(hard, STEP);
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned above = 0; above < 2; above++) {
			const size_t nr_hard = limits[i] - NEAR + above * NEAR;
			/* All places look the same. */
			for (size_t at = 0; at < PROBED; at++)
				f->records[at] = at % STEP < nr_hard ? hard[at % STEP] : 0;
			const struct span place = {f->records, PROBE};
			const int64_t len = zstd_pack(f->zstd, &fast, place, f->again, EXTENT_BYTES);
			assert_in_range(len, limits[i] + (above ? 1 : -NEAR), limits[i] + (above ? NEAR : -1));
			expect_way(f, 3, i || above, i && above);
		}
	}
}

/* At level 1 records that are short are packed by their repeats, where these are worth it and time matters. */
static void short_records_are_packed_by_their_repeats(void **state)
{
	enum { SHORT = 2040, LONG = 2048 };
	struct fixture *f = fixture_of(state);
	const struct span records = {f->records, EXTENT_BYTES};
	struct repeats_packer *packer;

	assert_int_equal(repeats_packer_new(&packer), 0);
	for (uint16_t size = SHORT; size <= LONG; size += LONG - SHORT) {
		for (size_t at = 0; at < EXTENT_BYTES; at += 8)
			memcpy(f->records + at, &(uint64_t){at % size ? at % size : at / size}, 8);
		/* One that is short in any case stands in front of them. */
		memcpy(f->records, &(struct perf_event_header){.type = 3, .size = 16}, 8);
		for (size_t at = 16; at + size <= EXTENT_BYTES; at += size)
			memcpy(f->records + at, &(struct perf_event_header){.type = 9, .size = size}, 8);
		int64_t repeats = repeats_pack(packer, records, f->again);
		const struct zstd_pack_params plain = {.level = 1, .short_records = size == SHORT};
		int64_t other = zstd_pack(f->zstd, &plain, records, f->again, 2 * EXTENT_BYTES);
		assert_true(repeats > 0 && other > 0 && other != repeats);
		assert_int_equal(check_pack(f, 1), size == SHORT ? repeats : other);
		assert_int_equal(check_pack_as(f, &(struct extent_pack_params){.level = 1, .thorough = true}), other);
	}
	repeats_packer_free(packer);
}

/* In the memory of the records themselves: what does not fit leaves them as they are, in large blocks or small ones. */
static void records_stay_without_room(void **state)
{
	const struct extent_pack_params how = {.level = 3};
	struct fixture *f = fixture_of(state);
	const struct span records = {f->records, EXTENT_BYTES};

	for (unsigned is_hard = 0; is_hard < 2; is_hard++) {
		fill(f->records, EXTENT_BYTES);
		if (is_hard) /* where it is probed; so there are more records than their bytes ask for */
			fill_hard(f->records, 16 << 10);
		int64_t len = extent_pack(f->packer, &how, records, f->out, EXTENT_BYTES);
		assert_in_range(len, 1, EXTENT_BYTES / 2);
		memcpy(f->again, f->records, EXTENT_BYTES);
		/* The last header that does not fit is noticed before the first one is written. */
		for (size_t room = (size_t)len - 2 * sizeof(struct perf_event_header); room <= (size_t)len; room += 8) {
			assert_int_equal(extent_pack(f->packer, &how, records, f->records, room), -ENOSPC);
			assert_memory_equal(f->records, f->again, EXTENT_BYTES);
		}
		assert_int_equal(extent_pack(f->packer, &how, records, f->records, 0), -ENOSPC);
		assert_memory_equal(f->records, f->again, EXTENT_BYTES);
		assert_int_equal(extent_pack(f->packer, &how, records, f->records, (size_t)len + 1), len);
		assert_memory_equal(f->records, f->out, (size_t)len);
	}
}

static void cancelled_packing_leaves_records(void **state)
{
	const atomic_int level = 2;
	const struct extent_pack_params how = {.level = 3, .level_now = &level};
	struct fixture *f = fixture_of(state);

	fill(f->records, EXTENT_BYTES);
	memcpy(f->again, f->records, EXTENT_BYTES);
	assert_int_equal(
		extent_pack(f->packer, &how, (struct span){f->records, EXTENT_BYTES}, f->records, EXTENT_BYTES),
		-ECANCELED);
	assert_memory_equal(f->records, f->again, EXTENT_BYTES);
}

/* zstd may make them smaller: they are not stored as they are. */
static void what_hardly_repeats_is_not_built(void **state)
{
	struct fixture *f = fixture_of(state);
	const struct event_desc event = {.attr.sample_type = PERF_SAMPLE_IP};
	struct extent_builder *builder;
	struct extent_stats *stats;
	struct extent_info info;

	assert_int_equal(extent_stats_new(&event, 1, &stats), 0);
	assert_int_equal(extent_builder_new(stats, &builder), 0);
	extent_builder_begin(builder, f->out, MIB);
	for (size_t len = 16 << 10; len <= 256 << 10; len *= 2) {
		fill_hard(f->records, len);
		assert_int_equal(extent_builder_add(builder, &(struct span){f->records, len}, 1), -ENOTSUP);
		fill(f->records, len);
		assert_int_equal(extent_builder_add(builder, &(struct span){f->records, len}, 1), 0);
	}
	size_t built = extent_builder_end(builder, &info);
	assert_int_equal(info.fields.bytes, (512 - 16) << 10);
	assert_in_range(extent_from_built(f->out, built, &info), 1, info.fields.bytes / 8);
	free(info.counts);
	extent_builder_free(builder);
	extent_stats_free(stats);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_are_as_short_as_without_records),
		cmocka_unit_test(hard_bytes_fit_wherever_they_are),
		cmocka_unit_test(short_extents_are_not_probed),
		cmocka_unit_test(levels_of_bytes_that_hardly_shrink),
		cmocka_unit_test(as_many_places_as_it_takes),
		cmocka_unit_test(places_that_hardly_shrink),
		cmocka_unit_test(short_records_are_packed_by_their_repeats),
		cmocka_unit_test(records_stay_without_room),
		cmocka_unit_test(cancelled_packing_leaves_records),
		cmocka_unit_test(what_hardly_repeats_is_not_built),
	};
	return cmocka_run_group_tests(tests, begin, end);
}
