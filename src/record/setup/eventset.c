/* SPDX-License-Identifier: MIT */
#include "record/setup/eventset.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/text.h"
#include "event/parse/configure.h"
#include "event/parse/event.h"
#include "event/parse/open.h"
#include "perfdata/callchain.h"
#include "perfdata/record.h"
#include "perfdata/sample.h"
#include "record/setup/perf_clock.h"
#include "record/setup/plan.h"
#include "sysinfo/privileges.h"
#include "tasks/off_cpu.h"

enum {
	OTHER_FDS = 13,  /* what a recording needs beside events, carriers, and set->later_fds. Counted */
	OBJECT_FDS = 64, /* more, where they are allowed: objects are kept open, too */
};

/* What the program was started with beside 0, 1 and 2, below a number: its own files are closed by exec. */
static size_t nr_inherited_fds(size_t below)
{
	size_t nr = 0;

	for (int fd = STDERR_FILENO + 1; (size_t)fd < below; fd++)
		nr += fcntl(fd, F_GETFD) == 0;
	return nr;
}

static int allow_fds(size_t nr, struct diag *reterr)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= nr + OBJECT_FDS)
		return 0;
	rlim_t hard = limit.rlim_max;
	limit.rlim_cur = hard;
	if (limit.rlim_cur < nr) {
		/* With CAP_SYS_RESOURCE the hard limit can be raised too. */
		struct rlimit raised = {nr + OBJECT_FDS, nr + OBJECT_FDS};
		if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
			return 0;
		return diag_set(reterr, -EMFILE,
				"this recording needs %zu file descriptors and the limit is %llu: raise it (ulimit -n "
				"%zu), or record fewer events, CPUs or threads",
				nr, (unsigned long long)hard, nr);
	}
	return setrlimit(RLIMIT_NOFILE, &limit) ? diag_set(reterr, -errno, "setrlimit: %s", strerror(errno)) : 0;
}

static int allocate(struct eventset *set)
{
	const struct plan *plan = set->plan;

	set->fds = calloc(plan->nr_slots + 1, sizeof(*set->fds));
	set->stands_in = calloc(plan->nr_slots + 1, sizeof(*set->stands_in));
	set->ids = calloc(plan->nr_slots + 1, sizeof(*set->ids));
	set->rings = calloc(plan->nr_rings + 1, sizeof(*set->rings));
	set->ring_fds = calloc(plan->nr_rings + 1, sizeof(*set->ring_fds));
	set->fd_ids = calloc(plan->nr_slots + 1, sizeof(*set->fd_ids));
	set->lost_before = calloc(plan->nr_slots + 1, sizeof(*set->lost_before));
	set->filters = calloc(set->events->nr + 1, sizeof(*set->filters));
	set->enabled = calloc(set->events->nr + 1, sizeof(*set->enabled));
	set->renames = calloc(plan->nr_rings + 1, sizeof(*set->renames));
	if (!set->fds || !set->stands_in || !set->ids || !set->rings || !set->ring_fds || !set->fd_ids ||
	    !set->lost_before || !set->filters || !set->enabled || !set->renames)
		return -ENOMEM;
	for (size_t i = 0; i < plan->nr_slots; i++)
		set->fds[i] = -1;
	for (size_t i = 0; i < plan->nr_rings; i++)
		set->ring_fds[i] = -1;
	return 0;
}

/*
 * The members of a weak group are opened again, each by itself, and its leader where others were not counted. The first
 * slot of the group.
 */
static size_t split_group(struct eventset *set, size_t slot)
{
	const struct plan_slot *slots = set->plan->slots;
	size_t leader = event_list_split_group(set->events, slots[slot].event), first = slot;
	bool some_cpus = set->events->events[leader].group_some_cpus;

	(some_cpus ? log_note : log_verbose)("%s: the events of its group are counted one by one%s: together they do "
					     "not fit",
					     set->events->events[leader].name,
					     some_cpus ? ", each on all CPUs of its PMU" : "");
	for (; first > 0 && slots[first - 1].event > leader; first--) {
		if (set->fds[first - 1] >= 0)
			close(set->fds[first - 1]);
		set->fds[first - 1] = -1;
	}
	while (first > 0 && slots[first - 1].event == leader)
		first--;
	return first;
}

/* Not while its group is together; or it is open already, as that of the leader of a group that fell apart. */
static bool is_passed_over(const struct eventset *set, size_t slot)
{
	const struct event *event = &set->events->events[set->plan->slots[slot].event];

	return set->fds[slot] >= 0 || (set->plan->slots[slot].alone && (event->behind_leader || event->nr_members));
}

/* false: only task events of its CPU are. */
static bool is_recorded(const struct eventset *set, const struct plan_slot *slot)
{
	return set->plan->rings[slot->ring].place < set->plan->nr_places;
}

/* Opens one of the slots of its event; which is the first of them is tried with less and less: event_open(). */
static int open_slot(struct eventset *set, const struct plan_slot *slot, struct event_fallbacks *fallbacks, bool first,
		     struct diag *reterr)
{
	struct event *event = &set->events->events[slot->event];
	struct event_open_args args = {slot->pid, slot->cpu, event->behind_leader ? set->fds[slot->leader] : -1};

