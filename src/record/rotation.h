/* SPDX-License-Identifier: MIT */
/*
 * rotation: a recording that goes on in another file. The next output is opened first; each reader takes it over between
 * two of its passes; what was before is finished by a thread of its own (finisher.h). Draining never waits.
 * Also the end of every recording: its last file, or its only one. Owned by the recording; used by the main thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/finisher.h"
#include "record/part_names.h"
#include "record/rotation_spec.h"

struct diag;
struct eventset;
struct flight;
struct ledger_book;
struct outlet;
struct outlet_closing;
struct outlet_params;
struct readers;
struct recorder_cost;
struct writer;

struct rotation {
	/* Set before rotation_open(). */
	struct rotation_spec spec;
	uint64_t max_bytes; /* of a file; when it has them the recording ends. 0: any number */
	bool timestamp;     /* the last file gets its time, too */
	const struct outlet_params *params; /* borrowed, as all that follows */
	struct outlet *outlet;              /* the present one, at one address for ever */
	struct readers *readers;
	struct flight *flight; /* what it holds goes behind the records of a file; NULL: there is none */
	struct ledger_book *book;
	struct recorder_cost *cost;
	size_t world_bytes; /* of the first file */
	/* Somebody else looks at the present output and has the book, and must not while they change. */
	void (*pause)(void *other);
	int (*resume)(void *other);
	void *other;

	/* Its own. */
	struct part_names names;
	struct finisher finisher;
	struct finisher_job *job; /* heap; holds the next output until all readers have it, then the former one */
	struct writer **room;     /* heap */
	uint64_t *told_lost;      /* heap; by slot: what finished files tell */
	bool wanted;              /* a switch that could not be made yet */
	bool post;                /* of a file that is held: wanted, when next_ns has come */
	uint64_t next_ns;         /* CLOCK_MONOTONIC; UINT64_MAX: not by time */
	uint64_t base_bytes;      /* of readers.control.stored: where the present file began */
	size_t nr_switches;
};

int rotation_open(struct rotation *rotation, struct diag *reterr);

/* From here on sizes and times count. */
void rotation_start(struct rotation *rotation);

/* Switch now, or, while a switch is under way or too many files are being finished, as soon as that is over. */
int rotation_trigger(struct rotation *rotation, struct diag *reterr);

/* When control.switch_fd is readable, or next_ns has come. *ret_full: the file has reached its limit. */
int rotation_step(struct rotation *rotation, bool *ret_full, struct diag *reterr);

/* When the readers have ended: a switch that was under way is made. */
int rotation_settle(struct rotation *rotation, struct diag *reterr);

/* After that: finishes everything. *ret is valid in any case. */
int rotation_finish(struct rotation *rotation, const struct outlet_closing *closing, struct outlet_result *ret,
		    struct diag *reterr);
void rotation_close(struct rotation *rotation); /* zeroed is fine */
