/* SPDX-License-Identifier: MIT */
#include "record/output/output_path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/diag.h"

static bool is_fifo(const struct stat *st)
{
	return S_ISFIFO(st->st_mode) || S_ISSOCK(st->st_mode);
}

bool output_path_is_pipe(const char *path)
{
	struct stat st;

	if (path && !strcmp(path, "-"))
		return true;
	if (path)
		return stat(path, &st) == 0 && is_fifo(&st);
	return fstat(STDOUT_FILENO, &st) == 0 && S_ISFIFO(st.st_mode);
}

bool output_path_is_stdout(const char *path)
{
	struct stat st, out;

	if (!path || !strcmp(path, "-"))
		return output_path_is_pipe(path);
	return stat(path, &st) == 0 && fstat(STDOUT_FILENO, &out) == 0 && !S_ISCHR(st.st_mode) &&
	       st.st_dev == out.st_dev && st.st_ino == out.st_ino;
}

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* A recording can be a directory: of these files, and nothing else. */
static bool is_part(const struct dirent *entry)
{
	const char *name = entry->d_name;

	return !strcmp(name, "header") || !strcmp(name, "data") || !strncmp(name, "data.", 5);
}

/* The files of a directory that is a recording; -EISDIR: it is something else. */
static int count_parts(const char *path)
{
	__attribute__((cleanup(close_dir))) DIR *dir = opendir(path);
	int nr = 0;

	if (!dir)
		return -errno;
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (!is_part(entry))
			return -EISDIR;
		nr++;
	}
	return nr;
}

static void remove_recording(const char *path)
{
	__attribute__((cleanup(close_dir))) DIR *dir = opendir(path);

	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (is_part(entry))
			unlinkat(dirfd(dir), entry->d_name, 0);
	rmdir(path); /* what is left keeps it: renaming tells */
}

void output_path_remove(const char *path)
{
	struct stat st;

	if (lstat(path, &st))
		return;
	if (S_ISDIR(st.st_mode))
		remove_recording(path);
	else
		unlink(path);
}

/* Makes room for the name, but not by removing a directory that is no recording. */
static int remove_old(const char *old, bool by_directory, struct diag *reterr)
{
	struct stat st;

	if (lstat(old, &st))
		return 0;
	if (!S_ISDIR(st.st_mode))
		return by_directory && unlink(old) ? diag_set(reterr, -errno, "%s: %s", old, strerror(errno)) : 0;
	if (count_parts(old) < 0)
		return diag_set(reterr, -EISDIR,
				"%s is a directory and no recording: the earlier recording cannot get this name", old);
	remove_recording(old);
	return 0;
}

/* A link to a recording stays, and what it leads to is kept beside that; not /dev/stdout and the like. */
static char *follow_link(const char *path)
{
	struct stat st;
	bool link = lstat(path, &st) == 0 && S_ISLNK(st.st_mode);

	return link && strncmp(path, "/dev/", 5) && strncmp(path, "/proc/", 6) ? realpath(path, NULL) : NULL;
}

/* What was recorded before is kept, one generation of it. A device or an empty file is simply used. */
static int keep_old(const char *path, struct diag *reterr)
{
	AUTO_FREE char *old = NULL, *behind = follow_link(path);
	struct stat st;

	if (behind)
		path = behind;
	if (lstat(path, &st) || !(S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && st.st_size)))
		return 0;
	if (S_ISDIR(st.st_mode) && count_parts(path) <= 0)
		return diag_set(reterr, -EISDIR, "%s is a directory and no recording: give the name of a file", path);
	if (asprintf(&old, "%s.old", path) < 0) {
		old = NULL;
		return diag_set(reterr, -ENOMEM, "out of memory");
	}
	int err = remove_old(old, S_ISDIR(st.st_mode), reterr);
	if (err)
		return err;
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
		const char *parent = slash == dir ? "/" : dir;
		if (access(parent, F_OK)) /* /proc is there, and takes no files */
			return diag_set(reterr, err, "cannot create %s: directory %s does not exist", path, parent);
	}
	return diag_set(reterr, err, "cannot create %s: %s", path, strerror(-err));
}

