/* SPDX-License-Identifier: MIT */
#include "record/freezer.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "format/feature_ledger.h"

enum { TIMES_MAX = 16384 };

/* Who has ended meanwhile need not be stopped, nor whoever has that number now. */
static void send_all(const struct freezer *freezer, int signal_number)
{
	for (size_t i = 0; i < freezer->nr_pids; i++) {
		if (freezer->pidfds[i] >= 0)
			syscall(SYS_pidfd_send_signal, freezer->pidfds[i], signal_number, NULL, 0);
		else
			kill(freezer->pids[i], signal_number);
	}
}

static void stop(struct freezer *freezer, uint64_t now)
{
	if (!guardian_watches(&freezer->guardian)) {
		freezer->nr_unguarded++;
		return;
	}
	atomic_store(freezer->frozen, true); /* before it is so: the guardian may come in between */
	send_all(freezer, SIGSTOP);
	freezer->since_ns = now;
}

static void go_on(struct freezer *freezer, uint64_t now)
{
	send_all(freezer, SIGCONT);
	atomic_store(freezer->frozen, false);
	freezer->nr_stops++;
	freezer->total_ns += now - freezer->since_ns;
	size_t nr = atomic_load_explicit(&freezer->nr_times, memory_order_relaxed);
	if (nr < TIMES_MAX) {
		freezer->times[nr] = (struct frozen_time){freezer->since_ns, now};
		/* Pairs with the acquire of freezer_note(). */
		atomic_store_explicit(&freezer->nr_times, nr + 1, memory_order_release);
	}
}

/* With the lock of the pool held: two system calls, and only when the state changes. */
static void press(struct pack_pressure *pressure, bool high)
{
	struct freezer *freezer = (struct freezer *)pressure;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	if (high)
		stop(freezer, now);
	else if (atomic_load(freezer->frozen))
		go_on(freezer, now);
}

/* In the guardian, which has no descriptors. Who is stopped does not end, so that the numbers are still theirs. */
static void last_will(void *arg)
{
	const struct freezer *freezer = arg;

	for (size_t i = 0; i < freezer->nr_pids && atomic_load(freezer->frozen); i++)
		kill(freezer->pids[i], SIGCONT);
}

/* -1 where there is none: a process group, one thread of several, a kernel before 5.3, no descriptor left. */
static void open_pidfds(struct freezer *freezer)
{
	for (size_t i = 0; i < freezer->nr_pids; i++)
		freezer->pidfds[i] = freezer->pids[i] > 0 ? (int)syscall(SYS_pidfd_open, freezer->pids[i], 0) : -1;
}

int freezer_open(struct freezer *freezer, const pid_t pids[], size_t nr_pids)
{
	void *shared = mmap(NULL, sizeof(*freezer->frozen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	*freezer = (struct freezer){.pressure.set = press, .nr_pids = nr_pids};
	if (shared == MAP_FAILED)
		return -errno;
	freezer->frozen = shared;
	freezer->pids = calloc(nr_pids, sizeof(*pids));
	freezer->pidfds = calloc(nr_pids, sizeof(*freezer->pidfds));
	freezer->times = calloc(TIMES_MAX, sizeof(*freezer->times));
	if (!freezer->pids || !freezer->pidfds || !freezer->times) {
		freezer->nr_pids = 0;
		freezer_close(freezer);
		return -ENOMEM;
	}
	memcpy(freezer->pids, pids, nr_pids * sizeof(*pids));
	open_pidfds(freezer);
	int err = guardian_start(&freezer->guardian, last_will, freezer);
	if (err)
		freezer_close(freezer);
	return err;
}

int freezer_note(struct freezer *freezer, struct ledger *ledger)
{
	size_t nr = atomic_load_explicit(&freezer->nr_times, memory_order_acquire);
	int err = 0;

	for (size_t i = freezer->nr_noted; i < nr && !err; i++) {
		const struct ledger_entry entry = {
			.event = (uint32_t)LEDGER_NO_EVENT,
			.cause = LEDGER_FROZEN,
			.cpu = -1,
			.tid = -1,
			.from_ns = freezer->times[i].from_ns,
			.to_ns = freezer->times[i].to_ns,
		};
		err = ledger_add(ledger, &entry);
		freezer->nr_noted += !err;
	}
	return err;
}

void freezer_close(struct freezer *freezer)
{
	if (!freezer->frozen)
		return;
	guardian_stop(&freezer->guardian);
	munmap(freezer->frozen, sizeof(*freezer->frozen));
	for (size_t i = 0; i < freezer->nr_pids; i++)
		if (freezer->pidfds[i] >= 0)
			close(freezer->pidfds[i]);
	free(freezer->pidfds);
	free(freezer->pids);
	free(freezer->times);
	*freezer = (struct freezer){0};
}
