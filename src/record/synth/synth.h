/* SPDX-License-Identifier: MIT */
/*
 * synth: the initial state of tasks and maps as records: what began before the recording did. Each function appends
 * whole records to a buf: 0, -ENOMEM, or -errno when its source cannot be read (the caller decides whether
 * that matters). Kernel-type records carry time 0 and a zeroed trailer. Source of the order and of each
 * field: files of perf 6.1.
 *
 * What begins while procfs is being read (a process, a thread, a map) is in neither listing nor kernel
 * records unless the kernel already records: open and map all events first, then synthesize the tasks, then
 * enable, as perf does, leaves a gap between the two. It is closed when the event that carries mmap, comm and
 * task (the dummy of -a) is enabled from its open on, before the first synth_*task* call: a map may then be
 * told twice, once here with time 0 and once by the kernel with its time, which readers take as the same map.
 * Events that sample may be enabled later. A process that ends during this is at worst described with fewer
 * maps than it had.
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
	bool data_maps;       /* also maps that are not executable */
	bool mmap2;           /* the events ask for MMAP2 (else MMAP) */
	bool namespaces;      /* of each task */
	bool build_ids;       /* in MMAP2, in place of the inode */
	bool skip_tasks;      /* no names and parents of tasks */
	bool skip_maps;
	unsigned maps_timeout_ms; /* for the maps of one process; 0: no limit */
	unsigned nr_threads;      /* that read procfs; 0: one */
};

/* Where each id of an event was opened; for ID_INDEX. */
struct synth_id {
	uint64_t id, index; /* index: of the ring */
	int64_t cpu, tid;   /* -1: any */
};

struct synth_task {
	pid_t tid;
	char comm[16]; /* blank for a workload that has not begun */
};

int synth_id_index(const struct synth_id *ids, size_t nr, struct buf *out);
int synth_event_updates(const struct event_desc *events, size_t nr, bool names, struct buf *out);
int synth_thread_map(const struct synth_task *tasks, size_t nr, struct buf *out); /* nr 0: all tasks (-1) */
int synth_cpu_map(const struct cpuset *cpus, struct buf *out);                    /* NULL: any CPU */

/* The kernel's own text and its modules. -ENOENT: kallsyms tells no addresses. */
int synth_kernel(const struct synth_params *params, struct buf *out);
int synth_bpf(const struct synth_params *params, struct buf *out);

/* Every process and thread of /proc (-a); processes that vanish on the way are skipped. */
int synth_all_tasks(const struct synth_params *params, struct buf *out);

/* One process with all its threads and its maps (-p). -ESRCH: gone. */
int synth_process(const struct synth_params *params, pid_t pid, struct buf *out);

/*
 * These threads and the maps of their processes (-t): each in the order given; behind a thread whose
 * process's first thread is not among them, that one and the maps. Threads that are gone are skipped; -ESRCH
 * when all are.
 */
int synth_threads(const struct synth_params *params, const pid_t *tids, size_t nr, struct buf *out);

/* -ENOENT: no cgroups are mounted. */
int synth_cgroups(const struct synth_params *params, struct buf *out);

/* Of one task; what is gone is 0. */
int synth_namespaces(const struct synth_params *params, pid_t pid, pid_t tid, struct buf *out);

/* The name of a workload before its exec. */
int synth_workload(const struct synth_params *params, pid_t pid, struct buf *out);

/* LOST_SAMPLES of one event fd. `attr` gives the layout of the trailer, which carries the id. */
int synth_lost_samples(const struct perf_event_attr *attr, uint64_t id, uint64_t lost, struct buf *out);

int synth_finished_init(struct buf *out);
