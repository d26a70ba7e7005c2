/* SPDX-License-Identifier: MIT */
/*
 * downloads: debug information and programs by build-id from debuginfod servers, into the cache of libdebuginfod, where
 * gdb, perf and later reports find them. Nothing is downloaded unless one of these is made. Any thread.
 * Source: debuginfod_find_debuginfo(3), debuginfod-client-config(7).
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
	 * Called several times a second with the bytes of `name` so far, `all` 0: not known; and with name NULL when
	 * it has ended. false: this and all that follow are not downloaded. NULL: nothing is told.
	 */
	bool (*progress)(const char *name, uint64_t bytes, uint64_t all);
};

/* What came, and why not all. */
struct download_result {
	size_t nr, nr_missing, nr_too_large;
	uint64_t bytes;
	const char *stopped; /* why nothing more was asked for; NULL: no reason */
};

/* 0; -EINVAL: no server is named, or there is no libdebuginfod here. Main thread. */
int downloads_check(const struct download_options *options, struct diag *reterr);

/* 0 or -ENOMEM. Before there are other threads: it changes the environment. */
int downloads_new(const struct download_options *options, struct downloads **ret);
void downloads_free(struct downloads *downloads); /* NULL is fine */

enum download_part { DOWNLOAD_DEBUG, DOWNLOAD_EXECUTABLE };

/*
 * The path of the file in the cache, on the heap; it was there, or it came. NULL: no server has it, or as struct
 * download_result says. `name` is for the progress. Asks once for each file. NULL for `downloads` is fine.
 */
char *downloads_get(struct downloads *downloads, const struct elf_id *id, enum download_part part, const char *name);

void downloads_result(struct downloads *downloads, struct download_result *ret);
