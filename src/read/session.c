/* SPDX-License-Identifier: MIT */
#include "read/session.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "format/feature.h"
#include "format/header.h"
#include "read/session_state.h"

static void session_free(struct session **session)
{
	session_close(*session);
}
#define AUTO_SESSION __attribute__((cleanup(session_free)))

static int session_new(const char *path, enum session_flags flags, struct session **ret)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return -ENOMEM;
	session->fd = -1;
	session->flags = flags;
	session->id_offset = session->id_distance = -1;
	session->path = strdup(path);
	session->info.path = session->path;
	if (!session->path) {
		session_close(session);
		return -ENOMEM;
	}
	*ret = session;
	return 0;
}

void session_close(struct session *session)
{
	if (!session)
		return;
	source_close(session->source);
	order_fini(&session->order);
	session_forget_events(session);
	if (session->mapped)
		munmap((void *)session->whole.ptr, session->whole.len);
	if (session->fd >= 0)
		close(session->fd);
	free(session->path);
	free(session);
}

/* Where the records of a file are; what its sizes promise is held against the size of the file. */
static int find_data(struct session *session, struct source_range *ret, struct diag *reterr)
{
	const struct file_section *data = &session->info.header.data;
	uint64_t file_bytes = session->whole.len;
	struct source_range range = {.whole = session->whole, .at = data->offset};

	if (data->offset > file_bytes)
		return diag_set(reterr, -EBADMSG,
				"offset 0x28: the data starts at %#" PRIx64 ", the file ends at %#" PRIx64, data->offset,
				file_bytes);
	if (!data->size || data->size > file_bytes - data->offset) {
		range.shortage = data->size ? SOURCE_TRUNCATED : SOURCE_UNFINISHED;
		range.end = file_bytes;
	} else {
		range.end = data->offset + data->size;
		session->feature_table = (struct span){(const char *)session->whole.ptr + range.end,
						       file_bytes - range.end};
	}
	*ret = range;
	return 0;
}

/* A whole file in session->whole. */
static int open_whole(struct session *session, struct diag *reterr)
{
	struct source_range range = {.whole = session->whole, .end = session->whole.len};
	int err = header_decode(session->whole, &session->info.header, &session->info.pipe, reterr);

	if (err)
		return err;
	if (session->info.pipe) {
		range.at = LAYOUT_PIPE_HEADER_BYTES;
	} else {
		session->info.file_bytes = session->whole.len;
		err = find_data(session, &range, reterr);
		if (!err)
			err = session_read_attrs(session, reterr);
		if (err)
			return err;
	}
	if (source_open_range(&range, &session->source))
		return diag_set(reterr, -ENOMEM, "out of memory");
	return 0;
}

static int open_pipe(struct session *session, int fd, struct diag *reterr)
{
	uint64_t start[LAYOUT_PIPE_HEADER_BYTES / sizeof(uint64_t)];
	int err = fd_read(fd, start, sizeof(start));

	if (err == -ENODATA)
		return diag_set(reterr, -EBADMSG, "the pipe ends before its header: did the recorder start?");
	if (err)
		return diag_set(reterr, err, "%s", strerror(-err));
	if (start[0] == LAYOUT_MAGIC && start[1] != LAYOUT_PIPE_HEADER_BYTES)
		return diag_set(reterr, -ESPIPE,
				"a perf.data file with a header cannot be read through a pipe: give its name with -i");
	err = header_decode((struct span){start, sizeof(start)}, &session->info.header, &session->info.pipe, reterr);
	if (err)
		return err;
	if (source_open_pipe(fd, &session->source))
		return diag_set(reterr, -ENOMEM, "out of memory");
	return 0;
}

static int open_regular(struct session *session, const struct stat *st, struct diag *reterr)
{
	if (st->st_size == 0)
		return diag_set(reterr, -EBADMSG, "the file is empty");
	void *map = mmap(NULL, (size_t)st->st_size, PROT_READ, MAP_PRIVATE, session->fd, 0);
	if (map == MAP_FAILED)
		return diag_set(reterr, -errno, "mapping the file: %s", strerror(errno));
	session->whole = (struct span){map, (size_t)st->st_size};
	session->mapped = true;
	return open_whole(session, reterr);
}

/* A file of somebody else could make us open what its paths name: only root's and one's own are trusted. */
static int check_owner(const struct stat *st, enum session_flags flags, struct diag *reterr)
{
	if (st->st_uid == 0 || st->st_uid == geteuid() || (flags & SESSION_FORCE))
		return 0;
	return diag_set(reterr, -EPERM, "belongs to uid %u, neither to root nor to you (read it all the same with -f)",
			(unsigned)st->st_uid);
}

static int open_path(struct session *session, struct diag *reterr)
{
	struct stat st;

	session->fd = open(session->path, O_RDONLY | O_CLOEXEC);
	if (session->fd < 0)
		return diag_set(reterr, -errno, "%s", strerror(errno));
	if (fstat(session->fd, &st) < 0)
		return diag_set(reterr, -errno, "%s", strerror(errno));
	if (S_ISDIR(st.st_mode))
		return diag_set(reterr, -EISDIR, "is a directory; data directories are not supported by this version");
	int err = check_owner(&st, session->flags, reterr);
	if (err)
		return err;
	session->info.mtime = st.st_mtime;
	if (S_ISREG(st.st_mode))
		return open_regular(session, &st, reterr);
	return open_pipe(session, session->fd, reterr);
}

