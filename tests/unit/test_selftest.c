/* SPDX-License-Identifier: MIT */
/* When the user's acceptance test passes, and when it must not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cmd/selftest_run.h"

static const struct selftest_params syscalls = {.kind = SELFTEST_SYSCALLS}, faults = {.kind = SELFTEST_FAULTS};

static void all_captured_or_all_accounted_for_passes(void **state)
{
	(void)state;
	assert_true(selftest_passed(&syscalls, &(struct selftest_result){.generated = 10, .captured = 10}));
	assert_true(selftest_passed(
		&syscalls, &(struct selftest_result){.generated = 10, .captured = 7, .lost = 3, .ledger_lost = 3}));
	/* Faults of others are lost, too. */
	assert_true(selftest_passed(
		&faults, &(struct selftest_result){.generated = 10, .captured = 7, .lost = 5, .ledger_lost = 5}));
}

static void missing_doubled_or_changed_records_fail(void **state)
{
	static const struct selftest_result bad[] = {
		{.generated = 10, .captured = 9},
		{.generated = 10, .captured = 9, .lost = 2, .ledger_lost = 2},
		{.generated = 10, .captured = 9, .lost = 1},
		{.generated = 10, .captured = 10, .ledger_lost = 1},
		{.generated = 10, .captured = 10, .twice = 1},
		{.generated = 10, .captured = 10, .strange = 1},
		{.generated = 10, .captured = 0, .lost = 10, .ledger_lost = 10}, /* a recorder that records nothing */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(selftest_passed(&syscalls, &bad[i]));
	assert_false(selftest_passed(&faults, &bad[0]));
	assert_false(selftest_passed(&faults, &bad[6]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_captured_or_all_accounted_for_passes),
		cmocka_unit_test(missing_doubled_or_changed_records_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
