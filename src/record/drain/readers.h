/* SPDX-License-Identifier: MIT */
/*
 * readers: the reader threads of a recording, and which of them drains which ring into which stream. Owned by the
 * recording; used by the main thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "record/drain/reader.h"

struct diag;
struct eventset;
struct stream;
struct thread_layout;
struct writer;

struct readers {
	struct reader *readers; /* heap */
	size_t nr;
	struct reader_control control;
	struct stream **streams; /* heap; of all readers, reader after reader */
	size_t *rings;           /* heap; the same */
};

struct readers_params {
	const struct eventset *set;
	struct stream *const *streams; /* borrowed for the call: the stream of each drained ring, by ring */
	/* borrowed while they run; NULL: one reader, with the affinity of the recorder */
	const struct thread_layout *layout;
	/* is stopped, and the records that it read are written first; NULL: there is none */
	struct early_drain *early;
	struct notifier *notifier; /* this and the next: as in struct reader_control */
	bool notifies_wakeups;
	int realtime;   /* as in priority_raise() */
	bool stores;    /* as in struct reader */
	pid_t workload; /* as in struct reader */
};

/* Starts the readers; all of them run when this returns. 0, or -errno: then none runs, and there is nothing to free. */
int readers_start(struct readers *readers, const struct readers_params *params, struct diag *reterr);

/*
 * To be called after the events were disabled: each reader drains its rings completely; then they are joined.
 * Idempotent.
 */
void readers_stop(struct readers *readers);

/*
 * Requests that all readers continue with other writers. next_of() returns the next writer of a stream. `room` has an
 * element for each stream, and is lent to the readers until readers_switched() is true, or, when the readers have
 * ended, until readers_switch_late(). control.switch_fd becomes readable when all have switched.
 */
void readers_switch(struct readers *readers, struct writer *(*next_of)(const struct stream *stream, void *ctx),
		    void *ctx, struct writer **room);
bool readers_switched(const struct readers *readers);
void readers_switch_late(struct readers *readers);

/*
 * To be called after readers_stop(): the first error of any reader, as -errno; 0: none. *ret_failed: the stream whose
 * writer failed; NULL: the reader itself failed.
 */
int readers_error(const struct readers *readers, const struct stream **ret_failed);

void readers_fini(struct readers *readers); /* zeroed is fine */
