/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyze/symbols/jit_code.h"
#include "base/buf.h"
#include "perfdata/object_id.h"

static void put_header(struct buf *out, uint64_t flags)
{
	const uint32_t words[] = {0x4a695444, 1, 40, 62, 0, 1};

	buf_put(out, words, sizeof(words));
	buf_put_u64(out, 1);
	buf_put_u64(out, flags);
}

static void put_record(struct buf *out, uint32_t type, uint64_t time_ns, const void *body, size_t len)
{
	buf_put_u32(out, type);
	buf_put_u32(out, (uint32_t)(16 + len));
	buf_put_u64(out, time_ns);
	buf_put(out, body, len);
}

static void put_load(struct buf *out, uint64_t time_ns, uint64_t start, uint64_t bytes, uint64_t number,
		     const char *name)
{
	struct buf body = {0};

	buf_put_u64(&body, 0);
	buf_put_u64(&body, start);
	buf_put_u64(&body, start);
	buf_put_u64(&body, bytes);
	buf_put_u64(&body, number);
	buf_put(&body, name, strlen(name) + 1);
	put_record(out, 0, time_ns, body.data, body.len);
	buf_fini(&body);
}

static void put_move(struct buf *out, uint64_t time_ns, uint64_t from, uint64_t to, uint64_t bytes, uint64_t number)
{
	const uint64_t words[] = {0, to, from, to, bytes, number};

	put_record(out, 1, time_ns, words, sizeof(words));
}

static int read_code(const struct buf *bytes, size_t len, struct jit_code **ret)
{
	int fd = memfd_create("jitdump", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes->data, len), len);
	lseek(fd, 0, SEEK_SET);
	int err = jit_code_read(fd, ret);
	close(fd);
	return err;
}

static const char *name_at(const struct jit_code *code, uint64_t address, int64_t time_ns)
{
	int64_t from, to;
	const struct symbol *symbol = jit_code_find(code, address, time_ns, &from, &to);

	assert_true(time_ns == JIT_ANY_TIME || (from <= time_ns && time_ns < to));
	return symbol ? symbol->name : "";
}

static void code_is_named_by_time(void **state)
{
	struct buf out = {0};
	struct jit_code *code;

	(void)state;
	put_header(&out, 0);
	put_load(&out, 100, 0x1000, 0x100, 1, "first");
	put_load(&out, 100, 0x2000, 0x100, 2, "always");
	put_move(&out, 200, 0x1000, 0x3000, 0x100, 1);
	put_load(&out, 300, 0x1080, 0x40, 3, "second");
	put_load(&out, 400, 0x3010, 0x10, 4, "into the moved");
	assert_int_equal(read_code(&out, out.len, &code), 0);
	buf_fini(&out);

	assert_string_equal(name_at(code, 0x1000, 99), "");
	assert_string_equal(name_at(code, 0x10ff, 100), "first");
	assert_string_equal(name_at(code, 0x1100, 100), "");
	assert_string_equal(name_at(code, 0x1080, 199), "first");
	assert_string_equal(name_at(code, 0x1080, 200), ""); /* it has moved */
	assert_string_equal(name_at(code, 0x3000, 199), "");
	assert_string_equal(name_at(code, 0x3000, 200), "first");
	assert_string_equal(name_at(code, 0x1080, 300), "second");
	assert_string_equal(name_at(code, 0x3018, 400), "into the moved");
	assert_string_equal(name_at(code, 0x3000, 400), ""); /* its memory is used again */
	assert_string_equal(name_at(code, 0x2000, 1000), "always");
	assert_string_equal(name_at(code, 0x2000, JIT_ANY_TIME), "always");
	assert_string_equal(name_at(code, 0x1080, JIT_ANY_TIME), ""); /* one of two */
	assert_string_equal(name_at(code, 0x1010, JIT_ANY_TIME), "first");
	jit_code_free(code);
}

static void times_of_another_clock_do_not_count(void **state)
{
	struct buf out = {0};
	struct jit_code *code;

	(void)state;
	put_header(&out, 1);
	put_load(&out, 100, 0x1000, 0x100, 1, "first");
	put_load(&out, 200, 0x1000, 0x80, 2, "second");
	assert_int_equal(read_code(&out, out.len, &code), 0);
	buf_fini(&out);
	assert_string_equal(name_at(code, 0x1000, 150), "");
	assert_string_equal(name_at(code, 0x1090, 50), "first");
	jit_code_free(code);
}

