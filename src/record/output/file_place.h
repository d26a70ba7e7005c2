/* SPDX-License-Identifier: MIT */
/*
 * file_place: the directory and the name of a file that is to be made, found so that no other user can redirect it.
 *
 * A symbolic link as the last component of the path is followed if it belongs to root or to the caller. A link of
 * another user is not followed; the name is then that of the link itself. A link among the directories is followed if
 * it belongs to root or to the caller, or if it leads to a directory of its own owner; otherwise -ELOOP. Each step
 * starts from an open directory, so exchanging a link after it was checked has no effect. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

struct diag;

struct file_place {
	int dir_fd;       /* O_PATH */
	char *path;       /* heap; as it was given, with the links at its end followed */
	const char *name; /* in `path`: the last component */
	bool exists;
	bool descriptor; /* /dev/stdout, /proc/self/fd/1: the name of an open descriptor */
	struct stat
		st; /* valid when it exists: of the file of that name, or of the link; of a descriptor: of its file */
};

/*
 * 0, or -errno and why; -ENOENT: there is no such directory; -ELOOP: a link that is not followed. The caller calls
 * file_place_fini().
 */
int file_place_find(const char *path, struct file_place *ret, struct diag *reterr);
void file_place_fini(struct file_place *place);
#define AUTO_FILE_PLACE __attribute__((cleanup(file_place_fini)))

/* Makes a new file of that name and of mode 0600: returns an fd, O_RDWR, or -errno; -EEXIST: the name is in use. */
int file_place_create(const struct file_place *place);

/*
 * Makes a new file of mode 0600 in that directory, under a temporary name: returns an fd, O_RDWR, or -errno. Then
 * file_place_rename() gives it its final name, replacing a file of that name, or file_place_discard() removes it. 0 or
 * -errno.
 */
#define FILE_PLACE_TEMPORARY ".millrace-" /* what such names begin with; fd_remove_leftovers() */
enum { FILE_PLACE_TEMPORARY_ROOM = 32 };
int file_place_create_temporary(const struct file_place *place, char ret_name[FILE_PLACE_TEMPORARY_ROOM]);
int file_place_rename(const struct file_place *place, const char *temporary);
/* A new directory of mode 0700 likewise: returns an fd of it. It is discarded by unlinkat(2), with what is in it. */
int file_place_create_temporary_directory(const struct file_place *place, char ret_name[FILE_PLACE_TEMPORARY_ROOM]);
void file_place_discard(const struct file_place *place, const char *temporary);

/* Gives what is called `name` in that directory a temporary name: 0; -ENOENT: there is nothing of that name; -errno. */
int file_place_set_aside(const struct file_place *place, const char *name, char ret_name[FILE_PLACE_TEMPORARY_ROOM]);

/* Opens an existing file that is not regular, if it is still the one that file_place_find() found: an fd, or -errno. */
int file_place_open(const struct file_place *place, int flags);
