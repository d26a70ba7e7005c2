/* SPDX-License-Identifier: MIT */
#include "record/build_ids/object_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/hash_table.h"

enum { ID_TEXT = 2 * ELF_ID_MAX_BYTES + 1 };

static void id_text(const struct elf_id *id, char ret[ID_TEXT])
{
	ret[0] = '\0';
	for (unsigned i = 0; i < id->len; i++)
		snprintf(ret + 2 * i, 3, "%02x", id->bytes[i]);
}

/* What has ".." in its name would be kept elsewhere. */
static const char *safe_name(const char *name)
{
	return strstr(name, "..") || !name[0] || strlen(name) > PATH_MAX / 2 ? "[object]" : name;
}

/* 0 or -errno. */
static int make_with_parents(const char *path)
{
	AUTO_FREE char *copy = strdup(path);

	for (char *slash = copy ? strchr(copy + 1, '/') : NULL; slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(copy, 0700) && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return !copy ? -ENOMEM : mkdir(copy, 0700) && errno != EEXIST ? -errno : 0;
}

int object_cache_open(const char *path)
{
	struct stat status;
	int err = make_with_parents(path);

	if (err)
		return err;
	AUTO_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status))
		return -errno;
	return status.st_uid == geteuid() && !(status.st_mode & 022) ? take_fd(&fd) : -EPERM;
}

/* A directory below `at`, and those above it, made where they are not: an fd, or -errno. */
static int make_directories(int at, const char *path)
{
	AUTO_FD int dir = fcntl(at, F_DUPFD_CLOEXEC, 0);
	char name[NAME_MAX + 1];

	while (dir >= 0) {
		path += strspn(path, "/");
		size_t len = strcspn(path, "/");
		if (!len)
			return take_fd(&dir);
		if (len >= sizeof(name))
			return -ENAMETOOLONG;
		memcpy(name, path, len);
		name[len] = '\0';
		if (mkdirat(dir, name, 0700) && errno != EEXIST)
			return -errno;
		int next = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return -errno;
		close(dir);
		dir = next;
		path += len;
	}
	return -errno;
}

/* NAME/ID, from the directory of the cache. On the heap; NULL: out of memory. */
static char *place_of(const struct cache_entry *entry)
{
	const char *name = safe_name(entry->name);
	char id[ID_TEXT], *path;

	id_text(&entry->id, id);
	return asprintf(&path, "%s%s/%s", name[0] == '/' ? "" : "/", name, id) < 0 ? NULL : path;
}

/*
 * There is something of that name, which the copy is not found by. A directory gets it, one that a link leads to as
 * well: it may hold other files of the object. A link that leads nowhere is replaced.
 */
static int mend_link(const struct cache_entry *entry, const char *place, int dir, const char *name, const char *target)
{
	AUTO_FREE char *from = NULL;
	struct stat status;

	if (asprintf(&from, ".%s/%s", place, entry->leaf) < 0) {
		from = NULL;
		return -ENOMEM;
	}
	AUTO_FD int there = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (there >= 0)
		return linkat(entry->dir_fd, from, there, entry->leaf, 0) ? -errno : 0;
	if (!fstatat(dir, name, &status, AT_SYMLINK_NOFOLLOW) && !S_ISLNK(status.st_mode))
		return -EEXIST;
	unlinkat(dir, name, 0);
	return symlinkat(target, dir, name) && !object_cache_has(entry) ? -EEXIST
									: 0; /* another recorder may do the same */
}

/* .build-id/xx/rest -> ../..NAME/ID */
static int make_link(const struct cache_entry *entry, const char *place)
{
	AUTO_FREE char *target = NULL;
	char id[ID_TEXT], directory[16];

	id_text(&entry->id, id);
	snprintf(directory, sizeof(directory), ".build-id/%.2s", id);
	if (asprintf(&target, "../..%s", place) < 0) {
		target = NULL;
		return -ENOMEM;
	}
	AUTO_FD int dir = make_directories(entry->dir_fd, directory);
	if (dir < 0)
		return dir;
	if (symlinkat(target, dir, id + 2) == 0)
		return 0;
	return errno != EEXIST ? -errno : object_cache_has(entry) ? 0 : mend_link(entry, place, dir, id + 2, target);
}

