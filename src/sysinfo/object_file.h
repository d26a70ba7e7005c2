/* SPDX-License-Identifier: MIT */
/*
 * object_file: opens the files of recorded objects. Paths come from other processes and from recordings, and the file
 * systems of containers belong to others: only regular files are opened, without waiting; devices and fifos are never
 * opened; below a root no symbolic link leads out of it. Any thread.
 *
 * All return a new descriptor for reading (O_CLOEXEC), or -errno of open(2), -EINVAL: no regular file, -ESTALE: another
 * file than the one that was mapped. Source: openat2(2), proc(5) "/proc/pid/root" and "/proc/pid/map_files".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "perfdata/object_id.h"

/* What a mapping says of its file. NULL, or an inode of 0: any file is right. */
struct object_mapping {
	struct file_id file;
	uint64_t since_ns;          /* mapped at, on the clock of the records; 0: before the recording */
	struct mapping_times times; /* end_wall_ns 0: when it was written to does not matter */
	bool hold; /* at half the cost, a descriptor that only keeps the file (O_PATH); file.generation is 0 */
};

/* Whether an open file is the one that was mapped, and not written to since. */
bool object_file_is(int fd, const struct object_mapping *mapped);

/* A path of this process. */
int object_file_open(const char *path, const struct object_mapping *mapped);

/* A descriptor for reading of one that was only held. */
int object_file_reopen(int held_fd);

/*
 * The same from that directory, or AT_FDCWD; a symbolic link as the last component is -EINVAL: for files in directories
 * that all users may write to.
 */
int object_file_open_nofollow(int dir_fd, const char *path);

/* A path as seen from the directory, which is its root. -ENOSYS: the kernel is older than openat2(2) (5.6). */
int object_file_open_in(int root_fd, const char *path, const struct object_mapping *mapped);

/*
 * A path as a living process sees it: below its root, in its mount namespace. If that is not the file that was mapped,
 * or it is deleted: through the mapping itself, which needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE.
 */
int object_file_open_of_process(pid_t pid, const char *path, const struct object_mapping *mapped);

/* The file of one map of a living process; the range as in /proc/PID/maps. Also of deleted files and memfds. */
int object_file_open_map(pid_t pid, uint64_t start, uint64_t end, const struct object_mapping *mapped);
