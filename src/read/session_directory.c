/* SPDX-License-Identifier: MIT */
/*
 * A data directory: `data` is a whole file, every other regular file whose name starts with "data." holds records of
 * one ring and nothing else. Source: tools/perf/util/data.c of perf 6.1 (facts) and directories that it wrote.
 *
 * There are no round marks. `data` is read first, to its end: what it holds has no time, or little of it has. Then the
 * files are merged by time; see merge.h for what bounds the memory.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "format/feature.h"
#include "read/session_state.h"
#include "read/unpack_job.h"

enum { DIRECTORY_VERSION = 1 };

#define MAIN_FILE "data"
#define FILE_PREFIX "data."

void session_close_directory(struct session *session)
{
	struct session_directory *directory = session->directory;

	if (!directory)
		return;
	for (size_t i = 0; i < directory->nr_files; i++) {
		struct session_file *file = &directory->files[i];
		source_close(file->source);
		if (file->bytes.ptr)
			munmap((void *)file->bytes.ptr, file->bytes.len);
		free(file->name);
	}
	free(directory->files);
	unpack_workers_free(directory->workers); /* after the sources, which give it work */
	merge_fini(&directory->merge);
	free(directory);
	session->directory = NULL;
}

/* The end of a file, for whatever reason. */
static void end_file(struct session *session, size_t index, int result, const struct diag *why)
{
	struct session_directory *directory = session->directory;
	struct session_file *file = &directory->files[index];

	session_fail(session, file->name, result, why);
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
		session_gap(session, file->name, &why);
		return 0;
	}
	if (got <= 0) {
		end_file(session, index, got, &why);
		return 0;
	}
	in.view.file = file->name;
	int route = session_route(session, &in, &entry, &why);
	if (route == SESSION_SORT) {
		int err = index ? merge_put(&directory->merge, index, &entry) : order_push(&session->order, &entry);
		if (err)
			route = diag_set(&why, err, "out of memory");
		else
			source_hold(file->source, entry.record);
	}
	if (route < 0)
		end_file(session, index, route, &why);
	/* A mark would be of all rings, so in the file of one it means nothing. */
	if (route != SESSION_DELIVER && !(route == SESSION_MARK && session->flags & SESSION_ALL))
		return 0;
	*ret = in.view;
	session_deliver(session, file->source, ret);
	return 1;
}

