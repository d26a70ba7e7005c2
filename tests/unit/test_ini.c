/* SPDX-License-Identifier: MIT */
/* Configuration texts: what is read, and what must be refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "cmd/cli/ini.h"

#define AUTO_INI __attribute__((cleanup(ini_fini)))

/* All entries as "LINE section key=value|"; or "LINE!why" at an error. */
static void check_bytes(const char *text, size_t len, const char *expected)
{
	AUTO_INI struct ini ini;
	AUTO_BUF struct buf all = {0};
	AUTO_FREE char *copy = malloc(len ? len : 1); /* without a NUL behind it, for sanitizers */
	struct ini_entry entry;
	struct diag diag = {""};
	int got;

	assert_non_null(copy);
	memcpy(copy, text, len);
	ini_start(&ini, (struct span){copy, len});
	while ((got = ini_next(&ini, &entry, &diag)) > 0) {
		buf_printf(&all, "%u %s", entry.line, entry.section);
		buf_printf(&all, " %s", entry.key);
		if (entry.value)
			buf_printf(&all, "=%s", entry.value);
		buf_put_text(&all, "|");
	}
	if (got) {
		assert_int_equal(got, -EINVAL);
		buf_printf(&all, "%u!%.12s", ini.line, diag.text);
		assert_int_equal(ini_next(&ini, &entry, &diag), 0);
	}
	assert_string_equal(buf_text(&all), expected);
}

static void check(const char *text, const char *expected)
{
	check_bytes(text, strlen(text), expected);
}

static void test_entries(void **state)
{
	(void)state;
	check("", "");
	check("\n \t# nothing\n; at all", "");
	check("[a]\nb = c\n", "2 a b=c|");
	check("[a]b=c", "1 a b=c|");
	check("[ a ] b\n[c]\n\n\td", "1 a b|4 c d|");
	check("[A-1.x]\nKey-2 = Value", "2 a-1.x key-2=Value|");
	check("[a]\r\nb = c\r\nd\r\n", "2 a b=c|3 a d|");
	check("[a \"B c\"]\nd\n[x_y]z", "2 a \"b c\" d|3 x_y z|"); /* names that no command has */
	check("[a]\nb # comment\nc ; comment\n", "2 a b|3 a c|");
	check("[a]\nb=1\n[a]\nb=2\n[b]\nb=", "2 a b=1|4 a b=2|6 b b=|");
}

static void test_values(void **state)
{
	(void)state;
	check("[a]\nb =  two  words \t\n", "2 a b=two  words|");
	check("[a]\nb = \" kept \" \n", "2 a b= kept |");
	check("[a]\nb = x\" y \"z # c", "2 a b=x y z|");
	check("[a]\nb = one # two\nc = \"# ; no comment\" ; one", "2 a b=one|3 a c=# ; no comment|");
	check("[a]\nb = \\\"q\\\" \\\\ \\t\\n\\b.", "2 a b=\"q\" \\ \t\n\b.|");
	check("[a]\nb = x\\t\nc = \\t", "2 a b=x\t|3 a c=\t|");
	check("[a]\nb = one\\\n two\nc", "2 a b=one two|4 a c|");
	check("[a]\nb = \"one \\\n two \"", "2 a b=one  two |");
	check("[a]\nb = one  \\\n\nc", "2 a b=one|4 a c|");
	check("[a]\nb = a=b [c]", "2 a b=a=b [c]|");
	check("[a]\nb = \xc3\xa4 \xff", "2 a b=\xc3\xa4 \xff|");
	check("[a]\nb = x\\\n", "2 a b=x|");
	check("[a]\nb = c\rd\r", "2 a b=c\rd|");
}

static void test_wrong(void **state)
{
	(void)state;
	check("a = b", "1!a key before");
	check("\n[", "2!\"]\" is missi");
	check("[]", "1!the name of ");
	check_bytes("[a\0]", 4, "1!\"]\" is missi");
	check("[a", "1!\"]\" is missi");
	check("[a\n]", "1!\"]\" is missi");
	check("[a]\nb c", "2!\"=\" or the e");
	check("[a]\nb_c = 1", "2!\"=\" or the e");
	check("[a]\nb.c = 1", "2!\"=\" or the e");
	check("[a]\nb\n1c", "2 a b|3!neither [sec");
	check("[a]\n= 1", "2!neither [sec");
	check("[a]\nb = \"c\nd", "2!a quote (\") ");
	check("[a]\nb = \"c", "2!a quote (\") ");
	check("[a]\nb = \\x", "2!a backslash ");
	check("[a]\nb = \\", "2!a backslash ");
	check("[a]\nb = 1\\\n\"", "3!a quote (\") ");
	check_bytes("[a]\nb = 1\0", 11, "2!a NUL byte");
	check_bytes("[a]\nb\0", 6, "2!\"=\" or the e");
	check_bytes("[a]\nb = \\\0", 10, "2!a backslash ");
	check_bytes("\0", 1, "1!neither [sec");
}

static void test_long(void **state)
{
	enum { LEN = 100000 };
	AUTO_BUF struct buf text = {0}, expected = {0};

	(void)state;
	buf_put_text(&text, "[a]b=");
	memset(buf_extend(&text, LEN), 'x', LEN);
	buf_put_text(&expected, "1 a b=");
	memset(buf_extend(&expected, LEN), 'x', LEN);
	buf_put_text(&expected, "|");
	check_bytes((const char *)text.data, text.len, buf_text(&expected));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_entries),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_long),
	};
	return cmocka_run_group_tests_name("ini", tests, NULL, NULL);
}
