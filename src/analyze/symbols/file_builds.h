/* SPDX-License-Identifier: MIT */
/* file_builds: what the files contained that were mapped, from FEATURE_MAPPED_FILES. One thread. */
#pragma once

#include <stdbool.h>

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
