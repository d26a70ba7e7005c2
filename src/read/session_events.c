/* SPDX-License-Identifier: MIT */
/* What a session knows of its events: from the attrs of a file, from the records of a stream. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/span.h"
#include "perfdata/attr.h"
#include "perfdata/feature.h"
#include "perfdata/header.h"
#include "perfdata/tracing.h"
#include "read/session_state.h"

void session_forget_events(struct session *session)
{
	for (size_t i = 0; i < session->nr_events; i++)
		event_desc_fini(&session->events[i]);
	free(session->events);
	free(session->layouts);
	hash_table_fini(&session->ids);
	for (struct session_feature *record = session->records, *next; record; record = next) {
		next = record->next;
		free(record);
	}
}

/* A new event at the end, without ids. */
static int add_event(struct session *session, const struct perf_event_attr *attr)
{
	if (session->nr_events == session->events_room) {
		size_t room = session->events_room ? session->events_room * 2 : 8;
		void *events = reallocarray(session->events, room, sizeof(*session->events));
		if (!events)
			return -ENOMEM;
		session->events = events;
		void *layouts = reallocarray(session->layouts, room, sizeof(*session->layouts));
		if (!layouts)
			return -ENOMEM;
		session->layouts = layouts;
		session->events_room = room;
	}
	struct event_desc *event = &session->events[session->nr_events];
	*event = (struct event_desc){.attr = *attr, .name = attr_name(attr)};
	if (!event->name)
		return -ENOMEM;
	session->layouts[session->nr_events] =
		(struct session_layout){sample_time_offset(attr), sample_time_distance(attr), sample_shape(attr),
					(uint32_t)sample_id_bytes(attr)};
	if (!session->nr_events++) {
		session->id_offset = sample_id_offset(attr);
		session->id_distance = sample_id_distance(attr);
	}
	return 0;
}

/* The ids of the event that was added last. `ids` needs no alignment. */
static int add_ids(struct session *session, struct span ids)
{
	size_t index = session->nr_events - 1, nr = ids.len / sizeof(uint64_t);
	struct event_desc *event = &session->events[index];

	if (!nr)
		return 0;
	event->ids = malloc(nr * sizeof(uint64_t));
	if (!event->ids)
		return -ENOMEM;
	memcpy(event->ids, ids.ptr, nr * sizeof(uint64_t));
	event->nr_ids = nr;
	for (size_t i = 0; i < nr; i++) {
		if (!hash_table_find(&session->ids, event->ids[i]) &&
		    hash_table_add_number(&session->ids, event->ids[i], index + 1))
			return -ENOMEM;
	}
	return 0;
}

static int set_name(struct event_desc *event, const char *name)
{
	char *copy = strdup(name);

	if (!copy)
		return -ENOMEM;
	free(event->name);
	event->name = copy;
	return 0;
}

/* By position: EVENT_DESC lists the events in the order of the attrs. */
static int take_names(struct session *session, struct span payload)
{
	struct event_desc *described;
	size_t nr;
	int err = feature_decode_event_desc(payload, &described, &nr);

	if (err)
		return err == -ENOMEM ? err : 0; /* names are worth less than the records */
	for (size_t i = 0; i < nr; i++) {
		if (i < session->nr_events && described[i].name && !err)
			err = set_name(&session->events[i], described[i].name);
		event_desc_fini(&described[i]);
	}
	free(described);
	return err;
}

/*
 * With several events a record tells by an id which one it is of, so the id must be in the same place in all of them:
 * before that is known, the layout is not.
 */
static int check_layout(const struct session *session, size_t event, struct diag *reterr)
{
	const struct perf_event_attr *attr = &session->events[event].attr;

	if (event && session->id_offset < 0)
		return diag_set(reterr, -EBADMSG,
				"several events whose samples have no id: the event of a sample is not known");
	if (sample_id_offset(attr) == session->id_offset && sample_id_distance(attr) == session->id_distance)
		return 0;
	return diag_set(reterr, -EBADMSG, "the samples of %s and %s have their ids in different places",
			session->events[0].name, session->events[event].name);
}

static int section_of(const struct session *session, const struct file_section *section, struct span *ret)
{
	uint64_t file_bytes = session->whole.len;

	if (section->offset > file_bytes || section->size > file_bytes - section->offset)
		return -EBADMSG;
	*ret = (struct span){(const char *)session->whole.ptr + section->offset, section->size};
	return 0;
}

