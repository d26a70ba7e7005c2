/* SPDX-License-Identifier: MIT */
/* compress/zstd.h: frames that come in chunks, one behind another. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "compress/zstd.h"
#include "sysinfo/library.h"

enum { BYTES = 300000 };

static unsigned older; /* than the functions that are used */

#if __has_include(<zstd.h>)
#include <zstd.h>
#define CAN_CHAIN (ZSTD_VERSION_NUMBER >= 10504 || ZSTD_VERSION_NUMBER < 10500)

bool __real_library_load(const char *file, const struct library_function *functions, size_t nr);
bool __wrap_library_load(const char *file, const struct library_function *functions, size_t nr);

static unsigned version_number(void)
{
	return older ? 10503 : ZSTD_VERSION_NUMBER;
}

/* The version is told instead of the library. */
bool __wrap_library_load(const char *file, const struct library_function *functions, size_t nr)
{
	unsigned (*const own)(void) = version_number;
	const bool loaded = __real_library_load(file, functions, nr);

	for (size_t i = 0; i < nr; i++)
		if (!strcmp(functions[i].name, "ZSTD_versionNumber"))
			memcpy(functions[i].to, &own, sizeof(own));
	return loaded;
}
#else
#define CAN_CHAIN 0
#endif

/* Behind its hash, if it has a size. */
static void put_frame(struct zstd_packer *packer, struct buf *out, struct span bytes, bool no_size)
{
	const struct zstd_pack_params params = {.level = 1, .no_size = no_size};
	const size_t before = out->len, room = zstd_bound(bytes.len), hash_bytes = no_size ? 0 : ZSTD_HASH_BYTES;
	uint8_t *to = buf_extend(out, hash_bytes + room);
	int64_t len = zstd_pack(packer, &params, bytes, to + hash_bytes, room);

	assert_in_range(len, 1, room);
	if (hash_bytes)
		zstd_put_hash((struct span){to + hash_bytes, (size_t)len}, to);
	out->len = before + hash_bytes + (size_t)len;
}

/* Chunks of so many bytes go in, and come out of so much room at a time. */
static void check_chunks(struct zstd_unpacker *unpacker, struct span packed, struct span expected, size_t chunk,
			 size_t room)
{
	uint8_t *out = malloc(expected.len + room);
	size_t given = 0;
	int64_t got;

	zstd_unpack_reset(unpacker);
	for (size_t at = 0; at < packed.len; at += chunk) {
		const size_t left = packed.len - at;
		struct span in = {(const uint8_t *)packed.ptr + at, left < chunk ? left : chunk};
		while ((got = zstd_unpack(unpacker, &in, out + given, room)) > 0) {
			given += (size_t)got;
			assert_true(given <= expected.len);
		}
		assert_int_equal(got, 0);
		assert_int_equal(in.len, 0); /* that is what 0 says */
	}
	assert_int_equal(given, expected.len);
	assert_memory_equal(out, expected.ptr, expected.len);
	free(out);
}

static void open_both(struct zstd_packer **ret_packer, struct zstd_unpacker **ret_unpacker)
{
	if (!zstd_available())
		skip();
	assert_int_equal(zstd_packer_new(ret_packer), 0);
	assert_int_equal(zstd_unpacker_new(ret_unpacker), 0);
}

/* An empty frame gives nothing, and is not the end. */
static void frames_follow_one_another(void **state)
{
	static const size_t chunks[] = {1, 7, 1000, 1 << 20}, rooms[] = {1000, 1 << 20};
	static uint8_t bytes[2 * BYTES];
	struct zstd_unpacker *unpacker;
	struct zstd_packer *packer;
	struct buf packed = {0};

	(void)state;
	open_both(&packer, &unpacker);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i % 1000 * i / 5000);
	put_frame(packer, &packed, (struct span){bytes, 0}, true);
	put_frame(packer, &packed, (struct span){bytes, BYTES}, true);
	put_frame(packer, &packed, (struct span){bytes, 0}, false);
	put_frame(packer, &packed, (struct span){bytes, 0}, true);
	put_frame(packer, &packed, (struct span){bytes + BYTES, BYTES}, false);
	for (size_t c = 0; c < sizeof(chunks) / sizeof(chunks[0]); c++)
		for (size_t r = 0; r < sizeof(rooms) / sizeof(rooms[0]); r++)
			check_chunks(unpacker, buf_span(&packed), (struct span){bytes, sizeof(bytes)}, chunks[c],
				     rooms[r]);
	zstd_packer_free(packer);
	zstd_unpacker_free(unpacker);
	buf_fini(&packed);
}

