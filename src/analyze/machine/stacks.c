/* SPDX-License-Identifier: MIT */
#include "analyze/machine/stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"

struct frame {
	struct location at;
	uint32_t name_hash;
};

struct link {
	uint32_t outer, frame;
};

/*
 * Most of what a recording with call chains needs: so the table has only numbers, by open addressing with linear
 * probing (compare base/hash_table.h, whose slots have four times as many bytes).
 */
struct stack_links {
	struct link *links; /* [0] is not used */
	uint32_t *slots;    /* numbers of links; 0: free */
	uint32_t nr, room;
	unsigned slot_bits;
};

struct stacks {
	struct frame *frames; /* [0] is not used */
	uint32_t nr_frames, frames_room;
	struct hash_table by_place; /* frames, by a hash */
	struct stack_links links;
	unsigned depth;
	bool by_address;
	bool any_pending;
};

enum { FIRST_SLOT_BITS = 8 };

/* One of 2^31 frames or links is beyond any recording that fits in memory; numbers must not wrap. */
static const uint32_t max_elements = UINT32_MAX / 4;

struct stacks *stacks_new(void)
{
	struct stacks *stacks = calloc(1, sizeof(*stacks));

	if (stacks)
		stacks->nr_frames = stacks->links.nr = 1;
	return stacks;
}

static void links_fini(struct stack_links *links)
{
	free(links->links);
	free(links->slots);
}

void stacks_free(struct stacks *stacks)
{
	if (!stacks)
		return;
	free(stacks->frames);
	links_fini(&stacks->links);
	hash_table_fini(&stacks->by_place);
	free(stacks);
}

void stacks_keep_addresses(struct stacks *stacks)
{
	stacks->by_address = true;
}

static uint32_t name_hash(const struct location *at)
{
	uint64_t hash = at->symbol ? hash_text(at->symbol->name) : hash_mix(2, at->ip);

	return (uint32_t)(hash >> 32);
}

static bool address_counts(const struct stacks *stacks, const struct location *at)
{
	return !at->symbol || stacks->by_address || at->nr_inlined == LOCATION_PENDING;
}

static uint64_t place_key(const struct stacks *stacks, const struct location *at)
{
	uint64_t key = hash_mix((uint64_t)at->level, (uintptr_t)at->dso);

	key = hash_mix(key, (uintptr_t)at->symbol);
	return address_counts(stacks, at) ? hash_mix(key, at->ip) : key;
}

static bool same_place(const struct stacks *stacks, const struct location *a, const struct location *b)
{
	const bool is_pending = a->nr_inlined == LOCATION_PENDING;

	if (is_pending != (b->nr_inlined == LOCATION_PENDING) || (is_pending && a->is_return != b->is_return))
		return false;
	return a->dso == b->dso && a->symbol == b->symbol && a->level == b->level &&
	       (!address_counts(stacks, a) ||
		(a->ip == b->ip && a->address == b->address && a->nr_inlined == b->nr_inlined));
}

int stacks_intern_frame(struct stacks *stacks, const struct location *at, uint32_t *ret)
{
	uint64_t key = place_key(stacks, at);

	for (struct hash_slot *slot = hash_table_find(&stacks->by_place, key); slot;
	     slot = hash_table_next(&stacks->by_place, slot)) {
		*ret = (uint32_t)slot->number;
		if (same_place(stacks, &stacks->frames[*ret].at, at))
			return 0;
	}
	if (array_room_up_to(stacks->frames, stacks->nr_frames, stacks->frames_room, max_elements) ||
	    hash_table_add_number(&stacks->by_place, key, stacks->nr_frames))
		return -ENOMEM;
	stacks->frames[stacks->nr_frames] = (struct frame){*at, name_hash(at)};
	stacks->any_pending |= at->nr_inlined == LOCATION_PENDING;
	*ret = stacks->nr_frames++;
	return 0;
}

/*
 * Where the search for a link begins: the upper bits, so that links have the same order in a larger table, which is
 * filled sequentially then. A recording may be made so that its chains have any links; it cannot know their hashes.
 */
static uint32_t link_place(const struct stack_links *links, struct link link)
{
	return (uint32_t)(hash_mix(link.outer, link.frame) >> (64 - links->slot_bits));
}

static uint32_t next_place(const struct stack_links *links, uint32_t at)
{
	return (at + 1) & ((UINT32_C(1) << links->slot_bits) - 1);
}

