/* SPDX-License-Identifier: MIT */
/* reindex: the index of extents of a whole recording, made by reading its records. */
#pragma once

#include <stddef.h>

#include "format/event_desc.h"
#include "format/layout.h"

struct hits_region;

struct reindex_params {
	int fd; /* of the (main) file; borrowed */
	struct file_header header;
	const struct event_desc *events;
	size_t nr_events;
	const struct hits_region *parts; /* of a directory */
	size_t nr_parts;
};

/* Replaces it, or adds it, and leaves all else as it was. 0, or -errno; -EBADMSG: records or features are damaged. */
int reindex(const struct reindex_params *params, size_t *ret_nr);