	if (event->behind_leader && args.group_fd < 0)
		return -ESRCH; /* the task was gone when its leader was opened */
	if (is_recorded(set, slot))
		return event_open(event, fallbacks, &args, first, reterr);

	struct event here = *event; /* context switches are of recorded CPUs only */
	here.attr.context_switch = 0;
	return event_open(&here, fallbacks, &args, first, reterr);
}

/* As open_slot(). A CPU may go offline since we looked which are online, and come back; one that was named must not. */
static int open_slot_of_cpu(struct eventset *set, size_t index, struct event_fallbacks *fallbacks, bool *first,
			    struct diag *reterr)
{
	enum { TRIES = 10 };
	const struct plan_slot *slot = &set->plan->slots[index];
	bool may_go = slot->pid < 0 && !(set->plan->names_cpus && is_recorded(set, slot));
	int fd = open_slot(set, slot, fallbacks, *first, reterr);

	for (int i = 0; i < TRIES && fd == -ENODEV && may_go; i++) {
		if (event_cpu_is_offline(slot->cpu)) {
			/* That can be opened, as a carrier, and has its ring; nothing was lost of it. */
			fd = ring_carrier_open(&set->events->events[slot->event].attr, &set->plan->rings[slot->ring],
					       0);
			set->stands_in[index] = fd >= 0;
			return fd < 0 ? diag_set(reterr, fd, "CPU %d went offline: %s", slot->cpu, strerror(-fd)) : fd;
		}
		fd = open_slot(set, slot, fallbacks, *first, reterr);
	}
	*first &= fd < 0;
	return fd;
}

/*
 * A thread among several may end while we open; a target that is gone altogether is an error, also where other events
 * are those of all tasks, as wake-ups.
 */
static int open_slots(struct eventset *set, struct diag *reterr)
{
	struct event_fallbacks fallbacks = {0};
	const struct plan *plan = set->plan;
	size_t nr_of_tasks = 0, nr_gone = 0, last_event = SIZE_MAX;
	bool first = true; /* of its event */

	for (size_t i = 0; i < plan->nr_slots; i++) {
		const struct plan_slot *slot = &plan->slots[i];
		struct event *event = &set->events->events[slot->event];
		if (is_passed_over(set, i))
			continue;
		const struct perf_event_attr attr = event->attr;
		const struct event_fallbacks known = fallbacks;
		first |= slot->event != last_event;
		int fd = open_slot_of_cpu(set, i, &fallbacks, &first, reterr);
		if (fd == -EINVAL && event->behind_leader && event->given & EVENT_GIVEN_WEAK) {
			/* What was left out did not help: the kernel has it. */
			event->attr = attr;
			fallbacks = known;
			last_event = SIZE_MAX;
			i = split_group(set, i) - 1;
			continue;
		}
		if (fd == -ESRCH && slot->pid > 0) {
			nr_gone++;
			continue;
		}
		if (fd < 0)
			return fd;
		last_event = slot->event;
		set->fds[i] = fd;
		nr_of_tasks += slot->pid > 0;
		if (ioctl(fd, PERF_EVENT_IOC_ID, &set->ids[i]))
			return diag_set(reterr, -errno, "cannot read the id of an event: %s", strerror(errno));
		set->fd_ids[i] = set->ids[i];
	}
	bool is_gone = nr_gone && !nr_of_tasks;
	return is_gone ? diag_set(reterr, -ESRCH, "the target ended before the recording began") : 0;
}

