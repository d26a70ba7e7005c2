/* SPDX-License-Identifier: MIT */
/*
 * file_place: the directory and the name of a file that is to be made, found so that no other user can redirect it.
 *
 * A link at the end of the path is followed when it is root's or the caller's own; one of another user is not: it is
 * what has that name. A link in the directories before it is followed when, besides, it leads to a directory of the
 * link's owner. Each step is made from an open directory, so exchanging a checked link has no effect. Any thread.
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
	bool descriptor; /* /dev/stdout, /proc/self/fd/1: one that is open already */
	struct stat st;  /* valid when it exists: of what has the name, a link too; of a descriptor: of its file */
};

/*
 * To be freed by file_place_fini(). -errno and why: -ENOENT: there is no such directory, -ELOOP: a link that is not
 * followed.
 */
int file_place_find(const char *path, struct file_place *ret, struct diag *reterr);
void file_place_fini(struct file_place *place);
#define AUTO_FILE_PLACE __attribute__((cleanup(file_place_fini)))

/* A new file of that name, of mode 0600: an fd, O_RDWR. -EEXIST: there is something already. */
int file_place_create(const struct file_place *place);

/*
 * A new file in that directory with a name of its own, of mode 0600; file_place_rename() gives it the name of the
 * place, instead of what has that name, or file_place_discard() removes it. An fd, O_RDWR, or -errno.
 */
enum { FILE_PLACE_TEMPORARY_ROOM = 32 };
int file_place_create_temporary(const struct file_place *place, char ret_name[FILE_PLACE_TEMPORARY_ROOM]);
int file_place_rename(const struct file_place *place, const char *temporary);
void file_place_discard(const struct file_place *place, const char *temporary);

/* Opens what exists and is no regular file, if it still is what was found: an fd, or -errno. */
int file_place_open(const struct file_place *place, int flags);
