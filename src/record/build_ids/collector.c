/* SPDX-License-Identifier: MIT */
#include "record/build_ids/collector.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "compress/extent_index.h"
#include "compress/extent_stats.h"
#include "compress/index_builder.h"
#include "compress/zstd.h"
#include "perfdata/object_id.h"
#include "perfdata/perf_maps.h"
#include "perfdata/record.h"
#include "record/build_ids/batch_pages.h"
#include "record/build_ids/mapping_processes.h"
#include "record/build_ids/object_cache.h"
#include "record/build_ids/object_watch.h"
#include "record/build_ids/scan.h"
#include "record/setup/perf_clock.h"
#include "stream/stage.h"
#include "sysinfo/elf_note.h"
#include "sysinfo/object_file.h"
#include "tasks/task_event.h"

/* "[ext4]" or "/lib/modules/6.1/kernel/fs/ext4/ext4.ko.xz" -> "ext4". */
static void module_name(const char *name, char ret[64])
{
	const char *slash = strrchr(name, '/');
	size_t len = 0;

	for (name = slash ? slash + 1 : name + (*name == '['); *name && !strchr(".]", *name) && len < 63; name++)
		ret[len++] = *name == '-' ? '_' : *name;
	ret[len] = '\0';
}

/* What is looked at to find objects again. */
struct object_search {
	struct map_history *history;
	const struct mapping_times times;
	struct mapping_processes processes;
	bool outside_known;
	pid_t outside;     /* process_outside_namespace(): looked for when it is asked for, which takes a dozen files */
	struct buf stamps; /* entries for collected.files of what has no build-id: earlier versions read none behind
			      them */
};

/* An object that was mapped, found again. */
struct found_object {
	int fd;          /* -errno: not found; why not under its path */
	bool under_path; /* where it will be looked for, also from outside of our mount namespace */
};

static bool has_build_id(int fd, const struct elf_id *id)
{
	struct elf_id its = {0};
	int len = elf_note_of_fd(fd, its.bytes);

	its.len = len > 0 ? (uint8_t)len : 0;
	return elf_id_equal(&its, id);
}

static bool is_private(struct object_search *search, int fd, const char *name, const struct collected *collected)
{
	if (!search->outside_known)
		search->outside = collected->kept.directory ? process_outside_namespace() : 0;
	search->outside_known = true;
	return object_file_is_private(fd, name, search->outside);
}

/* A record that has the build-id says nothing else of the file. */
static struct found_object find_build(struct object_search *search, size_t nr, const struct collected *collected)
{
	const struct history_object *object = &search->history->objects[nr];
	const struct elf_id *build_id = &object->id.build_id;
	AUTO_FD int fd = object_file_open(object->name, NULL);
	int err = fd < 0 ? fd : -ESTALE;

	if (fd >= 0 && has_build_id(fd, build_id)) {
		bool private = is_private(search, fd, object->name, collected);
		return (struct found_object){.fd = take_fd(&fd), .under_path = !private};
	}
	int fd_kept = object_watch_find_build(collected->watch, object->name, build_id);
	if (fd_kept >= 0)
		return (struct found_object){.fd = fcntl(fd_kept, F_DUPFD_CLOEXEC, 0)};
	AUTO_FD int its = mapping_processes_open(&search->processes, search->history, nr, NULL);
	return (struct found_object){.fd = its >= 0 && has_build_id(its, build_id) ? take_fd(&its) : err};
}

/* The file that was mapped, not the one that has its name now. */
static struct found_object find_file(struct object_search *search, size_t nr, const struct collected *collected)
{
	const struct history_object *object = &search->history->objects[nr];
	const struct object_mapping mapped = {.file = object->id.file};

	if (object->id.build_id.len)
		return find_build(search, nr, collected);
	int fd = object_file_open(object->name, &mapped);
	if (fd >= 0 || !mapped.file.inode)
		return (struct found_object){.fd = fd,
					     .under_path = fd < 0 || !is_private(search, fd, object->name, collected)};
	int fd_kept = object_watch_find(collected->watch, &mapped.file);
	if (fd_kept >= 0 && object_file_is(fd_kept, &mapped))
		return (struct found_object){.fd = fcntl(fd_kept, F_DUPFD_CLOEXEC, 0)};
	int its = mapping_processes_open(&search->processes, search->history, nr, &mapped);
	return (struct found_object){.fd = its < 0 ? fd : its};
}

/* See object_cache_open(). */
static const char *keep_error_text(int err, const char *directory)
{
	struct stat status;

	if (err != -EPERM || stat(directory, &status))
		return strerror(-err);
	return status.st_uid != geteuid() ? "it does not belong to the user who records"
	       : status.st_mode & 022     ? "other users can write to it"
					  : strerror(-err);
}

/* A copy of an object: how it went, and how many bytes were copied. */
static void note_kept(struct collected *collected, const char *name, int err, uint64_t bytes, bool under_path)
{
	struct kept_objects *kept = &collected->kept;

	kept->nr_too_large += err == -EFBIG;
	if (err && err != -EFBIG)
		log_note("%s: cannot keep a copy in %s: %s", name, kept->directory,
			 keep_error_text(err, kept->directory));
	if (err || !bytes)
		return;
	kept->bytes += bytes;
	if (under_path)
		return;
	kept->nr++;
	kept->object_bytes += bytes;
}

/* It will not be found under its path. */
static void keep_object(const struct build_id *id, int fd, struct collected *collected)
{
	const char *directory = collected->kept.directory;
	AUTO_FD int cache = directory ? object_cache_open(directory) : -1; /* when the first object needs it */
	struct cache_entry entry = {.dir_fd = cache, .name = id->path, .leaf = "elf"};
	uint64_t bytes = 0;

	entry.id.len = id->id_bytes;
	memcpy(entry.id.bytes, id->id, id->id_bytes);
	if (!directory || (cache >= 0 && object_cache_has(&entry)))
		return;
	int err = cache < 0 ? cache
			    : object_cache_put_file(&entry, fd, collected->kept.max_bytes - collected->kept.bytes,
						    &bytes);
	note_kept(collected, id->path, err, bytes, false);
	if (cache < 0)
		collected->kept.directory = NULL; /* said once */
}

/*
 * Of a file without a build-id: readers find the copy by what MMAP2 says of the file, in an entry of `files` for
 * MAPPED_FILES.
 */
