/* SPDX-License-Identifier: MIT */
/*
 * file_builds: what the files contained that were mapped, from FEATURE_MAPPED_FILES; and why what is there now is not
 * used. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "base/pool.h"
#include "base/span.h"
#include "perfdata/object_id.h"

/* Zeroed: empty. */
struct file_builds {
	struct pool pool;
	struct hash_table by_file;
	bool filled;
};

void file_builds_fini(struct file_builds *builds);

/* Takes the entries of the payload. 0 or -ENOMEM. */
int file_builds_fill(struct file_builds *builds, struct span payload);

/*
 * What all entries say whose file equals this one, see file_id_equal(); nothing is known where they differ, as
 * recordings of several machines were joined. false: there is none.
 */
bool file_builds_find(const struct file_builds *builds, const struct file_id *file, struct file_build_id *ret);

/* Why the file under the name of an object is not used. */
struct dso_doubt {
	enum {
		DSO_TRUSTED,
		DSO_OTHER_BUILD,  /* build-ids differ */
		DSO_OTHER_FILE,   /* there is no build-id, and device, inode or generation differ */
		DSO_WRITTEN,      /* there is no build-id, and the file was written to after it was mapped */
		DSO_ELSEWHERE,    /* there is no build-id; on the machine that recorded it may be another file */
		DSO_FOREIGN_MAP,  /* /tmp/perf-PID.map belongs to another user, or is no regular file, or too large */
		DSO_MAP_NOT_KEPT, /* it was refused while recording */
		DSO_OTHER_MAP,    /* it was written by another program that the process ran before or after this one */
		DSO_DUMP_REFUSED, /* the jitdump of the process is too large, or is none; there is no map either */
	} why;
	int dump_error;       /* of DSO_DUMP_REFUSED: -errno of jit_code_read() */
	uint32_t missing;     /* of DSO_MAP_NOT_KEPT: enum perf_map_missing */
	struct elf_id found;  /* of DSO_OTHER_BUILD; len 0: that file has none */
	uint64_t found_inode; /* of DSO_OTHER_FILE */
	uint64_t nr_uses;     /* how often an address of the object was looked up; counted by several threads */
};
