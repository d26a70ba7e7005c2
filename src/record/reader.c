/* SPDX-License-Identifier: MIT */
#include "record/reader.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/cpuset.h"
#include "base/fd.h"
#include "record/eventset.h"
#include "record/priority.h"
#include "record/ring_growth.h"
#include "record/ring_move.h"
#include "ring/ring.h"
#include "stream/lanes.h"
#include "stream/stream.h"
#include "stream/writer.h"

enum {
	/*
	 * The kernel wakes a reader at half a ring and then stays silent until half a ring more has come: what lies
	 * below the mark is collected when this much time has passed without a wake-up.
	 */
	IDLE_MS = 1000,
	/* After one that found a ring nearly full: longer than anybody waits for the next. */
	MOST_HURRIES = 20000,
	/* Events are being sent to another ring, which cannot be polled meanwhile. */
	MOVING_MS = 2,
};

int reader_control_init(struct reader_control *control)
{
	*control = (struct reader_control){.stop_fd = -1, .news_fd = -1, .switch_fd = -1, .mark = UINT64_MAX};
	sem_init(&control->ready, 0, 0);
	control->stop_fd = eventfd(0, EFD_CLOEXEC);
	control->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	control->switch_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return control->stop_fd < 0 || control->news_fd < 0 || control->switch_fd < 0 ? -errno : 0;
}

void reader_control_fini(struct reader_control *control)
{
	if (control->stop_fd >= 0)
		close(control->stop_fd);
	if (control->news_fd >= 0)
		close(control->news_fd);
	if (control->switch_fd >= 0)
		close(control->switch_fd);
	control->stop_fd = control->news_fd = control->switch_fd = -1;
}

static void signal_eventfd(int fd)
{
	const uint64_t one = 1;

	/* Fails only when the counter is full: then it is readable all the same. */
	(void)!fd_write(fd, &one, sizeof(one));
}

void reader_wake(const struct reader *reader)
{
	signal_eventfd(reader->wake_fd);
}

void reader_control_stop(struct reader_control *control)
{
	signal_eventfd(control->stop_fd);
}

/* A reader that sleeps until a ring wakes it sees the pace when one has. */
void reader_control_pace(struct reader_control *control, unsigned pace_ms)
{
	atomic_store_explicit(&control->paced_ns, pace_ms ? UINT64_MAX : clock_ns(CLOCK_MONOTONIC), memory_order_relaxed);
	atomic_store_explicit(&control->pace_ms, pace_ms, memory_order_relaxed);
}

static bool drains(const struct reader *reader, size_t ring)
{
	for (size_t i = 0; i < reader->nr_rings; i++)
		if (reader->rings[i] == ring)
			return true;
	return false;
}

/* Is its end a sign that the targets end? That of the workload is told by SIGCHLD: its first thread may end before. */
static bool is_target(const struct reader *reader, const struct plan_slot *slot)
{
	return slot->pid > 0 && slot->pid != reader->workload;
}

/*
 * A ring is watched through the fd that carries it. The fd of a task hangs up when the task ends, though others may
 * still fill the ring: of those every one is watched. Nobody else polls them: poll(2) takes the wake-up away.
 */
static void watch_slots(struct reader *reader)
{
	const struct eventset *set = reader->set;

	for (size_t i = 0; i < set->plan->nr_slots; i++) {
		const struct plan_slot *slot = &set->plan->slots[i];
		const struct polled what = {is_target(reader, slot) ? POLLED_TASK : POLLED_SLOT, slot->ring};
		bool carries = set->fds[i] == set->ring_fds[slot->ring];
		if (set->fds[i] < 0 || !drains(reader, slot->ring))
			continue;
		if (slot->pid > 0 || carries) /* a hang-up is told all the same */
			polls_add(&reader->polls, set->fds[i], slot->ring < set->plan->nr_drained ? POLLIN : 0, &what);
	}
}

static bool is_carried(const struct eventset *set, size_t ring)
{
	return set->carried && ring < set->plan->nr_drained && set->plan->rings[ring].channel == CHANNEL_DATA;
}