static void keep_contents(const struct history_object *object, const struct found_object *found, const char *leaf,
			  struct collected *collected, struct buf *files)
{
	struct kept_objects *kept = &collected->kept;
	struct file_build_id known = {.file = object->id.file};

	if (!kept->directory || !known.file.inode || !files || (found->under_path && !kept->bundle))
		return;
	AUTO_FD int cache = object_cache_open(kept->directory);
	struct cache_entry entry = {.dir_fd = cache, .name = object->name, .leaf = leaf};
	uint64_t bytes = 0;
	int err =
		cache < 0 ? cache : object_cache_put_contents(&entry, found->fd, kept->max_bytes - kept->bytes, &bytes);
	note_kept(collected, object->name, err, bytes, found->under_path);
	if (cache < 0)
		kept->directory = NULL; /* said once */
	known.copy_id = entry.id;
	if (!err)
		file_build_id_put(&known, files);
}

/*
 * Of code compiled at run time, which has the times of CLOCK_MONOTONIC. The process goes on writing after it has mapped
 * the file. With a build-id in place of its file, what is under the path may be anything, also what its user cannot
 * read.
 */
static void keep_jitdump(const struct history_object *object, struct collected *collected)
{
	const struct object_mapping mapped = {.file = object->id.file};
	AUTO_FD int under_path = mapped.file.inode ? object_file_open(object->name, &mapped) : -ENOENT;
	int fd_kept = under_path < 0 ? object_watch_find(collected->watch, &mapped.file) : -1;
	const struct found_object found = {under_path < 0 ? fd_kept : under_path, under_path >= 0};

	if (found.fd >= 0)
		keep_contents(object, &found, "dump", collected, collected->files);
}

static void keep_jitdumps(const struct map_history *history, const struct event_desc *event,
			  struct collected *collected)
{
	const struct history_object *first = NULL;

	for (size_t i = 0; i < history->nr_objects; i++) {
		const struct history_object *object = &history->objects[i];
		if (object->kernel || !path_is_jitdump(object->name))
			continue;
		first = first ? first : object;
		keep_jitdump(object, collected);
	}
	if (first && (!event->attr.use_clockid || event->attr.clockid != CLOCK_MONOTONIC))
		log_note("%s has times of CLOCK_MONOTONIC: record with -k mono, or JIT code that was moved has no "
			 "names",
			 first->name);
}

/* There is no file of it: perf names its functions from such a copy alone. */
static void keep_vdso(const struct build_id *id, struct collected *collected)
{
	AUTO_FD int cache = collected->kept.directory ? object_cache_open(collected->kept.directory) : -1;
	struct cache_entry entry = {.dir_fd = cache, .name = id->path, .id.len = id->id_bytes, .leaf = "vdso"};

	memcpy(entry.id.bytes, id->id, id->id_bytes);
	if (cache >= 0 && !object_cache_has(&entry))
		(void)!object_cache_put_bytes(&entry, vdso_image());
}

/*
 * The kernel formats all lines anew, in 50 ms: not for who sees no addresses, which the first of them tell (on x86 they
 * begin with variables of each CPU, whose addresses are small).
 */
static bool read_kallsyms(struct buf *ret)
{
	enum { FRONT_BYTES = 1 << 18, MAX_BYTES = 1 << 28 };
	static const char kernel_address[] = "\nffff";
	AUTO_FD int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
	AUTO_FREE char *front = malloc(FRONT_BYTES);

	if (fd < 0 || !front || fd_read(fd, front, FRONT_BYTES) ||
	    !memmem(front, FRONT_BYTES, kernel_address, sizeof(kernel_address) - 1))
		return false;
	buf_put(ret, front, FRONT_BYTES);
	return !fd_slurp_rest(fd, MAX_BYTES, ret) && !ret->failed;
}

/*
 * /proc/kallsyms is of another kernel later; and who reads it waits until the kernel has formatted it, where a copy
 * takes 1 ms. Once for each kernel.
 */
static void keep_kallsyms(const struct build_id *id, struct collected *collected)
{
	struct kept_objects *kept = &collected->kept;
	AUTO_FD int cache = kept->directory ? object_cache_open(kept->directory) : -1;
	struct cache_entry entry = {.dir_fd = cache, .name = id->path, .id.len = id->id_bytes, .leaf = "kallsyms"};
	AUTO_BUF struct buf text = {0};

	memcpy(entry.id.bytes, id->id, id->id_bytes);
	if (cache < 0 || kept->bundle || object_cache_has(&entry) || !read_kallsyms(&text) ||
	    text.len > kept->max_bytes - kept->bytes)
		return;
	if (!object_cache_put_bytes(&entry, buf_span(&text)))
		log_note("copied the symbols of this kernel (%.1f MB) into %s", (double)text.len / 1e6,
			 kept->directory);
}

static int kernel_build_id(struct collected *collected, struct build_id *ret)
{
	int len = elf_note_of_kernel(ret->id);

	ret->id_bytes = len > 0 ? (uint8_t)len : 0;
	if (len > 0)
		keep_kallsyms(ret, collected);
	return len;
}

static int vdso_build_id(const struct history_object *object, struct collected *collected, struct build_id *ret)
{
	int len = elf_note_of_vdso(ret->id);

	ret->id_bytes = len > 0 ? (uint8_t)len : 0;
	if (len > 0 && object->sampled)
		keep_vdso(ret, collected);
	return len;
}

static void report_object(struct reported_objects *reported, const char *name)
{
	if (reported->names && reported->nr < GONE_NAMED_MAX)
		buf_printf(reported->names, "%s%s", reported->names->len ? ", " : "", name);
	reported->nr++;
}

/* Not what only has a file's name: shared memory, and what the kernel makes up. Nor what an earlier recording kept. */
static void note_gone(const struct history_object *object, struct collected *collected)
{
	const char *name = object->name, *directory = collected->kept.directory;
	AUTO_FD int cache =
		object->id.build_id.len && directory ? open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	const struct cache_entry entry = {.dir_fd = cache, .name = name, .id = object->id.build_id, .leaf = "elf"};

	if (strncmp(name, "//", 2) == 0 || strncmp(name, "/dev/zero", 9) == 0 || strncmp(name, "/SYSV", 5) == 0 ||
	    strncmp(name, "/anon_hugepage", 14) == 0 || path_is_jitdump(name) ||
	    (cache >= 0 && object_cache_has(&entry)))
		return;
	report_object(&collected->gone, name);
}

