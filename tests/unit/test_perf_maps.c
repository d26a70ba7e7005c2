/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/span.h"
#include "perfdata/perf_maps.h"

static const char text[] = "1000 10 name\n";

static void put_both(struct buf *out)
{
	perf_map_put(&(struct kept_perf_map){.pid = 7, .missing = 1}, out);
	perf_map_put(&(struct kept_perf_map){.pid = 8, .bytes = sizeof(text), .stored = {text, sizeof(text)}}, out);
	assert_false(out->failed);
}

static void maps_come_back(void **state)
{
	struct buf out = {0};
	struct kept_perf_map map;

	(void)state;
	put_both(&out);
	assert_int_equal(out.len % 8, 0);
	struct cursor at = cursor_over(buf_span(&out));
	assert_true(perf_map_next(&at, &map));
	assert_int_equal(map.pid, 7);
	assert_int_equal(map.missing, 1);
	assert_true(perf_map_next(&at, &map));
	assert_int_equal(map.pid, 8);
	assert_int_equal(map.stored.len, sizeof(text));
	assert_memory_equal(map.stored.ptr, text, sizeof(text));
	assert_false(perf_map_next(&at, &map));
	buf_fini(&out);
}

static void the_program_of_a_map_comes_back(void **state)
{
	const struct kept_perf_map maps[] = {
		{.pid = 7,
		 .bytes = sizeof(text),
		 .stored = {text, sizeof(text)},
		 .program_ns = 5,
		 .program_known = true},
		{.pid = 8, .bytes = sizeof(text), .stored = {text, sizeof(text)}},
		{.pid = 8, .bytes = sizeof(text), .stored = {text, sizeof(text)}, .program_known = true},
	};
	struct kept_perf_map map;
	struct buf out = {0};

	(void)state;
	for (size_t i = 0; i < 3; i++)
		perf_map_put(&maps[i], &out);
	struct cursor at = cursor_over(buf_span(&out));
	for (size_t i = 0; i < 3; i++) {
		assert_true(perf_map_next(&at, &map));
		assert_int_equal(map.pid, maps[i].pid);
		assert_int_equal(map.missing, PERF_MAP_KEPT);
		assert_int_equal(map.program_ns, maps[i].program_ns);
		assert_int_equal(map.program_known, maps[i].program_known);
	}
	assert_false(perf_map_next(&at, &map));
	buf_fini(&out);
}

static void cut_payloads_end(void **state)
{
	struct buf out = {0};
	struct kept_perf_map map;

	(void)state;
	put_both(&out);
	for (size_t len = 0; len < out.len; len++) {
		struct cursor at = cursor_over((struct span){out.data, len});
		unsigned nr = 0;
		while (perf_map_next(&at, &map))
			nr++;
		assert_true(nr < 2);
	}
	buf_fini(&out);
}

static void lengths_that_cannot_be_are_refused(void **state)
{
	struct buf out = {0};
	struct kept_perf_map map;
	const uint64_t sizes[][2] = {
		{PERF_MAP_MAX_BYTES + 1ull, 1}, {1, 2}, {UINT64_MAX, UINT64_MAX}, {PERF_MAP_MAX_BYTES, 1 << 20}};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		buf_fini(&out);
		buf_put_u64(&out, 1);
		buf_put_u64(&out, sizes[i][0]);
		buf_put_u64(&out, sizes[i][1]);
		buf_put_u64(&out, 0);
		struct cursor at = cursor_over(buf_span(&out));
		assert_false(perf_map_next(&at, &map));
	}
	buf_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(maps_come_back),
		cmocka_unit_test(the_program_of_a_map_comes_back),
		cmocka_unit_test(cut_payloads_end),
		cmocka_unit_test(lengths_that_cannot_be_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
