/* SPDX-License-Identifier: MIT */
#include "analyze/dwarf/cache_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"

#define NEW_FILE_PREFIX ".new."

/* Whether a file or directory is the user's alone: `others` are the rights that others must not have. */
static bool is_own(const struct stat *status, mode_t others)
{
	return status->st_uid == geteuid() && !(status->st_mode & others);
}

/* What the user has set may be a link, and have rights for a group; what this program makes has not. Takes dir_fd. */
static int open_below(int dir_fd, const char *name, bool make)
{
	AUTO_FD int above = dir_fd;
	struct stat status;

	if (make)
		mkdirat(above, name, 0700); /* it may be there */
	AUTO_FD int fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status))
		return -errno;
	return is_own(&status, S_IWGRP | S_IWOTH) ? take_fd(&fd) : -EPERM;
}

static int open_own(const char *path)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat status;

	if (fd < 0 || fstat(fd, &status))
		return -errno;
	/* sudo(8) may keep the HOME of another user, who would be left with directories of root. */
	return is_own(&status, S_IWOTH) ? take_fd(&fd) : -EPERM;
}

int cache_directory_open(bool make)
{
	const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
	AUTO_FREE char *path = NULL;
	int fd = -ENOENT;

	if (cache && *cache == '/') { /* relative ones are to be ignored: XDG Base Directory Specification */
		if (make)
			mkdir(cache, 0700);
		fd = open_own(cache);
	} else if (home && *home == '/') {
		AUTO_FD int above = open_own(home);
		if (above < 0)
			return above;
		if (make)
			mkdirat(above, ".cache", 0700);
		if (asprintf(&path, "%s/.cache", home) < 0)
			return -ENOMEM;
		fd = open_own(path);
	}
	if (fd >= 0)
		fd = open_below(fd, "millrace", make);
	return fd < 0 ? fd : open_below(fd, "lines", make);
}

/* A descriptor, or -errno. */
static int open_file(int dir_fd, const char *name, struct stat *ret)
{
	AUTO_FD int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, ret))
		return -errno;
	return S_ISREG(ret->st_mode) && is_own(ret, S_IWGRP | S_IWOTH) ? take_fd(&fd) : -EPERM;
}

int cache_file_read(int dir_fd, const char *name, size_t most, struct buf *ret)
{
	struct stat status;
	AUTO_FD int fd = open_file(dir_fd, name, &status);

	if (fd < 0)
		return fd;
	if ((uint64_t)status.st_size > most)
		return -EFBIG;
	uint8_t *room = buf_room(ret, (size_t)status.st_size);
	if (!room)
		return -ENOMEM;
	/* Not mapped: it may become shorter while it is used. */
	int err = fd_read(fd, room, (size_t)status.st_size);
	if (!err)
		ret->len += (size_t)status.st_size;
	return err;
}

int cache_file_peek(int dir_fd, const char *name, void *ret, size_t bytes)
{
	struct stat status;
	AUTO_FD int fd = open_file(dir_fd, name, &status);

	return fd < 0 ? fd : fd_read(fd, ret, bytes);
}

struct cached_file {
	char name[NAME_MAX + 1];
	uint64_t bytes;
	int64_t time_ns;
};

static int by_age(const void *a, const void *b)
{
	const struct cached_file *x = a, *y = b;

	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

struct cached_files {
	struct cached_file *at; /* heap */
	size_t nr, room;
	uint64_t bytes;
};

/* Those that are not files are left out. 0 or -errno. */
static int list_files(int dir_fd, struct cached_files *ret)
{
	AUTO_FD int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_DIR DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;

	if (!dir)
		return -errno;
	copy = -1; /* the stream's */
	while ((entry = readdir(dir))) {
		struct stat status;
		if (fstatat(dir_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) || !S_ISREG(status.st_mode))
			continue;
		if (array_room(ret->at, ret->nr, ret->room))
			return -ENOMEM;
		struct cached_file *file = &ret->at[ret->nr++];
		*file = (struct cached_file){
			.bytes = (uint64_t)status.st_size,
			.time_ns = status.st_mtim.tv_sec * INT64_C(1000000000) + status.st_mtim.tv_nsec,
		};
		snprintf(file->name, sizeof(file->name), "%s", entry->d_name);
		ret->bytes += file->bytes;
	}
	return 0;
}

/* The file of that name, which will be replaced, counts as well: until then both are there. 0 or -errno. */
static int make_room(int dir_fd, uint64_t bytes)
{
	struct cached_files files = {0};
	int err = list_files(dir_fd, &files);

	if (!err && files.nr)
		qsort(files.at, files.nr, sizeof(files.at[0]), by_age);
	for (size_t i = 0; !err && i < files.nr; i++) {
		if (files.bytes + bytes <= CACHE_DIRECTORY_MOST_BYTES && files.nr - i < CACHE_DIRECTORY_MOST_FILES)
			break;
		if (unlinkat(dir_fd, files.at[i].name, 0) && errno != ENOENT)
			err = -errno;
		files.bytes -= files.at[i].bytes;
	}
	free(files.at);
	return err;
}

int cache_file_write(int dir_fd, const char *name, struct span bytes)
{
	char made[sizeof(NEW_FILE_PREFIX) + 16];
	uint64_t number;

	if (bytes.len > CACHE_FILE_MOST_BYTES) {
		unlinkat(dir_fd, name, 0);
		return -EFBIG;
	}
	fd_remove_leftovers(dir_fd, NEW_FILE_PREFIX, LEFTOVER_S, NULL);
	int err = make_room(dir_fd, bytes.len);
	if (err)
		return err;
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -errno;
	snprintf(made, sizeof(made), NEW_FILE_PREFIX "%016" PRIx64, number);
	AUTO_FD int fd = openat(dir_fd, made, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	err = fd_write(fd, bytes.ptr, bytes.len);
	if (!err && renameat(dir_fd, made, dir_fd, name))
		err = -errno;
	if (err)
		unlinkat(dir_fd, made, 0);
	return err;
}
