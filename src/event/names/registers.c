/* SPDX-License-Identifier: MIT */
/* Numbers: <asm/perf_regs.h> of each architecture. The names are those that perf takes. */
#include "event/names/registers.h"

#include <asm/perf_regs.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"

struct known_register {
	const char *name;
	unsigned bit;
};

#if defined(__x86_64__)
/* The kernel refuses the segment registers DS, ES, FS and GS of a 64-bit task. */
static const struct known_register names[] = {
	{"AX", PERF_REG_X86_AX},   {"BX", PERF_REG_X86_BX},       {"CX", PERF_REG_X86_CX},   {"DX", PERF_REG_X86_DX},
	{"SI", PERF_REG_X86_SI},   {"DI", PERF_REG_X86_DI},       {"BP", PERF_REG_X86_BP},   {"SP", PERF_REG_X86_SP},
	{"IP", PERF_REG_X86_IP},   {"FLAGS", PERF_REG_X86_FLAGS}, {"CS", PERF_REG_X86_CS},   {"SS", PERF_REG_X86_SS},
	{"R8", PERF_REG_X86_R8},   {"R9", PERF_REG_X86_R9},       {"R10", PERF_REG_X86_R10}, {"R11", PERF_REG_X86_R11},
	{"R12", PERF_REG_X86_R12}, {"R13", PERF_REG_X86_R13},     {"R14", PERF_REG_X86_R14}, {"R15", PERF_REG_X86_R15},
};
enum { REG_IP = PERF_REG_X86_IP, REG_SP = PERF_REG_X86_SP };
#elif defined(__aarch64__)
static const struct known_register names[] = {
	{"x0", 0},
	{"x1", 1},
	{"x2", 2},
	{"x3", 3},
	{"x4", 4},
	{"x5", 5},
	{"x6", 6},
	{"x7", 7},
	{"x8", 8},
	{"x9", 9},
	{"x10", 10},
	{"x11", 11},
	{"x12", 12},
	{"x13", 13},
	{"x14", 14},
	{"x15", 15},
	{"x16", 16},
	{"x17", 17},
	{"x18", 18},
	{"x19", 19},
	{"x20", 20},
	{"x21", 21},
	{"x22", 22},
	{"x23", 23},
	{"x24", 24},
	{"x25", 25},
	{"x26", 26},
	{"x27", 27},
	{"x28", 28},
	{"x29", 29},
	{"lr", PERF_REG_ARM64_LR},
	{"sp", PERF_REG_ARM64_SP},
	{"pc", PERF_REG_ARM64_PC},
};
enum { REG_IP = PERF_REG_ARM64_PC, REG_SP = PERF_REG_ARM64_SP };
#else
static const struct known_register names[] = {{NULL, 0}}; /* not known here: no register can be named */
enum { REG_IP = 0, REG_SP = 0 };
#endif

enum { NR_NAMES = sizeof(names) / sizeof(names[0]) };

uint64_t registers_all(void)
{
	uint64_t mask = 0;

	for (size_t i = 0; i < NR_NAMES && names[i].name; i++)
		mask |= UINT64_C(1) << names[i].bit;
	return mask;
}

uint64_t registers_ip_sp(void)
{
	return (UINT64_C(1) << REG_IP | UINT64_C(1) << REG_SP) & registers_all();
}

uint64_t registers_leaf(void)
{
#if defined(__aarch64__)
	return UINT64_C(1) << PERF_REG_ARM64_LR;
#else
	return 0;
#endif
}

const char *register_name(unsigned bit)
{
	for (size_t i = 0; i < NR_NAMES && names[i].name; i++)
		if (names[i].bit == bit)
			return names[i].name;
	return "unknown";
}

static int no_such(const char *word, size_t len, struct diag *reterr)
{
	AUTO_BUF struct buf list = {0};

	for (size_t i = 0; i < NR_NAMES && names[i].name; i++)
		buf_printf(&list, " %s", names[i].name);
	if (len == 1 && *word == '?')
		return diag_set(reterr, -EINVAL, "the registers of this machine:%s", buf_text(&list));
	return diag_set(reterr, -EINVAL, "\"%.*s\" is no register of this machine; there are:%s", (int)len, word,
			buf_text(&list));
}

int registers_parse(const char *text, uint64_t *ret, struct diag *reterr)
{
	uint64_t mask = 0;

	for (const char *word = text;;) {
		size_t len = strcspn(word, ","), i = 0;
		while (i < NR_NAMES && names[i].name &&
		       (strlen(names[i].name) != len || strncasecmp(names[i].name, word, len)))
			i++;
		if (i == NR_NAMES || !names[i].name)
			return no_such(word, len, reterr);
		mask |= UINT64_C(1) << names[i].bit;
		if (!word[len])
			break;
		word += len + 1;
	}
	*ret = mask;
	return 0;
}
