/* SPDX-License-Identifier: MIT */
/*
 * cache_files: small files below the user's cache directory, $XDG_CACHE_HOME/millrace/lines or else
 * ~/.cache/millrace/lines. Only what belongs to the effective user and no other user can write is used, and nothing
 * that is a link. Any thread and process: a file is replaced as a whole.
 */
#pragma once

#include <stddef.h>

#include "base/span.h"

struct buf;

enum {
	CACHE_FILE_MOST_BYTES = 64 << 20,       /* of one file */
	CACHE_DIRECTORY_MOST_BYTES = 256 << 20, /* of all; the oldest are removed first */
	CACHE_DIRECTORY_MOST_FILES = 4096,
};

/* make: it is made if it is not there. A descriptor, which the caller closes, or -errno. */
int cache_directory_open(bool make);

/* Appends a whole file of at most `most` bytes to `ret`. 0 or -errno. */
int cache_file_read(int dir_fd, const char *name, size_t most, struct buf *ret);

/* Only its first bytes, as many as the room has. 0; -ENODATA: it has less; or -errno. */
int cache_file_peek(int dir_fd, const char *name, void *ret, size_t bytes);

/* Makes or replaces a file, once there is room for it. 0; -EFBIG: now there is none; else -errno: nothing changed. */
int cache_file_write(int dir_fd, const char *name, struct span bytes);