/* What `data` holds with a time is one more lane. */
static void feed_main(struct session *session)
{
	struct merge *merge = &session->directory->merge;
	struct order_entry entry;
	struct diag why;

	if (!order_pop(&session->order, &entry)) {
		merge_end(merge, 0);
	} else if (merge_put(merge, 0, &entry)) {
		session_fail(session, MAIN_FILE, diag_set(&why, -ENOMEM, "out of memory"), &why);
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
	while (merge_hungry(&directory->merge, &index)) {
		if (!index)
			feed_main(session);
		else if (read_one(session, index, ret))
			return 1;
	}
	if (!merge_pop(&directory->merge, &entry, &index))
		return 0;
	*ret = (struct record_view){entry.record, entry.offset, directory->files[index].name};
	session->delivered = (struct session_held){entry.record, directory->files[index].source};
	session->info.nr_late = directory->merge.nr_late;
	return 1;
}

static const struct session_way directory_way = {
	.next = directory_next,
};

/* Opens a regular file, whatever else has its name; *ret -1: it is none. */
static int open_file(const struct session *session, const char *name, int *ret, struct stat *ret_st,
		     struct diag *reterr)
{
	AUTO_FD int fd = openat(session->fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 || fstat(fd, ret_st) < 0)
		return diag_set(reterr, -errno, "%s: %s", name, strerror(errno));
	if (!S_ISREG(ret_st->st_mode)) {
		*ret = -1;
		return 0;
	}
	int err = session_check_owner(ret_st, session->flags, reterr);
	if (err) {
		diag_prefix(reterr, "%s", name);
		return err;
	}
	*ret = take_fd(&fd);
	return 0;
}

/* The names that may be files of records, data.2 before data.10. */
struct name_list {
	struct dirent **entries;
	size_t nr;
};

static void names_fini(struct name_list *names)
{
	for (size_t i = 0; i < names->nr; i++)
		free(names->entries[i]);
	free(names->entries);
}
#define AUTO_NAMES __attribute__((cleanup(names_fini)))

static int is_data_name(const struct dirent *entry)
{
	return !strncmp(entry->d_name, FILE_PREFIX, sizeof(FILE_PREFIX) - 1);
}

static int list_names(const struct session *session, struct name_list *ret, struct diag *reterr)
{
	int nr = scandirat(session->fd, ".", &ret->entries, is_data_name, versionsort);

	if (nr < 0)
		return diag_set(reterr, -errno, "%s", strerror(errno));
	ret->nr = (size_t)nr;
	return 0;
}

/* A file is mapped and closed: there may be more of them than a process can have open. */
static int add_file(struct session *session, const char *name, size_t *nr_found, struct diag *reterr)
{
	struct session_directory *directory = session->directory;
	struct session_file *file = &directory->files[directory->nr_files];
	AUTO_FD int fd = -1;
	struct stat st;
	int err = open_file(session, name, &fd, &st, reterr);

	if (err || fd < 0)
		return err;
	++*nr_found;
	if (!st.st_size)
		return 0;
	file->name = strdup(name);
	if (!file->name)
		return diag_set(reterr, -ENOMEM, "out of memory");
	directory->nr_files++; /* from here on it is closed with the others */
	err = session_map(fd, &st, &file->bytes, reterr);
	if (err) {
		diag_prefix(reterr, "%s", name);
		return err;
	}
	struct source_range range = {.whole = file->bytes, .end = file->bytes.len};
	struct source *plain;
	if (source_open_range(&range, &plain) ||
	    source_open_unpack_beside(plain, directory->workers, directory->nr_names, &file->source))
		return diag_set(reterr, -ENOMEM, "out of memory");
	session->info.file_bytes += file->bytes.len;
	return 0;
}

/* `data` becomes the first of the files. */
static int add_main(struct session *session, size_t room, struct diag *reterr)
{
	struct session_directory *directory = calloc(1, sizeof(*directory));

	if (!directory)
		return diag_set(reterr, -ENOMEM, "out of memory");
	session->directory = directory;
	session->way = &directory_way;
	directory->files = calloc(room, sizeof(*directory->files));
	if (!directory->files)
		return diag_set(reterr, -ENOMEM, "out of memory");
	directory->nr_files = 1;
	directory->nr_names = room;
	/* A build that cannot decompress says so when it meets what is compressed. */
	int err = unpack_workers_new(unpack_workers_useful(), &directory->workers);
	if (err && err != -ENOTSUP)
		return diag_set(reterr, err, "out of memory");
	directory->files[0].source = take_ptr(session->source);
	directory->files[0].name = strdup(MAIN_FILE);
	return directory->files[0].name ? 0 : diag_set(reterr, -ENOMEM, "out of memory");
}

static int add_files(struct session *session, const struct name_list *names, struct diag *reterr)
{
	size_t nr_found = 0;
	int err = add_main(session, names->nr + 1, reterr);

	for (size_t i = 0; i < names->nr && !err; i++)
		err = add_file(session, names->entries[i]->d_name, &nr_found, reterr);
	if (!err && !nr_found)
		err = diag_set(reterr, -EBADMSG, "no file " FILE_PREFIX "* beside it: the records of the rings are missing");
	if (!err && merge_init(&session->directory->merge, session->directory->nr_files))
		err = diag_set(reterr, -ENOMEM, "out of memory");
	return err;
}

/*
 * Whether `data` says that there is more beside it: 1 or 0. Of a recording that was not finished nobody knows, so what
 * is there decides.
 */
static int has_parts(const struct session *session, const struct name_list *names, struct diag *reterr)
{
	struct span payload;
	uint64_t version;

	if (!session->info.pipe && !session->feature_table.ptr)
		return names->nr > 0;
	if (!session_feature(session, FEATURE_DIR_FORMAT, &payload))
		return 0;
	if (feature_decode_u64(payload, &version))
		return diag_set(reterr, -EBADMSG, MAIN_FILE ": the version of the data directory is not whole");
	if (version != DIRECTORY_VERSION)
		return diag_set(reterr, -EBADMSG,
				MAIN_FILE ": a data directory of version %" PRIu64 "; this program knows version %d",
				version, DIRECTORY_VERSION);
	return 1;
}

static int open_main(struct session *session, struct diag *reterr)
{
	AUTO_FD int fd = -1;
	struct stat st;
	int err = open_file(session, MAIN_FILE, &fd, &st, reterr);

	if (err == -ENOENT)
		return diag_set(reterr, -EISDIR, "a directory without a file \"" MAIN_FILE "\" is no recording");
	if (!err && fd < 0)
		err = diag_set(reterr, -EBADMSG, MAIN_FILE ": not a regular file");
	if (err)
		return err;
	session->info.mtime = st.st_mtime;
	err = session_map(fd, &st, &session->whole, reterr);
	if (!err) {
		session->mapped = true;
		err = session_open_whole(session, reterr);
	}
	if (err)
		diag_prefix(reterr, MAIN_FILE);
	return err;
}

int session_open_directory(struct session *session, struct diag *reterr)
{
	AUTO_NAMES struct name_list names = {0};
	int err = open_main(session, reterr);

	if (!err)
		err = list_names(session, &names, reterr);
	if (err)
		return err;
	int parts = has_parts(session, &names, reterr);
	if (parts > 0)
		return add_files(session, &names, reterr);
	session->file_name = MAIN_FILE;
	if (parts == 0 && names.nr)
		log_note("%s/" MAIN_FILE " does not say that it is a part of a data directory: the %zu files " FILE_PREFIX
			 "* beside it are not read", session->path, names.nr);
	return parts;
}