int session_open(const char *path, enum session_flags flags, struct session **ret, struct diag *reterr)
{
	AUTO_SESSION struct session *session = NULL;
	int err = session_new(path, flags, &session);

	if (err)
		return diag_set(reterr, err, "out of memory");
	if (!strcmp(path, "-"))
		err = open_pipe(session, STDIN_FILENO, reterr);
	else
		err = open_path(session, reterr);
	if (err) {
		diag_prefix(reterr, "%s", strcmp(path, "-") ? path : "standard input");
		return err;
	}
	*ret = take_ptr(session);
	return 0;
}

int session_open_memory(struct span bytes, enum session_flags flags, struct session **ret, struct diag *reterr)
{
	AUTO_SESSION struct session *session = NULL;
	int err = session_new("memory", flags, &session);

	if (err)
		return diag_set(reterr, err, "out of memory");
	session->whole = bytes;
	err = open_whole(session, reterr);
	if (err)
		return err;
	*ret = take_ptr(session);
	return 0;
}

const struct event_desc *session_events(const struct session *session, size_t *ret_nr)
{
	*ret_nr = session->nr_events;
	return session->events;
}

const struct session_info *session_info(const struct session *session)
{
	return &session->info;
}

bool session_feature(const struct session *session, enum feature_bit bit, struct span *ret)
{
	const struct file_header *header = &session->info.header;
	struct file_section section;

	for (const struct session_feature *record = session->records; record; record = record->next) {
		if (record->bit == bit) {
			*ret = (struct span){record->bytes, record->len};
			return true;
		}
	}
	/* Without a data size nothing says where the table would be. */
	if (!session->feature_table.ptr ||
	    feature_section(header->features, session->feature_table, bit, &section) != 1)
		return false;
	if (section.offset > session->whole.len || section.size > session->whole.len - section.offset)
		return false;
	*ret = (struct span){(const char *)session->whole.ptr + section.offset, section.size};
	return true;
}

/* The end, for whatever reason; what is still queued comes first. */
static void session_end(struct session *session, int result, const struct diag *why)
{
	session->ended = true;
	if (!session->result) {
		session->result = result;
		session->why = *why;
		diag_prefix(&session->why, "%s", strcmp(session->path, "-") ? session->path : "standard input");
	}
	order_finish(&session->order);
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

/* 1: to be delivered now; 0: taken care of; -errno. */
static int route(struct session *session, const struct source_record *in, struct diag *reterr)
{
	const struct perf_event_header *record = in->view.header;
	bool in_file_order = session->flags & SESSION_FILE_ORDER, deliver_all = session->flags & SESSION_ALL;
	struct order_entry entry = {.record = record, .offset = in->view.offset};

	if (record->type == RECORD_COMPRESSED || record->type == RECORD_COMPRESSED2)
		return diag_set(reterr, -ENOTSUP,
				"offset %#" PRIx64 ": compressed recordings are not supported by this version",
				in->view.offset);
	if (record->type >= RECORD_USER_FIRST) {
		int err = session_take(session, in, reterr);
		if (err)
			return err;
	}
	if (in_file_order)
		return 1;
	if (record->type == RECORD_FINISHED_ROUND) {
		int err = order_mark(&session->order);
		return err ? diag_set(reterr, err, "out of memory") : deliver_all;
	}
	if (!is_known(record->type)) {
		note_unknown(session, &in->view);
		return deliver_all;
	}
	if (record->type >= RECORD_USER_FIRST)
		return 1;
	if (record_time(session, record, &entry.time_ns))
		return wrong_record(record, in->view.offset, "too short for what its event samples", reterr);
	if (!entry.time_ns)
		return 1;
	int err = order_push(&session->order, &entry);
	if (err)
		return diag_set(reterr, err, "out of memory");
	source_hold(session->source, record);
	return 0;
}

/* The next record to deliver. 1, or 0 at the end. */
static int next_view(struct session *session, struct record_view *ret)
{
	struct order_entry entry;
	struct source_record in;
	struct diag why = {0};

	while (!order_pop(&session->order, &entry)) {
		if (session->ended)
			return 0;
		int got = source_next(session->source, &in, &why);
		if (got <= 0) {
			session_end(session, got, &why);
			continue;
		}
		got = route(session, &in, &why);
		if (got < 0)
			session_end(session, got, &why);
		if (got > 0) {
			*ret = in.view;
			return 1;
		}
	}
	*ret = (struct record_view){entry.record, entry.offset};
	session->delivered = entry.record;
	return 1;
}

int session_next(struct session *session, struct session_record *ret, struct diag *reterr)
{
	struct record_view view;
	struct diag why = {0};

	for (;;) {
		if (session->delivered)
			source_release(session->source, session->delivered);
		session->delivered = NULL;
		if (!next_view(session, &view))
			break;
		int err = decode(session, &view, ret, &why);
		if (!err) {
			session->info.position = view.offset;
			session->info.nr_late = session->order.nr_late;
			return 1;
		}
		session_end(session, err, &why);
	}
	if (session->result && reterr)
		*reterr = session->why;
	return session->result;
}
