/* SPDX-License-Identifier: MIT */
#include "record/drain/flight.h"

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
	struct flight_pause pause; /* the last */
};

struct flight {
	const struct eventset *set; /* borrowed */
	struct place *places;       /* heap; room for one for each event of the channel */
	size_t nr_places;
	size_t ring_bytes; /* of the largest */
	bool frozen;       /* there is something to write */
	uint8_t *room;     /* heap: one ring in the order of time */
	struct flight_counters counters;
};

/* Where the records of a snapshot go: to the writer, or else behind `records`. */
struct snapshot_out {
	struct writer *writer;
	struct buf *records;
	uint64_t whole_from_ns; /* as flight_collect() returns it */
	int err;
};

static bool is_of_place(const struct flight *flight, size_t slot, const struct place *place)
{
	return flight->set->fds[slot] >= 0 && flight->set->plan->slots[slot].ring == place->ring &&
	       (place->slot == ALL_SLOTS || place->slot == (ssize_t)slot);
}

/* All events of a place go to that ring. The kernel waits for a grace period of RCU in each call. */
static int point_to(const struct flight *flight, const struct place *place, int carrier)
{
	int first_err = 0;

	for (size_t i = 0; i < flight->set->plan->nr_slots; i++)
		if (is_of_place(flight, i, place) &&
		    ioctl(flight->set->fds[i], PERF_EVENT_IOC_SET_OUTPUT, (long)carrier) && !first_err)
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
static const struct perf_event_attr *attr_of_place(const struct flight *flight, const struct place *place)
{
	for (size_t i = 0; i < flight->set->plan->nr_slots; i++)
		if (is_of_place(flight, i, place))
			return &flight->set->events->events[flight->set->plan->slots[i].event].attr;
	return NULL;
}

static int make_pausing(struct place *place)
{
	place->pauses = true;
	place->copy = malloc(place->rings[0].bytes + place->rings[1].bytes);
	return place->copy ? 0 : -ENOMEM;
}

static int map_place(struct flight *flight, struct place *place, size_t pages, size_t nr_rings)
{
	const struct plan_ring *ring = &flight->set->plan->rings[place->ring];
	const struct perf_event_attr *attr = attr_of_place(flight, place);

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

static void unmap_all(struct flight *flight)
{
	for (size_t i = 0; i < flight->nr_places; i++)
		unmap_place(&flight->places[i]);
}

static int try_map(struct flight *flight, size_t pages, size_t nr_rings)
{
	int err = 0;

	flight->ring_bytes = pages * (size_t)sysconf(_SC_PAGESIZE);
	for (size_t i = 0; i < flight->nr_places && !err; i++)
		err = map_place(flight, &flight->places[i], pages, nr_rings);
	if (err)
		unmap_all(flight);
	return err;
}

static bool too_much(int err)
{
	return err == -EPERM || err == -ENOMEM;
}

static int cannot_map(const struct flight *flight, size_t pages, int err, struct diag *reterr)
{
	return diag_set(reterr, err, "cannot map %zu overwritten rings of %zu pages: %s%s", flight->nr_places, pages,
			strerror(-err),
			too_much(err) ? ": raise kernel.perf_event_mlock_kb or ulimit -l, or give a smaller -m" : "");
}

static void report_smaller(const struct flight *flight, size_t pages, size_t asked)
{
	if (pages != asked)
		log_note("overwritten rings of %zu KiB: no more locked memory is allowed (kernel.perf_event_mlock_kb, "
			 "ulimit -l)",
			 flight->ring_bytes / 1024);
}

/* Two rings, smaller ones if the user named no size, or at last one. */
static int map_all(struct flight *flight, size_t asked, bool exact, struct diag *reterr)
{
	size_t pages = asked;
	int err = try_map(flight, pages, 2);

	while (too_much(err) && !exact && pages > 1)
		err = try_map(flight, pages /= 2, 2);
	if (too_much(err)) {
		err = try_map(flight, pages = asked, 1);
		if (!err)
			log_note(
				"no locked memory for two overwritten rings each: recording pauses while a snapshot is "
				"copied (kernel.perf_event_mlock_kb, ulimit -l)");
	}
	if (err)
		return cannot_map(flight, pages, err, reterr);
	report_smaller(flight, pages, asked);
	return 0;
}

/* The events of each place go to its first ring. */
static int connect_all(const struct flight *flight)
{
	int err = 0;

	for (size_t i = 0; i < flight->nr_places && !err; i++)
		if (flight->places[i].carriers[0] >= 0)
			err = point_to(flight, &flight->places[i], flight->places[i].carriers[0]);
	return err;
}

/* A place for each event. An event that was sent to a carrier's ring is sent nowhere when that is unmapped. */
static void split_places(struct flight *flight)
{
	const struct plan *plan = flight->set->plan;

	unmap_all(flight);
	flight->nr_places = 0;
	for (size_t i = 0; i < plan->nr_slots; i++)
		if (flight->set->fds[i] >= 0 && plan->slots[i].ring >= plan->nr_drained)
			flight->places[flight->nr_places++] =
				(struct place){.ring = plan->slots[i].ring, .slot = (ssize_t)i, .carriers = {-1, -1}};
}

static int try_map_own(struct flight *flight, size_t pages)
{
	int err = 0;

	flight->ring_bytes = pages * (size_t)sysconf(_SC_PAGESIZE);
	for (size_t i = 0; i < flight->nr_places && !err; i++) {
		struct place *place = &flight->places[i];
		place->carriers[0] = flight->set->fds[place->slot];
		err = backward_ring_map(&place->rings[0], place->carriers[0], pages);
		if (!err)
			err = make_pausing(place);
	}
	if (err)
		unmap_all(flight);
	return err;
}

static int map_own(struct flight *flight, size_t asked, bool exact, struct diag *reterr)
{
	size_t pages = asked;

	split_places(flight);
	int err = try_map_own(flight, pages);
	while (too_much(err) && !exact && pages > 1)
		err = try_map_own(flight, pages /= 2);
	if (err)
		return cannot_map(flight, pages, err, reterr);
	report_smaller(flight, pages, asked);
	return 0;
}

static void report_refused(int err)
{
	log_note("the kernel refuses to swap overwritten rings (PERF_EVENT_IOC_SET_OUTPUT: %s): recording pauses while "
		 "a snapshot is copied",
		 strerror(-err));
}

static int connect_or_split(struct flight *flight, size_t pages, bool exact, struct diag *reterr)
{
	int err = connect_all(flight);

	if (err == -ENOMEM || !err)
		return err ? diag_set(reterr, err, "out of memory") : 0;
	report_refused(err);
	return map_own(flight, pages, exact, reterr);
}

static bool make_places(struct flight *flight)
{
	const struct plan *plan = flight->set->plan;

	flight->nr_places = plan->nr_rings - plan->nr_drained;
	flight->places = calloc(plan->nr_slots + flight->nr_places, sizeof(*flight->places));
	for (size_t i = 0; flight->places && i < flight->nr_places; i++)
		flight->places[i] =
			(struct place){.ring = plan->nr_drained + i, .slot = ALL_SLOTS, .carriers = {-1, -1}};
	return flight->places != NULL;
}

int flight_open(const struct eventset *set, struct ring_sizes sizes, struct flight **ret, struct diag *reterr)
{
	size_t pages = sizes.pages ? sizes.pages : ring_sizes_default_pages();

	*ret = NULL;
	if (set->plan->nr_rings == set->plan->nr_drained)
		return 0;
	struct flight *flight = calloc(1, sizeof(*flight));
	if (!flight)
		return diag_set(reterr, -ENOMEM, "out of memory");
	flight->set = set;
	int err = make_places(flight) ? map_all(flight, pages, sizes.exact, reterr)
				      : diag_set(reterr, -ENOMEM, "out of memory");
	if (!err)
		err = connect_or_split(flight, pages, sizes.exact, reterr);
	flight->room = err ? NULL : malloc(flight->ring_bytes);
	if (!err && !flight->room)
		err = diag_set(reterr, -ENOMEM, "out of memory");
	if (err) {
		flight_free(flight);
		return err;
	}
	*ret = flight;
	return 0;
}

void flight_free(struct flight *flight)
{
	if (!flight)
		return;
	if (flight->places)
		unmap_all(flight);
	free(flight->places);
	free(flight->room);
	free(flight);
}

/*
 * Nothing waits for RCU between the new ring and the old one's last record: the CPU always finds one of the two. What
 * the kernel refuses now, and did not before, leaves events at both rings: from here on both are paused.
 */
static int swap_all(struct flight *flight)
{
	int refused = 0, first_err = 0;

	for (size_t i = 0; i < flight->nr_places; i++) {
		struct place *place = &flight->places[i];
		if (place->carriers[1] < 0 || place->pauses)
			continue;
		int err = point_to(flight, place, place->carriers[!place->active]);
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

static int pause_all(struct flight *flight)
{
	int first_err = 0;

	for (size_t i = 0; i < flight->nr_places; i++) {
		struct place *place = &flight->places[i];
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

static int copy_all(struct flight *flight)
{
	struct flight_counters *counters = &flight->counters;
	struct flight_pause all = {UINT64_MAX, 0};
	int first_err = 0;

	for (size_t i = 0; i < flight->nr_places; i++) {
		struct place *place = &flight->places[i];
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

int flight_freeze(struct flight *flight)
{
	if (!flight)
		return 0;
	if (flight->frozen)
		return -EBUSY;
	flight->frozen = true;
	int swap_err = swap_all(flight);
	int pause_err = pause_all(flight);
	wait_for_writers();
	int copy_err = copy_all(flight);
	return swap_err ? swap_err : pause_err ? pause_err : copy_err;
}

struct flight_pause flight_pause_of(const struct flight *flight, size_t slot)
{
	for (size_t i = 0; flight && i < flight->nr_places; i++)
		if (flight->places[i].pauses && is_of_place(flight, slot, &flight->places[i]))
			return flight->places[i].pause;
	return (struct flight_pause){0};
}

/* Of the oldest record of a ring; all events of a recording have it at the same place. 0: it has none. */
static uint64_t first_time_ns(const struct perf_event_attr *attr, const struct backward_taken *taken)
{
	const struct perf_event_header *first = (const void *)taken->records;
	bool is_sample = taken->bytes && first->type == PERF_RECORD_SAMPLE;
	int before = is_sample ? sample_time_offset(attr) : sample_time_distance(attr);
	uint64_t time_ns;

	if (before < 0 || taken->bytes < sizeof(*first) || (size_t)before > first->size ||
	    (is_sample && (size_t)before + sizeof(time_ns) > first->size))
		return 0;
	memcpy(&time_ns, taken->records + (is_sample ? before : first->size - before), sizeof(time_ns));
	return time_ns;
}

/* Counts what was taken of a ring of that place, and appends it. */
static void put_taken(struct flight *flight, const struct place *place, size_t which,
		      const struct backward_taken *taken, struct snapshot_out *out)
{
	const struct perf_event_attr *attr = attr_of_place(flight, place);
	bool overwritten = taken->came > place->rings[which].bytes;
	uint64_t from_ns = overwritten && attr ? first_time_ns(attr, taken) : 0;

	flight->counters.nr_records += taken->nr_records;
	flight->counters.nr_broken += taken->nr_broken;
	flight->counters.nr_overwritten += overwritten;
	flight->counters.bytes += taken->bytes;
	if (from_ns > out->whole_from_ns)
		out->whole_from_ns = from_ns;
	if (taken->bytes && out->writer && !out->err)
		out->err = writer_put(out->writer, taken->records, taken->bytes);
	else if (!out->writer)
		buf_put(out->records, taken->records, taken->bytes);
}

static void take_ring(struct flight *flight, struct place *place, size_t which, struct snapshot_out *out)
{
	struct backward_taken taken = {0};

	if (place->carriers[which] >= 0)
		backward_ring_take(&place->rings[which], flight->room, &taken);
	put_taken(flight, place, which, &taken, out);
}

int flight_collect(struct flight *flight, struct buf *records, uint64_t *ret_whole_from_ns)
{
	struct snapshot_out out = {.records = records};

	if (!flight || !flight->frozen)
		return 0;
	flight->frozen = false;
	flight->counters.nr_snapshots++;
	for (size_t i = 0; i < flight->nr_places; i++) {
		struct place *place = &flight->places[i];
		for (size_t r = 0; r < 2; r++)
			if (place->pauses)
				put_taken(flight, place, r, &place->copied[r], &out);
			else if (r != place->active)
				take_ring(flight, place, r, &out);
	}
	if (ret_whole_from_ns)
		*ret_whole_from_ns = out.whole_from_ns;
	return buf_status(records);
}

static int end(struct flight *flight, struct snapshot_out *out)
{
	if (!flight)
		return 0;
	wait_for_writers();
	flight->counters.nr_snapshots++;
	for (size_t i = 0; i < 2 * flight->nr_places && !out->err; i++) {
		struct place *place = &flight->places[i / 2];
		if (place->pauses || i % 2 == place->active)
			take_ring(flight, place, i % 2, out);
	}
	return out->err;
}

int flight_end(struct flight *flight, struct buf *records, uint64_t *ret_whole_from_ns)
{
	struct snapshot_out out = {.records = records};

	end(flight, &out);
	*ret_whole_from_ns = out.whole_from_ns;
	return buf_status(records);
}

int flight_end_into(struct flight *flight, struct writer *writer)
{
	struct snapshot_out out = {.writer = writer};

	return end(flight, &out);
}

struct flight_counters flight_counters(const struct flight *flight)
{
	return flight ? flight->counters : (struct flight_counters){0};
}
