/* SPDX-License-Identifier: MIT */
#include "record/output/recover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "compress/extent.h"
#include "compress/extent_index.h"
#include "event/names/names.h"
#include "perfdata/attr.h"
#include "perfdata/feature.h"
#include "perfdata/header.h"
#include "perfdata/ledger.h"
#include "record/build_ids/collector.h"
#include "record/features/features.h"
#include "record/output/finish.h"
#include "record/output/record_end.h"

enum {
	MAX_ATTRS_BYTES = 64 << 20,
	TAIL_BYTES_MAX = 1 << 30,
	/* No COMPRESSED record of perf gives more than a ring; how large those were, only its end would tell. */
	FOREIGN_MMAP_BYTES = 16 << 20,
};

/* Everything that one recovery holds. */
struct recovery {
	const struct recover_params *params;
	const char *name; /* in messages */
	char *main_path;  /* heap; what its main file is called there */
	int fd;           /* of the main file */
	uint64_t file_bytes;
	int64_t until_ns; /* CLOCK_REALTIME: when any of its files was last written */
	struct file_header header;
	struct event_desc *events; /* heap */
	size_t nr_events;
	char **tracepoints; /* heap; "sys:event" */
	size_t nr_tracepoints;
	struct collect_region *parts; /* heap; of a directory; their fds are ours */
	size_t nr_parts;
	bool directory, compressed, framed;
	bool in_use; /* another process has it open for writing */
	struct recover_result result;
	size_t *damage_ends; /* heap; of result.damage: where that of the file itself ends, then of each part */
};

static void recovery_fini(struct recovery *rec)
{
	for (size_t i = 0; i < rec->nr_events; i++)
		event_desc_fini(&rec->events[i]);
	for (size_t i = 0; i < rec->nr_tracepoints; i++)
		free(rec->tracepoints[i]);
	for (size_t i = 0; i < rec->nr_parts; i++)
		close(rec->parts[i].fd);
	free(rec->events);
	free(rec->tracepoints);
	free(rec->parts);
	free(rec->main_path);
	free(rec->damage_ends);
	damage_list_fini(&rec->result.damage);
	if (rec->fd >= 0)
		close(rec->fd);
}

static int open_file(const struct recovery *rec, int dir_fd, const char *name, struct stat *ret_st, struct diag *reterr)
{
	int fd = openat(dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0 || fstat(fd, ret_st))
		return diag_set(reterr, -errno, "%s: %s", name, strerror(errno));
	if (!S_ISREG(ret_st->st_mode) || (ret_st->st_uid && ret_st->st_uid != geteuid() && !rec->params->force)) {
		close(fd);
		return diag_set(reterr, -EPERM, "%s: %s", name,
				S_ISREG(ret_st->st_mode)
					? "belongs to neither root nor you (recover it all the same with -f)"
					: "is no file");
	}
	return fd;
}

/*
 * Whether anyone can write to the file: a read lease is given only where none can (fcntl(2), "Leases"). Where a file
 * system has no leases, or the file is another user's, that is not known: false. To be called before it is opened here.
 * The kernel closes what an io_uring of a recorder has some time after that was killed.
 */
static bool is_open_for_writing(const char *path)
{
	enum { LOOKS = 50, INTERVAL_US = 20000 };
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct sigaction before, ignore = {.sa_handler = SIG_IGN};
	bool refused = true;

	if (fd < 0 || sigaction(SIGIO, &ignore, &before)) /* which is for who has a lease that is in another's way */
		return false;
	for (unsigned i = 0; i < LOOKS && refused; i++) {
		if (i)
			usleep(INTERVAL_US);
		refused = fcntl(fd, F_SETLEASE, F_RDLCK) && errno == EAGAIN;
	}
	if (!refused)
		(void)!fcntl(fd, F_SETLEASE, F_UNLCK);
	sigaction(SIGIO, &before, NULL);
	return refused;
}

/* Before the first change: what a recorder still writes would be cut off, or stand where it does not look for it. */
static int check_unused(const struct recovery *rec, struct diag *reterr)
{
	return rec->in_use
		       ? diag_set(reterr, -EBUSY,
				  "%s is still written to, by its recorder: it is left as it is (a copy of what there "
				  "is now is made whole with -o FILE)",
				  rec->name)
		       : 0;
}

