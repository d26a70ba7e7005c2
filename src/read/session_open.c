/* SPDX-License-Identifier: MIT */
#include "read/session.h"

#include <ctype.h>
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
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "compress/extent_index.h"
#include "perfdata/feature.h"
#include "perfdata/header.h"
#include "read/group_split.h"
#include "read/session_state.h"
#include "read/unpack_pool.h"

enum { DIRECTORY_VERSION = 1 };

#define MAIN_FILE "data"
#define FILE_PREFIX "data."

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

static void close_directory(struct session *session)
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
	unpack_pool_free(directory->workers); /* after the sources, which give it work */
	merge_fini(&directory->merge);
	free(directory);
	session->directory = NULL;
}

void session_close(struct session *session)
{
	if (!session)
		return;
	close_directory(session);
	source_close(session->source);
	order_fini(&session->order);
	session_forget_events(session);
	if (session->mapped)
		munmap((void *)session->whole.ptr, session->whole.len);
	if (session->fd >= 0)
		close(session->fd);
	free(session->path);
	free(session->times);
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
 * features stands where they would be. No record begins as such a table: with the offset of what is right
 * behind it, or behind the private sections.
 */
static bool is_empty_part(const struct session *session, struct span table)
{
	const struct file_header *header = &session->info.header;
	int nr = count_features(session, table);
	struct file_section section;
	struct span block = {0};

	if (nr <= 0)
		return false;
	memcpy(&section, table.ptr, sizeof(section));
	feature_private_block(header->features, table, &block);
	return section.offset == header->data.offset + (uint64_t)nr * sizeof(section) + block.len;
}

static void find_private(struct session *session)
{
	const uint64_t *bits = session->info.header.features;

	if (feature_private_block(bits, session->feature_table, &session->private_block) < 0)
		log_note("%s: the loss ledger and the index of extents are damaged, or of a newer version: not used",
			 session->path);
}

/* Where the records of a file are; what its sizes promise is held against the size of the file. */
static int find_data(struct session *session, struct source_range *ret, struct diag *reterr)
{
	const struct file_section *data = &session->info.header.data;
	uint64_t file_bytes = session->whole.len;
	struct source_range range = {.whole = session->whole, .at = data->offset};

	if (data->offset > file_bytes)
		return diag_set(reterr, -EBADMSG,
				"offset 0x28: the data starts at %#" PRIx64 ", the file ends at %#" PRIx64,
				data->offset, file_bytes);
	struct span rest = {(const char *)session->whole.ptr + data->offset, file_bytes - data->offset};
	if (!data->size && is_empty_part(session, rest)) {
		session->feature_table = rest;
		find_private(session);
		range.end = data->offset;
	} else if (!data->size || data->size > rest.len) {
		range.shortage = data->size ? SOURCE_TRUNCATED : SOURCE_UNFINISHED;
		range.end = file_bytes;
	} else {
		range.end = data->offset + data->size;
		session->feature_table =
			(struct span){(const char *)session->whole.ptr + range.end, file_bytes - range.end};
		if (count_features(session, session->feature_table) < 0)
			range.shortage = SOURCE_UNDESCRIBED;
		else
			find_private(session);
	}
	*ret = range;
	return 0;
}

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
	struct source *plain;
	if (source_open_range(&range, &plain) || source_open_unpack(plain, true, &session->source))
		return diag_set(reterr, -ENOMEM, "out of memory");
	return 0;
}

/* All of it: 0; -ENODATA: the stream ends before; -errno. */
static int read_whole(struct session_stream stream, void *to, size_t len)
{
	while (len) {
		ssize_t got = stream.read(stream.ctx, to, len);
		if (got == -EINTR)
			continue;
		if (got <= 0)
			return got ? (int)got : -ENODATA;
		to = (char *)to + got;
		len -= (size_t)got;
	}
	return 0;
}

static int open_stream(struct session *session, struct session_stream stream, struct diag *reterr)
{
	uint64_t start[LAYOUT_PIPE_HEADER_BYTES / sizeof(uint64_t)];
	int err = read_whole(stream, start, sizeof(start));

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
	if (source_open_stream(stream, &session->stop, &plain) || source_open_unpack(plain, false, &session->source))
		return diag_set(reterr, -ENOMEM, "out of memory");
	return 0;
}

static int map_file(int fd, const struct stat *st, struct span *ret, struct diag *reterr)
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
	int err = map_file(session->fd, st, &session->whole, reterr);

	if (err)
		return err;
	session->mapped = session->info.one_file = true;
	return open_whole(session, reterr);
}

