/* SPDX-License-Identifier: MIT */
/*
 * unwind: call chains out of the registers and the piece of stack that a dwarf recording has in each sample, by the
 * unwind tables (.eh_frame) of the mapped objects. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct maps;
struct sample;
struct unwinder;

/* How the caller gets at the mapped objects; `object` is what its struct map has. */
struct unwind_objects {
	int (*open)(void *object,
		    void *ctx); /* a descriptor of the file that was mapped, to be closed by the unwinder; or -errno */
	void *ctx;
};

/* arch: the recorded machine's, as uname -m says it; NULL: this one's. NULL: out of memory. */
struct unwinder *unwinder_new(const struct unwind_objects *objects, const char *arch);
void unwinder_free(struct unwinder *unwinder); /* NULL is fine */

/* For tests, before the first sample: libdwfl makes every step. unwind_steps.c must give the same frames. */
void unwinder_use_library(struct unwinder *unwinder);

/*
 * The addresses of the user frames, innermost first; those of callers are one less than where they go on, so
 * that they lie in the call. At most `max`; returns how many. 0 when the sample has no registers or stack, or
 * it is not known how to unwind on that machine.
 */
unsigned unwind_sample(struct unwinder *unwinder, struct maps *maps, const struct sample *sample, uint64_t *ret_ips,
		       unsigned max);

/*
 * The caller of a function at `ip` that has not stored its return address: by the unwind tables, and the link
 * register of a sample that has no stack. Less one, as above. false: it has stored it, or there is no such
 * register.
 */
bool unwind_leaf_caller(struct unwinder *unwinder, struct maps *maps, const struct sample *sample, uint64_t ip,
			uint64_t *ret);
