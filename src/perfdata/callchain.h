/* SPDX-License-Identifier: MIT */
/*
 * callchain: samples that hold registers and a copy of the stack, rewritten as samples with a plain call chain, once
 * the stack was unwound; and the attr of their event. Pure: memory in, memory out.
 *
 * Readers look up callers at the address in the chain, and the call stands in front of its return address: addresses of
 * callers are stored less one, as every reader that unwinds does by itself. perf ("inject --convert-callchain") and
 * simpleperf write the same.
 */
#pragma once

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perfdata/sample.h"

enum { CALLCHAIN_FRAMES = 127 }; /* of one chain, when nothing else is asked for: perf reads no more */

/* Whether samples of the event hold what chains are unwound from. */
bool callchain_is_dump(const struct perf_event_attr *attr);

/*
 * The attr of what callchain_convert() makes: with CALLCHAIN of kernel and user, without registers and stack.
 * max_stack: frames that were asked for, which readers find there; 0: as many as perf reads.
 */
void callchain_convert_attr(struct perf_event_attr *attr, unsigned max_stack);

/* Frames of a chain that are read: as perf does, unless the recording was made with more. */
unsigned callchain_max_frames(const struct perf_event_attr *attr);

/* The user frames of a sample. */
struct callchain {
	const uint64_t *ips; /* innermost first; of callers less one */
	unsigned nr;         /* 0: unknown. What the sample had of the user before stays then */
	unsigned most;       /* frames of the whole chain, the kernel's among them; those farthest out are left out */
};

/*
 * Changes the SAMPLE in place: the user part of its chain becomes `user`, registers and stack go, all other fields
 * stay. `attr` is as the record was made, callchain_is_dump(); `sample` what sample_decode() has read of this very
 * record, and invalid afterwards. The record never becomes longer: of what would not fit the outermost frames are left
 * out (no sound chain has more frames than its stack has words). Returns its size, which is in its header, too.
 */
size_t callchain_convert(const struct perf_event_attr *attr, struct perf_event_header *record,
			 const struct sample *sample, const struct callchain *user);
