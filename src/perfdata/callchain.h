/* SPDX-License-Identifier: MIT */
/*
 * callchain: rewrites samples with registers and a copy of the stack as samples with a call chain, after the stack was
 * unwound; and rewrites the attr of their event. Pure: memory in, memory out.
 *
 * Each caller is stored as its return address minus 1, so that a reader that looks up the address finds the function
 * and line of the call, not what follows it. perf ("inject --convert-callchain") and simpleperf write the same.
 */
#pragma once

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perfdata/sample.h"

enum { CALLCHAIN_FRAMES = 127 }; /* frames of a chain by default: perf reads no more */

/* Whether samples of the event hold what chains are unwound from. */
bool callchain_is_dump(const struct perf_event_attr *attr);

/*
 * Changes the attr to that of the samples that callchain_convert() makes: with CALLCHAIN of kernel and user, without
 * user registers and stack. max_stack: stored in sample_max_stack for readers; 0: CALLCHAIN_FRAMES.
 */
void callchain_convert_attr(struct perf_event_attr *attr, unsigned max_stack);

/* The number of frames of a chain that a reader uses: as many as perf, or more if the recording was made with more. */
unsigned callchain_max_frames(const struct perf_event_attr *attr);

/* What of the chain in a sample stays in front of the user part: words with the markers, and the frames among them. */
struct callchain_kept {
	uint64_t nr_words;
	unsigned nr_frames;
};

/* The kernel's part, of which not more than `most` frames; they leave most - nr_frames to the user part. */
struct callchain_kept callchain_kernel_part(const struct sample *sample, unsigned most);

/* The user frames of a sample. */
struct callchain {
	const uint64_t *ips; /* innermost first; callers are return addresses minus 1 */
	unsigned nr;         /* 0: unknown; then the user part that the recorded chain has is kept */
	/* limit for the whole chain, kernel frames included; the outermost frames beyond it are left out */
	unsigned most;
	struct callchain_kept kernel; /* callchain_kernel_part() with that limit; does not count where nr is 0 */
};

/*
 * Changes the SAMPLE in place: the user part of its chain becomes `user`, user registers and stack are removed, all
 * other fields are kept. `attr`: as when the record was made; callchain_is_dump() is true for it. `sample`: what
 * sample_decode() has read from this record; it is invalid afterwards. The record never becomes longer: the outermost
 * frames that do not fit are left out (a valid chain has no more frames than its stack has words). Returns the new size
 * of the record, and sets header.size to it.
 */
size_t callchain_convert(const struct perf_event_attr *attr, struct perf_event_header *record,
			 const struct sample *sample, const struct callchain *user);

/*
 * Likewise, into `to`, which has room for the record and is 8-aligned; the record stays as it is, and the sample valid.
 */
size_t callchain_convert_copy(const struct perf_event_attr *attr, const struct perf_event_header *record,
			      const struct sample *sample, const struct callchain *user, uint8_t *to);