static void note_time(struct recovery *rec, const struct stat *st)
{
	const int64_t written_ns = st->st_mtim.tv_sec * INT64_C(1000000000) + st->st_mtim.tv_nsec;

	rec->until_ns = written_ns > rec->until_ns ? written_ns : rec->until_ns;
}

static int add_part(struct recovery *rec, int dir_fd, const char *name, struct diag *reterr)
{
	struct collect_region *grown = reallocarray(rec->parts, rec->nr_parts + 1, sizeof(*grown));
	struct stat st;

	if (!grown)
		return diag_set(reterr, -ENOMEM, "out of memory");
	rec->parts = grown;
	int fd = open_file(rec, dir_fd, name, &st, reterr);
	if (fd < 0)
		return fd;
	note_time(rec, &st);
	grown[rec->nr_parts++] =
		(struct collect_region){.fd = fd, .bytes = (uint64_t)st.st_size, .part = extent_part_of(name)};
	return 0;
}

/* A recorder numbers them from 0 on. */
static void note_missing_parts(const struct recovery *rec)
{
	size_t end = 0, nr = 0;

	for (size_t i = 0; i < rec->nr_parts; i++) {
		const uint32_t part = rec->parts[i].part;
		if (part == EXTENT_NO_PART)
			continue;
		end = part > end ? part : end;
		nr++;
	}
	if (end > nr)
		log_note("%s lacks %zu of the files data.0 to data.%zu: their records cannot be recovered", rec->name,
			 end - nr, end - 1);
}

static int open_parts(struct recovery *rec, struct diag *reterr)
{
	DIR *dir = opendir(rec->params->path);
	int err = 0;

	if (!dir)
		return diag_set(reterr, -errno, "%s: %s", rec->name, strerror(errno));
	for (struct dirent *entry; !err && (entry = readdir(dir));)
		if (!strncmp(entry->d_name, "data.", 5))
			err = add_part(rec, dirfd(dir), entry->d_name, reterr);
	closedir(dir);
	if (!err)
		note_missing_parts(rec);
	return err;
}

/* Heap; NULL: out of memory. */
static char *main_path_of(const struct recovery *rec, const char *path)
{
	char *main;

	return asprintf(&main, rec->directory ? "%s/data" : "%s", path) < 0 ? NULL : main;
}

static int open_all(struct recovery *rec, struct diag *reterr)
{
	AUTO_FREE char *path = NULL;
	struct stat st;

	if (lstat(rec->params->path, &st))
		return diag_set(reterr, -errno, "%s: %s", rec->name, strerror(errno));
	if (S_ISLNK(st.st_mode))
		return diag_set(reterr, -ELOOP, "%s is a link of another user: it is not followed", rec->name);
	rec->directory = S_ISDIR(st.st_mode);
	path = main_path_of(rec, rec->params->path);
	rec->main_path = main_path_of(rec, rec->name);
	if (!path || !rec->main_path)
		return diag_set(reterr, -ENOMEM, "out of memory");
	rec->in_use = is_open_for_writing(path);
	rec->fd = open_file(rec, AT_FDCWD, path, &st, reterr);
	if (rec->fd < 0)
		return rec->fd;
	rec->file_bytes = (uint64_t)st.st_size;
	note_time(rec, &st);
	return rec->directory ? open_parts(rec, reterr) : 0;
}

static int read_header(struct recovery *rec, struct diag *reterr)
{
	uint8_t bytes[sizeof(struct file_header)];
	size_t len = rec->file_bytes < sizeof(bytes) ? (size_t)rec->file_bytes : sizeof(bytes);
	bool pipe;

	if (fd_pread(rec->fd, bytes, len, 0))
		return diag_set(reterr, -EIO, "%s: cannot be read", rec->main_path);
	int err = header_decode((struct span){bytes, len}, &rec->header, &pipe, reterr);
	if (err) {
		diag_prefix(reterr, "%s", rec->main_path);
		return err;
	}
	if (pipe)
		return diag_set(reterr, -ENOTSUP,
				"%s has the layout of a pipe, which needs no recovery: read it as it is",
				rec->main_path);
	if (rec->header.size != sizeof(rec->header) || rec->header.data.offset < rec->header.size ||
	    rec->header.data.offset > rec->file_bytes)
		return diag_set(reterr, -EBADMSG, "%s: no record is left", rec->main_path);
	return 0;
}

