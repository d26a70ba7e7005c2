/* SPDX-License-Identifier: MIT */
/*
 * object_cache: a directory with copies of objects by build-id, as perf's ~/.debug: NAME/ID/elf, and .build-id/xx/rest
 * as a link to NAME/ID. perf, hotspot and our own reading look there. Several recorders may fill one at the same time:
 * a copy has its name only when it is whole. Any thread. Source: perf-buildid-cache(1).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "perfdata/object_id.h"

struct cache_entry {
	int dir_fd;       /* of the cache */
	const char *name; /* of the object, as recorded: "/usr/bin/true", "[vdso]" */
	struct elf_id id; /* len > 0 */
	const char *leaf; /* "elf", "debug", "vdso", "kallsyms", those of split_files.h */
};

/*
 * Opens the directory of a cache, and makes it if it does not exist. A descriptor, or -errno; -EPERM: other users can
 * write to it, so it must not be used.
 */
int object_cache_open(const char *path);

bool object_cache_has(const struct cache_entry *entry);

/*
 * Whether the copy has the contents of a file; of more than 4 MiB parts are compared. 1, 0 or -errno; -ENOENT: there is
 * no copy.
 */
int object_cache_is_same(const struct cache_entry *entry, int file_fd);

/*
 * Copies a regular file into the cache, from its start. *ret_bytes (NULL: not wanted): its size. 0; -EFBIG: it has more
 * than `max_bytes`, and was not copied; -errno.
 */
int object_cache_put_file(const struct cache_entry *entry, int from_fd, uint64_t max_bytes, uint64_t *ret_bytes);
/*
 * The same for a file without a build-id: entry->id becomes the one that its contents give it (copy_id_make()). A copy
 * of the same bytes that is there already is taken: *ret_bytes is 0 then. -ENODATA: the file became shorter.
 */
int object_cache_put_contents(struct cache_entry *entry, int from_fd, uint64_t max_bytes, uint64_t *ret_bytes);
int object_cache_put_bytes(const struct cache_entry *entry, struct span bytes);
