/* SPDX-License-Identifier: MIT */
/*
 * downloads: gets debug information and programs from debuginfod servers by build-id, into the cache of libdebuginfod,
 * where gdb, perf and later reports find them. Any thread. Source: debuginfod_find_debuginfo(3),
 * debuginfod-client-config(7).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perfdata/object_id.h"

struct diag;
struct downloads;

struct download_options {
	bool wanted;
	const char *urls; /* separated by blanks, borrowed; NULL: the environment's DEBUGINFOD_URLS */
	/*
	 * Called several times a second with the number of bytes of `name` so far and in `all` (0: not known); with
	 * name NULL when a download has ended. Returns false to cancel this and all later downloads. NULL: no progress.
	 */
	bool (*progress)(const char *name, uint64_t bytes, uint64_t all);
};

/* What was downloaded, and why the rest was not. */
struct download_result {
	size_t nr, nr_missing, nr_too_large;
	uint64_t bytes;
	const char *stopped; /* why no further downloads are tried; NULL: they are */
};

/* 0; -EINVAL: no server is named, or there is no libdebuginfod here. Main thread. */
int downloads_check(const struct download_options *options, struct diag *reterr);

/* 0 or -ENOMEM. Before there are other threads: it changes the environment. */
int downloads_new(const struct download_options *options, struct downloads **ret);
void downloads_free(struct downloads *downloads); /* NULL is fine */

enum download_part { DOWNLOAD_DEBUG, DOWNLOAD_EXECUTABLE };

/*
 * Downloads the file if the cache does not have it. Returns its path in the cache, on the heap; NULL: no server has it,
 * or see struct download_result. Each file is requested once. `name` is for the progress. `downloads` may be NULL.
 */
char *downloads_get(struct downloads *downloads, const struct elf_id *id, enum download_part part, const char *name);

void downloads_result(struct downloads *downloads, struct download_result *ret);
