/* SPDX-License-Identifier: MIT */
/*
 * synth: the initial state (tasks and maps that exist before the recording begins) as records. Each function appends
 * whole records to a buf, and returns 0, -ENOMEM, or -errno when its source cannot be read (the caller decides whether
 * that is an error). Records of kernel types have a zeroed trailer, so their time is 0. Source of the order and of each
 * field: files of perf 6.1.
 *
 * A process, thread or map that begins while procfs is being read may be missing from both the synthesised records and
 * those of the kernel. perf has that gap, as it enables the events after it has synthesised the tasks. To avoid it, the
 * event with attr.mmap, comm and task must be enabled before the first synth_*task* call; other events may be enabled
 * later. Then a map may be described twice, here with time 0 and by the kernel with its time; readers treat them as the
 * same map. A process that ends while it is read may be described with fewer maps than it had.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "perfdata/attr.h"

struct buf;
struct cpuset;
struct diag;

struct synth_params {
	size_t trailer_bytes; /* sample_id_bytes() of the events */
	bool data_maps;       /* also maps without PROT_EXEC */
	bool mmap2;           /* the events ask for MMAP2 (else MMAP) */
	bool namespaces;      /* also a NAMESPACES record of each task */
	bool build_ids;       /* in MMAP2, in place of the inode */
	bool skip_tasks;      /* no COMM and FORK records */
	bool skip_maps;
	bool only_named;          /* synth_threads(): no first threads that are not in the list */
	unsigned maps_timeout_ms; /* limit for reading the maps of one process; 0: none */
	unsigned nr_threads;      /* that read procfs of all tasks; 0: as many as are useful */
};

/* An id of an event, and where the event was opened; for ID_INDEX. */
struct synth_id {
	uint64_t id, index; /* index: of the ring */
	int64_t cpu, tid;   /* -1: any */
};

struct synth_task {
	pid_t tid;
	char comm[16]; /* empty for a workload before its exec */
};

int synth_id_index(const struct synth_id *ids, size_t nr, struct buf *out);
int synth_event_updates(const struct event_desc *events, size_t nr, bool names, struct buf *out);
int synth_thread_map(const struct synth_task *tasks, size_t nr, struct buf *out); /* nr 0: all tasks (-1) */
int synth_cpu_map(const struct cpuset *cpus, struct buf *out);                    /* NULL: any CPU */

/* The kernel's own text, and its modules. -ENODATA: kallsyms contains no addresses; -ENOENT: there is none. */
int synth_kernel(const struct synth_params *params, struct buf *out);
int synth_bpf(const struct synth_params *params, struct buf *out);

/* Every process and thread of /proc (-a); processes that vanish on the way are skipped. */
int synth_all_tasks(const struct synth_params *params, struct buf *out);

/* One process with all its threads and its maps (-p). -ESRCH: gone. */
int synth_process(const struct synth_params *params, pid_t pid, struct buf *out);

/*
 * These threads (-t), in this order, and the maps of their processes: the maps of a process come behind its first
 * thread, which is added if it is not in the list; with only_named neither is then. Threads that have ended are
 * skipped; -ESRCH when all have.
 */
int synth_threads(const struct synth_params *params, const pid_t *tids, size_t nr, struct buf *out);

/* -ENOENT: no cgroups are mounted. */
int synth_cgroups(const struct synth_params *params, struct buf *out);

/* The NAMESPACES record of one task; namespaces that cannot be read are 0. */
int synth_namespaces(const struct synth_params *params, pid_t pid, pid_t tid, struct buf *out);

/* The COMM record of a workload before its exec. */
int synth_workload(const struct synth_params *params, pid_t pid, struct buf *out);

/* LOST_SAMPLES of one event fd. `attr` gives the layout of the trailer, which carries the id. */
int synth_lost_samples(const struct perf_event_attr *attr, uint64_t id, uint64_t lost, struct buf *out);

int synth_finished_init(struct buf *out);
