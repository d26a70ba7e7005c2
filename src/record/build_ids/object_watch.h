/* SPDX-License-Identifier: MIT */
/*
 * object_watch: opens the files of objects as soon as they are mapped, while their processes live, and keeps them open,
 * because files in containers, and files that are replaced or deleted, are not found under their path when the
 * recording ends. It has a thread and small rings of its own (a dummy event for each CPU), independent of draining.
 * Files that it misses are looked for at the end. It also notes which processes have code that was compiled at run
 * time, and reads BPF programs when they are loaded. Call chains that are unwound while recording need these files,
 * too, before it ends. Owned by the recording; thread-safe except for start and stop.
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
	/*
	 * shortest time between two samples of a CPU, in ns; 0: there is no minimum. When it is long the watch looks
	 * less often, because an object that is mapped only between two looks is hardly ever sampled
	 */
	uint64_t interval_ns;
	bool bpf;            /* also read BPF programs */
	bool reports_missed; /* object_watch_stop() prints how many objects are not kept */
	size_t max_fds;      /* the most files that it keeps open, not counting one for itself */
};

/*
 * Opens the events, which count from now on. When the kernel or max_fds does not allow them, only object_watch_note()
 * adds files. 0 or -ENOMEM.
 */
int object_watch_open(const struct object_watch_params *params, struct object_watch **ret);

/*
 * Starts the thread, with the rights of the caller, to be called when all else has started: until then the rings keep
 * the records of 200 maps, and object_watch_note() reads them. Files that were mapped before are opened 20 ms later.
 * NULL is fine. 0 or -errno.
 */
int object_watch_start(struct object_watch *watch);

/*
 * Reads the rings, and adds the maps that exist already: the MMAP2 records, without sample_id, among `records`. `watch`
 * may be NULL, also in the functions below.
 */
void object_watch_note(struct object_watch *watch, struct span records);

/* Reads the rings once more, and ends the thread. The files stay open until object_watch_free(). */
void object_watch_stop(struct object_watch *watch);
void object_watch_free(struct object_watch *watch);

/*
 * A recording of several files closes what only those need that are finished: the files of programs that were deleted
 * would take room on their disks otherwise, for days. object_watch_next_output() is called before the initial state of
 * the next output is collected, and returns its number, 1 or more. object_watch_forget() is about what was not mapped
 * since output number `output` began. It must not be called while others use descriptors of the watch.
 */
unsigned object_watch_next_output(struct object_watch *watch);
void object_watch_forget(struct object_watch *watch, unsigned output);

/*
 * How many of the files that are open are not found under their path here: they were deleted or replaced, or are in
 * other mount namespaces. To be called behind object_watch_stop().
 */
size_t object_watch_count_gone(struct object_watch *watch);

/* The BPF programs that were read, valid until object_watch_free(); NULL: params.bpf was not set. */
struct bpf_programs *object_watch_bpf_programs(struct object_watch *watch);

/*
 * Whether an open file, which was mapped as `file`, contains what it did then, as far as the watch knows: 0; -ESTALE:
 * it was written to since, or may have been.
 */
struct watched_contents {
	struct elf_id build_id; /* when the watch opened it; len 0: not known, or not that of the first map */
	bool mapped_later;      /* it was mapped once more, and not looked at since, or may have had other contents */
};
int object_watch_check(struct object_watch *watch, const struct file_id *file, int fd, struct watched_contents *ret);

/* The same, but 0 also when it was written to and has the build-id that it had at each map. -errno of fstat(2). */
int object_watch_check_contents(struct object_watch *watch, const struct file_id *file, int fd);

/* The descriptor of the file that was mapped, owned by the watch, until it forgets it; -1: it has none. */
int object_watch_find(struct object_watch *watch, const struct file_id *file);

/*
 * A descriptor for reading of the file that was mapped, which the caller closes; it may share its offset with others.
 * -ENOENT: the watch has none; -ESTALE: the file was written to since it was mapped, or may have been; -EMFILE, or
 * -errno of open(2). Also while the watch forgets objects.
 */
int object_watch_open_copy(struct object_watch *watch, const struct file_id *file);

/*
 * As object_watch_find(), for a file with that build-id, for records that have no file id. Files that were mapped under
 * `path` are tried first, then all others.
 */
int object_watch_find_build(struct object_watch *watch, const char *path, const struct elf_id *build_id);

/*
 * Appends the file /tmp/perf-PID.map of a process (`pid` in our namespace): as it was when the process ended, or as it
 * is now. 0; -ENOENT: there is none; -EPERM: it does not belong to the user of the process, nor to root or us so that
 * all can read it; -ESTALE: two processes had that pid; -ESRCH: the process has begun after its last change;
 * -ECHILD: so has the watch, and when the process began is not known, as it was gone before it was looked at; -ETIME:
 * the recording ended at `until_ns` (CLOCK_REALTIME; 0: it ends now), the file was changed later, and no process goes
 * on that had the number then; other errors as object_file_open() and fd_slurp_rest(). *ret_written_ns is the time of
 * its last change (CLOCK_REALTIME).
 */
int object_watch_read_perf_map(struct object_watch *watch, pid_t pid, int64_t until_ns, struct buf *ret,
			       int64_t *ret_written_ns);
