/* SPDX-License-Identifier: MIT */
#include "record/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/diag.h"

static bool is_fifo(const struct stat *st)
{
	return S_ISFIFO(st->st_mode) || S_ISSOCK(st->st_mode);
}

bool sink_is_pipe(const char *path)
{
	struct stat st;

	if (path && !strcmp(path, "-"))
		return true;
	if (path)
		return stat(path, &st) == 0 && is_fifo(&st);
	return fstat(STDOUT_FILENO, &st) == 0 && S_ISFIFO(st.st_mode);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st, (void)kind, (void)ftw;
	return remove(path);
}

/* What was recorded before is kept, one generation of it. A device or an empty file is simply used. */
static int keep_old(const char *path, struct diag *reterr)
{
	AUTO_FREE char *old = NULL;
	struct stat st;

	if (lstat(path, &st) || !(S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && st.st_size)))
		return 0;
	if (asprintf(&old, "%s.old", path) < 0) {
		old = NULL;
		return diag_set(reterr, -ENOMEM, "out of memory");
	}
	if (lstat(old, &st) == 0 && S_ISDIR(st.st_mode))
		nftw(old, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	if (rename(path, old))
		return diag_set(reterr, -errno, "cannot keep %s as %s: %s", path, old, strerror(errno));
	return 0;
}

static int open_error(const char *path, int err, struct diag *reterr)
{
	AUTO_FREE char *dir = strdup(path);
	char *slash = dir ? strrchr(dir, '/') : NULL;

	if (slash && err == -ENOENT) {
		*slash = '\0';
		return diag_set(reterr, err, "cannot create %s: directory %s does not exist", path, slash == dir ? "/" : dir);
	}
	return diag_set(reterr, err, "cannot create %s: %s", path, strerror(-err));
}

int sink_open(const char *path, struct sink *ret, struct diag *reterr)
{
	struct sink sink = {.pipe = sink_is_pipe(path), .path = path};

	if (sink.pipe && (!path || !strcmp(path, "-"))) {
		if (isatty(STDOUT_FILENO))
			return diag_set(reterr, -EINVAL, "-o -: standard output is a terminal: redirect it");
		sink.path = "-";
		sink.fd = STDOUT_FILENO;
		*ret = sink;
		return 0;
	}
	if (!path)
		sink.path = "perf.data";
	if (!sink.pipe) {
		int err = keep_old(sink.path, reterr);
		if (err)
			return err;
	}
	sink.fd = open(sink.path, (sink.pipe ? O_WRONLY : O_RDWR) | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (sink.fd < 0)
		return open_error(sink.path, -errno, reterr);
	struct stat st;
	if (fstat(sink.fd, &st) == 0 && S_ISREG(st.st_mode))
		fchmod(sink.fd, 0600); /* an empty file that was there may have had another mode */
	*ret = sink;
	return 0;
}

int sink_close(struct sink *sink)
{
	int fd = sink->fd;

	sink->fd = -1;
	if (fd < 0 || fd == STDOUT_FILENO)
		return 0;
	return close(fd) ? -errno : 0;
}