/* The slot of this link, or the free one where it belongs. */
static uint32_t *link_slot(const struct stack_links *links, struct link link)
{
	uint32_t at = link_place(links, link);

	while (links->slots[at]) {
		const struct link *its = &links->links[links->slots[at]];
		if (its->outer == link.outer && its->frame == link.frame)
			break;
		at = next_place(links, at);
	}
	return &links->slots[at];
}

/* Room for one more link. */
static int links_reserve(struct stack_links *links)
{
	const uint32_t nr_slots = links->slots ? UINT32_C(1) << links->slot_bits : 0;

	if (array_room_up_to(links->links, links->nr, links->room, max_elements))
		return -ENOMEM;
	if (links->nr < nr_slots / 8 * 5)
		return 0;
	struct stack_links grown = *links;
	grown.slot_bits = nr_slots ? links->slot_bits + 1 : FIRST_SLOT_BITS;
	grown.slots = calloc(UINT64_C(1) << grown.slot_bits, sizeof(*grown.slots));
	if (!grown.slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < nr_slots; i++) {
		if (!links->slots[i])
			continue;
		uint32_t at = link_place(&grown, links->links[links->slots[i]]);
		while (grown.slots[at])
			at = next_place(&grown, at);
		grown.slots[at] = links->slots[i];
	}
	free(links->slots);
	*links = grown;
	return 0;
}

static int links_push(struct stack_links *links, struct link link, uint32_t *ret)
{
	*ret = links->slots ? *link_slot(links, link) : 0;
	if (*ret)
		return 0;
	if (links_reserve(links))
		return -ENOMEM;
	*ret = links->nr++;
	links->links[*ret] = link;
	*link_slot(links, link) = *ret;
	return 0;
}

int stacks_push(struct stacks *stacks, uint32_t outer, uint32_t frame, uint32_t *ret)
{
	return links_push(&stacks->links, (struct link){outer, frame}, ret);
}

void stacks_note_depth(struct stacks *stacks, unsigned nr)
{
	if (stacks->depth < nr)
		stacks->depth = nr;
}

int stacks_intern(struct stacks *stacks, const struct location frames[], unsigned nr, uint32_t *ret_chain)
{
	uint32_t chain = 0, frame;

	for (unsigned i = nr; i-- > 0;) {
		int err = stacks_intern_frame(stacks, &frames[i], &frame);
		if (!err)
			err = stacks_push(stacks, chain, frame, &chain);
		if (err)
			return err;
	}
	stacks_note_depth(stacks, nr);
	*ret_chain = chain;
	return 0;
}

uint32_t stacks_outer(const struct stacks *stacks, uint32_t chain)
{
	return stacks->links.links[chain].outer;
}

uint32_t stacks_frame(const struct stacks *stacks, uint32_t chain)
{
	return stacks->links.links[chain].frame;
}

uint32_t stacks_frames(const struct stacks *stacks, uint32_t chain, uint32_t ret[], uint32_t max)
{
	const struct link *links = stacks->links.links;
	uint32_t nr = 0;

	for (; chain && nr < max; chain = links[chain].outer)
		ret[nr++] = links[chain].frame;
	return nr;
}

const struct location *stacks_location(const struct stacks *stacks, uint32_t frame)
{
	return &stacks->frames[frame].at;
}

uint32_t stacks_end_frame(const struct stacks *stacks)
{
	return stacks->nr_frames;
}

uint32_t stacks_frame_hash(const struct stacks *stacks, uint32_t frame)
{
	return stacks->frames[frame].name_hash;
}

unsigned stacks_depth(const struct stacks *stacks)
{
	return stacks->depth;
}

uint32_t stacks_end_chain(const struct stacks *stacks)
{
	return stacks->links.nr;
}

int stacks_choose(const struct stacks *stacks, bool used[], struct stacks_choice *ret)
{
	const struct link *links = stacks->links.links;
	const uint32_t nr = stacks->links.nr;

	*ret = (struct stacks_choice){.numbers = calloc(nr, sizeof(*ret->numbers)),
				      .links = calloc(1, sizeof(*ret->links))};
	int err = ret->numbers && ret->links ? 0 : -ENOMEM;
	if (!err)
		ret->links->nr = 1;
	for (uint32_t i = nr; i-- > 1;)
		used[links[i].outer] |= used[i];
	for (uint32_t i = 1; i < nr && !err; i++)
		if (used[i])
			err = links_push(ret->links, (struct link){ret->numbers[links[i].outer], links[i].frame},
					 &ret->numbers[i]);
	if (err)
		stacks_choice_fini(ret);
	return err;
}

