/* SPDX-License-Identifier: MIT */
#include "unwind/last_chain.h"

bool meeting_is_valid(struct meeting *meeting, const struct frame *frame, uint64_t address_bits)
{
	const struct last_frame *frames = meeting->last->frames;
	size_t nr = meeting->nr;

	while (nr > 1 &&
	       last_frame_leads_to(&frames[nr - 1], frames[nr - 2].pc, frames[nr - 2].fp, frame, address_bits))
		nr--;
	if (!nr || (nr == 1 && last_frame_leads_to(&frames[0], 0, 0, frame, address_bits)))
		return true;
	meeting->nr = nr - 1;
	return false;
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
