/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/span.h"
#include "record/build_ids/object_cache.h"

static char place[] = "/tmp/millrace-object-cache-XXXXXX";

static int make_place(void **state)
{
	(void)state;
	return mkdtemp(place) ? 0 : -1;
}

static int remove_place(void **state)
{
	char command[256];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", place);
	return system(command);
}

/* A copy is where readers look, whatever was there before under that name. */
static void copies_are_found_by_their_build_id(void **state)
{
	static const char *const before[] = {"true", "ln -s ../../nowhere/at/all $l", "mkdir $l",
					     "mkdir -p ${l%/*/*/*}/other/place && ln -s ../../other/place $l",
					     "ln -s /dev/null $l"};
	struct cache_entry entry = {.name = "/opt/app", .leaf = "elf", .id = {.bytes = {0xab, 0xcd, 0xef}, .len = 3}};
	char cache[160], command[512];

	(void)state;
	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
		snprintf(cache, sizeof(cache), "%s/cache%zu", place, i);
		snprintf(command, sizeof(command), "l=%s/.build-id/ab/cdef; mkdir -p -m 700 ${l%%/*} && %s", cache,
			 before[i]);
		assert_int_equal(system(command), 0);
		entry.dir_fd = object_cache_open(cache);
		assert_true(entry.dir_fd >= 0);
		assert_false(object_cache_has(&entry));
		assert_int_equal(object_cache_put_bytes(&entry, span_of_text("elf")), 0);
		assert_true(object_cache_has(&entry));
		close(entry.dir_fd);
	}
	/* A file that is in the way is not taken away, and it is told. */
	snprintf(cache, sizeof(cache), "%s/cache", place);
	snprintf(command, sizeof(command), "mkdir -p -m 700 %s/.build-id/ab && touch %s/.build-id/ab/cdef", cache,
		 cache);
	assert_int_equal(system(command), 0);
	entry.dir_fd = object_cache_open(cache);
	assert_true(object_cache_put_bytes(&entry, span_of_text("elf")) < 0);
	close(entry.dir_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_are_found_by_their_build_id),
	};

	return cmocka_run_group_tests(tests, make_place, remove_place);
}
