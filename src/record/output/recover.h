/* SPDX-License-Identifier: MIT */
/*
 * recover: repairs, in place, a recording whose recorder died, or whose end is missing. What depends on the records is
 * read from them again; what the recorder would have asked the system at its end is taken from this machine.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/output/damage.h"

struct diag;

struct recover_params {
	const char *path; /* a file, or a data directory; a link is not followed: output_path_resolve() */
	const char *name; /* what messages call it; NULL: as path */
	bool build_ids;   /* look up the build-ids of sampled objects */
	bool force;       /* also a recording that another user owns */
	bool index;       /* make a new index of the extents, also for a recording that is complete */
	bool leave_out;   /* remove what is damaged */
	int argc;         /* for CMDLINE */
	char **argv;
};

struct recover_result {
	bool was_whole;      /* nothing was changed, except the index */
	size_t nr_extents;   /* in the new index */
	uint64_t data_bytes; /* of records, of all files */
	uint64_t nr_samples;
	bool samples_counted;
	uint64_t dropped_bytes; /* that were behind the last whole record of each file */
	/* Removed with params.leave_out. Else it stays, and with is_left the whole recording stays as it was. */
	struct damage_list damage; /* the caller's: damage_list_fini() */
	bool is_left;
};

/*
 * 0, or -errno and why; -EBADMSG: no attrs are left, or this is no perf.data file; -EBUSY: it is still written to, and
 * nothing was changed.
 */
int recover_recording(const struct recover_params *params, struct recover_result *ret, struct diag *reterr);
