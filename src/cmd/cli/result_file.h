/* SPDX-License-Identifier: MIT */
/*
 * result_file: a file that gets its name when it is complete, and then replaces an older one. "-" is standard output; a
 * device or a pipe is written to directly. One owner, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "record/output/file_place.h"

struct diag;

struct result_file {
	int fd;
	const char *path; /* for messages; borrowed */
	struct file_place place;
	char temporary[FILE_PLACE_TEMPORARY_ROOM]; /* "": there is none */
	char *temporary_path;                      /* heap */
};

/* What the name may refer to: anything that can be written to; or only a regular file, for formats that seek. */
enum result_file_kind { RESULT_STREAM, RESULT_REGULAR };

/* 0, or -errno and why. Links of other users are not followed: record/output/file_place.h. */
int result_file_open(const char *path, enum result_file_kind kind, struct result_file *ret, struct diag *reterr);

/* For libraries that open a file by its name; NULL: it is no regular file. Valid until it is closed. */
const char *result_file_path(const struct result_file *file);

uint64_t result_file_bytes(const struct result_file *file); /* so far; 0: unknown */

/*
 * Gives the file its name; with `keep` false, or when there is a shortage(), removes it instead. 0, or -errno and why.
 */
int result_file_close(struct result_file *file, bool keep, struct diag *reterr);
