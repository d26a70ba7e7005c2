/* SPDX-License-Identifier: MIT */
#include "read/group_split.h"

#include <errno.h>
#include <stdlib.h>

/* What one fd of an event has counted up to its last sample. */
struct group_count {
	size_t event;
	uint64_t value;
};

void group_split_fini(struct group_split *split)
{
	hash_table_fini(&split->ids);
	free(split->counts);
	*split = (struct group_split){0};
}

/* All events are known when the first sample comes. */
static int learn_ids(struct group_split *split, struct session *session)
{
	size_t nr_events, nr_ids = 0;
	const struct event_desc *events = session_events(session, &nr_events);

	for (size_t i = 0; i < nr_events; i++)
		nr_ids += events[i].nr_ids;
	split->counts = calloc(nr_ids + 1, sizeof(*split->counts));
	if (!split->counts)
		return -ENOMEM;
	for (size_t i = 0; i < nr_events; i++) {
		for (size_t id = 0; id < events[i].nr_ids; id++) {
			if (hash_table_find(&split->ids, events[i].ids[id]))
				continue;
			split->counts[split->nr_counts++].event = i;
			if (hash_table_add_number(&split->ids, events[i].ids[id], split->nr_counts))
				return -ENOMEM;
		}
	}
	split->known = true;
	return 0;
}

int group_split_begin(struct group_split *split, struct session *session, const struct session_record *record)
{
	if (record->view.header->type != PERF_RECORD_SAMPLE || !record->event)
		return 0;

	size_t nr_events;
	split->left = (struct sample_read){0};
	if (!group_split_has(&record->event->attr) || !record->sample.read.len)
		return record->outside_times;
	if (!split->known) {
		int err = learn_ids(split, session);
		if (err < 0)
			return err;
	}
	if (sample_read_open(&record->event->attr, record->sample.read, &split->left) < 0)
		return record->outside_times;
	split->events = session_events(session, &nr_events); /* a pipe may have moved them since */
	split->record = *record;
	return 1;
}

const struct session_record *group_split_next(struct group_split *split)
{
	struct sample_value value;

	while (sample_read_next(&split->left, &value)) {
		uint64_t number = hash_table_find_number(&split->ids, value.id);
		if (!number)
			continue;
		struct group_count *count = &split->counts[number - 1];
		uint64_t more = value.value - count->value;
		count->value = value.value;
		if (!more || split->record.outside_times) /* not more: it did not happen since */
			continue;
		split->record.event = &split->events[count->event];
		split->record.sample.id = value.id;
		split->record.sample.period = more;
		return &split->record;
	}
	return NULL;
}
