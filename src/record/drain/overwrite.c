/* SPDX-License-Identifier: MIT */
#include "record/drain/overwrite.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/diag.h"
#include "base/log.h"
#include "event/parse/event.h"
#include "perfdata/sample.h"
#include "record/setup/eventset.h"
#include "stream/ring.h"
#include "stream/writer.h"

/* The slot of a group of events that is all of the plan's ring. */
enum { ALL_SLOTS = -1, HUGE_PAGE = 2 << 20 };

/*
 * One place: its ring. It is carried by an event of ours that counts nothing, and all events of the plan's ring are
 * sent there; where the kernel refuses that, each event has a ring of its own.
 */
struct place {
	size_t ring;  /* of the plan */
	ssize_t slot; /* whose ring it is, which carries it; ALL_SLOTS: the carrier does */
	int carrier;  /* fd; -1: none */
	struct backward_ring buffer;
	struct backward_copy copy; /* its data: heap; NULL: there is no ring */
	bool known;                /* what was overwritten while the ring was copied */
};

enum snapshot_state { NO_SNAPSHOT, MARKED, COPIED };

struct overwrite {
	const struct eventset *set; /* borrowed */
	struct place *places;       /* heap; room for one for each event of the channel */
	size_t nr_places;
	size_t ring_bytes; /* of the largest */
	enum snapshot_state state;
	uint8_t *room; /* heap: one ring in the order of time */
	struct overwrite_counters counters;
	/* Waits for writers: a post of `wanted` begins that, one of `waited` ends it. */
	pthread_t waiter;
	bool has_waiter;
	atomic_bool stop;
	sem_t wanted, waited;
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

/* All events of a place go to its ring. */
static int connect_place(const struct overwrite *overwrite, const struct place *place)
{
	int first_err = 0;

	for (size_t i = 0; i < overwrite->set->plan->nr_slots; i++)
		if (is_of_place(overwrite, i, place) &&
		    ioctl(overwrite->set->fds[i], PERF_EVENT_IOC_SET_OUTPUT, (long)place->carrier) && !first_err)
			first_err = -errno;
	return first_err;
}

/*
 * Sends an event where it is sent already: the kernel waits for a grace period of RCU, and nothing is different then.
 * false: it refuses.
 */
static bool reconnect_any(const struct overwrite *overwrite)
{
	for (size_t p = 0; p < overwrite->nr_places; p++) {
		const struct place *place = &overwrite->places[p];
		if (place->carrier < 0 || place->slot != ALL_SLOTS)
			continue;
		for (size_t i = 0; i < overwrite->set->plan->nr_slots; i++)
			if (is_of_place(overwrite, i, place))
				return !ioctl(overwrite->set->fds[i], PERF_EVENT_IOC_SET_OUTPUT, (long)place->carrier);
	}
	return false;
}

/*
 * The CPUs that are writing into a ring are done with that record: records are written with preemption off, and
 * MEMBARRIER_CMD_GLOBAL waits until every CPU has been seen otherwise (synchronize_rcu(), membarrier(2)). It is refused
 * with nohz_full.
 */
static void wait_for_writers(const struct overwrite *overwrite)
{
	static const struct timespec long_for_a_record = {.tv_nsec = 10000000};

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) && !reconnect_any(overwrite))
		nanosleep(&long_for_a_record, NULL);
}

static void unmap_place(struct place *place)
{
	backward_ring_unmap(&place->buffer);
	if (place->carrier >= 0 && place->slot == ALL_SLOTS)
		close(place->carrier);
	place->carrier = -1;
	free(place->copy.data);
	place->copy.data = NULL;
}

/* The attr of some event of the place: its clock must be the carriers'. NULL: none is open, a task was gone. */
static const struct perf_event_attr *attr_of_place(const struct overwrite *overwrite, const struct place *place)
{
	for (size_t i = 0; i < overwrite->set->plan->nr_slots; i++)
		if (is_of_place(overwrite, i, place))
			return &overwrite->set->events->events[overwrite->set->plan->slots[i].event].attr;
	return NULL;
}