/* The file of another user could make us open what its paths name: only root's and one's own are trusted. */
static int check_owner(const struct stat *st, enum session_flags flags, struct diag *reterr)
{
	if (st->st_uid == 0 || st->st_uid == geteuid() || (flags & SESSION_FORCE))
		return 0;
	return diag_set(reterr, -EPERM, "belongs to uid %u, neither to root nor to you (read it all the same with -f)",
			(unsigned)st->st_uid);
}

/*
 * A data directory: `data` is a whole file, every other regular file whose name starts with "data." holds records of
 * one ring and nothing else. Source: tools/perf/util/data.c of perf 6.1 (facts) and directories that it wrote.
 */

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
	int err = check_owner(ret_st, session->flags, reterr);
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
	err = map_file(fd, &st, &file->bytes, reterr);
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
	directory->files = calloc(room, sizeof(*directory->files));
	if (!directory->files)
		return diag_set(reterr, -ENOMEM, "out of memory");
	directory->nr_files = 1;
	directory->nr_names = room;
	/* A build that cannot decompress says so when it meets what is compressed. */
	int err = unpack_pool_new(unpack_pool_useful_size(), &directory->workers);
	if (err && err != -ENOTSUP)
		return diag_set(reterr, err, "out of memory");
	directory->files[0].source = take_ptr(session->source);
	directory->files[0].name = strdup(MAIN_FILE);
	return directory->files[0].name ? 0 : diag_set(reterr, -ENOMEM, "out of memory");
}

/* A recorder numbers them from 0 on. */
static void note_missing(struct session *session, const struct name_list *names)
{
	uint64_t next = 0, nr = 0, first = 0;

	for (size_t i = 0; i < names->nr; i++) {
		const char *digits = names->entries[i]->d_name + strlen(FILE_PREFIX);
		char *end = NULL;
		const uint64_t number = strtoull(digits, &end, 10);
		if (!isdigit((unsigned char)*digits) || *end || number < next)
			continue;
		first = nr ? first : next;
		nr += number - next;
		next = number + 1;
	}
	session->info.nr_missing_files = nr;
	if (nr == 1)
		log_note("%s has no file " FILE_PREFIX "%" PRIu64 ": its records are missing", session->path, first);
	else if (nr)
		log_note("%s has no file " FILE_PREFIX "%" PRIu64 ", nor %" PRIu64
			 " others of lower numbers than those that are there: their records are missing",
			 session->path, first, nr - 1);
}

static int add_files(struct session *session, const struct name_list *names, struct diag *reterr)
{
	size_t nr_found = 0;
	int err = add_main(session, names->nr + 1, reterr);

	note_missing(session, names);
	for (size_t i = 0; i < names->nr && !err; i++)
		err = add_file(session, names->entries[i]->d_name, &nr_found, reterr);
	if (!err && !nr_found)
		err = diag_set(reterr, -EBADMSG,
			       "no file " FILE_PREFIX "* beside it: the records of the rings are missing");
	if (!err && merge_init(&session->directory->merge, session->directory->nr_files))
		err = diag_set(reterr, -ENOMEM, "out of memory");
	return err;
}

