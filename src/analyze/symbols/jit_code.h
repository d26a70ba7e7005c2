/* SPDX-License-Identifier: MIT */
/*
 * jit_code: code compiled at run time as a jitdump tells it: which function was where, and when, for a compiler moves
 * code and uses memory again. Read once; then any number of threads.
 * Source: jitdump-specification.txt of the kernel's tools/perf/Documentation.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/symbols/symbols.h"
#include "base/span.h"

struct jit_code;

/*
 * What the file says up to its end, or to what is broken. 0, -EBADMSG: no jitdump of this byte order, -ENOMEM, -errno.
 */
int jit_code_read(int fd, struct jit_code **ret);
void jit_code_free(struct jit_code *code); /* NULL is fine */

enum { JIT_ANY_TIME = -1 };

/*
 * What had the code at an address at that time, in ns of the clock of the dump (CLOCK_MONOTONIC). JIT_ANY_TIME: not
 * known; then only what was there all the time, as far as the dump tells. NULL: nothing, or not known. Lives as long as
 * the code. *ret_from, *ret_to: the answer holds from then until before then.
 */
const struct symbol *jit_code_find(const struct jit_code *code, uint64_t address, int64_t time_ns, int64_t *ret_from,
				   int64_t *ret_to);

/*
 * How that code is unwound: an .eh_frame, which counts addresses as if it began behind the code, at the next multiple
 * of 8 from its start. len 0: the dump does not say. Lives as long as the code.
 */
struct span jit_code_frames(const struct symbol *symbol);
bool jit_code_has_frames(const struct jit_code *code); /* of any code */

/* `symbol` is one of jit_code_find(). The path of the source lives as long as the code. NULL: not known. */
const char *jit_code_line(const struct jit_code *code, const struct symbol *symbol, uint64_t address,
			  unsigned *ret_line);