int output_path_open(const char *path, struct output_path *ret, struct diag *reterr)
{
	struct output_path dest = {.pipe = output_path_is_pipe(path), .path = path};

	if (dest.pipe && (!path || !strcmp(path, "-"))) {
		if (isatty(STDOUT_FILENO))
			return diag_set(reterr, -EINVAL, "-o -: standard output is a terminal: redirect it");
		dest.path = "-";
		dest.fd = STDOUT_FILENO;
		*ret = dest;
		return 0;
	}
	if (!path)
		dest.path = "perf.data";
	if (!dest.pipe) {
		int err = keep_old(dest.path, reterr);
		if (err)
			return err;
	}
	dest.fd = open(dest.path, (dest.pipe ? O_WRONLY : O_RDWR) | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (dest.fd < 0)
		return open_error(dest.path, -errno, reterr);
	struct stat st;
	if (fstat(dest.fd, &st) == 0 && S_ISREG(st.st_mode))
		fchmod(dest.fd, 0600); /* an empty file that was there may have had another mode */
	*ret = dest;
	return 0;
}

int output_path_open_directory(const char *path, struct output_path *ret, struct diag *reterr)
{
	struct output_path dest = {.path = path ? path : "perf.data", .fd = -1};

	int err = keep_old(dest.path, reterr);
	if (err)
		return err;
	struct stat st;
	if (lstat(dest.path, &st) == 0 && S_ISREG(st.st_mode))
		unlink(dest.path); /* an empty file, which keep_old() leaves */
	if (mkdir(dest.path, 0700))
		return open_error(dest.path, -errno, reterr);
	if (asprintf(&dest.main_path, "%s/data", dest.path) < 0)
		return diag_set(reterr, -ENOMEM, "out of memory");
	dest.fd = open(dest.main_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (dest.fd < 0) {
		err = open_error(dest.main_path, -errno, reterr);
		free(dest.main_path);
		return err;
	}
	*ret = dest;
	return 0;
}

int output_path_close(struct output_path *dest)
{
	free(dest->main_path);
	dest->main_path = NULL;
	int fd = dest->fd;

	dest->fd = -1;
	if (fd < 0 || fd == STDOUT_FILENO)
		return 0;
	return close(fd) ? -errno : 0;
}

static void format_time(uint64_t hundredths, char *ret, size_t size)
{
	time_t seconds = (time_t)(hundredths / 100);
	struct tm tm;
	char text[16];

	localtime_r(&seconds, &tm);
	strftime(text, sizeof(text), "%Y%m%d%H%M%S", &tm);
	snprintf(ret, size, "%s%02u", text, (unsigned)(hundredths % 100));
}

char *part_names_next(struct part_names *names)
{
	uint64_t at = clock_ns(CLOCK_REALTIME) / 10000000;
	char text[20], *name;

	/* Later than what may not be finished yet, and so not be found; and no file of another recording. */
	if (at <= names->last)
		at = names->last + 1;
	for (;; at++) {
		format_time(at, text, sizeof(text));
		if (asprintf(&name, "%s.%s", names->base, text) < 0)
			return NULL;
		if (access(name, F_OK))
			break;
		free(name);
	}
	names->last = at;
	return name;
}

int part_names_add(struct part_names *names, char *name)
{
	if (names->nr == names->room) {
		size_t room = names->room ? names->room * 2 : 16;
		char **grown = realloc(names->names, room * sizeof(*grown));
		if (!grown) {
			free(name);
			return -ENOMEM;
		}
		names->names = grown;
		names->room = room;
	}
	names->names[names->nr++] = name;
	while (names->keep && names->nr > names->keep) {
		output_path_remove(names->names[0]);
		free(names->names[0]);
		memmove(names->names, names->names + 1, --names->nr * sizeof(*names->names));
	}
	return 0;
}

void part_names_fini(struct part_names *names)
{
	for (size_t i = 0; i < names->nr; i++)
		free(names->names[i]);
	free(names->names);
	names->names = NULL;
	names->nr = names->room = 0;
}
