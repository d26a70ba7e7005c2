/* SPDX-License-Identifier: MIT */
#include "record/flight.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/diag.h"
#include "base/log.h"
#include "event/event.h"
#include "record/flight_carrier.h"
#include "ring/backward.h"
#include "stream/writer.h"

/* One place: the rings, each carried by an event of ours that counts nothing, and which one records go to. */
struct pair {
	int carriers[2]; /* fd; -1: none. [1]: none where the rings are paused, not swapped */
	struct backward_ring rings[2];
	unsigned active;
	uint8_t *copy; /* heap, with a single ring: what it held when it was frozen */
	struct backward_taken copied;
};

struct flight {
	const struct eventset *set; /* borrowed */
	size_t first_ring;          /* of the plan: pairs[0] is for that */
	size_t nr_pairs;
	size_t ring_bytes;
	bool swaps;  /* two rings each */
	bool frozen; /* there is something to write */
	uint8_t *room; /* heap: one ring in the order of time */
	struct flight_counters counters;
	struct pair pairs[];
};

static bool is_of_ring(const struct flight *flight, size_t slot, size_t pair)
{
	return flight->set->fds[slot] >= 0 && flight->set->plan->slots[slot].ring == flight->first_ring + pair;
}

/* All events of a place go to that ring. The kernel waits for a grace period of RCU in each call. */
static int point_to(const struct flight *flight, size_t pair, int carrier)
{
	int first_err = 0;

	for (size_t i = 0; i < flight->set->plan->nr_slots; i++)
		if (is_of_ring(flight, i, pair) &&
		    ioctl(flight->set->fds[i], PERF_EVENT_IOC_SET_OUTPUT, (long)carrier) && !first_err)
			first_err = -errno;
	return first_err;
}

/*
 * Whoever was writing into a ring when its events were sent elsewhere is done: records are written with preemption off,
 * and MEMBARRIER_CMD_GLOBAL waits until every CPU has been seen otherwise (synchronize_rcu(), membarrier(2)).
 */
static void wait_for_writers(void)
{
	static bool told;

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) && !told) {
		told = true;
		log_verbose("membarrier: %s: the newest record of a snapshot may be missing", strerror(errno));
	}
}

static void unmap_pair(struct pair *pair)
{
	for (size_t r = 0; r < 2; r++) {
		backward_ring_unmap(&pair->rings[r]);
		if (pair->carriers[r] >= 0)
			close(pair->carriers[r]);
		pair->carriers[r] = -1;
	}
	free(pair->copy);
	pair->copy = NULL;
}

/* The attr of some event of the place: its clock must be the carriers'. NULL: none is open, a task was gone. */
static const struct perf_event_attr *attr_of_pair(const struct flight *flight, size_t pair)
{
	for (size_t i = 0; i < flight->set->plan->nr_slots; i++)
		if (is_of_ring(flight, i, pair))
			return &flight->set->events->events[flight->set->plan->slots[i].event].attr;
	return NULL;
}

static int map_pair(struct flight *flight, size_t index, size_t pages)
{
	struct pair *pair = &flight->pairs[index];
	const struct plan_ring *ring = &flight->set->plan->rings[flight->first_ring + index];
	const struct perf_event_attr *attr = attr_of_pair(flight, index);

	for (size_t r = 0; attr && r < (flight->swaps ? 2 : 1); r++) {
		pair->carriers[r] = flight_carrier_open(attr, ring);
		if (pair->carriers[r] == -ESRCH) {
			unmap_pair(pair);
			return 0;
		}
		if (pair->carriers[r] < 0)
			return pair->carriers[r];
		int err = backward_ring_map(&pair->rings[r], pair->carriers[r], pages);
		if (err)
			return err;
	}
	if (flight->swaps)
		return 0;
	pair->copy = malloc(flight->ring_bytes);
	return pair->copy ? 0 : -ENOMEM;
}

static void unmap_all(struct flight *flight)
{
	for (size_t i = 0; i < flight->nr_pairs; i++)
		unmap_pair(&flight->pairs[i]);
}

static int try_map(struct flight *flight, size_t pages, bool swaps)
{
	int err = 0;

	flight->swaps = swaps;
	flight->ring_bytes = pages * (size_t)sysconf(_SC_PAGESIZE);
	for (size_t i = 0; i < flight->nr_pairs && !err; i++)
		err = map_pair(flight, i, pages);
	if (err)
		unmap_all(flight);
	return err;
}

static bool too_much(int err)
{
	return err == -EPERM || err == -ENOMEM;
}

/* Two rings, smaller ones if the user named no size, or at last one. */
static int map_all(struct flight *flight, size_t asked, bool exact, struct diag *reterr)
{
	size_t pages = asked;
	int err = try_map(flight, pages, true);

	while (too_much(err) && !exact && pages > 1)
		err = try_map(flight, pages /= 2, true);
	if (too_much(err)) {
		err = try_map(flight, pages = asked, false);
		if (!err)
			log_note("no locked memory for two overwritten rings each: recording pauses while a snapshot is "
				 "copied (kernel.perf_event_mlock_kb, ulimit -l)");
	}
	if (err)
		return diag_set(reterr, err, "cannot map %zu overwritten rings of %zu pages: %s%s", flight->nr_pairs, pages,
				strerror(-err),
				too_much(err) ? ": raise kernel.perf_event_mlock_kb or ulimit -l, or give a smaller -m" : "");
	if (pages != asked)
		log_note("overwritten rings of %zu KiB: no more locked memory is allowed (kernel.perf_event_mlock_kb, "
			 "ulimit -l)", flight->ring_bytes / 1024);
	return 0;
}

