/* SPDX-License-Identifier: MIT */
#include "record/output/output_path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "record/output/file_place.h"

#define MAIN_FILE "data"

static bool is_fifo(const struct stat *st)
{
	return S_ISFIFO(st->st_mode) || S_ISSOCK(st->st_mode);
}

static bool is_standard_output(const char *path)
{
	return strcmp(path, "-") == 0;
}

bool output_path_is_pipe(const char *path)
{
	struct stat st;
	AUTO_FILE_PLACE struct file_place place = {.dir_fd = -1};

	if (!path)
		return fstat(STDOUT_FILENO, &st) == 0 && S_ISFIFO(st.st_mode);
	return is_standard_output(path) ||
	       (file_place_find(path, &place, NULL) == 0 && place.exists && is_fifo(&place.st));
}

bool output_path_is_stdout(const char *path)
{
	struct stat st, out;

	if (!path || is_standard_output(path))
		return output_path_is_pipe(path);
	return stat(path, &st) == 0 && fstat(STDOUT_FILENO, &out) == 0 && !S_ISCHR(st.st_mode) &&
	       st.st_dev == out.st_dev && st.st_ino == out.st_ino;
}

int output_path_resolve(const char *path, char **ret, struct diag *reterr)
{
	AUTO_FILE_PLACE struct file_place place = {.dir_fd = -1};
	bool standard = path ? is_standard_output(path) : output_path_is_pipe(NULL);
	int err = standard ? 0 : file_place_find(path ? path : "perf.data", &place, reterr);

	if (err)
		return err;
	char *found = standard ? strdup("-") : take_ptr(place.path);
	if (!found)
		return diag_set(reterr, -ENOMEM, "out of memory");
	*ret = found;
	return 0;
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

	return !strcmp(name, "header") || !strcmp(name, MAIN_FILE) || !strncmp(name, "data.", 5);
}

/* NULL: errno says why. */
static DIR *open_directory(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !dir)
		close(fd);
	return dir;
}

