/* SPDX-License-Identifier: MIT */
#include "analyze/symbols/plt.h"

#include <endian.h>
#include <string.h>

enum { ENTRY_BYTES = 16, RETPOLINE_BYTES = 32, RELOCATION_32_BYTES = 8 };

/* Skips an instruction of `len` bytes that begins with these. */
static void skip(const struct plt_place *place, const char *opcode, size_t opcode_len, size_t len, size_t *at)
{
	if (place->len - *at >= len && memcmp(place->code + *at, opcode, opcode_len) == 0)
		*at += len;
}

/* An instruction that begins with these; what is behind them, a number of 32 bits, moves *at to its end. */
static bool take(const struct plt_place *place, const char *opcode, size_t opcode_len, size_t *at, uint32_t *ret)
{
	if (place->len - *at < opcode_len + sizeof(*ret) || memcmp(place->code + *at, opcode, opcode_len) != 0)
		return false;
	memcpy(ret, place->code + *at + opcode_len, sizeof(*ret));
	*ret = le32toh(*ret);
	*at += opcode_len + sizeof(*ret);
	return true;
}

/* From the end of an instruction. */
static uint64_t relative(const struct plt_place *place, size_t at, uint32_t distance)
{
	return place->address + at + (uint64_t)(int64_t)(int32_t)distance;
}

bool plt_decode(const struct plt_place *place, struct plt_jump *ret)
{
	size_t at = 0;
	uint32_t value;

	*ret = (struct plt_jump){.bytes = ENTRY_BYTES};
	skip(place, place->is_64 ? "\xf3\x0f\x1e\xfa" : "\xf3\x0f\x1e\xfb", 4, 4, &at); /* endbr64, endbr32 */
	if (take(place, "\x68", 1, &at, &value)) {                                      /* push */
		ret->relocation = place->is_64 ? value : value / RELOCATION_32_BYTES;
		return true;
	}
	if (place->is_64)
		skip(place, "\x41\xbb", 2, 6, &at); /* mov to r11d */
	bool in_ecx = !place->is_64 && take(place, "\xb9", 1, &at, &value);
	ret->relocation = in_ecx ? value / RELOCATION_32_BYTES : 0;
	skip(place, "\xf2", 1, 1, &at);                /* bnd */
	if (take(place, "\xff\x25", 2, &at, &value)) { /* jmp to what is there */
		ret->slot = place->is_64 ? relative(place, at, value) : value;
	} else if (!place->is_64 && take(place, "\xff\xa3", 2, &at, &value)) { /* the same, from ebx */
		if (in_ecx)
			return true; /* mold has another address in ebx */
		ret->slot = (uint32_t)(place->got + value);
	} else if (place->is_64 && take(place, "\x4c\x8b\x1d", 3, &at, &value)) { /* mov from there to r11 */
		ret->slot = relative(place, at, value);
		ret->bytes = RETPOLINE_BYTES;
	}
	return ret->slot != 0;
}
