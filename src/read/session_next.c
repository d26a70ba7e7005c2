/* SPDX-License-Identifier: MIT */
/* The records of a session, one by one: what is told of each, and the order of those of a single file or pipe. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/diag.h"
#include "base/log.h"
#include "read/group_split.h"
#include "read/session_state.h"

enum { GAP_LINES_MAX = 100 };

void session_name_file(const struct session *session, const char *file, struct diag *why)
{
	const char *path = strcmp(session->path, "-") ? session->path : "standard input";

	if (file)
		diag_prefix(why, "%s/%s", path, file);
	else
		diag_prefix(why, "%s", path);
}

/* Keeps the first failure, which session_next() gives at the end; result 0 is none. `file`: see record_view. */
static void fail(struct session *session, const char *file, int result, const struct diag *why)
{
	if (session->result || !result)
		return;
	session->result = result;
	session->why = *why;
	session_name_file(session, file, &session->why);
}

/* Records are missing; those behind them are read on. The first gap is told at the end, the next ones at once. */
static void note_gap(struct session *session, const char *file, const struct diag *what)
{
	if (session->nr_gaps++ == GAP_LINES_MAX)
		log_error("%s: records are missing in more than %d places: the other places are not told",
			  session->path, GAP_LINES_MAX);
	else if (session->result && session->nr_gaps <= GAP_LINES_MAX)
		log_error("%s%s%s: %s", session->path, file ? "/" : "", file ? file : "", what->text);
	fail(session, file, -EBADMSG, what);
}

static int wrong_record(const struct perf_event_header *record, uint64_t offset, const char *what, struct diag *reterr)
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
	bool is_sample = record->type == PERF_RECORD_SAMPLE;
	uint64_t time_ns;

	/* Only samples have a time where other records have no trailer (sample_id_all). */
	if (!layout)
		return 0;
	int at =
		is_sample ? layout->time_offset : sample_id_field(record, layout->trailer_bytes, layout->time_distance);
	if (at < 0)
		return 0;
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

/* What is to be done with a record that was read. */
enum route {
	ROUTE_TAKEN,   /* nothing: it was taken care of, or is left out */
	ROUTE_DELIVER, /* at once */
	ROUTE_MARK,    /* a round is complete */
	ROUTE_SORT,    /* by its time */
};

static int route_user(struct session *session, const struct source_record *in, struct diag *reterr)
{
	if (session->before_change && session_is_change(in->view.header->type))
		session->before_change(session->before_change_ctx);
	int err = session_take(session, in, reterr);
	if (err || session->flags & SESSION_FILE_ORDER)
		return err ? err : ROUTE_DELIVER;
	if (in->view.header->type == RECORD_FINISHED_ROUND)
		return ROUTE_MARK;
	if (record_type_known(in->view.header->type))
		return ROUTE_DELIVER;
	note_unknown(session, &in->view);
	return session->flags & SESSION_ALL ? ROUTE_DELIVER : ROUTE_TAKEN;
}

/* An enum route, or -errno; *ret is complete for ROUTE_SORT. */
static int route_record(struct session *session, const struct source_record *in, struct order_entry *ret,
			struct diag *reterr)
{
	const struct perf_event_header *record = in->view.header;
	const struct event_desc *event;
	bool in_file_order = session->flags & SESSION_FILE_ORDER;

	/* Records of newer perf have sizes that are multiples of 8; those of the kernel always had. */
	if (record->size % 8 && !record_type_known(record->type))
		return wrong_record(record, in->view.offset, "its size is not a multiple of 8", reterr);
	if (record->type >= RECORD_USER_FIRST)
		return route_user(session, in, reterr);
	bool known = in_file_order || record->type == PERF_RECORD_SAMPLE || record_type_known(record->type);
	if (!known) {
		note_unknown(session, &in->view);
		if (!(session->flags & SESSION_ALL))
			return ROUTE_TAKEN;
	}
	int whole = check(session, &in->view, &event, reterr);
	if (whole <= 0)
		return whole < 0 ? whole : ROUTE_TAKEN;
	if (in_file_order || !known)
		return ROUTE_DELIVER;
	*ret = (struct order_entry){
		.record = record,
		.offset = in->view.offset,
		.is_sample = record->type == PERF_RECORD_SAMPLE,
		.time_ns = record_time(session, record, event),
	};
	return ret->time_ns ? ROUTE_SORT : ROUTE_DELIVER;
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
	int err = 0, route = route_record(session, in, &entry, reterr);