/* One entry of the attrs section: an attr of its own size and where its ids are. */
static int read_attr(struct session *session, struct cursor *at, uint64_t *ids_left, struct diag *reterr)
{
	uint64_t offset = (uint64_t)(at->at - (const uint8_t *)session->whole.ptr);
	struct perf_event_attr attr;
	struct file_section section;
	struct span ids;
	size_t size;

	if (attr_decode((struct span){at->at, cursor_left(at)}, &attr, &size))
		return diag_set(reterr, -EBADMSG, "offset %#" PRIx64 ": no attr of an event", offset);
	cursor_take(at, size);
	cursor_copy(at, &section, sizeof(section));
	/* No two events share ids, so all together cannot be more than the file. */
	if (at->bad || section_of(session, &section, &ids) || ids.len > *ids_left)
		return diag_set(reterr, -EBADMSG, "offset %#" PRIx64 ": the ids of the event are not in the file",
				offset + size);
	*ids_left -= ids.len;
	int err = add_event(session, &attr);
	if (!err)
		err = add_ids(session, ids);
	return err ? diag_set(reterr, err, "out of memory") : 0;
}

int session_read_attrs(struct session *session, struct diag *reterr)
{
	const struct file_header *header = &session->info.header;
	uint64_t ids_left = session->whole.len;
	struct span attrs, names;

	if (section_of(session, &header->attrs, &attrs))
		return diag_set(reterr, -EBADMSG,
				"offset 0x18: cut short: the events are described up to offset %#" PRIx64
				", the file ends at %#zx",
				header->attrs.offset + header->attrs.size, session->whole.len);
	if (header->attr_size < LAYOUT_ATTR_MIN_BYTES)
		return diag_set(reterr, -EBADMSG,
				"offset 0x10: an event of %" PRIu64 " bytes: was the file written whole?",
				header->attr_size);
	struct cursor at = cursor_over(attrs);
	for (uint64_t i = 0; i < header->attrs.size / header->attr_size; i++) {
		int err = read_attr(session, &at, &ids_left, reterr);
		if (err)
			return err;
	}
	if (session_feature(session, FEATURE_EVENT_DESC, &names) && take_names(session, names))
		return diag_set(reterr, -ENOMEM, "out of memory");
	int err = 0;
	for (size_t i = 0; i < session->nr_events && !err; i++)
		err = check_layout(session, i, reterr);
	return err;
}

static int keep_feature(struct session *session, uint64_t bit, struct span payload)
{
	struct session_feature *record = malloc(sizeof(*record) + payload.len);

	if (!record)
		return -ENOMEM;
	record->len = payload.len;
	if (payload.len)
		memcpy(record->bytes, payload.ptr, payload.len);
	record->next = session->records;
	session->records = session->newest[bit] = record;
	return 0;
}

static int take_attr(struct session *session, struct cursor *at)
{
	struct perf_event_attr attr;
	size_t size;

	if (attr_decode((struct span){at->at, cursor_left(at)}, &attr, &size))
		return -EBADMSG;
	cursor_take(at, size);
	int err = add_event(session, &attr);
	return err ? err : add_ids(session, (struct span){at->at, cursor_left(at)});
}

static int take_feature(struct session *session, struct cursor *at)
{
	uint64_t bit = cursor_u64(at);
	struct span payload = {at->at, cursor_left(at)};

	if (at->bad)
		return -EBADMSG;
	if (bit == 0 || bit >= FEATURE_BITS)
		return 0;
	int err = keep_feature(session, bit, payload);
	if (!err && bit == FEATURE_EVENT_DESC)
		err = take_names(session, payload);
	return err;
}

static int take_update(struct session *session, struct cursor *at)
{
	uint64_t kind = cursor_u64(at), id = cursor_u64(at);
	uint64_t number = hash_table_find_number(&session->ids, id);

	if (at->bad)
		return -EBADMSG;
	if (kind != EVENT_UPDATE_NAME || !number)
		return 0;
	const char *name = cursor_string(at, cursor_left(at));
	return name ? set_name(&session->events[number - 1], name) : -EBADMSG;
}

bool session_is_change(uint32_t type)
{
	return type == RECORD_HEADER_ATTR || type == RECORD_HEADER_FEATURE || type == RECORD_EVENT_UPDATE ||
	       type == RECORD_TRACING_DATA;
}

/* An event of which only the number of its tracepoint is known. */
struct unnamed {
	uint64_t id;
	struct event_desc *event; /* NULL: it was named, and so were those with its number */
};