/* The files of a directory that is a recording; -EISDIR: it is something else. */
static int count_parts(int at, const char *name)
{
	__attribute__((cleanup(close_dir))) DIR *dir = open_directory(at, name);
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

static void remove_recording(int at, const char *name)
{
	__attribute__((cleanup(close_dir))) DIR *dir = open_directory(at, name);

	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (is_part(entry))
			unlinkat(dirfd(dir), entry->d_name, 0);
	unlinkat(at, name, AT_REMOVEDIR); /* what is left keeps it: renaming tells */
}

void output_path_remove(const char *path)
{
	AUTO_FILE_PLACE struct file_place place = {.dir_fd = -1};

	if (file_place_find(path, &place, NULL) || !place.exists || place.descriptor)
		return;
	if (S_ISDIR(place.st.st_mode))
		remove_recording(place.dir_fd, place.name);
	else
		unlinkat(place.dir_fd, place.name, 0);
}

static int old_name(const struct file_place *place, char **ret, struct diag *reterr)
{
	if (asprintf(ret, "%s.old", place->name) >= 0)
		return 0;
	*ret = NULL;
	return diag_set(reterr, -ENOMEM, "out of memory");
}

/* Something stands there that is to be kept: not a device, which is simply used, nor an empty file. */
static bool has_old(const struct file_place *place)
{
	mode_t mode = place->exists ? place->st.st_mode : 0;

	return S_ISDIR(mode) || S_ISLNK(mode) || (S_ISREG(mode) && place->st.st_size);
}

/* Whether keep_old() will be able to: a directory that is no recording is neither kept nor removed. */
static int check_old(const struct file_place *place, struct diag *reterr)
{
	AUTO_FREE char *old = NULL;
	struct stat st;

	if (!has_old(place))
		return 0;
	if (S_ISDIR(place->st.st_mode) && count_parts(place->dir_fd, place->name) <= 0)
		return diag_set(reterr, -EISDIR, "%s is a directory and no recording: give the name of a file",
				place->path);
	int err = old_name(place, &old, reterr);
	if (!err && fstatat(place->dir_fd, old, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
	    count_parts(place->dir_fd, old) < 0)
		err = diag_set(reterr, -EISDIR,
			       "%s.old is a directory and no recording: the earlier recording cannot get this name",
			       place->path);
	return err;
}

static int rename_to_free(const struct file_place *place, const char *from, const char *to)
{
	if (renameat2(place->dir_fd, from, place->dir_fd, to, RENAME_NOREPLACE) == 0)
		return 0;
	/* EINVAL: file systems that cannot do this. */
	return errno != EINVAL || renameat(place->dir_fd, from, place->dir_fd, to) ? -errno : 0;
}

static void remove_older(const struct file_place *place, const char *older)
{
	struct stat st;

	if (!*older || fstatat(place->dir_fd, older, &st, AT_SYMLINK_NOFOLLOW))
		return;
	if (S_ISDIR(st.st_mode))
		remove_recording(place->dir_fd, older);
	else
		unlinkat(place->dir_fd, older, 0);
}

/* Undoes keep_old(), if the name is free. */
static void give_back(const struct file_place *place, const char *older)
{
	AUTO_FREE char *old = NULL;

	if (old_name(place, &old, NULL))
		return;
	if (rename_to_free(place, old, place->name))
		remove_older(place, older);
	else if (*older)
		rename_to_free(place, older, old);
}

/*
 * What was recorded before, or a link that is not followed, is kept, one generation of it; ret_older: the temporary
 * name of what was kept before, "": there was nothing. 1: there was something to be kept.
 */
static int keep_old(const struct file_place *place, char ret_older[FILE_PLACE_TEMPORARY_ROOM], struct diag *reterr)
{
	AUTO_FREE char *old = NULL;

	*ret_older = '\0';
	int err = check_old(place, reterr);
	if (err || !has_old(place))
		return err;
	err = old_name(place, &old, reterr);
	if (err)
		return err;
	err = file_place_set_aside(place, old, ret_older);
	if (err)
		*ret_older = '\0';
	if (err && err != -ENOENT)
		return diag_set(reterr, err, "%s.old: %s", place->path, strerror(-err));
	if (renameat(place->dir_fd, place->name, place->dir_fd, old)) {
		err = diag_set(reterr, -errno, "cannot keep %s as %s.old: %s", place->path, place->path,
			       strerror(errno));
		if (*ret_older)
			rename_to_free(place, ret_older, old);
		return err;
	}
	if (S_ISLNK(place->st.st_mode))
		log_note("%s was a link of another user: it is not followed, and is now called %s.old", place->path,
			 place->path);
	return 1;
}

static int create_error(const char *path, int err, struct diag *reterr)
{
	return diag_set(reterr, err, "cannot create %s: %s", path, strerror(-err));
}

struct unnamed_output {
	struct file_place place;
	char temporary[FILE_PLACE_TEMPORARY_ROOM];
};

/* In place of what has the name now, which is kept, as `dest` tells then. */
static int give_name(const struct file_place *place, const char *temporary, struct output_path *dest,
		     struct diag *reterr)
{
	int kept = keep_old(place, dest->older, reterr);

	if (kept < 0)
		return kept;
	int err = file_place_rename(place, temporary);
	if (err && kept)
		give_back(place, dest->older);
	dest->kept = kept && !err;
	if (err)
		*dest->older = '\0';
	return err ? create_error(place->path, err, reterr) : 0;
}

/* The file is made before what was recorded before is touched: one that cannot be made has changed nothing. */
static int create_file(const struct file_place *place, struct output_path *dest, struct diag *reterr)
{
	char temporary[FILE_PLACE_TEMPORARY_ROOM];
	AUTO_FD int fd = file_place_create_temporary(place, temporary);

	if (fd < 0)
		return create_error(place->path, fd, reterr);
	int err = give_name(place, temporary, dest, reterr);
	if (err)
		file_place_discard(place, temporary);
	return err ? err : take_fd(&fd);
}

typedef int create_function(const struct file_place *place, char temporary[FILE_PLACE_TEMPORARY_ROOM],
			    struct diag *reterr);

static int create_temporary(const struct file_place *place, char temporary[FILE_PLACE_TEMPORARY_ROOM],
			    struct diag *reterr)
{
	int fd = file_place_create_temporary(place, temporary);

	return fd < 0 ? create_error(place->path, fd, reterr) : fd;
}

static int create_unnamed(struct file_place *place, create_function *create, struct unnamed_output **ret,
			  struct diag *reterr)
{
	int err = check_old(place, reterr);

	if (err)
		return err;
	struct unnamed_output *unnamed = calloc(1, sizeof(*unnamed));
	if (!unnamed)
		return diag_set(reterr, -ENOMEM, "out of memory");
	int fd = create(place, unnamed->temporary, reterr);
	if (fd < 0) {
		free(unnamed);
		return fd;
	}
	unnamed->place = *place;
	*place = (struct file_place){.dir_fd = -1};
	*ret = unnamed;
	return fd;
}

static void unnamed_free(struct unnamed_output *unnamed)
{
	file_place_fini(&unnamed->place);
	free(unnamed);
}

/* What recorders left that were killed while what was recorded before had a temporary name. */
static void remove_leftovers(const struct file_place *place)
{
	fd_remove_leftovers(place->dir_fd, FILE_PLACE_TEMPORARY, LEFTOVER_S, remove_recording);
}

/* Something that is there, and stays: a device, a named pipe, one of our own descriptors. */
static bool is_special(const struct file_place *place)
{
	mode_t mode = place->st.st_mode;

	return place->exists && !S_ISDIR(mode) && (place->descriptor || !(S_ISREG(mode) || S_ISLNK(mode)));
}

/* Opened by us it is another open file, which begins at 0 and is emptied: open(2). */
static int check_descriptor(const struct file_place *place, const char *path, struct diag *reterr)
{
	char own[64], *end;
	long fd = strtol(place->name, &end, 10);
	struct stat st;

	if (!place->descriptor || !S_ISREG(place->st.st_mode) || !place->st.st_size || *end || end == place->name)
		return 0;
	snprintf(own, sizeof(own), "/proc/self/fd/%ld", fd);
	if (stat(own, &st) || st.st_dev != place->st.st_dev || st.st_ino != place->st.st_ino)
		return 0; /* of another process */
	int flags = fcntl((int)fd, F_GETFL);
	if (flags < 0 || (!(flags & O_APPEND) && lseek((int)fd, 0, SEEK_CUR) <= 0))
		return 0;
	return diag_set(reterr, -EINVAL,
			"%s: what stands before in that file would be lost, because a recording that is no stream "
			"begins where its file does: -o - appends a stream, or name another file",
			path);
}

static int open_path(const char *path, bool named, struct output_path *ret, struct diag *reterr)
{
	struct output_path dest = {.path = path ? path : "perf.data"};
	AUTO_FILE_PLACE struct file_place place = {.dir_fd = -1};

	if (path ? is_standard_output(path) : output_path_is_pipe(NULL)) {
		if (isatty(STDOUT_FILENO))
			return diag_set(reterr, -EINVAL, "-o -: standard output is a terminal: redirect it");
		*ret = (struct output_path){.fd = STDOUT_FILENO, .pipe = true, .path = "-"};
		return 0;
	}
	int err = file_place_find(dest.path, &place, reterr);
	if (err)
		return err;
	dest.pipe = place.exists && is_fifo(&place.st);
	err = check_descriptor(&place, dest.path, reterr);
	if (err)
		return err;
	if (is_special(&place)) {
		/* O_CREAT: for the kernel's protected_fifos, proc_sys_fs(5), to hold. */
		dest.fd = file_place_open(&place, dest.pipe ? O_WRONLY | O_CREAT : O_RDWR | O_TRUNC);
		if (dest.fd < 0)
			return create_error(dest.path, dest.fd, reterr);
	} else {
		remove_leftovers(&place);
		dest.made = named;
		dest.fd = named ? create_file(&place, &dest, reterr)
				: create_unnamed(&place, create_temporary, &dest.unnamed, reterr);
		if (dest.fd < 0)
			return dest.fd;
	}
	*ret = dest;
	return 0;
}

int output_path_open(const char *path, struct output_path *ret, struct diag *reterr)
{
	return open_path(path, true, ret, reterr);
}

int output_path_open_unnamed(const char *path, struct output_path *ret, struct diag *reterr)
{
	return open_path(path, false, ret, reterr);
}

/* A file gives its name to no directory. */
static int give_directory_name(const struct file_place *place, const char *temporary, struct output_path *dest,
			       struct diag *reterr)
{
	if (place->exists && S_ISREG(place->st.st_mode) && !place->st.st_size)
		unlinkat(place->dir_fd, place->name, 0);
	return give_name(place, temporary, dest, reterr);
}

char *output_path_temporary(const struct output_path *dest)
{
	const struct file_place *place = dest->unnamed ? &dest->unnamed->place : NULL;
	char *path;

	if (!place ||
	    asprintf(&path, "%.*s%s", (int)(place->name - place->path), place->path, dest->unnamed->temporary) < 0)
		return NULL;
	return path;
}

int output_path_name(struct output_path *dest, struct diag *reterr)
{
	struct unnamed_output *unnamed = dest->unnamed;

	if (!unnamed)
		return 0;
	/* Another one may have this name by now. */
	struct file_place *place = &unnamed->place;
	place->exists = fstatat(place->dir_fd, place->name, &place->st, AT_SYMLINK_NOFOLLOW) == 0;
	int err = (dest->main_path ? give_directory_name : give_name)(place, unnamed->temporary, dest, reterr);
	if (err)
		return err;
	unnamed_free(unnamed);
	dest->unnamed = NULL;
	dest->made = true;
	return 0;
}

/* Its main file, in a directory that has a temporary name: an fd, or -errno. */
static int create_main(const struct file_place *place, char temporary[FILE_PLACE_TEMPORARY_ROOM], struct diag *reterr)
{
	AUTO_FD int dir_fd = file_place_create_temporary_directory(place, temporary);

	if (dir_fd < 0)
		return create_error(place->path, dir_fd, reterr);
	int fd = openat(dir_fd, MAIN_FILE, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0) {
		int err = create_error(place->path, -errno, reterr);
		unlinkat(place->dir_fd, temporary, AT_REMOVEDIR);
		return err;
	}
	return fd;
}

/* As a file is: made before what was recorded before is touched. */
static int create_directory(const struct file_place *place, struct output_path *dest, struct diag *reterr)
{
	char temporary[FILE_PLACE_TEMPORARY_ROOM];
	AUTO_FD int fd = create_main(place, temporary, reterr);

	if (fd < 0)
		return fd;
	int err = give_directory_name(place, temporary, dest, reterr);
	if (err)
		remove_recording(place->dir_fd, temporary);
	return err ? err : take_fd(&fd);
}

static int open_directory_path(const char *path, bool named, struct output_path *ret, struct diag *reterr)
{
	struct output_path dest = {.path = path ? path : "perf.data", .fd = -1, .made = named};
	AUTO_FILE_PLACE struct file_place place = {.dir_fd = -1};

	int err = file_place_find(dest.path, &place, reterr);
	if (err)
		return err;
	if (asprintf(&dest.main_path, "%s/" MAIN_FILE, place.path) < 0)
		return diag_set(reterr, -ENOMEM, "out of memory");
	remove_leftovers(&place);
	dest.fd = named ? create_directory(&place, &dest, reterr)
			: create_unnamed(&place, create_main, &dest.unnamed, reterr);
	if (dest.fd < 0) {
		free(dest.main_path);
		return dest.fd;
	}
	*ret = dest;
	return 0;
}

int output_path_open_directory(const char *path, struct output_path *ret, struct diag *reterr)
{
	return open_directory_path(path, true, ret, reterr);
}

int output_path_open_unnamed_directory(const char *path, struct output_path *ret, struct diag *reterr)
{
	return open_directory_path(path, false, ret, reterr);
}

int output_path_create_part(const char *path, struct diag *reterr)
{
	AUTO_FILE_PLACE struct file_place place = {.dir_fd = -1};
	int err = file_place_find(path, &place, reterr);

	if (err)
		return err;
	int fd = file_place_create(&place);
	return fd < 0 ? create_error(path, fd, reterr) : fd;
}

/* Of a directory; without the right to read it is left to the file system, as is one that cannot (EINVAL). */
static int sync_directory(const char *path)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return errno == EACCES ? 0 : -errno;
	return fsync(fd) && errno != EINVAL ? -errno : 0;
}

/* Where the file really is: links were followed. Without /proc: as it was named. */
static void find_file(const struct output_path *dest, char ret[PATH_MAX])
{
	const char *name = dest->main_path ? dest->main_path : dest->path;
	char link[32];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", dest->fd);
	ssize_t len = readlink(link, ret, PATH_MAX - 1);
	if (len < 0)
		snprintf(ret, PATH_MAX, "%s%s", *name == '/' ? "" : "./", name);
	else
		ret[len] = '\0';
}

int output_path_sync_names(const struct output_path *dest)
{
	char path[PATH_MAX], *slash;
	struct stat st;
	int err = 0;

	if (fstat(dest->fd, &st) || !S_ISREG(st.st_mode))
		return 0;
	find_file(dest, path);
	for (int levels = dest->main_path ? 2 : 1; levels-- && !err && (slash = strrchr(path, '/'));) {
		slash[slash == path] = '\0';
		err = sync_directory(path);
	}
	return err;
}

void output_path_confirm(struct output_path *dest)
{
	AUTO_FILE_PLACE struct file_place place = {.dir_fd = -1};

	if (*dest->older && !file_place_find(dest->path, &place, NULL))
		remove_older(&place, dest->older);
	*dest->older = '\0';
}

int output_path_close(struct output_path *dest)
{
	output_path_confirm(dest);
	if (dest->unnamed) {
		if (dest->main_path)
			remove_recording(dest->unnamed->place.dir_fd, dest->unnamed->temporary);
		else
			file_place_discard(&dest->unnamed->place, dest->unnamed->temporary);
		unnamed_free(dest->unnamed);
		dest->unnamed = NULL;
	}
	free(dest->main_path);
	dest->main_path = NULL;
	int fd = dest->fd;

	dest->fd = -1;
	if (fd < 0 || fd == STDOUT_FILENO)
		return 0;
	return close(fd) ? -errno : 0;
}

/* Another recorder may have put its own there. */
static bool has_its_name(const struct output_path *dest, const struct file_place *place)
{
	struct stat own, there = place->st;

	if (!place->exists || fstat(dest->fd, &own))
		return false;
	if (dest->main_path && stat(dest->main_path, &there))
		return false;
	return own.st_dev == there.st_dev && own.st_ino == there.st_ino;
}

enum output_change output_path_change(const struct output_path *dest, char **ret_now)
{
	AUTO_FILE_PLACE struct file_place place = {.dir_fd = -1};
	int err = dest->made ? file_place_find(dest->path, &place, NULL) : 0;
	struct stat own, there;
	char path[PATH_MAX];

	*ret_now = NULL;
	if (!dest->made || fstat(dest->fd, &own))
		return OUTPUT_IN_PLACE;
	if (err ? err != -ENOENT : has_its_name(dest, &place))
		return OUTPUT_IN_PLACE;
	if (!own.st_nlink)
		return OUTPUT_REMOVED;
	find_file(dest, path);
	if (stat(path, &there) || there.st_dev != own.st_dev || there.st_ino != own.st_ino)
		return OUTPUT_RENAMED;
	if (dest->main_path)
		*strrchr(path, '/') = '\0';
	*ret_now = strdup(path);
	return OUTPUT_RENAMED;
}

void output_path_undo(struct output_path *dest)
{
	AUTO_FILE_PLACE struct file_place place = {.dir_fd = -1};

	if (!dest->made || file_place_find(dest->path, &place, NULL) || !has_its_name(dest, &place))
		return;
	output_path_remove(dest->path);
	if (dest->kept)
		give_back(&place, dest->older);
	*dest->older = '\0';
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

int part_names_add(struct part_names *names, char *name, struct diag *reterr)
{
	if (array_room(names->names, names->nr, names->room)) {
		free(name);
		return diag_set(reterr, -ENOMEM, "out of memory");
	}
	names->names[names->nr++] = name;
	while (names->keep && names->nr > names->keep) {
		output_path_remove(names->names[0]);
		free(names->names[0]);
		names->nr_removed++;
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

/* Of what is free at most a part: a small disk is for records. */
enum { SPARE_BYTES = 256 << 10, PART_OF_FREE = 16 };

static uint64_t spare_bytes(int fd)
{
	struct statvfs disk;

	if (fstatvfs(fd, &disk))
		return 0;
	uint64_t part = (uint64_t)disk.f_bavail * disk.f_frsize / PART_OF_FREE;
	return part < SPARE_BYTES ? part : SPARE_BYTES;
}

/* A file without a name in the directory of that file, wherever it was moved to. */
static int open_beside(int fd)
{
	char link[64], path[PATH_MAX];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t len = readlink(link, path, sizeof(path) - 1);
	if (len <= 0 || path[0] != '/')
		return -1;
	path[len] = '\0';
	*(strrchr(path, '/') + 1) = '\0';
	return open(path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

void spare_room_keep(struct spare_room *spare, int fd)
{
	uint64_t bytes = spare_bytes(fd);
	AUTO_FD int beside = bytes ? open_beside(fd) : -1;

	if (beside >= 0 && !fallocate(beside, 0, 0, (off_t)bytes))
		*spare = (struct spare_room){take_fd(&beside), true};
}

void spare_room_release(struct spare_room *spare)
{
	if (spare->kept)
		close(spare->fd);
	spare->kept = false;
}
