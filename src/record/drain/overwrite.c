/* SPDX-License-Identifier: MIT */
#include "record/drain/overwrite.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/diag.h"
#include "base/log.h"
#include "event/parse/event.h"
#include "perfdata/sample.h"
#include "record/setup/eventset.h"
#include "stream/ring.h"
#include "stream/writer.h"

/* The slot of a group of events that is all of the plan's ring. */
enum { ALL_SLOTS = -1 };

/*
 * One place: its rings, and which one records go to. Each is carried by an event of ours that counts nothing, and all
 * events of the plan's ring are sent there; where the kernel refuses that, each event has a ring of its own.
 */
struct place {
	size_t ring;     /* of the plan */
	ssize_t slot;    /* whose ring it is, which carries it; ALL_SLOTS: carriers do */
	int carriers[2]; /* fd; -1: none. [1]: none where there is one ring */
	struct backward_ring rings[2];
	unsigned active;
	bool pauses;   /* while its rings are copied; else they are swapped */
	uint8_t *copy; /* heap, where it pauses: what its rings held when they were frozen, one behind the other */
	struct backward_taken copied[2];
	struct overwrite_pause pause; /* the last */
};

struct overwrite {
	const struct eventset *set; /* borrowed */
	struct place *places;       /* heap; room for one for each event of the channel */
	size_t nr_places;
	size_t ring_bytes; /* of the largest */
	bool frozen;       /* there is something to write */
	uint8_t *room;     /* heap: one ring in the order of time */
	struct overwrite_counters counters;
};

/* Where the records of a snapshot go: to the writer, or else behind `records`. */
struct snapshot_out {
	struct writer *writer;
	struct buf *records;
	uint64_t whole_from_ns; /* as overwrite_collect() returns it */
	int err;
};

static bool is_of_place(const struct overwrite *overwrite, size_t slot, const struct place *place)
{
	return overwrite->set->fds[slot] >= 0 && overwrite->set->plan->slots[slot].ring == place->ring &&
	       (place->slot == ALL_SLOTS || place->slot == (ssize_t)slot);
}

/* All events of a place go to that ring. The kernel waits for a grace period of RCU in each call. */
static int point_to(const struct overwrite *overwrite, const struct place *place, int carrier)
{
	int first_err = 0;

	for (size_t i = 0; i < overwrite->set->plan->nr_slots; i++)
		if (is_of_place(overwrite, i, place) &&
		    ioctl(overwrite->set->fds[i], PERF_EVENT_IOC_SET_OUTPUT, (long)carrier) && !first_err)
			first_err = -errno;
	return first_err;
}

/*
 * A CPU that was writing into a ring when its events were sent elsewhere is done: records are written with preemption
 * off, and MEMBARRIER_CMD_GLOBAL waits until every CPU has been seen otherwise (synchronize_rcu(), membarrier(2)).
 */
static void wait_for_writers(void)
{
	static bool reported;

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) && !reported) {
		reported = true;
		log_verbose("membarrier: %s: the newest record of a snapshot may be missing", strerror(errno));
	}
}

static void unmap_place(struct place *place)
{
	for (size_t r = 0; r < 2; r++) {
		backward_ring_unmap(&place->rings[r]);
		if (place->carriers[r] >= 0 && place->slot == ALL_SLOTS)
			close(place->carriers[r]);
		place->carriers[r] = -1;
	}
	free(place->copy);
	place->copy = NULL;
}

/* The attr of some event of the place: its clock must be the carriers'. NULL: none is open, a task was gone. */
static const struct perf_event_attr *attr_of_place(const struct overwrite *overwrite, const struct place *place)
{
	for (size_t i = 0; i < overwrite->set->plan->nr_slots; i++)
		if (is_of_place(overwrite, i, place))
			return &overwrite->set->events->events[overwrite->set->plan->slots[i].event].attr;
	return NULL;
}

static int make_pausing(struct place *place)
{
	place->pauses = true;
	place->copy = malloc(place->rings[0].bytes + place->rings[1].bytes);
	return place->copy ? 0 : -ENOMEM;
}

static int map_place(struct overwrite *overwrite, struct place *place, size_t pages, size_t nr_rings)
{
	const struct plan_ring *ring = &overwrite->set->plan->rings[place->ring];
	const struct perf_event_attr *attr = attr_of_place(overwrite, place);

	place->pauses = false;
	for (size_t r = 0; attr && r < nr_rings; r++) {
		place->carriers[r] = ring_carrier_open(attr, ring, 0);
		if (place->carriers[r] == -ESRCH) {
			unmap_place(place);
			return 0;
		}
		if (place->carriers[r] < 0)
			return place->carriers[r];
		int err = backward_ring_map(&place->rings[r], place->carriers[r], pages);
		if (err)
			return err;
	}
	return nr_rings < 2 ? make_pausing(place) : 0;
}