static void put_lines(struct buf *out, uint64_t start)
{
	struct buf body = {0};

	buf_put_u64(&body, start);
	buf_put_u64(&body, 2);
	buf_put_u64(&body, start);
	buf_put_u32(&body, 11);
	buf_put_u32(&body, 0);
	buf_put(&body, "a.js", 5);
	buf_put_u64(&body, start + 0x20);
	buf_put_u32(&body, 12);
	buf_put_u32(&body, 0);
	buf_put(&body, "\xff", 2); /* the file of the line before */
	put_record(out, 2, 100, body.data, body.len);
	buf_fini(&body);
}

static void lines_follow_their_code(void **state)
{
	struct buf out = {0};
	struct jit_code *code;
	unsigned line;
	int64_t from, to;

	(void)state;
	put_header(&out, 0);
	put_lines(&out, 0x1000);
	put_load(&out, 100, 0x1000, 0x100, 1, "first");
	put_load(&out, 100, 0x2000, 0x100, 2, "without");
	put_move(&out, 200, 0x1000, 0x3000, 0x100, 1);
	assert_int_equal(read_code(&out, out.len, &code), 0);
	buf_fini(&out);
	const struct symbol *symbol = jit_code_find(code, 0x101f, 100, &from, &to);
	assert_string_equal(jit_code_line(code, symbol, 0x101f, &line), "a.js");
	assert_int_equal(line, 11);
	symbol = jit_code_find(code, 0x3020, 200, &from, &to);
	assert_string_equal(jit_code_line(code, symbol, 0x3020, &line), "a.js");
	assert_int_equal(line, 12);
	symbol = jit_code_find(code, 0x2000, 100, &from, &to);
	assert_null(jit_code_line(code, symbol, 0x2000, &line));
	jit_code_free(code);
}

static void moved_code_is_found_by_number_and_place(void **state)
{
	struct buf out = {0};
	struct jit_code *code;

	(void)state;
	put_header(&out, 0);
	put_load(&out, 100, 0x1000, 0x100, 0x1, "first");
	put_load(&out, 100, 0x2000, 0x100, 0x3001, "second"); /* 0x1000 ^ 0x1 */
	put_move(&out, 200, 0x1000, 0x4000, 0x100, 0x1);
	put_move(&out, 200, 0x1000, 0x5000, 0x100, 0x3001); /* no such code */
	assert_int_equal(read_code(&out, out.len, &code), 0);
	buf_fini(&out);
	assert_string_equal(name_at(code, 0x4000, 200), "first");
	assert_string_equal(name_at(code, 0x1000, 200), "");
	assert_string_equal(name_at(code, 0x2000, 200), "second");
	assert_string_equal(name_at(code, 0x5000, 200), "");
	jit_code_free(code);
}

static void put_frames(struct buf *out, const char *frames, uint64_t bytes, uint64_t header_bytes)
{
	const uint64_t words[] = {bytes, header_bytes, 0};
	struct buf body = {0};

	buf_put(&body, words, sizeof(words));
	buf_put(&body, frames, strlen(frames));
	put_record(out, 4, 100, body.data, body.len);
	buf_fini(&body);
}

static void frames_follow_their_code(void **state)
{
	struct buf out = {0};
	struct jit_code *code;
	int64_t from, to;

	(void)state;
	put_header(&out, 0);
	put_frames(&out, "framesHEADER", 12, 6);
	put_load(&out, 100, 0x1000, 0x100, 1, "first");
	put_load(&out, 100, 0x2000, 0x100, 2, "without");
	put_move(&out, 200, 0x1000, 0x3000, 0x100, 1);
	put_frames(&out, "broken", 6, 7);
	put_frames(&out, "broken", 7, 0);
	put_load(&out, 300, 0x4000, 0x100, 3, "of broken ones");
	assert_int_equal(read_code(&out, out.len, &code), 0);
	buf_fini(&out);
	assert_true(jit_code_has_frames(code));
	struct span frames = jit_code_frames(jit_code_find(code, 0x3000, 200, &from, &to));
	assert_int_equal(frames.len, 6);
	assert_memory_equal(frames.ptr, "frames", 6);
	assert_int_equal(jit_code_frames(jit_code_find(code, 0x2000, 200, &from, &to)).len, 0);
	assert_int_equal(jit_code_frames(jit_code_find(code, 0x4000, 300, &from, &to)).len, 0);
	jit_code_free(code);
}

