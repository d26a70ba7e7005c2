/* SPDX-License-Identifier: MIT */
/*
 * damage: finds the bytes among the records of a file from which no reader gets a record: of compressed extents whose
 * hash is wrong, or which cannot be decompressed, where records break off, up to the next extent, and of records that
 * have no room for what their event samples, or are of none.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_desc;
struct extent_list;

struct damage {
	uint64_t offset, bytes; /* in the file */
	uint64_t record_bytes;  /* of records that were in its extents, as far as those tell */
	uint64_t nr_samples;    /* that were in it, by the index; UINT64_MAX: not known */
	uint32_t part;          /* of the recording, as of extents */
	enum damage_flags {
		DAMAGE_HIDES_RECORDS = 1, /* who reads record by record does not get behind it */
		DAMAGE_IS_ZERO = 2,       /* all of it, up to the end: it was never written */
	} flags;
};

struct damage_list {
	struct damage *items; /* heap; ascending by offset within a part; no two touch */
	size_t nr, room;
};

void damage_list_fini(struct damage_list *list); /* zeroed is fine */

struct damage_range {
	int fd;
	uint64_t offset, bytes; /* of records */
	uint32_t part;
	/* The bytes are what the recorder made: else what breaks off at their end, or behind which is no extent, is not
	 * damage, but the end. */
	bool finished;
	bool may_be_cut;  /* but the file ends with them, and may have lost its end: that is no damage either */
	bool has_unknown; /* records of later versions are among them, which reach to the end */
	const struct extent_list *extents; /* by the index of the recording; may be empty */
	const struct event_desc *events;   /* of the recording; NULL: not known */
	size_t nr_events;
};

/* Adds what it finds to *ret. 0; -errno of reading; -ENOMEM. Nothing is found by a build that cannot decompress. */
int damage_find(const struct damage_range *range, struct damage_list *ret);
