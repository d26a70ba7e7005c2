/* SPDX-License-Identifier: MIT */
#include "unwind/last_chain.h"

struct meeting meeting_begin(struct last_chain chains[NR_LAST_CHAINS], uint64_t thread, uint64_t generation)
{
	struct last_chain *last = &chains[thread * 0x9e3779b97f4a7c15ull >> 32 & (NR_LAST_CHAINS - 1)];

	if (last->thread != thread || last->generation != generation) {
		last->thread = thread;
		last->generation = generation;
		last->nr = 0;
	}
	return (struct meeting){last, last->nr};
}

bool meeting_is_valid(struct meeting *meeting, const struct frame *frame, uint64_t address_bits)
{
	const struct last_frame *frames = meeting->last->frames;

	for (size_t i = meeting->nr; i-- > 0;) {
		const struct last_frame *each = &frames[i];
		const uint64_t pc = i ? frames[i - 1].pc : 0;
		uint64_t word;
		if ((!each->ra_at || (frame_load(frame, each->ra_at, &word) && (word & address_bits) == pc)) &&
		    (!each->fp_at || (frame_load(frame, each->fp_at, &word) && word == frames[i - 1].fp)))
			continue;
		meeting->nr = i;
		return false;
	}
	return true;
}

void meeting_end(struct meeting *meeting, const struct new_frames *new)
{
	struct last_chain *last = meeting->last;

	/* Without new ones those inside of what it has met may be met again. */
	if (!new->nr || new->too_many || meeting->nr + new->nr > LAST_CHAIN_FRAMES)
		return;
	bool fp_counts = meeting->nr && last->frames[meeting->nr - 1].uses_fp;
	last->nr = meeting->nr;
	for (size_t i = new->nr; i-- > 0;) {
		struct last_frame *frame = &last->frames[last->nr++];
		*frame = new->frames[i];
		if (!fp_counts)
			frame->fp_at = 0;
		fp_counts = frame->uses_fp |= fp_counts && frame->keeps_fp;
	}
}