/*
 * The build-id of what was mapped, which the file may not contain any more: then -ESTALE, and it is what is known of
 * it. -errno of reading it.
 */
static int read_build_id(const struct object_search *search, const struct history_object *object, int fd,
			 struct object_watch *watch, struct elf_id *ret)
{
	struct stat status;
	struct watched_contents then;
	struct elf_id now = {0};
	bool stale = object_watch_check(watch, &object->id.file, fd, &then) == -ESTALE;
	int len = fd < 0 ? fd : elf_note_of_fd(fd, now.bytes);

	now.len = len > 0 ? (uint8_t)len : 0;
	stale |= fd >= 0 && fstat(fd, &status) == 0 && file_written_after(&status, &search->times, object->first_ns);
	/* Written to once more in the same tick of its time; or anew, with the same. */
	if (fd >= 0 && then.build_id.len)
		stale = (stale && then.mapped_later) || !elf_id_equal(&then.build_id, &now);
	*ret = stale ? then.build_id : now;
	if (stale && then.mapped_later) /* the later map may be of other contents */
		ret->len = 0;
	return stale ? -ESTALE : len;
}

/* By file, for MAPPED_FILES. */
static void put_contents(struct object_search *search, const struct history_object *object, const struct elf_id *id,
			 int fd, struct buf *files)
{
	struct file_build_id known = {.file = object->id.file, .build_id = *id};
	struct stat status;

	if (!files || !known.file.inode || (!id->len && fd < 0 && fd != -ESTALE))
		return;
	if (fd >= 0 && fstat(fd, &status) == 0)
		known.stamp = file_stamp_of(&status);
	file_build_id_put(&known, id->len ? files : &search->stamps);
}

static bool is_elf(int fd)
{
	char magic[SELFMAG];

	return !fd_pread(fd, magic, sizeof(magic), 0) && !memcmp(magic, ELFMAG, SELFMAG);
}

/* Of memory of a process that has a name. Its code has no other file: what is compiled is written all the time. */
static bool has_code_alone(struct object_search *search, struct history_object *object, int fd, struct buf *files)
{
	const struct file_build_id known = {.file = object->id.file, .has_code_alone = true};

	if (!object->anonymous || !path_is_memory(object->name) || fd < 0)
		return false;
	object->anonymous = !is_elf(fd);
	if (object->anonymous && files && known.file.inode)
		file_build_id_put(&known, &search->stamps);
	return object->anonymous;
}

static int file_build_id(struct object_search *search, size_t nr, struct collected *collected, struct build_id *ret)
{
	struct history_object *object = &search->history->objects[nr];
	struct found_object found = find_file(search, nr, collected);
	AUTO_FD int fd = found.fd;
	if (has_code_alone(search, object, fd, collected->files) || !object->sampled)
		return -ENOENT;
	struct elf_id id = object->id.build_id;
	int err = id.len ? fd : read_build_id(search, object, fd, collected->watch, &id);

	if (err == -ESTALE && fd >= 0) {
		close(fd);
		fd = -ESTALE;
	}
	if (fd == -ENOENT || fd == -ESTALE || fd == -ENOTDIR)
		note_gone(object, collected);
	put_contents(search, object, &id, fd, collected->files);
	memcpy(ret->id, id.bytes, sizeof(ret->id));
	ret->id_bytes = id.len;
	const int len = id.len ? id.len : err;
	if (len > 0 && fd >= 0 && !found.under_path)
		keep_object(ret, fd, collected);
	if (len == -ENOENT && fd >= 0)
		keep_contents(object, &found, "elf", collected, &search->stamps);
	return len;
}

/* Without its id. */
static struct build_id build_id_of(const struct history_object *object)
{
	static const char kernel[] = "[kernel.kallsyms]";
	struct build_id ret = {.misc = PERF_RECORD_MISC_USER, .pid = -1, .path = object->name};

	if (!object->kernel)
		return ret;
	ret.misc = PERF_RECORD_MISC_KERNEL;
	if (!strncmp(object->name, kernel, sizeof(kernel) - 1))
		ret.path = kernel;
	return ret;
}

/* Its build-id leads to the copy of another file: that of this one is found by what MMAP2 says of the file. */
static void keep_as_other(struct object_search *search, const struct history_object *object,
			  const struct found_object *found, struct collected *collected)
{
	enum { NO_SUCH_COPY = UINT8_MAX };
	struct kept_objects *kept = &collected->kept;
	struct file_build_id known = {.file = object->id.file};
	AUTO_FD int cache = object_cache_open(kept->directory);
	struct cache_entry entry = {.dir_fd = cache, .name = object->name, .leaf = "elf"};
	uint64_t bytes = 0;
	int err =
		cache < 0 ? cache : object_cache_put_contents(&entry, found->fd, kept->max_bytes - kept->bytes, &bytes);

	note_kept(collected, object->name, err, bytes, found->under_path);
	known.copy_id = entry.id;
	if (err) /* no name, then, not those of the other file */
		copy_id_make(0, 0, NO_SUCH_COPY, &known.copy_id);
	file_build_id_put(&known, &search->stamps);
}

