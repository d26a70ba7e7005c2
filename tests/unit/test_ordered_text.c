/* SPDX-License-Identifier: MIT */
/* Text that several threads make comes in the order of its pieces, and ends with the first error. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cmd/text/ordered_text.h"

enum { PIECES = 1000, WORKERS_MAX = 8 };

struct made {
	atomic_uint nr, nr_wrong;
	atomic_bool busy[WORKERS_MAX];
	unsigned fails_at;
};

/* Of very different lengths, also longer than what a stream holds back, and empty ones. */
static void write_piece(FILE *to, unsigned piece)
{
	const unsigned lines = piece % 97 ? piece % 7 : 3000;

	for (unsigned i = 0; i < lines; i++)
		fprintf(to, "%u: line %u\n", piece, i);
}

static int put(void *ctx, unsigned worker, unsigned piece, FILE *to)
{
	struct made *made = ctx;

	if (worker >= ordered_text_workers() || atomic_exchange(&made->busy[worker], true))
		made->nr_wrong++;
	made->nr++;
	write_piece(to, piece);
	atomic_store(&made->busy[worker], false);
	return piece >= made->fails_at ? -EBADMSG : 0;
}

static void check(unsigned nr_pieces, unsigned fails_at)
{
	struct made made = {.fails_at = fails_at};
	const struct ordered_text text = {nr_pieces, put, &made};
	const unsigned nr_written = fails_at < nr_pieces ? fails_at + 1 : nr_pieces;
	char *wanted = NULL, *got = NULL;
	size_t wanted_len, got_len;
	FILE *to = open_memstream(&wanted, &wanted_len);

	for (unsigned i = 0; i < nr_written; i++)
		write_piece(to, i);
	fclose(to);
	to = open_memstream(&got, &got_len);
	assert_int_equal(ordered_text_print(to, &text), fails_at < nr_pieces ? -EBADMSG : 0);
	fclose(to);
	assert_string_equal(got, wanted);
	assert_int_equal(made.nr_wrong, 0);
	assert_true(made.nr >= nr_written && made.nr <= nr_pieces);
	free(wanted);
	free(got);
}

static void test_order(void **state)
{
	(void)state;
	check(0, PIECES);
	check(1, PIECES);
	check(PIECES, PIECES);
}

static int put_nothing(void *ctx, unsigned worker, unsigned piece, FILE *to)
{
	(void)ctx;
	(void)worker;
	(void)piece;
	(void)to;
	return 0;
}

static void test_nothing(void **state)
{
	const struct ordered_text text = {PIECES, put_nothing, NULL};
	char *got = NULL;
	size_t got_len;
	FILE *to = open_memstream(&got, &got_len);

	(void)state;
	assert_int_equal(ordered_text_print(to, &text), 0);
	fclose(to);
	assert_int_equal(got_len, 0);
	free(got);
}

static void test_error(void **state)
{
	(void)state;
	check(PIECES, 0);
	check(PIECES, 100);
	check(PIECES, PIECES - 1);
}

/* Where text cannot be written no more of it is made than is under way. */
static void test_closed(void **state)
{
	struct made made = {.fails_at = PIECES};
	const struct ordered_text text = {PIECES, put, &made};
	FILE *to = fopen("/dev/full", "w");

	(void)state;
	setbuf(to, NULL);
	assert_int_equal(ordered_text_print(to, &text), 0);
	assert_true(ferror(to));
	assert_true(made.nr < PIECES);
	fclose(to);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_error),
		cmocka_unit_test(test_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
