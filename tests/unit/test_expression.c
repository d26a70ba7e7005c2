/* SPDX-License-Identifier: MIT */
/* unwind/frame.h: each operation of an expression, and what is refused. */
#include <dwarf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "unwind/frame.h"

enum { STACK = 0x7000, RBP = 6, UNKNOWN = 3 };

static const uint64_t stack[2] = {0x8877665544332211, 0xaa};
static const struct frame frame = {
	.stack = (const uint8_t *)stack,
	.stack_start = STACK,
	.stack_bytes = sizeof(stack),
	.known = 1u << RBP,
	.registers = {[RBP] = 0x7008},
};

#define BYTES(...)                                                                                                     \
	{                                                                                                              \
		(const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})                                 \
	}

struct expression {
	struct span bytes;
	uint64_t value;
};

static void test_what_operations_compute(void **state)
{
	const struct expression all[] = {
		{BYTES(DW_OP_lit0), 0},
		{BYTES(DW_OP_lit31), 31},
		{BYTES(DW_OP_const1u, 0xff), 0xff},
		{BYTES(DW_OP_const1s, 0xff), UINT64_MAX},
		{BYTES(DW_OP_const2u, 0xfe, 0xff), 0xfffe},
		{BYTES(DW_OP_const2s, 0xfe, 0xff), UINT64_MAX - 1},
		{BYTES(DW_OP_const4u, 0xfe, 0xff, 0xff, 0xff), 0xfffffffe},
		{BYTES(DW_OP_const4s, 0xfe, 0xff, 0xff, 0xff), UINT64_MAX - 1},
		{BYTES(DW_OP_const8u, 8, 7, 6, 5, 4, 3, 2, 1), 0x0102030405060708},
		{BYTES(DW_OP_const8s, 0, 0, 0, 0, 0, 0, 0, 0x80), 1ull << 63},
		{BYTES(DW_OP_constu, 0x80, 1), 128},
		{BYTES(DW_OP_constu, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1), UINT64_MAX},
		{BYTES(DW_OP_constu, 0x85, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0), 5},
		{BYTES(DW_OP_consts, 0x3f), 63},
		{BYTES(DW_OP_consts, 0x40), -64ull},
		{BYTES(DW_OP_consts, 0x80, 0x7f), -128ull},
		{BYTES(DW_OP_breg6, 0x78), 0x7000},
		{BYTES(DW_OP_bregx, RBP, 8), 0x7010},
		{BYTES(DW_OP_breg6, 0, DW_OP_deref), 0xaa},
		{BYTES(DW_OP_breg6, 0x78, DW_OP_deref), 0x8877665544332211},
		{BYTES(DW_OP_breg6, 0x78, DW_OP_deref_size, 8), 0x8877665544332211},
		{BYTES(DW_OP_breg6, 0x78, DW_OP_deref_size, 3), 0x332211},
		{BYTES(DW_OP_breg6, 0x78, DW_OP_deref_size, 1), 0x11},
		{BYTES(DW_OP_lit12, DW_OP_lit10, DW_OP_and), 8},
		{BYTES(DW_OP_lit12, DW_OP_lit10, DW_OP_or), 14},
		{BYTES(DW_OP_lit12, DW_OP_lit10, DW_OP_xor), 6},
		{BYTES(DW_OP_lit12, DW_OP_lit10, DW_OP_plus), 22},
		{BYTES(DW_OP_lit12, DW_OP_lit10, DW_OP_minus), 2},
		{BYTES(DW_OP_lit12, DW_OP_lit10, DW_OP_mul), 120},
		{BYTES(DW_OP_const1s, 0xf4, DW_OP_lit5, DW_OP_div), -2ull}, /* signed */
		{BYTES(DW_OP_const1s, 0xff, DW_OP_lit16, DW_OP_mod), 15},   /* unsigned */
		{BYTES(DW_OP_const8u, 0, 0, 0, 0, 0, 0, 0, 0x80, DW_OP_const1s, 0xff, DW_OP_mod), 1ull << 63},
		{BYTES(DW_OP_const8u, 0, 0, 0, 0, 0, 0, 0, 0x80, DW_OP_lit1, DW_OP_div), 1ull << 63},
		{BYTES(DW_OP_lit3, DW_OP_lit4, DW_OP_shl), 48},
		{BYTES(DW_OP_lit1, DW_OP_const1u, 63, DW_OP_shl), 1ull << 63},
		{BYTES(DW_OP_lit1, DW_OP_const1u, 64, DW_OP_shl), 0},
		{BYTES(DW_OP_const1s, 0xff, DW_OP_const1u, 63, DW_OP_shr), 1},
		{BYTES(DW_OP_const1s, 0xff, DW_OP_const1u, 64, DW_OP_shr), 0},
		{BYTES(DW_OP_const1s, 0xf0, DW_OP_lit2, DW_OP_shra), -4ull},
		{BYTES(DW_OP_const1s, 0xf0, DW_OP_const1u, 200, DW_OP_shra), UINT64_MAX},
		{BYTES(DW_OP_const1s, 0xff, DW_OP_lit1, DW_OP_le), 1},
		{BYTES(DW_OP_lit1, DW_OP_lit1, DW_OP_le), 1},
		{BYTES(DW_OP_lit2, DW_OP_lit1, DW_OP_le), 0},
		{BYTES(DW_OP_const1s, 0xff, DW_OP_lit1, DW_OP_ge), 0},
		{BYTES(DW_OP_lit1, DW_OP_lit1, DW_OP_ge), 1},
		{BYTES(DW_OP_lit1, DW_OP_lit1, DW_OP_eq), 1},
		{BYTES(DW_OP_lit1, DW_OP_lit2, DW_OP_eq), 0},
		{BYTES(DW_OP_const1s, 0xff, DW_OP_lit1, DW_OP_lt), 1},
		{BYTES(DW_OP_lit1, DW_OP_lit1, DW_OP_lt), 0},
		{BYTES(DW_OP_lit1, DW_OP_lit1, DW_OP_gt), 0},
		{BYTES(DW_OP_lit2, DW_OP_const1s, 0xff, DW_OP_gt), 1},
		{BYTES(DW_OP_lit1, DW_OP_lit2, DW_OP_ne), 1},
		{BYTES(DW_OP_lit1, DW_OP_lit1, DW_OP_ne), 0},
		{BYTES(DW_OP_const1s, 0xfb, DW_OP_abs), 5},
		{BYTES(DW_OP_lit5, DW_OP_abs), 5},
		{BYTES(DW_OP_lit5, DW_OP_neg), -5ull},
		{BYTES(DW_OP_lit5, DW_OP_not), ~5ull},
		{BYTES(DW_OP_lit5, DW_OP_plus_uconst, 0x80, 1), 133},
		{BYTES(DW_OP_lit5, DW_OP_dup, DW_OP_plus), 10},
		{BYTES(DW_OP_lit5, DW_OP_lit6, DW_OP_drop), 5},
		{BYTES(DW_OP_lit5, DW_OP_lit6, DW_OP_over), 5},
		{BYTES(DW_OP_lit5, DW_OP_lit6, DW_OP_lit7, DW_OP_pick, 2), 5},
		{BYTES(DW_OP_lit5, DW_OP_lit6, DW_OP_swap), 5},
		{BYTES(DW_OP_lit5, DW_OP_lit6, DW_OP_swap, DW_OP_minus), 1},
		/* The top becomes the third, the second the top: DWARF 5, 2.5.1.3. */
		{BYTES(DW_OP_lit5, DW_OP_lit6, DW_OP_lit7, DW_OP_rot), 6},
		{BYTES(DW_OP_lit5, DW_OP_lit6, DW_OP_lit7, DW_OP_rot, DW_OP_drop), 5},
		{BYTES(DW_OP_lit5, DW_OP_lit6, DW_OP_lit7, DW_OP_rot, DW_OP_drop, DW_OP_drop), 7},
		{BYTES(DW_OP_lit5, DW_OP_nop), 5},
		{BYTES(DW_OP_lit5, DW_OP_skip, 1, 0, DW_OP_drop), 5},
		{BYTES(DW_OP_lit5, DW_OP_lit1, DW_OP_bra, 1, 0, DW_OP_drop), 5},
		{BYTES(DW_OP_lit5, DW_OP_lit6, DW_OP_lit0, DW_OP_bra, 1, 0, DW_OP_drop), 5},
		/* Backwards: 4, 3, 2, 1, 0 */
		{BYTES(DW_OP_lit4, DW_OP_lit1, DW_OP_minus, DW_OP_dup, DW_OP_bra, 0xfa, 0xff, DW_OP_lit9, DW_OP_plus),
		 9},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		uint64_t value = 0;
		bool cut = false;
		if (!frame_compute(&frame, all[i].bytes, NULL, &value, &cut) || value != all[i].value)
			fail_msg("expression %zu: %#lx", i, value);
		assert_false(cut);
	}
}