static void watch_carriers(struct reader *reader)
{
	const struct eventset *set = reader->set;

	for (size_t i = 0; i < reader->nr_rings; i++) {
		const struct polled what = {POLLED_CARRIER, reader->rings[i]};
		if (is_carried(set, what.ring) && set->ring_fds[what.ring] >= 0)
			polls_add(&reader->polls, set->ring_fds[what.ring], POLLIN, &what);
	}
}

int reader_init(struct reader *reader)
{
	reader->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	/* Of each of its rings there are two for a while. */
	size_t nr_rings = reader->control->move ? reader->set->plan->nr_drained : reader->nr_rings;
	int err = polls_init(&reader->polls, reader->set->plan->nr_slots + 2 * nr_rings);
	if (reader->wake_fd < 0)
		return -errno;
	if (err)
		return err;
	polls_set_own(&reader->polls, reader->control->stop_fd, reader->wake_fd);
	watch_slots(reader);
	watch_carriers(reader);
	for (size_t i = 0; reader->growth && i < reader->nr_rings; i++)
		if (is_carried(reader->set, reader->rings[i]))
			reader->growth->rings[reader->rings[i]].wake_fd = reader->wake_fd;
	atomic_fetch_add(&reader->control->nr_tasks, polls_count(&reader->polls, POLLED_TASK));
	return 0;
}

void reader_fini(struct reader *reader)
{
	if (reader->polls.fds && reader->wake_fd >= 0)
		close(reader->wake_fd);
	polls_fini(&reader->polls);
	cpuset_fini(&reader->runs_on);
}

/* Whoever sees the last of all tasks end tells it. */
static void note_hang_ups(struct reader *reader)
{
	size_t nr = polls_drop_hung_up(&reader->polls);

	if (nr && atomic_fetch_sub(&reader->control->nr_tasks, nr) == nr)
		signal_eventfd(reader->control->news_fd);
}

/* What is stored beyond what was told: of an output that several readers have, whichever of them sees it first. */
static uint64_t untold(struct reader *reader, uint64_t bytes)
{
	struct lanes *lanes = reader->nr_streams ? reader->streams[0]->writer->lanes : NULL;
	uint64_t told = reader->told_bytes;

	if (lanes)
		return lanes_tell(lanes, bytes);
	reader->told_bytes = bytes;
	return bytes - told;
}

/* How much is in the outputs; whoever waits for a mark is told once. */
static void tell_stored(struct reader *reader)
{
	struct reader_control *control = reader->control;
	uint64_t bytes = 0;

	for (size_t i = 0; i < reader->nr_streams; i++)
		bytes += reader->streams[i]->writer->stored;
	uint64_t more = untold(reader, bytes);
	if (!more)
		return;
	uint64_t stored = atomic_fetch_add_explicit(&control->stored, more, memory_order_relaxed) + more;
	if (stored >= atomic_load_explicit(&control->mark, memory_order_relaxed) &&
	    atomic_exchange(&control->mark, UINT64_MAX) != UINT64_MAX)
		signal_eventfd(control->switch_fd);
}

static void count_visits(const struct reader *reader, struct reader_work *work)
{
	work->visits = work->bytes = 0;
	for (size_t i = 0; i < reader->nr_streams; i++) {
		work->visits += reader->streams[i]->counters.chunks;
		work->bytes += reader->streams[i]->counters.bytes;
	}
}

static struct reader_work work_so_far(const struct reader *reader)
{
	struct reader_work work = {.use = thread_use_now(), .wakeups = reader->wakeups};

	count_visits(reader, &work);
	return work;
}

/* The writers trade places with those in `next`; the last reader of all tells it. */
static void exchange_writers(struct reader *reader, struct writer **next)
{
	struct reader_control *control = reader->control;

	reader->told_bytes = 0;
	for (size_t i = 0; i < reader->nr_streams; i++) {
		next[i] = stream_exchange(reader->streams[i], next[i]);
		reader->told_bytes += reader->streams[i]->writer->stored;
	}
	atomic_store(&reader->next, NULL);
	/* Pairs with the load of whoever takes the former writers. */
	if (atomic_fetch_sub(&control->nr_switching, 1) == 1)
		signal_eventfd(control->switch_fd);
}

