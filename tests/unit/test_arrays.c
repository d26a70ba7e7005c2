/* SPDX-License-Identifier: MIT */
/* array_room(): arrays on the heap that grow at the end; and text_stream_open(): texts that do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/buf.h"

/* AddressSanitizer ends a program that asks for too much, unless it is told not to. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

static void test_elements_stay_when_the_array_grows(void **state)
{
	uint32_t *numbers = NULL, room = 0;

	(void)state;
	for (uint32_t nr = 0; nr < 1000; nr++) {
		assert_int_equal(array_room(numbers, nr, room), 0);
		assert_true(room > nr);
		numbers[nr] = nr * 3;
	}
	for (uint32_t nr = 0; nr < 1000; nr++)
		assert_int_equal(numbers[nr], nr * 3);
	assert_int_equal(room, 1024);
	free(numbers);
}

static void test_a_stream_makes_one_text(void **state)
{
	char *text;
	size_t len;
	FILE *to = text_stream_open(&text, &len);

	(void)state;
	for (int i = 0; i < 10000; i++)
		assert_int_equal(fprintf(to, "%05d\n", i), 6);
	fwrite("\0", 1, 1, to);
	assert_int_equal(fclose(to), 0);
	assert_int_equal(len, 60001);
	assert_memory_equal(text, "00000\n00001\n", 12);
	assert_string_equal(text + 59994, "09999\n");
	assert_int_equal(text[60001], '\0');
	free(text);
	to = text_stream_open(&text, &len);
	assert_int_equal(fclose(to), 0);
	assert_int_equal(len, 0);
	assert_string_equal(text, "");
	free(text);
}

static void test_an_array_with_room_does_not_move(void **state)
{
	size_t room = 0;
	char *bytes = NULL;

	(void)state;
	assert_int_equal(array_room(bytes, 0, room), 0);
	char *before = bytes;
	assert_int_equal(array_room(bytes, room - 1, room), 0);
	assert_ptr_equal(bytes, before);
	free(bytes);
}

/* Also a limit that is no power of two is used up whole. */
static void test_no_more_than_the_limit(void **state)
{
	uint64_t *numbers = NULL;
	size_t room = 0, nr = 0;

	(void)state;
	for (; !array_room_up_to(numbers, nr, room, 100); nr++)
		numbers[nr] = nr;
	assert_int_equal(nr, 100);
	assert_int_equal(room, 100);
	assert_int_equal(numbers[99], 99);
	free(numbers);
}

static void test_room_of_a_small_type_does_not_wrap(void **state)
{
	uint8_t *bytes = NULL, room = 0;
	unsigned nr = 0;

	(void)state;
	while (!array_room(bytes, nr, room))
		bytes[nr++] = 1;
	assert_int_equal(nr, UINT8_MAX);
	assert_int_equal(room, UINT8_MAX);
	free(bytes);
}

static void test_nothing_changes_where_memory_is_short(void **state)
{
	struct {
		char bytes[1 << 20];
	} *large = NULL, *before;
	size_t room = 0;

	(void)state;
	assert_int_equal(array_room(large, 0, room), 0);
	before = large;
	/* 2^64 bytes and more */
	size_t full = room = SIZE_MAX / sizeof(*large);
	assert_int_equal(array_room(large, full, room), -ENOMEM);
	assert_ptr_equal(large, before);
	assert_int_equal(room, full);
	free(large);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_elements_stay_when_the_array_grows),
		cmocka_unit_test(test_a_stream_makes_one_text),
		cmocka_unit_test(test_an_array_with_room_does_not_move),
		cmocka_unit_test(test_no_more_than_the_limit),
		cmocka_unit_test(test_room_of_a_small_type_does_not_wrap),
		cmocka_unit_test(test_nothing_changes_where_memory_is_short),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