static void test_the_cfa_is_pushed_first(void **state)
{
	const struct span nothing = {"", 0}, plus = BYTES(DW_OP_lit8, DW_OP_plus);
	const uint64_t cfa = 0x7100;
	uint64_t value = 0;
	bool cut = false;

	(void)state;
	assert_true(frame_compute(&frame, nothing, &cfa, &value, &cut));
	assert_int_equal(value, cfa);
	assert_true(frame_compute(&frame, plus, &cfa, &value, &cut));
	assert_int_equal(value, cfa + 8);
	/* Back to the very beginning, as long as it is above 0x70c0. */
	const struct span loop =
		BYTES(DW_OP_lit8, DW_OP_minus, DW_OP_dup, DW_OP_const2u, 0xc0, 0x70, DW_OP_gt, DW_OP_bra, 0xf6, 0xff);
	assert_true(frame_compute(&frame, loop, &cfa, &value, &cut));
	assert_int_equal(value, 0x70c0);
	assert_false(frame_compute(&frame, nothing, NULL, &value, &cut));
	assert_false(frame_compute(&frame, plus, NULL, &value, &cut));
}

static void test_what_is_refused(void **state)
{
	const struct span all[] = {
		BYTES(DW_OP_plus),
		BYTES(DW_OP_lit1, DW_OP_plus),
		BYTES(DW_OP_lit1, DW_OP_drop),
		BYTES(DW_OP_drop, DW_OP_lit1),
		BYTES(DW_OP_lit1, DW_OP_over),
		BYTES(DW_OP_lit1, DW_OP_pick, 1),
		BYTES(DW_OP_lit1, DW_OP_swap),
		BYTES(DW_OP_lit1, DW_OP_lit2, DW_OP_rot),
		BYTES(DW_OP_lit1, DW_OP_lit0, DW_OP_div),
		BYTES(DW_OP_lit1, DW_OP_lit0, DW_OP_mod),
		BYTES(DW_OP_const8u, 0, 0, 0, 0, 0, 0, 0, 0x80, DW_OP_const1s, 0xff, DW_OP_div),
		BYTES(DW_OP_breg3, 0), /* not known */
		BYTES(DW_OP_bregx, UNWIND_REGISTERS, 0),
		BYTES(DW_OP_breg6, 0, DW_OP_deref_size, 0),
		BYTES(DW_OP_breg6, 0, DW_OP_deref_size, 9),
		BYTES(DW_OP_lit0, DW_OP_deref),
		BYTES(DW_OP_addr, 0, 0, 0, 0, 0, 0, 0, 0), /* where the object lies is not said */
		BYTES(DW_OP_call_frame_cfa),
		BYTES(0xff),
		BYTES(DW_OP_lit1, DW_OP_const4u, 0), /* breaks off */
		BYTES(DW_OP_lit1, DW_OP_skip, 0),
		BYTES(DW_OP_lit1, DW_OP_skip, 1, 0),       /* behind the end */
		BYTES(DW_OP_lit1, DW_OP_skip, 0xfb, 0xff), /* before the beginning */
		BYTES(DW_OP_lit1, DW_OP_skip, 0xfd, 0xff), /* for ever */
	};
	uint64_t value = 77;

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		bool cut = false;
		if (frame_compute(&frame, all[i], NULL, &value, &cut))
			fail_msg("expression %zu: %#lx", i, value);
		assert_int_equal(value, 77);
		assert_false(cut);
	}
}