static void unmap_all(struct overwrite *overwrite)
{
	for (size_t i = 0; i < overwrite->nr_places; i++)
		unmap_place(&overwrite->places[i]);
}

static int try_map(struct overwrite *overwrite, size_t pages, size_t nr_rings)
{
	int err = 0;

	overwrite->ring_bytes = pages * (size_t)sysconf(_SC_PAGESIZE);
	for (size_t i = 0; i < overwrite->nr_places && !err; i++)
		err = map_place(overwrite, &overwrite->places[i], pages, nr_rings);
	if (err)
		unmap_all(overwrite);
	return err;
}

static bool too_much(int err)
{
	return err == -EPERM || err == -ENOMEM;
}

static int cannot_map(const struct overwrite *overwrite, size_t pages, int err, struct diag *reterr)
{
	return diag_set(reterr, err, "cannot map %zu overwritten rings of %zu pages: %s%s", overwrite->nr_places, pages,
			strerror(-err),
			too_much(err) ? ": raise kernel.perf_event_mlock_kb or ulimit -l, or give a smaller -m" : "");
}

static void report_smaller(const struct overwrite *overwrite, size_t pages, size_t wanted)
{
	if (pages != wanted)
		log_note("overwritten rings of %zu KiB: no more locked memory is allowed (kernel.perf_event_mlock_kb, "
			 "ulimit -l)",
			 overwrite->ring_bytes / 1024);
}

/* Two rings, smaller ones if the user named no size, or at last one. */
static int map_all(struct overwrite *overwrite, size_t wanted, bool exact, struct diag *reterr)
{
	size_t pages = wanted;
	int err = try_map(overwrite, pages, 2);

	while (too_much(err) && !exact && pages > 1)
		err = try_map(overwrite, pages /= 2, 2);
	if (too_much(err)) {
		err = try_map(overwrite, pages = wanted, 1);
		if (!err)
			log_note(
				"no locked memory for two overwritten rings each: recording pauses while a snapshot is "
				"copied (kernel.perf_event_mlock_kb, ulimit -l)");
	}
	if (err)
		return cannot_map(overwrite, pages, err, reterr);
	report_smaller(overwrite, pages, wanted);
	return 0;
}

/* The events of each place go to its first ring. */
static int connect_all(const struct overwrite *overwrite)
{
	int err = 0;

	for (size_t i = 0; i < overwrite->nr_places && !err; i++)
		if (overwrite->places[i].carriers[0] >= 0)
			err = point_to(overwrite, &overwrite->places[i], overwrite->places[i].carriers[0]);
	return err;
}

/* A place for each event. An event that was sent to a carrier's ring is sent nowhere when that is unmapped. */
static void split_places(struct overwrite *overwrite)
{
	const struct plan *plan = overwrite->set->plan;

	unmap_all(overwrite);
	overwrite->nr_places = 0;
	for (size_t i = 0; i < plan->nr_slots; i++)
		if (overwrite->set->fds[i] >= 0 && plan->slots[i].ring >= plan->nr_drained)
			overwrite->places[overwrite->nr_places++] =
				(struct place){.ring = plan->slots[i].ring, .slot = (ssize_t)i, .carriers = {-1, -1}};
}

static int try_map_own(struct overwrite *overwrite, size_t pages)
{
	int err = 0;

	overwrite->ring_bytes = pages * (size_t)sysconf(_SC_PAGESIZE);
	for (size_t i = 0; i < overwrite->nr_places && !err; i++) {
		struct place *place = &overwrite->places[i];
		place->carriers[0] = overwrite->set->fds[place->slot];
		err = backward_ring_map(&place->rings[0], place->carriers[0], pages);
		if (!err)
			err = make_pausing(place);
	}
	if (err)
		unmap_all(overwrite);
	return err;
}

static int map_own(struct overwrite *overwrite, size_t wanted, bool exact, struct diag *reterr)
{
	size_t pages = wanted;

	split_places(overwrite);
	int err = try_map_own(overwrite, pages);
	while (too_much(err) && !exact && pages > 1)
		err = try_map_own(overwrite, pages /= 2);
	if (err)
		return cannot_map(overwrite, pages, err, reterr);
	report_smaller(overwrite, pages, wanted);
	return 0;
}

static void report_refused(int err)
{
	log_note("the kernel refuses to swap overwritten rings (PERF_EVENT_IOC_SET_OUTPUT: %s): recording pauses while "
		 "a snapshot is copied",
		 strerror(-err));
}

static int connect_or_split(struct overwrite *overwrite, size_t pages, bool exact, struct diag *reterr)
{
	int err = connect_all(overwrite);

	if (err == -ENOMEM || !err)
		return err ? diag_set(reterr, err, "out of memory") : 0;
	report_refused(err);
	return map_own(overwrite, pages, exact, reterr);
}

