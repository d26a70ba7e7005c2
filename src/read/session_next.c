/* SPDX-License-Identifier: MIT */
/* The records of a session, one by one: what is told of each, and the order of those of a single file or pipe. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/diag.h"
#include "base/log.h"
#include "read/session_state.h"

void session_name_file(const struct session *session, const char *file, struct diag *why)
{
	const char *path = strcmp(session->path, "-") ? session->path : "standard input";

	if (file)
		diag_prefix(why, "%s/%s", path, file);
	else
		diag_prefix(why, "%s", path);
}

void session_fail(struct session *session, const char *file, int result, const struct diag *why)
{
	if (session->result || !result)
		return;
	session->result = result;
	session->why = *why;
	session_name_file(session, file, &session->why);
}

void session_gap(struct session *session, const char *file, const struct diag *what)
{
	if (session->result)
		log_error("%s%s%s: %s", session->path, file ? "/" : "", file ? file : "", what->text);
	session_fail(session, file, -EBADMSG, what);
}

static int wrong_record(const struct perf_event_header *record, uint64_t offset, const char *what,
			struct diag *reterr)
{
	return diag_set(reterr, -EBADMSG, "offset %#" PRIx64 ": %s record of %u bytes: %s", offset,
			record_type_name(record->type), record->size, what);
}

/*
 * Left out, counted, and told at the end. Linux from 6.3 on writes such samples: of two recorders that count the same
 * software event on a CPU one gets the ids of the other.
 */
static void note_stray(struct session *session, const struct record_view *view)
{
	if (!session->strays.nr++) {
		session->strays.first_offset = view->offset;
		session->strays.first_file = view->file;
	}
}

/* 1: it holds what its event samples; 0: a sample of an event that the file does not describe; -EBADMSG. */
static int check(struct session *session, const struct record_view *view, const struct event_desc **ret,
		 struct diag *reterr)
{
	const struct perf_event_header *record = view->header;
	bool is_sample = record->type == PERF_RECORD_SAMPLE, whole;

	if (session_event_of(session, record, ret))
		return wrong_record(record, view->offset, "too short for the id of its event", reterr);
	if (!*ret && is_sample) {
		note_stray(session, view);
		return 0;
	}
	if (!*ret)
		*ret = session->events;
	if (!*ret)
		return 1;
	const struct session_layout *layout = &session->layouts[*ret - session->events];
	if (is_sample)
		whole = sample_is_whole(&(*ret)->attr, &layout->shape, record);
	else
		whole = record->size - sizeof(*record) >= layout->trailer_bytes;
	return whole ? 1 : wrong_record(record, view->offset, "too short for what its event samples", reterr);
}

/* The time by which a kernel record is sorted, which is whole; 0: none. */
static uint64_t record_time(const struct session *session, const struct perf_event_header *record,
			    const struct event_desc *event)
{
	const struct session_layout *layout = event ? &session->layouts[event - session->events] : NULL;
	uint64_t time_ns;

	if (!layout || layout->time_offset < 0)
		return 0;
	int at = record->type == PERF_RECORD_SAMPLE ? layout->time_offset : record->size - layout->time_distance;
	memcpy(&time_ns, (const char *)record + at, sizeof(time_ns));
	return time_ns == UINT64_MAX ? 0 : time_ns;
}

static void note_unknown(struct session *session, const struct record_view *view)
{
	uint32_t type = view->header->type, bit = type < 255 ? type : 255;

	if (session->noted_types[bit / 64] >> bit % 64 & 1)
		return;
	session->noted_types[bit / 64] |= 1ull << bit % 64;
	log_note("offset %#" PRIx64 ": records of unknown type %" PRIu32 " are skipped", view->offset, type);
}

static int route_user(struct session *session, const struct source_record *in, struct diag *reterr)
{
	if (session->before_change && session_is_change(in->view.header->type))
		session->before_change(session->before_change_of);
	int err = session_take(session, in, reterr);
	if (err || session->flags & SESSION_FILE_ORDER)
		return err ? err : SESSION_DELIVER;
	if (in->view.header->type == RECORD_FINISHED_ROUND)
		return SESSION_MARK;
	if (record_type_known(in->view.header->type))
		return SESSION_DELIVER;
	note_unknown(session, &in->view);
	return session->flags & SESSION_ALL ? SESSION_DELIVER : SESSION_TAKEN;
}

int session_route(struct session *session, const struct source_record *in, struct order_entry *ret,
		  struct diag *reterr)
{
	const struct perf_event_header *record = in->view.header;
	const struct event_desc *event;
	bool in_file_order = session->flags & SESSION_FILE_ORDER;

