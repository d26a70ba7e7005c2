/* SPDX-License-Identifier: MIT */
#include "unwind/last_chain.h"

struct last_chain *last_chain_of(struct last_chain chains[NR_LAST_CHAINS], uint64_t thread, uint64_t generation)
{
	struct last_chain *last = &chains[thread * 0x9e3779b97f4a7c15ull >> 32 & (NR_LAST_CHAINS - 1)];

	if (last->thread != thread || last->generation != generation) {
		last->thread = thread;
		last->generation = generation;
		last->nr = 0;
		last->innermost_rule = NULL;
	}
	return last;
}

/* Whether the stack still has what led from a frame to its caller; NULL: it is the outermost. */
static inline bool leads_to(const struct last_frame *last, const struct last_frame *caller, const struct frame *frame,
			    uint64_t address_bits)
{
	const uint64_t pc = caller ? caller->pc : 0;
	uint64_t word;

	return (!last->ra_at || (frame_load(frame, last->ra_at, &word) && (word & address_bits) == pc)) &&
	       (!last->fp_at || (frame_load(frame, last->fp_at, &word) && word == caller->fp));
}

bool meeting_is_valid(struct meeting *meeting, const struct frame *frame, uint64_t address_bits)
{
	const struct last_frame *frames = meeting->last->frames;

	for (size_t i = meeting->nr; i-- > 0;) {
		if (leads_to(&frames[i], i ? &frames[i - 1] : NULL, frame, address_bits))
			continue;
		meeting->nr = i;
		return false;
	}
	return true;
}

bool meeting_at_innermost(struct last_chain *last, const struct unwind_rule *rule, const struct frame *frame,
			  uint64_t sp, uint64_t fp, uint64_t address_bits, struct meeting *ret)
{
	const struct last_frame *innermost = &last->innermost;

	*ret = (struct meeting){last, last->nr_outer};
	return rule == last->innermost_rule && sp == innermost->sp && (!innermost->uses_fp || fp == innermost->fp) &&
	       leads_to(innermost, ret->nr ? &last->frames[ret->nr - 1] : NULL, frame, address_bits) &&
	       meeting_is_valid(ret, frame, address_bits);
}

/* What of a frame counts for those further out, if its caller's fp does. Whether its own does. */
static bool keep_fp(struct last_frame *frame, bool fp_counts)
{
	if (!fp_counts)
		frame->fp_at = 0;
	return frame->uses_fp |= fp_counts && frame->keeps_fp;
}

void meeting_end(struct meeting *meeting, const struct new_frames *new)
{
	struct last_chain *last = meeting->last;
	bool fp_counts = meeting->nr && last->frames[meeting->nr - 1].uses_fp;

	last->innermost_rule = NULL;
	if (new->too_many || meeting->nr + new->nr > LAST_CHAIN_FRAMES)
		return;
	if (new->nr) /* else those inside of what it has met may be met again */
		last->nr = meeting->nr;
	for (size_t i = new->nr; i-- > 0;) {
		struct last_frame *frame = &last->frames[last->nr++];
		*frame = new->frames[i];
		fp_counts = keep_fp(frame, fp_counts);
	}
	last->innermost_rule = new->innermost_rule;
	if (!new->innermost_rule)
		return;
	last->innermost = new->innermost;
	last->nr_outer = meeting->nr + new->nr;
	keep_fp(&last->innermost, fp_counts);
}
