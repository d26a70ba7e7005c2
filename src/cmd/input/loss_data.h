/* SPDX-License-Identifier: MIT */
/* loss_data: all that a recording says about its losses, in one struct. One owner, one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perfdata/ledger.h"

struct diag;
struct ledger_cost;
struct session;

/* One event on one CPU (or of one task). */
struct loss_row {
	uint32_t event;
	int32_t cpu, tid;
	uint64_t captured, lost;
	uint64_t trimmed; /* of those captured: the stack was cut short */
};

/* One CPU, or one task that has a ring. */
struct loss_place {
	int32_t cpu, tid;
	uint64_t nr_gaps, gap_ns, throttled_ns, lost_records; /* lost_records: by LOST records */
	struct ledger_entry worst;
};

struct loss_data {
	struct loss_times times;
	struct ledger ledger;
	bool has_ledger; /* the file has one */
	bool counted;    /* per event: by the ledger, or by LOST_SAMPLES; else only LOST records count */
	uint64_t start_ns, end_ns;
	struct ledger_entry
		*gaps; /* heap; by place and time: of LOST and THROTTLE records, and of the ledger's other causes */
	size_t nr_gaps;
	struct ledger_sum sum;
	size_t nr_freezes; /* times that the targets were stopped, which are no gaps: nothing was lost */
	uint64_t frozen_ns;
	uint64_t unwritten_bytes;  /* of records at the end, which are not in the file: it could not be written */
	uint64_t nr_missing_files; /* of a data directory; what they held is not known */
	uint64_t damaged_bytes;    /* of the file, which were left out */
	uint64_t nr_trimmed;       /* samples whose stack was cut short */
	struct loss_row *rows;     /* heap */
	size_t nr_rows;
	struct loss_place *places; /* heap */
	size_t nr_places;
	uint64_t captured, lost;   /* of all rows of events that have samples */
	uint64_t lost_task_events; /* of the others: mmap, comm, fork, exit */
	uint64_t lost_in_ledger;   /* of them, what the ledger counts */
	uint64_t lost_untimed;     /* of all, what is counted but in no gap: no LOST record came after it */
};

/*
 * Reads the session to its end. 0, or -errno and why. *ret has all that could be read, also after an error; the caller
 * calls loss_data_fini().
 */
int loss_data_read(struct session *session, struct loss_data *ret, struct diag *reterr);
void loss_data_fini(struct loss_data *data);

/*
 * The same for a file whose session was opened in the order of time: the file is read a second time. *ret stays empty
 * for a pipe, and for a file that cannot be read again.
 */
void loss_data_read_again(struct session *session, const char *path, struct loss_data *ret);

/* cost_text: what a recorder used, as a line of a table. */
enum { COST_TEXT_BYTES = 96 };

/* Without a newline. Returns `line`. */
const char *cost_text(const struct ledger_cost *cost, char line[COST_TEXT_BYTES]);
