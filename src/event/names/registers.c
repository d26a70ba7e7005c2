/* SPDX-License-Identifier: MIT */
/* Numbers: <asm/perf_regs.h> of each architecture. The names are those that perf takes and prints. */
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
#define THIS_ARCH "x86_64"
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
#define THIS_ARCH "aarch64"
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
#define THIS_ARCH ""
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

/*
 * By bit, as perf prints them; NULL: no such register. An XMM register has 128 bits: two bits of the mask. Source:
 * arch/ARCH/include/uapi/asm/perf_regs.h of Linux, and tools/perf/util/perf_regs.c for the spelling.
 */
static const char *const names_x86[64] = {
	"AX",    "BX",    "CX",    "DX",    "SI",          "DI",    "BP",    "SP",    "IP",    "FLAGS",
	"CS",    "SS",    "DS",    "ES",    "FS",          "GS",    "R8",    "R9",    "R10",   "R11",
	"R12",   "R13",   "R14",   "R15",   [32] = "XMM0", "XMM0",  "XMM1",  "XMM1",  "XMM2",  "XMM2",
	"XMM3",  "XMM3",  "XMM4",  "XMM4",  "XMM5",        "XMM5",  "XMM6",  "XMM6",  "XMM7",  "XMM7",
	"XMM8",  "XMM8",  "XMM9",  "XMM9",  "XMM10",       "XMM10", "XMM11", "XMM11", "XMM12", "XMM12",
	"XMM13", "XMM13", "XMM14", "XMM14", "XMM15",       "XMM15",
};
static const char *const names_arm64[64] = {
	"x0",  "x1",  "x2",  "x3",  "x4",  "x5",  "x6",  "x7",  "x8",  "x9",        "x10", "x11",
	"x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21",       "x22", "x23",
	"x24", "x25", "x26", "x27", "x28", "x29", "lr",  "sp",  "pc",  [46] = "vg",
};
static const char *const names_arm[64] = {
	"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "fp", "ip", "sp", "lr", "pc",
};
static const char *const names_powerpc[64] = {
	"r0",    "r1",    "r2",    "r3",    "r4",   "r5",   "r6",    "r7",   "r8",    "r9",    "r10",     "r11",
	"r12",   "r13",   "r14",   "r15",   "r16",  "r17",  "r18",   "r19",  "r20",   "r21",   "r22",     "r23",
	"r24",   "r25",   "r26",   "r27",   "r28",  "r29",  "r30",   "r31",  "nip",   "msr",   "orig_r3", "ctr",
	"link",  "xer",   "ccr",   "softe", "trap", "dar",  "dsisr", "sier", "mmcra", "mmcr0", "mmcr1",   "mmcr2",
	"mmcr3", "sier2", "sier3", "pmc1",  "pmc2", "pmc3", "pmc4",  "pmc5", "pmc6",  "sdar",  "siar",
};
static const char *const names_s390[64] = {
	"R0",  "R1",  "R2",   "R3",   "R4",   "R5",   "R6",   "R7",   "R8",   "R9",  "R10", "R11",
	"R12", "R13", "R14",  "R15",  "FP0",  "FP1",  "FP2",  "FP3",  "FP4",  "FP5", "FP6", "FP7",
	"FP8", "FP9", "FP10", "FP11", "FP12", "FP13", "FP14", "FP15", "MASK", "PC",
};
static const char *const names_mips[64] = {
	"PC",  "$1",  "$2",  "$3",  "$4",  "$5",  "$6",  "$7",  "$8",  "$9",  "$10", "$11",        "$12", "$13", "$14",
	"$15", "$16", "$17", "$18", "$19", "$20", "$21", "$22", "$23", "$24", "$25", [28] = "$28", "$29", "$30", "$31",
};

static const struct {
	const char *arch; /* the first letters of what uname -m says */
	const char *const *names;
} known_names[] = {
	{"x86_64", names_x86},  {"i386", names_x86},        {"i486", names_x86},    {"i586", names_x86},
	{"i686", names_x86},    {"aarch64", names_arm64},   {"arm64", names_arm64}, {"arm", names_arm},
	{"ppc", names_powerpc}, {"powerpc", names_powerpc}, {"s390", names_s390},   {"mips", names_mips},
};

const char *register_name(const char *arch, unsigned bit)
{
	if (!arch)
		arch = THIS_ARCH;
	for (size_t i = 0; i < sizeof(known_names) / sizeof(known_names[0]); i++)
		if (!strncmp(arch, known_names[i].arch, strlen(known_names[i].arch)))
			return bit < 64 && known_names[i].names[bit] ? known_names[i].names[bit] : "unknown";
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