int ring_carrier_open(const struct perf_event_attr *like, const struct plan_ring *ring, uint32_t wakeup_bytes)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = like->size,
		.config = PERF_COUNT_SW_DUMMY,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.write_backward = like->write_backward,
		.watermark = wakeup_bytes != 0,
		.wakeup_watermark = wakeup_bytes,
		.use_clockid = like->use_clockid,
		.clockid = like->clockid,
	};
	pid_t pid = ring->cpu < 0 ? ring->tid : getpid();
	int fd = (int)syscall(SYS_perf_event_open, &attr, pid, ring->cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static bool is_carried(const struct eventset *set, size_t ring)
{
	return set->carried && ring < set->plan->nr_drained && set->plan->rings[ring].channel == CHANNEL_DATA;
}

/* The slot that carries the ring: the first open one of the ring, in the order of the plan. */
static void choose_ring_fds(struct eventset *set)
{
	for (size_t i = set->plan->nr_slots; i-- > 0;) {
		size_t ring = set->plan->slots[i].ring;
		if (set->fds[i] >= 0 && ring < set->plan->nr_drained && !is_carried(set, ring))
			set->ring_fds[ring] = set->fds[i];
	}
}

static void close_carriers(struct eventset *set)
{
	for (size_t i = 0; i < set->plan->nr_drained; i++) {
		if (!is_carried(set, i))
			continue;
		if (set->ring_fds[i] >= 0)
			close(set->ring_fds[i]);
		set->ring_fds[i] = -1;
	}
	set->carried = false;
}

/* A ring of which no event could be opened gets none. */
static int open_carriers(struct eventset *set, uint32_t wakeup_bytes)
{
	int err = 0;

	set->carried = true;
	for (size_t i = 0; i < set->plan->nr_slots && !err; i++) {
		const struct plan_slot *slot = &set->plan->slots[i];
		if (set->fds[i] < 0 || !is_carried(set, slot->ring) || set->ring_fds[slot->ring] >= 0)
			continue;
		int fd = ring_carrier_open(&set->events->events[slot->event].attr, &set->plan->rings[slot->ring],
					   wakeup_bytes);
		set->ring_fds[slot->ring] = fd < 0 ? -1 : fd;
		err = fd < 0 && fd != -ESRCH ? fd : 0;
	}
	if (err)
		close_carriers(set);
	return err;
}

static void unmap_all(struct eventset *set)
{
	for (size_t i = 0; i < set->plan->nr_rings; i++)
		ring_unmap(&set->rings[i]);
}

/* Stands in for the ring of a thread that was gone before it could be opened: always empty. */
static void attach_empty(struct ring *ring)
{
	static struct perf_event_mmap_page empty;
	enum { SOME_BYTES = 1024 };

	ring_attach(ring, &empty, &empty, SOME_BYTES);
}

static bool wants_build_ids(const struct event_list *events)
{
	for (size_t i = 0; i < events->nr; i++)
		if (events->events[i].attr.build_id)
			return true;
	return false;
}

/* Side rings last: task events come into them from then on. */
static int try_map(struct eventset *set, size_t data_pages, size_t side_pages)
{
	for (size_t i = set->plan->nr_drained; i-- > 0;) {
		const bool is_side = set->plan->rings[i].channel == CHANNEL_SIDE;
		size_t pages = is_side ? side_pages : data_pages;
		if (set->ring_fds[i] < 0) {
			attach_empty(&set->rings[i]);
			continue;
		}
		int err = ring_map(&set->rings[i], set->ring_fds[i], pages);
		if (err) {
			unmap_all(set);
			return err;
		}
		set->rings[i].no_map_ids = is_side && !wants_build_ids(set->events);
	}
	return 0;
}

static int map_error(int err, size_t wanted, size_t fits, size_t nr_rings, struct diag *reterr)
{
	long page_kb = sysconf(_SC_PAGESIZE) / 1024;

	if (err != -EPERM && err != -ENOMEM)
		return diag_set(reterr, err, "cannot map rings of %zu page%s: %s", wanted, text_s(wanted),
				strerror(-err));
	if (!fits)
		return diag_set(reterr, err,
				"no locked memory left for even one page in each of %zu ring%s: raise "
				"kernel.perf_event_mlock_kb or ulimit -l, or run with CAP_IPC_LOCK",
				nr_rings, text_s(nr_rings));
	if (err == -ENOMEM)
		return diag_set(reterr, err, "the kernel has no memory for %zu ring%s of %zu KiB: -m %zuK would fit",
				nr_rings, text_s(nr_rings), wanted * (size_t)page_kb, fits * (size_t)page_kb);
	return diag_set(reterr, err,
			"%zu ring%s of %zu KiB %s the locked memory that is left: -m %zuK would fit; or raise "
			"kernel.perf_event_mlock_kb or ulimit -l, or run with CAP_IPC_LOCK",
			nr_rings, text_s(nr_rings), wanted * (size_t)page_kb, nr_rings == 1 ? "exceeds" : "exceed",
			fits * (size_t)page_kb);
}

static int too_little_memory(const struct plan *plan, struct ring_sizes sizes, uint64_t bytes, struct diag *reterr)
{
	return diag_set(reterr, -ENOMEM,
			"--max-memory leaves %llu KiB for %zu ring%s, which need%s %llu KiB%s: raise it, or record "
			"fewer CPUs or threads",
			(unsigned long long)sizes.most_bytes / 1024, plan->nr_rings, text_s(plan->nr_rings),
			plan->nr_rings == 1 ? "s" : "", (unsigned long long)bytes / 1024,
			sizes.exact ? " with this -m" : "");
}

/*
 * Where memory is short the side rings give way first: their readers wake up sooner then, and nothing else changes. Not
 * where the user named their size.
 */
static int map_with_side(struct eventset *set, struct ring_sizes sizes, size_t data_pages, size_t side_pages)
{
	int err = try_map(set, data_pages, side_pages);

	while ((err == -EPERM || err == -ENOMEM) && side_pages > 1 && !sizes.side_pages)
		err = try_map(set, data_pages, side_pages = side_pages > 4 ? side_pages / 4 : 1);
	return err;
}

static void note_sizes(struct eventset *set, size_t pages, size_t wakeup_bytes)
{
	set->ring_pages = pages;
	set->wakeup_bytes = wakeup_bytes ? wakeup_bytes : pages * (size_t)sysconf(_SC_PAGESIZE) / 2;
	for (size_t i = 0; i < set->plan->nr_drained; i++)
		if (set->rings[i].bytes > set->largest_ring_bytes)
			set->largest_ring_bytes = set->rings[i].bytes;
}

static uint64_t locked_bytes_allowed(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_MEMLOCK, &limit) ? 0 : limit.rlim_cur;
}