/* Where readers look for the copy. On the heap; NULL: out of memory. */
static char *path_by_id(const struct cache_entry *entry)
{
	char id[ID_TEXT], *path;

	id_text(&entry->id, id);
	return asprintf(&path, ".build-id/%.2s/%s/%s", id, id + 2, entry->leaf) < 0 ? NULL : path;
}

bool object_cache_has(const struct cache_entry *entry)
{
	AUTO_FREE char *path = path_by_id(entry);
	struct stat status;

	return path && fstatat(entry->dir_fd, path, &status, 0) == 0 && S_ISREG(status.st_mode);
}

/* A copy on its way. */
struct copy {
	int fd, dir_fd;
	char *place; /* heap */
	char name[64];
};

static void copy_fini(struct copy *copy)
{
	if (copy->fd >= 0)
		close(copy->fd);
	if (copy->dir_fd >= 0)
		close(copy->dir_fd);
	free(copy->place);
}

/* Of recorders that were killed: an object whose copy did not become whole is copied again. */
static void remove_leftovers(int dir_fd, const char *leaf)
{
	char prefix[64];

	snprintf(prefix, sizeof(prefix), ".%s.", leaf);
	fd_remove_leftovers(dir_fd, prefix, LEFTOVER_S, NULL);
}

/* A recorder in another PID namespace may have our number, and make the same copy. */
static int copy_begin(const struct cache_entry *entry, struct copy *ret)
{
	uint64_t number;

	*ret = (struct copy){.fd = -1, .dir_fd = -1, .place = place_of(entry)};
	if (!ret->place)
		return -ENOMEM;
	ret->dir_fd = make_directories(entry->dir_fd, ret->place);
	if (ret->dir_fd < 0)
		return ret->dir_fd;
	remove_leftovers(ret->dir_fd, entry->leaf);
	do {
		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			return -errno;
		snprintf(ret->name, sizeof(ret->name), ".%s.%016" PRIx64, entry->leaf, number);
		ret->fd = openat(ret->dir_fd, ret->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	} while (ret->fd < 0 && errno == EEXIST);
	return ret->fd < 0 ? -errno : 0;
}

/* err: how it went so far; what is not whole is taken away. */
static int copy_end(const struct cache_entry *entry, struct copy *copy, int err)
{
	if (!err && renameat(copy->dir_fd, copy->name, copy->dir_fd, entry->leaf))
		err = -errno;
	if (err && copy->fd >= 0)
		unlinkat(copy->dir_fd, copy->name, 0);
	return err ? err : make_link(entry, copy->place);
}

int object_cache_put_file(const struct cache_entry *entry, int from_fd, uint64_t max_bytes, uint64_t *ret_bytes)
{
	__attribute__((cleanup(copy_fini))) struct copy copy = {.fd = -1, .dir_fd = -1};
	struct stat status;
	off_t at = 0;

	if (fstat(from_fd, &status))
		return -errno;
	if (status.st_size < 0 || (uint64_t)status.st_size > max_bytes) {
		return -EFBIG;
	}
	int err = copy_begin(entry, &copy);
	while (!err && at < status.st_size) {
		ssize_t moved = sendfile(copy.fd, from_fd, &at, (size_t)(status.st_size - at));
		if (moved <= 0)
			err = moved ? -errno : -ENODATA; /* it became shorter */
	}
	err = copy_end(entry, &copy, err);
	if (!err && ret_bytes)
		*ret_bytes = (uint64_t)at;
	return err;
}

enum {
	CHUNK_WORDS = 1 << 15, /* of 8 bytes, of a file that is read */
	PAGE_BYTES = 4096,
};

/* The next part of a file of that size: as many bytes as there are, behind them zeroes up to a word. 0 or -errno. */
static int read_chunk(int fd, uint64_t at, uint64_t bytes, uint64_t ret[CHUNK_WORDS], size_t *ret_len)
{
	size_t len = CHUNK_WORDS * sizeof(*ret);

	len = bytes - at < len ? (size_t)(bytes - at) : len;
	if (len % sizeof(*ret))
		ret[len / sizeof(*ret)] = 0;
	*ret_len = len;
	return fd_pread(fd, ret, len, at);
}

static int hash_contents(int fd, uint64_t bytes, uint64_t *ret)
{
	AUTO_FREE uint64_t *chunk = malloc(CHUNK_WORDS * sizeof(*chunk));
	uint64_t hash = 0;
	size_t len;

	for (uint64_t at = 0; at < bytes; at += len) {
		int err = chunk ? read_chunk(fd, at, bytes, chunk, &len) : -ENOMEM;
		if (err)
			return err;
		for (size_t i = 0; i < (len + sizeof(*chunk) - 1) / sizeof(*chunk); i++)
			hash = stable_hash_mix(hash, chunk[i]);
	}
	*ret = hash;
	return 0;
}

/* Whether there is a copy of that id, and it has these contents. 1, 0 or -errno. */
static int has_contents(const struct cache_entry *entry, int from_fd, uint64_t bytes)
{
	AUTO_FREE uint64_t *theirs = malloc(CHUNK_WORDS * sizeof(*theirs)), *ours = malloc(CHUNK_WORDS * sizeof(*ours));
	AUTO_FREE char *path = path_by_id(entry);
	struct stat status;
	size_t len;

	if (!path || !theirs || !ours)
		return -ENOMEM;
	AUTO_FD int fd = openat(entry->dir_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &status) || !S_ISREG(status.st_mode) || (uint64_t)status.st_size != bytes)
		return 0;
	for (uint64_t at = 0; at < bytes; at += len) {
		int err = read_chunk(from_fd, at, bytes, ours, &len);
		if (err)
			return err;
		if (read_chunk(fd, at, bytes, theirs, &len) || memcmp(ours, theirs, len) != 0)
			return 0;
	}
	return 1;
}