/* Its memory is touched when a copy is made, while the ring goes on to be overwritten: by few page faults. */
static uint8_t *copy_memory(size_t bytes)
{
	uint8_t *memory = bytes < HUGE_PAGE ? malloc(bytes) : aligned_alloc(HUGE_PAGE, bytes);

	if (memory && bytes >= HUGE_PAGE)
		(void)!madvise(memory, bytes, MADV_HUGEPAGE);
	return memory;
}

static int map_ring(struct place *place, size_t pages)
{
	int err = backward_ring_map(&place->buffer, place->carrier, pages);

	if (err)
		return err;
	place->copy.data = copy_memory(place->buffer.bytes);
	return place->copy.data ? 0 : -ENOMEM;
}

static int map_place(struct overwrite *overwrite, struct place *place, size_t pages)
{
	const struct plan_ring *ring = &overwrite->set->plan->rings[place->ring];
	const struct perf_event_attr *attr = attr_of_place(overwrite, place);

	place->carrier = attr ? ring_carrier_open(attr, ring, 0) : -ESRCH;
	if (place->carrier >= 0)
		return map_ring(place, pages);
	int err = place->carrier == -ESRCH ? 0 : place->carrier; /* a task that is gone has no ring */
	place->carrier = -1;
	return err;
}

static void unmap_all(struct overwrite *overwrite)
{
	for (size_t i = 0; i < overwrite->nr_places; i++)
		unmap_place(&overwrite->places[i]);
}