/* All streams or none: false when one failed. */
static bool switch_writers(struct reader *reader)
{
	struct writer **next = atomic_load(&reader->next);
	uint64_t count;

	(void)!read(reader->wake_fd, &count, sizeof(count));
	for (size_t i = 0; next && i < reader->nr_streams; i++) {
		reader->err = stream_settle(reader->streams[i]);
		if (reader->err) {
			reader->failed = reader->streams[i];
			return false;
		}
	}
	if (next) {
		tell_stored(reader);
		reader->at_switch = work_so_far(reader);
		exchange_writers(reader, next);
	}
	return true;
}

void reader_control_switch(struct reader_control *control, size_t nr_readers)
{
	atomic_store(&control->nr_switching, nr_readers);
}

void reader_switch(struct reader *reader, struct writer **next)
{
	atomic_store(&reader->next, next);
	reader_wake(reader);
}

void reader_switch_late(struct reader *reader)
{
	struct writer **next = atomic_load(&reader->next);

	if (next)
		exchange_writers(reader, next);
}

/* A round of an output that others have, too, is due: those who have little to do make their pass now. */
static void wake_others(const struct reader *reader)
{
	const struct reader_control *control = reader->control;
	struct lanes *lanes = reader->nr_streams ? reader->streams[0]->writer->lanes : NULL;

	if (!lanes || !lanes_hurry(lanes))
		return;
	for (size_t i = 0; i < control->nr_readers; i++)
		if (&control->readers[i] != reader)
			reader_wake(&control->readers[i]);
}

static struct reader *reader_of(struct stream_gate *gate)
{
	return (struct reader *)((char *)gate - offsetof(struct reader, gate));
}

static bool is_turn_of(const struct reader *reader, enum ring_move_step step)
{
	return ring_move_is(reader->control->move, step, (size_t)(reader - reader->control->readers));
}

static void arrive(struct stream_gate *gate)
{
	struct reader *reader = reader_of(gate);

	if (is_turn_of(reader, RING_MOVE_POSTED))
		ring_move_take(reader->control->move, reader);
}

static void depart(struct stream_gate *gate)
{
	struct reader *reader = reader_of(gate);

	if (is_turn_of(reader, RING_MOVE_ORDERED))
		ring_move_let_go(reader->control->move, reader);
}

/* Before it runs. A stream that shares its output knows best when a ring may come or go. */
static void open_gate(struct reader *reader)
{
	reader->gate = (struct stream_gate){arrive, depart};
	reader->gated = reader->control->move && reader->nr_streams && reader->streams[0]->writer->lanes;
	if (reader->gated)
		reader->streams[0]->gate = &reader->gate;
}

/* One pass over all streams; false when a writer failed. */
static bool pump_all(struct reader *reader, enum stream_pass pass)
{
	for (size_t i = 0; i < reader->nr_streams; i++) {
		int64_t moved = stream_pump(reader->streams[i], pass);
		if (moved < 0) {
			reader->err = (int)moved;
			reader->failed = reader->streams[i];
			return false;
		}
	}
	tell_stored(reader);
	wake_others(reader);
	return true;
}

static bool pump(struct reader *reader, enum stream_pass pass)
{
	if (!reader->gated)
		arrive(&reader->gate);
	bool done = pump_all(reader, pass);
	if (done && !reader->gated && pass != STREAM_DRAIN)
		depart(&reader->gate);
	return done;
}

static void poll_larger(struct reader *reader, size_t ring, bool instead)
{
	const struct polled what = {POLLED_CARRIER, ring};
	int fd = reader->growth->rings[ring].larger_fd;

	if (instead)
		polls_change_carrier(&reader->polls, ring, fd);
	else
		polls_add(&reader->polls, fd, POLLIN, &what);
	polls_mute(&reader->polls, ring, false);
}

static void follow_growth_of(struct reader *reader, size_t ring)
{
	struct growing_ring *growing = &reader->growth->rings[ring];
	enum growth_step step = ring_growth_step(reader->growth, ring);

	switch (step) {
	case GROWTH_PREPARED:
		ring_follow(growing->current, growing->larger);
		polls_mute(&reader->polls, ring, true);
		reader->nr_moving++;
		ring_growth_turn(reader->growth, ring, GROWTH_MUTED);
		break;
	case GROWTH_MOVED:
	case GROWTH_SPLIT:
		poll_larger(reader, ring, step == GROWTH_MOVED);
		reader->nr_moving--;
		reader->nr_leaving += step == GROWTH_MOVED;
		ring_growth_turn(reader->growth, ring, step == GROWTH_MOVED ? GROWTH_LEAVING : GROWTH_FIXED);
		break;
	default: /* it is not our turn, or nothing to do here */
		break;
	}
}