/* Wherever a bit is another one, also in the hash itself: at once, and as a stream, between frames that are whole. */
static void damage_is_noticed(void **state)
{
	enum { LEN = 3000, PIECE = 97 };
	static uint8_t bytes[LEN], out[4 * LEN];
	struct zstd_unpacker *unpacker;
	struct zstd_packer *packer;
	struct buf packed = {0};

	(void)state;
	open_both(&packer, &unpacker);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i % 100 * i / 500);
	put_frame(packer, &packed, (struct span){bytes, LEN}, true);
	const size_t first = packed.len;
	put_frame(packer, &packed, (struct span){bytes, LEN}, false);
	const size_t end = packed.len;
	put_frame(packer, &packed, (struct span){bytes, LEN}, true);
	for (size_t bit = first * 8; bit <= end * 8; bit++) {
		/* The first bits tell one skippable frame from others, of which nothing is known: they take nothing
		 * away. */
		const bool damaged = bit < end * 8, noticed = damaged && bit >= first * 8 + 4;
		const struct span frame = {packed.data + first, end - first};
		size_t given = 0;
		int64_t got = 0;
		packed.data[bit / 8] ^= (uint8_t)(damaged << bit % 8);
		assert_int_equal(zstd_unpack_frame(unpacker, frame, out, LEN), noticed ? -EBADMSG : LEN);
		zstd_unpack_reset(unpacker); /* forgets the damage before */
		for (size_t at = 0; at < packed.len && got >= 0; at += PIECE) {
			struct span in = {packed.data + at, packed.len - at < PIECE ? packed.len - at : PIECE};
			while ((got = zstd_unpack(unpacker, &in, out + given, sizeof(out) - given)) > 0)
				given += (size_t)got;
		}
		/* Where the hash is longer, it takes away what follows. */
		assert_true(noticed ? got == -EBADMSG || given < 2 * (size_t)LEN : given == 3 * (size_t)LEN);
		packed.data[bit / 8] ^= (uint8_t)(damaged << bit % 8);
	}
	zstd_packer_free(packer);
	zstd_unpacker_free(unpacker);
	buf_fini(&packed);
}

/* In one piece or in blocks: a frame that does not fit is an error. */
static void frames_need_their_room(void **state)
{
	static uint8_t bytes[BYTES], out[BYTES];
	const atomic_int level = 1;
	const struct zstd_pack_params ways[] = {
		{.level = 1}, {.level = 1, .block_bytes = 4096}, {.level = 1, .level_now = &level}};
	struct zstd_packer *packer;

	(void)state;
	if (!zstd_available())
		skip();
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i % 1000 * i / 5000);
	assert_int_equal(zstd_packer_new(&packer), 0);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		const struct span in = {bytes, sizeof(bytes)};
		int64_t len = zstd_pack(packer, &ways[i], in, out, sizeof(out));
		assert_in_range(len, 100, sizeof(out) - 1);
		for (size_t room = (size_t)len - 1; room; room /= 2)
			assert_int_equal(zstd_pack(packer, &ways[i], in, out, room), -EIO);
	}
	zstd_packer_free(packer);
}

/* What repeats is found wherever it is in the frame, also at a level at which zstd itself looks less far back. */
static void all_of_the_frame_is_within_reach(void **state)
{
	enum { PART = 1 << 20, NR_PARTS = 3 };
	const size_t room = zstd_bound(NR_PARTS * PART);
	struct zstd_packer *packer;
	uint64_t seed = 1;

	(void)state;
	if (!zstd_available())
		skip();
	uint8_t *bytes = malloc(NR_PARTS * PART), *out = malloc(room);
	assert_non_null(bytes);
	assert_non_null(out);
	for (size_t i = 0; i < NR_PARTS * PART; i++) { /* the last part is as the first one, the others are random */
		seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		bytes[i] = i < (NR_PARTS - 1) * PART ? (uint8_t)(seed >> 56) : bytes[i - (NR_PARTS - 1) * PART];
	}
	assert_int_equal(zstd_packer_new(&packer), 0);
	for (unsigned no_size = 0; no_size < 2; no_size++) {
		const struct zstd_pack_params params = {.level = 1, .no_size = no_size};
		int64_t len = zstd_pack(packer, &params, (struct span){bytes, NR_PARTS * PART}, out, room);
		struct zstd_frame frame;
		assert_in_range(len, 1, (NR_PARTS - 1) * PART + PART / 8);
		assert_true(zstd_frame_start((struct span){out, (size_t)len}, &frame));
		assert_true(frame.bytes == (no_size ? UINT64_MAX : NR_PARTS * PART));
	}
	zstd_packer_free(packer);
	free(bytes);
	free(out);
}