static bool make_places(struct overwrite *overwrite)
{
	const struct plan *plan = overwrite->set->plan;

	overwrite->nr_places = plan->nr_rings - plan->nr_drained;
	overwrite->places = calloc(plan->nr_slots + overwrite->nr_places, sizeof(*overwrite->places));
	for (size_t i = 0; overwrite->places && i < overwrite->nr_places; i++)
		overwrite->places[i] =
			(struct place){.ring = plan->nr_drained + i, .slot = ALL_SLOTS, .carriers = {-1, -1}};
	return overwrite->places != NULL;
}

int overwrite_open(const struct eventset *set, struct ring_sizes sizes, struct overwrite **ret, struct diag *reterr)
{
	size_t pages = sizes.pages ? sizes.pages : ring_sizes_default_pages();

	*ret = NULL;
	if (set->plan->nr_rings == set->plan->nr_drained)
		return 0;
	struct overwrite *overwrite = calloc(1, sizeof(*overwrite));
	if (!overwrite)
		return diag_set(reterr, -ENOMEM, "out of memory");
	overwrite->set = set;
	int err = make_places(overwrite) ? map_all(overwrite, pages, sizes.exact, reterr)
					 : diag_set(reterr, -ENOMEM, "out of memory");
	if (!err)
		err = connect_or_split(overwrite, pages, sizes.exact, reterr);
	overwrite->room = err ? NULL : malloc(overwrite->ring_bytes);
	if (!err && !overwrite->room)
		err = diag_set(reterr, -ENOMEM, "out of memory");
	if (err) {
		overwrite_free(overwrite);
		return err;
	}
	*ret = overwrite;
	return 0;
}

void overwrite_free(struct overwrite *overwrite)
{
	if (!overwrite)
		return;
	if (overwrite->places)
		unmap_all(overwrite);
	free(overwrite->places);
	free(overwrite->room);
	free(overwrite);
}

/*
 * Nothing waits for RCU between the new ring and the old one's last record: the CPU always finds one of the two. What
 * the kernel refuses now, and did not before, leaves events at both rings: from here on both are paused.
 */
static int swap_all(struct overwrite *overwrite)
{
	int refused = 0, first_err = 0;

	for (size_t i = 0; i < overwrite->nr_places; i++) {
		struct place *place = &overwrite->places[i];
		if (place->carriers[1] < 0 || place->pauses)
			continue;
		int err = point_to(overwrite, place, place->carriers[!place->active]);
		place->active = !place->active;
		if (!err)
			continue;
		refused = err;
		err = make_pausing(place);
		first_err = first_err ? first_err : err;
	}
	if (refused)
		report_refused(refused);
	return first_err;
}

static int pause_output(const struct place *place, bool pause)
{
	int first_err = 0;

	for (size_t r = 0; r < 2; r++)
		if (place->carriers[r] >= 0 && ioctl(place->carriers[r], PERF_EVENT_IOC_PAUSE_OUTPUT, (long)pause) &&
		    !first_err)
			first_err = -errno;
	return first_err;
}

static int pause_all(struct overwrite *overwrite)
{
	int first_err = 0;

	for (size_t i = 0; i < overwrite->nr_places; i++) {
		struct place *place = &overwrite->places[i];
		if (!place->pauses)
			continue;
		place->pause.from_ns = clock_ns(CLOCK_MONOTONIC);
		int err = pause_output(place, true);
		first_err = first_err ? first_err : err;
	}
	return first_err;
}

/* As short as it can be: every ring is copied before any is written. */
static int copy(struct place *place)
{
	uint8_t *to = place->copy;

	for (size_t r = 0; r < 2; r++) {
		place->copied[r] = (struct backward_taken){0};
		if (place->carriers[r] < 0 || !to)
			continue;
		backward_ring_take(&place->rings[r], to, &place->copied[r]);
		to += place->rings[r].bytes;
	}
	int err = pause_output(place, false);
	place->pause.to_ns = clock_ns(CLOCK_MONOTONIC);
	return err;
}

static int copy_all(struct overwrite *overwrite)
{
	struct overwrite_counters *counters = &overwrite->counters;
	struct overwrite_pause all = {UINT64_MAX, 0};
	int first_err = 0;

	for (size_t i = 0; i < overwrite->nr_places; i++) {
		struct place *place = &overwrite->places[i];
		if (!place->pauses)
			continue;
		int err = copy(place);
		first_err = first_err ? first_err : err;
		all.from_ns = place->pause.from_ns < all.from_ns ? place->pause.from_ns : all.from_ns;
		all.to_ns = place->pause.to_ns;
	}
	if (!all.to_ns)
		return 0;
	uint64_t ns = all.to_ns - all.from_ns;
	counters->nr_pauses++;
	counters->paused_ns += ns;
	counters->longest_pause_ns = ns > counters->longest_pause_ns ? ns : counters->longest_pause_ns;
	return first_err;
}