/* The bytes of a section, if it lies before the records, where nothing is written. */
static int read_section(const struct recovery *rec, struct file_section section, struct buf *ret)
{
	uint64_t end = rec->header.data.offset;

	if (section.size > MAX_ATTRS_BYTES || section.offset > end || section.size > end - section.offset)
		return -EBADMSG;
	if (!section.size)
		return 0;
	void *into = buf_extend(ret, (size_t)section.size);
	return !into ? -ENOMEM : fd_pread(rec->fd, into, (size_t)section.size, section.offset);
}

static int read_event(struct recovery *rec, struct span at, size_t *ret_used)
{
	AUTO_BUF struct buf ids = {0};
	struct event_desc *event = &rec->events[rec->nr_events];
	struct file_section section;
	struct perf_event_attr attr;
	size_t size;
	int err = attr_decode(at, &attr, &size);

	if (err || at.len - size < sizeof(section))
		return -EBADMSG;
	memcpy(&section, (const uint8_t *)at.ptr + size, sizeof(section));
	err = read_section(rec, section, &ids);
	if (err)
		return err;
	if (rec->nr_events && rec->header.attr_size != size + sizeof(section))
		return -EBADMSG;
	rec->header.attr_size = size + sizeof(section); /* not what a damaged header says */
	*event = (struct event_desc){.attr = attr, .name = attr_name(&attr)};
	rec->nr_events++;
	if (!event->name)
		return -ENOMEM;
	event->nr_ids = ids.len / sizeof(uint64_t);
	event->ids = (uint64_t *)(void *)take_ptr(ids.data);
	*ret_used = size + sizeof(section);
	return 0;
}

static int read_events(struct recovery *rec, struct diag *reterr)
{
	AUTO_BUF struct buf attrs = {0};
	int err = read_section(rec, rec->header.attrs, &attrs);
	size_t used = 0;

	rec->events = calloc(attrs.len / LAYOUT_ATTR_MIN_BYTES + 1, sizeof(*rec->events));
	if (!rec->events)
		err = -ENOMEM;
	for (size_t at = 0; at < attrs.len && !err; at += used)
		err = read_event(rec, (struct span){attrs.data + at, attrs.len - at}, &used);
	if (!err && !rec->nr_events)
		err = -EBADMSG;
	return err ? diag_set(reterr, err, "%s: its events cannot be read: %s", rec->main_path, strerror(-err)) : 0;
}

static bool in_file(const struct recovery *rec, const struct file_section *section)
{
	return section->offset <= rec->file_bytes && section->size <= rec->file_bytes - section->offset;
}

static int read_error(const struct recovery *rec, int err, struct diag *reterr)
{
	return diag_set(reterr, err, "%s: cannot be read to its end, and is left as it is: %s", rec->name,
			strerror(-err));
}

/* What cannot be read is not cut off: it may be whole. 0 or -errno. */
static int find_end(const struct recovery *rec, const struct collect_region *of, struct record_end *ret,
		    struct diag *reterr)
{
	*ret = record_end_find(of->fd, of->offset, of->bytes);
	return ret->err ? read_error(rec, ret->err, reterr) : 0;
}

/*
 * Do the records reach to the end of the region? Of a recording that was finished those of later versions count, too.
 * 1, 0 or -errno.
 */
static int reaches_end(struct recovery *rec, const struct collect_region *region, struct diag *reterr)
{
	struct record_end found;
	int err = find_end(rec, region, &found, reterr);

	rec->compressed |= found.compressed;
	if (err || !found.unknown)
		return err ? err : found.bytes == region->bytes;
	int64_t bytes = whole_records(region->fd, region->offset, region->bytes);
	return bytes < 0 ? read_error(rec, (int)bytes, reterr) : (uint64_t)bytes == region->bytes;
}

/* Is the end there that the header tells of? 1, 0 or -errno. */
static int is_finished(const struct recovery *rec, struct diag *reterr)
{
	struct file_section table[FEATURE_BITS];
	const struct file_header *header = &rec->header;
	uint64_t end = header->data.offset + header->data.size;
	size_t nr = 0;

	for (size_t i = 0; i < LAYOUT_FEATURE_WORDS; i++)
		nr += (size_t)__builtin_popcountll(header->features[i]);
	/* A file without records may be whole, too: no record looks like a table of sections. */
	if (!nr || !in_file(rec, &header->data))
		return 0;
	int err = fd_pread(rec->fd, table, nr * sizeof(*table), end);
	if (err)
		return err == -ENODATA ? 0 : read_error(rec, err, reterr);
	for (size_t i = 0; i < nr; i++)
		if (!in_file(rec, &table[i]) || table[i].offset < end)
			return 0;
	/* A directory is finished ahead, but for what only the data tell: write_provisional_header(). */
	if (rec->nr_parts && !(header->features[0] >> FEATURE_SAMPLE_TIME & 1))
		return 0;
	return 1;
}

