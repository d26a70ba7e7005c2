/* SPDX-License-Identifier: MIT */
/*
 * plan: which event is opened for which task on which CPU, into which ring, and how large rings are. Made from events
 * and target before anything opens; pure. Owned by the recording.
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
	CHANNEL_SIDE,      /* task events alone; drained first */
	CHANNEL_DATA,      /* samples, drained as they come; task events, too, when there is no side channel */
	CHANNEL_OVERWRITE, /* overwritten until a snapshot is requested; never drained: overwrite.h */
	NR_CHANNELS,
};

/* One perf_event_open(2): event × CPU × task. */
struct plan_slot {
	size_t event;  /* index into the events */
	pid_t pid;     /* -1: all tasks */
	int cpu;       /* -1: any CPU */
	size_t ring;   /* index into the rings */
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
	struct plan_ring *rings; /* heap; by channel: side, data (those are drained), overwrite; of each by place */
	size_t nr_rings, nr_drained;
	size_t nr_places;      /* CPUs or threads that are recorded */
	size_t nr_side_places; /* and behind them the CPUs that tasks may come from, with side rings alone */
};

/* 0, -ENOMEM, or -E2BIG for more fds than a process can have. */
int plan_make(const struct event_list *events, const struct target *target, struct plan *ret);

void plan_fini(struct plan *plan);

/* What was asked for. Sizes of one ring are in pages, a power of two, without the control page. */
struct ring_sizes {
	size_t pages;        /* of each data ring; 0: as much as the kernel gives by default, or more */
	size_t side_pages;   /* of each side ring, and no less; 0: as ring_sizes_side_pages() */
	bool exact;          /* the user named `pages`: fail rather than take less */
	uint64_t most_bytes; /* of all rings: smaller ones then, unless the size is exact; 0: any */
	bool bounded;        /* the user named most_bytes: fail rather than take more */
	size_t wakeup_bytes; /* rings larger than by default, where allowed, wake up their reader at so much; 0: no such
				rings */
};

/*
 * At how much a ring that is larger than by default wakes up its reader: a quarter, or wakeup_bytes, so that a late
 * reader finds room for three times as much, or more; that much is still in a cache.
 */
size_t ring_sizes_wakeup(size_t ring_bytes, struct ring_sizes sizes);

/* The largest ring that every user may have: the locked-memory allowance per CPU without the control page. */
size_t ring_sizes_default_pages(void);

/*
 * Of a side ring, where locked_bytes may be locked in memory: as much as a burst of task events needs while its reader
 * waits for a CPU, as long as most of that memory is left to data rings, and never less than a burst of execs.
 */
size_t ring_sizes_side_pages(const struct plan *plan, struct ring_sizes sizes, uint64_t locked_bytes);

size_t ring_sizes_count_data(const struct plan *plan);

/* Of all rings of the plan, with their control pages. */
uint64_t ring_sizes_bytes(const struct plan *plan, size_t data_pages, size_t side_pages);

/*
 * Halves what may be halved, side rings first while they are not much smaller, until all take no more than most_bytes.
 */
void ring_sizes_fit(const struct plan *plan, struct ring_sizes sizes, size_t *data_pages, size_t *side_pages);

/*
 * The largest data rings to ask for: they hold what comes in some 20 ms in which the writer is stuck, as far as the
 * machine (memory_bytes) has memory for them. 0: no larger than by default.
 */
size_t ring_sizes_large_pages(const struct plan *plan, struct ring_sizes sizes, uint64_t memory_bytes);
