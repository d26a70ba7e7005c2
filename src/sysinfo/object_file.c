/* SPDX-License-Identifier: MIT */
#include "sysinfo/object_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/thread_pool.h"
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

static int reopen_now(int path_fd)
{
	char link[32];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", path_fd);
	return place_open(&(struct place){AT_FDCWD, link, 0, 0}, READ_FLAGS);
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

/* Through a held descriptor (O_PATH), which is taken, so that what was looked at is what is opened. */
static int open_by_path_fd(int owned_fd, const struct place *place, const struct object_mapping *mapped)
{
	const bool hold = mapped && mapped->hold;
	AUTO_FD int path_fd = owned_fd;
	struct stat status;

	if (place->flags & O_DIRECTORY)
		return take_fd(&path_fd);
	if (fstat(path_fd, &status))
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	if (hold && is_mapped(mapped, path_fd, &status))
		return take_fd(&path_fd);
	/* Where the device of a file is not that of its mappings it must be mapped to know it: file_id_is(). */
	AUTO_FD int fd = reopen_now(path_fd);
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

static int open_now(const struct place *place, const struct object_mapping *mapped)
{
	const int path_fd = place_open(place, O_PATH);

	return path_fd < 0 ? path_fd : open_by_path_fd(path_fd, place, mapped);
}

/*
 * File systems that do not answer: those of a server, of this machine or of another one, where open(2) may wait
 * forever. So a thread opens what is not known to be on a file system without a server, and is left behind if that
 * takes long.
 */

enum {
	PATIENCE_MS = 1000,
	LESS_PATIENCE_MS = 100, /* while threads are left behind, */
	MOST_LEFT = 32,         /* of which there may be so many */
	NR_DEVICES = 64,
	KNOWN_FOR_S = 60, /* a file system may get the number of one that is unmounted */
};

static atomic_uint nr_left;
static bool waits; /* object_file_wait() */
/* Of file systems without a server, by number: it, and in the lower half the second of CLOCK_MONOTONIC until which. */
static _Atomic uint64_t local_devices[NR_DEVICES];

static uint64_t device_number(unsigned maj, unsigned min)
{
	return (uint64_t)(maj << 20 | (min & ((1 << 20) - 1))) << 32;
}

static uint32_t now_s(void)
{
	return (uint32_t)(clock_ns(CLOCK_MONOTONIC_COARSE) / 1000000000);
}

static _Atomic uint64_t *device_slot(uint64_t number)
{
	return &local_devices[(number >> 32 ^ number >> 52) % NR_DEVICES];
}

/*
 * Layers of an overlay are taken for those of a disk: files of containers are opened often, by who has little time, and
 * on a busy machine a thread may wait some ms for its CPU.
 */
static bool has_no_server(int fd)
{
	struct statfs status;

	if (fstatfs(fd, &status))
		return false;
	switch ((uint32_t)status.f_type) {
	case BTRFS_SUPER_MAGIC:
	case EXT4_SUPER_MAGIC:
	case F2FS_SUPER_MAGIC:
	case HUGETLBFS_MAGIC:
	case OVERLAYFS_SUPER_MAGIC:
	case RAMFS_MAGIC:
	case SQUASHFS_MAGIC:
	case TMPFS_MAGIC:
	case XFS_SUPER_MAGIC: return true;
	default: return false;
	}
}

static void note_device(int fd)
{
	struct stat status;

	if (!has_no_server(fd) || fstat(fd, &status))
		return;
	const uint64_t number = device_number(major(status.st_dev), minor(status.st_dev));
	atomic_store_explicit(device_slot(number), number | (now_s() + KNOWN_FOR_S), memory_order_relaxed);
}

static bool is_known_device(uint64_t number)
{
	const uint64_t known = atomic_load_explicit(device_slot(number), memory_order_relaxed);

	return known >> 32 == number >> 32 && (uint32_t)known >= now_s();
}

/* No server is asked. */
static bool is_known_local(int fd)
{
	struct statx status;

	return !statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) &&
	       is_known_device(device_number(status.stx_dev_major, status.stx_dev_minor));
}

#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20 /* Linux 5.12 */
#endif

/*
 * Without waiting: *ret is what open_now() returns. false: that is not known, because a name must be looked up, the
 * path leads through a link of /proc, or its file system is not known.
 */
static bool open_at_once(const struct place *place, const struct object_mapping *mapped, int *ret)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | place->flags,
		.resolve = RESOLVE_CACHED | place->resolve,
	};
	AUTO_FD int path_fd = (int)syscall(SYS_openat2, place->dir_fd, place->path, &how, sizeof(how));

	*ret = -errno;
	if (path_fd < 0)
		return *ret == -ENOENT || *ret == -ENOTDIR || *ret == -EACCES || *ret == -ELOOP;
	if (!is_known_local(path_fd))
		return false;
	*ret = open_by_path_fd(take_fd(&path_fd), place, mapped);
	return true;
}

