/* SPDX-License-Identifier: MIT */
#include "record/keeper.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "record/commit.h"
#include "record/freezer.h"
#include "record/ledger.h"
#include "record/sideline.h"
#include "stream/pack_stage.h"

enum {
	READ_MS = 200,
	READ_PART = 50, /* of the time at most goes into readings: each is an interrupt for the CPU that counts */
	COMMIT_MS = 500,
};

/* One thing that is to be done again and again. */
struct chore {
	uint64_t next_ms;
	void (*run)(struct keeper *keeper);
};

static uint64_t now_ms(void)
{
	return clock_ns(CLOCK_MONOTONIC) / 1000000;
}

/* As long as nothing is held all may be: what is on its way has no times yet. */
static uint64_t oldest_wanted(const struct keeper *keeper)
{
	uint64_t first_ns = pack_stage_held(keeper->held).first_ns;

	return first_ns == UINT64_MAX ? 0 : first_ns;
}

static void read_counters(struct keeper *keeper)
{
	/* Out of memory: the counters are read again at the end, for the sums. */
	(void)!ledger_book_read(keeper->book);
	(void)!freezer_note(keeper->freezer, &keeper->book->ledger);
	if (keeper->held)
		sideline_keep_from(keeper->sideline, oldest_wanted(keeper));
	(void)!sideline_absorb(keeper->sideline); /* and then /proc is asked */
}

static void commit(struct keeper *keeper)
{
	uint64_t bytes = commit_due(keeper->commit);

	if (bytes)
		commit_tell(keeper->commit, bytes);
}

/* First the records, then that they are there. An error is one of the output, which the writer will meet. */
static void sync_out(struct keeper *keeper)
{
	uint64_t bytes = commit_due(keeper->commit);

	for (size_t i = 0; i < keeper->nr_sync_fds; i++)
		fdatasync(keeper->sync_fds[i]);
	if (bytes)
		commit_tell(keeper->commit, bytes);
}

static uint64_t read_period(const struct keeper *keeper)
{
	uint64_t rest_ms = keeper->book->reading_ns * READ_PART / 1000000;

	return rest_ms > READ_MS ? rest_ms : READ_MS;
}

/* Does what is due; milliseconds until something is due again. */
static int do_chores(struct keeper *keeper, struct chore *reading, struct chore *storing)
{
	enum { AT_MOST = 60000 };
	uint64_t now = now_ms();

	if (now >= reading->next_ms) {
		reading->run(keeper);
		reading->next_ms = now + read_period(keeper);
	}
	if (now >= storing->next_ms) {
		storing->run(keeper);
		storing->next_ms = now + (keeper->sync_ms ? keeper->sync_ms : COMMIT_MS);
	}
	uint64_t next = reading->next_ms < storing->next_ms ? reading->next_ms : storing->next_ms;
	now = now_ms();
	uint64_t left = next > now ? next - now : 0;
	return left < AT_MOST ? (int)left : AT_MOST;
}

static void *run(void *arg)
{
	struct keeper *keeper = arg;
	struct pollfd stop = {.fd = keeper->stop_fd, .events = POLLIN};
	uint64_t now = now_ms();
	struct chore reading = {.next_ms = now + READ_MS, .run = read_counters};
	struct chore storing = {.next_ms = now, .run = keeper->sync_ms ? sync_out : commit};

	for (;;) {
		int ready = poll(&stop, 1, do_chores(keeper, &reading, &storing));
		if (ready > 0 || (ready < 0 && errno != EINTR))
			break;
	}
	keeper->cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

int keeper_start(struct keeper *keeper)
{
	keeper->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (keeper->stop_fd < 0)
		return -errno;
	int err = -pthread_create(&keeper->thread, NULL, run, keeper);
	keeper->started = !err;
	if (err)
		close(keeper->stop_fd);
	return err;
}

void keeper_stop(struct keeper *keeper)
{
	const uint64_t one = 1;

	if (!keeper->started)
		return;
	(void)!fd_write(keeper->stop_fd, &one, sizeof(one));
	pthread_join(keeper->thread, NULL);
	close(keeper->stop_fd);
	keeper->started = false;
}