/* They are not those of the function that is loaded next. */
static void lines_and_frames_of_broken_code_end_with_it(void **state)
{
	struct buf out = {0};
	struct jit_code *code;
	unsigned line;
	int64_t from, to;

	(void)state;
	put_header(&out, 0);
	put_lines(&out, 0x1000);
	put_frames(&out, "frames", 6, 0);
	put_load(&out, 100, 0x1000, 0, 1, "empty");
	put_load(&out, 100, 0x1000, 0x100, 2, "next");
	assert_int_equal(read_code(&out, out.len, &code), 0);
	buf_fini(&out);
	const struct symbol *symbol = jit_code_find(code, 0x1000, 100, &from, &to);
	assert_string_equal(symbol->name, "next");
	assert_null(jit_code_line(code, symbol, 0x1000, &line));
	assert_int_equal(jit_code_frames(symbol).len, 0);
	jit_code_free(code);
}

static void broken_dumps_end(void **state)
{
	struct buf out = {0};
	struct jit_code *code;

	(void)state;
	put_header(&out, 0);
	put_lines(&out, 0x1000);
	put_load(&out, 100, 0x1000, 0x100, 1, "first");
	for (size_t len = 0; len < out.len; len++) {
		int err = read_code(&out, len, &code);
		assert_int_equal(err, len < 40 ? -EBADMSG : 0);
		if (!err) {
			assert_string_equal(name_at(code, 0x1000, 100), "");
			jit_code_free(code);
		}
	}
	put_load(&out, 100, UINT64_MAX - 1, 0x100, 1, "beyond the end");
	put_load(&out, 100, 0x5000, 0, 1, "empty");
	put_move(&out, 100, 0x7000, 0x5000, 0x10, 9);
	const uint64_t lines[] = {0, UINT64_MAX}; /* so many lines */
	put_record(&out, 2, 100, lines, sizeof(lines));
	put_load(&out, UINT64_MAX, 0x6000, 0x10, 1, "late");
	assert_int_equal(read_code(&out, out.len, &code), 0);
	buf_fini(&out);
	assert_string_equal(name_at(code, 0x1000, 100), "first");
	assert_string_equal(name_at(code, 0x5000, 100), "");
	assert_string_equal(name_at(code, UINT64_MAX - 1, 100), "");
	assert_string_equal(name_at(code, 0x6000, INT64_MAX - 1), "late");
	jit_code_free(code);
}

/* What was loaded or moved to a place, for a search through all. */
struct place {
	uint64_t start, end;
	int64_t from_ns, gone_ns; /* gone_ns: it has moved */
	const char *name;
	uint64_t number;
};

/* The last that came to the address, unless it has moved, or other code came to one of its bytes since. */
static const char *expected_name(const struct place *places, size_t nr, uint64_t address, int64_t time_ns)
{
	size_t found = nr;

	for (size_t i = 0; i < nr; i++)
		if (places[i].start <= address && address < places[i].end && places[i].from_ns <= time_ns)
			found = i;
	if (found == nr || places[found].gone_ns <= time_ns)
		return "";
	for (size_t i = found + 1; i < nr; i++)
		if (places[i].from_ns <= time_ns && places[i].start < places[found].end &&
		    places[i].end > places[found].start)
			return "";
	return places[found].name;
}