static int unnamed_by_id(const void *a, const void *b)
{
	const struct unnamed *left = a, *right = b;

	return (left->id > right->id) - (left->id < right->id);
}

/* All events with that number. `unnamed` is in the order of numbers. 0 or -ENOMEM. */
static int name_events(struct unnamed unnamed[], size_t nr, const struct tracing_name *name)
{
	AUTO_FREE char *text = NULL;
	const int len = (int)(name->name.len < 256 ? name->name.len : 256);
	size_t first = partition_point(nr, i, unnamed[i].id < name->id);

	if (first == nr || unnamed[first].id != name->id || !unnamed[first].event)
		return 0;
	if (asprintf(&text, "%s:%.*s", name->system, len, (const char *)name->name.ptr) < 0) {
		text = NULL;
		return -ENOMEM;
	}
	for (size_t i = first; i < nr && unnamed[i].id == name->id; i++) {
		int err = set_name(unnamed[i].event, text);
		if (err)
			return err;
		unnamed[i].event = NULL;
	}
	return 0;
}

/* Of a pipe without EVENT_DESC, or a file without: what an attr alone tells of a tracepoint is its number. */
static int name_tracepoints(struct session *session, struct span blob)
{
	AUTO_FREE struct unnamed *unnamed = calloc(session->nr_events + 1, sizeof(*unnamed));
	struct tracing_names names = tracing_names_over(blob);
	struct tracing_name name;
	size_t nr = 0;
	int err = unnamed ? 0 : -ENOMEM;

	for (size_t i = 0; i < session->nr_events && !err; i++) {
		struct event_desc *event = &session->events[i];
		if (event->attr.type == PERF_TYPE_TRACEPOINT && strchr(event->name, ' '))
			unnamed[nr++] = (struct unnamed){event->attr.config, event};
	}
	if (nr)
		qsort(unnamed, nr, sizeof(*unnamed), unnamed_by_id);
	while (nr && !err && tracing_names_next(&names, &name))
		err = name_events(unnamed, nr, &name);
	return err;
}

static int take_tracing_data(struct session *session, struct span blob)
{
	int err = keep_feature(session, FEATURE_TRACING_DATA, blob);

	return err ? err : name_tracepoints(session, blob);
}

int session_take(struct session *session, const struct source_record *record, struct diag *reterr)
{
	const struct perf_event_header *header = record->view.header;
	struct cursor at = cursor_over((struct span){header + 1, header->size - sizeof(*header)});
	struct diag why;
	int err = 0;

	switch (header->type) {
	case RECORD_HEADER_ATTR:
		err = take_attr(session, &at);
		if (!err && check_layout(session, session->nr_events - 1, &why))
			return diag_set(reterr, -EBADMSG, "offset %#" PRIx64 ": %s", record->view.offset, why.text);
		break;
	case RECORD_HEADER_FEATURE: err = take_feature(session, &at); break;
	case RECORD_EVENT_UPDATE: err = take_update(session, &at); break;
	case RECORD_TRACING_DATA: err = take_tracing_data(session, record->outside); break;
	default: break;
	}
	if (err == -ENOMEM)
		return diag_set(reterr, err, "out of memory");
	if (err)
		return diag_set(reterr, err, "offset %#" PRIx64 ": %s record of %u bytes is not whole",
				record->view.offset, record_type_name(header->type), header->size);
	return 0;
}

bool session_feature(const struct session *session, enum feature_bit bit, struct span *ret)
{
	const struct file_header *header = &session->info.header;
	struct file_section section;

	const struct session_feature *record = (unsigned)bit < FEATURE_BITS ? session->newest[bit] : NULL;
	if (record) {
		*ret = (struct span){record->bytes, record->len};
		return true;
	}
	if (session->private_block.ptr && bit >= FEATURE_PRIVATE_FIRST &&
	    feature_private_section(session->private_block, bit, ret) == 1)
		return true;
	/* Without a data size nothing says where the table would be. */
	if (!session->feature_table.ptr ||
	    feature_section(header->features, session->feature_table, bit, &section) != 1)
		return false;
	if (section.offset > session->whole.len || section.size > session->whole.len - section.offset)
		return false;
	*ret = (struct span){(const char *)session->whole.ptr + section.offset, section.size};
	return true;
}

const char *session_arch(const struct session *session)
{
	struct span payload;
	const char *arch;

	return session_feature(session, FEATURE_ARCH, &payload) && !feature_decode_string(payload, &arch) ? arch : NULL;
}
