/* SPDX-License-Identifier: MIT */
/* finish: completes a perf.data file that has a header and records: adds the features, and rewrites the header. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perfdata/layout.h"

struct diag;
struct features_params;
struct collect_region;
struct extent_list;
struct ledger;
struct loss_times;
struct object_watch;

struct finish_params {
	int fd;
	const char *path;
	struct file_header header; /* as written at the start; data.size 0 */
	uint64_t data_bytes;       /* bytes of records from header.data.offset on; the file is cut off behind them */
	bool torn;                 /* true: writing failed, so the last record may be incomplete */
	/* fdatasync(2) the records before the header is written, and the header before this returns */
	bool durable;
	const struct features_params *features;
	bool all_build_ids;         /* of every object that was mapped, sampled or not */
	struct object_watch *watch; /* keeps objects open; NULL: none */
	/* directory for copies of objects that will not be found later; NULL: none are made */
	const char *cache;
	uint64_t cache_max_bytes;
	_Atomic uint64_t *cache_bytes; /* caller's: copied into it so far, at most so many; NULL where there is none */
	bool bundle;                   /* the recording will be read on other machines */
	int64_t until_ns;              /* CLOCK_REALTIME: when the recording ended; 0: it ends now */
	bool build_ids;                /* look up the build-ids of sampled objects */
	bool shows_progress;           /* of what is read back, on standard error */
	struct collector *const *collectors; /* of the file itself; see struct collect_region */
	size_t nr_collectors;
	const struct collect_region *parts; /* the other files of a data directory; borrowed */
	size_t nr_parts;
	const struct extent_list *extents; /* of all files; borrowed */
	struct ledger *ledger;             /* losses and costs; the cost of finishing is added. NULL: there is none */
	uint64_t cpu_from_ns;              /* CPU time of this thread, in ns, when finishing began */
	/* gets the records, if they are read back, to find out when records were lost; NULL: not wanted */
	struct loss_times *losses;
};

struct finish_result {
	uint64_t data_bytes;  /* bytes of records that the header counts */
	uint64_t cut_samples; /* samples that were removed so that the features fit on a full disk */
	uint64_t cut_bytes;   /* of records: of these and what stood between them; the ledger has them, too */
	uint64_t nr_samples;
	bool samples_counted; /* false: cut_samples and nr_samples are not known */
};

/*
 * The main file of a data directory does not change while recording. write_provisional_header() completes it before the
 * events are enabled, so that the directory can be read even if the recorder is killed; reopen_header() undoes that
 * before further records are added. 0 or -errno.
 */
int write_provisional_header(const struct finish_params *params);
int reopen_header(const struct finish_params *params);

/* Completes the file. 0, or -errno with the reason in the diag; then as much of the file is readable as possible. */
int finish_file(const struct finish_params *params, struct finish_result *ret, struct diag *reterr);