static int map_rings(struct eventset *set, struct ring_sizes sizes, struct diag *reterr)
{
	size_t wanted = sizes.pages ? sizes.pages : ring_sizes_default_pages();
	size_t side_pages = ring_sizes_side_pages(set->plan, sizes, locked_bytes_allowed());

	ring_sizes_fit(set->plan, sizes, &wanted, &side_pages);
	uint64_t bytes = ring_sizes_bytes(set->plan, wanted, side_pages);
	if (sizes.bounded && bytes > sizes.most_bytes)
		return too_little_memory(set->plan, sizes, bytes, reterr);
	size_t pages = wanted;
	int first_err = map_with_side(set, sizes, wanted, side_pages), err = first_err;

	while ((err == -EPERM || err == -ENOMEM) && pages > 1)
		err = map_with_side(set, sizes, pages /= 2, side_pages);
	if (err && sizes.side_pages && (err == -EPERM || err == -ENOMEM)) {
		unmap_all(set);
		return diag_set(reterr, err,
				"side rings of %zu KiB exceed the locked memory that is left: name less "
				"(--side-channel=SIZE), or raise kernel.perf_event_mlock_kb or ulimit -l, or run with "
				"CAP_IPC_LOCK",
				side_pages * (size_t)sysconf(_SC_PAGESIZE) / 1024);
	}
	if (err || (first_err && sizes.exact)) {
		unmap_all(set);
		return map_error(first_err, wanted, err ? 0 : pages, ring_sizes_count_data(set->plan), reterr);
	}
	if (first_err)
		log_note("rings of %zu KiB instead of %zu KiB: no more locked memory is allowed "
			 "(kernel.perf_event_mlock_kb, ulimit -l)",
			 pages * (size_t)sysconf(_SC_PAGESIZE) / 1024, wanted * (size_t)sysconf(_SC_PAGESIZE) / 1024);
	note_sizes(set, pages, 0);
	return 0;
}

static int redirect_outputs(struct eventset *set, struct diag *reterr)
{
	for (size_t i = 0; i < set->plan->nr_slots; i++) {
		int ring_fd = set->ring_fds[set->plan->slots[i].ring];
		if (set->fds[i] < 0 || ring_fd < 0 || set->fds[i] == ring_fd)
			continue;
		if (ioctl(set->fds[i], PERF_EVENT_IOC_SET_OUTPUT, (long)ring_fd))
			return diag_set(reterr, -errno, "%s: cannot share the ring of CPU %d: %s",
					set->events->events[set->plan->slots[i].event].name, set->plan->slots[i].cpu,
					strerror(errno));
	}
	return 0;
}

/* Rings of carriers, so that their readers are woken long before they are half full. */
static int try_large_rings(struct eventset *set, struct ring_sizes sizes, size_t pages, size_t wakeup_bytes)
{
	struct diag ignored = {0};
	size_t side_pages = ring_sizes_side_pages(set->plan, sizes, UINT64_MAX);
	int err = open_carriers(set, (uint32_t)wakeup_bytes);

	if (err)
		return err;
	choose_ring_fds(set);
	ring_sizes_fit(set->plan, sizes, &pages, &side_pages);
	err = try_map(set, pages, side_pages);
	/* Samples come first: task events take what they leave of the memory that may be locked. */
	while (err == -EPERM && side_pages > ring_sizes_side_pages(set->plan, sizes, 0))
		err = try_map(set, pages, side_pages /= 2);
	if (!err) {
		note_sizes(set, pages, wakeup_bytes);
		err = redirect_outputs(set, &ignored);
	}
	if (err) {
		unmap_all(set);
		close_carriers(set);
	}
	return err;
}

/*
 * Without a size from the user: as much as the kernel lets us lock, within the limits of ring_sizes_large_pages().
 * Overwritten rings keep the default: their size is the length of the history.
 */
static bool make_large_rings(struct eventset *set, struct ring_sizes sizes)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), least = ring_sizes_default_pages();
	size_t pages = ring_sizes_large_pages(set->plan, sizes, (uint64_t)sysconf(_SC_PHYS_PAGES) * page_bytes);
	int err = -EPERM;

	if (!sizes.wakeup_bytes || sizes.pages || set->plan->nr_rings > set->plan->nr_drained)
		return false;
	for (; pages > least && (err == -EPERM || err == -ENOMEM); pages /= 2)
		err = try_large_rings(set, sizes, pages, ring_sizes_wakeup(pages * page_bytes, sizes));
	return !err;
}

static int make_rings(struct eventset *set, struct ring_sizes sizes, struct diag *reterr)
{
	if (make_large_rings(set, sizes))
		return 0;
	choose_ring_fds(set);
	int err = map_rings(set, sizes, reterr);
	return err ? err : redirect_outputs(set, reterr);
}

static void note_children(const struct event_list *events)
{
	for (size_t i = 0; i < events->nr; i++)
		if (events->events[i].leaves_out_children && !events->events[i].behind_leader)
			log_note("%s: tasks that the recorded ones start are not recorded: the values of its group "
				 "cannot be read in their samples (:S)",
				 events->events[i].name);
}

