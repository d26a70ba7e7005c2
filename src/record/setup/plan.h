/* SPDX-License-Identifier: MIT */
/*
 * plan: which event is opened for which task on which CPU, into which ring, and how large rings are. Made from events
 * and target before anything opens; pure. Owned by the recording.
 *
 * Every event belongs to a channel. A *place* is a CPU, or with --per-thread a thread; each channel has one ring in
 * each place.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct diag;
struct event_list;
struct target;

enum channel {
	CHANNEL_SIDE, /* task events only; these rings are drained first */
	CHANNEL_DATA, /* samples; also task events, when there is no side channel */
	/* rings that the kernel overwrites; read when a snapshot is requested, never drained: overwrite.h */
	CHANNEL_OVERWRITE,
	NR_CHANNELS,
};

/* One perf_event_open(2): event × CPU × task. */
struct plan_slot {
	size_t event;  /* index into the events */
	pid_t pid;     /* -1: all tasks */
	int cpu;       /* -1: any CPU */
	size_t ring;   /* index into the rings */
	size_t leader; /* the slot of its group's leader, which is an earlier one; its own number: it is in no group */
	bool alone;    /* not all members of its group are counted there: for when that has fallen apart (":W") */
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
	struct plan_ring
		*rings; /* heap; ordered by channel (side and data, which are drained, then overwrite), then by place */
	size_t nr_rings, nr_drained;
	size_t nr_places;      /* CPUs or threads that are recorded */
	bool names_cpus;       /* the target does (-C) */
	size_t nr_side_places; /* behind them: other CPUs, from which tasks may come, with side rings only (-C) */
};

/*
 * Is each event counted on a CPU of the target? -ENODEV: its PMU counts on others only, or on none that all events of
 * its group are counted on. Says of events that count on fewer CPUs than are recorded.
 */
int plan_check_cpus(const struct event_list *events, const struct target *target, struct diag *reterr);

/*
 * Whether threads write their counts (inherit_stat) as they end, each into the rings of all CPUs from the one that it
 * ran on. Rings are safe for writers on one CPU only: their head may stand still from then on, and neither the kernel
 * nor we see what is lost. nr_cpus: that are online, recorded or not.
 */
bool plan_breaks_rings(const struct event_list *events, const struct target *target, long nr_cpus);

/*
 * An event whose PMU counts on some CPUs only has slots on those; in a group on those of all members. 0, -ENOMEM, or
 * -E2BIG: more fds would be needed than a process can have.
 */
int plan_make(const struct event_list *events, const struct target *target, struct plan *ret);

void plan_fini(struct plan *plan);

/* The ring sizes that were asked for. The size of one ring is in pages, a power of two, without the control page. */
struct ring_sizes {
	size_t pages;      /* of each data ring; 0: ring_sizes_default_pages(), or more where the machine allows it */
	size_t side_pages; /* of each side ring; 0: as ring_sizes_side_pages() */
	bool exact;        /* the user chose `pages` (-m): fail rather than use less */
	/* limit for all rings together, kept by making them smaller unless the size is exact; 0: none */
	uint64_t most_bytes;
	bool bounded; /* the user chose most_bytes (--max-memory): fail rather than use more */
	/*
	 * rings may be larger than the default, and then wake their reader at so many bytes; 0: they may not be larger
	 */
	size_t wakeup_bytes;
	uint64_t margin_bytes; /* that come into a ring while its reader may be late; 0: not known */
};

/*
 * After how many bytes a ring that is larger than the default wakes its reader: a quarter of the ring, but not more
 * than wakeup_bytes. So a late reader still has at least three times as much room, and the bytes are still in a CPU
 * cache when it reads them. Where margin_bytes are known: half of the ring, if the other half has room for so many.
 */
size_t ring_sizes_wakeup(size_t ring_bytes, struct ring_sizes sizes);

/*
 * The largest ring that any user may map, in pages: the locked-memory limit per CPU (kernel.perf_event_mlock_kb)
 * without the control page.
 */
size_t ring_sizes_default_pages(void);

/*
 * The size of a side ring in pages, when locked_bytes may be locked in memory: enough for a burst of task events while
 * its reader waits for a CPU, as long as most of the memory is left to the data rings; never less than a burst of execs
 * needs.
 */
size_t ring_sizes_side_pages(const struct plan *plan, struct ring_sizes sizes, uint64_t locked_bytes);

size_t ring_sizes_count_data(const struct plan *plan);

/* Bytes of all rings of the plan, with their control pages. */
uint64_t ring_sizes_bytes(const struct plan *plan, size_t data_pages, size_t side_pages);

/*
 * Halves the sizes that may be changed until all rings take at most most_bytes; side rings first, as long as they are
 * not much smaller than data rings.
 */
void ring_sizes_fit(const struct plan *plan, struct ring_sizes sizes, size_t *data_pages, size_t *side_pages);

/* The size in bytes of the smallest ring that has room for a sample with so many bytes of a stack. */
size_t ring_sizes_least_bytes(size_t dump_bytes);

/*
 * The size in pages of the largest data rings to ask for. They hold the records of some 20 ms, for times in which
 * storing holds up the drain; less if memory_bytes, the memory of the machine, is too small. 0: no larger than the
 * default.
 */
size_t ring_sizes_large_pages(const struct plan *plan, struct ring_sizes sizes, uint64_t memory_bytes);
