/* SPDX-License-Identifier: MIT */
/*
 * object_file: opens the files of recorded objects. Paths come from other processes and from recordings, and other
 * users control the file systems of containers. So only regular files are opened, never devices or FIFOs, a symbolic
 * link below a root cannot lead out of it, and no call waits for long for a file system that does not answer (NFS,
 * FUSE): after a second a call gives up, while others have, after 100 ms, or at once when many have. Any thread.
 *
 * All object_file_open*() return a new descriptor for reading (O_CLOEXEC) that the caller closes; or -errno of open(2);
 * -EINVAL: it is no regular file; -ESTALE: it is not the file that was mapped; -ETIMEDOUT: given up. When the process
 * has too many open files, its soft limit is raised to the hard limit; if that is not enough, shortage_note() is
 * called. Source: openat2(2), proc(5) "/proc/pid/root", "/proc/pid/map_files" and "/proc/pid/exe".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "perfdata/object_id.h"

/* What is known of a mapped file. A NULL pointer, or an inode of 0: any file is accepted. */
struct object_mapping {
	struct file_id file;
	/* open with O_PATH: costs half as much; the descriptor keeps the file, but cannot read it; needs
	 * file.generation 0 */
	bool hold;
};

/*
 * From now on calls of this process wait, however long it takes: of one that others do not wait for. Before it starts
 * threads.
 */
void object_file_wait(void);

/* Whether an open file is the one that was mapped; it may have been written to since. */
bool object_file_is(int fd, const struct object_mapping *mapped);

/* Raises the soft limit of open files to the hard limit. false: it was there already. */
bool object_file_allow_more(void);

/* A path of this process. */
int object_file_open(const char *path, const struct object_mapping *mapped);

/* A descriptor for reading of what was opened with `hold`. */
int object_file_reopen(int path_fd);

/*
 * Takes a descriptor of a file, and returns one for the same file that does not keep the mount it was found on from
 * being unmounted; or the same one: that mount is the one with the root directory, is in another mount namespace, or
 * CAP_SYS_ADMIN is missing. hold: as it was opened. Source: open_tree(2), Linux 5.2.
 */
int object_file_leave_mount(int fd, bool hold);

/*
 * A path relative to an open directory (or AT_FDCWD), for files in directories that all users may write to: a symbolic
 * link as the last component is -EINVAL.
 */
int object_file_open_nofollow(int dir_fd, const char *path);

/*
 * A file of an open directory that another user controls, in a mount namespace of that user's own making: `name` has no
 * slash. What may be a file of others, which that user cannot read, is refused: -EXDEV: another file is mounted there;
 * -EMLINK: it has other hard links, or was replaced just now; and symbolic links, as above.
 */
int object_file_open_entry(int dir_fd, const char *name);

/* A path below an open directory, which is taken as its root. -ENOSYS: the kernel is older than openat2(2) (5.6). */
int object_file_open_in(int root_fd, const char *path, const struct object_mapping *mapped);

/*
 * The root directory of a living process, in its mount namespace, or with a name the directory of that name in it, if
 * that is no symbolic link: for the two calls above (O_PATH).
 */
int object_file_open_directory(pid_t pid, const char *name);

/* A path as a living process sees it: below its root, in its mount namespace. */
int object_file_open_below_root(pid_t pid, const char *path, const struct object_mapping *mapped);

/*
 * A path as a living process sees it: below its root, in its mount namespace. If that file is deleted, or is not the
 * one that was mapped, the mapping itself is opened, as below.
 */
int object_file_open_of_process(pid_t pid, const char *path, const struct object_mapping *mapped);

/*
 * The file of one map of a living process, whose range is as in /proc/PID/maps. Works for deleted files and memfds,
 * too. /proc/PID/map_files needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE; without, where `mapped` tells the file, it
 * may be the program.
 */
int object_file_open_map(pid_t pid, uint64_t start, uint64_t end, const struct object_mapping *mapped);

/* The program that a living process runs, likewise; of a process of one's own this needs no capability. */
int object_file_open_program(pid_t pid, const struct object_mapping *mapped);

/* Opens files of containers: of processes that have another mount namespace or root directory than we have. */
struct container_files {
	/*
	 * A new descriptor for reading of the next regular file that a living container has under the path. *at: 0 for
	 * the first one; where to go on. With an inode in `mapped`: only of that file. Nothing else is known of what is
	 * in it, and a container may have been made after the recording: the caller compares. -ENOENT: there is no more
	 * of them, or none that we may look at. Any thread.
	 */
	int (*open)(struct container_files *files, const char *path, const struct file_id *mapped, unsigned *at);
};

/*
 * A process whose mount namespace will probably outlive ours: process 1, or, where we may not look at that, the nearest
 * of our ancestors that is in another mount namespace. 0: all of these are in our mount namespace. -1: not known, and
 * we are in a user namespace (without one an ordinary user cannot make a mount namespace).
 */
pid_t process_outside_namespace(void);

/*
 * Whether the open file is seen under this path only in our mount namespace: `outside` (a process, as
 * process_outside_namespace() returns it) has another file or none under it. `outside` -1: whether the file is on a
 * tmpfs. `outside` 0: false.
 */
bool object_file_is_private(int fd, const char *path, pid_t outside);