	switch (route) {
	case ROUTE_MARK: err = order_mark(&session->order); break;
	case ROUTE_SORT:
		err = order_push(&session->order, &entry);
		if (!err)
			source_hold(session->source, entry.record);
		break;
	default: return route;
	}
	if (err)
		return diag_set(reterr, err, "out of memory");
	return route == ROUTE_MARK && session->flags & SESSION_ALL;
}

/* `view` is given to the caller before anything else is read. */
static void deliver(struct session *session, struct source *source, const struct record_view *view)
{
	source_hold(source, view->header);
	session->delivered = (struct delivered_record){view->header, source};
}

/*
 * The sample at the start of the bytes, if there is nothing to be said of it, but its place among the others to be
 * found.
 */
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

/*
 * Nearly all of a recording are samples that are as they should be: those that come next, up to one that is not. 0 or
 * -ENOMEM.
 */
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
	while (!err && (record = sound_sample(
				session, (struct span){(const uint8_t *)all.ptr + passed.bytes, all.len - passed.bytes},
				&time_ns))) {
		uint64_t offset = stretch.packed ? stretch.offset : stretch.offset + passed.bytes;
		err = order_push(&session->order,
				 &(struct order_entry){
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
			note_gap(session, session->file_name, &why);
			continue;
		}
		bool end = got <= 0;
		in.view.file = session->file_name;
		if (!end)
			got = single_take(session, &in, &why);
		if (end || got < 0) {
			fail(session, session->file_name, got, &why);
			single_stop(session);
		} else if (got > 0) {
			*ret = in.view;
			deliver(session, session->source, ret);
			return 1;
		}
	}
	*ret = (struct record_view){entry.record, entry.offset, session->file_name};
	session->delivered = (struct delivered_record){entry.record, session->source};
	session->info.nr_late = session->order.nr_late;
	return 1;
}

/*
 * Of a data directory: `data` first, to its end, as what it holds has no time, or little of it has. There are no round
 * marks: the files are merged by time; see struct merge for what bounds the memory.
 */

/* The end of a file, for whatever reason. */
static void end_file(struct session *session, size_t index, int result, const struct diag *why)
{
	struct session_directory *directory = session->directory;
	struct session_file *file = &directory->files[index];

	fail(session, file->name, result, why);
	file->ended = true;
	if (index)
		merge_end(&directory->merge, index);
	else
		order_finish(&session->order);
}

/* Reads one record. 1: to be delivered now; 0: queued, taken care of, or the file has ended. */
static int read_one(struct session *session, size_t index, struct record_view *ret)
{
	struct session_directory *directory = session->directory;
	struct session_file *file = &directory->files[index];
	struct source_record in;
	struct order_entry entry;
	struct diag why; /* not cleared: this runs for each record */
	int got = source_next(file->source, &in, &why);

	if (got == SOURCE_GAP) {
		note_gap(session, file->name, &why);
		return 0;
	}
	if (got <= 0) {
		end_file(session, index, got, &why);
		return 0;
	}
	in.view.file = file->name;
	int route = route_record(session, &in, &entry, &why);
	if (route == ROUTE_SORT) {
		int err = index ? merge_put(&directory->merge, index, &entry) : order_push(&session->order, &entry);
		if (err)
			route = diag_set(&why, err, "out of memory");
		else
			source_hold(file->source, entry.record);
	}
	if (route < 0)
		end_file(session, index, route, &why);
	/* A mark would be of all rings, so in the file of one it means nothing. */
	if (route != ROUTE_DELIVER && !(route == ROUTE_MARK && session->flags & SESSION_ALL))
		return 0;
	*ret = in.view;
	deliver(session, file->source, ret);
	return 1;
}

