/* SPDX-License-Identifier: MIT */
#include "record/drain/reader.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpuset.h"
#include "base/fd.h"
#include "base/log.h"
#include "record/drain/relief.h"
#include "record/setup/eventset.h"
#include "stream/producers.h"
#include "stream/ring.h"
#include "stream/stream.h"
#include "stream/writer.h"
#include "sysinfo/thread.h"

enum {
	/*
	 * The kernel wakes a reader at half a ring and then stays silent until half a ring more has come: what lies
	 * below the mark is collected so often, and leaves the writer's blocks and extents at the next such pass. So a
	 * kill takes along what is younger than twice this, and what was just being compressed and written: the manual
	 * promises a second.
	 */
	COMMIT_MS = 400,
	/*
	 * How long rings may go without a visit where samples are converted, in the beginning, and later: until then it
	 * is not known what a program has mapped that has just been started, and its samples are copied as they are.
	 */
	FIRST_LOOK_MS = 5,
	LOOK_MS = 80,
	/* After one that found a ring nearly full: longer than any reader waits for the next. */
	MOST_FAST_POLLS = 20000,
};

int reader_control_init(struct reader_control *control)
{
	*control = (struct reader_control){.stop_fd = -1, .notify_fd = -1, .switch_fd = -1, .mark = UINT64_MAX};
	sem_init(&control->ready, 0, 0);
	sem_init(&control->go, 0, 0);
	control->stop_fd = eventfd(0, EFD_CLOEXEC);
	control->notify_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	control->switch_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return control->stop_fd < 0 || control->notify_fd < 0 || control->switch_fd < 0 ? -errno : 0;
}