static void follow_growth(struct reader *reader)
{
	for (size_t i = 0; reader->growth && i < reader->nr_rings; i++)
		if (is_carried(reader->set, reader->rings[i]))
			follow_growth_of(reader, reader->rings[i]);
}

/* After a pass that read them to the end: who writes has been elsewhere since before it. */
static void leave_drained(struct reader *reader)
{
	for (size_t i = 0; i < reader->nr_rings; i++) {
		size_t ring = reader->rings[i];
		if (!is_carried(reader->set, ring) || ring_growth_step(reader->growth, ring) != GROWTH_LEAVING)
			continue;
		struct ring *old = reader->growth->rings[ring].current;
		if (!ring_is_drained(old))
			continue;
		old->ended = true;
		reader->nr_leaving--;
		ring_growth_turn(reader->growth, ring, GROWTH_DRAINED);
	}
}

/* Asks for larger rings where some were found nearly full again. */
static void ask_for_larger(struct reader *reader)
{
	for (size_t i = 0; i < reader->nr_rings; i++) {
		size_t ring = reader->rings[i];
		if (is_carried(reader->set, ring) && ring_growth_step(reader->growth, ring) == GROWTH_STEADY &&
		    ring_oldest(&reader->set->rings[ring])->tight >= GROWTH_TIGHT_VISITS)
			ring_growth_turn(reader->growth, ring, GROWTH_WANTED);
	}
}

/* Rings wake nobody who does not poll them: that is for what else has come. */
static int wait_for_pace(struct reader *reader, int pace_ms)
{
	int ready = poll(reader->polls.fds, POLLS_FIRST, pace_ms);

	return ready < 0 ? ready : poll(reader->polls.fds, reader->polls.nr, 0);
}

/* As poll(2); 0: nothing has come for so long that it is time to look at what came without a wake-up. */
static int wait_for_rings(struct reader *reader)
{
	struct reader_control *control = reader->control;
	int pace_ms = (int)atomic_load_explicit(&control->pace_ms, memory_order_relaxed);
	int hurry_ms = reader->nr_hurries ? (int)atomic_load_explicit(&control->hurry_ms, memory_order_relaxed) : 0;

	if (pace_ms)
		return wait_for_pace(reader, pace_ms) < 0 ? -1 : 1;
	int ready = poll(reader->polls.fds, reader->polls.nr, hurry_ms ? hurry_ms : reader->nr_moving ? MOVING_MS : IDLE_MS);
	if (ready > 0 && control->tells_wakeups)
		bell_ring(control->bell);
	reader->nr_hurries -= hurry_ms > 0;
	return !ready && hurry_ms ? 1 : ready;
}

uint64_t reader_count_stuck(const struct reader *reader)
{
	uint64_t nr = 0;

	for (size_t i = 0; i < reader->nr_rings; i++) {
		size_t ring = reader->rings[i];
		if (ring < reader->set->plan->nr_drained &&
		    (!reader->growth || ring_growth_step(reader->growth, ring) == GROWTH_FIXED))
			nr += ring_oldest(&reader->set->rings[ring])->tight;
	}
	return nr;
}

/* Who is real-time got its CPU at once: sooner is no help. */
static void tell_stuck(struct reader *reader)
{
	struct reader_control *control = reader->control;
	uint64_t stuck = reader->realtime_now ? 0 : reader_count_stuck(reader);

	if (stuck <= reader->told_stuck)
		return;
	atomic_fetch_add_explicit(&control->nr_tight, stuck - reader->told_stuck, memory_order_relaxed);
	reader->told_stuck = stuck;
	reader->nr_hurries = MOST_HURRIES;
	if (!atomic_load_explicit(&control->hurry_ms, memory_order_relaxed))
		bell_ring(control->bell);
}

static uint64_t bytes_of_ring(const struct ring *ring)
{
	uint64_t bytes = 0;

	for (; ring; ring = ring_next(ring))
		bytes += ring->taken;
	return bytes;
}