	if (record->type >= RECORD_USER_FIRST)
		return route_user(session, in, reterr);
	bool known = in_file_order || record->type == PERF_RECORD_SAMPLE || record_type_known(record->type);
	if (!known) {
		note_unknown(session, &in->view);
		if (!(session->flags & SESSION_ALL))
			return SESSION_TAKEN;
	}
	int whole = check(session, &in->view, &event, reterr);
	if (whole <= 0)
		return whole < 0 ? whole : SESSION_TAKEN;
	if (in_file_order || !known)
		return SESSION_DELIVER;
	*ret = (struct order_entry){
		.record = record,
		.offset = in->view.offset,
		.is_sample = record->type == PERF_RECORD_SAMPLE,
		.time_ns = record_time(session, record, event),
	};
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

void session_deliver(struct session *session, struct source *source, const struct record_view *view)
{
	source_hold(source, view->header);
	session->delivered = (struct session_held){view->header, source};
}

/* The sample at the start of the bytes, if there is nothing to be said of it, but its place among the others to be found. */
static const struct perf_event_header *sound_sample(const struct session *session, struct span bytes, uint64_t *ret_ns)
{
	const struct perf_event_header *record = bytes.ptr;
	const struct event_desc *event;

	if (bytes.len < sizeof(*record) || record->type != PERF_RECORD_SAMPLE || record->size < sizeof(*record) ||
	    record->size % 8 || record->size > bytes.len)
		return NULL;
	if (session_event_of(session, record, &event) || !event ||
	    !sample_is_whole(&event->attr, &session->layouts[event - session->events].shape, record))
		return NULL;
	*ret_ns = record_time(session, record, event);
	return *ret_ns ? record : NULL;
}

/* Nearly all of a recording are samples that are as they should be: those that come next, up to one that is not. 0 or -ENOMEM. */
static int take_samples(struct session *session)
{
	struct source_stretch stretch;
	struct source_passed passed = {0};
	const struct perf_event_header *record;
	uint64_t time_ns;
	int err = 0;

	if (session->flags & SESSION_FILE_ORDER || !source_stretch(session->source, &stretch))
		return 0;
	const struct span all = stretch.records;
	while (!err && (record = sound_sample(session, (struct span){(const uint8_t *)all.ptr + passed.bytes,
								     all.len - passed.bytes}, &time_ns))) {
		uint64_t offset = stretch.packed ? stretch.offset : stretch.offset + passed.bytes;
		err = order_push(&session->order, &(struct order_entry){
							  .record = record, .offset = offset, .is_sample = true, .time_ns = time_ns});
		if (err)
			break;
		passed.bytes += record->size;
		passed.nr++;
		passed.last_offset = offset;
	}
	if (passed.nr)
		source_pass(session->source, &passed);
	return err;
}

static int single_next(struct session *session, struct record_view *ret)
{
	struct order_entry entry;
	struct source_record in;
	struct diag why; /* not cleared: this runs for each record */

	while (!order_pop(&session->order, &entry)) {
		if (session->ended)
			return 0;
		int got = take_samples(session);
		if (got)
			diag_set(&why, got, "out of memory");
		else
			got = source_next(session->source, &in, &why);
		if (got == SOURCE_GAP) {
			session_gap(session, session->file_name, &why);
			continue;
		}
		bool end = got <= 0;
		in.view.file = session->file_name;
		if (!end)
			got = single_take(session, &in, &why);
		if (end || got < 0) {
			session_fail(session, session->file_name, got, &why);
			single_stop(session);
		} else if (got > 0) {
			*ret = in.view;
			session_deliver(session, session->source, ret);
			return 1;
		}
	}
	*ret = (struct record_view){entry.record, entry.offset, session->file_name};
	session->delivered = (struct session_held){entry.record, session->source};
	session->info.nr_late = session->order.nr_late;
	return 1;
}

const struct session_way session_single = {
	.next = single_next,
};

static void tell_strays(struct session *session)
{
	struct diag why;

	if (!session->strays.nr)
		return;
	diag_set(&why, -EBADMSG, "offset %#" PRIx64 ": the first of %" PRIu64 " samples of events that the file does not "
				 "describe, which are left out",
		 session->strays.first_offset, session->strays.nr);
	session_fail(session, session->strays.first_file, -EBADMSG, &why);
}

size_t session_find_sorted(struct session *session, struct order_entry *ret, size_t room)
{
	size_t nr = session->directory ? 0 : order_pop_many(&session->order, ret, room);

	session->info.nr_late = nr ? session->order.nr_late : session->info.nr_late;
	return nr;
}

int session_find(struct session *session, struct record_view *ret, struct session_held *ret_held, struct diag *reterr)
{
	if (session->way->next(session, ret)) {
		*ret_held = session->delivered;
		session->delivered = (struct session_held){0};
		return 1;
	}
	tell_strays(session);
	if (session->result && reterr)
		*reterr = session->why;
	return session->result;
}

int session_decode(const struct session *session, const struct record_view *view, struct session_record *ret,
		   struct diag *reterr)
{
	const struct perf_event_header *record = view->header;
	const struct event_desc *event;
	static const struct perf_event_attr no_attr;

	ret->view = *view;
	ret->event = NULL;
	if (record->type >= RECORD_USER_FIRST) {
		ret->sample = (struct sample){.pid = ~0u, .tid = ~0u, .cpu = ~0u};
		return 1;
	}
	/* It was whole when it was found; but events that came since may have changed which one it is of. */
	int err = session_event_of(session, record, &event);
	if (!err && record->type == PERF_RECORD_SAMPLE) {
		err = event ? sample_decode(&event->attr, record, &ret->sample) : -EBADMSG;
	} else if (!err) {
		const struct perf_event_attr *layout = session->nr_events ? &session->events[0].attr : &no_attr;
		err = sample_id_decode(event ? &event->attr : layout, record, &ret->sample);
	}
	if (err)
		return wrong_record(record, view->offset, "too short for what its event samples", reterr);
	ret->event = event;
	return !session_leaves_out(session, ret);
}

int session_next(struct session *session, struct session_record *ret, struct diag *reterr)
{
	struct record_view view;
	struct session_held held;
	int got;

	do {
		if (session->delivered.by)
			source_release(session->delivered.by, session->delivered.record);
		session->delivered = (struct session_held){0};
		got = session_find(session, &view, &held, reterr);
		if (got <= 0)
			return got;
		session->delivered = held;
		struct diag why; /* not cleared: this runs for each record */
		got = session_decode(session, &view, ret, &why);
		if (got < 0)
			session_fail(session, view.file, got, &why);
	} while (got <= 0);
	session->info.position = view.offset;
	return got;
}