int overwrite_freeze(struct overwrite *overwrite)
{
	if (!overwrite)
		return 0;
	if (overwrite->frozen)
		return -EBUSY;
	overwrite->frozen = true;
	int swap_err = swap_all(overwrite);
	int pause_err = pause_all(overwrite);
	wait_for_writers();
	int copy_err = copy_all(overwrite);
	return swap_err ? swap_err : pause_err ? pause_err : copy_err;
}

struct overwrite_pause overwrite_pause_of(const struct overwrite *overwrite, size_t slot)
{
	for (size_t i = 0; overwrite && i < overwrite->nr_places; i++)
		if (overwrite->places[i].pauses && is_of_place(overwrite, slot, &overwrite->places[i]))
			return overwrite->places[i].pause;
	return (struct overwrite_pause){0};
}

/* Of the oldest record of a ring; all events of a recording have it at the same place. 0: it has none. */
static uint64_t first_time_ns(const struct perf_event_attr *attr, const struct backward_taken *taken)
{
	const struct perf_event_header *first = (const void *)taken->records;
	uint64_t time_ns;

	if (taken->bytes < sizeof(*first))
		return 0;
	int at = first->type == PERF_RECORD_SAMPLE
			 ? sample_time_offset(attr)
			 : sample_id_field(first, sample_id_bytes(attr), sample_time_distance(attr));
	if (at < 0 || (size_t)at + sizeof(time_ns) > first->size)
		return 0;
	memcpy(&time_ns, taken->records + at, sizeof(time_ns));
	return time_ns;
}

/* Counts what was taken of a ring of that place, and appends it. */
static void put_taken(struct overwrite *overwrite, const struct place *place, size_t which,
		      const struct backward_taken *taken, struct snapshot_out *out)
{
	const struct perf_event_attr *attr = attr_of_place(overwrite, place);
	bool overwritten = taken->came > place->rings[which].bytes;
	uint64_t from_ns = overwritten && attr ? first_time_ns(attr, taken) : 0;

	overwrite->counters.nr_records += taken->nr_records;
	overwrite->counters.nr_broken += taken->nr_broken;
	overwrite->counters.nr_overwritten += overwritten;
	overwrite->counters.bytes += taken->bytes;
	if (from_ns > out->whole_from_ns)
		out->whole_from_ns = from_ns;
	if (taken->bytes && out->writer && !out->err)
		out->err = writer_put(out->writer, taken->records, taken->bytes);
	else if (!out->writer)
		buf_put(out->records, taken->records, taken->bytes);
}

static void take_ring(struct overwrite *overwrite, struct place *place, size_t which, struct snapshot_out *out)
{
	struct backward_taken taken = {0};

	if (place->carriers[which] >= 0)
		backward_ring_take(&place->rings[which], overwrite->room, &taken);
	put_taken(overwrite, place, which, &taken, out);
}

int overwrite_collect(struct overwrite *overwrite, struct buf *records, uint64_t *ret_whole_from_ns)
{
	struct snapshot_out out = {.records = records};

	if (!overwrite || !overwrite->frozen)
		return 0;
	overwrite->frozen = false;
	overwrite->counters.nr_snapshots++;
	for (size_t i = 0; i < overwrite->nr_places; i++) {
		struct place *place = &overwrite->places[i];
		for (size_t r = 0; r < 2; r++)
			if (place->pauses)
				put_taken(overwrite, place, r, &place->copied[r], &out);
			else if (r != place->active)
				take_ring(overwrite, place, r, &out);
	}
	if (ret_whole_from_ns)
		*ret_whole_from_ns = out.whole_from_ns;
	return buf_status(records);
}

static int end(struct overwrite *overwrite, struct snapshot_out *out)
{
	if (!overwrite)
		return 0;
	wait_for_writers();
	overwrite->counters.nr_snapshots++;
	for (size_t i = 0; i < 2 * overwrite->nr_places && !out->err; i++) {
		struct place *place = &overwrite->places[i / 2];
		if (place->pauses || i % 2 == place->active)
			take_ring(overwrite, place, i % 2, out);
	}
	return out->err;
}

int overwrite_end(struct overwrite *overwrite, struct buf *records, uint64_t *ret_whole_from_ns)
{
	struct snapshot_out out = {.records = records};

	end(overwrite, &out);
	*ret_whole_from_ns = out.whole_from_ns;
	return buf_status(records);
}

int overwrite_end_into(struct overwrite *overwrite, struct writer *writer)
{
	struct snapshot_out out = {.writer = writer};

	return end(overwrite, &out);
}

struct overwrite_counters overwrite_counters(const struct overwrite *overwrite)
{
	return overwrite ? overwrite->counters : (struct overwrite_counters){0};
}
