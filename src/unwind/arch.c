/* SPDX-License-Identifier: MIT */
#include "unwind/arch.h"

#include <elf.h>
#include <stddef.h>
#include <string.h>
#include <sys/utsname.h>

#define BIT(nr) (UINT64_C(1) << (nr))

/*
 * Sampled numbers: <asm/perf_regs.h> of each architecture. DWARF numbers, and what functions keep: "System V ABI, AMD64
 * Architecture Processor Supplement", 3.6.2 and 3.2.1; "DWARF for the Arm 64-bit Architecture", 4.1, and
 * AAPCS64, 6.1.1.
 */
static const struct unwind_arch known[] = {
	{
		.name = "x86_64",
		.elf_machine = EM_X86_64,
		.nr = 17,
		.ra = 16,
		.sp = 7,
		.fp = 6,
		.nr_slots = 7,
		.slots = {16, 6, 3, 12, 13, 14, 15},
		.kept = BIT(3) | BIT(6) | BIT(12) | BIT(13) | BIT(14) | BIT(15),
		.address_bits = UINT64_MAX,
		.call_bytes = 8,
		/* struct rt_sigframe, arch/x86/include/asm/sigframe.h; struct sigcontext_64, <asm/sigcontext.h>. */
		.signal_registers = 40 /* ucontext before uc_mcontext */,
		.signal_words = {13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7, 16},
		.signal_pc = 16,
		.nr_sampled = 17,
		.sampled = {0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 8},
		.sampled_pc = 8,
		.sampled_sp = 7,
	},
	{
		.name = "aarch64",
		.elf_machine = EM_AARCH64,
		.nr = 32,
		.ra = 30,
		.sp = 31,
		.fp = 29,
		.nr_slots = 12,
		.slots = {30, 29, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28},
		.kept = (BIT(31) - BIT(19)),
		/*
		 * Programs have 48 bits unless they ask for more; above are the signature and a tag. Source:
		 * Documentation/arch/arm64/pointer-authentication.rst.
		 */
		.address_bits = BIT(48) - 1,
		.call_bytes = 0,
		/* struct rt_sigframe, arch/arm64/kernel/signal.c; struct sigcontext, <asm/sigcontext.h>. */
		.signal_registers = 128 /* siginfo */ + 176 /* ucontext before uc_mcontext */ + 8 /* fault_address */,
		.signal_words = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
				 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31},
		.signal_pc = 32,
		.has_signal_record = true,
		.nr_sampled = 32,
		.sampled = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
			    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31},
		.sampled_pc = 32,
		.sampled_sp = 31,
		.sampled_lr = 30,
	},
};

const struct unwind_arch *unwind_arch_of(const char *arch)
{
	struct utsname here;

	if (!arch)
		arch = uname(&here) == 0 ? here.machine : "";
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(known[i].name, arch))
			return &known[i];
	return NULL;
}
