/* SPDX-License-Identifier: MIT */
#include "record/order/ring_events.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>

#include "perfdata/attr.h"
#include "perfdata/sample.h"

int ring_events_init(struct ring_events *events, const struct event_desc *descs, size_t nr)
{
	const struct perf_event_attr *first = &descs[0].attr;

	events->events = descs;
	events->nr_events = nr;
	events->id_offset = sample_id_offset(first);
	events->id_distance = sample_id_distance(first);
	events->time_offset = sample_time_offset(first);
	events->time_distance = sample_time_distance(first);
	events->trailer_bytes = sample_id_bytes(first);
	events->tid_distance = events->cpu_distance = -1;
	if (first->sample_id_all && first->sample_type & PERF_SAMPLE_TID) /* the first field */
		events->tid_distance = (int)events->trailer_bytes;
	if (first->sample_id_all && first->sample_type & PERF_SAMPLE_CPU) /* the last one but for the IDENTIFIER */
		events->cpu_distance = first->sample_type & PERF_SAMPLE_IDENTIFIER ? 16 : 8;
	if (events->time_offset < 0 || events->time_distance < 0)
		return -EINVAL;
	for (size_t i = 0; i < nr; i++)
		for (size_t k = 0; k < descs[i].nr_ids; k++)
			if (hash_table_add_number(&events->ids, descs[i].ids[k], i + 1))
				return -ENOMEM;
	return 0;
}

void ring_events_fini(struct ring_events *events)
{
	hash_table_fini(&events->ids);
}

size_t ring_events_index(const struct ring_events *events, const uint8_t *sample, size_t size)
{
	uint64_t id;

	if (events->nr_events == 1 || events->id_offset < 0 || size < (size_t)events->id_offset + sizeof(id))
		return 0;
	memcpy(&id, sample + events->id_offset, sizeof(id));
	uint64_t number = hash_table_find_number(&events->ids, id);
	return number ? number - 1 : 0;
}
