/* SPDX-License-Identifier: MIT */
/* Text that others chose becomes text that controls nothing, and different texts stay different. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/escape.h"

static void check_bytes(const char *bytes, size_t len, const char *expected)
{
	AUTO_ESCAPED got = escaped_bytes(bytes, len);
	struct buf buf = {0};

	assert_int_equal(got.len, strlen(expected));
	assert_memory_equal(got.text, expected, strlen(expected));
	escape_put(&buf, bytes, len);
	assert_string_equal(buf_text(&buf), expected);
	buf_fini(&buf);
}

static void check(const char *text, const char *expected)
{
	check_bytes(text, strlen(text), expected);
}

static void stays(const char *text)
{
	AUTO_ESCAPED got = escaped_text(text);

	assert_ptr_equal(got.text, text); /* not even copied */
}

static void test_ordinary(void **state)
{
	(void)state;
	stays("");
	stays("std::vector<int, std::allocator<int> >::operator[](unsigned long) const [clone .isra.0]");
	stays("/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30 (deleted)");
	stays("Gr\xc3\xb6\xc3\x9f"
	      "e \xe2\x82\xac \xf0\x9f\x90\xa7"); /* two, three and four bytes */
	/* the edges of each length, and the neighbours of those that are escaped */
	stays("\xc2\xa0\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
	stays("\xe2\x80\x8d\xe2\x80\x90\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa");
}

/* Each byte alone, and at each place of a longer text: the quick look takes eight at a time. */
static void test_every_byte(void **state)
{
	(void)state;
	for (unsigned byte = 1; byte < 256; byte++) {
		char expected[8] = {(char)byte};
		if (byte == '\n' || byte == '\t' || byte == '\\')
			snprintf(expected, sizeof(expected), "\\%c", byte == '\n' ? 'n' : byte == '\t' ? 't' : '\\');
		else if (byte < ' ' || byte > '~')
			snprintf(expected, sizeof(expected), "\\x%02x", byte);
		for (size_t len = 1; len < 20; len++) {
			for (size_t at = 0; at < len; at++) {
				char text[32], wanted[64];
				memset(text, 'z', len);
				text[at] = (char)byte;
				int nr = snprintf(wanted, sizeof(wanted), "%.*s%s", (int)at, text, expected);
				snprintf(wanted + nr, sizeof(wanted) - (size_t)nr, "%.*s", (int)(len - at - 1),
					 text + at + 1);
				check_bytes(text, len, wanted);
			}
		}
	}
	check_bytes("a\0b", 3, "a\\x00b");
}

static void test_marks(void **state)
{
	(void)state;
	check("\xc2\x80\xc2\x9b\xc2\x9f", "\\u{80}\\u{9b}\\u{9f}");
	check("\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f", "\\u{61c}\\u{200e}\\u{200f}");
	check("\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa\xe2\x80\xae", "\\u{2028}\\u{2029}\\u{202a}\\u{202e}");
	check("\xe2\x81\xa6\xe2\x81\xa9", "\\u{2066}\\u{2069}");
}

static void test_no_utf8(void **state)
{
	(void)state;
	check("\xc3", "\\xc3");
	check("a\xe2\x82", "a\\xe2\\x82"); /* cut off */
	check("\xf0\x9f\x90z", "\\xf0\\x9f\\x90z");
	check("\xe2\x82\xc3\xb6", "\\xe2\\x82\xc3\xb6");   /* the next one is whole */
	check("\xc0\xaf\xc1\xbf", "\\xc0\\xaf\\xc1\\xbf"); /* overlong */
	check("\xe0\x9f\xbf", "\\xe0\\x9f\\xbf");
	check("\xf0\x8f\xbf\xbf", "\\xf0\\x8f\\xbf\\xbf");
	check("\xc0\x9b[2J", "\\xc0\\x9b[2J");                                        /* an escape in disguise */
	check("\xed\xa0\x80\xed\xbf\xbf", "\\xed\\xa0\\x80\\xed\\xbf\\xbf");          /* surrogates */
	check("\xf4\x90\x80\x80\xf5\xfe\xff", "\\xf4\\x90\\x80\\x80\\xf5\\xfe\\xff"); /* beyond Unicode */
	check_bytes("\xe2\x82\xac", 2, "\\xe2\\x82");                                 /* what follows is not read */
}

static void test_backslash(void **state)
{
	(void)state;
	check("\\", "\\\\");
	check("system-getty\\x2dtty.slice", "system-getty\\\\x2dtty.slice");
	check("\\x1b\x1b", "\\\\x1b\\x1b"); /* the name that says so, and the byte */
}

static void test_hostile(void **state)
{
	(void)state;
	check("\033]0;PWN\007", "\\x1b]0;PWN\\x07");
	check("a\n    99.99%  init", "a\\n    99.99%  init");
	check("lib\033[2J.so", "lib\\x1b[2J.so");
}

/* Whatever the room is, a piece is whole, and all pieces together are the text. */
static void test_pieces(void **state)
{
	static const char text[] = "a\033\\\xe2\x80\xae\xf0\x9f\x90\xa7\xff\n";
	static const char expected[] = "a\\x1b\\\\\\u{202e}\xf0\x9f\x90\xa7\\xff\\n";

	(void)state;
	for (size_t room = 12; room < 40; room++) {
		struct span left = {text, sizeof(text) - 1};
		char all[64], piece[40];
		size_t len = 0;
		while (left.len) {
			size_t got = escape_take(&left, piece, room);
			assert_in_range(got, 1, room);
			assert_true((piece[0] & 0xc0) != 0x80);
			memcpy(all + len, piece, got);
			len += got;
		}
		assert_int_equal(len, sizeof(expected) - 1);
		assert_memory_equal(all, expected, len);
	}
}

static void test_cut(void **state)
{
	(void)state;
	assert_int_equal(escaped_cut("abc", 2), 2);
	assert_int_equal(escaped_cut("abc", 9), 3);
	assert_int_equal(escaped_cut("a\xc3\xb6"
				     "b",
				     2),
			 1);
	assert_int_equal(escaped_cut("a\xc3\xb6"
				     "b",
				     3),
			 3);
	assert_int_equal(escaped_cut("\xf0\x9f\x90\xa7", 3), 0);
	assert_int_equal(escaped_cut("", 0), 0);
}

static void test_raw(void **state)
{
	(void)state;
	escape_set_raw(true);
	stays("\033\\\xff\n");
	assert_int_equal(escaped_cut("a\xc3\xb6", 2), 2);
	escape_set_raw(false);
	check("\033", "\\x1b");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ordinary), cmocka_unit_test(test_every_byte), cmocka_unit_test(test_marks),
		cmocka_unit_test(test_no_utf8),  cmocka_unit_test(test_backslash),  cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_pieces),   cmocka_unit_test(test_cut),        cmocka_unit_test(test_raw),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
