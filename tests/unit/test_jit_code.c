/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
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
		cmocka_unit_test(names_of_dumps_are_recognised),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
