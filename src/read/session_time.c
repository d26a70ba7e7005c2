/* SPDX-License-Identifier: MIT */
/* Samples of a part of the recording only: what the index of extents says holds none of them is not even read. */
#include <errno.h>
#include <stdlib.h>

#include "pack/extent_index.h"
#include "read/session_state.h"

/* Samples within need what is told of the world before them, never what comes later. */
static bool is_needed(const struct extent_fields *fields, const struct session_times *times)
{
	if (fields->first_ns > times->last_ns)
		return false;
	return fields->nr_world || fields->last_ns >= times->first_ns;
}

struct skip_list {
	struct source_skip *skips; /* heap */
	size_t nr;
};

static int list_skips(const struct session *session, uint32_t part, struct skip_list *ret)
{
	struct extent_reader reader;
	struct extent_fields fields;
	struct span payload, counts;
	struct skip_list list = {0};

	if (!session_feature(session, FEATURE_EXTENT_INDEX, &payload) || extent_reader_open(payload, &reader))
		return 0;
	list.skips = calloc(payload.len / sizeof(fields) + 1, sizeof(*list.skips));
	if (!list.skips)
		return -ENOMEM;
	/* Of an index that is not whole what there is serves, too. */
	while (extent_reader_next(&reader, &fields, &counts) == 1)
		if (fields.part == part && !is_needed(&fields, &session->times))
			list.skips[list.nr++] = (struct source_skip){fields.offset, fields.packed_bytes};
	*ret = list;
	return 0;
}

/* data.N, as the index counts; 0: the name says nothing of the kind. */
static uint32_t part_of(const char *name)
{
	char *end;
	unsigned long number = strtoul(name + sizeof("data.") - 1, &end, 10);

	return *end || number >= UINT32_MAX ? 0 : (uint32_t)number + 1;
}

static int skip_in(const struct session *session, struct source *source, uint32_t part)
{
	struct skip_list list = {0};
	int err = list_skips(session, part, &list);

	if (!err && list.skips)
		source_skip(source, list.skips, list.nr);
	return err;
}

int session_limit_time(struct session *session, const struct session_times *times)
{
	int err = 0;

	session->times = *times;
	if (session->flags & SESSION_FILE_ORDER)
		return 0; /* of a dump nothing is left out */
	if (!session->directory)
		return skip_in(session, session->source, 0);
	for (size_t i = 0; i < session->directory->nr_files && !err; i++) {
		const struct session_file *file = &session->directory->files[i];
		uint32_t part = i ? part_of(file->name) : 0;
		if (!i || part)
			err = skip_in(session, file->source, part);
	}
	return err;
}

bool session_leaves_out(const struct session *session, const struct session_record *record)
{
	return record->view.header->type == PERF_RECORD_SAMPLE && record->sample.present & PERF_SAMPLE_TIME &&
	       (record->sample.time < session->times.first_ns || record->sample.time > session->times.last_ns);
}