int flight_open(const struct eventset *set, struct eventset_sizes sizes, struct flight **ret, struct diag *reterr)
{
	size_t nr_pairs = set->plan->nr_rings - set->plan->nr_drained;
	int err = 0;

	*ret = NULL;
	if (!nr_pairs)
		return 0;
	struct flight *flight = calloc(1, sizeof(*flight) + nr_pairs * sizeof(flight->pairs[0]));
	if (!flight)
		return diag_set(reterr, -ENOMEM, "out of memory");
	*flight = (struct flight){.set = set, .first_ring = set->plan->nr_drained, .nr_pairs = nr_pairs};
	for (size_t i = 0; i < nr_pairs; i++)
		flight->pairs[i].carriers[0] = flight->pairs[i].carriers[1] = -1;
	err = map_all(flight, sizes.pages ? sizes.pages : eventset_default_pages(), sizes.exact, reterr);
	for (size_t i = 0; i < nr_pairs && !err; i++) {
		if (flight->pairs[i].carriers[0] < 0)
			continue;
		err = point_to(flight, i, flight->pairs[i].carriers[0]);
		if (err)
			diag_set(reterr, err, "events cannot share an overwritten ring: %s", strerror(-err));
	}
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
	unmap_all(flight);
	free(flight->room);
	free(flight);
}

/* Nothing waits for RCU between the new ring and the old one's last record: the CPU always finds one of the two. */
static int swap_all(struct flight *flight)
{
	int first_err = 0;

	for (size_t i = 0; i < flight->nr_pairs; i++) {
		struct pair *pair = &flight->pairs[i];
		if (pair->carriers[1] < 0)
			continue;
		int err = point_to(flight, i, pair->carriers[!pair->active]);
		first_err = first_err ? first_err : err;
		pair->active = !pair->active;
	}
	wait_for_writers();
	return first_err;
}

static void note_pause(struct flight_counters *counters, uint64_t ns)
{
	counters->nr_pauses++;
	counters->paused_ns += ns;
	if (ns > counters->longest_pause_ns)
		counters->longest_pause_ns = ns;
}

/* As short as it can be: every ring is copied before any is written. */
static int copy_all(struct flight *flight)
{
	uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
	int first_err = 0;

	for (size_t i = 0; i < flight->nr_pairs; i++)
		if (flight->pairs[i].carriers[0] >= 0 &&
		    ioctl(flight->pairs[i].carriers[0], PERF_EVENT_IOC_PAUSE_OUTPUT, 1) && !first_err)
			first_err = -errno;
	wait_for_writers();
	for (size_t i = 0; i < flight->nr_pairs; i++) {
		struct pair *pair = &flight->pairs[i];
		if (pair->carriers[0] < 0)
			continue;
		backward_ring_take(&pair->rings[0], pair->copy, &pair->copied);
		if (ioctl(pair->carriers[0], PERF_EVENT_IOC_PAUSE_OUTPUT, 0) && !first_err)
			first_err = -errno;
	}
	note_pause(&flight->counters, clock_ns(CLOCK_MONOTONIC) - start_ns);
	return first_err;
}

int flight_freeze(struct flight *flight)
{
	if (!flight)
		return 0;
	if (flight->frozen)
		return -EBUSY;
	flight->frozen = true;
	return flight->swaps ? swap_all(flight) : copy_all(flight);
}

static struct span take_pair(struct flight *flight, struct pair *pair, unsigned which)
{
	struct backward_taken taken = {0};

	if (pair->carriers[0] < 0)
		return (struct span){0};
	if (flight->swaps || which == pair->active)
		backward_ring_take(&pair->rings[which], flight->room, &taken);
	else
		taken = pair->copied;
	flight->counters.nr_records += taken.nr_records;
	flight->counters.nr_broken += taken.nr_broken;
	flight->counters.nr_overwritten += taken.came > flight->ring_bytes;
	flight->counters.bytes += taken.bytes;
	return (struct span){taken.records, taken.bytes};
}

int flight_collect(struct flight *flight, struct buf *out)
{
	if (!flight || !flight->frozen)
		return 0;
	flight->frozen = false;
	flight->counters.nr_snapshots++;
	for (size_t i = 0; i < flight->nr_pairs; i++) {
		struct span records = take_pair(flight, &flight->pairs[i], !flight->pairs[i].active);
		buf_put(out, records.ptr, records.len);
	}
	return out->failed ? -ENOMEM : 0;
}

int flight_end(struct flight *flight, struct writer *writer)
{
	int err = 0;

	if (!flight)
		return 0;
	wait_for_writers();
	flight->counters.nr_snapshots++;
	for (size_t i = 0; i < flight->nr_pairs && !err; i++) {
		struct span records = take_pair(flight, &flight->pairs[i], flight->pairs[i].active);
		if (records.len)
			err = writer_put(writer, records.ptr, records.len);
	}
	return err;
}

struct flight_counters flight_counters(const struct flight *flight)
{
	return flight ? flight->counters : (struct flight_counters){0};
}
