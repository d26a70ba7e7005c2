/* SPDX-License-Identifier: MIT */
/*
 * jit_code: the functions in a jitdump, which lists code that was compiled at run time: at which address each function
 * was, and when, because a compiler moves code and reuses memory. Read once; then any number of threads. Source:
 * jitdump-specification.txt of the kernel's tools/perf/Documentation.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/symbols/symbols.h"
#include "base/span.h"

struct jit_code;

enum { JIT_MAX_BYTES = 1 << 30, JIT_MAX_FUNCTIONS = 1 << 24 };

/*
 * Reads the file up to its end, or to the first damage. 0; -EBADMSG: no jitdump of this byte order; -EFBIG: larger than
 * JIT_MAX_BYTES, or of more than JIT_MAX_FUNCTIONS, one that moved counted anew; -ENOMEM; -errno.
 */
int jit_code_read(int fd, struct jit_code **ret);
void jit_code_free(struct jit_code *code); /* NULL is fine */

enum { JIT_ANY_TIME = -1 };

/*
 * The function at an address at that time, in ns of the clock of the dump (CLOCK_MONOTONIC). JIT_ANY_TIME: the time is
 * not known; then only a function that was there all the time, according to the dump. NULL: none, or not known. Valid
 * as long as the jit_code. The result is the same for all times from *ret_from to before *ret_to.
 */
const struct symbol *jit_code_find(const struct jit_code *code, uint64_t address, int64_t time_ns, int64_t *ret_from,
				   int64_t *ret_to);

/* Whether the dump has a function at the address, at any time. */
bool jit_code_covers(const struct jit_code *code, uint64_t address);

/*
 * The .eh_frame with which that code is unwound. Its addresses assume that it begins behind the code, at the next
 * multiple of 8 from the start of the code. len 0: the dump has none. Valid as long as the jit_code.
 */
struct span jit_code_frames(const struct symbol *symbol);
bool jit_code_has_frames(const struct jit_code *code); /* of any function */

/* `symbol` is one of jit_code_find(). The path of the source lives as long as the code. NULL: not known. */
const char *jit_code_line(const struct jit_code *code, const struct symbol *symbol, uint64_t address,
			  unsigned *ret_line);
