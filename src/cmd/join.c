/* SPDX-License-Identifier: MIT */
#include "cmd/join.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "perfdata/layout.h"
#include "perfdata/object_id.h"
#include "perfdata/perf_maps.h"
#include "read/session.h"

void join_fini(struct join *join)
{
	for (size_t i = 0; i < join->nr_events; i++)
		event_desc_fini(&join->events[i]);
	free(join->events);
	hash_table_fini(&join->ids);
	feature_set_fini(&join->features);
	merge_hosts_fini(&join->hosts);
	*join = (struct join){0};
}

static int no_memory(struct diag *reterr)
{
	return diag_set(reterr, -ENOMEM, "out of memory");
}

static const char *path_of(const struct session *session)
{
	return session_info(session)->path;
}

/* A feature that is one string; NULL: not there. */
static const char *feature_text(const struct session *session, enum feature_bit bit)
{
	struct span payload;
	const char *text;

	return session_feature(session, bit, &payload) && !feature_decode_string(payload, &text) ? text : NULL;
}

/* How a recording is moved beside those of other machines; NULL: all are of one. */
static const struct host_shift *shift_of(const struct join *join, size_t nr)
{
	return join->hosts.shifts ? &join->hosts.shifts[nr] : NULL;
}

static int check_machine(const struct join *join, const struct session *session, struct diag *reterr)
{
	static const enum feature_bit bits[] = {FEATURE_ARCH, FEATURE_HOSTNAME, FEATURE_OSRELEASE};
	const size_t nr = join->hosts.shifts ? 1 : sizeof(bits) / sizeof(bits[0]);

	for (size_t i = 0; i < nr; i++) {
		const char *there = feature_text(join->first, bits[i]), *here = feature_text(session, bits[i]);
		if (there && here && strcmp(there, here))
			return diag_set(reterr, -EINVAL, "%s is of another machine than %s: %s is \"%s\", not \"%s\"",
					path_of(session), path_of(join->first), feature_name(bits[i]), here, there);
	}
	return 0;
}

/* What the readers of one file need to be alike in all its events; see perfdata/sample.h for the places of the id. */
static int check_layout(const struct join *join, const struct event_desc *event, const char *path, struct diag *reterr)
{
	const struct perf_event_attr *first = &join->events[0].attr, *attr = &event->attr;
	const char *what = NULL;

	if (attr->use_clockid != first->use_clockid || (attr->use_clockid && attr->clockid != first->clockid))
		what = "another clock";
	else if (attr->sample_id_all != first->sample_id_all || sample_id_offset(attr) != sample_id_offset(first) ||
		 sample_id_distance(attr) != sample_id_distance(first))
		what = "another layout of samples";
	else if ((attr->sample_type ^ first->sample_type) & PERF_SAMPLE_TIME)
		what = "another clock";
	if (!what)
		return 0;
	return diag_set(reterr, -EINVAL, "%s cannot be joined: its event %s has %s than %s in %s", path, event->name,
			what, join->events[0].name, path_of(join->first));
}

static bool is_equal(const struct event_desc *left, const struct event_desc *right)
{
	struct perf_event_attr a = left->attr, b = right->attr;

	a.size = b.size = LAYOUT_ATTR_BYTES; /* as it will be stored */
	return !memcmp(&a, &b, sizeof(a)) && !strcmp(left->name, right->name);
}

/* An event without ids at the end. */
static int append(struct join *join, const struct event_desc *event, struct diag *reterr)
{
	struct event_desc *events = reallocarray(join->events, join->nr_events + 1, sizeof(*events));

	if (!events)
		return no_memory(reterr);
	join->events = events;
	events[join->nr_events] = (struct event_desc){.attr = event->attr, .name = strdup(event->name)};
	if (!events[join->nr_events].name)
		return no_memory(reterr);
	join->nr_events++;
	return 0;
}

static int add_ids(struct join *join, size_t index, const struct event_desc *from, const char *path,
		   struct diag *reterr)
{
	struct event_desc *event = &join->events[index];
	uint64_t *ids = reallocarray(event->ids, event->nr_ids + from->nr_ids + 1, sizeof(*ids));

	if (!ids)
		return no_memory(reterr);
	event->ids = ids;
	for (size_t i = 0; i < from->nr_ids; i++) {
		const struct host_shift *shift = shift_of(join, join->nr);
		uint64_t id = from->ids[i] + (shift ? shift->ids : 0);
		uint64_t known = hash_table_find_number(&join->ids, id);
		if (known == index + 1)
			continue;
		if (known)
			return diag_set(reterr, -EINVAL,
					"%s is of another boot than %s: id %" PRIu64 " means %s here, %s there", path,
					path_of(join->first), from->ids[i], from->name, join->events[known - 1].name);
		if (hash_table_add_number(&join->ids, id, index + 1))
			return no_memory(reterr);
		ids[event->nr_ids++] = id;
	}
	return 0;
}