/* Of a file with its own build-id. */
static void keep_if_other(struct object_search *search, size_t nr, size_t first_nr, struct collected *collected)
{
	const struct history_object *object = &search->history->objects[nr];
	AUTO_FD int cache = open(collected->kept.directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	const struct cache_entry entry = {.dir_fd = cache, .name = object->name, .id = object->build_id, .leaf = "elf"};
	bool has_copy = cache >= 0 && object_cache_has(&entry);

	if (!has_copy && first_nr == nr)
		return;
	const struct found_object found = find_file(search, nr, collected);
	AUTO_FD int fd = found.fd;
	if (fd < 0 || !has_build_id(fd, &object->build_id))
		return;
	if (!has_copy) {
		struct build_id id = build_id_of(&search->history->objects[first_nr]);
		AUTO_FD int first = find_file(search, first_nr, collected).fd;
		id.id_bytes = object->build_id.len;
		memcpy(id.id, object->build_id.bytes, sizeof(id.id));
		if (first >= 0 && has_build_id(first, &object->build_id))
			keep_object(&id, first, collected);
	}
	if (collected->kept.directory && object_cache_is_same(&entry, fd) == 0)
		keep_as_other(search, object, &found, collected);
}

/*
 * patchelf(1) and a fixed --build-id leave equal build-ids in files that differ. They are compared when all is kept:
 * what is under its path now may be gone later, and in a bundle all are found by their build-ids.
 */
static void keep_others(struct object_search *search, struct collected *collected)
{
	struct hash_table firsts = {0}; /* by build-id: index + 1 */

	for (size_t i = 0; i < search->history->nr_objects; i++) {
		const struct history_object *object = &search->history->objects[i];
		const struct elf_id *id = &object->build_id;
		if (!collected->kept.directory || !collected->files || !object->sampled || object->kernel || !id->len ||
		    object->id.build_id.len || !object->id.file.inode || object->name[0] != '/')
			continue;
		const uint64_t key = hash_bytes(id->bytes, id->len);
		size_t first = collected->kept.bundle ? (size_t)hash_table_find_number(&firsts, key) : 0;
		if (collected->kept.bundle && !first && hash_table_add_number(&firsts, key, i + 1))
			break;
		keep_if_other(search, i, first ? first - 1 : i, collected);
	}
	hash_table_fini(&firsts);
}

static int object_build_id(struct object_search *search, size_t nr, struct collected *collected, struct build_id *ret)
{
	const struct history_object *object = &search->history->objects[nr];
	char module[64];

	*ret = build_id_of(object);
	if (object->kernel) {
		if (ret->path != object->name)
			return kernel_build_id(collected, ret);
		module_name(object->name, module);
		return elf_note_of_module(module, ret->id);
	}
	if (!strcmp(object->name, "[vdso]"))
		return vdso_build_id(object, collected, ret);
	return object->name[0] == '/' ? file_build_id(search, nr, collected, ret) : -ENOENT;
}

/* Reads the ids, and keeps them in the objects. */
static void find_build_ids(struct map_history *history, struct collected *collected)
{
	const int64_t end_ns = collected->until_ns ? collected->until_ns : (int64_t)clock_ns(CLOCK_REALTIME);
	struct object_search search = {.history = history, .times = {end_ns, collected->first_ns, collected->last_ns}};

	for (size_t i = 0; i < history->nr_objects; i++) {
		struct history_object *object = &history->objects[i];
		bool vdso = !object->kernel && !strcmp(object->name, "[vdso]");
		/* Whether code was compiled there tells whose a map of names is. */
		bool may_have_code = object->anonymous && path_is_memory(object->name);
		struct build_id id;
		int len = object->sampled || vdso || may_have_code ? object_build_id(&search, i, collected, &id) : 0;

		if (len <= 0)
			continue;
		object->build_id.len = (uint8_t)len;
		memcpy(object->build_id.bytes, id.id, sizeof(id.id));
	}
	keep_others(&search, collected);
	if (collected->files)
		buf_put(collected->files, search.stamps.data, search.stamps.len);
	buf_fini(&search.stamps);
	mapping_processes_fini(&search.processes);
}

static int same_line(const struct history_object *a, const struct history_object *b)
{
	if (a->name_hash != b->name_hash)
		return a->name_hash < b->name_hash ? -1 : 1;
	if (a->build_id.len != b->build_id.len)
		return a->build_id.len < b->build_id.len ? -1 : 1;
	int order = memcmp(a->build_id.bytes, b->build_id.bytes, a->build_id.len);
	return order ? order : strcmp(a->name, b->name);
}

static int line_compare(const void *a, const void *b)
{
	const struct history_object *x = *(const struct history_object *const *)a;
	const struct history_object *y = *(const struct history_object *const *)b;
	int order = same_line(x, y);

	return order ? order : x < y ? -1 : x > y;
}

/*
 * Appends a record for each object that has an id. Two files may have had the same name, and are one line when they
 * have the same id. 0 or -ENOMEM.
 */
static int put_build_ids(const struct map_history *history, struct buf *out)
{
	AUTO_FREE const struct history_object **sorted = calloc(history->nr_objects + 1, sizeof(*sorted));
	AUTO_FREE bool *repeats = calloc(history->nr_objects + 1, sizeof(*repeats));
	size_t nr = 0;
	int err = 0;

	if (!sorted || !repeats)
		return -ENOMEM;
	for (size_t i = 0; i < history->nr_objects; i++)
		if (history->objects[i].build_id.len)
			sorted[nr++] = &history->objects[i];
	qsort(sorted, nr, sizeof(*sorted), line_compare);
	for (size_t i = 1; i < nr; i++)
		repeats[sorted[i] - history->objects] = !same_line(sorted[i - 1], sorted[i]);
	for (size_t i = 0; i < history->nr_objects && !err; i++) {
		const struct history_object *object = &history->objects[i];
		struct build_id id = build_id_of(object);
		if (!object->build_id.len || repeats[i])
			continue;
		id.id_bytes = object->build_id.len;
		memcpy(id.id, object->build_id.bytes, sizeof(id.id));
		err = build_id_encode(&id, 0, out) == -ENOMEM ? -ENOMEM : 0;
	}
	return err;
}

/* All of them together, compressed. */
enum { PERF_MAPS_MAX_BYTES = 64 << 20 };

static int put_perf_map(struct kept_perf_map map, struct zstd_packer **packer, struct buf *out)
{
	const struct span text = map.stored;
	const struct zstd_pack_params params = {.level = ZSTD_LEVEL_DEFAULT};
	AUTO_BUF struct buf packed = {0};
	if (!*packer && text.len && zstd_packer_new(packer))
		*packer = NULL; /* not compressed then */
	void *to = *packer && text.len ? buf_extend(&packed, zstd_bound(text.len)) : NULL;
	int64_t len = to ? zstd_pack(*packer, &params, text, to, packed.len) : -1;

	if (len > 0 && (uint64_t)len < text.len)
		map.stored = (struct span){to, (size_t)len};
	if (map.stored.len > PERF_MAPS_MAX_BYTES - out->len)
		return -EFBIG;
	perf_map_put(&map, out);
	return out->failed ? -ENOMEM : 0;
}

static enum perf_map_missing missing_of(int err)
{
	switch (err) {
	case -ENOENT: return PERF_MAP_NONE;
	case -EPERM: return PERF_MAP_OF_ANOTHER_USER;
	case -EINVAL: return PERF_MAP_NO_REGULAR_FILE;
	case -ESTALE: return PERF_MAP_REUSED_PID;
	case -ESRCH: return PERF_MAP_OLDER;
	case -ECHILD: return PERF_MAP_OLDER_THAN_RECORDING;
	case -ETIME: return PERF_MAP_NEWER_THAN_RECORDING;
	case -ENOTUNIQ: return PERF_MAP_OF_UNKNOWN_PROGRAM;
	case -EFBIG: return PERF_MAP_TOO_LARGE;
	default: return PERF_MAP_UNREADABLE;
	}
}

/*
 * Between which times of records a file was written to last. Times of files are those of a tick; the clocks may differ
 * by 0.1 %. Of a recording that is recovered the clock may have begun anew since: not known, first_ns > last_ns.
 */
static struct history_range write_times(int64_t written_ns, const struct perf_event_attr *attr, int64_t until_ns)
{
	enum { TICK_NS = 25000000, READING_NS = 1000000, CLOCKS_DIFFER_BY = 1000 };
	const uint64_t now_ns = until_ns ? 0 : attr->use_clockid ? clock_ns(attr->clockid) : perf_clock_now(NULL);
	const int64_t ago_ns = (int64_t)clock_ns(CLOCK_REALTIME) - written_ns;
	const int64_t inexact_ns = READING_NS + (ago_ns < 0 ? -ago_ns : ago_ns) / CLOCKS_DIFFER_BY;
	const int64_t first_ns = (int64_t)now_ns - ago_ns - inexact_ns, last_ns = first_ns + 2 * inexact_ns + TICK_NS;

	if (!now_ns)
		return (struct history_range){.first_ns = 1, .last_ns = 0};
	return (struct history_range){.first_ns = first_ns < 0 ? 0 : (uint64_t)first_ns,
				      .last_ns = last_ns < 0 ? 0 : (uint64_t)last_ns};
}

/* What was read, or why there is nothing. 0 or -ENOMEM. */
static int keep_perf_map(struct map_history *history, const struct perf_event_attr *attr,
			 const struct history_process *process, struct zstd_packer **packer,
			 struct collected *collected)
{
	const uint32_t pid = (uint32_t)process->pid;
	AUTO_BUF struct buf text = {0};
	int64_t written_ns = 0;
	int err = object_watch_read_perf_map(collected->watch, (pid_t)pid, collected->until_ns, &text, &written_ns);
	struct kept_perf_map map = {.pid = pid, .bytes = text.len, .stored = buf_span(&text), .program_known = true};

	if (!err) {
		const struct history_range times = write_times(written_ns, attr, collected->until_ns);
		const bool found =
			map_history_find_writer(history, (int32_t)pid, times.first_ns, times.last_ns, &map.program_ns);
		err = found ? put_perf_map(map, packer, collected->perf_maps) : -ENOTUNIQ;
	}
	if (!err || err == -ENOMEM)
		return err;
	if (!process->code_ran)
		return 0; /* that of its parent has the names */
	const uint32_t missing = missing_of(err);
	if (missing != PERF_MAP_NONE)
		log_note("the perf-%u.map of a process is not kept, and its code has no names: %s", pid,
			 missing == PERF_MAP_UNREADABLE ? strerror(-err) : perf_map_missing_text(missing));
	perf_map_put(&(struct kept_perf_map){.pid = pid, .missing = missing}, collected->perf_maps);
	return collected->perf_maps->failed ? -ENOMEM : 0;
}

/*
 * Of the processes whose code without a file was hit, in them or in those that they forked: these may have compiled
 * into that memory, too. 0 or -ENOMEM.
 */
static int put_perf_maps(struct map_history *history, const struct event_desc *event, struct collected *collected)
{
	struct zstd_packer *packer = NULL;
	int err = 0;

	for (size_t i = 0; collected->perf_maps && i < history->nr_processes && !err; i++) {
		const struct history_process *process = &history->processes[i];
		if ((!process->code_ran && !process->inherited_code_ran) || process->pid <= 0)
			continue;
		err = keep_perf_map(history, &event->attr, process, &packer, collected);
	}
	zstd_packer_free(packer);
	return err;
}

enum {
	MOST_PAGES = 1 << 15,
	MOST_KEPT_BYTES = 8 << 20,
	MOST_SAMPLE_BYTES = 96, /* header and the fields of fixed place, id and time among them; perf_event_open(2) */
};

struct collector {
	struct stage stage;
	struct scan scan;    /* its history stays empty */
	uint64_t start, end; /* offsets in the file; 0: nothing came yet, or it is for a stage */
	uint64_t staged_bytes;
	bool gave_up;
	uint8_t *kept; /* heap; copies of records that are looked at in the end: all but samples, and the front of some
			*/
	size_t kept_bytes;
	const struct batch_pages *examined; /* of this visit; NULL: it was not */
	struct extent_tally *tally;         /* of the extent that is looked at, during the call; NULL: none */
	struct extent_tally tally_of_batch;
	const uint8_t *sample; /* the last one of this visit, while it lasts; NULL: none, or it is kept */
	_Alignas(8) uint8_t front[MOST_SAMPLE_BYTES]; /* of the last one of a visit to a ring */
	_Alignas(8) uint8_t joined[UINT16_MAX + 1];   /* a record that came in two parts */
};

static void examine(const struct stage *stage, struct batch *batch)
{
	batch_pages_find(&((const struct collector *)stage)->scan, batch);
}

/*
 * An extent's records, which nothing changes any more: their statistics are made in the same pass over memory. There is
 * none when they were examined, and they are not all of the extent when a stage behind this one joins batches.
 */
static void observe_extent(struct collector *collector, struct batch *batch)
{
	const struct span records = {batch->records, batch->len};
	bool counts = !collector->gave_up && !batch->examined && !collector->stage.next;
	struct extent_info info;

	if (counts && !extent_tally_begin(&collector->tally_of_batch, stage_extent_stats(&collector->stage)))
		collector->tally = &collector->tally_of_batch;
	collector_observe_staged(collector, &records, 1);
	if (!counts)
		return;
	extent_tally_end(&collector->tally_of_batch, batch->len, &info);
	if (collector->tally && !collector->gave_up)
		stage_set_extent_info(batch, &info);
	else
		free(info.counts);
	collector->tally = NULL;
}

static size_t look(struct stage *stage, const struct span spans[], unsigned nr_spans, const struct stage_look *how)
{
	return collector_look((struct collector *)stage, spans, nr_spans, how);
}

static int process(struct stage *stage, struct batch *batch)
{
	struct collector *collector = (struct collector *)stage;
	collector->examined = batch->examined;
	const struct span spans[2] = {{batch->records, batch->len}, {batch->tail, batch->tail_len}};

	if (batch->offset == STAGE_NO_OFFSET) {
		if (batch->len)
			observe_extent(collector, batch);
	} else if (batch->len) {
		collector_observe(collector, batch->offset, spans, batch->tail_len ? 2 : 1);
	} else if (batch->tail_len) {
		collector_observe(collector, batch->offset, spans + 1, 1);
	}
	return stage_pass(stage, batch);
}

static void free_stage(struct stage *stage)
{
	collector_free((struct collector *)stage);
}

static const struct stage_ops stage_ops = {
	.name = "build-ids", .examine = examine, .look = look, .process = process, .free = free_stage};

int collector_make(struct stage_maker *maker, const struct stage_output *output, struct stage **ret)
{
	const struct collector_maker *ours = (const struct collector_maker *)maker;
	struct collector *collector;

	if (!output->regular)
		return 0;
	int err = collector_new(ours->events, ours->nr_events, &collector);
	if (!err)
		*ret = &collector->stage;
	return err == -EOPNOTSUPP ? 0 : err; /* the file is read back in the end */
}

struct collector *collector_of(struct stage *stages)
{
	while (stages && stages->ops != &stage_ops)
		stages = stages->next;
	return (struct collector *)stages;
}

int collector_new(const struct event_desc *events, size_t nr_events, struct collector **ret)
{
	struct collector *collector = calloc(1, sizeof(*collector));
	int err = collector ? scan_init(&collector->scan, events, nr_events) : -ENOMEM;

	for (size_t i = 0; i < nr_events && !err; i++)
		if (collector->scan.layouts[i].has_stack)
			err = -EOPNOTSUPP;
	if (!err)
		err = page_set_init_fixed(&collector->scan.pages, MOST_PAGES);
	if (!err)
		err = index_builder_new(&collector->scan.index_builder);
	if (!err) {
		collector->stage.ops = &stage_ops;
		collector->scan.while_recording = true;
		collector->kept = malloc(MOST_KEPT_BYTES);
		err = collector->kept ? 0 : -ENOMEM;
	}
	if (err)
		collector_free(collector);
	else
		*ret = collector;
	return err;
}

void collector_free(struct collector *collector)
{
	if (!collector)
		return;
	scan_fini(&collector->scan);
	free(collector->kept);
	free(collector);
}

/* -ENOSPC: it does not fit any more. */
static int keep(struct collector *collector, const uint8_t *record, size_t size)
{
	if (size > MOST_KEPT_BYTES - collector->kept_bytes)
		return -ENOSPC;
	memcpy(collector->kept + collector->kept_bytes, record, size);
	collector->kept_bytes += size;
	return 0;
}

/* The front of the sample, which is looked at in the end. */
static void copy_front(const uint8_t *sample, uint8_t front[MOST_SAMPLE_BYTES])
{
	struct perf_event_header header;

	memcpy(&header, sample, sizeof(header));
	header.size = header.size < MOST_SAMPLE_BYTES ? header.size : MOST_SAMPLE_BYTES;
	memmove(front, sample, header.size);
	memcpy(front, &header, sizeof(header));
}

/*
 * The front of the last sample of a visit, and of the last one before a LOST record: loss_times needs no other of a
 * stream that has one ring. Of several rings it is that of any of them: coverage_params.mixed.
 */
static int keep_sample(struct collector *collector)
{
	_Alignas(8) uint8_t front[MOST_SAMPLE_BYTES];
	struct perf_event_header header;

	if (!collector->sample)
		return 0;
	copy_front(collector->sample, front);
	memcpy(&header, front, sizeof(header));
	collector->sample = NULL;
	return keep(collector, front, header.size);
}

static int look_at(struct collector *collector, const uint8_t *record, const struct perf_event_header *header)
{
	int err = 0;

	switch (header->type) {
	case PERF_RECORD_SAMPLE:
		collector->sample = record;
		return scan_sample(&collector->scan, record, header->size, header->misc);
	case PERF_RECORD_LOST: err = keep_sample(collector); return err ? err : keep(collector, record, header->size);
	case PERF_RECORD_COMM:
	case PERF_RECORD_FORK:
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
	case PERF_RECORD_LOST_SAMPLES:
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE: return keep(collector, record, header->size);
	default: return 0;
	}
}

static int observe_record(struct collector *collector, const uint8_t *record, const struct perf_event_header *header)
{
	int err = look_at(collector, record, header);

	if (collector->tally)
		extent_tally_record(collector->tally, record, header);
	if (!collector->staged_bytes)
		scan_index(&collector->scan, record, header);
	collector->scan.place += header->size;
	return err;
}

/* Their pages are in. */
static void take_run(struct collector *collector, const uint8_t *bytes, const struct sample_batch *run)
{
	struct scan *scan = &collector->scan;

	sample_totals_add(&scan->totals, run->nr, run->first_ns, run->last_ns);
	if (!collector->staged_bytes)
		index_builder_samples(scan->index_builder, run->bytes, run->nr, run->first_ns, run->last_ns);
	scan->place += run->bytes;
	collector->sample = bytes + run->last;
}

/*
 * The samples of fixed layout that the bytes begin with, as far as they begin in the first `most`: nearly all that
 * passes here. Returns how many bytes they take.
 */
static size_t observe_run(struct collector *collector, const uint8_t *bytes, size_t len, uint64_t most)
{
	struct scan *scan = &collector->scan;
	struct sample_batch run;

	uint64_t room = collector->staged_bytes ? UINT64_MAX : index_builder_room(scan->index_builder, scan->place);
	room = room < most ? room : most;
	scan_samples(scan, (struct span){bytes, len}, collector->tally ? UINT64_MAX : room, collector->tally, &run);
	if (run.nr)
		take_run(collector, bytes, &run);
	return run.nr ? run.bytes : 0;
}

/* The same of all that the visit is about. 0: it was not examined, or is in two parts of the index. */
static size_t observe_examined(struct collector *collector, const uint8_t *bytes, size_t len)
{
	const struct batch_pages *examined = take_ptr(collector->examined);
	struct scan *scan = &collector->scan;

	if (!examined || examined->samples.bytes != len ||
	    (!collector->staged_bytes && index_builder_room(scan->index_builder, scan->place) < len))
		return 0;
	const struct sample_batch *run = &examined->samples;
	for (size_t i = 0; i < examined->nr; i++)
		if (page_set_add_page(&scan->pages, &examined->list[i]))
			return SIZE_MAX;
	take_run(collector, bytes, run);
	return len;
}

/* Whole records, as far as they begin in the first `most` bytes; returns how many bytes they take, or SIZE_MAX. */
static size_t observe_records(struct collector *collector, const uint8_t *bytes, size_t len, size_t most)
{
	struct perf_event_header header;
	size_t at = observe_examined(collector, bytes, len);

	if (at == SIZE_MAX)
		return at;
	while (at < most) {
		at += observe_run(collector, bytes + at, len - at, most - at);
		if (at >= most || len - at < sizeof(header))
			break;
		memcpy(&header, bytes + at, sizeof(header));
		if (header.size > len - at)
			break;
		if (header.size < sizeof(header) || observe_record(collector, bytes + at, &header))
			return SIZE_MAX;
		at += header.size;
	}
	return at;
}

/* The record that begins at the end of one span and ends in the next; returns its bytes in the latter, or SIZE_MAX. */
static size_t observe_joined(struct collector *collector, struct span front, struct span back)
{
	struct perf_event_header header;

	if (!front.len)
		return 0;
	if (front.len < sizeof(header)) /* a ring is a multiple of 8 bytes, as are records */
		return SIZE_MAX;
	memcpy(&header, front.ptr, sizeof(header));
	if (header.size - front.len > back.len)
		return SIZE_MAX;
	memcpy(collector->joined, front.ptr, front.len);
	memcpy(collector->joined + front.len, back.ptr, header.size - front.len);
	return observe_record(collector, collector->joined, &header) ? SIZE_MAX : header.size - front.len;
}

static bool observe(struct collector *collector, const struct span spans[], unsigned nr_spans)
{
	const uint8_t *first = spans[0].ptr;
	size_t used = observe_records(collector, first, spans[0].len, SIZE_MAX);

	if (used == SIZE_MAX)
		return false;
	if (nr_spans < 2)
		return used == spans[0].len;
	size_t joined = observe_joined(collector, (struct span){first + used, spans[0].len - used}, spans[1]);
	if (joined == SIZE_MAX)
		return false;
	size_t left = spans[1].len - joined;
	return observe_records(collector, (const uint8_t *)spans[1].ptr + joined, left, SIZE_MAX) == left;
}

/* Records that begin in the first `most` bytes of the first span; or the one that ends in the second. 0: it failed. */
static size_t observe_first(struct collector *collector, const struct span spans[], unsigned nr_spans, size_t most)
{
	const uint8_t *first = spans[0].ptr;
	size_t used = observe_records(collector, first, spans[0].len, most);

	if (used)
		return used == SIZE_MAX ? 0 : used;
	size_t joined = nr_spans < 2 ? SIZE_MAX : observe_joined(collector, spans[0], spans[1]);
	return joined == SIZE_MAX ? 0 : spans[0].len + joined;
}

void collector_observe(struct collector *collector, uint64_t offset, const struct span spans[], unsigned nr_spans)
{
	if (collector->gave_up)
		return;
	if (!collector->end)
		collector->start = collector->end = collector->scan.place = offset;
	collector->gave_up = offset != collector->end || !observe(collector, spans, nr_spans) || keep_sample(collector);
	collector->end += span_total(spans, nr_spans);
}

void collector_observe_staged(struct collector *collector, const struct span spans[], unsigned nr_spans)
{
	collector->staged_bytes += span_total(spans, nr_spans);
	if (!collector->gave_up)
		collector->gave_up = !observe(collector, spans, nr_spans) || keep_sample(collector);
}

static size_t look_at_first(struct collector *collector, const struct span spans[], unsigned nr_spans,
			    const struct stage_look *how)
{
	if (!collector->end)
		collector->start = collector->end = collector->scan.place = how->offset;
	size_t seen = how->offset == collector->end ? observe_first(collector, spans, nr_spans, how->most) : 0;
	collector->end += seen;
	return seen;
}

static size_t look_at_all(struct collector *collector, const struct span spans[], unsigned nr_spans,
			  struct extent_tally *tally)
{
	const size_t total = span_total(spans, nr_spans);

	collector->tally = tally;
	collector->staged_bytes += total;
	bool seen = observe(collector, spans, nr_spans);
	collector->tally = NULL;
	return seen ? total : 0;
}

/* Visits to rings are many: of their last samples only those in front of a LOST record are kept, and the last of all.
 */
size_t collector_look(struct collector *collector, const struct span spans[], unsigned nr_spans,
		      const struct stage_look *how)
{
	const struct fixed_layout *fixed = &collector->scan.fixed;

	/* Call chains, and samples that differ: workers do it, as it would take longer than to copy them. */
	if (collector->gave_up || (!how->tally && (fixed->bytes == UINT32_MAX || fixed->has_chain)))
		return 0;
	size_t seen = how->tally ? look_at_all(collector, spans, nr_spans, how->tally)
				 : look_at_first(collector, spans, nr_spans, how);
	if (collector->sample) {
		copy_front(collector->sample, collector->front);
		collector->sample = collector->front;
	}
	collector->gave_up = !seen;
	return seen;
}

/* Of the file that the region is in. */
static const struct extent_fields *next_extent(const struct collect_region *region, size_t *at)
{
	while (*at < region->extents->nr) {
		const struct extent_fields *fields = &region->extents->infos[(*at)++].fields;
		if (fields->part == region->part)
			return fields;
	}
	return NULL;
}

/* Is what was seen what the extents hold? Not after an error, when the last of them are gone. */
static bool collectors_cover_extents(const struct collect_region *region)
{
	uint64_t seen = 0, total = 0, end = region->offset;
	const struct extent_fields *fields;

	for (size_t i = 0; i < region->nr_collectors; i++) {
		if (!region->collectors[i] || region->collectors[i]->gave_up)
			return false;
		seen += region->collectors[i]->staged_bytes;
	}
	for (size_t at = 0; (fields = next_extent(region, &at));) {
		if (fields->offset < end)
			return false;
		end = fields->offset + fields->packed_bytes;
		total += fields->bytes;
	}
	return total && total == seen && end <= region->offset + region->bytes;
}

static bool collector_covers(const struct collector *collector, const struct collect_region *region)
{
	return collector && collector->end && !collector->gave_up && collector->start >= region->offset &&
	       collector->end <= region->offset + region->bytes;
}

static void flush_chains(const struct collect_region regions[], size_t nr_regions)
{
	for (size_t i = 0; i < nr_regions; i++)
		for (size_t k = 0; k < regions[i].nr_collectors; k++)
			if (regions[i].collectors[k] && scan_flush_chains(&regions[i].collectors[k]->scan))
				regions[i].collectors[k]->gave_up = true;
}

/* Can they stand for a part of the region? */
static bool is_covered(const struct collect_region *region)
{
	if (!region->nr_collectors)
		return false;
	return region->extents ? collectors_cover_extents(region) : collector_covers(region->collectors[0], region);
}

/* What was kept; the samples were counted, and places noted, when they went by. */
static int scan_kept(struct scan *scan, const struct collector *collector)
{
	struct perf_event_header header;
	int err = 0;

	for (size_t at = 0; at < collector->kept_bytes && !err; at += header.size) {
		memcpy(&header, collector->kept + at, sizeof(header));
		if (header.type != PERF_RECORD_SAMPLE)
			err = scan_look_at(scan, collector->kept + at, &header);
		else if (scan->losses)
			err = loss_times_take(scan->losses, collector->kept + at, &header);
	}
	if (err || !collector->sample || !scan->losses)
		return err;
	memcpy(&header, collector->sample, sizeof(header));
	return loss_times_take(scan->losses, collector->sample, &header);
}

static int scan_collectors(struct scan *scan, const struct collect_region *region)
{
	int err = 0;

	for (size_t i = 0; i < region->nr_collectors && !err; i++) {
		err = scan_kept(scan, region->collectors[i]);
		const struct sample_totals *totals = &region->collectors[i]->scan.totals;
		sample_totals_add(&scan->totals, totals->nr, totals->first_ns, totals->last_ns);
		if (scan->losses)
			loss_times_reach(scan->losses, totals->first_ns, totals->last_ns);
		scan->broken |= region->collectors[i]->scan.broken;
	}
	return err;
}

/* Between extents there are marks, which are headers alone and tell nothing here; what else is put there is longer. */
static int scan_gap(struct scan *scan, const struct collect_region *region, uint64_t from, uint64_t to)
{
	return to - from > sizeof(struct perf_event_header) ? scan_file(scan, region->fd, from, to - from) : 0;
}

/* Where what was seen begins and ends. */
static void seen_range(const struct collect_region *region, uint64_t *ret_start, uint64_t *ret_end)
{
	const struct extent_fields *fields;
	size_t at = 0;

	*ret_start = region->collectors[0]->start;
	*ret_end = region->collectors[0]->end;
	if (region->extents && (fields = next_extent(region, &at))) {
		*ret_start = fields->offset;
		*ret_end = fields->offset + fields->packed_bytes;
	}
}

/* What stands around what was seen, and what was mapped in that time. The pages are marked when all is in. */
static int scan_around(struct scan *scan, const struct collect_region *region)
{
	const struct extent_fields *fields;
	uint64_t start, end;

	seen_range(region, &start, &end);
	int err = scan_gap(scan, region, region->offset, start);
	if (!err)
		err = scan_collectors(scan, region);
	for (size_t at = 0; region->extents && !err && (fields = next_extent(region, &at));) {
		if (fields->offset > end)
			err = scan_gap(scan, region, end, fields->offset);
		end = fields->offset + fields->packed_bytes;
	}
	return err ? err : scan_gap(scan, region, end, region->offset + region->bytes);
}

static int list_extents(const struct scan *scan, const struct collect_region regions[], size_t nr_regions,
			struct extent_list *list)
{
	int err = list ? index_builder_list(scan->index_builder, list) : 0;

	for (size_t i = 0; list && i < nr_regions && !err; i++) {
		size_t before = list->nr;
		if (regions[i].extents || !is_covered(&regions[i]))
			continue;
		err = index_builder_list(regions[i].collectors[0]->scan.index_builder, list);
		for (size_t k = before; k < list->nr; k++)
			list->infos[k].fields.part = regions[i].part;
	}
	if (list)
		extent_list_sort(list);
	return err;
}

int build_ids_collect(const struct collect_region regions[], size_t nr_regions, const struct event_desc *events,
		      size_t nr_events, struct collected *ret)
{
	__attribute__((cleanup(scan_fini))) struct scan scan = {0};

	ret->first_ns = ret->last_ns = ret->nr_samples = 0;
	if (nr_events == 0)
		return -EINVAL;
	int err = scan_init(&scan, events, nr_events);
	scan.losses = ret->losses;
	scan.progress = ret->progress;
	err = err ? err : page_set_init(&scan.pages);
	bool cut = false;
	flush_chains(regions, nr_regions);
	if (!err && ret->extents)
		err = index_builder_new(&scan.index_builder);
	for (size_t i = 0; ret->progress && i < nr_regions; i++)
		ret->progress->total += regions[i].bytes;
	for (size_t i = 0; i < nr_regions && !err; i++) {
		if (scan.index_builder)
			index_builder_part(scan.index_builder, regions[i].part);
		err = is_covered(&regions[i]) ? scan_around(&scan, &regions[i])
					      : scan_file(&scan, regions[i].fd, regions[i].offset, regions[i].bytes);
		cut |= err == -EBADMSG;
		err = err == -EBADMSG ? 0 : err;
	}
	ret->nr_samples = scan.totals.nr;
	ret->first_ns = scan.totals.first_ns;
	ret->last_ns = scan.totals.last_ns;
	if (err)
		return err;
	err = scan_flush_chains(&scan);
	if (err)
		return err;
	scan_mark_pages(&scan, &scan.pages);
	for (size_t i = 0; ret->all && i < scan.history.nr_objects; i++)
		scan.history.objects[i].sampled = true;
	for (size_t i = 0; i < nr_regions; i++)
		for (size_t k = 0; is_covered(&regions[i]) && k < regions[i].nr_collectors; k++)
			scan_mark_pages(&scan, &regions[i].collectors[k]->scan.pages);
	err = list_extents(&scan, regions, nr_regions, ret->extents);
	if (err)
		return err;
	keep_jitdumps(&scan.history, events, ret);
	find_build_ids(&scan.history, ret);
	int ids_err = ret->files && ret->files->failed ? -ENOMEM : put_build_ids(&scan.history, ret->build_ids);
	if (!ids_err)
		ids_err = put_perf_maps(&scan.history, events, ret);
	return ids_err ? ids_err : cut || scan.broken ? -EBADMSG : 0;
}
