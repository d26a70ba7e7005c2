/* SPDX-License-Identifier: MIT */
/* finish: makes a whole perf.data of a file that has header and records. */
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
	uint64_t data_bytes;       /* from header.data.offset on; what follows is cut off */
	bool torn;                 /* writing failed: the last record may be cut */
	bool durable;              /* what the header counts is on the disk before it, and both when this returns */
	const struct features_params *features;
	bool all_build_ids;         /* of every object that was mapped, hit or not */
	struct object_watch *watch; /* holds objects open; NULL: none does */
	const char *cache;          /* where objects are kept that will not be found; heap or NULL: nowhere */
	uint64_t cache_max_bytes;
	bool bundle;                    /* it goes to other machines */
	bool build_ids;                 /* look up the build-ids of sampled objects */
	bool shows_progress;            /* of what is read back, on standard error */
	struct collector *const *lives; /* of the file itself; see hits_region */
	size_t nr_lives;
	const struct collect_region *parts; /* the other files of a data directory; borrowed */
	size_t nr_parts;
	const struct extent_list *extents; /* of all files; borrowed */
	struct ledger *ledger;     /* what was lost, and used; the cost of the end is added. NULL: none was kept */
	uint64_t cpu_from_ns;      /* CPU time of this thread when the end began */
	struct loss_times *losses; /* learns when, if the records are read back; NULL: not wanted */
};

struct finish_result {
	uint64_t data_bytes;  /* what the file tells */
	uint64_t cut_samples; /* given up so that the header fits on a full disk */
	uint64_t nr_samples;
	bool samples_counted;
};

/*
 * The main file of a data directory gets nothing more until the end: it can be finished before the first event, and is
 * undone before records are added to it. So what is left of a recorder that was killed can be read.
 */
int write_provisional_header(const struct finish_params *params);
int reopen_header(const struct finish_params *params);

/* 0, or -errno and the diag: the file is then as readable as it could be made. */
int finish_file(const struct finish_params *params, struct finish_result *ret, struct diag *reterr);
