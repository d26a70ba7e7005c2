/* SPDX-License-Identifier: MIT */
#include "record/run/housekeeping.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "perfdata/layout.h"
#include "record/adapt/task_pauser.h"
#include "record/output/data_files.h"
#include "record/output/task_log.h"
#include "record/run/ledger.h"
#include "stream/batch_pool.h"
#include "stream/pipeline.h"

enum {
	READ_MS = 200,
	READ_SAMPLES = 16, /* or the time in which a CPU has so many samples: few fill no ring */
	MOST_READ_MS = 1000,
	READ_PART = 50, /* of the time at most goes into readings: each is an interrupt for the CPU that counts */
	COMMIT_MS = 500,
};

/* One thing that is to be done again and again. */
struct chore {
	uint64_t next_ms;
	void (*run)(struct housekeeping *housekeeping);
};

static uint64_t now_ms(void)
{
	return clock_ns(CLOCK_MONOTONIC) / 1000000;
}

/* As long as nothing is held all may be: what is on its way has no times yet. */
static uint64_t oldest_wanted(const struct housekeeping *housekeeping)
{
	uint64_t first_ns = pipeline_retained(housekeeping->retained).first_ns;

	return first_ns == UINT64_MAX ? 0 : first_ns;
}

static void read_counters(struct housekeeping *housekeeping)
{
	/* Out of memory: the counters are read again at the end, for the sums. */
	(void)!ledger_book_read(housekeeping->book);
	(void)!task_pauser_note(housekeeping->task_pauser, &housekeeping->book->ledger);
	if (housekeeping->retained)
		task_log_keep_from(housekeeping->task_log, oldest_wanted(housekeeping));
	(void)!task_log_absorb(housekeeping->task_log); /* and then /proc is asked */
	batch_pool_give_back(housekeeping->pool, clock_ns(CLOCK_MONOTONIC));
}

/* Bytes of records that are stored so far; 0: nothing new. */
static uint64_t stored_bytes(const struct commit *commit)
{
	uint64_t stored = 0;

	for (size_t i = 0; commit->fd >= 0 && i < commit->files->nr; i++) {
		/* Pairs with the release of stream_pump(): the bytes were written before. */
		uint64_t seen = atomic_load_explicit(&commit->files->files[i].stream.stored, memory_order_acquire);
		stored = seen > stored ? seen : stored;
	}
	stored += commit->start;
	uint64_t bytes = stored > commit->data_offset ? stored - commit->data_offset : 0;

	return bytes > commit->data_bytes ? bytes : 0;
}

/* What cannot be written is left: recovery finds the records without it. */
static void write_commit(struct commit *commit, uint64_t data_bytes)
{
	if (!fd_pwrite(commit->fd, &data_bytes, sizeof(data_bytes), offsetof(struct file_header, data.size)))
		commit->data_bytes = data_bytes;
}

static void commit(struct housekeeping *housekeeping)
{
	uint64_t bytes = stored_bytes(housekeeping->commit);

	if (bytes)
		write_commit(housekeeping->commit, bytes);
}

/* First the records, then that they are there. An error is one of the output, which the writer will meet. */
static void sync_out(struct housekeeping *housekeeping)
{
	uint64_t bytes = stored_bytes(housekeeping->commit);

	for (size_t i = 0; i < housekeeping->nr_sync_fds; i++)
		fdatasync(housekeeping->sync_fds[i]);
	if (bytes)
		write_commit(housekeeping->commit, bytes);
}

static uint64_t read_period(const struct housekeeping *housekeeping)
{
	uint64_t rest_ms = housekeeping->book->reading_ns * READ_PART / 1000000;
	uint64_t samples_ms = housekeeping->interval_ns / 1000000 * READ_SAMPLES;
	uint64_t least_ms = samples_ms < READ_MS ? READ_MS : samples_ms > MOST_READ_MS ? MOST_READ_MS : samples_ms;

	return rest_ms > least_ms ? rest_ms : least_ms;
}

/* Does what is due; milliseconds until something is due again. */
static int do_chores(struct housekeeping *housekeeping, struct chore *reading, struct chore *storing)
{
	enum { AT_MOST = 60000 };
	uint64_t now = now_ms();

	if (now >= reading->next_ms) {
		reading->run(housekeeping);
		reading->next_ms = now + read_period(housekeeping);
	}
	if (now >= storing->next_ms) {
		storing->run(housekeeping);
		storing->next_ms = now + (housekeeping->sync_ms ? housekeeping->sync_ms : COMMIT_MS);
	}
	uint64_t next = reading->next_ms < storing->next_ms ? reading->next_ms : storing->next_ms;
	now = now_ms();
	uint64_t left = next > now ? next - now : 0;
	return left < AT_MOST ? (int)left : AT_MOST;
}

static void begin(const struct housekeeping *housekeeping, struct chore *reading, struct chore *storing)
{
	uint64_t now = now_ms();

	*reading = (struct chore){.next_ms = now + READ_MS, .run = read_counters};
	*storing = (struct chore){.next_ms = now, .run = housekeeping->sync_ms ? sync_out : commit};
}

static void *run(void *arg)
{
	struct housekeeping *housekeeping = arg;
	struct pollfd wake = {.fd = housekeeping->wake_fd, .events = POLLIN};
	struct chore reading, storing;
	uint64_t count;

	begin(housekeeping, &reading, &storing);
	for (;;) {
		pthread_mutex_lock(&housekeeping->lock);
		bool stop = housekeeping->stop;
		if (housekeeping->resumed) {
			housekeeping->resumed = false;
			(void)!fd_read(wake.fd, &count, sizeof(count));
			begin(housekeeping, &reading, &storing);
		}
		int left_ms = stop ? 0 : do_chores(housekeeping, &reading, &storing);
		housekeeping->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		pthread_mutex_unlock(&housekeeping->lock);
		if (stop || (poll(&wake, 1, left_ms) < 0 && errno != EINTR))
			break;
	}
	return NULL;
}

int housekeeping_start(struct housekeeping *housekeeping)
{
	housekeeping->wake_fd = eventfd(0, EFD_CLOEXEC);
	if (housekeeping->wake_fd < 0)
		return -errno;
	pthread_mutex_init(&housekeeping->lock, NULL);
	int err = -pthread_create(&housekeeping->thread, NULL, run, housekeeping);
	housekeeping->started = !err;
	if (err)
		close(housekeeping->wake_fd);
	return err;
}

static void wake(struct housekeeping *housekeeping)
{
	const uint64_t one = 1;

	(void)!fd_write(housekeeping->wake_fd, &one, sizeof(one));
}

void housekeeping_pause(struct housekeeping *housekeeping)
{
	if (!housekeeping->started || housekeeping->paused)
		return;
	pthread_mutex_lock(&housekeeping->lock);
	housekeeping->paused = true;
}

void housekeeping_resume(struct housekeeping *housekeeping)
{
	if (!housekeeping->paused)
		return;
	housekeeping->paused = false;
	housekeeping->resumed = true;
	wake(housekeeping);
	pthread_mutex_unlock(&housekeeping->lock);
}

void housekeeping_stop(struct housekeeping *housekeeping)
{
	if (!housekeeping->started)
		return;
	housekeeping_pause(housekeeping);
	housekeeping->paused = false;
	housekeeping->stop = true;
	wake(housekeeping);
	pthread_mutex_unlock(&housekeeping->lock);
	pthread_join(housekeeping->thread, NULL);
	pthread_mutex_destroy(&housekeeping->lock);
	close(housekeeping->wake_fd);
	housekeeping->started = false;
}