void stacks_keep(struct stacks *stacks, struct stacks_choice *choice)
{
	struct stack_links before = stacks->links;

	stacks->links = *choice->links;
	*choice->links = before;
}

void stacks_choice_fini(struct stacks_choice *choice)
{
	if (choice->links)
		links_fini(choice->links);
	free(choice->links);
	free(choice->numbers);
	*choice = (struct stacks_choice){0};
}

/* The frames that a frame becomes. */
struct expanded {
	uint32_t first, nr; /* in expansion.frames; nr 0: not yet */
};

struct expansion {
	struct stacks *stacks;
	stacks_expander *expand;
	void *ctx;
	struct expanded *of; /* [by frame] */
	uint32_t *frames;    /* of all of them, innermost first */
	uint32_t nr, room;
	struct location at[CHAIN_MOST_FRAMES];
};

static void expansion_free(struct expansion **expansion)
{
	if (*expansion) {
		free((*expansion)->of);
		free((*expansion)->frames);
	}
	free(*expansion);
}

/* Outer ones get their numbers first, as where chains are made of them. 0 or -ENOMEM. */
static int expand_frame(struct expansion *expansion, uint32_t frame)
{
	struct expanded *expanded = &expansion->of[frame];
	struct location at = expansion->stacks->frames[frame].at;
	unsigned nr = 1;

	if (expanded->nr)
		return 0;
	if (at.nr_inlined == LOCATION_PENDING) {
		at.nr_inlined = 0;
		nr = expansion->expand(expansion->ctx, &at, expansion->at, CHAIN_MOST_FRAMES);
	} else {
		expansion->at[0] = at;
	}
	const uint32_t first = expansion->nr;
	for (unsigned i = 0; i < nr; i++, expansion->nr++)
		if (array_room_up_to(expansion->frames, expansion->nr, expansion->room, max_elements))
			return -ENOMEM;
	for (unsigned i = nr; i-- > 0;)
		if (stacks_intern_frame(expansion->stacks, &expansion->at[i], &expansion->frames[first + i]))
			return -ENOMEM;
	*expanded = (struct expanded){first, nr};
	return 0;
}

/* depths: of the chains, by their old numbers. 0 or -ENOMEM. */
static int expand_links(struct expansion *expansion, struct stack_links *to, uint32_t numbers[], uint32_t depths[])
{
	struct stacks *stacks = expansion->stacks;

	for (uint32_t i = 1; i < stacks->links.nr; i++) {
		const struct link link = stacks->links.links[i];
		uint32_t chain = numbers[link.outer];
		if (expand_frame(expansion, link.frame))
			return -ENOMEM;
		const struct expanded expanded = expansion->of[link.frame];
		for (uint32_t k = expanded.nr; k-- > 0;)
			if (links_push(to, (struct link){chain, expansion->frames[expanded.first + k]}, &chain))
				return -ENOMEM;
		numbers[i] = chain;
		depths[i] = depths[link.outer] + expanded.nr;
		stacks_note_depth(stacks, depths[i]);
	}
	return 0;
}

int stacks_expand(struct stacks *stacks, stacks_expander *expand, void *ctx, uint32_t **ret_numbers)
{
	__attribute__((cleanup(expansion_free))) struct expansion *expansion = NULL;
	AUTO_FREE uint32_t *numbers = NULL, *depths = NULL;
	struct stack_links links = {.nr = 1};

	*ret_numbers = NULL;
	if (!stacks->any_pending)
		return 0;
	expansion = calloc(1, sizeof(*expansion));
	numbers = calloc(stacks->links.nr, sizeof(*numbers));
	depths = calloc(stacks->links.nr, sizeof(*depths));
	if (!expansion || !numbers || !depths)
		return -ENOMEM;
	expansion->stacks = stacks;
	expansion->expand = expand;
	expansion->ctx = ctx;
	expansion->of = calloc(stacks->nr_frames, sizeof(*expansion->of));
	int err = expansion->of ? expand_links(expansion, &links, numbers, depths) : -ENOMEM;
	if (err) {
		links_fini(&links);
		return err;
	}
	links_fini(&stacks->links);
	stacks->links = links;
	stacks->any_pending = false;
	*ret_numbers = take_ptr(numbers);
	return 0;
}

size_t stacks_bytes(const struct stacks *stacks)
{
	const struct stack_links *links = &stacks->links;

	return stacks->frames_room * sizeof(*stacks->frames) + links->room * sizeof(*links->links) +
	       (links->slots ? sizeof(*links->slots) << links->slot_bits : 0) +
	       stacks->by_place.nr_slots * sizeof(struct hash_slot);
}
