/* SPDX-License-Identifier: MIT */
#include "sysinfo/object_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "sysinfo/privileges.h"
#include "sysinfo/proc_maps.h"
#include "sysinfo/shortage.h"

enum { MAPS_MAX_BYTES = 1 << 26, FDINFO_MAX_BYTES = 1 << 16 };

/* Where a path leads, and how it may get there. */
struct place {
	int dir_fd;
	const char *path;
	uint64_t flags;   /* O_* */
	uint64_t resolve; /* RESOLVE_*; 0: as open(2) */
};

/* Objects stay open while they are used, and may be more than the usual 1024 files. */
bool object_file_allow_more(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= limit.rlim_max)
		return false;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/* The descriptor or -errno of open(2). */
static int place_open(const struct place *place, uint64_t flags)
{
	struct open_how how = {.flags = flags | place->flags | O_CLOEXEC, .resolve = place->resolve};
	int fd;

	do {
		fd = place->resolve ? (int)syscall(SYS_openat2, place->dir_fd, place->path, &how, sizeof(how))
				    : openat(place->dir_fd, place->path, (int)how.flags);
		if (fd < 0)
			fd = -errno;
	} while (fd == -EMFILE && object_file_allow_more());
	if (fd == -EMFILE || fd == -ENFILE)
		shortage_note(fd);
	return fd;
}

enum { READ_FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY };

int object_file_reopen(int path_fd)
{
	char link[32];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", path_fd);
	return place_open(&(struct place){AT_FDCWD, link, 0, 0}, READ_FLAGS);
}

/* Whether both are on the same mount, or it is not known: STATX_MNT_ID is there from Linux 5.8 on. */
static bool is_same_mount(int fd, const char *path)
{
	struct statx its, other;

	return statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &its) || statx(AT_FDCWD, path, 0, STATX_MNT_ID, &other) ||
	       !(its.stx_mask & other.stx_mask & STATX_MNT_ID) || its.stx_mnt_id == other.stx_mnt_id;
}

/* A mount of its own of an open file, in no namespace; to take it away costs the kernel some time. -1: none. */
static int clone_mount(int fd)
{
	const bool borrowed = privileges_borrow_admin();
	int tree = (int)syscall(SYS_open_tree, fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (borrowed)
		privileges_return_admin();
	return tree;
}

int object_file_leave_mount(int fd, bool hold)
{
	AUTO_FD int tree = is_same_mount(fd, "/") ? -1 : clone_mount(fd);
	AUTO_FD int read_fd = tree < 0 || hold ? -1 : object_file_reopen(tree);

	if (tree < 0 || (!hold && read_fd < 0))
		return fd;
	close(fd);
	return hold ? take_fd(&tree) : take_fd(&read_fd);
}

static bool is_mapped(const struct object_mapping *mapped, int fd, const struct stat *status)
{
	return !mapped || file_id_is(&mapped->file, fd, status, false);
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
	bool hold = mapped && mapped->hold;
	if (hold && is_mapped(mapped, path_fd, &status))
		return take_fd(&path_fd);
	/* Where the device of a file is not that of its mappings it must be mapped to know it: file_id_is(). */
	AUTO_FD int fd = object_file_reopen(path_fd);
	if (fd == -ENOENT) /* there is no /proc */
		fd = place_open(place, READ_FLAGS);
	if (fd < 0)
		return fd;
	if (fstat(fd, &status))
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	if (!is_mapped(mapped, fd, &status))
		return -ESTALE;
	return hold ? take_fd(&path_fd) : take_fd(&fd);
}

int object_file_open(const char *path, const struct object_mapping *mapped)
{
	return open_place(&(struct place){AT_FDCWD, path, 0, 0}, mapped);
}

int object_file_open_nofollow(int dir_fd, const char *path)
{
	return open_place(&(struct place){dir_fd, path, O_NOFOLLOW, 0}, NULL);
}

/* Of a descriptor, from Linux 3.15 on; statx(2) tells it only from 5.8 on. */
static int mount_of(int fd, long *ret)
{
	AUTO_BUF struct buf info = {0};
	char path[48];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	int err = fd_slurp(path, FDINFO_MAX_BYTES, &info);
	if (err)
		return err;
	const char *line = strstr(buf_text(&info), "\nmnt_id:");
	return line && sscanf(line, " mnt_id: %ld", ret) == 1 ? 0 : -ENODATA;
}

/* The directory has the file under this name, and no other has it: a link that was just removed counts, too. */
static int check_only_link(int dir_fd, const char *name, int fd)
{
	struct stat status, named;

	if (fstat(fd, &status) || fstatat(dir_fd, name, &named, AT_SYMLINK_NOFOLLOW))
		return -errno;
	return status.st_nlink > 1 || named.st_nlink > 1 || named.st_dev != status.st_dev ||
			       named.st_ino != status.st_ino
		       ? -EMLINK
		       : 0;
}

int object_file_open_entry(int dir_fd, const char *name)
{
	long directory_mount, mount;
	AUTO_FD int fd = object_file_open_nofollow(dir_fd, name);

	if (fd < 0)
		return fd;
	int err = mount_of(dir_fd, &directory_mount);
	if (!err)
		err = mount_of(fd, &mount);
	if (!err && mount != directory_mount)
		err = -EXDEV;
	if (!err)
		err = check_only_link(dir_fd, name, fd);
	return err ? err : take_fd(&fd);
}

int object_file_open_in(int root_fd, const char *path, const struct object_mapping *mapped)
{
	return open_place(&(struct place){root_fd, path, 0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS}, mapped);
}

int object_file_open_program(pid_t pid, const struct object_mapping *mapped)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return object_file_open(path, mapped);
}

