/* SPDX-License-Identifier: MIT */
#include "record/output/file_place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/diag.h"

enum { MOST_LINKS = 40 /* as the kernel: MAXSYMLINKS */, NEW_FILE_MODE = 0600 };

static int read_link(int link_fd, char ret[PATH_MAX])
{
	ssize_t len = readlinkat(link_fd, "", ret, PATH_MAX);

	if (len < 0)
		return -errno;
	if (len == PATH_MAX)
		return -ENAMETOOLONG;
	ret[len] = '\0';
	return 0;
}

static bool is_trusted(const struct stat *link)
{
	return link->st_uid == 0 || link->st_uid == geteuid();
}

static int open_directory(int at, const char *path, unsigned *links);

/* The directory that a link among the directories leads to: an fd, or -errno. */
static int follow_to_directory(int at, int link_fd, const struct stat *link, unsigned *links)
{
	char target[PATH_MAX];
	struct stat st;
	int err = ++*links > MOST_LINKS ? -ELOOP : read_link(link_fd, target);
	AUTO_FD int dir = err ? err : open_directory(at, target, links);

	if (dir < 0)
		return dir;
	if (fstat(dir, &st))
		return -errno;
	return is_trusted(link) || st.st_uid == link->st_uid ? take_fd(&dir) : -ELOOP;
}

/* One component of a path: an fd, or -errno. */
static int enter(int at, const char *name, unsigned *links)
{
	AUTO_FD int next = openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (next < 0 || fstat(next, &st))
		return -errno;
	if (S_ISLNK(st.st_mode))
		return follow_to_directory(at, next, &st, links);
	return S_ISDIR(st.st_mode) ? take_fd(&next) : -ENOTDIR;
}

