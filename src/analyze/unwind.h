/* SPDX-License-Identifier: MIT */
/*
 * unwind: call chains out of the registers and the piece of stack that a dwarf recording has in each sample,
 * by the unwind tables of the mapped objects (elfutils' libdwfl). One thread.
 */
#pragma once

#include <stdint.h>

struct maps;
struct sample;
struct unwinder;

/* symfs is borrowed. NULL: out of memory. */
struct unwinder *unwinder_new(const char *symfs);
void unwinder_free(struct unwinder *unwinder); /* NULL is fine */

/*
 * The addresses of the user frames, innermost first; those of callers are one less than where they go on, so
 * that they lie in the call. At most `max`; returns how many. 0 when the sample has no registers or stack, or
 * of another machine.
 */
unsigned unwind_sample(struct unwinder *unwinder, struct maps *maps, const struct sample *sample,
		       uint64_t *ret_ips, unsigned max);