/*
 * The events of a recording: each meets the first equal one that none of its own has met before. `met` has a place for
 * each event of the join before.
 */
static int add_events(struct join *join, const struct session *session, bool *met, struct diag *reterr)
{
	size_t nr, nr_before = join->nr_events;
	const struct event_desc *events = session_events(session, &nr);
	int err = 0;

	for (size_t i = 0; i < nr && !err; i++) {
		size_t at = 0;
		while (at < nr_before && (met[at] || !is_equal(&join->events[at], &events[i])))
			at++;
		if (at < nr_before)
			met[at] = true;
		else if (!(err = append(join, &events[i], reterr)))
			at = join->nr_events - 1;
		if (!err)
			err = check_layout(join, &events[i], path_of(session), reterr);
		if (!err)
			err = add_ids(join, at, &events[i], path_of(session), reterr);
	}
	return err;
}

/* Among several events a record is assigned to its event by its id: every event needs ids. */
static int check_ids(const struct join *join, const struct session *session, struct diag *reterr)
{
	if (join->nr_events < 2)
		return 0;
	for (size_t i = 0; i < join->nr_events; i++) {
		if (join->events[i].nr_ids && sample_id_offset(&join->events[i].attr) >= 0)
			continue;
		return diag_set(
			reterr, -EINVAL,
			"%s cannot be joined: the samples of %s have no id, which they need beside other events",
			path_of(session), join->events[i].name);
	}
	return 0;
}

int join_add(struct join *join, const struct session *session, struct diag *reterr)
{
	AUTO_FREE bool *met = calloc(join->nr_events + 1, sizeof(*met));
	size_t nr;

	if (!met)
		return no_memory(reterr);
	session_events(session, &nr);
	if (!nr)
		return diag_set(reterr, -EINVAL, "%s has no events", path_of(session));
	if (!join->first)
		join->first = session;
	int err = check_machine(join, session, reterr);
	if (!err)
		err = add_events(join, session, met, reterr);
	if (!err)
		err = check_ids(join, session, reterr);
	join->nr++;
	return err;
}

static bool has_tracepoint(const struct session *session, uint64_t config)
{
	size_t nr;
	const struct event_desc *events = session_events(session, &nr);

	for (size_t i = 0; i < nr; i++) {
		if (events[i].attr.type == PERF_TYPE_TRACEPOINT && events[i].attr.config == config)
			return true;
	}
	return false;
}

/* Does this recording describe the tracepoints of all that were joined? */
static bool knows_all(const struct join *join, const struct session *session)
{
	for (size_t i = 0; i < join->nr_events; i++) {
		const struct perf_event_attr *attr = &join->events[i].attr;
		if (attr->type == PERF_TYPE_TRACEPOINT && !has_tracepoint(session, attr->config))
			return false;
	}
	return true;
}

/* A file has one TRACING_DATA: one of the recordings must describe the tracepoints of all. */
static int add_tracing(struct join *join, struct session *const sessions[], size_t nr, struct diag *reterr)
{
	AUTO_BUF struct buf copy = {0};
	struct span payload;
	bool any = false;

	for (size_t i = 0; i < nr; i++) {
		if (!session_feature(sessions[i], FEATURE_TRACING_DATA, &payload))
			continue;
		any = true;
		if (!knows_all(join, sessions[i]))
			continue;
		buf_put(&copy, payload.ptr, payload.len);
		return feature_set_add(&join->features, FEATURE_TRACING_DATA, &copy) ? no_memory(reterr) : 0;
	}
	if (!any)
		return 0;
	return diag_set(reterr, -EINVAL,
			"no recording describes the tracepoints of all of them: record each with the same events");
}

/* A record of a BUILD_ID feature. */
struct known_id {
	struct build_id id;
	struct span record;
	bool repeated;
};

/* Of pointers into one array: equal ones stay in its order. */
static int compare_ids(const void *left, const void *right)
{
	const struct known_id *a = *(struct known_id *const *)left, *b = *(struct known_id *const *)right;
	int order = strcmp(a->id.path, b->id.path);

	if (!order)
		order = (a->id.pid > b->id.pid) - (a->id.pid < b->id.pid);
	if (!order)
		order = memcmp(a->id.id, b->id.id, sizeof(a->id.id));
	return order ? order : (a > b) - (a < b);
}

/* Marks those that an earlier one equals. `place` has a place for each. */
static void mark_repeated(struct known_id *ids, struct known_id **place, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		place[i] = &ids[i];
	qsort(place, nr, sizeof(struct known_id *), compare_ids);
	for (size_t i = 1; i < nr; i++)
		place[i]->repeated = !strcmp(place[i]->id.path, place[i - 1]->id.path) &&
				     place[i]->id.pid == place[i - 1]->id.pid &&
				     !memcmp(place[i]->id.id, place[i - 1]->id.id, sizeof(place[i]->id.id));
}

