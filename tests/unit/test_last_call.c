/* SPDX-License-Identifier: MIT */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/machine/last_call.h"

struct code {
	uint8_t bytes[8];
	size_t len;
};

#define CODE(...)                                                                                                      \
	{                                                                                                              \
		{__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__})                                                        \
	}

static bool ends_with_call(uint16_t machine, const struct code *code)
{
	return code_ends_with_call(machine, code->bytes, code->len);
}

static void test_x86(void **state)
{
	static const struct code calls[] = {
		CODE(0x90, 0xe8, 1, 2, 3, 4),       /* call rel32 */
		CODE(0xe8, 1, 2, 3, 0xff),          /* call rel32, backwards */
		CODE(0x31, 0xff, 0xd0),             /* call *%rax */
		CODE(0x41, 0xff, 0xd4),             /* call *%r12 */
		CODE(0xff, 0x10),                   /* call *(%rax) */
		CODE(0xff, 0x14, 0xc6),             /* call *(%rsi,%rax,8) */
		CODE(0xff, 0x50, 0x18),             /* call *0x18(%rax) */
		CODE(0xff, 0x54, 0x24, 0x08),       /* call *8(%rsp) */
		CODE(0xff, 0x90, 1, 2, 0, 0),       /* call *0x201(%rax) */
		CODE(0xff, 0x15, 1, 2, 3, 4),       /* call *0x4030201(%rip) */
		CODE(0xff, 0x94, 0x24, 1, 2, 0, 0), /* call *0x201(%rsp) */
		CODE(0xff, 0x14, 0xc5, 1, 2, 0, 0), /* call *0x201(,%rax,8) */
	};
	static const struct code others[] = {
		CODE(0xc3),                                     /* ret */
		CODE(0xe8, 1, 2, 3),                            /* the end of something else */
		CODE(0xe9, 1, 2, 3, 4),                         /* jmp rel32 */
		CODE(0xff, 0xe0),                               /* jmp *%rax */
		CODE(0xff, 0x25, 1, 2, 3, 4),                   /* jmp *0x4030201(%rip) */
		CODE(0xff, 0xd0, 0x90),                         /* call *%rax; nop */
		CODE(0xe8, 1, 2, 3, 4, 0x0f, 0x0b),             /* call rel32; ud2 */
		CODE(0x8b, 0x45, 0xe8, 0x48, 0x98, 0xc9, 0xc3), /* mov -0x18(%rbp), %eax; cltq; leave; ret */
		CODE(0x31, 0xc0, 0x90, 0x90, 0x90),
		CODE(0xff, 0xff),
		CODE(0),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		assert_true(ends_with_call(EM_X86_64, &calls[i]));
		assert_true(ends_with_call(EM_386, &calls[i]));
		assert_false(ends_with_call(EM_RISCV, &calls[i]));
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(ends_with_call(EM_X86_64, &others[i]));
	assert_false(code_ends_with_call(EM_X86_64, calls[0].bytes, 0));
}

static void test_arm64(void **state)
{
	static const struct code calls[] = {
		CODE(0x1f, 0x20, 0x03, 0xd5, 0x10, 0x00, 0x00, 0x94), /* nop; bl forwards */
		CODE(0xff, 0xff, 0xff, 0x97),                         /* bl backwards */
		CODE(0x60, 0x02, 0x3f, 0xd6),                         /* blr x19 */
		CODE(0x1f, 0x08, 0x3f, 0xd6),                         /* blraaz x0 */
		CODE(0x3f, 0x0c, 0x3f, 0xd6),                         /* blrabz x1 */
		CODE(0x02, 0x08, 0x3f, 0xd7),                         /* blraa x0, x2 */
	};
	static const struct code others[] = {
		CODE(0x10, 0x00, 0x00, 0x14), /* b */
		CODE(0x60, 0x02, 0x1f, 0xd6), /* br x19 */
		CODE(0xc0, 0x03, 0x5f, 0xd6), /* ret */
		CODE(0x1f, 0x20, 0x03, 0xd5), /* nop */
		CODE(0x00, 0x00, 0x94),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		assert_true(ends_with_call(EM_AARCH64, &calls[i]));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(ends_with_call(EM_AARCH64, &others[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_x86),
		cmocka_unit_test(test_arm64),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