/* RFC 8878, 3.1.1.1: each form that the header of a frame can have. Where it is cut it is none. */
static void headers_of_all_forms(void **state)
{
	static const size_t id_bytes[] = {0, 1, 2, 4}, size_bytes[] = {0, 2, 4, 8};

	(void)state;
	if (!zstd_available())
		skip();
	for (unsigned descriptor = 0; descriptor < 256; descriptor++) {
		uint8_t bytes[32] = {0x28, 0xb5, 0x2f, 0xfd, (uint8_t)descriptor};
		bool single = descriptor & 32, reserved = descriptor & 8;
		size_t size = size_bytes[descriptor >> 6] ? size_bytes[descriptor >> 6] : single;
		size_t len = 4 + 1 + !single + id_bytes[descriptor & 3] + size;
		uint64_t content = !size ? UINT64_MAX : size == 2 ? 256 : 0;
		struct zstd_frame frame = {0};
		assert_int_equal(zstd_frame_start((struct span){bytes, sizeof(bytes)}, &frame), !reserved);
		if (reserved)
			continue;
		assert_int_equal(frame.header_bytes, len);
		assert_true(frame.bytes == content);
		assert_int_equal(frame.checksum_bytes, descriptor & 4 ? 4 : 0);
		uint8_t behind[ZSTD_HASH_BYTES + sizeof(bytes)];
		memcpy(behind + ZSTD_HASH_BYTES, bytes, sizeof(bytes));
		zstd_put_hash((struct span){bytes, sizeof(bytes)}, behind);
		assert_true(zstd_frame_start((struct span){behind, sizeof(behind)}, &frame));
		assert_int_equal(frame.header_bytes, ZSTD_HASH_BYTES + len);
		assert_true(frame.bytes == content);
		assert_false(zstd_frame_start((struct span){behind, ZSTD_HASH_BYTES + 4}, &frame));
		assert_false(zstd_frame_start((struct span){bytes, 4}, &frame));
		bytes[0]++;
		assert_false(zstd_frame_start((struct span){bytes, sizeof(bytes)}, &frame));
	}
}

/* At some levels records without stacks are packed in another way, which some libraries do not have. */
static void short_records_have_a_way_of_their_own(void **state)
{
	enum { WORDS = 20000, FIRST = 5, LAST = 9 };
	const size_t room = zstd_bound(WORDS * 8);
	uint64_t *words = malloc(WORDS * 8);
	uint8_t *out[2] = {malloc(room), malloc(room)};
	struct zstd_packer *packer;
	uint64_t seed = 1;

	(void)state;
	if (!zstd_available())
		skip();
	for (uint64_t i = 0; i < WORDS; i++) {
		seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		words[i] = i % 5 ? seed >> 58 : i;
	}
	assert_int_equal(zstd_packer_new(&packer), 0);
	for (older = 0; older < 2; older++)
		for (int level = FIRST - 1; level <= LAST + 1; level++) {
			int64_t lens[2];
			for (unsigned is_short = 0; is_short < 2; is_short++) {
				const struct zstd_pack_params params = {.level = level, .short_records = is_short};
				lens[is_short] = zstd_pack(packer, &params, (struct span){words, WORDS * 8},
							   out[is_short], room);
				assert_in_range(lens[is_short], 1, room);
			}
			bool same = lens[0] == lens[1] && !memcmp(out[0], out[1], (size_t)lens[0]);
			assert_int_equal(same, level < FIRST || level > LAST || older || !CAN_CHAIN);
		}
	older = 0;
	zstd_packer_free(packer);
	free(words);
	free(out[0]);
	free(out[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_follow_one_another), cmocka_unit_test(damage_is_noticed),
		cmocka_unit_test(frames_need_their_room),    cmocka_unit_test(all_of_the_frame_is_within_reach),
		cmocka_unit_test(headers_of_all_forms),      cmocka_unit_test(short_records_have_a_way_of_their_own),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
