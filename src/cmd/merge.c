/* SPDX-License-Identifier: MIT */
/* millrace merge: data directories and files of one machine as one perf.data file, in the order of time. */

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "cmd/cli/command.h"
#include "cmd/input/input.h"
#include "perfdata/attr.h"
#include "perfdata/feature.h"
#include "perfdata/header.h"
#include "perfdata/layout.h"
#include "perfdata/object_id.h"
#include "perfdata/record.h"
#include "read/session.h"
#include "record/output/output_path.h"

struct join {
	struct event_desc *events;
	size_t nr_events;
	struct hash_table ids; /* of all events: to the index, plus 1 */
	struct feature_set features;
	const struct session *first; /* NULL: nothing was added */
};

static void join_fini(struct join *join)
{
	for (size_t i = 0; i < join->nr_events; i++)
		event_desc_fini(&join->events[i]);
	free(join->events);
	hash_table_fini(&join->ids);
	feature_set_fini(&join->features);
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

static int check_machine(const struct join *join, const struct session *session, struct diag *reterr)
{
	static const enum feature_bit bits[] = {FEATURE_HOSTNAME, FEATURE_OSRELEASE, FEATURE_ARCH};

	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
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
	else if (attr->read_format != first->read_format)
		what = "another format of counts";
	else if ((attr->sample_type ^ first->sample_type) & PERF_SAMPLE_TIME)
		what = "other ideas of time";
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
		uint64_t known = hash_table_find_number(&join->ids, from->ids[i]);
		if (known == index + 1)
			continue;
		if (known)
			return diag_set(reterr, -EINVAL,
					"%s is of another boot than %s: id %" PRIu64 " means %s here, %s there", path,
					path_of(join->first), from->ids[i], from->name, join->events[known - 1].name);
		if (hash_table_add_number(&join->ids, from->ids[i], index + 1))
			return no_memory(reterr);
		ids[event->nr_ids++] = from->ids[i];
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
			"%s cannot be joined: the samples of %s have no id, by which they could be told from those of "
			"other events",
			path_of(session), join->events[i].name);
	}
	return 0;
}

/*
 * Adds a recording, which must stay open until join_fini(): an event equal to one that is there gives its ids to that
 * one, others are appended. -EINVAL: it cannot be joined, and why; -ENOMEM, -EBADMSG.
 */
