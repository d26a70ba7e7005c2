/* SPDX-License-Identifier: MIT */
/* report_read: reads a recording or a store, and counts its samples. One owner, one thread. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/input/input.h"
#include "cmd/report/report_samples.h"

struct diag;
struct machine;
struct session;
struct session_record;
struct store_input;
struct store_rows;

/* A recording that is being read. Zeroed, except for the fields that the caller sets. */
struct reading {
	struct session *session; /* owned, like all that follow but for the next group */
	/* Set by the caller: */
	bool tasks_only; /* samples are not counted */
	/*
	 * Called before the first record that does not belong to the header of a pipe; false: reading ends. NULL: not
	 * wanted.
	 */
	bool (*begin)(void *ctx);
	/*
	 * Called for each sample after it was counted, at samples.last; then samples are counted by one thread only. 0
	 * or -ENOMEM. NULL: not wanted.
	 */
	int (*counted)(void *ctx, const struct session_record *record);
	/* Called for each record that is not a sample. 0 or -ENOMEM. NULL: not wanted. */
	int (*observe)(void *ctx, const struct session_record *record);
	void *ctx;
	const volatile sig_atomic_t *stop; /* reading ends when it is not 0, without an error. NULL: never */
	/* Results: */
	struct machine *machine;
	struct samples samples;
	struct report_workers *workers; /* NULL: one thread takes all samples */
	struct store_rows *rows;        /* NULL: of a session */
	uint32_t nr_hosts;              /* of a store */
	struct input_losses losses;
	uint64_t nr_records; /* that were read */
	bool begun;
};

/* Reads up to the end, an error, or `stop`. What was read before an error can be used. 0 or -errno. */
int reading_run(struct reading *reading, const struct samples_options *samples, const struct symbol_options *symbols,
		struct diag *reterr);

/*
 * Reads a store instead of a session, and makes a session that has the events of the store. The options ask for no more
 * than the keys comm, dso, symbol and host. `reading` is zeroed. 0 or -errno.
 */
int reading_run_store(struct reading *reading, const struct samples_options *samples, const struct store_input *from,
		      struct diag *reterr);

void reading_fini(struct reading *reading); /* zeroed is fine */

/* Do events with samples of both recordings make a pair? */
bool reading_any_pair(const struct samples *baseline, const struct samples *other);

/* Logs that nothing is compared: what events recordings have, the baseline first. */
void reading_report_no_pair(const char *const paths[], const struct samples *const samples[], unsigned nr);