/* The kernel copies a stack as a whole or, where the ring is smaller, not at all: linux/kernel/events/ring_buffer.c. */
static void note_small_rings(const struct eventset *set)
{
	enum { OTHER_FIELDS = 64 }; /* at the least */
	const size_t ring_bytes = set->ring_pages * (size_t)sysconf(_SC_PAGESIZE);

	for (size_t i = 0; i < set->events->nr; i++) {
		const struct event *event = &set->events->events[i];
		const size_t dump_bytes = event->attr.sample_stack_user;
		if (dump_bytes + OTHER_FIELDS < ring_bytes || attr_is_dummy(&event->attr))
			continue;
		log_note("%s: samples with %.4g KiB of a stack (--call-graph %s) do not fit into rings of %zu KiB, and "
			 "are all lost: -m %zuK has room",
			 event->name, (double)dump_bytes / 1024, event->unwinds ? "unwind" : "dwarf", ring_bytes / 1024,
			 ring_sizes_least_bytes(dump_bytes) / 1024);
		return;
	}
}

int eventset_open(struct eventset *set, const struct plan *plan, struct event_list *events, struct ring_sizes sizes,
		  struct diag *reterr)
{
	*set = (struct eventset){
		.plan = plan,
		.events = events,
		.clock = set->clock,
		.leaves_fds = set->leaves_fds,
		.later_fds = set->later_fds,
	};
	set->needed_fds = plan->nr_slots + ring_sizes_count_data(plan) + OTHER_FDS + set->later_fds;
	set->needed_fds += nr_inherited_fds(set->needed_fds);
	int err = allow_fds(set->needed_fds, reterr);

	if (!err && allocate(set))
		err = diag_set(reterr, -ENOMEM, "out of memory");
	if (!err)
		err = open_slots(set, reterr);
	if (!err)
		err = make_rings(set, sizes, reterr);
	if (err) {
		eventset_close(set);
		return err;
	}
	note_children(events);
	note_small_rings(set);
	return 0;
}

static void free_renames(struct ring_renames *renames)
{
	if (renames)
		free(renames->copy); /* all of a ring have the same */
	while (renames) {
		struct ring_renames *before = renames->before;
		free(renames);
		renames = before;
	}
}

void eventset_close(struct eventset *set)
{
	if (set->rings && set->plan)
		unmap_all(set);
	if (set->ring_fds && set->plan)
		close_carriers(set);
	for (size_t i = 0; set->fds && !set->leaves_fds && i < set->plan->nr_slots; i++)
		if (set->fds[i] >= 0)
			close(set->fds[i]);
	free(set->fds);
	free(set->stands_in);
	for (size_t i = 0; set->renames && i < set->plan->nr_rings; i++)
		free_renames(set->renames[i]);
	for (size_t i = 0; set->filters && i < set->events->nr; i++)
		free(set->filters[i]);
	free(set->ids);
	free(set->fd_ids);
	free(set->lost_before);
	free(set->filters);
	free(set->enabled);
	free(set->renames);
	free(set->rings);
	free(set->ring_fds);
	perf_clock_free(set->clock);
	*set = (struct eventset){0};
}

static bool any_waits_for_exec(const struct eventset *set)
{
	for (size_t i = 0; i < set->events->nr; i++)
		if (set->events->events[i].attr.enable_on_exec)
			return true;
	return false;
}

/*
 * prctl(2) enables everything that this thread opened in one call: the CPUs begin together, and a recording of
 * system calls does not begin with one ioctl(2) for each event and CPU. Events that wait for an exec are ours too and
 * must go on waiting: with such events, one by one.
 */
int eventset_enable(struct eventset *set)
{
	int err = 0;

	for (size_t i = 0; i < set->events->nr; i++)
		set->enabled[i] = !set->events->events[i].attr.enable_on_exec;
	if (!any_waits_for_exec(set))
		return prctl(PR_TASK_PERF_EVENTS_ENABLE) ? -errno : 0;
	for (size_t i = 0; i < set->plan->nr_slots; i++) {
		const struct perf_event_attr *attr = &set->events->events[set->plan->slots[i].event].attr;
		if (set->fds[i] < 0 || !attr->disabled || attr->enable_on_exec)
			continue;
		if (ioctl(set->fds[i], PERF_EVENT_IOC_ENABLE, 0) && !err)
			err = -errno;
	}
	return err;
}

void eventset_disable(struct eventset *set)
{
	(void)set;
	prctl(PR_TASK_PERF_EVENTS_DISABLE);
}

static bool is_switched(const struct eventset *set, size_t index, int event, bool on)
{
	bool side_band = set->events->events[index].side_band;

	if (side_band && !on)
		return false;
	return event == EVENTSET_ALL || (event == EVENTSET_SIDE_BAND ? side_band : index == (size_t)event);
}