static int try_map(struct overwrite *overwrite, size_t pages)
{
	int err = 0;

	overwrite->ring_bytes = pages * (size_t)sysconf(_SC_PAGESIZE);
	for (size_t i = 0; i < overwrite->nr_places && !err; i++)
		err = map_place(overwrite, &overwrite->places[i], pages);
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

/* With rings of that size, or of a smaller one if the user named none. */
static int map_all(struct overwrite *overwrite, int (*try)(struct overwrite *, size_t), struct ring_sizes sizes,
		   struct diag *reterr)
{
	size_t pages = sizes.pages;
	int err = try(overwrite, pages);

	while (too_much(err) && !sizes.exact && pages > 1)
		err = try(overwrite, pages /= 2);
	if (err)
		return cannot_map(overwrite, pages, err, reterr);
	report_smaller(overwrite, pages, sizes.pages);
	return 0;
}

static int connect_all(const struct overwrite *overwrite)
{
	int err = 0;

	for (size_t i = 0; i < overwrite->nr_places && !err; i++)
		if (overwrite->places[i].carrier >= 0)
			err = connect_place(overwrite, &overwrite->places[i]);
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
				(struct place){.ring = plan->slots[i].ring, .slot = (ssize_t)i, .carrier = -1};
}

static int try_map_own(struct overwrite *overwrite, size_t pages)
{
	int err = 0;

	overwrite->ring_bytes = pages * (size_t)sysconf(_SC_PAGESIZE);
	for (size_t i = 0; i < overwrite->nr_places && !err; i++) {
		struct place *place = &overwrite->places[i];
		place->carrier = overwrite->set->fds[place->slot];
		err = map_ring(place, pages);
	}
	if (err)
		unmap_all(overwrite);
	return err;
}

static int connect_or_split(struct overwrite *overwrite, struct ring_sizes sizes, struct diag *reterr)
{
	int err = connect_all(overwrite);

	if (err == -ENOMEM || !err)
		return err ? diag_set(reterr, err, "out of memory") : 0;
	log_note("the kernel refuses to send several events to one overwritten ring (PERF_EVENT_IOC_SET_OUTPUT: %s): "
		 "each has its own",
		 strerror(-err));
	split_places(overwrite);
	return map_all(overwrite, try_map_own, sizes, reterr);
}

static bool make_places(struct overwrite *overwrite)
{
	const struct plan *plan = overwrite->set->plan;

	overwrite->nr_places = plan->nr_rings - plan->nr_drained;
	overwrite->places = calloc(plan->nr_slots + overwrite->nr_places, sizeof(*overwrite->places));
	for (size_t i = 0; overwrite->places && i < overwrite->nr_places; i++)
		overwrite->places[i] = (struct place){.ring = plan->nr_drained + i, .slot = ALL_SLOTS, .carrier = -1};
	return overwrite->places != NULL;
}

static void wait_for_post(sem_t *semaphore)
{
	while (sem_wait(semaphore) && errno == EINTR)
		;
}

static void *run_waiter(void *arg)
{
	struct overwrite *overwrite = arg;

	for (;;) {
		wait_for_post(&overwrite->wanted);
		if (atomic_load(&overwrite->stop))
			return NULL;
		wait_for_writers(overwrite);
		sem_post(&overwrite->waited);
	}
}

int overwrite_open(const struct eventset *set, struct ring_sizes sizes, struct overwrite **ret, struct diag *reterr)
{
	if (!sizes.pages)
		sizes.pages = ring_sizes_default_pages();
	*ret = NULL;
	if (set->plan->nr_rings == set->plan->nr_drained)
		return 0;
	struct overwrite *overwrite = calloc(1, sizeof(*overwrite));
	if (!overwrite)
		return diag_set(reterr, -ENOMEM, "out of memory");
	overwrite->set = set;
	int err = make_places(overwrite) ? map_all(overwrite, try_map, sizes, reterr)
					 : diag_set(reterr, -ENOMEM, "out of memory");
	if (!err)
		err = connect_or_split(overwrite, sizes, reterr);
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

void overwrite_start(struct overwrite *overwrite)
{
	if (!overwrite || overwrite->has_waiter)
		return;
	sem_init(&overwrite->wanted, 0, 0);
	sem_init(&overwrite->waited, 0, 0);
	overwrite->has_waiter = pthread_create(&overwrite->waiter, NULL, run_waiter, overwrite) == 0;
}

static void stop_waiter(struct overwrite *overwrite)
{
	if (!overwrite->has_waiter)
		return;
	atomic_store(&overwrite->stop, true);
	sem_post(&overwrite->wanted);
	pthread_join(overwrite->waiter, NULL);
	overwrite->has_waiter = false;
	sem_destroy(&overwrite->wanted);
	sem_destroy(&overwrite->waited);
}

void overwrite_free(struct overwrite *overwrite)
{
	if (!overwrite)
		return;
	stop_waiter(overwrite);
	if (overwrite->places)
		unmap_all(overwrite);
	free(overwrite->places);
	free(overwrite->room);
	free(overwrite);
}

int overwrite_mark(struct overwrite *overwrite)
{
	if (!overwrite)
		return 0;
	if (overwrite->state != NO_SNAPSHOT)
		return -EBUSY;
	overwrite->state = MARKED;
	for (size_t i = 0; i < overwrite->nr_places; i++)
		if (overwrite->places[i].carrier >= 0)
			backward_ring_mark(&overwrite->places[i].buffer, &overwrite->places[i].copy);
	return 0;
}

/* Of the first `nr` places: is it known what was overwritten? */
static bool all_are_known(struct overwrite *overwrite, size_t nr)
{
	bool all = true;

	for (size_t i = 0; i < nr; i++) {
		struct place *place = &overwrite->places[i];
		place->known = place->known || backward_copy_is_known(&place->buffer, &place->copy);
		all &= place->known;
	}
	return all;
}

/*
 * In a busy ring it is known at once. Those where nothing comes wait for the writers; that takes so long that they are
 * looked at all the time, for one that is busy again loses much until then.
 */
static void know_all(struct overwrite *overwrite)
{
	enum { LOOKS = 2000 };
	static const struct timespec interval = {.tv_nsec = 100000};

	for (size_t i = 0; i < LOOKS; i += overwrite->nr_places)
		if (all_are_known(overwrite, overwrite->nr_places))
			return;
	if (!overwrite->has_waiter) {
		wait_for_writers(overwrite);
	} else {
		sem_post(&overwrite->wanted);
		while (sem_trywait(&overwrite->waited)) {
			if (all_are_known(overwrite, overwrite->nr_places)) {
				wait_for_post(&overwrite->waited);
				break;
			}
			nanosleep(&interval, NULL);
		}
	}
	for (size_t i = 0; i < overwrite->nr_places; i++)
		if (!overwrite->places[i].known)
			backward_copy_end(&overwrite->places[i].buffer, &overwrite->places[i].copy);
}

void overwrite_copy(struct overwrite *overwrite)
{
	if (!overwrite || overwrite->state != MARKED)
		return;
	overwrite->state = COPIED;
	for (size_t i = 0; i < overwrite->nr_places; i++) {
		struct place *place = &overwrite->places[i];
		place->known = place->carrier < 0;
		if (!place->known)
			backward_ring_copy(&place->buffer, &place->copy);
		all_are_known(overwrite, i + 1);
	}
	know_all(overwrite);
}

/* Of the oldest record of a ring; all events of a recording have it at the same place. 0: it has no time. */
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

/* From when on a ring has everything. */
static uint64_t whole_from(const struct overwrite *overwrite, const struct place *place,
			   const struct backward_taken *taken)
{
	const struct perf_event_attr *attr = attr_of_place(overwrite, place);

	if (!taken->overwritten || !attr)
		return 0;
	return taken->nr_records ? first_time_ns(attr, taken) : UINT64_MAX;
}

/* Counts what was taken of the ring of that place, and appends it. */
static void put_taken(struct overwrite *overwrite, const struct place *place, const struct backward_taken *taken,
		      struct snapshot_out *out)
{
	uint64_t from_ns = whole_from(overwrite, place, taken);

	overwrite->counters.nr_records += taken->nr_records;
	overwrite->counters.nr_broken += taken->nr_broken;
	overwrite->counters.nr_overwritten += taken->overwritten;
	overwrite->counters.nr_emptied += taken->overwritten && !taken->nr_records;
	overwrite->counters.bytes += taken->bytes;
	if (from_ns > out->whole_from_ns)
		out->whole_from_ns = from_ns;
	if (taken->bytes && out->writer && !out->err)
		out->err = writer_put(out->writer, taken->records, taken->bytes);
	else if (!out->writer)
		buf_put(out->records, taken->records, taken->bytes);
}

int overwrite_collect(struct overwrite *overwrite, struct buf *records, uint64_t *ret_whole_from_ns)
{
	struct snapshot_out out = {.records = records};

	if (!overwrite || overwrite->state != COPIED)
		return 0;
	overwrite->state = NO_SNAPSHOT;
	overwrite->counters.nr_snapshots++;
	for (size_t i = 0; i < overwrite->nr_places; i++) {
		struct place *place = &overwrite->places[i];
		struct backward_taken taken;
		if (place->carrier < 0)
			continue;
		backward_ring_take_copy(&place->buffer, &place->copy, overwrite->room, &taken);
		put_taken(overwrite, place, &taken, &out);
	}
	if (ret_whole_from_ns)
		*ret_whole_from_ns = out.whole_from_ns;
	return buf_status(records);
}

static int end(struct overwrite *overwrite, struct snapshot_out *out)
{
	if (!overwrite)
		return 0;
	wait_for_writers(overwrite);
	overwrite->counters.nr_snapshots++;
	for (size_t i = 0; i < overwrite->nr_places && !out->err; i++) {
		struct place *place = &overwrite->places[i];
		struct backward_taken taken;
		if (place->carrier < 0)
			continue;
		backward_ring_take(&place->buffer, overwrite->room, &taken);
		put_taken(overwrite, place, &taken, out);
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
