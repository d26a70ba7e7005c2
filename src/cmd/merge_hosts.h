/* SPDX-License-Identifier: MIT */
/*
 * merge_hosts: records of several machines in one file. Numbers that could be taken for those of another machine are
 * shifted: pids (LAYOUT_PIDS_OF_HOST), CPUs, ids of events and cgroups, times (to the clock of the first machine, by
 * the time of day of both) and addresses in the kernel. A file has one kernel: that of the first machine; those of the
 * others are objects without names. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/hash_table.h"
#include "base/pool.h"

struct diag;
struct session;
struct session_record;

/* What is added to what a recording has. All 0: it is of the first machine. */
struct host_shift {
	const char *name; /* of the machine; of the pool below */
	int64_t time_ns;
	uint64_t ids, kernel_bytes /* subtracted */;
	uint32_t number, pids, cpus;
	struct hash_table build_ids; /* of mapped files, by path and by device and inode; private */
};

struct merge_hosts {
	struct host_shift *shifts; /* heap; by the number of the recording; NULL: all are of one machine */
	size_t nr;
	unsigned nr_hosts;
	char *names; /* heap; of all machines, separated by commas */
	struct pool pool;
};

/* Zeroed before; merge_hosts_fini() in any case. -EINVAL: they cannot be in one file, and why; -ENOMEM. */
int merge_hosts_find(struct session *const sessions[], size_t nr, struct merge_hosts *ret, struct diag *reterr);
void merge_hosts_fini(struct merge_hosts *hosts);

/* The name of the idle task of each machine but the first, which no record has: appended as records. */
void merge_hosts_put_idle(const struct merge_hosts *hosts, size_t trailer_bytes, struct buf *out);

/* Whether a time of the recording is before the first machine was started: its clock does not have it. */
bool host_shift_is_before_start(const struct host_shift *shift, uint64_t time_ns);

/*
 * Replaces the content of `out` by the record with shifted numbers; by nothing, when it describes its whole recording.
 * 0; -ENOTSUP: records of its type cannot be moved; -EBADMSG: it is damaged; -ENOMEM.
 */
int host_shift_record(const struct host_shift *shift, const struct session_record *record, struct buf *out);