void reader_control_fini(struct reader_control *control)
{
	if (control->stop_fd >= 0)
		close(control->stop_fd);
	if (control->notify_fd >= 0)
		close(control->notify_fd);
	if (control->switch_fd >= 0)
		close(control->switch_fd);
	control->stop_fd = control->notify_fd = control->switch_fd = -1;
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

/* A reader that sleeps until a ring wakes it sees the interval when one has. */
void reader_control_set_interval(struct reader_control *control, unsigned interval_ms)
{
	atomic_store_explicit(&control->interval_until_ns, interval_ms ? UINT64_MAX : clock_ns(CLOCK_MONOTONIC),
			      memory_order_relaxed);
	atomic_store_explicit(&control->interval_ms, interval_ms, memory_order_relaxed);
}

static bool drains(const struct reader *reader, size_t ring)
{
	for (size_t i = 0; i < reader->nr_rings; i++)
		if (reader->rings[i] == ring)
			return true;
	return false;
}

/* Is its end a sign that the targets end? That of the workload is reported by SIGCHLD: its first thread may end before.
 */
static bool is_target(const struct reader *reader, const struct plan_slot *slot)
{
	return slot->pid > 0 && slot->pid != reader->workload;
}

/*
 * A ring is watched through the fd that carries it. The fd of a task hangs up when the task ends, though others may
 * still fill the ring: of those every one is watched. No other thread polls them: poll(2) takes the wake-up away.
 */
static void watch_slots(struct reader *reader)
{
	const struct eventset *set = reader->set;

	for (size_t i = 0; i < set->plan->nr_slots; i++) {
		const struct plan_slot *slot = &set->plan->slots[i];
		bool carries = set->fds[i] == set->ring_fds[slot->ring];
		if (set->fds[i] < 0 || !drains(reader, slot->ring))
			continue;
		if (slot->pid > 0 || carries) /* a hang-up is reported all the same */
			polls_add(&reader->polls, set->fds[i], slot->ring < set->plan->nr_drained ? POLLIN : 0,
				  is_target(reader, slot));
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
		size_t ring = reader->rings[i];
		if (is_carried(set, ring) && set->ring_fds[ring] >= 0)
			polls_add(&reader->polls, set->ring_fds[ring], POLLIN, false);
	}
}

int reader_init(struct reader *reader)
{
	reader->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (reader->wake_fd < 0)
		return -errno;
	int err = polls_init(&reader->polls, reader->set->plan->nr_slots + reader->nr_rings);
	if (err) {
		close(reader->wake_fd);
		reader->wake_fd = -1;
		return err;
	}
	polls_set_own(&reader->polls, reader->control->stop_fd, reader->wake_fd);
	watch_slots(reader);
	watch_carriers(reader);
	atomic_fetch_add(&reader->control->nr_tasks, polls_count_tasks(&reader->polls));
	return 0;
}

void reader_fini(struct reader *reader)
{
	if (reader->polls.fds && reader->wake_fd >= 0)
		close(reader->wake_fd);
	relief_free(reader->relief);
	polls_fini(&reader->polls);
	cpuset_fini(&reader->runs_on);
	cpuset_fini(&reader->anywhere);
}

/* The reader that sees the last of all tasks end reports it. */
static void note_hang_ups(struct reader *reader)
{
	size_t nr = polls_drop_hung_up(&reader->polls);

	if (nr && atomic_fetch_sub(&reader->control->nr_tasks, nr) == nr)
		signal_eventfd(reader->control->notify_fd);
}

/* What is stored beyond what was reported: of an output that several readers have, whichever of them sees it first. */
static uint64_t untold(struct reader *reader, uint64_t bytes)
{
	struct producers *producers = reader->nr_streams ? reader->streams[0]->writer->producers : NULL;
	uint64_t reported = reader->reported_bytes;

	if (producers)
		return producers_report_stored(producers, bytes);
	reader->reported_bytes = bytes;
	return bytes - reported;
}

/* How much is in the outputs; a thread that waits for a mark is notified once. */
static void report_stored(struct reader *reader)
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

static struct reader_work work_so_far(const struct reader *reader)
{
	struct reader_work work = {.use = thread_use_now(), .wakeups = reader->wakeups};
	const uint64_t stored_ns = relief_store_ns(reader->relief); /* the pool counts that */

	for (size_t i = 0; i < reader->nr_streams; i++) {
		work.visits += reader->streams[i]->counters.chunks;
		work.bytes += reader->streams[i]->counters.bytes;
	}
	work.use.cpu_ns -= stored_ns < work.use.cpu_ns ? stored_ns : work.use.cpu_ns; /* a part is estimated */
	return work;
}

/* The writers trade places with those in `next`; the last reader of all tells it. */
static void exchange_writers(struct reader *reader, struct writer **next)
{
	struct reader_control *control = reader->control;

	reader->reported_bytes = 0;
	for (size_t i = 0; i < reader->nr_streams; i++) {
		next[i] = stream_exchange(reader->streams[i], next[i]);
		reader->reported_bytes += reader->streams[i]->writer->stored;
	}
	reader->passed = false;
	atomic_store(&reader->next, NULL);
	/* Pairs with the load of the thread that takes the former writers. */
	if (atomic_fetch_sub(&control->nr_switching, 1) == 1)
		signal_eventfd(control->switch_fd);
}

static void wake_others(const struct reader *reader)
{
	const struct reader_control *control = reader->control;

	for (size_t i = 0; i < control->nr_readers; i++)
		if (&control->readers[i] != reader)
			reader_wake(&control->readers[i]);
}

/* True: no stream has failed. */
static bool note_failure(struct reader *reader, struct stream *stream, int err)
{
	if (err)
		reader->failed = stream;
	reader->err = err;
	return !err;
}

/* False when a stream failed. */
static bool pass_before_switch(struct reader *reader)
{
	reader->err = streams_pump(reader->streams, reader->nr_streams, STREAM_COMMIT, &reader->failed);
	if (reader->err)
		return false;
	reader->passed = true;
	if (atomic_fetch_sub(&reader->control->nr_to_pass, 1) == 1)
		wake_others(reader);
	return true;
}

static bool drain_for_switch(struct reader *reader)
{
	for (size_t i = 0; i < reader->nr_streams; i++)
		if (!note_failure(reader, reader->streams[i], stream_drain(reader->streams[i])))
			return false;
	return true;
}

/* Step by step, when it is requested. All streams or none: false when one failed. */
static bool switch_writers(struct reader *reader)
{
	struct writer **next = atomic_load(&reader->next);
	uint64_t count;

	(void)!read(reader->wake_fd, &count, sizeof(count));
	if (next && !reader->passed && !pass_before_switch(reader))
		return false;
	if (atomic_load(&reader->control->nr_to_pass)) /* the last of the others wakes this one */
		return true;
	if (next && !drain_for_switch(reader))
		return false;
	if (next) {
		report_stored(reader);
		reader->at_switch = work_so_far(reader);
		exchange_writers(reader, next);
	}
	return true;
}

void reader_control_switch(struct reader_control *control, size_t nr_readers)
{
	atomic_store(&control->nr_to_pass, nr_readers);
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
static void wake_for_round(const struct reader *reader)
{
	struct producers *producers = reader->nr_streams ? reader->streams[0]->writer->producers : NULL;

	if (producers && producers_wake_due(producers))
		wake_others(reader);
}

/* Rings do not wake a thread that does not poll them: this poll is for stop, wake-ups and hang-ups. */
static int wait_for_interval(struct reader *reader, int interval_ms)
{
	int ready = poll(reader->polls.fds, POLLS_FIRST, interval_ms);

	return ready < 0 ? ready : poll(reader->polls.fds, reader->polls.nr, 0);
}

static uint64_t now_ms(void)
{
	return clock_ns(CLOCK_MONOTONIC) / 1000000;
}

/* 0: it is time to look at what came without a wake-up. */
static int ms_to_commit(const struct reader *reader)
{
	uint64_t passed_ms = now_ms() - reader->committed_ms;

	return passed_ms < COMMIT_MS ? (int)(COMMIT_MS - passed_ms) : 0;
}

/* As poll(2). */
static int wait_for_rings(struct reader *reader)
{
	struct reader_control *control = reader->control;
	int interval_ms = (int)atomic_load_explicit(&control->interval_ms, memory_order_relaxed);
	int fast_poll_ms =
		reader->nr_fast_polls ? (int)atomic_load_explicit(&control->fast_poll_ms, memory_order_relaxed) : 0;

	if (interval_ms)
		return wait_for_interval(reader, interval_ms) < 0 ? -1 : 1;
	int ms = fast_poll_ms ? fast_poll_ms : ms_to_commit(reader);
	if (reader->look_ms && (unsigned)ms > reader->look_ms)
		ms = (int)reader->look_ms;
	int ready = poll(reader->polls.fds, reader->polls.nr, ms);
	if (ready > 0 && control->notifies_wakeups)
		notifier_notify(control->notifier);
	reader->nr_fast_polls -= fast_poll_ms > 0;
	return !ready && fast_poll_ms ? 1 : ready;
}

static uint64_t count_late(const struct reader *reader)
{
	uint64_t nr = 0;

	for (size_t i = 0; i < reader->nr_streams; i++)
		nr += reader->streams[i]->counters.late;
	return nr;
}

static uint64_t count_near_full(const struct reader *reader)
{
	uint64_t nr = 0;

	for (size_t i = 0; i < reader->nr_streams; i++)
		nr += reader->streams[i]->counters.near_full;
	return nr;
}

/* Some were found nearly full. Who is real-time got its CPU at once: sooner is no help. */
static void report_near_full(struct reader *reader)
{
	struct reader_control *control = reader->control;
	uint64_t near_full = count_near_full(reader);

	if (near_full == reader->reported_near_full || reader->realtime_now)
		return;
	atomic_fetch_add_explicit(&control->nr_near_full, near_full - reader->reported_near_full, memory_order_relaxed);
	reader->reported_near_full = near_full;
	reader->nr_fast_polls = MOST_FAST_POLLS;
	if (!atomic_load_explicit(&control->fast_poll_ms, memory_order_relaxed))
		notifier_notify(control->notifier);
}

/*
 * One that the recorder may use, of any node: those beside it may be slow for the same reason. But where a user has
 * named CPUs, before or since (taskset), one of those. It allocates, seldom.
 */
static void go_to_another_cpu(struct reader *reader)
{
	struct cpuset now = {0};
	int err = cpuset_allowed(&now);

	if (!err) {
		bool chosen_here = cpuset_equal(&now, &reader->runs_on) || cpuset_equal(&now, &reader->anywhere);
		err = chosen_here ? cpuset_leave_cpu(&reader->anywhere) : -ENOENT;
		if (err == -ENOENT) /* or it is on none of them */
			err = cpuset_leave_cpu(&now);
		reader->nr_cpus_left += !err;
	}
	cpuset_fini(&now);
}

/* Where it needs all of its CPU. */
static void leave_slow_cpu(struct reader *reader)
{
	const uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);

	if (slow_cpu_is_due(&reader->slow_cpu, now_ns) &&
	    slow_cpu_look(&reader->slow_cpu, now_ns, clock_ns(CLOCK_THREAD_CPUTIME_ID), count_late(reader)))
		go_to_another_cpu(reader);
}

static enum stream_pass next_pass(struct reader *reader, bool stop, bool woken)
{
	if (stop)
		return STREAM_DRAIN;
	if (ms_to_commit(reader)) {
		if (!woken)
			reader->look_ms = 2 * reader->look_ms < LOOK_MS ? 2 * reader->look_ms : LOOK_MS;
		return woken ? STREAM_FLOW : STREAM_ALL;
	}
	reader->committed_ms = now_ms();
	return STREAM_COMMIT;
}

static void drain_until_stopped(struct reader *reader)
{
	bool stop = false;

	reader->committed_ms = now_ms();
	reader->look_ms = reader->nr_streams && reader->streams[0]->converter ? FIRST_LOOK_MS : 0;
	while (!stop && !reader->err) {
		int ready = wait_for_rings(reader);
		int poll_err = ready < 0 && errno != EINTR ? -errno : 0;
		bool switches = ready > 0 && reader->polls.fds[POLLS_WAKE].revents;
		stop = poll_err || (ready > 0 && reader->polls.fds[POLLS_STOP].revents);
		reader->wakeups++;
		relief_lock(reader->relief);
		if (!switches || switch_writers(reader)) {
			enum stream_pass pass = next_pass(reader, stop, ready > 0);
			reader->err = streams_pump(reader->streams, reader->nr_streams, pass, &reader->failed);
		}
		if (!reader->err) {
			report_stored(reader);
			wake_for_round(reader);
		}
		if (!reader->err && !stop) {
			report_near_full(reader);
			leave_slow_cpu(reader);
			if (ready > 0)
				note_hang_ups(reader);
		}
		relief_unlock(reader->relief);
		reader->err = reader->err ? reader->err : poll_err;
	}
}

static void *run(void *arg)
{
	struct reader *reader = arg;
	struct priority before; /* not restored: the thread ends with its work */
	const char *how;

	if (reader->stores && relief_start(reader->streams, reader->nr_streams, reader->realtime, &reader->relief))
		log_verbose("no thread to drain while this one stores: workers store");
	if (reader->may_leave_affinity)
		(void)!cpuset_allowed(&reader->anywhere);
	if (reader->affinity) /* elsewhere it is slower, not wrong */
		cpuset_run_on(reader->affinity);
	(void)!cpuset_allowed(&reader->runs_on); /* for those who ask where it went */
	reader->err = priority_raise(reader->realtime, &before, &how);
	reader->scheduling = reader->err ? NULL : how;
	reader->realtime_now = !reader->err && (!strcmp(how, "fifo") || !strcmp(how, "kept"));
	sem_post(&reader->control->ready);
	while (sem_wait(&reader->control->go) && errno == EINTR)
		;
	if (!reader->err)
		drain_until_stopped(reader);
	relief_stop(reader->relief);
	if (reader->err)
		signal_eventfd(reader->control->notify_fd);
	reader->at_end = work_so_far(reader);
	if (reader->relief)
		thread_use_add(&reader->at_end.use, relief_use(reader->relief));
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
		err = -pthread_create(&readers[started].thread, NULL, run, &readers[started]);
		readers[started].started = !err;
	}
	int ready_err = wait_ready(readers, started);
	err = err ? err : ready_err;
	if (err) {
		reader_control_stop(readers[0].control);
		reader_go(readers, started);
		reader_join(readers, nr);
	}
	return err;
}

void reader_go(struct reader readers[], size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		sem_post(&readers[0].control->go);
}

void reader_join(struct reader readers[], size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		if (readers[i].started)
			pthread_join(readers[i].thread, NULL);
		readers[i].started = false;
	}
}