/* Of who waits, and then of the thread if it is left behind. */
struct opening {
	pthread_mutex_t lock;
	pthread_cond_t done;
	bool is_done, is_left;
	int fd; /* or -errno */
	struct place place;
	struct object_mapping mapped;
	char path[];
};

static void opening_free(struct opening *opening)
{
	if (opening->place.dir_fd >= 0)
		close(opening->place.dir_fd);
	if (opening->fd >= 0)
		close(opening->fd);
	pthread_mutex_destroy(&opening->lock);
	pthread_cond_destroy(&opening->done);
	free(opening);
}

static int opening_do(const struct place *place, const struct object_mapping *mapped)
{
	return place->path ? open_now(place, mapped) : reopen_now(place->dir_fd);
}

/* NULL: out of memory or of descriptors. */
static struct opening *opening_new(const struct place *place, const struct object_mapping *mapped)
{
	const size_t len = place->path ? strlen(place->path) + 1 : 0;
	AUTO_FD int dir_fd = place->dir_fd < 0 ? -1 : fcntl(place->dir_fd, F_DUPFD_CLOEXEC, 0);
	struct opening *opening = dir_fd < 0 && place->dir_fd >= 0 ? NULL : calloc(1, sizeof(*opening) + len);
	pthread_condattr_t attr;

	if (!opening)
		return NULL;
	pthread_mutex_init(&opening->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&opening->done, &attr);
	pthread_condattr_destroy(&attr);
	opening->fd = -1;
	opening->place = *place;
	if (mapped)
		opening->mapped = *mapped;
	if (len)
		opening->place.path = memcpy(opening->path, place->path, len);
	if (dir_fd >= 0)
		opening->place.dir_fd = take_fd(&dir_fd);
	return opening;
}

static void *opening_run(void *ctx)
{
	struct opening *opening = ctx;
	const int fd = opening_do(&opening->place, &opening->mapped);

	if (fd >= 0)
		note_device(fd);
	pthread_mutex_lock(&opening->lock);
	opening->fd = fd;
	opening->is_done = true;
	const bool is_left = opening->is_left;
	pthread_cond_signal(&opening->done);
	pthread_mutex_unlock(&opening->lock);
	if (is_left) {
		opening_free(opening);
		atomic_fetch_sub_explicit(&nr_left, 1, memory_order_relaxed);
	}
	return NULL;
}

/* -ETIMEDOUT: the thread is left behind. */
static int opening_wait(struct opening *opening, unsigned patience_ms)
{
	enum { MS_NS = 1000000, S_NS = 1000000000 };
	struct timespec until;
	int err = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	const int64_t until_ns = until.tv_nsec + (int64_t)patience_ms * MS_NS;
	until = (struct timespec){until.tv_sec + until_ns / S_NS, until_ns % S_NS};
	pthread_mutex_lock(&opening->lock);
	while (!opening->is_done && !err)
		err = pthread_cond_timedwait(&opening->done, &opening->lock, &until);
	opening->is_left = !opening->is_done;
	if (opening->is_left)
		atomic_fetch_add_explicit(&nr_left, 1, memory_order_relaxed);
	pthread_mutex_unlock(&opening->lock);
	return opening->is_left ? -ETIMEDOUT : 0;
}

