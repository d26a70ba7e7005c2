/* SPDX-License-Identifier: MIT */
/*
 * plan: which event is opened for whom, where, and into which ring. Made from events and target before anything
 * opens; pure. Owned by the recording.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct event_list;
struct target;

/* One perf_event_open(2): event × CPU × task. */
struct plan_slot {
	size_t event; /* index into the events */
	pid_t pid;    /* -1: all tasks */
	int cpu;      /* -1: any CPU */
	size_t ring;  /* index into the rings */
};

/* One kernel buffer, shared by all slots of a CPU, or of a thread with --per-thread. */
struct plan_ring {
	int cpu;   /* -1: any */
	pid_t tid; /* -1: any */
};

struct plan {
	struct plan_slot *slots; /* heap; event-major, then CPU, then task: the order of ids in the file */
	size_t nr_slots;
	struct plan_ring *rings; /* heap */
	size_t nr_rings;
};

/* 0, -ENOMEM, or -E2BIG for more fds than a process can have. */
int plan_make(const struct event_list *events, const struct target *target, struct plan *ret);
void plan_fini(struct plan *plan);
