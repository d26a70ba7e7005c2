/* SPDX-License-Identifier: MIT */
/*
 * object_watch: opens the files of objects as soon as they are mapped, while their processes live, and holds them open:
 * those of containers, and files that are replaced or deleted, are not found under their path when the recording ends.
 * It has a thread and small rings of its own (a dummy event for each CPU), so that draining knows nothing of it; what
 * it misses is looked for at the end. Also notes which processes have code that was compiled at run time, and has BPF
 * programs read when they are loaded. Owned by the recording; thread-safe but for start and stop.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/span.h"
#include "sysinfo/object_file.h"

struct bpf_programs;
struct buf;
struct object_watch;
struct target;

struct object_watch_params {
	const struct target *target; /* borrowed until object_watch_stop() */
	uint64_t interval_ns; /* between two samples of a CPU at least; 0: they may come at any time. With a long one it
				 looks less often: what is mapped and gone in between is hardly ever sampled */
	bool bpf;             /* programs are read, too */
	size_t max_fds;       /* it has no more open at a time, beside one of its own */
};

/*
 * Its events count from here on. Where the kernel or max_fds do not let us, it only knows what object_watch_note()
 * says. 0 or -ENOMEM.
 */
int object_watch_open(const struct object_watch_params *params, struct object_watch **ret);

/*
 * Starts the thread, with the rights of the caller, when all else has started: until then the rings keep what is
 * mapped. What was mapped before is opened 20 ms later. NULL is fine. 0 or -errno.
 */
int object_watch_start(struct object_watch *watch);

/* Maps that are there already: MMAP2 records among others, without sample_id. NULL is fine, as for the next. */
void object_watch_note(struct object_watch *watch, struct span records);

/* Looks once more, and ends the thread. What it holds stays. */
void object_watch_stop(struct object_watch *watch);
void object_watch_free(struct object_watch *watch);

/* Those that were loaded, valid until free; NULL: they were not wanted. */
struct bpf_programs *object_watch_bpf_programs(struct object_watch *watch);

/* Of the file that was mapped: a descriptor that stays the watch's, valid until free; -1: it holds none. */
int object_watch_find(struct object_watch *watch, const struct file_id *file);

/* The same for one with that build-id, where a record only has this and a path; it may have been mapped by another. */
int object_watch_find_build(struct object_watch *watch, const char *path, const struct elf_id *build_id);

/*
 * Appends the perf-PID.map of a process: as it was when the process ended, or as it is now; `pid` as we see it. 0;
 * -ENOENT: there is none, -EPERM: it is neither root's nor ours nor of the user whose process it is, -ESTALE: two
 * processes had the number; else as object_file_open() and fd_slurp_rest().
 */
int object_watch_read_perf_map(struct object_watch *watch, pid_t pid, struct buf *ret);