/* As deep as a stack is, and as long as one may go on. */
static void test_bounds(void **state)
{
	uint8_t code[300];
	uint64_t value = 0;
	bool cut = false;

	(void)state;
	memset(code, DW_OP_lit7, sizeof(code));
	assert_true(frame_compute(&frame, (struct span){code, 32}, NULL, &value, &cut));
	assert_int_equal(value, 7);
	assert_false(frame_compute(&frame, (struct span){code, 33}, NULL, &value, &cut));
	memset(code + 1, DW_OP_nop, sizeof(code) - 1);
	assert_true(frame_compute(&frame, (struct span){code, 256}, NULL, &value, &cut));
	assert_false(frame_compute(&frame, (struct span){code, 257}, NULL, &value, &cut));
}

/* An operand is no longer than 64 bits need, however often a jump leads back to it. */
static void test_long_operands(void **state)
{
	static const uint8_t operations[] = {DW_OP_constu, DW_OP_consts, DW_OP_plus_uconst, DW_OP_breg6, DW_OP_bregx};
	const uint64_t cfa = 0x7100;

	(void)state;
	for (size_t i = 0; i < sizeof(operations); i++)
		for (size_t len = 10; len <= 11; len++) {
			uint8_t code[16] = {operations[i], RBP, 0};
			uint8_t *operand = code + (operations[i] == DW_OP_bregx ? 2 : 1);
			uint64_t value = 0;
			bool cut = false;
			memset(operand, 0x80, len - 1);
			operand[len - 1] = 0;
			const struct span bytes = {code, (size_t)(operand + len - code)};
			assert_int_equal(frame_compute(&frame, bytes, &cfa, &value, &cut), len == 10);
		}
}