/* Of a file that is large: its ends, where ELF has its tables, and pages all over it. */
static uint64_t next_place(uint64_t at, size_t len, uint64_t bytes)
{
	enum { WHOLE_BYTES = 4 << 20, END_BYTES = 1 << 20, NR_PAGES = 512 };
	const uint64_t step = (bytes / NR_PAGES + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;

	return bytes <= WHOLE_BYTES || at < END_BYTES || at + step >= bytes - END_BYTES ? at + len : at + step;
}

int object_cache_is_same(const struct cache_entry *entry, int file_fd)
{
	AUTO_FREE uint8_t *ours = malloc(2 * PAGE_BYTES);
	AUTO_FREE char *path = path_by_id(entry);
	struct stat copy, file;
	size_t len;

	if (!path || !ours)
		return -ENOMEM;
	AUTO_FD int fd = openat(entry->dir_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &copy) || fstat(file_fd, &file))
		return -errno;
	if (!S_ISREG(copy.st_mode) || copy.st_size != file.st_size)
		return 0;
	if (copy.st_ino == file.st_ino && copy.st_dev == file.st_dev)
		return 1;
	const uint64_t bytes = (uint64_t)file.st_size;
	for (uint64_t at = 0; at < bytes; at = next_place(at, len, bytes)) {
		len = bytes - at < PAGE_BYTES ? (size_t)(bytes - at) : PAGE_BYTES;
		int err = fd_pread(file_fd, ours, len, at);
		if (err)
			return err;
		if (fd_pread(fd, ours + PAGE_BYTES, len, at) || memcmp(ours, ours + PAGE_BYTES, len) != 0)
			return 0;
	}
	return 1;
}

/*
 * Others choose what is in their files, and could choose two of one hash: names of the one would be given to the other.
 * So bytes decide.
 */
int object_cache_put_contents(struct cache_entry *entry, int from_fd, uint64_t max_bytes, uint64_t *ret_bytes)
{
	enum { MOST_OF_ONE_HASH = 4 };
	struct stat status;
	uint64_t hash;

	*ret_bytes = 0;
	if (fstat(from_fd, &status))
		return -errno;
	const uint64_t bytes = (uint64_t)status.st_size;
	if (status.st_size < 0 || bytes > max_bytes)
		return -EFBIG;
	int err = hash_contents(from_fd, bytes, &hash);
	for (uint8_t number = 0; number < MOST_OF_ONE_HASH && !err; number++) {
		copy_id_make(bytes, hash, number, &entry->id);
		int same = has_contents(entry, from_fd, bytes);
		if (same)
			return same < 0 ? same : 0;
		if (!object_cache_has(entry))
			return object_cache_put_file(entry, from_fd, max_bytes, ret_bytes);
	}
	return err ? err : -EEXIST;
}

int object_cache_put_bytes(const struct cache_entry *entry, struct span bytes)
{
	__attribute__((cleanup(copy_fini))) struct copy copy;
	int err = copy_begin(entry, &copy);

	if (!err)
		err = fd_write(copy.fd, bytes.ptr, bytes.len);
	return copy_end(entry, &copy, err);
}
