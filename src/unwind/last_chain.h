/* SPDX-License-Identifier: MIT */
/*
 * last_chain: the frames of the last whole chain of a thread. Most of the outer ones are also those of its next sample,
 * and to see that takes two comparisons for each instead of a rule: the new chain has come to a frame of the last one,
 * with the same program counter, stack pointer and, where it counts, frame pointer; and the stack still has what led
 * from there to the end. Where the innermost frame has the same rule as the last one the same is true from there on.
 * Private to unwind.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/frame.h"

struct unwind_rule;

enum { LAST_CHAIN_FRAMES = 120, NR_LAST_CHAINS = 64 /* a power of two */ };

/* A caller with a rule for which no other register counts. */
struct last_frame {
	uint64_t pc, sp, fp; /* fp: 0 if it is not known */
	uint64_t ra_at; /* the stack has the pc of the next outer frame there, 0 behind the outermost; 0: nowhere */
	uint64_t fp_at; /* and there its fp; 0: nowhere, or that does not count */
	bool uses_fp;   /* fp counts here, or for a frame further out */
	bool keeps_fp;  /* the next outer frame has the same */
};

struct last_chain {
	uint64_t thread, generation;              /* of the maps that it was made with. thread 0: empty */
	const struct unwind_rule *innermost_rule; /* NULL: the innermost frame cannot be met */
	struct last_frame innermost;              /* its pc does not count: the rule does */
	size_t nr_outer;                          /* how many of `frames` are its callers */
	size_t nr;
	struct last_frame frames[LAST_CHAIN_FRAMES]; /* the outermost first */
};

/* The frames of a chain that is being made, from the one on behind which all rules are of that kind. */
struct new_frames {
	const struct unwind_rule *innermost_rule; /* as of a last chain; NULL also if not all of its callers are here */
	struct last_frame innermost;
	size_t nr;
	bool too_many;
	struct last_frame frames[LAST_CHAIN_FRAMES]; /* the innermost first */
};

/* A chain that may meet the last one of its thread. */
struct meeting {
	struct last_chain *last;
	size_t nr; /* how many frames of it may still be met */
};

/* The last chain of the thread; if that was made with other maps it has no frames. */
static inline struct last_chain *last_chain_of(struct last_chain chains[NR_LAST_CHAINS], uint64_t thread,
					       uint64_t generation)
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

/*
 * Whether the stack still has what led from the frame to its caller, which has this pc and, where that counts, this fp;
 * pc 0: it is the outermost.
 */
static inline bool last_frame_leads_to(const struct last_frame *last, uint64_t pc, uint64_t fp,
				       const struct frame *frame, uint64_t address_bits)
{
	uint64_t word;

	return (!last->ra_at || (frame_load(frame, last->ra_at, &word) && (word & address_bits) == pc)) &&
	       (!last->fp_at || (frame_load(frame, last->fp_at, &word) && word == fp));
}

/* Whether the next frame of it leads to the end as it did. If not, those that lead to what has changed are left out. */
bool meeting_is_valid(struct meeting *meeting, const struct frame *frame, uint64_t address_bits);

/* Whether the frame, a caller, is one of the last chain, and all behind it are, too: meeting->nr then. */
static inline bool meeting_is_at(struct meeting *meeting, const struct frame *frame, const struct unwind_arch *arch)
{
	const struct last_frame *frames = meeting->last->frames;
	const uint64_t sp = frame->registers[arch->sp];
	uint64_t fp;

	while (meeting->nr && frames[meeting->nr - 1].sp < sp)
		meeting->nr--;
	if (!meeting->nr || frames[meeting->nr - 1].sp != sp)
		return false;
	const struct last_frame *next = &frames[meeting->nr - 1];
	return next->pc == frame->pc && frame->low == sp &&
	       (!next->uses_fp || (frame_register(frame, arch->fp, &fp) && fp == next->fp)) &&
	       meeting_is_valid(meeting, frame, arch->address_bits);
}

/*
 * Whether the innermost frame, with this rule, leads to the end as that of the last chain did: *ret is at its callers
 * then. Of `frame` only the stack counts.
 */
static inline bool meeting_at_innermost(struct last_chain *last, const struct unwind_rule *rule,
					const struct frame *frame, uint64_t sp, uint64_t fp, uint64_t address_bits,
					struct meeting *ret)
{
	const struct last_frame *innermost = &last->innermost;
	const size_t nr = last->nr_outer;
	const struct last_frame *caller = nr ? &last->frames[nr - 1] : NULL;

	*ret = (struct meeting){last, nr};
	return rule == last->innermost_rule && sp == innermost->sp && (!innermost->uses_fp || fp == innermost->fp) &&
	       last_frame_leads_to(innermost, caller ? caller->pc : 0, caller ? caller->fp : 0, frame, address_bits) &&
	       meeting_is_valid(ret, frame, address_bits);
}

/* The chain is whole: its new frames, and those of the last one that it has met, are the last chain now. */
void meeting_end(struct meeting *meeting, const struct new_frames *new);