/* place->path NULL: what dir_fd is, opened again. Where there can be no thread it may wait for long. */
static int open_in_thread(const struct place *place, const struct object_mapping *mapped)
{
	const unsigned left = atomic_load_explicit(&nr_left, memory_order_relaxed);
	struct opening *opening = waits || left >= MOST_LEFT ? NULL : opening_new(place, mapped);
	pthread_t thread;

	if (left >= MOST_LEFT)
		return -ETIMEDOUT;
	if (!opening)
		return opening_do(place, mapped);
	if (thread_start(&thread, opening_run, opening)) {
		opening_run(opening);
	} else {
		pthread_detach(thread);
		if (opening_wait(opening, left ? LESS_PATIENCE_MS : PATIENCE_MS))
			return -ETIMEDOUT;
	}
	const int fd = opening->fd;
	opening->fd = -1;
	opening_free(opening);
	return fd;
}

void object_file_wait(void)
{
	waits = true;
}

static int open_place(const struct place *place, const struct object_mapping *mapped)
{
	int fd;

	return open_at_once(place, mapped, &fd) ? fd : open_in_thread(place, mapped);
}

int object_file_reopen(int path_fd)
{
	return is_known_local(path_fd) ? reopen_now(path_fd)
				       : open_in_thread(&(struct place){path_fd, NULL, 0, 0}, NULL);
}

/* Whether both are on the same mount, or it is not known: STATX_MNT_ID is there from Linux 5.8 on. */
static bool is_same_mount(int fd, const char *path)
{
	struct statx its, other;

	return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &its) ||
	       statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_MNT_ID, &other) ||
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

/* A link of /proc to a file: a thread is needed only if there is one, and the device of its file is not known. */
static int open_link(const char *path, const struct object_mapping *mapped)
{
	const struct place place = {AT_FDCWD, path, 0, 0};
	char unused[1];

	if (mapped && mapped->file.inode && is_known_device(device_number(mapped->file.major, mapped->file.minor)))
		return open_now(&place, mapped);
	return readlink(path, unused, sizeof(unused)) < 0 ? -errno : open_in_thread(&place, mapped);
}

int object_file_open_program(pid_t pid, const struct object_mapping *mapped)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return open_link(path, mapped);
}

int object_file_open_map(pid_t pid, uint64_t start, uint64_t end, const struct object_mapping *mapped)
{
	char path[96];

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid, start, end);
	const int fd = open_link(path, mapped);
	if (fd >= 0 || fd == -ETIMEDOUT || !mapped || !mapped->file.inode)
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

/* By this thread, as its process may end any moment: the server of NFS alone is asked then. */
static int open_root(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
	return place_open(&(struct place){AT_FDCWD, path, O_DIRECTORY, 0}, O_PATH);
}

int object_file_open_directory(pid_t pid, const char *name)
{
	AUTO_FD int root = open_root(pid);

	if (root < 0 || !name)
		return take_fd(&root);
	return open_place(&(struct place){root, name, O_DIRECTORY | O_NOFOLLOW, 0}, NULL);
}

int object_file_open_below_root(pid_t pid, const char *path, const struct object_mapping *mapped)
{
	AUTO_FD int root = open_root(pid);

	return root < 0 ? root : object_file_open_in(root, path, mapped);
}

int object_file_open_of_process(pid_t pid, const char *path, const struct object_mapping *mapped)
{
	int fd = object_file_open_below_root(pid, path, mapped);

	return fd >= 0 || fd == -ETIMEDOUT || !mapped || !mapped->file.inode ? fd : open_mapping(pid, mapped);
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