/* What lies above the copied part of the stack is known to be missing; what lies elsewhere is wrong. */
static void test_what_was_not_copied(void **state)
{
	const struct {
		struct span bytes;
		bool cut;
	} all[] = {
		{BYTES(DW_OP_breg6, 8, DW_OP_deref), true},
		{BYTES(DW_OP_breg6, 1, DW_OP_deref), true}, /* in part */
		{BYTES(DW_OP_breg6, 0x77, DW_OP_deref), false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		uint64_t value = 0;
		bool cut = false;
		assert_false(frame_compute(&frame, all[i].bytes, NULL, &value, &cut));
		assert_int_equal(cut, all[i].cut);
	}
	struct frame of_cut = frame;
	uint64_t value = 0;
	bool cut = false;
	const struct span unknown = BYTES(DW_OP_breg0 + UNKNOWN, 0);
	of_cut.cut = true; /* that register may be one of those that were stored there */
	assert_false(frame_compute(&of_cut, unknown, NULL, &value, &cut));
	assert_true(cut);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_operations_compute), cmocka_unit_test(test_the_cfa_is_pushed_first),
		cmocka_unit_test(test_what_is_refused),         cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_long_operands),           cmocka_unit_test(test_what_was_not_copied),
	};

	return cmocka_run_group_tests_name("expression", tests, NULL, NULL);
}