/* Of a finished recording. 1, 0 or -errno. */
static int all_reach_end(struct recovery *rec, struct diag *reterr)
{
	const struct file_header *header = &rec->header;

	for (size_t i = 0; i < rec->nr_parts; i++) {
		int reaches = reaches_end(rec, &rec->parts[i], reterr);
		if (reaches <= 0)
			return reaches;
	}
	const struct collect_region main = {.fd = rec->fd, .offset = header->data.offset, .bytes = header->data.size};
	return reaches_end(rec, &main, reterr);
}

static int name_tracepoint(const struct tracepoint *tracepoint, void *data)
{
	struct recovery *rec = data;
	char *name = NULL;

	for (size_t i = 0; i < rec->nr_events; i++) {
		struct event_desc *event = &rec->events[i];
		if (event->attr.type != PERF_TYPE_TRACEPOINT || event->attr.config != tracepoint->id)
			continue;
		if (!name && asprintf(&name, "%s:%s", tracepoint->system, tracepoint->name) < 0)
			return -ENOMEM;
		free(event->name);
		event->name = strdup(name);
		if (!event->name) {
			free(name);
			return -ENOMEM;
		}
	}
	if (name)
		rec->tracepoints[rec->nr_tracepoints++] = name;
	return 0;
}

/* The file knows tracepoints by their numbers only. */
static int name_tracepoints(struct recovery *rec, struct diag *reterr)
{
	size_t nr = 0;

	for (size_t i = 0; i < rec->nr_events; i++)
		nr += rec->events[i].attr.type == PERF_TYPE_TRACEPOINT;
	if (!nr)
		return 0;
	const char *tracefs = tracefs_path(reterr);
	rec->tracepoints = calloc(nr + 1, sizeof(*rec->tracepoints));
	if (!tracefs || !rec->tracepoints)
		return tracefs ? diag_set(reterr, -ENOMEM, "out of memory") : -ENOENT;
	int err = tracepoint_visit(tracefs, "*", "*", name_tracepoint, rec, reterr);
	if (err)
		return err;
	return rec->nr_tracepoints ? 0
				   : diag_set(reterr, -ENOENT,
					      "none of the tracepoints of %s is known here: recover it "
					      "on the machine where it was recorded",
					      rec->name);
}

/* Cuts what is behind the last whole record of each part. */
static int cut_parts(struct recovery *rec, struct diag *reterr)
{
	for (size_t i = 0; i < rec->nr_parts; i++) {
		struct collect_region *part = &rec->parts[i];
		struct record_end end;
		int err = find_end(rec, part, &end, reterr);
		if (err)
			return err;
		rec->compressed |= end.compressed;
		rec->framed |= end.framed;
		rec->result.dropped_bytes += part->bytes - end.bytes;
		rec->result.data_bytes += end.bytes;
		if (end.bytes != part->bytes && ftruncate(part->fd, (off_t)end.bytes))
			return diag_set(reterr, -errno, "%s: cannot be cut to its length: %s", rec->name,
					strerror(errno));
		part->bytes = end.bytes;
	}
	return 0;
}

/* What was cut off is not damage that stays. `main_bytes`: of records of the file itself. */
static void forget_cut_damage(struct recovery *rec, uint64_t main_bytes)
{
	struct damage_list *list = &rec->result.damage;
	size_t kept = 0;

	for (size_t region = 0, i = 0; region <= rec->nr_parts; region++) {
		const uint64_t end = region ? rec->parts[region - 1].bytes : rec->header.data.offset + main_bytes;
		for (; i < rec->damage_ends[region]; i++) {
			struct damage *damage = &list->items[i];
			if (damage->offset >= end)
				continue;
			if (damage->bytes > end - damage->offset)
				damage->bytes = end - damage->offset;
			list->items[kept++] = *damage;
		}
	}
	list->nr = kept;
}

/* Where the header tells how much there is, what stands behind may be features. */
static uint64_t data_room(const struct recovery *rec)
{
	uint64_t room = rec->file_bytes - rec->header.data.offset;
	bool finished = false;

	for (size_t i = 0; i < LAYOUT_FEATURE_WORDS; i++)
		finished |= rec->header.features[i] != 0;
	return finished && rec->header.data.size && rec->header.data.size < room ? rec->header.data.size : room;
}

