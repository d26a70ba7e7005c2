/* SPDX-License-Identifier: MIT */
#include "cmd/recover_copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "record/sink.h"

static int copy_bytes(int from, int to)
{
	enum { PIECE = 1 << 20 };
	AUTO_FREE uint8_t *piece = malloc(PIECE);

	while (piece) {
		ssize_t got = read(from, piece, PIECE);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : 0;
		int err = fd_write(to, piece, (size_t)got);
		if (err)
			return err;
	}
	return -ENOMEM;
}

/* One file of a directory. */
static int copy_part(int from_dir, int to_dir, const char *name, struct diag *reterr)
{
	AUTO_FD int from = openat(from_dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	AUTO_FD int to = from < 0 ? -1 : openat(to_dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int err = to < 0 ? -errno : copy_bytes(from, to);

	return err ? diag_set(reterr, err, "cannot copy %s: %s", name, strerror(-err)) : 0;
}

static int copy_directory(const char *from, const char *to, struct diag *reterr)
{
	struct sink sink = {.fd = -1};
	AUTO_FD int to_dir = -1;
	int err = sink_open_directory(to, &sink, reterr);

	if (err)
		return err;
	sink_close(&sink);
	DIR *dir = opendir(from);
	to_dir = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!dir || to_dir < 0)
		err = diag_set(reterr, -errno, "cannot copy %s to %s: %s", from, to, strerror(errno));
	for (struct dirent *entry; !err && (entry = readdir(dir));)
		if (!strcmp(entry->d_name, "data") || !strncmp(entry->d_name, "data.", 5))
			err = copy_part(dirfd(dir), to_dir, entry->d_name, reterr);
	if (dir)
		closedir(dir);
	return err;
}

static int copy_file(const char *from, const char *to, struct diag *reterr)
{
	AUTO_FD int in = open(from, O_RDONLY | O_CLOEXEC);
	struct sink sink = {.fd = -1};

	if (in < 0)
		return diag_set(reterr, -errno, "%s: %s", from, strerror(errno));
	int err = sink_open(to, &sink, reterr);
	if (err)
		return err;
	err = copy_bytes(in, sink.fd);
	int close_err = sink_close(&sink);
	err = err ? err : close_err;
	return err ? diag_set(reterr, err, "cannot copy %s to %s: %s", from, to, strerror(-err)) : 0;
}

int recover_copy(const char *from, const char *to, struct diag *reterr)
{
	struct stat st, other;

	if (stat(from, &st))
		return diag_set(reterr, -errno, "%s: %s", from, strerror(errno));
	if (stat(to, &other) == 0 && other.st_dev == st.st_dev && other.st_ino == st.st_ino)
		return diag_set(reterr, -EINVAL, "%s is what is to be recovered: leave -o out to change it in place", to);
	if (sink_is_pipe(to))
		return diag_set(reterr, -EINVAL, "%s: recover writes a file, not a pipe", to);
	return S_ISDIR(st.st_mode) ? copy_directory(from, to, reterr) : copy_file(from, to, reterr);
}
