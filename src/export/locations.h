/* SPDX-License-Identifier: MIT */
/*
 * locations: frames as pprof and OTLP have them. A location is an address with the function there and those inlined
 * into it; functions and locations have numbers from 1 on, texts from 0 on, where 0 is "". What is new since a format
 * wrote the last ones is behind the number it remembers. One owner, one thread; zeroed but for locations_init().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "export/export.h"
#include "export/stack_table.h"

struct function {
	uint32_t name, file; /* texts */
};

struct place {
	uint32_t function; /* 0: unknown */
	uint32_t object, line;
	uint64_t address;
	bool inlined;
};

/* Frames from the innermost on, as links of a trie: what was before this one, and the frame. */
struct frame_group {
	uint32_t inner, frame;
	uint32_t location; /* 0: not the last of one */
};

struct locations {
	struct text_table texts;
	struct function *functions; /* heap; by number */
	struct place *frames;       /* heap; by number */
	struct frame_group *groups; /* heap; by number */
	uint32_t *locations;        /* heap; by number: the group whose last frame is that of the location */
	uint32_t nr_functions, nr_groups, nr_locations; /* greatest numbers */
	uint32_t functions_room, frames_room, groups_room, locations_room;
	struct hash_table by_function, by_group;
};

enum { LOCATION_FRAMES_MAX = 64, LOCATIONS_MAX = 1024 /* of a stack */ };

int locations_init(struct locations *locations); /* 0 or -ENOMEM */
void locations_fini(struct locations *locations);

int locations_add_frame(struct locations *locations, uint32_t number, const struct export_frame *frame);

/* The locations of a stack, innermost first; at most LOCATIONS_MAX. How many, or -ENOMEM. */
int locations_of_stack(struct locations *locations, const struct stack_table *stacks, uint32_t stack, uint32_t *ret);

/* The frames of a location, innermost first. How many. */
unsigned locations_frames(const struct locations *locations, uint32_t location,
			  const struct place *ret[LOCATION_FRAMES_MAX]);