static int make_whole(struct recovery *rec, struct diag *reterr)
{
	uint64_t room = data_room(rec);
	const struct collect_region main = {.fd = rec->fd, .offset = rec->header.data.offset, .bytes = room};
	struct record_end end;
	int err = find_end(rec, &main, &end, reterr);
	if (err)
		return err;
	struct finish_result finished;
	struct feature_compressed how = {.type = FEATURE_COMPRESSED_ZSTD, .level = 1, .ratio = 1};
	struct features_params features = {
		.events = rec->events,
		.nr_events = rec->nr_events,
		.argc = rec->params->argc,
		.argv = rec->params->argv,
		.tracepoints = (const char *const *)rec->tracepoints,
		.nr_tracepoints = rec->nr_tracepoints,
	};
	struct finish_params params = {
		.fd = rec->fd,
		.path = rec->main_path,
		.header = rec->header,
		.data_bytes = end.bytes,
		.features = &features,
		.build_ids = rec->params->build_ids,
		.until_ns = rec->until_ns,
		.shows_progress = true,
		.parts = rec->parts,
		.nr_parts = rec->nr_parts,
	};

	err = cut_parts(rec, reterr);
	if (err)
		return err;
	rec->framed |= end.framed;
	/* Extents of earlier versions went into one record each. */
	how.mmap_bytes = rec->framed ? EXTENT_BYTES_SMALL + (uint32_t)sysconf(_SC_PAGESIZE) : FOREIGN_MMAP_BYTES;
	features.compressed = rec->compressed || end.compressed ? &how : NULL;
	memset(params.header.features, 0, sizeof(params.header.features));
	if (!rec->params->leave_out)
		forget_cut_damage(rec, end.bytes);
	err = finish_file(&params, &finished, reterr);
	rec->result.dropped_bytes += room - end.bytes;
	rec->result.data_bytes += finished.data_bytes;
	rec->result.nr_samples = finished.nr_samples;
	rec->result.samples_counted = finished.samples_counted;
	return err;
}

/* On the heap: the file itself, with so many bytes of records, then the other files of a directory. NULL: no memory. */
static struct collect_region *all_regions(const struct recovery *rec, uint64_t main_bytes)
{
	struct collect_region *regions = calloc(rec->nr_parts + 1, sizeof(*regions));

	if (!regions)
		return NULL;
	regions[0] = (struct collect_region){.fd = rec->fd, .offset = rec->header.data.offset, .bytes = main_bytes};
	if (rec->nr_parts)
		memcpy(regions + 1, rec->parts, rec->nr_parts * sizeof(*regions));
	return regions;
}

static int find_extents(const struct recovery *rec, struct extent_list *ret)
{
	AUTO_FREE struct collect_region *regions = all_regions(rec, rec->header.data.size);
	AUTO_BUF struct buf unused = {0};
	struct progress progress = {.bytes = true};
	struct collected collected = {.build_ids = &unused, .extents = ret, .progress = &progress};

	if (!regions)
		return -ENOMEM;
	progress_start(&progress, "making the index");
	int err = build_ids_collect(regions, rec->nr_parts + 1, rec->events, rec->nr_events, &collected);
	progress_end(&progress);
	return err;
}

/*
 * What is behind the data: the table of features, private sections, and payloads. Empty, without the table: these are
 * more than TAIL_BYTES_MAX bytes, or the file ends before `at`.
 */
static int read_tail(const struct recovery *rec, uint64_t at, struct buf *ret)
{
	struct stat st;

	if (fstat(rec->fd, &st))
		return -errno;
	uint64_t bytes = (uint64_t)st.st_size - at; /* huge when the file ends before `at` */
	size_t len = bytes <= TAIL_BYTES_MAX ? (size_t)bytes : 0;
	void *into = buf_extend(ret, len);
	return into ? fd_pread(rec->fd, into, len, at) : -ENOMEM;
}

/* A payload of the tail, which starts at file offset `at`; `block`: of private sections, or empty. 1, 0 or -EBADMSG. */
static int find_payload(const uint64_t *bits, struct span tail, uint64_t at, struct span block, enum feature_bit bit,
			struct span *ret)
{
	struct file_section section;
	int got = block.len ? feature_private_section(block, bit, ret) : 0;

