/* SPDX-License-Identifier: MIT */
/* What is sampled: <asm/perf_regs.h> of each architecture; DWARF numbers: its psABI. */
#include "analyze/unwind_registers.h"

#include <string.h>
#include <sys/utsname.h>

#include "format/sample.h"

static const struct unwind_registers known[] = {
	/* 16 is the return address. */
	{.arch = "x86_64",
	 .nr = 17,
	 .sampled = {0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 8},
	 .rows = true,
	 .sp = 7,
	 .ip = 8},
	{.arch = "aarch64",
	 .nr = 32,
	 .sampled = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
		     16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31},
	 .lr = 30,
	 .sp = 31,
	 .ip = 32},
};

const struct unwind_registers *unwind_registers_of(const char *arch)
{
	struct utsname here;

	if (!arch)
		arch = uname(&here) == 0 ? here.machine : "";
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(known[i].arch, arch))
			return &known[i];
	return NULL;
}

bool unwind_register(const struct sample *sample, unsigned nr, uint64_t *ret)
{
	const struct sample_regs *regs = &sample->user_regs;

	if (nr >= 64 || !(regs->mask >> nr & 1))
		return false;
	*ret = regs->regs[__builtin_popcountll(regs->mask & ((1ull << nr) - 1))];
	return true;
}
