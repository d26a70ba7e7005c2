/* SPDX-License-Identifier: MIT */
#include "export/locations.h"

#include <errno.h>
#include <stdlib.h>

int locations_init(struct locations *locations)
{
	uint32_t empty;

	return text_table_add(&locations->texts, "", &empty) < 0 ? -ENOMEM : 0;
}

void locations_fini(struct locations *locations)
{
	text_table_fini(&locations->texts);
	hash_table_fini(&locations->by_function);
	hash_table_fini(&locations->by_group);
	free(locations->functions);
	free(locations->frames);
	free(locations->groups);
	free(locations->locations);
	*locations = (struct locations){0};
}

/* 0: out of memory. */
static uint32_t find_function(struct locations *locations, struct function function)
{
	uint64_t key = (uint64_t)function.name << 32 | function.file;
	uint32_t number = (uint32_t)hash_table_find_number(&locations->by_function, key);

	if (number)
		return number;
	number = locations->nr_functions + 1;
	if (table_make_room((void **)&locations->functions, sizeof(function), number, &locations->functions_room) ||
	    hash_table_add_number(&locations->by_function, key, number))
		return 0;
	locations->functions[number] = function;
	return locations->nr_functions = number;
}

int locations_add_frame(struct locations *locations, uint32_t number, const struct export_frame *frame)
{
	struct place place = {
		.object = frame->object,
		.line = frame->line,
		.address = frame->address,
		.inlined = frame->inlined,
	};
	struct function function = {0};

	if (frame->function) {
		if (text_table_add(&locations->texts, frame->function, &function.name) < 0 ||
		    text_table_add(&locations->texts, frame->file, &function.file) < 0)
			return -ENOMEM;
		place.function = find_function(locations, function);
		if (!place.function)
			return -ENOMEM;
	}
	if (table_make_room((void **)&locations->frames, sizeof(place), number, &locations->frames_room))
		return -ENOMEM;
	locations->frames[number] = place;
	return 0;
}

/* The group of `inner` and this frame. 0: out of memory. */
static uint32_t find_group(struct locations *locations, uint32_t inner, uint32_t frame)
{
	uint64_t key = (uint64_t)inner << 32 | frame;
	uint32_t number = (uint32_t)hash_table_find_number(&locations->by_group, key);

	if (number)
		return number;
	number = locations->nr_groups + 1;
	if (table_make_room((void **)&locations->groups, sizeof(*locations->groups), number, &locations->groups_room) ||
	    hash_table_add_number(&locations->by_group, key, number))
		return 0;
	locations->groups[number] = (struct frame_group){inner, frame, 0};
	return locations->nr_groups = number;
}

/* The number of the location that ends with this group. 0: out of memory. */
static uint32_t find_location(struct locations *locations, uint32_t group)
{
	uint32_t number = locations->groups[group].location;

	if (number)
		return number;
	number = locations->nr_locations + 1;
	if (table_make_room((void **)&locations->locations, sizeof(uint32_t), number, &locations->locations_room))
		return 0;
	locations->locations[number] = group;
	locations->groups[group].location = number;
	return locations->nr_locations = number;
}

int locations_of_stack(struct locations *locations, const struct stack_table *stacks, uint32_t stack, uint32_t *ret)
{
	uint32_t group = 0, at = stack;
	unsigned depth = 0;
	int nr = 0;

	while (at && nr < LOCATIONS_MAX) {
		const struct stack_link *link = &stacks->links[at];
		group = find_group(locations, group, link->frame);
		if (!group)
			return -ENOMEM;
		at = link->outer;
		/* The function that an inlined one is in comes next, at the same address. */
		if (locations->frames[link->frame].inlined && at && ++depth < LOCATION_FRAMES_MAX)
			continue;
		ret[nr] = find_location(locations, group);
		if (!ret[nr++])
			return -ENOMEM;
		group = depth = 0;
	}
	return nr;
}

unsigned locations_frames(const struct locations *locations, uint32_t location,
			  const struct place *ret[LOCATION_FRAMES_MAX])
{
	unsigned nr = 0;

	for (uint32_t group = locations->locations[location]; group && nr < LOCATION_FRAMES_MAX;
	     group = locations->groups[group].inner)
		ret[nr++] = &locations->frames[locations->groups[group].frame];
	for (unsigned i = 0; i < nr / 2; i++) {
		const struct place *swap = ret[i];
		ret[i] = ret[nr - 1 - i];
		ret[nr - 1 - i] = swap;
	}
	return nr;
}