	if (got)
		return got;
	got = feature_section(bits, tail, bit, &section);
	if (got <= 0)
		return got;
	if (section.offset < at || section.offset - at > tail.len || section.size > tail.len - (section.offset - at))
		return -EBADMSG;
	*ret = (struct span){(const uint8_t *)tail.ptr + (section.offset - at), section.size};
	return 1;
}

/* All that there is, but for the index. */
static int read_features(const struct recovery *rec, struct feature_set *set)
{
	AUTO_BUF struct buf tail = {0};
	const uint64_t *bits = rec->header.features;
	uint64_t at = rec->header.data.offset + rec->header.data.size;
	struct span block = {0};
	int got = read_tail(rec, at, &tail);

	if (!got)
		got = feature_private_block(bits, buf_span(&tail), &block);
	for (unsigned bit = 0; bit < FEATURE_BITS && got >= 0; bit++) {
		AUTO_BUF struct buf payload = {0};
		struct span found;
		if (bit == FEATURE_EXTENT_INDEX)
			continue;
		got = find_payload(bits, buf_span(&tail), at, block, bit, &found);
		if (got <= 0)
			continue;
		buf_put(&payload, found.ptr, found.len);
		got = feature_set_add(set, bit, &payload);
	}
	return got < 0 ? got : 0;
}

/* So that nothing was changed where there is no room. A file system that has no such call tells it later. */
static int take_room(int fd, uint64_t at, size_t len)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (fallocate(fd, 0, (off_t)at, (off_t)len) == 0 || errno == EOPNOTSUPP || errno == ENOSYS)
		return 0;
	int err = -errno;
	(void)!ftruncate(fd, st.st_size); /* of a part there may be room */
	return err;
}

/* In between the header has no feature: if this is killed, the file can be recovered. */
static int write_features(const struct recovery *rec, const struct feature_set *set)
{
	uint64_t at = rec->header.data.offset + rec->header.data.size;
	struct file_header header = rec->header, none = rec->header;
	AUTO_BUF struct buf out = {0};

	memset(none.features, 0, sizeof(none.features));
	int err = feature_set_encode(set, at, &out, header.features);
	if (!err)
		err = take_room(rec->fd, at, out.len);
	if (!err)
		err = fd_pwrite(rec->fd, &none, sizeof(none), 0);
	if (!err)
		err = fd_pwrite(rec->fd, out.data, out.len, at);
	if (!err && ftruncate(rec->fd, (off_t)(at + out.len)))
		err = -errno;
	return err ? err : fd_pwrite(rec->fd, &header, sizeof(header), 0);
}

/* Adds the index, anew, to the features, and writes them behind the records. */
static int write_index(struct recovery *rec, struct feature_set *set)
{
	AUTO_EXTENTS struct extent_list extents = {0};
	AUTO_BUF struct buf payload = {0};
	int err = find_extents(rec, &extents);

	if (err)
		return err;
	extent_index_encode(&extents, UINT64_MAX, &payload);
	err = payload.failed ? -ENOMEM : feature_set_add(set, FEATURE_EXTENT_INDEX, &payload);
	if (!err)
		err = write_features(rec, set);
	if (!err)
		rec->result.nr_extents = extents.nr;
	return err;
}

static int index_error(const struct recovery *rec, int err, struct diag *reterr)
{
	const char *why = err == -EBADMSG ? "its records, features or private sections are damaged" : strerror(-err);

	return diag_set(reterr, err, "%s: its index cannot be made: %s", rec->main_path, why);
}

/* Replaces the index of extents, or adds it, and leaves everything else as it was. */
static int rebuild_index(struct recovery *rec, struct diag *reterr)
{
	struct feature_set set = {0};
	int err = read_features(rec, &set);

	if (!err)
		err = write_index(rec, &set);
	feature_set_fini(&set);
	return err ? index_error(rec, err, reterr) : 0;
}

/* What the index of a finished recording says; without one nothing is added. 0 or -ENOMEM. */
static int read_index(const struct recovery *rec, struct extent_list *ret)
{
	AUTO_BUF struct buf tail = {0};
	const uint64_t at = rec->header.data.offset + rec->header.data.size;
	struct span block = {0}, payload, counts;
	struct extent_reader reader;
	struct extent_fields fields;

	if (read_tail(rec, at, &tail) || feature_private_block(rec->header.features, buf_span(&tail), &block) < 0 ||
	    find_payload(rec->header.features, buf_span(&tail), at, block, FEATURE_EXTENT_INDEX, &payload) <= 0 ||
	    extent_reader_open(payload, &reader))
		return tail.failed ? -ENOMEM : 0;
	while (extent_reader_next(&reader, &fields, &counts) > 0) {
		struct extent_info info = {.fields = fields, .counts = malloc(counts.len + 1)};
		if (info.counts)
			memcpy(info.counts, counts.ptr, counts.len);
		if (!info.counts || extent_list_add(ret, &info))
			return -ENOMEM;
	}
	extent_list_sort(ret);
	return 0;
}

