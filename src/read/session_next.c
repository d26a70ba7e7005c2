/* SPDX-License-Identifier: MIT */
/* The records of a session, one by one: what is told of each, and the order of those of a single file or pipe. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/diag.h"
#include "base/log.h"
#include "read/session_state.h"

void session_fail(struct session *session, const char *file, int result, const struct diag *why)
{
	const char *path = strcmp(session->path, "-") ? session->path : "standard input";

	if (session->result || !result)
		return;
	session->result = result;
	session->why = *why;
	if (file)
		diag_prefix(&session->why, "%s/%s", path, file);
	else
		diag_prefix(&session->why, "%s", path);
}

static int wrong_record(const struct perf_event_header *record, uint64_t offset, const char *what,
			struct diag *reterr)
{
	return diag_set(reterr, -EBADMSG, "offset %#" PRIx64 ": %s record of %u bytes: %s", offset,
			record_type_name(record->type), record->size, what);
}

static int decode(const struct session *session, const struct record_view *view, struct session_record *ret,
		  struct diag *reterr)
{
	const struct perf_event_header *record = view->header;
	const struct event_desc *event = NULL;
	static const struct perf_event_attr no_attr;

	ret->view = *view;
	ret->event = NULL;
	if (record->type >= RECORD_USER_FIRST) {
		ret->sample = (struct sample){.pid = ~0u, .tid = ~0u, .cpu = ~0u};
		return 0;
	}
	int err = session_event_of(session, record, &event);
	if (err)
		return wrong_record(record, view->offset, "too short for the id of its event", reterr);
	if (record->type == PERF_RECORD_SAMPLE) {
		if (!event)
			return wrong_record(record, view->offset, "of an event that the file does not describe", reterr);
		err = sample_decode(&event->attr, record, &ret->sample);
	} else {
		const struct perf_event_attr *layout = session->nr_events ? &session->events[0].attr : &no_attr;
		err = sample_id_decode(event ? &event->attr : layout, record, &ret->sample);
	}
	if (err)
		return wrong_record(record, view->offset, "too short for what its event samples", reterr);
	ret->event = event;
	return 0;
}

/* The time by which a kernel record is sorted; 0: none. -EBADMSG: too short. */
static int record_time(const struct session *session, const struct perf_event_header *record, uint64_t *ret)
{
	const struct event_desc *event;
	int err = session_event_of(session, record, &event);

	*ret = 0;
	if (err)
		return err;
	if (!event)
		event = session->events;
	if (!event)
		return 0;
	int at = record->type == PERF_RECORD_SAMPLE ? sample_time_offset(&event->attr)
						    : sample_time_distance(&event->attr);
	if (at < 0)
		return 0;
	if (record->type != PERF_RECORD_SAMPLE)
		at = record->size - at;
	if (at < (int)sizeof(*record) || at + (int)sizeof(*ret) > record->size)
		return -EBADMSG;
	memcpy(ret, (const char *)record + at, sizeof(*ret));
	if (*ret == UINT64_MAX)
		*ret = 0;
	return 0;
}

static bool is_known(uint32_t type)
{
	return strcmp(record_type_name(type), "UNKNOWN") != 0;
}

static void note_unknown(struct session *session, const struct record_view *view)
{
	uint32_t type = view->header->type, bit = type < 255 ? type : 255;

	if (session->noted_types[bit / 64] >> bit % 64 & 1)
		return;
	session->noted_types[bit / 64] |= 1ull << bit % 64;
	log_note("offset %#" PRIx64 ": records of unknown type %" PRIu32 " are skipped", view->offset, type);
}

int session_route(struct session *session, const struct source_record *in, struct order_entry *ret,
		  struct diag *reterr)
{
	const struct perf_event_header *record = in->view.header;

	*ret = (struct order_entry){.record = record, .offset = in->view.offset};
	if (record->type == RECORD_COMPRESSED || record->type == RECORD_COMPRESSED2)
		return diag_set(reterr, -ENOTSUP,
				"offset %#" PRIx64 ": compressed recordings are not supported by this version",
				in->view.offset);
	if (record->type >= RECORD_USER_FIRST) {
		int err = session_take(session, in, reterr);
		if (err)
			return err;
	}
	if (session->flags & SESSION_FILE_ORDER)
		return SESSION_DELIVER;
	if (record->type == RECORD_FINISHED_ROUND)
		return SESSION_MARK;
	if (!is_known(record->type)) {
		note_unknown(session, &in->view);
		return session->flags & SESSION_ALL ? SESSION_DELIVER : SESSION_TAKEN;
	}
	if (record->type >= RECORD_USER_FIRST)
		return SESSION_DELIVER;
	if (record_time(session, record, &ret->time_ns))
		return wrong_record(record, in->view.offset, "too short for what its event samples", reterr);
	return ret->time_ns ? SESSION_SORT : SESSION_DELIVER;
}

/* A single file has nothing more to give; what is still queued comes first. */
static void single_stop(struct session *session)
{
	session->ended = true;
	order_finish(&session->order);
}

/* 1: to be delivered now; 0: taken care of; -errno. */
static int single_take(struct session *session, const struct source_record *in, struct diag *reterr)
{
	struct order_entry entry;
	int err = 0, route = session_route(session, in, &entry, reterr);

	switch (route) {
	case SESSION_MARK:
		err = order_mark(&session->order);
		break;
	case SESSION_SORT:
		err = order_push(&session->order, &entry);
		if (!err)
			source_hold(session->source, entry.record);
		break;
	default:
		return route;
	}
	if (err)
		return diag_set(reterr, err, "out of memory");
	return route == SESSION_MARK && session->flags & SESSION_ALL;
}

static int single_next(struct session *session, struct record_view *ret)
{
	struct order_entry entry;
	struct source_record in;
	struct diag why = {0};

	while (!order_pop(&session->order, &entry)) {
		if (session->ended)
			return 0;
		int got = source_next(session->source, &in, &why);
		bool end = got <= 0;
		if (!end)
			got = single_take(session, &in, &why);
		if (end || got < 0) {
			session_fail(session, session->file_name, got, &why);
			single_stop(session);
		} else if (got > 0) {
			*ret = in.view;
			ret->file = session->file_name;
			return 1;
		}
	}
	*ret = (struct record_view){entry.record, entry.offset, session->file_name};
	session->delivered = entry.record;
	session->delivered_by = session->source;
	session->info.nr_late = session->order.nr_late;
	return 1;
}

const struct session_way session_single = {
	.next = single_next,
	.stop = single_stop,
};

int session_next(struct session *session, struct session_record *ret, struct diag *reterr)
{
	struct record_view view;
	struct diag why = {0};

	for (;;) {
		if (session->delivered)
			source_release(session->delivered_by, session->delivered);
		session->delivered = NULL;
		if (!session->way->next(session, &view))
			break;
		int err = decode(session, &view, ret, &why);
		if (!err) {
			session->info.position = view.offset;
			return 1;
		}
		session_fail(session, view.file, err, &why);
		session->way->stop(session);
	}
	if (session->result && reterr)
		*reterr = session->why;
	return session->result;
}
