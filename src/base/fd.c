/* SPDX-License-Identifier: MIT */
#include "base/fd.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
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
	enum { STEP = 16384 };
	size_t start = ret->len;
	char short_text[STEP]; /* most files have less: memory for STEP more bytes would be touched for each of them */

	for (;;) {
		const bool is_long = ret->len - start >= STEP;
		void *to = is_long ? buf_room(ret, STEP) : short_text;
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
			return buf_room(ret, 0) ? 0 : -ENOMEM; /* what is empty has an address, too */
		if (is_long)
			ret->len += (size_t)done;
		else
			buf_put(ret, short_text, (size_t)done);
		if (ret->failed)
			return -ENOMEM;
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

enum { NUMBER_DIGITS = 16, MOST_NAMES = 20000 };

static bool is_temporary(const char *name, const char *prefix)
{
	const size_t len = strlen(prefix);

	if (strncmp(name, prefix, len) || strlen(name + len) != NUMBER_DIGITS)
		return false;
	for (const char *at = name + len; *at; at++)
		if (!isxdigit((unsigned char)*at))
			return false;
	return true;
}

static bool is_old(const struct stat *st, int64_t older_than_s)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return st->st_uid == geteuid() && now.tv_sec - st->st_mtim.tv_sec >= older_than_s &&
	       now.tv_sec - st->st_ctim.tv_sec >= older_than_s;
}

/*
 * A lease for writing is given for a file that is open nowhere else. Who opens it while we have the lease waits for a
 * moment, and we get a signal: SIGURG, which does nothing, in place of SIGIO, which would end the process.
 */
static bool is_unused(int fd)
{
	return fcntl(fd, F_SETSIG, SIGURG) == 0 && fcntl(fd, F_SETLEASE, F_WRLCK) == 0;
}

static void look_at(int dir_fd, const char *name, int64_t older_than_s,
		    void (*remove_directory)(int dir_fd, const char *name))
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) || !is_old(&st, older_than_s))
		return;
	if (S_ISDIR(st.st_mode) && remove_directory)
		remove_directory(dir_fd, name);
	if (!S_ISREG(st.st_mode))
		return;
	AUTO_FD int fd = openat(dir_fd, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && is_old(&st, older_than_s) && is_unused(fd))
		unlinkat(dir_fd, name, 0);
}

void fd_remove_leftovers(int dir_fd, const char *prefix, int64_t older_than_s,
			 void (*remove_directory)(int dir_fd, const char *name))
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (fd >= 0 && !dir)
		close(fd);
	for (unsigned i = 0; dir && i < MOST_NAMES && (entry = readdir(dir)); i++)
		if (is_temporary(entry->d_name, prefix))
			look_at(dirfd(dir), entry->d_name, older_than_s, remove_directory);
	if (dir)
		closedir(dir);
}
