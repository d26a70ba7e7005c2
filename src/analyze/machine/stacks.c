/* SPDX-License-Identifier: MIT */
#include "analyze/machine/stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

struct frame {
	struct location at;
	uint32_t name_hash;
};

struct link {
	uint32_t outer, frame;
};

struct stacks {
	struct frame *frames; /* [0] is not used */
	struct link *links;   /* likewise */
	uint32_t nr_frames, nr_links, frames_room, links_room;
	struct hash_table by_place, by_link; /* frames, by a hash; links, by both numbers */
	unsigned depth;
	bool by_address;
};

/* One of 2^31 frames or links is beyond any recording that fits in memory; numbers must not wrap. */
static const uint32_t max_elements = UINT32_MAX / 4;

struct stacks *stacks_new(void)
{
	struct stacks *stacks = calloc(1, sizeof(*stacks));

	if (stacks)
		stacks->nr_frames = stacks->nr_links = 1;
	return stacks;
}

void stacks_free(struct stacks *stacks)
{
	if (!stacks)
		return;
	free(stacks->frames);
	free(stacks->links);
	hash_table_fini(&stacks->by_place);
	hash_table_fini(&stacks->by_link);
	free(stacks);
}

void stacks_keep_addresses(struct stacks *stacks)
{
	stacks->by_address = true;
}

static uint32_t name_hash(const struct location *at)
{
	uint32_t hash = 1;

	if (!at->symbol)
		return (uint32_t)hash_mix(2, at->ip);
	for (const char *c = at->symbol->name; *c; c++)
		hash = hash * 31 + (unsigned char)*c;
	return hash;
}

static bool address_counts(const struct stacks *stacks, const struct location *at)
{
	return !at->symbol || stacks->by_address;
}

static uint64_t place_key(const struct stacks *stacks, const struct location *at)
{
	uint64_t key = hash_mix((uint64_t)at->level, (uintptr_t)at->dso);

	key = hash_mix(key, (uintptr_t)at->symbol);
	return address_counts(stacks, at) ? hash_mix(key, at->ip) : key;
}

static bool same_place(const struct stacks *stacks, const struct location *a, const struct location *b)
{
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
	*ret = stacks->nr_frames++;
	return 0;
}

static uint64_t link_key(uint32_t outer, uint32_t frame)
{
	return (uint64_t)outer << 32 | frame;
}

int stacks_push(struct stacks *stacks, uint32_t outer, uint32_t frame, uint32_t *ret)
{
	uint64_t key = link_key(outer, frame);

	*ret = (uint32_t)hash_table_find_number(&stacks->by_link, key);
	if (*ret)
		return 0;
	if (array_room_up_to(stacks->links, stacks->nr_links, stacks->links_room, max_elements) ||
	    hash_table_add_number(&stacks->by_link, key, stacks->nr_links))
		return -ENOMEM;
	stacks->links[stacks->nr_links] = (struct link){outer, frame};
	*ret = stacks->nr_links++;
	return 0;
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
	return stacks->links[chain].outer;
}

uint32_t stacks_frame(const struct stacks *stacks, uint32_t chain)
{
	return stacks->links[chain].frame;
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
	return stacks->nr_links;
}

int stacks_choose(const struct stacks *stacks, bool used[], struct stacks_choice *ret)
{
	uint32_t nr = 1;
	int err = 0;

	for (uint32_t i = stacks->nr_links; i-- > 1;) {
		used[stacks->links[i].outer] |= used[i];
		nr += used[i];
	}
	struct link *links = calloc(nr, sizeof(*links));
	*ret = (struct stacks_choice){.numbers = calloc(stacks->nr_links, sizeof(*ret->numbers)), .links = links};
	if (!ret->numbers || !links)
		err = -ENOMEM;
	ret->nr_links = 1;
	for (uint32_t i = 1; i < stacks->nr_links && !err; i++) {
		if (!used[i])
			continue;
		const struct link link = {ret->numbers[stacks->links[i].outer], stacks->links[i].frame};
		links[ret->nr_links] = link;
		err = hash_table_add_number(&ret->by_link, link_key(link.outer, link.frame), ret->nr_links);
		ret->numbers[i] = ret->nr_links++;
	}
	if (err)
		stacks_choice_fini(ret);
	return err;
}

void stacks_keep(struct stacks *stacks, struct stacks_choice *choice)
{
	free(stacks->links);
	hash_table_fini(&stacks->by_link);
	stacks->links = choice->links;
	stacks->nr_links = stacks->links_room = choice->nr_links;
	stacks->by_link = choice->by_link;
	choice->links = NULL;
	choice->by_link = (struct hash_table){0};
}

void stacks_choice_fini(struct stacks_choice *choice)
{
	free(choice->numbers);
	free(choice->links);
	hash_table_fini(&choice->by_link);
	*choice = (struct stacks_choice){0};
}

size_t stacks_bytes(const struct stacks *stacks)
{
	return stacks->frames_room * sizeof(*stacks->frames) + stacks->links_room * sizeof(*stacks->links) +
	       (stacks->by_place.nr_slots + stacks->by_link.nr_slots) * sizeof(struct hash_slot);
}
