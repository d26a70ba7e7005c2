/* SPDX-License-Identifier: MIT */
/*
 * fd: reads and writes whole buffers through file descriptors: EINTR and short transfers are handled here. Any thread.
 * Also temporary files that are left, and the notifier, which wakes a thread through a file descriptor.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct buf;

/*
 * Writes all bytes of the spans (at most 8), in order. Waits while a pipe is full, also when the fd is non-blocking. 0
 * or -errno; *ret_done: the number of bytes that were written, also after an error.
 */
int fd_write_spans(int fd, const struct span spans[], unsigned nr_spans, size_t *ret_done);
int fd_write(int fd, const void *bytes, size_t len);
int fd_pwrite(int fd, const void *bytes, size_t len, uint64_t offset);

/* Exactly `len` bytes. 0, -errno, or -ENODATA at an early end of file. */
int fd_read(int fd, void *ret, size_t len);
int fd_pread(int fd, void *ret, size_t len, uint64_t offset);

/*
 * Appends a whole file (also one of procfs or sysfs) to `ret`. 0, -errno of open(2) or read(2), -ENOMEM, or -EFBIG when
 * it has more than `max_bytes`.
 */
int fd_slurp(const char *path, size_t max_bytes, struct buf *ret);

/* The same for the rest of an open file, from its current offset on. */
int fd_slurp_rest(int fd, size_t max_bytes, struct buf *ret);

/* Reads the decimal number in a one-line file such as those of /proc/sys. 0 or -errno; -EINVAL: it is no number. */
int fd_slurp_long(const char *path, long *ret);

enum { LEFTOVER_S = 3600 }; /* of that age no start of a recording and no copy is under way */

/*
 * Removes the temporary files that processes which were killed have left in a directory: those that are called `prefix`
 * and 16 hexadecimal digits, that the caller owns, that were not changed for so long, neither their contents nor their
 * names, and that no process has open: on a file system that cannot tell (no leases, fcntl(2)) all stay.
 * remove_directory is called with each directory of such a name, owner and age; NULL: they stay. dir_fd may be of
 * O_PATH. Of a very large directory only a part is looked at.
 */
void fd_remove_leftovers(int dir_fd, const char *prefix, int64_t older_than_s,
			 void (*remove_directory)(int dir_fd, const char *name));

/*
 * notifier: wakes a thread that sleeps in poll(2). The first notification after notifier_arm() writes to the eventfd;
 * further ones cost one load and no system call. Owned by the thread that sleeps; any thread may notify.
 */
struct notifier {
	int fd; /* eventfd(2), non-blocking: readable after a notification; -1: none */
	atomic_bool armed;
};

int notifier_open(struct notifier *notifier); /* 0 or -errno; it is not armed yet */
void notifier_close(struct notifier *notifier);

/*
 * Called by the owner. The next notification after notifier_arm() wakes the owner; its cause may be something that the
 * owner has already seen.
 */
void notifier_arm(struct notifier *notifier);
void notifier_disarm(struct notifier *notifier);
void notifier_acknowledge(struct notifier *notifier); /* makes fd unreadable again */

void notifier_notify(struct notifier *notifier); /* does nothing when notifier is NULL */