int eventset_switch(struct eventset *set, int event, bool on)
{
	int err = 0;

	if (event >= 0 && !on && set->events->events[event].side_band)
		return -EPERM;
	bool off_cpu = event == EVENTSET_ALL || (event >= 0 && set->events->events[event].off_cpu == EVENT_SWITCHES);
	bool notifies = set->switched && off_cpu;
	if (notifies && !on)
		set->switched(set->switched_ctx, EVENTSET_TO_BE_DISABLED);
	for (size_t i = 0; i < set->events->nr; i++)
		if (is_switched(set, i, event, on))
			set->enabled[i] = on;
	for (size_t i = 0; i < set->plan->nr_slots; i++) {
		if (set->fds[i] < 0 || !is_switched(set, set->plan->slots[i].event, event, on))
			continue;
		if (ioctl(set->fds[i], on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0) && !err)
			err = -errno;
	}
	if (notifies)
		set->switched(set->switched_ctx, on ? EVENTSET_ENABLED : EVENTSET_DISABLED);
	return err;
}

int eventset_find(const struct eventset *set, const char *name)
{
	for (size_t i = 0; i < set->events->nr; i++)
		if (!strcmp(set->events->events[i].name, name))
			return (int)i;
	return -ENOENT;
}

bool eventset_counts_lost(const struct eventset *set)
{
	for (size_t i = 0; i < set->events->nr; i++)
		if (!(set->events->events[i].attr.read_format & PERF_FORMAT_LOST))
			return false;
	return true;
}

/* Words before the values, and of each value: perf_event_open(2), "Reading results". */
static size_t times_words(uint64_t format)
{
	return !!(format & PERF_FORMAT_TOTAL_TIME_ENABLED) + !!(format & PERF_FORMAT_TOTAL_TIME_RUNNING);
}

/* nr, times, {value, id, lost} of each member: the one with our id counts. */
static uint64_t lost_in_group(const struct eventset *set, size_t slot, const struct perf_event_attr *attr)
{
	size_t index = set->plan->slots[slot].event;
	const struct event *event = &set->events->events[index], *leader = event - event->behind_leader;
	size_t nr_words =
		1 + times_words(attr->read_format) + 3 * (size_t)(leader->nr_members ? leader->nr_members : 1);
	uint64_t *words = calloc(nr_words, sizeof(*words)), lost = 0;
	ssize_t bytes = words ? read(set->fds[slot], words, nr_words * sizeof(*words)) : 0;

	for (size_t at = 1 + times_words(attr->read_format); bytes > 0 && (at + 3) * sizeof(*words) <= (size_t)bytes;
	     at += 3)
		if (words[at + 1] == set->fd_ids[slot])
			lost = words[at + 2];
	free(words);
	return lost;
}

/* Of what is open there now. */
static uint64_t lost_of_fd(const struct eventset *set, size_t slot)
{
	const struct perf_event_attr *attr = &set->events->events[set->plan->slots[slot].event].attr;
	uint64_t values[5]; /* value, enabled, running, id, lost: each when its bit is set */
	size_t nr = 1 + times_words(attr->read_format) + !!(attr->read_format & PERF_FORMAT_ID);

	if (set->fds[slot] < 0 || !(attr->read_format & PERF_FORMAT_LOST))
		return 0;
	if (attr->read_format & PERF_FORMAT_GROUP)
		return lost_in_group(set, slot, attr);
	if (read(set->fds[slot], values, sizeof(values)) < (ssize_t)((nr + 1) * sizeof(values[0])))
		return 0;
	return values[nr];
}

/* In this order: beside reopen_slots() it may be less for a moment, and never more. */
uint64_t eventset_lost(const struct eventset *set, size_t slot)
{
	uint64_t before = atomic_load(&set->lost_before[slot]);

	return before + lost_of_fd(set, slot);
}

/* Its samples have ids in other places, too. */
static bool has_more_ids(const struct perf_event_attr *attr)
{
	return attr->sample_type & (PERF_SAMPLE_READ | PERF_SAMPLE_STREAM_ID);
}

/* What eventset_reopen() has opened so far, by slot of the plan; -1: not, or taken over. */
struct reopening {
	int *fds;      /* heap */
	uint64_t *ids; /* heap */
	size_t nr_slots;
};

static void reopening_fini(struct reopening *reopening)
{
	for (size_t i = 0; reopening->fds && i < reopening->nr_slots; i++)
		if (reopening->fds[i] >= 0)
			close(reopening->fds[i]);
	free(reopening->fds);
	free(reopening->ids);
}

/* Disabled; its records would go into the ring of the slot, but they have an id of their own. */
static int reopen_slot(const struct eventset *set, size_t index, struct reopening *reopening, struct diag *reterr)
{
	const struct plan_slot *slot = &set->plan->slots[index];
	struct event here = set->events->events[slot->event];
	struct event_fallbacks fallbacks = {0};

	here.attr.disabled = 1;
	here.attr.enable_on_exec = 0;
	here.attr.context_switch &= is_recorded(set, slot);
	struct event_open_args args = {slot->pid, slot->cpu, here.behind_leader ? reopening->fds[slot->leader] : -1};
	int fd = reopening->fds[index] = event_open(&here, &fallbacks, &args, false, reterr);
	if (fd < 0)
		return fd;
	const char *filter = set->filters[slot->event];
	if (ioctl(fd, PERF_EVENT_IOC_ID, &reopening->ids[index]) ||
	    ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, (long)set->ring_fds[slot->ring]) ||
	    (filter && ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter)))
		return diag_set(reterr, -errno, "%s: %s", here.name, strerror(errno));
	return 0;
}