/* A directory, seen from `at` (AT_FDCWD: from the working directory): an fd, or -errno. */
static int open_directory(int at, const char *path, unsigned *links)
{
	AUTO_FD int dir = openat(at, path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char name[NAME_MAX + 1];

	if (dir < 0)
		return -errno;
	for (;;) {
		path += strspn(path, "/");
		size_t len = strcspn(path, "/");
		if (!len)
			return take_fd(&dir);
		if (len >= sizeof(name))
			return -ENAMETOOLONG;
		memcpy(name, path, len);
		name[len] = '\0';
		int next = enter(dir, name, links);
		if (next < 0)
			return next;
		close(dir);
		dir = next;
		path += len;
	}
}

static int directory_error(const char *path, const char *dir, int err, struct diag *reterr)
{
	if (err == -ENOENT)
		return diag_set(reterr, err, "cannot create %s: directory %s does not exist", path, dir);
	if (err == -ELOOP)
		return diag_set(reterr, err,
				"cannot create %s: a link in %s belongs to another user and leads to a directory that "
				"is not that user's, or links lead in a circle: give the path without it",
				path, dir);
	return diag_set(reterr, err, "cannot create %s: %s", path, strerror(-err));
}

/* Splits the path, which has no '/' at its end, and opens the directory. */
static int find_directory(struct file_place *place, unsigned *links, struct diag *reterr)
{
	const char *slash = strrchr(place->path, '/');
	AUTO_FREE char *dir = slash ? strndup(place->path, (size_t)(slash - place->path) + 1) : strdup(".");

	place->name = slash ? slash + 1 : place->path;
	if (!dir)
		return diag_set(reterr, -ENOMEM, "out of memory");
	if (!place->name[0])
		return diag_set(reterr, -EINVAL, "'%s' is not the name of a file", place->path);
	if (!strcmp(place->name, ".") || !strcmp(place->name, ".."))
		return diag_set(reterr, -EISDIR, "%s is a directory: give the name of a file", place->path);
	int fd = open_directory(AT_FDCWD, dir, links);
	if (fd < 0) {
		if (strlen(dir) > 1 && slash)
			dir[strlen(dir) - 1] = '\0';
		return directory_error(place->path, dir, fd, reterr);
	}
	place->dir_fd = fd;
	return 0;
}

/* The path that a link leads to, instead of the present one. */
static int follow(struct file_place *place, int link_fd)
{
	char target[PATH_MAX], *path;
	int err = read_link(link_fd, target);
	size_t len = err ? 0 : strlen(target);

	if (err)
		return err;
	while (len > 1 && target[len - 1] == '/')
		target[--len] = '\0';
	if (asprintf(&path, "%.*s%s", target[0] == '/' ? 0 : (int)(place->name - place->path), place->path, target) < 0)
		return -ENOMEM;
	free(place->path);
	place->path = path;
	place->name = NULL;
	close(take_fd(&place->dir_fd));
	return 0;
}

/* What has the name. True: a link that has been followed, so that the next is to be looked at. -errno. */
static int look(struct file_place *place)
{
	struct statfs fs;
	AUTO_FD int fd = openat(place->dir_fd, place->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fstat(fd, &place->st))
		return -errno;
	place->exists = true;
	if (!S_ISLNK(place->st.st_mode) || !is_trusted(&place->st))
		return 0;
	/* Such a link is followed by the kernel alone: its text may name nothing. proc(5), /proc/pid/fd. */
	if (fstatfs(place->dir_fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC &&
	    fstatat(place->dir_fd, place->name, &place->st, 0) == 0) {
		place->descriptor = true;
		return 0;
	}
	place->exists = false;
	int err = follow(place, fd);
	return err ? err : true;
}

int file_place_find(const char *path, struct file_place *ret, struct diag *reterr)
{
	AUTO_FILE_PLACE struct file_place place = {.dir_fd = -1, .path = strdup(path)};
	unsigned links = 0;
	int err = 0;

	if (!place.path)
		return diag_set(reterr, -ENOMEM, "out of memory");
	for (size_t len = strlen(path); len > 1 && place.path[len - 1] == '/'; len--)
		place.path[len - 1] = '\0';
	do {
		err = find_directory(&place, &links, reterr);
		if (err)
			return err;
		err = ++links > MOST_LINKS ? -ELOOP : look(&place);
	} while (err > 0);
	if (err)
		return diag_set(reterr, err, "cannot create %s: %s", path, strerror(-err));
	*ret = place;
	place = (struct file_place){.dir_fd = -1};
	return 0;
}

void file_place_fini(struct file_place *place)
{
	if (place->dir_fd >= 0)
		close(place->dir_fd);
	free(place->path);
	*place = (struct file_place){.dir_fd = -1};
}

static int create(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, NEW_FILE_MODE);

	return fd < 0 ? -errno : fd;
}

int file_place_create(const struct file_place *place)
{
	return create(place->dir_fd, place->name);
}

/* Makes the directory as a new one: no other user can have put another one there. */
static int create_directory(int dir_fd, const char *name)
{
	struct stat st;

	if (mkdirat(dir_fd, name, 0700))
		return -errno;
	AUTO_FD int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int err = fd < 0 || fstat(fd, &st) ? -errno : st.st_uid != geteuid() || (st.st_mode & 077) ? -EPERM : 0;
	if (err)
		unlinkat(dir_fd, name, AT_REMOVEDIR);
	return err ? err : take_fd(&fd);
}

/* 0 or -errno. */
static int form_temporary(char ret_name[FILE_PLACE_TEMPORARY_ROOM])
{
	uint64_t number;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -errno;
	snprintf(ret_name, FILE_PLACE_TEMPORARY_ROOM, FILE_PLACE_TEMPORARY "%016llx", (unsigned long long)number);
	return 0;
}

static int create_unused(const struct file_place *place, int (*make)(int dir_fd, const char *name),
			 char ret_name[FILE_PLACE_TEMPORARY_ROOM])
{
	int fd;

	do {
		int err = form_temporary(ret_name);
		if (err)
			return err;
		fd = make(place->dir_fd, ret_name);
	} while (fd == -EEXIST);
	return fd;
}

int file_place_create_temporary(const struct file_place *place, char ret_name[FILE_PLACE_TEMPORARY_ROOM])
{
	return create_unused(place, create, ret_name);
}

int file_place_create_temporary_directory(const struct file_place *place, char ret_name[FILE_PLACE_TEMPORARY_ROOM])
{
	return create_unused(place, create_directory, ret_name);
}

int file_place_rename(const struct file_place *place, const char *temporary)
{
	return renameat(place->dir_fd, temporary, place->dir_fd, place->name) ? -errno : 0;
}

void file_place_discard(const struct file_place *place, const char *temporary)
{
	unlinkat(place->dir_fd, temporary, 0);
}

int file_place_set_aside(const struct file_place *place, const char *name, char ret_name[FILE_PLACE_TEMPORARY_ROOM])
{
	int err = form_temporary(ret_name);

	return err ? err : renameat(place->dir_fd, name, place->dir_fd, ret_name) ? -errno : 0;
}

int file_place_open(const struct file_place *place, int flags)
{
	struct stat st;
	AUTO_FD int fd = openat(place->dir_fd, place->name, flags | O_CLOEXEC | (place->descriptor ? 0 : O_NOFOLLOW),
				NEW_FILE_MODE);

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	return st.st_dev == place->st.st_dev && st.st_ino == place->st.st_ino ? take_fd(&fd) : -EAGAIN;
}
