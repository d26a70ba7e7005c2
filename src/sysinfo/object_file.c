/* SPDX-License-Identifier: MIT */
#include "sysinfo/object_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "sysinfo/proc_maps.h"

enum { MAPS_MAX_BYTES = 1 << 26 };

/* Where a path leads, and how it may get there. */
struct place {
	int dir_fd;
	const char *path;
	uint64_t flags;   /* O_* */
	uint64_t resolve; /* RESOLVE_*; 0: as open(2) */
};

static int place_open(const struct place *place, uint64_t flags)
{
	struct open_how how = {.flags = flags | place->flags | O_CLOEXEC, .resolve = place->resolve};
	int fd = place->resolve ? (int)syscall(SYS_openat2, place->dir_fd, place->path, &how, sizeof(how))
				: openat(place->dir_fd, place->path, (int)how.flags);

	return fd < 0 ? -errno : fd;
}

enum { READ_FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY };

int object_file_reopen(int path_fd)
{
	char link[32];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", path_fd);
	int fd = open(link, READ_FLAGS | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static bool is_mapped(const struct object_mapping *mapped, int fd, const struct stat *status)
{
	return !mapped || (file_id_is(&mapped->file, fd, status, false) &&
			   !file_written_after(status, &mapped->times, mapped->since_ns));
}

bool object_file_is(int fd, const struct object_mapping *mapped)
{
	struct stat status;

	return fstat(fd, &status) == 0 && is_mapped(mapped, fd, &status);
}

/* A regular file, without opening it (O_PATH). */
static int hold_place(const struct place *place, struct stat *ret)
{
	AUTO_FD int fd = place_open(place, O_PATH);

	if (fd < 0)
		return fd;
	if (fstat(fd, ret))
		return -errno;
	return S_ISREG(ret->st_mode) ? take_fd(&fd) : -EINVAL;
}

/* Through a held descriptor, so that what was looked at is what is opened. */
static int open_place(const struct place *place, const struct object_mapping *mapped)
{
	struct stat status;
	AUTO_FD int path_fd = hold_place(place, &status);

	if (path_fd < 0)
		return path_fd;
	if (mapped && mapped->hold)
		return is_mapped(mapped, path_fd, &status) ? take_fd(&path_fd) : -ESTALE;
	AUTO_FD int fd = object_file_reopen(path_fd);
	if (fd == -ENOENT) /* there is no /proc */
		fd = place_open(place, READ_FLAGS);
	if (fd < 0)
		return fd;
	if (fstat(fd, &status))
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	return is_mapped(mapped, fd, &status) ? take_fd(&fd) : -ESTALE;
}

int object_file_open(const char *path, const struct object_mapping *mapped)
{
	return open_place(&(struct place){AT_FDCWD, path, 0, 0}, mapped);
}

int object_file_open_nofollow(int dir_fd, const char *path)
{
	return open_place(&(struct place){dir_fd, path, O_NOFOLLOW, 0}, NULL);
}

int object_file_open_in(int root_fd, const char *path, const struct object_mapping *mapped)
{
	return open_place(&(struct place){root_fd, path, 0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS}, mapped);
}

int object_file_open_map(pid_t pid, uint64_t start, uint64_t end, const struct object_mapping *mapped)
{
	char path[96];

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid, start, end);
	return object_file_open(path, mapped);
}

/* Also when the file is deleted, and whatever it is called there. */
static int open_mapping(pid_t pid, const struct object_mapping *mapped)
{
	AUTO_BUF struct buf maps = {0};
	struct proc_map map;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	int err = fd_slurp(path, MAPS_MAX_BYTES, &maps);
	if (err)
		return err;
	for (struct span rest = buf_span(&maps); proc_maps_next(&rest, &map);)
		if (map.ino == mapped->file.inode && map.maj == mapped->file.major && map.min == mapped->file.minor)
			return object_file_open_map(pid, map.start, map.end, mapped);
	return -ENOENT;
}

int object_file_open_of_process(pid_t pid, const char *path, const struct object_mapping *mapped)
{
	char root_path[32];

	snprintf(root_path, sizeof(root_path), "/proc/%d/root", (int)pid);
	AUTO_FD int root = open(root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	int fd = object_file_open_in(root, path, mapped);
	return fd >= 0 || !mapped || !mapped->file.inode ? fd : open_mapping(pid, mapped);
}