int object_file_open_map(pid_t pid, uint64_t start, uint64_t end, const struct object_mapping *mapped)
{
	char path[96];

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid, start, end);
	const int fd = object_file_open(path, mapped);
	if (fd >= 0 || !mapped || !mapped->file.inode)
		return fd;
	const int program_fd = object_file_open_program(pid, mapped);
	return program_fd < 0 ? fd : program_fd;
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

int object_file_open_below_root(pid_t pid, const char *path, const struct object_mapping *mapped)
{
	char root_path[32];

	snprintf(root_path, sizeof(root_path), "/proc/%d/root", (int)pid);
	AUTO_FD int root = open(root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return root < 0 ? -errno : object_file_open_in(root, path, mapped);
}

int object_file_open_of_process(pid_t pid, const char *path, const struct object_mapping *mapped)
{
	int fd = object_file_open_below_root(pid, path, mapped);

	return fd >= 0 || !mapped || !mapped->file.inode ? fd : open_mapping(pid, mapped);
}

static bool is_on_tmpfs(int fd)
{
	struct statfs status;

	return fstatfs(fd, &status) == 0 && status.f_type == TMPFS_MAGIC;
}

/* 0: unknown. */
static pid_t parent_of(pid_t pid)
{
	AUTO_BUF struct buf stat = {0};
	char path[32], state;
	int parent;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (fd_slurp(path, 1 << 16, &stat))
		return 0;
	const char *behind_name = strrchr(buf_text(&stat), ')');
	return behind_name && sscanf(behind_name, ") %c %d", &state, &parent) == 2 ? parent : 0;
}

/* 1: it is in our mount namespace; 0: in another one; -1: we may not know. */
static int shares_our_mounts(pid_t pid)
{
	struct stat ours, its;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
	if (stat("/proc/self/ns/mnt", &ours) || stat(path, &its))
		return -1;
	return ours.st_ino == its.st_ino;
}

pid_t process_outside_namespace(void)
{
	enum { ANCESTORS_MAX = 64 };
	int shares = shares_our_mounts(1);
	pid_t pid = getppid();

	if (shares >= 0)
		return shares ? 0 : 1;
	for (unsigned i = 0; i < ANCESTORS_MAX && pid > 1; i++, pid = parent_of(pid))
		if (shares_our_mounts(pid) == 0)
			return pid;
	return privileges_are_namespaced() ? -1 : 0;
}

bool object_file_is_private(int fd, const char *path, pid_t outside)
{
	struct stat here, there;

	if (outside <= 0)
		return outside < 0 && is_on_tmpfs(fd);
	AUTO_FD int other = object_file_open_of_process(outside, path, NULL);
	return other < 0 || fstat(fd, &here) || fstat(other, &there) || here.st_dev != there.st_dev ||
	       here.st_ino != there.st_ino;
}
