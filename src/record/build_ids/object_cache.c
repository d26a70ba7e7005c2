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

bool object_cache_has(const struct cache_entry *entry)
{
	AUTO_FREE char *path = NULL;
	struct stat status;
	char id[ID_TEXT];

	id_text(&entry->id, id);
	if (asprintf(&path, ".build-id/%.2s/%s/%s", id, id + 2, entry->leaf) < 0) {
		path = NULL;
		return false;
	}
	return fstatat(entry->dir_fd, path, &status, 0) == 0 && S_ISREG(status.st_mode);
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

int object_cache_put_bytes(const struct cache_entry *entry, struct span bytes)
{
	__attribute__((cleanup(copy_fini))) struct copy copy;
	int err = copy_begin(entry, &copy);

	if (!err)
		err = fd_write(copy.fd, bytes.ptr, bytes.len);
	return copy_end(entry, &copy, err);
}