/* What `data` holds with a time is merged like one more file. */
static void feed_main(struct session *session)
{
	struct merge *merge = &session->directory->merge;
	struct order_entry entry;
	struct diag why;

	if (!order_pop(&session->order, &entry)) {
		merge_end(merge, 0);
	} else if (merge_put(merge, 0, &entry)) {
		fail(session, session->directory->files[0].name, diag_set(&why, -ENOMEM, "out of memory"), &why);
		merge_end(merge, 0);
	}
}

static int directory_next(struct session *session, struct record_view *ret)
{
	struct session_directory *directory = session->directory;
	size_t nr_in_turn = session->flags & SESSION_FILE_ORDER ? directory->nr_files : 1, index;
	struct order_entry entry;

	for (size_t i = 0; i < nr_in_turn; i++) {
		while (!directory->files[i].ended) {
			if (read_one(session, i, ret))
				return 1;
		}
	}
	if (session->flags & SESSION_FILE_ORDER)
		return 0;
	while (merge_needs_entry(&directory->merge, &index)) {
		if (!index)
			feed_main(session);
		else if (read_one(session, index, ret))
			return 1;
	}
	if (!merge_pop(&directory->merge, &entry, &index))
		return 0;
	*ret = (struct record_view){entry.record, entry.offset, directory->files[index].name};
	session->delivered = (struct delivered_record){entry.record, directory->files[index].source};
	session->info.nr_late = directory->merge.nr_late;
	return 1;
}

static void report_strays(struct session *session)
{
	struct diag why;

	if (!session->strays.nr)
		return;
	diag_set(&why, -EBADMSG,
		 "offset %#" PRIx64 ": the first of %" PRIu64 " samples of events that the file does not "
		 "describe, which are left out",
		 session->strays.first_offset, session->strays.nr);
	fail(session, session->strays.first_file, -EBADMSG, &why);
}

size_t session_find_sorted(struct session *session, struct order_entry *ret, size_t room)
{
	size_t nr = session->directory ? 0 : order_pop_many(&session->order, ret, room);

	session->info.nr_late = nr ? session->order.nr_late : session->info.nr_late;
	return nr;
}

int session_find(struct session *session, struct record_view *ret, struct delivered_record *ret_delivered,
		 struct diag *reterr)
{
	if (session->directory ? directory_next(session, ret) : single_next(session, ret)) {
		*ret_delivered = session->delivered;
		session->delivered = (struct delivered_record){0};
		return 1;
	}
	report_strays(session);
	if (session->result && reterr)
		*reterr = session->why;
	return session->result;
}

/* A sample outside of the times that are wanted. */
static bool leaves_out(const struct session *session, const struct session_record *record)
{
	if (!session->nr_times || record->view.header->type != PERF_RECORD_SAMPLE ||
	    !(record->sample.present & PERF_SAMPLE_TIME))
		return false;
	for (size_t i = 0; i < session->nr_times; i++) {
		const struct session_times *times = &session->times[i];
		bool is_later = record->sample.time > times->last_ns && !(session->flags & SESSION_LATER);
		if (record->sample.time >= times->first_ns && !is_later)
			return false;
	}
	return true;
}

int session_decode(const struct session *session, const struct record_view *view, struct session_record *ret,
		   struct diag *reterr)
{
	const struct perf_event_header *record = view->header;
	const struct event_desc *event;
	static const struct perf_event_attr no_attr;

	ret->view = *view;
	ret->event = NULL;
	ret->outside_times = false;
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
	ret->outside_times = leaves_out(session, ret);
	return !ret->outside_times || group_split_has(&event->attr);
}

int session_next(struct session *session, struct session_record *ret, struct diag *reterr)
{
	struct record_view view;
	struct delivered_record delivered;
	int got;

	do {
		if (session->delivered.by)
			source_release(session->delivered.by, session->delivered.record);
		session->delivered = (struct delivered_record){0};
		got = session_find(session, &view, &delivered, reterr);
		if (got <= 0)
			return got;
		session->delivered = delivered;
		struct diag why; /* not cleared: this runs for each record */
		got = session_decode(session, &view, ret, &why);
		if (got < 0)
			fail(session, view.file, got, &why);
	} while (got <= 0);
	session->info.position = view.offset;
	return got;
}