/*
 * The ids that are renamed in a ring: those of events that were opened now, which are higher, behind those of before;
 * of these the last, because what came long ago is not in the ring any more.
 */
static int add_renames(struct eventset *set, size_t ring, const struct reopening *reopening)
{
	enum { MORE = 64 };
	const struct plan_slot *slots = set->plan->slots;
	struct ring_renames *before = set->renames[ring];
	const struct perf_event_attr *attr = NULL;
	size_t nr_new = 0;

	for (size_t i = 0; i < reopening->nr_slots; i++)
		if (slots[i].ring == ring && reopening->fds[i] >= 0) {
			attr = &set->events->events[slots[i].event].attr;
			nr_new++;
		}
	if (!attr)
		return 0;
	size_t nr_before = before ? before->nr : 0, nr_kept = nr_before < nr_new + MORE ? nr_before : nr_new + MORE;
	struct ring_renames *renames = calloc(1, sizeof(*renames) + (nr_kept + nr_new) * sizeof(renames->ids[0]));
	uint8_t *copy = before ? before->copy : malloc(RING_RENAMED_BYTES + RECORD_MAX_BYTES);
	if (!renames || !copy) {
		free(renames);
		if (!before)
			free(copy);
		return -ENOMEM;
	}
	*renames = (struct ring_renames){
		.offset = sample_id_offset(attr),
		.distance = sample_id_distance(attr),
		.trailer_bytes = sample_id_bytes(attr),
		.copy = copy,
		.before = before,
	};
	for (; renames->nr < nr_kept; renames->nr++)
		renames->ids[renames->nr] = before->ids[nr_before - nr_kept + renames->nr];
	for (size_t i = 0; i < reopening->nr_slots; i++)
		if (slots[i].ring == ring && reopening->fds[i] >= 0) {
			renames->ids[renames->nr].from = reopening->ids[i];
			renames->ids[renames->nr++].to = set->ids[i];
		}
	set->renames[ring] = renames;
	ring_publish_renames(&set->rings[ring], renames);
	return 0;
}

/*
 * The new event gets the number of the old fd, which threads poll and read. The ring stays: its mapping keeps what it
 * was mapped from.
 */
static int take_over(struct eventset *set, size_t index, struct reopening *reopening)
{
	uint64_t lost = lost_of_fd(set, index);

	if (dup3(reopening->fds[index], set->fds[index], O_CLOEXEC) < 0)
		return -errno;
	set->fd_ids[index] = reopening->ids[index];
	set->stands_in[index] = false;
	atomic_fetch_add(&set->lost_before[index], lost);
	close(reopening->fds[index]);
	reopening->fds[index] = -1;
	return 0;
}

static bool is_of_cpu(const struct eventset *set, size_t slot, int cpu)
{
	return set->plan->slots[slot].cpu == cpu && set->fds[slot] >= 0;
}

/* Ids in overwrite rings, and among values, stay as they are. */
static bool is_left_out(const struct eventset *set, size_t slot)
{
	return set->plan->slots[slot].ring >= set->plan->nr_drained ||
	       has_more_ids(&set->events->events[set->plan->slots[slot].event].attr);
}

static int reopen_slots(struct eventset *set, int cpu, struct reopening *reopening, struct diag *reterr)
{
	size_t nr = set->plan->nr_slots;
	int err = 0, left_out = 0;

	for (size_t i = 0; i < nr && !err; i++)
		if (is_of_cpu(set, i, cpu) && is_left_out(set, i))
			left_out = 1;
		else if (is_of_cpu(set, i, cpu))
			err = reopen_slot(set, i, reopening, reterr);
	for (size_t i = 0; i < set->plan->nr_drained && !err; i++)
		if (set->plan->rings[i].cpu == cpu && add_renames(set, i, reopening))
			err = diag_set(reterr, -ENOMEM, "out of memory");
	for (size_t i = 0; i < nr && !err; i++) {
		if (reopening->fds[i] < 0)
			continue;
		err = take_over(set, i, reopening);
		const struct event *event = &set->events->events[set->plan->slots[i].event];
		if (!err && (set->enabled[set->plan->slots[i].event] || !event->attr.disabled) &&
		    ioctl(set->fds[i], PERF_EVENT_IOC_ENABLE, 0))
			err = -errno;
		if (err)
			diag_set(reterr, err, "%s: %s", event->name, strerror(-err));
	}
	return err ? err : left_out;
}

int eventset_reopen(struct eventset *set, int cpu, struct diag *reterr)
{
	size_t nr = set->plan->nr_slots, nr_of_cpu = 0;
	struct reopening reopening = {
		.fds = calloc(nr + 1, sizeof(int)), .ids = calloc(nr + 1, sizeof(uint64_t)), .nr_slots = nr};
	int err = 0;

	if (!reopening.fds || !reopening.ids)
		err = diag_set(reterr, -ENOMEM, "out of memory");
	for (size_t i = 0; reopening.fds && i < nr; i++) {
		reopening.fds[i] = -1;
		nr_of_cpu += is_of_cpu(set, i, cpu);
	}
	for (size_t i = 0; i < set->events->nr && !err; i++)
		if (set->events->events[i].attr.task && has_more_ids(&set->events->events[i].attr))
			err = diag_set(reterr, -EOPNOTSUPP, "not with values in samples (:S)");
	if (!err)
		err = allow_fds(set->needed_fds + nr_of_cpu, reterr);
	if (!err) {
		bool borrowed = privileges_borrow_perfmon();
		err = reopen_slots(set, cpu, &reopening, reterr);
		if (borrowed)
			privileges_return_admin();
	}
	reopening_fini(&reopening);
	return err;
}

