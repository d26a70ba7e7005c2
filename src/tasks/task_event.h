/* SPDX-License-Identifier: MIT */
/*
 * task_event: one record about a task or its maps, decoded. Any thread. Source of the layouts: perf_event_open(2)
 * "PERF_RECORD_*", <linux/perf_event.h>.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "perfdata/object_id.h"

struct perf_event_header;

struct task_event {
	uint32_t type; /* PERF_RECORD_COMM, FORK, EXIT, MMAP or MMAP2 */
	uint16_t misc; /* of the header */
	uint32_t pid, tid;
	uint32_t ppid, ptid;        /* FORK, EXIT */
	uint64_t start, len, pgoff; /* MMAP, MMAP2 */
	struct object_id id;        /* MMAP2; of MMAP it is unknown */
	uint32_t prot, flags;       /* as in mmap(2); of a MMAP record: prot is PROT_EXEC, or 0 for data */
	struct span name;           /* COMM, MMAP, MMAP2: points into the record, where a NUL follows */
};

/*
 * `record` has header->size readable bytes, at any alignment, and ends with `trailer_bytes` of sample_id. 1; 0: the
 * record is of another type; -EBADMSG: it is too short, or its name has no NUL.
 */
int task_event_decode(const struct perf_event_header *header, const void *record, size_t trailer_bytes,
		      struct task_event *ret);

/* Whether a MMAP or MMAP2 record is of memory without a file. Code there was compiled at run time. */
bool task_event_is_anonymous(const struct task_event *map);
/*
 * Whether the file of that name is memory of its process, as memfd_create(2) and shm_open(3) make it: code there may be
 * of an ELF file, or may have been compiled at run time.
 */
bool path_is_memory(const char *path);