/* That there is too much to do, and which ring makes how much of it. */
static void tell_load(struct reader *reader, uint64_t nr_tight)
{
	struct reader_control *control = reader->control;

	for (size_t i = 0; i < reader->nr_rings; i++) {
		size_t ring = reader->rings[i];
		if (ring < reader->set->plan->nr_drained)
			atomic_store_explicit(&control->ring_bytes[ring], bytes_of_ring(&reader->set->rings[ring]), memory_order_relaxed);
	}
	atomic_fetch_add_explicit(&reader->nr_tight, nr_tight, memory_order_relaxed);
	if (!atomic_load_explicit(&control->watched, memory_order_relaxed))
		bell_ring(control->bell);
}

/* Some were found nearly full: whoever can do something about it is told. */
static void tell_tight(struct reader *reader)
{
	uint64_t tight = 0;

	for (size_t i = 0; i < reader->nr_streams; i++)
		tight += reader->streams[i]->counters.tight;
	if (tight == reader->told_tight)
		return;
	if (reader->control->move)
		tell_load(reader, tight - reader->told_tight);
	reader->told_tight = tight;
	if (reader->growth)
		ask_for_larger(reader);
	tell_stuck(reader);
}

static void drain_until_stopped(struct reader *reader)
{
	for (;;) {
		int ready = wait_for_rings(reader);
		if (ready < 0 && errno != EINTR) {
			int err = -errno;
			if (pump(reader, STREAM_DRAIN))
				reader->err = err;
			return;
		}
		reader->wakeups++;
		bool stop = ready > 0 && reader->polls.fds[POLLS_STOP].revents;
		if (ready > 0 && reader->polls.fds[POLLS_WAKE].revents) {
			if (!switch_writers(reader))
				return;
			follow_growth(reader);
		}
		if (!pump(reader, stop ? STREAM_DRAIN : ready > 0 ? STREAM_FLOW : STREAM_ALL))
			return;
		if (stop)
			return;
		if (reader->nr_leaving)
			leave_drained(reader);
		tell_tight(reader);
		if (ready > 0)
			note_hang_ups(reader);
	}
}

static void *run(void *arg)
{
	struct reader *reader = arg;
	struct priority before; /* not restored: the thread ends with its work */
	const char *how;

	if (reader->affinity) /* elsewhere it is slower, not wrong */
		cpuset_run_on(reader->affinity);
	reader->tid = gettid();
	(void)!cpuset_allowed(&reader->runs_on); /* for those who ask where it went */
	reader->err = priority_raise(reader->realtime, &before, &how);
	reader->scheduling = reader->err ? NULL : how;
	reader->realtime_now = !reader->err && (!strcmp(how, "fifo") || !strcmp(how, "kept"));
	sem_post(&reader->control->ready);
	if (!reader->err)
		drain_until_stopped(reader);
	if (reader->err)
		signal_eventfd(reader->control->news_fd);
	reader->at_end = work_so_far(reader);
	return NULL;
}

/* Waits until the first `nr` are going. Did one of them fail on the way? */
static int wait_ready(struct reader readers[], size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		while (sem_wait(&readers[0].control->ready) && errno == EINTR)
			;
	/* What they wrote before they posted is seen here: sem_wait() pairs with sem_post(). */
	for (size_t i = 0; i < nr; i++)
		if (!readers[i].scheduling)
			return -EPERM;
	return 0;
}

int reader_start(struct reader readers[], size_t nr)
{
	size_t started = 0;
	int err = 0;

	for (; started < nr && !err; started += readers[started].started) {
		open_gate(&readers[started]);
		err = -pthread_create(&readers[started].thread, NULL, run, &readers[started]);
		readers[started].started = !err;
	}
	int ready_err = wait_ready(readers, started);
	err = err ? err : ready_err;
	if (err) {
		reader_control_stop(readers[0].control);
		reader_join(readers, nr);
	}
	return err;
}

void reader_join(struct reader readers[], size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		if (readers[i].started)
			pthread_join(readers[i].thread, NULL);
		readers[i].started = false;
	}
}

void reader_drain_late(struct reader *reader)
{
	ring_move_take(reader->control->move, reader);
	if (reader->err)
		return;
	pump(reader, STREAM_DRAIN);
	count_visits(reader, &reader->at_end);
}