/* Appends structs known_id. A kernel has names in a file of several machines only where it is the first one's. */
static void find_ids(const struct session *session, const struct host_shift *shift, struct buf *out)
{
	struct known_id known = {0};
	struct span payload;

	if (!session_feature(session, FEATURE_BUILD_ID, &payload))
		return;
	struct cursor at = cursor_over(payload);
	for (const uint8_t *start = at.at; build_id_decode(&at, &known.id) == 1; start = at.at) {
		known.record = (struct span){start, (size_t)(at.at - start)};
		if (!shift || !shift->number ||
		    (known.id.misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_KERNEL)
			buf_put(out, &known, sizeof(known));
	}
}

/* The build-ids of all, each once. */
static int add_build_ids(struct join *join, struct session *const sessions[], size_t nr, struct diag *reterr)
{
	AUTO_BUF struct buf all = {0}, found = {0};

	for (size_t i = 0; i < nr; i++)
		find_ids(sessions[i], shift_of(join, i), &found);
	struct known_id *ids = (struct known_id *)found.data;
	size_t nr_ids = found.len / sizeof(*ids);
	AUTO_FREE struct known_id **place = calloc(nr_ids + 1, sizeof(struct known_id *));
	if (found.failed || !place)
		return no_memory(reterr);
	mark_repeated(ids, place, nr_ids);
	for (size_t i = 0; i < nr_ids; i++)
		if (!ids[i].repeated)
			buf_put(&all, ids[i].record.ptr, ids[i].record.len);
	if (!all.len && !all.failed)
		return 0;
	return feature_set_add(&join->features, FEATURE_BUILD_ID, &all) ? no_memory(reterr) : 0;
}

/* Device and inode of several machines may be the same: readers believe only what has one build-id. */
static int add_mapped_files(struct join *join, struct session *const sessions[], size_t nr, struct diag *reterr)
{
	AUTO_BUF struct buf all = {0};

	for (size_t i = 0; i < nr; i++) {
		struct span payload;
		if (session_feature(sessions[i], FEATURE_MAPPED_FILES, &payload))
			buf_put(&all, payload.ptr, payload.len);
	}
	if (!all.len && !all.failed)
		return 0;
	return feature_set_add(&join->features, FEATURE_MAPPED_FILES, &all) ? no_memory(reterr) : 0;
}

/* A perf map that is kept in one of the recordings. */
struct found_map {
	struct kept_perf_map map;
	unsigned machine; /* its number */
	size_t recording;
};

static int compare_processes(const void *left, const void *right)
{
	const struct found_map *a = *(struct found_map *const *)left, *b = *(struct found_map *const *)right;

	if (a->machine != b->machine)
		return a->machine < b->machine ? -1 : 1;
	return (a->map.pid > b->map.pid) - (a->map.pid < b->map.pid);
}

/* Processes of several recordings with one number are no longer told apart: neither has names then. */
static void remove_shared(struct found_map **place, size_t nr)
{
	for (size_t first = 0, end; first < nr; first = end) {
		bool shared = false;
		for (end = first + 1; end < nr && !compare_processes(&place[first], &place[end]); end++)
			shared |= place[end]->recording != place[first]->recording;
		for (size_t i = first; shared && i < end; i++)
			place[i]->map = (struct kept_perf_map){.pid = place[i]->map.pid, .missing = PERF_MAP_NONE};
	}
}

static int add_perf_maps(struct join *join, struct session *const sessions[], size_t nr, struct diag *reterr)
{
	AUTO_BUF struct buf all = {0}, found = {0};
	struct span payload;

	for (size_t i = 0; i < nr; i++) {
		const struct host_shift *shift = shift_of(join, i);
		struct found_map one = {.machine = shift ? shift->number : 0, .recording = i};
		if (!session_feature(sessions[i], FEATURE_PERF_MAPS, &payload))
			continue;
		for (struct cursor at = cursor_over(payload); perf_map_next(&at, &one.map);)
			buf_put(&found, &one, sizeof(one));
	}
	struct found_map *maps = (struct found_map *)found.data;
	size_t nr_maps = found.len / sizeof(*maps);
	AUTO_FREE struct found_map **place = calloc(nr_maps + 1, sizeof(struct found_map *));
	if (found.failed || !place)
		return no_memory(reterr);
	for (size_t i = 0; i < nr_maps; i++)
		place[i] = &maps[i];
	qsort(place, nr_maps, sizeof(struct found_map *), compare_processes);
	remove_shared(place, nr_maps);
	for (size_t i = 0; i < nr_maps; i++) {
		const struct host_shift *shift = shift_of(join, maps[i].recording);
		maps[i].map.pid += shift ? shift->pids : 0;
		if (shift && maps[i].map.program_ns)
			maps[i].map.program_ns += (uint64_t)shift->time_ns;
		perf_map_put(&maps[i].map, &all);
	}
	if (!all.len && !all.failed)
		return 0;
	return feature_set_add(&join->features, FEATURE_PERF_MAPS, &all) ? no_memory(reterr) : 0;
}

static int add_sample_time(struct join *join, struct session *const sessions[], size_t nr, struct diag *reterr)
{
	AUTO_BUF struct buf payload = {0};
	struct feature_sample_time all = {0}, times;
	bool any = false;

	for (size_t i = 0; i < nr; i++) {
		struct span bytes;
		if (!session_feature(sessions[i], FEATURE_SAMPLE_TIME, &bytes) ||
		    feature_decode_sample_time(bytes, &times))
			continue;
		any = true;
		if (join->hosts.shifts) {
			times.first_ns += times.first_ns ? (uint64_t)join->hosts.shifts[i].time_ns : 0;
			times.last_ns += times.last_ns ? (uint64_t)join->hosts.shifts[i].time_ns : 0;
		}
		if (times.first_ns && (!all.first_ns || times.first_ns < all.first_ns))
			all.first_ns = times.first_ns;
		if (times.last_ns > all.last_ns)
			all.last_ns = times.last_ns;
	}
	if (!any)
		return 0;
	feature_encode_sample_time(&all, &payload);
	return feature_set_add(&join->features, FEATURE_SAMPLE_TIME, &payload) ? no_memory(reterr) : 0;
}

/* Features that are made anew, or describe the joined files and not their content. */
static bool is_of_file(enum feature_bit bit)
{
	return bit == FEATURE_TRACING_DATA || bit == FEATURE_BUILD_ID || bit == FEATURE_SAMPLE_TIME ||
	       bit == FEATURE_EVENT_DESC || bit == FEATURE_DIR_FORMAT || bit == FEATURE_COMPRESSED ||
	       bit == FEATURE_EXTENT_INDEX || bit == FEATURE_AUXTRACE || bit == FEATURE_MAPPED_FILES ||
	       bit == FEATURE_PERF_MAPS;
}

/* What a newer perf wrote is not known to be true of several files; and some versions of perf crash on such bits. */
static bool is_known(enum feature_bit bit)
{
	return bit < FEATURE_STOCK_END || bit >= FEATURE_PRIVATE_FIRST;
}

/* All else as the first recording says it that says it; places of events stay, for those of the first come first. */
static int copy_features(struct join *join, struct session *const sessions[], size_t nr, struct diag *reterr)
{
	/* No honest features are longer than the file; those of a pipe have come whole. */
	uint64_t room = session_info(join->first)->pipe ? UINT64_MAX : session_info(join->first)->file_bytes;

	for (unsigned bit = 1; bit < FEATURE_BITS; bit++) {
		AUTO_BUF struct buf copy = {0};
		struct span payload;
		size_t from = 0;

		/* The times and costs of a ledger are those of one recording. */
		if (is_of_file(bit) || !is_known(bit) || (bit == FEATURE_LEDGER && nr > 1))
			continue;
		while (from < nr && !session_feature(sessions[from], bit, &payload))
			from++;
		if (from == nr || (from && bit == FEATURE_GROUP_DESC))
			continue;
		if (!from && payload.len > room)
			return diag_set(reterr, -EBADMSG, "%s: its features overlap", path_of(sessions[from]));
		room -= from ? 0 : payload.len;
		buf_put(&copy, payload.ptr, payload.len);
		if (feature_set_add(&join->features, bit, &copy))
			return no_memory(reterr);
	}
	return 0;
}

int join_features(struct join *join, struct session *const sessions[], size_t nr, struct diag *reterr)
{
	AUTO_BUF struct buf names = {0};
	int err = copy_features(join, sessions, nr, reterr);

	if (!err)
		err = add_tracing(join, sessions, nr, reterr);
	if (!err)
		err = add_build_ids(join, sessions, nr, reterr);
	if (!err)
		err = add_mapped_files(join, sessions, nr, reterr);
	if (!err)
		err = add_perf_maps(join, sessions, nr, reterr);
	if (!err)
		err = add_sample_time(join, sessions, nr, reterr);
	if (!err && join->hosts.shifts) {
		AUTO_BUF struct buf hosts = {0};
		feature_put_string(&hosts, join->hosts.names);
		err = feature_set_add(&join->features, FEATURE_HOSTNAME, &hosts) ? no_memory(reterr) : 0;
	}
	if (err)
		return err;
	feature_encode_event_desc(join->events, join->nr_events, &names);
	return feature_set_add(&join->features, FEATURE_EVENT_DESC, &names) ? no_memory(reterr) : 0;
}