static int join_add(struct join *join, const struct session *session, struct diag *reterr)
{
	AUTO_FREE bool *met = calloc(join->nr_events + 1, sizeof(*met));
	size_t nr;

	if (!met)
		return no_memory(reterr);
	session_events(session, &nr);
	if (session_info(session)->pipe)
		return diag_set(reterr, -EINVAL,
				"%s has the layout of a pipe: only files and data directories are merged",
				path_of(session));
	if (!nr)
		return diag_set(reterr, -EINVAL, "%s has no events", path_of(session));
	if (!join->first)
		join->first = session;
	int err = check_machine(join, session, reterr);
	if (!err)
		err = add_events(join, session, met, reterr);
	return err ? err : check_ids(join, session, reterr);
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

/* The build-ids of all, each once. */
static int add_build_ids(struct join *join, struct session *const sessions[], size_t nr, struct diag *reterr)
{
	AUTO_BUF struct buf all = {0};

	for (size_t i = 0; i < nr; i++) {
		struct span payload;
		struct build_id id, known;
		if (!session_feature(sessions[i], FEATURE_BUILD_ID, &payload))
			continue;
		struct cursor at = cursor_over(payload);
		for (const uint8_t *start = at.at; build_id_decode(&at, &id) == 1; start = at.at) {
			struct cursor there = cursor_over(buf_span(&all));
			bool is_new = true;
			while (is_new && build_id_decode(&there, &known) == 1)
				is_new = strcmp(known.path, id.path) || known.pid != id.pid ||
					 memcmp(known.id, id.id, sizeof(id.id));
			if (is_new)
				buf_put(&all, start, (size_t)(at.at - start));
		}
	}
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
	       bit == FEATURE_EXTENT_INDEX || bit == FEATURE_AUXTRACE || bit == FEATURE_MAPPED_FILES;
}

/* What a newer perf wrote is not known to be true of several files; and some versions of perf crash on such bits. */
static bool is_known(enum feature_bit bit)
{
	return bit < FEATURE_STOCK_END || bit >= FEATURE_PRIVATE_FIRST;
}

/* All else as the first recording says it that says it; places of events stay, for those of the first come first. */
static int copy_features(struct join *join, struct session *const sessions[], size_t nr, struct diag *reterr)
{
	uint64_t room =
		(uint64_t)session_info(join->first)->file_bytes; /* no honest features are longer than the file */

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

/* join->features of all that were added, in the order of their adding. -EINVAL, -EBADMSG, -ENOMEM. */
static int join_features(struct join *join, struct session *const sessions[], size_t nr, struct diag *reterr)
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
		err = add_sample_time(join, sessions, nr, reterr);
	if (err)
		return err;
	feature_encode_event_desc(join->events, join->nr_events, &names);
	return feature_set_add(&join->features, FEATURE_EVENT_DESC, &names) ? no_memory(reterr) : 0;
}

struct data_file {
	struct output_path dest;
	struct file_header header;
	struct buf pending;      /* bytes to be written */
	uint64_t data_bytes;     /* of all records so far */
	uint64_t unmarked_bytes; /* since the last mark */
	bool timed_since_mark;   /* a reader holds records back */
	bool finished;
};

enum {
	WRITE_BYTES = 1 << 20, /* of one write(2) */
	ROUND_BYTES = 1 << 20,
};

/* Creates the file as output_path_open() does, and what stands before the data. -errno and why. */
static int data_file_open(const char *path, const struct event_desc *events, size_t nr_events, struct data_file *ret,
			  struct diag *reterr)
{
	struct data_file file = {0};
	int err = header_encode(events, nr_events, &file.pending, &file.header);

	if (err) {
		buf_fini(&file.pending);
		return diag_set(reterr, err, "out of memory");
	}
	err = output_path_open(path, &file.dest, reterr);
	if (err) {
		buf_fini(&file.pending);
		return err;
	}
	*ret = file;
	return 0;
}

static int flush(struct data_file *file)
{
	int err = file->pending.failed ? -ENOMEM : fd_write(file->dest.fd, file->pending.data, file->pending.len);

	file->pending.len = 0;
	return err;
}

static int put(struct data_file *file, const struct perf_event_header *record)
{
	buf_put(&file->pending, record, record->size);
	file->data_bytes += record->size;
	file->unmarked_bytes += record->size;
	return file->pending.len < WRITE_BYTES ? 0 : flush(file);
}

static int mark(struct data_file *file)
{
	static const struct perf_event_header round = {.type = RECORD_FINISHED_ROUND, .size = sizeof(round)};
	int err = put(file, &round);

	file->unmarked_bytes = 0;
	return err;
}

/*
 * Adds a record, which may go once the call is over. time_ns 0: it has none; a reader then gets it after all that was
 * added before, and before all that follows. 0 or -errno.
 */
static int data_file_add(struct data_file *file, const struct perf_event_header *record, uint64_t time_ns)
{
	int err = 0;

	/* A reader takes what has no time at once. The first mark lets it set a limit, the second one give all up to
	 * it. */
	if (!time_ns && file->timed_since_mark) {
		err = mark(file);
		if (!err)
			err = mark(file);
		file->timed_since_mark = false;
	}
	if (!err)
		err = put(file, record);
	file->timed_since_mark |= time_ns != 0;
	if (!err && file->unmarked_bytes >= ROUND_BYTES)
		err = mark(file);
	return err;
}

/* Adds the features and makes the file whole. 0 or -errno. */
static int data_file_finish(struct data_file *file, const struct feature_set *features)
{
	struct file_header header = file->header;

	header.data.size = file->data_bytes;
	int err = feature_set_encode(features, header.data.offset + header.data.size, &file->pending, header.features);
	if (!err)
		err = flush(file);
	if (!err)
		err = fd_pwrite(file->dest.fd, &header, sizeof(header), 0);
	file->finished = !err;
	return err;
}

/* A file that was not finished is removed. 0 or -errno of close(2). A zeroed struct is fine. */
static int data_file_close(struct data_file *file)
{
	struct stat st;

	if (!file->dest.path)
		return 0;
	/* A device is not ours to remove. */
	if (!file->finished && fstat(file->dest.fd, &st) == 0 && S_ISREG(st.st_mode))
		unlink(file->dest.path);
	buf_fini(&file->pending);
	return output_path_close(&file->dest);
}

/* millrace merge: data directories and files of one machine as one perf.data file, in the order of time. */
struct merge_options {
	const char *output;
	bool force;
	int verbose;
};

static const struct option merge_table[] = {
	{.letter = 'o',
	 .name = "output",
	 .arg = "FILE",
	 .help = "Write FILE; what was there before is kept as FILE.old",
	 .set = option_set_path,
	 .offset = offsetof(struct merge_options, output),
	 .group = "Output"},
	{.letter = 'f',
	 .name = "force",
	 .help = "Read recordings that belong to neither root nor you",
	 .set = option_set_flag,
	 .offset = offsetof(struct merge_options, force),
	 .group = "Input"},
	{.letter = 'v',
	 .name = "verbose",
	 .help = "Say more on standard error; twice: everything",
	 .set = option_set_count,
	 .offset = offsetof(struct merge_options, verbose)},
	{0},
};

/* One recording that is read, and its record whose turn has not come. */
struct merge_input {
	struct session *session;
	struct session_record record;
	uint64_t time_ns; /* of it; 0: none */
	uint64_t turn_ns; /* when it is to be written */
	bool ended;
};

/* Everything that one run holds. */
struct merge_run {
	struct merge_options options;
	struct merge_input *inputs;
	struct session **sessions; /* of the inputs; owned */
	size_t nr_inputs;
	struct join join;
	struct data_file file;
	uint64_t nr_records, nr_late;
	int input_err; /* of a recording that could not be read to its end; already logged */
};

static uint64_t record_time(const struct session_record *record)
{
	bool timed = record->view.header->type < RECORD_USER_FIRST && record->sample.present & PERF_SAMPLE_TIME;

	return timed && record->sample.time != UINT64_MAX ? record->sample.time : 0;
}

/*
 * Records without a time describe the initial state: they are written right before the first record with a time, not
 * before the older records of other inputs. So the first time is looked up; that takes the front of the input only.
 */
static int find_start(const struct merge_run *run, struct merge_input *input)
{
	const struct input_options options = {.path = session_info(input->session)->path, .force = run->options.force};
	struct session *session;
	struct session_record record;
	int err = input_open(&options, 0, &session);

	if (err)
		return err;
	while (!input->turn_ns && session_next(session, &record, NULL) > 0)
		input->turn_ns = record_time(&record);
	session_close(session);
	return 0;
}

/* The next record of an input. Damage is logged and ends it; the others go on. */
static void input_advance(struct merge_run *run, struct merge_input *input)
{
	struct diag diag = {0};
	int got;

	do
		got = session_next(input->session, &input->record, &diag);
	while (got > 0 &&
	       input->record.view.header->type == RECORD_FINISHED_ROUND); /* those of the output are others */
	input->ended = got <= 0;
	if (got < 0) {
		log_error("%s", diag.text);
		run->input_err = got;
	}
	if (got <= 0)
		return;
	input->time_ns = record_time(&input->record);
	if (input->time_ns)
		input->turn_ns = input->time_ns;
}

/* Whose turn it is; NULL: all have ended. */
static struct merge_input *input_next(const struct merge_run *run)
{
	struct merge_input *next = NULL;

	for (size_t i = 0; i < run->nr_inputs; i++) {
		struct merge_input *input = &run->inputs[i];
		if (!input->ended && (!next || input->turn_ns < next->turn_ns))
			next = input;
	}
	return next;
}

/* Such records describe events or carry bytes behind them, which stand elsewhere in a file. */
static bool is_copied(uint32_t type)
{
	return type != RECORD_HEADER_ATTR && type != RECORD_TRACING_DATA && type != RECORD_AUXTRACE;
}

static int copy_records(struct merge_run *run, struct diag *reterr)
{
	struct merge_input *input;

	for (size_t i = 0; i < run->nr_inputs; i++)
		input_advance(run, &run->inputs[i]);
	for (; (input = input_next(run)); input_advance(run, input)) {
		const struct perf_event_header *record = input->record.view.header;
		if (!is_copied(record->type))
			return diag_set(reterr, -ENOTSUP, "%s: offset %#" PRIx64 ": %s records cannot be merged",
					session_info(input->session)->path, input->record.view.offset,
					record_type_name(record->type));
		int err = data_file_add(&run->file, record, input->time_ns);
		if (err)
			return diag_set(reterr, err, "%s: %s", run->options.output, strerror(-err));
		run->nr_records++;
	}
	return 0;
}

static int run_merge(struct merge_run *run, struct diag *reterr)
{
	int err = 0;

	for (size_t i = 0; i < run->nr_inputs && !err; i++)
		err = join_add(&run->join, run->sessions[i], reterr);
	if (!err)
		err = join_features(&run->join, run->sessions, run->nr_inputs, reterr);
	if (!err)
		err = data_file_open(run->options.output, run->join.events, run->join.nr_events, &run->file, reterr);
	if (!err)
		err = copy_records(run, reterr);
	if (err)
		return err;
	err = data_file_finish(&run->file, &run->join.features);
	return err ? diag_set(reterr, err, "%s: %s", run->options.output, strerror(-err)) : 0;
}

static bool is_same(const char *left, const char *right)
{
	struct stat a, b;

	return stat(left, &a) == 0 && stat(right, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* What is read must not be what makes room: neither as the output nor as the one kept before it. */
static int check_output(const char *output, char *const paths[], int nr)
{
	AUTO_FREE char *old = NULL;

	if (!output) {
		log_error("merge: where to? Give -o FILE");
		return -EINVAL;
	}
	if (output_path_is_pipe(output)) {
		log_error("%s: merge writes a file, not a pipe", output);
		return -EINVAL;
	}
	if (asprintf(&old, "%s.old", output) < 0) {
		old = NULL;
		return -ENOMEM;
	}
	for (int i = 0; i < nr; i++) {
		if (!is_same(paths[i], output) && !is_same(paths[i], old))
			continue;
		log_error("%s is read, so the output cannot be %s: give another -o", paths[i], output);
		return -EINVAL;
	}
	return 0;
}

static int open_inputs(struct merge_run *run, char *const paths[], int nr)
{
	run->inputs = calloc((size_t)nr, sizeof(*run->inputs));
	run->sessions = calloc((size_t)nr, sizeof(struct session *));
	if (!run->inputs || !run->sessions) {
		log_error("out of memory");
		return -ENOMEM;
	}
	for (int i = 0; i < nr; i++) {
		const struct input_options options = {.path = paths[i], .force = run->options.force};
		int err = input_open(&options, SESSION_ALL, &run->sessions[i]);
		if (err)
			return err;
		run->inputs[run->nr_inputs++].session = run->sessions[i];
	}
	for (size_t i = 0; i < run->nr_inputs && run->nr_inputs > 1; i++) {
		int err = session_info(run->sessions[i])->pipe ? 0 : find_start(run, &run->inputs[i]);
		if (err)
			return err;
	}
	return 0;
}

static void run_fini(struct merge_run *run)
{
	join_fini(&run->join);
	for (size_t i = 0; i < run->nr_inputs; i++)
		session_close(run->sessions[i]);
	free(run->sessions);
	free(run->inputs);
}

static int run_status(struct merge_run *run, char *const paths[], int nr)
{
	struct diag diag = {0};

	if (open_inputs(run, paths, nr))
		return INPUT_EXIT_ERROR;
	int err = run_merge(run, &diag);
	uint64_t bytes = run->file.data_bytes;
	int close_err = data_file_close(&run->file);
	if (!err && close_err)
		err = diag_set(&diag, close_err, "%s: %s", run->options.output, strerror(-close_err));
	if (err) {
		log_error("%s", diag.text);
		return INPUT_EXIT_ERROR;
	}
	for (size_t i = 0; i < run->nr_inputs; i++)
		input_report_late(run->sessions[i]);
	log_note("%s: %" PRIu64 " records, %.1f MB, of %zu recording%s", run->options.output, run->nr_records,
		 (double)bytes / 1e6, run->nr_inputs, run->nr_inputs == 1 ? "" : "s");
	return run->input_err ? INPUT_EXIT_ERROR : 0;
}

static int merge_run_command(int argc, char **argv)
{
	struct merge_run run = {0};
	AUTO_CONFIGURATION struct configuration config = {0};

	switch (configuration_parse(&command_merge, argc, argv, &run.options, &config)) {
	case OPTION_EXIT: return 0;
	case OPTION_BAD: return COMMAND_USAGE;
	case OPTION_OK: break;
	}
	char **recordings = argv + config.given.first;
	int nr = argc - config.given.first;
	log_set_level(run.options.verbose);
	if (nr < 1) {
		log_error("merge: of what? Name data directories or files");
		return COMMAND_USAGE;
	}
	if (check_output(run.options.output, recordings, nr))
		return COMMAND_USAGE;
	int status = run_status(&run, recordings, nr);
	run_fini(&run);
	return status;
}

const struct command command_merge = {
	.name = "merge",
	.summary = "Make one perf.data file of a data directory or of several files",
	.usage = "[OPTIONS] -o FILE RECORDING...",
	.description =
		"Reads data directories, as recording with several threads makes them, and ordinary files, and writes "
		"all "
		"their records in the order of time into one ordinary file, which every reader of the format takes. "
		"Memory does not grow with the recordings.\n\n"
		"Several recordings must be of one machine and one boot. Events that are equal become one, others "
		"stand side "
		"by side; for that their samples must have the same layout.\n\n"
		"Examples:\n"
		"  millrace merge perf.data -o merged.data\n"
		"  millrace merge -o all.data before.data after.data",
	.options = merge_table,
	.run = merge_run_command,
};