/* `main_bytes`: of records of the file itself; `reach_end`: the records of all files do. */
static int find_damage(struct recovery *rec, uint64_t main_bytes, bool finished, bool reach_end, struct diag *reterr)
{
	AUTO_EXTENTS struct extent_list extents = {0};
	AUTO_FREE struct collect_region *regions = all_regions(rec, main_bytes);
	const bool has_extents = rec->compressed || !reach_end;
	int err = finished && has_extents ? read_index(rec, &extents) : 0;

	free(rec->damage_ends);
	rec->result.damage.nr = 0;
	rec->damage_ends = calloc(rec->nr_parts + 1, sizeof(*rec->damage_ends));
	if (!regions || !rec->damage_ends)
		err = -ENOMEM;
	for (size_t i = 0; i <= rec->nr_parts && !err; i++) {
		const struct damage_range range = {
			.fd = regions[i].fd,
			.offset = regions[i].offset,
			.bytes = regions[i].bytes,
			.part = regions[i].part,
			.finished = finished,
			.may_be_cut = i > 0,
			.has_unknown = reach_end,
			.extents = &extents,
			.events = rec->events,
			.nr_events = rec->nr_events,
		};
		err = damage_find(&range, &rec->result.damage);
		rec->damage_ends[i] = rec->result.damage.nr;
	}
	return err ? read_error(rec, err, reterr) : 0;
}

/* Removes bytes in front of `end`; what is behind them moves forward. Returns how many, or -errno. */
static int64_t remove_bytes(int fd, const struct damage *damage, size_t nr, uint64_t end)
{
	enum { PIECE = 1 << 20 };
	AUTO_FREE uint8_t *piece = malloc(PIECE);
	uint64_t removed = 0;

	if (!piece)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++) {
		uint64_t from = damage[i].offset + damage[i].bytes, to = i + 1 < nr ? damage[i + 1].offset : end;
		removed += damage[i].bytes;
		for (uint64_t len; from < to; from += len) {
			len = to - from < PIECE ? to - from : PIECE;
			int err = fd_pread(fd, piece, len, from);
			if (!err)
				err = fd_pwrite(fd, piece, len, from - removed);
			if (err)
				return err;
		}
	}
	return (int64_t)removed;
}

/* From all files; `main_bytes`: of records of the file itself, behind which nothing stays. */
static int remove_damage(struct recovery *rec, uint64_t main_bytes)
{
	const struct damage *damage = rec->result.damage.items;

	for (size_t i = 0; i < rec->nr_parts; i++) {
		struct collect_region *part = &rec->parts[i];
		const size_t first = rec->damage_ends[i];
		int64_t removed = remove_bytes(part->fd, damage + first, rec->damage_ends[i + 1] - first, part->bytes);
		part->bytes -= removed > 0 ? (uint64_t)removed : 0;
		if (removed < 0 || ftruncate(part->fd, (off_t)part->bytes))
			return removed < 0 ? (int)removed : -errno;
	}
	int64_t removed = remove_bytes(rec->fd, damage, rec->damage_ends[0], rec->header.data.offset + main_bytes);
	if (removed < 0)
		return (int)removed;
	rec->header.data.size = main_bytes - (uint64_t)removed;
	rec->file_bytes = rec->header.data.offset + rec->header.data.size;
	return ftruncate(rec->fd, (off_t)rec->file_bytes) ? -errno : 0;
}