/* The plan is event-major: the ids of an event are those of one stretch of slots, which begins at *slot. */
static int describe(const struct eventset *set, size_t index, size_t *slot, struct event_desc *desc)
{
	const struct event *event = &set->events->events[index];
	const struct plan *plan = set->plan;
	size_t first = *slot;

	while (*slot < plan->nr_slots && plan->slots[*slot].event == index)
		++*slot;
	desc->attr = event->attr;
	desc->name = strdup(event->name);
	desc->ids = calloc(*slot - first + 1, sizeof(*desc->ids));
	if (!desc->name || !desc->ids)
		return -ENOMEM;
	for (size_t i = first; i < *slot; i++)
		if (set->fds[i] >= 0)
			desc->ids[desc->nr_ids++] = set->ids[i];
	return 0;
}

static int add_tracepoint(const struct event *event, struct described_events *events)
{
	char **name = &events->tracepoints[events->nr_tracepoints];

	if (!event->tracepoint_system)
		return 0;
	if (asprintf(name, "%s:%s", event->tracepoint_system, event->tracepoint_name) < 0)
		return -ENOMEM;
	events->nr_tracepoints++;
	return 0;
}

static void add_group(const struct event_list *list, size_t leader, struct described_events *events)
{
	const struct event *event = &list->events[leader];

	if (event->nr_members > 1)
		events->groups[events->nr_groups++] =
			(struct feature_group){event->group_name, (uint32_t)leader, event->nr_members};
}

/*
 * Records of losses may have the ids of events for wake-ups, of which the file knows nothing else: they become those of
 * the event for whose sake these are there.
 */
static int add_ids(struct described_events *events)
{
	const struct event_desc *more = &events->ring_descs[events->nr_descs];
	struct event_desc *desc = events->descs;

	while (strcmp(desc->name, OFF_CPU_EVENT) != 0)
		desc++;
	uint64_t *ids = reallocarray(NULL, desc->nr_ids + more->nr_ids + 1, sizeof(*ids));
	if (!ids)
		return -ENOMEM;
	memcpy(ids, desc->ids, desc->nr_ids * sizeof(*ids));
	memcpy(ids + desc->nr_ids, more->ids, more->nr_ids * sizeof(*ids));
	free(desc->ids);
	desc->ids = events->ring_descs[desc - events->descs].ids = ids;
	desc->nr_ids += more->nr_ids; /* in the rings they are apart */
	return 0;
}

int described_events_make(const struct eventset *set, struct described_events *ret)
{
	struct described_events events = {.nr_ring_descs = set->events->nr};
	size_t slot = 0, room = set->events->nr + 1;
	bool switches = false;
	int err = 0;

	events.descs = calloc(room, sizeof(*events.descs));
	events.tracepoints = calloc(room, sizeof(*events.tracepoints));
	events.groups = calloc(room, sizeof(*events.groups));
	events.ring_descs = calloc(room, sizeof(*events.ring_descs));
	if (!events.ring_descs || !events.descs || !events.tracepoints || !events.groups)
		err = -ENOMEM;
	for (size_t i = 0; i < events.nr_ring_descs && !err; i++) {
		const struct event *event = &set->events->events[i];
		err = describe(set, i, &slot, &events.ring_descs[i]);
		if (err || event->off_cpu == EVENT_WAKE_UPS)
			continue;
		struct event_desc *desc = &events.descs[events.nr_descs++];
		*desc = events.ring_descs[i];
		if (event->unwinds)
			callchain_convert_attr(&desc->attr, event->max_stack);
		switches |= desc->attr.context_switch && !event->off_cpu;
		if (event->off_cpu)
			off_cpu_convert_attr(&desc->attr);
		else
			err = add_tracepoint(event, &events);
		add_group(set->events, i, &events);
	}
	if (!err && events.nr_descs < events.nr_ring_descs)
		err = add_ids(&events);
	/* Of the whole file: readers that look at one attr only (samply) look at the first. */
	if (!err && events.nr_descs && switches)
		events.descs[0].attr.context_switch = 1;
	if (err) {
		described_events_fini(&events);
		return err;
	}
	*ret = events;
	return 0;
}

void described_events_fini(struct described_events *events)
{
	for (size_t i = 0; events->descs && i < events->nr_descs; i++)
		event_desc_fini(&events->descs[i]);
	for (size_t i = events->nr_descs; events->ring_descs && i < events->nr_ring_descs; i++)
		event_desc_fini(&events->ring_descs[i]);
	free(events->descs);
	free(events->ring_descs);
	for (size_t i = 0; i < events->nr_tracepoints; i++)
		free(events->tracepoints[i]);
	free(events->tracepoints);
	free(events->groups);
	*events = (struct described_events){0};
}
