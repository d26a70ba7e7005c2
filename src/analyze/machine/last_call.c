/* SPDX-License-Identifier: MIT */
#include "analyze/machine/last_call.h"

#include <elf.h>
#include <string.h>

#include "analyze/symbols/dso.h"
#include "base/cleanup.h"
#include "base/fd.h"

/* Of x86 without prefixes, which do not matter: opcode, ModRM, SIB, displacement. */
enum { CALL_MOST_BYTES = 7, CALL_RELATIVE_BYTES = 5 };

void last_calls_fini(struct last_calls *calls)
{
	hash_table_fini(&calls->known);
}

enum last_call last_calls_peek(const struct last_calls *calls, const struct symbol *function)
{
	return (enum last_call)hash_table_find_number(&calls->known, (uintptr_t)function);
}

/* Bytes of a call by register or memory. Source: Intel SDM volume 2, "CALL", "ModR/M and SIB Bytes". 0: it is none. */
static size_t x86_indirect_call_bytes(const uint8_t *code)
{
	const uint8_t mod = code[1] >> 6, rm = code[1] & 7;
	size_t bytes = 2;

	if (code[0] != 0xff || (code[1] >> 3 & 7) != 2)
		return 0;
	if (mod == 3)
		return bytes;
	bytes += mod == 1 ? 1 : mod == 2 ? 4 : 0;
	if (mod == 0 && rm == 5) /* a displacement in place of the base */
		bytes += 4;
	if (rm == 4)
		bytes += mod == 0 && (code[2] & 7) == 5 ? 5 : 1;
	return bytes;
}

/* No program reaches so far that the displacement ends with the byte of RET, as other code before that might. */
static bool is_x86_relative_call(const uint8_t *code)
{
	return code[0] == 0xe8 && (code[4] < 0x20 || code[4] >= 0xe0);
}

static bool x86_ends_with_call(const uint8_t *code, size_t len)
{
	const size_t most = len < CALL_MOST_BYTES ? len : CALL_MOST_BYTES;

	if (len >= CALL_RELATIVE_BYTES && is_x86_relative_call(code + len - CALL_RELATIVE_BYTES))
		return true;
	for (size_t bytes = 2; bytes <= most; bytes++) {
		uint8_t call[CALL_MOST_BYTES] = {0};
		memcpy(call, code + len - bytes, bytes);
		if (x86_indirect_call_bytes(call) == bytes)
			return true;
	}
	return false;
}

/* BL, BLR, and BLRAA to BLRABZ. Source: Arm Architecture Reference Manual, "Branches". */
static bool arm64_ends_with_call(const uint8_t *code, size_t len)
{
	if (len < sizeof(uint32_t))
		return false;
	const uint8_t *last = code + len - sizeof(uint32_t);
	const uint32_t word = last[0] | last[1] << 8 | last[2] << 16 | (uint32_t)last[3] << 24;
	return (word & 0xfc000000) == 0x94000000 || (word & 0xfffffc1f) == 0xd63f0000 ||
	       (word & 0xfefff800) == 0xd63f0800;
}

bool code_ends_with_call(uint16_t machine, const uint8_t *code, size_t len)
{
	switch (machine) {
	case EM_X86_64:
	case EM_386: return x86_ends_with_call(code, len);
	case EM_AARCH64: return arm64_ends_with_call(code, len);
	default: return false;
	}
}

/* Addresses of functions of the program are offsets in its file. */
static bool function_ends_with_call(const struct dso *dso, const char *symfs, const struct symbol *function)
{
	AUTO_FD int fd = dso_open(dso, symfs, DSO_RUNTIME);
	uint8_t code[CALL_MOST_BYTES];
	const uint64_t bytes = function->end - function->start;
	const size_t len = bytes < sizeof(code) ? bytes : sizeof(code);
	uint16_t machine; /* at one place in the headers of both classes */

	return fd >= 0 && !fd_pread(fd, &machine, sizeof(machine), offsetof(Elf64_Ehdr, e_machine)) &&
	       !fd_pread(fd, code, len, function->end - len) && code_ends_with_call(machine, code, len);
}

enum last_call last_calls_find(struct last_calls *calls, const struct dso *dso, const char *symfs,
			       const struct symbol *function)
{
	enum last_call last = function_ends_with_call(dso, symfs, function) ? LAST_CALL_THERE : LAST_CALL_NONE;

	/* Without memory for it the file is read again. */
	(void)hash_table_add_number(&calls->known, (uintptr_t)function, last);
	return last;
}