/*
 * Whether `data` says that there is more beside it: 1 or 0. A recording that was not finished does not say it, so the
 * files that are there decide.
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
	session->info.mtime_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
	err = map_file(fd, &st, &session->whole, reterr);
	if (!err) {
		session->mapped = true;
		err = open_whole(session, reterr);
	}
	if (err)
		diag_prefix(reterr, MAIN_FILE);
	return err;
}

static int open_directory(struct session *session, struct diag *reterr)
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
		log_note("%s/" MAIN_FILE
			 " does not say that it is a part of a data directory: the %zu files " FILE_PREFIX
			 "* beside it are not read",
			 session->path, names.nr);
	return parts;
}

static int open_path(struct session *session, struct diag *reterr)
{
	struct stat st;

	session->fd = open(session->path, O_RDONLY | O_CLOEXEC);
	if (session->fd < 0)
		return diag_set(reterr, -errno, "%s", strerror(errno));
	if (fstat(session->fd, &st) < 0)
		return diag_set(reterr, -errno, "%s", strerror(errno));
	session->info.can_reopen = S_ISDIR(st.st_mode) || S_ISREG(st.st_mode);
	if (S_ISDIR(st.st_mode))
		return open_directory(session, reterr);
	int err = check_owner(&st, session->flags, reterr);
	if (err)
		return err;
	session->info.mtime_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
	if (S_ISREG(st.st_mode))
		return open_regular(session, &st, reterr);
	return open_stream(session, source_stream_of(session->fd), reterr);
}

int session_open(const char *path, enum session_flags flags, struct session **ret, struct diag *reterr)
{
	AUTO_SESSION struct session *session = NULL;
	int err = session_new(path, flags, &session);

	if (err)
		return diag_set(reterr, err, "out of memory");
	if (!strcmp(path, "-"))
		err = open_stream(session, source_stream_of(STDIN_FILENO), reterr);
	else
		err = open_path(session, reterr);
	if (err) {
		diag_prefix(reterr, "%s", strcmp(path, "-") ? path : "standard input");
		return err;
	}
	*ret = take_ptr(session);
	return 0;
}

int session_open_stream(struct session_stream stream, enum session_flags flags, struct session **ret,
			struct diag *reterr)
{
	AUTO_SESSION struct session *session = NULL;
	int err = session_new("stream", flags, &session);

	if (err)
		return diag_set(reterr, err, "out of memory");
	err = open_stream(session, stream, reterr);
	if (err)
		return err;
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

uint64_t session_nr_compressed(const struct session *session, enum user_record_type type)
{
	bool second = type == RECORD_COMPRESSED2;
	uint64_t nr = session->source ? session->source->nr_compressed[second] : 0;

	for (size_t i = 0; session->directory && i < session->directory->nr_files; i++)
		nr += session->directory->files[i].source->nr_compressed[second];
	return nr;
}

/* Samples of these times may depend on task events before them, never on later records. */
static bool is_needed(const struct extent_fields *fields, const struct session *session)
{
	for (size_t i = 0; i < session->nr_times; i++) {
		const struct session_times *times = &session->times[i];
		bool is_later = fields->first_ns > times->last_ns && !(session->flags & SESSION_LATER);
		if (!is_later && (fields->nr_others || fields->last_ns >= times->first_ns))
			return true;
	}
	return false;
}

struct skip_list {
	struct source_skip *skips; /* heap */
	size_t nr;
};

static int list_skips(const struct session *session, uint32_t part, struct skip_list *ret)
{
	struct extent_reader reader;
	struct extent_fields fields;
	struct span payload, counts;
	struct skip_list list = {0};

	if (!session_feature(session, FEATURE_EXTENT_INDEX, &payload) || extent_reader_open(payload, &reader))
		return 0;
	list.skips = calloc(payload.len / sizeof(fields) + 1, sizeof(*list.skips));
	if (!list.skips)
		return -ENOMEM;
	/* Of an index that is not whole what there is serves, too. */
	while (extent_reader_next(&reader, &fields, &counts) == 1)
		if (fields.part == part && !is_needed(&fields, session))
			list.skips[list.nr++] = (struct source_skip){fields.offset, fields.packed_bytes};
	*ret = list;
	return 0;
}

static int skip_in(const struct session *session, struct source *source, uint32_t part)
{
	struct skip_list list = {0};
	int err = list_skips(session, part, &list);

	if (!err && list.skips)
		source_skip(source, list.skips, list.nr);
	return err;
}

void session_stop_at(struct session *session, const volatile sig_atomic_t *stop)
{
	session->stop = stop;
}

bool session_has_later(const struct session *session, struct session_times *ret)
{
	if (!(session->flags & SESSION_LATER) || !session->nr_times)
		return false;
	*ret = session->times[0];
	return true;
}

int session_limit_time(struct session *session, const struct session_times *times, size_t nr)
{
	struct session_times *copy = calloc(nr, sizeof(*copy));
	int err = 0;

	if (!copy)
		return -ENOMEM;
	memcpy(copy, times, nr * sizeof(*copy));
	free(session->times);
	session->times = copy;
	session->nr_times = nr;
	if (session->flags & SESSION_FILE_ORDER)
		return 0; /* of a dump nothing is left out */
	for (size_t i = 0; i < session->nr_events; i++)
		if (group_split_has(&session->events[i].attr))
			return 0; /* samples count from the values of those before them */
	if (!session->directory)
		return skip_in(session, session->source, 0);
	for (size_t i = 0; i < session->directory->nr_files && !err; i++) {
		const struct session_file *file = &session->directory->files[i];
		uint32_t part = i ? extent_part_of(file->name) : 0;
		if (part != EXTENT_NO_PART)
			err = skip_in(session, file->source, part);
	}
	return err;
}