/* The ledger, if there is one, says how much is missing. 0 or -errno. */
static int note_damage(const struct recovery *rec, struct feature_set *set)
{
	AUTO_BUF struct buf payload = {0};
	struct ledger ledger = {0};
	uint64_t bytes = 0;
	int err = -ENOENT;

	for (size_t i = 0; i < rec->result.damage.nr; i++)
		bytes += rec->result.damage.items[i].bytes;
	for (size_t i = 0; i < set->nr; i++)
		if (set->payloads[i].bit == FEATURE_LEDGER)
			err = ledger_decode((struct span){set->payloads[i].bytes, set->payloads[i].len}, &ledger);
	for (size_t i = 0; i < ledger.nr_costs && !err; i++)
		bytes += strcmp(ledger.costs[i].name, LEDGER_DAMAGED) ? 0 : ledger.costs[i].value;
	err = err ? err : ledger_set_cost(&ledger, LEDGER_DAMAGED, bytes);
	if (!err) {
		ledger_encode(&ledger, &payload);
		err = feature_set_add(set, FEATURE_LEDGER, &payload);
	}
	ledger_fini(&ledger);
	return err == -ENOMEM ? err : 0; /* one that cannot be read stays as it is */
}

/* Of a finished recording, whose features stay. In between the header has none: as in write_features(). */
static int remove_damage_of_finished(struct recovery *rec, struct diag *reterr)
{
	struct feature_set set = {0};
	struct file_header none = rec->header;
	int err = read_features(rec, &set);

	memset(none.features, 0, sizeof(none.features));
	if (!err)
		err = note_damage(rec, &set);
	if (!err)
		err = fd_pwrite(rec->fd, &none, sizeof(none), 0);
	if (!err)
		err = remove_damage(rec, rec->header.data.size);
	if (!err)
		err = write_index(rec, &set);
	if (err == -EBADMSG) /* a record has bytes that are damaged, and shows it to who decodes it */
		err = write_features(rec, &set);
	feature_set_fini(&set);
	return err ? diag_set(reterr, err, "%s: what is damaged cannot be left out: %s", rec->main_path, strerror(-err))
		   : 0;
}

static bool hides_records(const struct damage_list *list)
{
	for (size_t i = 0; i < list->nr; i++)
		if (list->items[i].flags & DAMAGE_HIDES_RECORDS)
			return true;
	return false;
}

/* What was never written is cut off, and nothing is lost with it. */
static bool is_damaged(const struct damage_list *list)
{
	for (size_t i = 0; i < list->nr; i++)
		if (!(list->items[i].flags & DAMAGE_IS_ZERO))
			return true;
	return false;
}

/* Of a recording that has its end. */
static int recover_finished(struct recovery *rec, struct diag *reterr)
{
	const struct recover_params *params = rec->params;

	if (rec->result.damage.nr) {
		rec->result.is_left = !params->leave_out;
		return params->leave_out ? remove_damage_of_finished(rec, reterr) : 0;
	}
	rec->result.was_whole = true;
	int err = params->index ? check_unused(rec, reterr) : 0;
	return params->index && !err ? rebuild_index(rec, reterr) : err;
}

static int recover_unfinished(struct recovery *rec, struct diag *reterr)
{
	const uint64_t room = data_room(rec);
	int err = check_unused(rec, reterr);

	if (!err)
		err = find_damage(rec, room, false, false, reterr);
	if (!err && !rec->params->leave_out && hides_records(&rec->result.damage)) {
		rec->result.is_left = true;
		return 0;
	}
	if (!err && rec->params->leave_out && rec->result.damage.nr) {
		err = remove_damage(rec, room);
		if (err)
			return diag_set(reterr, err, "%s: what is damaged cannot be left out: %s", rec->main_path,
					strerror(-err));
	}
	if (!err)
		err = name_tracepoints(rec, reterr);
	return err ? err : make_whole(rec, reterr);
}

int recover_recording(const struct recover_params *params, struct recover_result *ret, struct diag *reterr)
{
	__attribute__((cleanup(recovery_fini))) struct recovery rec = {
		.params = params, .name = params->name ? params->name : params->path, .fd = -1};
	int err = open_all(&rec, reterr);

	if (!err)
		err = read_header(&rec, reterr);
	if (!err)
		err = read_events(&rec, reterr);
	const int finished = err ? err : is_finished(&rec, reterr);
	const int reach_end = finished > 0 ? all_reach_end(&rec, reterr) : finished;
	err = reach_end < 0 ? reach_end : 0;
	if (!err && finished)
		err = find_damage(&rec, rec.header.data.size, true, reach_end, reterr);
	if (err)
		return err;
	err = reach_end || is_damaged(&rec.result.damage) ? recover_finished(&rec, reterr)
							  : recover_unfinished(&rec, reterr);
	if (!err) {
		*ret = rec.result;
		rec.result.damage = (struct damage_list){0};
	}
	return err;
}
