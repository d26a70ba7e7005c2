/* SPDX-License-Identifier: MIT */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/span.h"

enum { MAX_SPANS = 8, MOST_REFUSALS = 1000 /* in a row, by an fd that says it has room */ };

/* Drops `done` bytes from the front of the vector. */
static void iov_advance(struct iovec **iov, int *nr, size_t done)
{
	while (*nr && done >= (*iov)->iov_len) {
		done -= (*iov)->iov_len;
		(*iov)++;
		(*nr)--;
	}
	if (*nr) {
		(*iov)->iov_base = (char *)(*iov)->iov_base + done;
		(*iov)->iov_len -= done;
	}
}

/*
 * After EAGAIN: a process that shares the file may have made it non-blocking. A reader that leaves ends the wait, too.
 */
static int wait_for_room(int fd)
{
	struct pollfd full = {.fd = fd, .events = POLLOUT};

	return poll(&full, 1, -1) < 0 && errno != EINTR ? -errno : 0;
}

int fd_write_spans(int fd, const struct span spans[], unsigned nr_spans, size_t *ret_done)
{
	struct iovec vector[MAX_SPANS], *iov = vector;
	unsigned refusals = 0;
	int nr = 0;

	*ret_done = 0;
	if (nr_spans > MAX_SPANS)
		return -EINVAL;
	for (unsigned i = 0; i < nr_spans; i++)
		if (spans[i].len)
			vector[nr++] = (struct iovec){(void *)(uintptr_t)spans[i].ptr, spans[i].len};
	while (nr) {
		ssize_t done = nr == 1 ? write(fd, iov->iov_base, iov->iov_len) : writev(fd, iov, nr);
		if (done < 0) {
			if (errno == EINTR)
				continue;
			int err = errno == EAGAIN ? wait_for_room(fd) : -errno;
			if (!err && ++refusals > MOST_REFUSALS)
				err = -EIO;
			if (err)
				return err;
			continue;
		}
		if (done == 0)
			return -EIO;
		refusals = 0;
		*ret_done += (size_t)done;
		iov_advance(&iov, &nr, (size_t)done);
	}
	return 0;
}

int fd_write(int fd, const void *bytes, size_t len)
{
	size_t done;

	return fd_write_spans(fd, &(struct span){bytes, len}, 1, &done);
}

int fd_pwrite(int fd, const void *bytes, size_t len, uint64_t offset)
{
	const char *from = bytes;

	while (len) {
		ssize_t done = pwrite(fd, from, len, (off_t)offset);
		if (done < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (done == 0)
			return -EIO;
		from += done;
		len -= (size_t)done;
		offset += (uint64_t)done;
	}
	return 0;
}

int fd_read(int fd, void *ret, size_t len)
{
	char *to = ret;

	while (len) {
		ssize_t done = read(fd, to, len);
		if (done < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (done == 0)
			return -ENODATA;
		to += done;
		len -= (size_t)done;
	}
	return 0;
}

int fd_pread(int fd, void *ret, size_t len, uint64_t offset)
{
	char *to = ret;

	while (len) {
		ssize_t done = pread(fd, to, len, (off_t)offset);
		if (done < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (done == 0)
			return -ENODATA;
		to += done;
		len -= (size_t)done;
		offset += (uint64_t)done;
	}
	return 0;
}

int fd_slurp_rest(int fd, size_t max_bytes, struct buf *ret)
{
	size_t start = ret->len;

	for (;;) {
		enum { STEP = 16384 };
		void *to = buf_room(ret, STEP);
		if (!to)
			return -ENOMEM;
		ssize_t done = read(fd, to, STEP);
		if (done < 0) {
			if (errno == EINTR)
				continue;
			int err = -errno;
			ret->len = start;
			return err;
		}
		if (done == 0)
			return 0;
		ret->len += (size_t)done;
		if (ret->len - start > max_bytes) {
			ret->len = start;
			return -EFBIG;
		}
	}
}

int fd_slurp(const char *path, size_t max_bytes, struct buf *ret)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_slurp_rest(fd, max_bytes, ret);
}

int fd_slurp_long(const char *path, long *ret)
{
	AUTO_BUF struct buf text = {0};
	int err = fd_slurp(path, 4096, &text);
	if (err)
		return err;

	char *end;
	errno = 0;
	long value = strtol(buf_text(&text), &end, 0);
	if (errno || end == (char *)text.data)
		return -EINVAL;
	*ret = value;
	return 0;
}

int notifier_open(struct notifier *notifier)
{
	*notifier = (struct notifier){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	return notifier->fd < 0 ? -errno : 0;
}

void notifier_close(struct notifier *notifier)
{
	if (notifier->fd >= 0)
		close(notifier->fd);
	notifier->fd = -1;
}

void notifier_arm(struct notifier *notifier)
{
	atomic_store_explicit(&notifier->armed, true, memory_order_relaxed);
}

void notifier_disarm(struct notifier *notifier)
{
	atomic_store_explicit(&notifier->armed, false, memory_order_relaxed);
}

void notifier_acknowledge(struct notifier *notifier)
{
	uint64_t count;

	(void)!read(notifier->fd, &count, sizeof(count));
}

void notifier_notify(struct notifier *notifier)
{
	const uint64_t one = 1;

	if (!notifier || !atomic_load_explicit(&notifier->armed, memory_order_relaxed))
		return;
	if (atomic_exchange_explicit(&notifier->armed, false, memory_order_relaxed))
		(void)!fd_write(notifier->fd, &one, sizeof(one));
}