/* One name, if all that was ever there had it. */
static const char *expected_name_any_time(const struct place *places, size_t nr, uint64_t address)
{
	const char *name = "";

	for (size_t i = 0; i < nr; i++) {
		if (address < places[i].start || address >= places[i].end)
			continue;
		if (*name && strcmp(name, places[i].name) != 0)
			return "";
		name = places[i].name;
	}
	return name;
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

enum { PLACES = 40, ADDRESSES = 96, TIMES = 30 };

static void check_all(const struct jit_code *code, const struct place *places, size_t nr)
{
	for (uint64_t address = 0; address < ADDRESSES; address++) {
		assert_string_equal(name_at(code, address, JIT_ANY_TIME), expected_name_any_time(places, nr, address));
		for (int64_t time_ns = 0; time_ns < TIMES; time_ns++) {
			int64_t from, to;
			const struct symbol *symbol = jit_code_find(code, address, time_ns, &from, &to);
			const char *name = symbol ? symbol->name : "";
			assert_true(from <= time_ns && time_ns < to);
			for (int64_t at = from < 0 ? 0 : from; at < to && at < TIMES; at++)
				assert_string_equal(name, expected_name(places, nr, address, at));
		}
	}
}

static void all_addresses_and_times_are_right(void **state)
{
	static const char *const names[] = {"a", "b", "c", "d"};
	uint64_t random = 1;

	(void)state;
	for (unsigned round = 0; round < 200; round++) {
		struct place places[PLACES];
		struct buf out = {0};
		struct jit_code *code;
		size_t nr = 1 + next_random(&random) % PLACES;

		put_header(&out, 0);
		for (size_t i = 0; i < nr; i++) {
			uint64_t start = next_random(&random) % 64, bytes = 1 + next_random(&random) % 24;
			int64_t time_ns = (int64_t)(i * TIMES / nr);
			size_t from = i ? next_random(&random) % i : 0;
			bool moves = i && next_random(&random) % 3 == 0 && places[from].gone_ns == INT64_MAX;
			places[i] = (struct place){start, start + bytes, time_ns, INT64_MAX, names[i % 4], i};
			if (moves) {
				places[i].name = places[from].name;
				places[i].number = places[from].number;
				places[from].gone_ns = time_ns;
				put_move(&out, (uint64_t)time_ns, places[from].start, start, bytes, places[i].number);
			} else {
				put_load(&out, (uint64_t)time_ns, start, bytes, i, places[i].name);
			}
		}
		assert_int_equal(read_code(&out, out.len, &code), 0);
		buf_fini(&out);
		check_all(code, places, nr);
		jit_code_free(code);
	}
}

/* One function that covers all others, of which each lookup would go through half. */
static void lookups_take_few_steps(void **state)
{
	enum { FUNCTIONS = 1 << 18, BYTES = 16, MOST_SECONDS = 10 };
	struct buf out = {0};
	struct jit_code *code;
	clock_t begun = clock();

	(void)state;
	put_header(&out, 0);
	put_load(&out, 1, 0, FUNCTIONS * BYTES, 0, "all");
	for (uint64_t i = 0; i < FUNCTIONS; i++)
		put_load(&out, 2 + i, i * BYTES, BYTES, 1 + i, "one");
	assert_int_equal(read_code(&out, out.len, &code), 0);
	buf_fini(&out);
	for (uint64_t i = 0; i < FUNCTIONS; i++) {
		assert_string_equal(name_at(code, i * BYTES, 1), "all");
		assert_string_equal(name_at(code, i * BYTES, FUNCTIONS + 2), "one");
		assert_string_equal(name_at(code, i * BYTES, JIT_ANY_TIME), "");
		assert_true((clock() - begun) / CLOCKS_PER_SEC < MOST_SECONDS);
	}
	jit_code_free(code);
}

/* So many functions of one name at one address that they are not looked at. */
static void too_many_functions_at_an_address_have_no_name(void **state)
{
	struct buf out = {0};
	struct jit_code *code;

	(void)state;
	put_header(&out, 1);
	for (uint64_t i = 0; i < 5000; i++)
		put_load(&out, i, 0x1000 + i, 0x10000, i, "one");
	put_load(&out, 1, 0x100000, 0x100, 1, "other");
	assert_int_equal(read_code(&out, out.len, &code), 0);
	buf_fini(&out);
	assert_string_equal(name_at(code, 0x1000, JIT_ANY_TIME), "one");
	assert_string_equal(name_at(code, 0x1000 + 100, JIT_ANY_TIME), "one");
	assert_string_equal(name_at(code, 0x1000 + 5000, JIT_ANY_TIME), "");
	assert_string_equal(name_at(code, 0x100000, JIT_ANY_TIME), "other");
	jit_code_free(code);
}

static void put_many_lines(struct buf *out, uint64_t nr)
{
	struct buf body = {0};

	buf_put_u64(&body, 0);
	buf_put_u64(&body, nr);
	for (uint64_t i = 0; i < nr; i++) {
		uint64_t offset = i ^ 1; /* not in their order */
		buf_put_u64(&body, offset);
		buf_put_u32(&body, (uint32_t)offset);
		buf_put_u32(&body, 0);
		buf_put(&body, i ? "\xff" : "a", 2);
	}
	put_record(out, 2, 1, body.data, body.len);
	buf_fini(&body);
}

/* Of one function that moves, and moves. */
static void many_lines_take_few_steps(void **state)
{
	enum { LINES = 1 << 18, MOVES = 1 << 17, MOST_SECONDS = 10 };
	struct buf out = {0};
	struct jit_code *code;
	clock_t begun = clock();

	(void)state;
	put_header(&out, 0);
	put_many_lines(&out, LINES);
	put_load(&out, 1, 0, LINES, 1, "one");
	for (uint64_t i = 0; i < MOVES; i++)
		put_move(&out, 2 + i, i, i + 1, LINES, 1);
	assert_int_equal(read_code(&out, out.len, &code), 0);
	buf_fini(&out);
	for (uint64_t i = 0; i < LINES; i++) {
		unsigned line;
		int64_t from, to;
		const struct symbol *symbol = jit_code_find(code, i, 1, &from, &to);
		assert_string_equal(jit_code_line(code, symbol, i, &line), "a");
		assert_int_equal(line, i);
		assert_true((clock() - begun) / CLOCKS_PER_SEC < MOST_SECONDS);
	}
	jit_code_free(code);
}

/* Of two lines for one offset the last one counts. */
static void last_line_of_an_offset_counts(void **state)
{
	struct buf out = {0}, body = {0};
	struct jit_code *code;
	unsigned line;
	int64_t from, to;

	(void)state;
	put_header(&out, 0);
	buf_put_u64(&body, 0);
	buf_put_u64(&body, 20);
	for (uint32_t i = 0; i < 20; i++) {
		buf_put_u64(&body, i % 2 ? 8 : 4);
		buf_put_u32(&body, i);
		buf_put_u32(&body, 0);
		buf_put(&body, "a", 2);
	}
	put_record(&out, 2, 1, body.data, body.len);
	put_load(&out, 1, 0x1000, 0x100, 1, "one");
	assert_int_equal(read_code(&out, out.len, &code), 0);
	buf_fini(&body);
	buf_fini(&out);
	const struct symbol *symbol = jit_code_find(code, 0x1000, 1, &from, &to);
	assert_null(jit_code_line(code, symbol, 0x1003, &line));
	assert_non_null(jit_code_line(code, symbol, 0x1007, &line));
	assert_int_equal(line, 18);
	assert_non_null(jit_code_line(code, symbol, 0x1008, &line));
	assert_int_equal(line, 19);
	jit_code_free(code);
}

/* A file of 2 GiB is not read, whether it is a dump or not. */
static void large_files_are_not_read(void **state)
{
	struct buf out = {0};
	struct jit_code *code;

	(void)state;
	put_header(&out, 0);
	for (unsigned dump = 0; dump < 2; dump++) {
		int fd = memfd_create("jitdump", MFD_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(ftruncate(fd, INT64_C(2) << 30), 0);
		if (dump)
			assert_int_equal(pwrite(fd, out.data, out.len, 0), out.len);
		assert_int_equal(jit_code_read(fd, &code), dump ? -EFBIG : -EBADMSG);
		assert_true(lseek(fd, 0, SEEK_CUR) <= 40);
		close(fd);
	}
	buf_fini(&out);
}

static void names_of_dumps_are_recognised(void **state)
{
	(void)state;
	assert_true(path_is_jitdump("/tmp/jit-12.dump"));
	assert_true(path_is_jitdump("/home/a/.debug/jit/x/jit-1.dump"));
	assert_false(path_is_jitdump("/tmp/jit-12.dump2"));
	assert_false(path_is_jitdump("/tmp/jit-.dump"));
	assert_false(path_is_jitdump("jit-12.dump"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(code_is_named_by_time),
		cmocka_unit_test(times_of_another_clock_do_not_count),
		cmocka_unit_test(lines_follow_their_code),
		cmocka_unit_test(frames_follow_their_code),
		cmocka_unit_test(moved_code_is_found_by_number_and_place),
		cmocka_unit_test(lines_and_frames_of_broken_code_end_with_it),
		cmocka_unit_test(broken_dumps_end),
		cmocka_unit_test(all_addresses_and_times_are_right),
		cmocka_unit_test(lookups_take_few_steps),
		cmocka_unit_test(too_many_functions_at_an_address_have_no_name),
		cmocka_unit_test(many_lines_take_few_steps),
		cmocka_unit_test(last_line_of_an_offset_counts),
		cmocka_unit_test(large_files_are_not_read),
		cmocka_unit_test(names_of_dumps_are_recognised),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
