/* SPDX-License-Identifier: MIT */
/* readers: the threads of a recording: who drains which ring into which stream. Owned by the recording. */
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
	struct stream *const *streams;      /* borrowed for the call: by drained ring, the one that drains it */
	const struct thread_layout *layout; /* borrowed while they run; NULL: one reader, where the recorder runs */
	struct early_drain *early;          /* stopped, and what it read is written first; NULL: there is none */
	struct notifier *notifier;          /* as in struct reader_control, as the next */
	bool notifies_wakeups;
	int realtime;   /* as in priority_raise() */
	bool stores;    /* as in struct reader */
	pid_t workload; /* as in struct reader */
};

/* All of them run when it returns. Nothing is left behind on failure. */
int readers_start(struct readers *readers, const struct readers_params *params, struct diag *reterr);

/* After the events were disabled: each drains its rings to the end; then they are joined. Idempotent. */
void readers_stop(struct readers *readers);

/*
 * All readers go on with other writers: next_of() says which for each stream. `room` is for one for each of them, and
 * is lent to the readers until readers_switched(), or, when they have ended, readers_switch_late(). control.switch_fd
 * becomes readable then.
 */
void readers_switch(struct readers *readers, struct writer *(*next_of)(const struct stream *stream, void *ctx),
		    void *ctx, struct writer **room);
bool readers_switched(const struct readers *readers);
void readers_switch_late(struct readers *readers);

/*
 * The first error of any reader, and of which stream it was (NULL: of none, but of draining); 0: none. After
 * readers_stop().
 */
int readers_error(const struct readers *readers, const struct stream **ret_failed);

void readers_fini(struct readers *readers); /* zeroed is fine */
