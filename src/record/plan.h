/* SPDX-License-Identifier: MIT */
/*
 * plan: which event is opened for whom, where, and into which ring. Made from events and target before anything
 * opens; pure. Owned by the recording.
 *
 * Every event belongs to a channel, and each channel has rings of its own in each place: a CPU, or a thread with
 * --per-thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct event_list;
struct target;

enum channel {
	CHANNEL_SIDE,   /* what tasks do: drained first, into which no sample is written */
	CHANNEL_DATA,   /* samples, drained as they come; what tasks do, too, when there is no side channel */
	CHANNEL_FLIGHT, /* overwritten until somebody wants them; never drained: flight.h */
	NR_CHANNELS,
};

/* One perf_event_open(2): event × CPU × task. */
struct plan_slot {
	size_t event; /* index into the events */
	pid_t pid;    /* -1: all tasks */
	int cpu;      /* -1: any CPU */
	size_t ring;  /* index into the rings */
	size_t leader; /* the slot of the leader of its group, an earlier one; its own: has none */
};

/* One kernel buffer, shared by all slots of a channel in a place. */
struct plan_ring {
	enum channel channel;
	size_t place;
	int cpu;   /* -1: any */
	pid_t tid; /* -1: any */
};

struct plan {
	struct plan_slot *slots; /* heap; event-major, then CPU, then task: the order of ids in the file */
	size_t nr_slots;
	struct plan_ring *rings; /* heap; by channel: side, data (those are drained), flight; of each by place */
	size_t nr_rings, nr_drained;
	size_t nr_places;
};

/* 0, -ENOMEM, or -E2BIG for more fds than a process can have. */
int plan_make(const struct event_list *events, const struct target *target, struct plan *ret);

void plan_fini(struct plan *plan);
