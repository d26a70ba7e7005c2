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
	session->way = &session_single;
	session->flags = flags;
	session->times.last_ns = UINT64_MAX;
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
	session_close_directory(session);
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

/* How many features there are by a table of them; -EBADMSG: not all of what it or the header tells is in the file. */
static int count_features(const struct session *session, struct span table)
{
	uint64_t file_bytes = session->whole.len;
	struct file_section section;
	int nr = 0;

	for (unsigned bit = 0; bit < FEATURE_BITS; bit++) {
		int got = feature_section(session->info.header.features, table, bit, &section);
		if (got < 0 || (got && (section.offset > file_bytes || section.size > file_bytes - section.offset)))
			return -EBADMSG;
		nr += got;
	}
	return nr;
}

/*
 * A finished file may have no records at all, as the `data` of a directory or a part of a rotation: then its table of
 * features stands where they would be. No record begins as such a table: with the offset of what is right behind it.
 */
static bool is_empty_part(const struct session *session, struct span table)
{
	const struct file_header *header = &session->info.header;
	int nr = count_features(session, table);
	struct file_section section;

	if (nr <= 0)
		return false;
	memcpy(&section, table.ptr, sizeof(section));
	return section.offset == header->data.offset + (uint64_t)nr * sizeof(section);
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
	struct span rest = {(const char *)session->whole.ptr + data->offset, file_bytes - data->offset};
	if (!data->size && is_empty_part(session, rest)) {
		session->feature_table = rest;
		range.end = data->offset;
	} else if (!data->size || data->size > rest.len) {
		range.shortage = data->size ? SOURCE_TRUNCATED : SOURCE_UNFINISHED;
		range.end = file_bytes;
	} else {
		range.end = data->offset + data->size;
		session->feature_table = (struct span){(const char *)session->whole.ptr + range.end,
						       file_bytes - range.end};
		if (count_features(session, session->feature_table) < 0)
			range.shortage = SOURCE_UNDESCRIBED;
	}
	*ret = range;
	return 0;
}

int session_open_whole(struct session *session, struct diag *reterr)
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
	struct source *plain;
	if (source_open_range(&range, &plain) || source_open_unpack(plain, true, &session->source))
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
	struct source *plain;
	if (source_open_pipe(fd, &plain) || source_open_unpack(plain, false, &session->source))
		return diag_set(reterr, -ENOMEM, "out of memory");
	return 0;
}

int session_map(int fd, const struct stat *st, struct span *ret, struct diag *reterr)
{
	if (st->st_size == 0)
		return diag_set(reterr, -EBADMSG, "the file is empty");
	void *map = mmap(NULL, (size_t)st->st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return diag_set(reterr, -errno, "mapping the file: %s", strerror(errno));
	*ret = (struct span){map, (size_t)st->st_size};
	return 0;
}

static int open_regular(struct session *session, const struct stat *st, struct diag *reterr)
{
	int err = session_map(session->fd, st, &session->whole, reterr);

	if (err)
		return err;
	session->mapped = true;
	return session_open_whole(session, reterr);
}

/* A file of somebody else could make us open what its paths name: only root's and one's own are trusted. */
int session_check_owner(const struct stat *st, enum session_flags flags, struct diag *reterr)
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
		return session_open_directory(session, reterr);
	int err = session_check_owner(&st, session->flags, reterr);
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
	err = session_open_whole(session, reterr);
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
