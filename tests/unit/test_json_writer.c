/* SPDX-License-Identifier: MIT */
/* JSON is valid whatever its texts hold, and the same in a buf and in a stream. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "cmd/cli/json_writer.h"

static void put_all(struct json_writer *json)
{
	json_object(json, NULL);
	json_text(json, "name", "a\"b\\c");
	json_text(json, "none", NULL);
	json_object(json, "empty");
	json_end(json);
	json_array(json, "numbers");
	json_number(json, NULL, UINT64_MAX);
	json_signed(json, NULL, INT64_MIN);
	json_signed(json, NULL, 0);
	json_signed(json, NULL, 17);
	json_printf(json, NULL, "%.2f", 0.5);
	json_array(json, NULL);
	json_end(json);
	json_break(json);
	json_object(json, NULL);
	json_address(json, "ip", 0xffffffff81000000);
	json_address(json, "zero", 0);
	json_end(json);
	json_break(json);
	json_end(json);
	json_bool(json, "yes", true);
	json_bool(json, "no", false);
	json_null(json, "null");
	json_end(json);
}

static const char expected[] =
	"{\"name\":\"a\\\"b\\\\c\",\"none\":null,\"empty\":{},\"numbers\":[18446744073709551615,-9223372036854775808,0,"
	"17,"
	"0.50,[],\n{\"ip\":\"0xffffffff81000000\",\"zero\":\"0\"}],\"yes\":true,\"no\":false,\"null\":null}";

static void test_buf(void **state)
{
	struct buf buf = {0};
	struct json_writer json = {.buf = &buf};

	(void)state;
	put_all(&json);
	assert_string_equal(buf_text(&buf), expected);
	buf_fini(&buf);
}

static void test_stream(void **state)
{
	char *text;
	size_t len;
	FILE *to = open_memstream(&text, &len);
	struct json_writer json = {.to = to};

	(void)state;
	put_all(&json);
	put_all(&json); /* no comma outside of objects and arrays */
	fclose(to);
	assert_int_equal(len, 2 * (sizeof(expected) - 1));
	assert_memory_equal(text, expected, sizeof(expected) - 1);
	assert_memory_equal(text + sizeof(expected) - 1, expected, sizeof(expected) - 1);
	free(text);
}

static void check(const char *bytes, size_t len, const char *want)
{
	struct buf buf = {0};
	struct json_writer json = {.buf = &buf};

	json_bytes(&json, NULL, bytes, len);
	assert_string_equal(buf_text(&buf), want);
	buf_fini(&buf);
}

static void test_texts(void **state)
{
	(void)state;
	check("", 0, "\"\"");
	check("plain ~", 7, "\"plain ~\"");
	check("\xc3\xa4x", 3, "\"\xc3\xa4x\"");
	check("a\0b", 3, "\"a\\u0000b\"");
	check("\n\x1b[2J\x7f", 6, "\"\\u000a\\u001b[2J\\u007f\"");
	check("</script>", 9, "\"\\u003c/script>\"");
	check("\xe2\x80\xae", 3, "\"\\u202e\"");              /* right-to-left override */
	check("\xf0\x9f\x98\x80", 4, "\"\xf0\x9f\x98\x80\""); /* beyond U+FFFF */
	/* no UTF-8: a lone byte, one that is cut off, a surrogate, an overlong one */
	check("\xff", 1, "\"\\ufffd\"");
	check("\xc3", 1, "\"\\ufffd\"");
	check("\xed\xa0\x80", 3, "\"\\ufffd\\ufffd\\ufffd\"");
	check("\xc0\x80", 2, "\"\\ufffd\\ufffd\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_buf),
		cmocka_unit_test(test_stream),
		cmocka_unit_test(test_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
