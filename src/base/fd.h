/* SPDX-License-Identifier: MIT */
/* fd: whole transfers through file descriptors, and wake-ups by one. EINTR and short transfers end here. Any thread. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct buf;

/*
 * All bytes of the spans (at most 8), in order; a full pipe is waited for, also when it does not block. 0 or -errno;
 * *ret_done: how many were written, also after an error.
 */
int fd_write_spans(int fd, const struct span spans[], unsigned nr_spans, size_t *ret_done);
int fd_write(int fd, const void *bytes, size_t len);
int fd_pwrite(int fd, const void *bytes, size_t len, uint64_t offset);

/* Exactly `len` bytes. 0, -errno, or -ENODATA at an early end of file. */
int fd_read(int fd, void *ret, size_t len);
int fd_pread(int fd, void *ret, size_t len, uint64_t offset);

/* Appends a whole file (also of procfs and sysfs) to `ret`, at most `max_bytes`: -EFBIG when it is longer. */
int fd_slurp(const char *path, size_t max_bytes, struct buf *ret);

/* The same of what is left of an open file. */
int fd_slurp_rest(int fd, size_t max_bytes, struct buf *ret);

/* The number in a one-line file such as those of /proc/sys. */
int fd_slurp_long(const char *path, long *ret);

/*
 * notifier: wakes a thread that sleeps in poll(2), once: the threads that notify it again before it is armed again pay
 * one load, and no system call. Owned by the thread that sleeps; any thread may notify.
 */
struct notifier {
	int fd; /* eventfd(2), non-blocking: readable after a notification; -1: none */
	atomic_bool armed;
};

int notifier_open(struct notifier *notifier); /* not armed; -errno */
void notifier_close(struct notifier *notifier);

/* By the owner. After notifier_arm() the next notification wakes it; it may be for what the owner has just seen. */
void notifier_arm(struct notifier *notifier);
void notifier_disarm(struct notifier *notifier);
void notifier_acknowledge(struct notifier *notifier); /* makes fd unreadable again */

void notifier_notify(struct notifier *notifier); /* NULL: nothing happens */
