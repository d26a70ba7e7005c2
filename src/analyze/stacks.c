/* SPDX-License-Identifier: MIT */
#include "analyze/stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of elements in open addressing: a power of two, at most half full; 0 is an empty slot. */
struct index {
	uint32_t *slots;
	uint32_t nr_slots;
};

struct frame {
	struct location at;
	uint32_t hash, name_hash;
};

struct link {
	uint32_t outer, frame;
};

struct stacks {
	struct frame *frames; /* [0] is not used */
	struct link *links;   /* likewise */
	uint32_t nr_frames, nr_links, frames_room, links_room;
	struct index by_place, by_link;
	unsigned depth;
	bool by_address;
};

enum { FIRST_ROOM = 256 };

/* One of 2^31 frames or links is beyond any recording that fits in memory; numbers must not wrap. */
static const uint32_t max_elements = UINT32_MAX / 4;

static uint32_t mix(uint64_t hash, uint64_t value)
{
	value = (value ^ hash ^ hash << 32) * 0x9e3779b97f4a7c15ull;
	return (uint32_t)(value >> 32) ^ (uint32_t)value;
}

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
	free(stacks->by_place.slots);
	free(stacks->by_link.slots);
	free(stacks);
}

void stacks_tell_addresses(struct stacks *stacks)
{
	stacks->by_address = true;
}

/* Room for one more element of an array, whose index then has more than twice the slots. */
static int make_room(void **array, size_t element_bytes, uint32_t nr, uint32_t *room)
{
	if (nr < *room)
		return 0;
	uint32_t more = *room ? *room * 2 : FIRST_ROOM;
	void *grown = more <= max_elements ? reallocarray(*array, more, element_bytes) : NULL;
	if (!grown)
		return -ENOMEM;
	*array = grown;
	*room = more;
	return 0;
}

static int index_resize(struct index *index, uint32_t nr_slots, uint32_t nr, uint32_t (*hash_of)(const struct stacks *, uint32_t),
			const struct stacks *stacks)
{
	uint32_t *slots = calloc(nr_slots, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (uint32_t i = 1; i < nr; i++) {
		uint32_t at = hash_of(stacks, i) & (nr_slots - 1);
		while (slots[at])
			at = (at + 1) & (nr_slots - 1);
		slots[at] = i;
	}
	free(index->slots);
	*index = (struct index){slots, nr_slots};
	return 0;
}

static uint32_t name_hash(const struct location *at)
{
	uint32_t hash = 1;

	if (!at->symbol)
		return mix(2, at->ip);
	for (const char *c = at->symbol->name; *c; c++)
		hash = hash * 31 + (unsigned char)*c;
	return hash;
}

static bool address_counts(const struct stacks *stacks, const struct location *at)
{
	return !at->symbol || stacks->by_address;
}

static uint32_t place_hash(const struct stacks *stacks, const struct location *at)
{
	uint32_t hash = mix((uint32_t)at->level, (uintptr_t)at->dso);

	hash = mix(hash, (uintptr_t)at->symbol);
	return address_counts(stacks, at) ? mix(hash, at->ip) : hash;
}

static bool same_place(const struct stacks *stacks, const struct location *a, const struct location *b)
{
	return a->dso == b->dso && a->symbol == b->symbol && a->level == b->level &&
	       (!address_counts(stacks, a) || (a->ip == b->ip && a->address == b->address));
}

static uint32_t hash_of_frame(const struct stacks *stacks, uint32_t frame)
{
	return stacks->frames[frame].hash;
}

static int intern_frame(struct stacks *stacks, const struct location *at, uint32_t *ret)
{
	struct index *index = &stacks->by_place;
	uint32_t hash = place_hash(stacks, at);
	uint32_t room = stacks->frames_room;
	int err = make_room((void **)&stacks->frames, sizeof(*stacks->frames), stacks->nr_frames, &room);

	if (!err && room != stacks->frames_room)
		err = index_resize(index, room * 2, stacks->nr_frames, hash_of_frame, stacks);
	if (err)
		return err;
	stacks->frames_room = room;
	uint32_t slot = hash & (index->nr_slots - 1);
	for (; index->slots[slot]; slot = (slot + 1) & (index->nr_slots - 1)) {
		const struct frame *frame = &stacks->frames[index->slots[slot]];
		if (frame->hash == hash && same_place(stacks, &frame->at, at)) {
			*ret = index->slots[slot];
			return 0;
		}
	}
	stacks->frames[stacks->nr_frames] = (struct frame){*at, hash, name_hash(at)};
	*ret = index->slots[slot] = stacks->nr_frames++;
	return 0;
}

static uint32_t link_hash(uint32_t outer, uint32_t frame)
{
	return mix(frame, outer);
}

static uint32_t hash_of_link(const struct stacks *stacks, uint32_t link)
{
	return link_hash(stacks->links[link].outer, stacks->links[link].frame);
}

static int intern_link(struct stacks *stacks, uint32_t outer, uint32_t frame, uint32_t *ret)
{
	struct index *index = &stacks->by_link;
	uint32_t room = stacks->links_room;
	int err = make_room((void **)&stacks->links, sizeof(*stacks->links), stacks->nr_links, &room);

	if (!err && room != stacks->links_room)
		err = index_resize(index, room * 2, stacks->nr_links, hash_of_link, stacks);
	if (err)
		return err;
	stacks->links_room = room;
	uint32_t slot = link_hash(outer, frame) & (index->nr_slots - 1);
	for (; index->slots[slot]; slot = (slot + 1) & (index->nr_slots - 1)) {
		const struct link *link = &stacks->links[index->slots[slot]];
		if (link->outer == outer && link->frame == frame) {
			*ret = index->slots[slot];
			return 0;
		}
	}
	stacks->links[stacks->nr_links] = (struct link){outer, frame};
	*ret = index->slots[slot] = stacks->nr_links++;
	return 0;
}

int stacks_intern(struct stacks *stacks, const struct location frames[], unsigned nr, uint32_t *ret_chain)
{
	uint32_t chain = 0, frame;

	for (unsigned i = nr; i-- > 0;) {
		int err = intern_frame(stacks, &frames[i], &frame);
		if (!err)
			err = intern_link(stacks, chain, frame, &chain);
		if (err)
			return err;
	}
	if (stacks->depth < nr)
		stacks->depth = nr;
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

uint32_t stacks_frame_hash(const struct stacks *stacks, uint32_t frame)
{
	return stacks->frames[frame].name_hash;
}

unsigned stacks_depth(const struct stacks *stacks)
{
	return stacks->depth;
}
