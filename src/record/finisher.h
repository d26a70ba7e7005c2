/* SPDX-License-Identifier: MIT */
/*
 * finisher: a thread that makes whole files of outputs that no reader uses any more, one after the other, while the
 * readers drain into the next. Owned by the rotation.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/diag.h"
#include "format/feature_ledger.h"
#include "record/outlet.h"
#include "record/part_names.h"

struct flight;

struct finisher_job {
	struct finisher_job *next;
	struct outlet outlet;
	char *while_open; /* heap; what the file is called until it is finished; NULL: what its sink says */
	char *name;       /* heap; and then */
	struct buf records; /* behind all others */
	struct ledger ledger; /* of its time */
	uint64_t lost;      /* of events, that they tell */
	struct flight *flight; /* borrowed; of the last file: what it holds goes there, too. NULL: none */
};

struct finisher {
	const struct outlet_params *params; /* borrowed */
	struct part_names *names;           /* borrowed; the thread's own while it runs */
	int news_fd, wake_fd;               /* eventfd(2), borrowed: written when something failed; when something is done */

	pthread_t thread;
	bool started, stop; /* stop: under the lock, as is what follows */
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct finisher_job *first, *last;
	size_t nr_jobs;              /* waiting or under way */
	struct outlet_result totals; /* of all that were finished */
	int err; /* the first, with its reason */
	struct diag diag;
};

void finisher_init(struct finisher *finisher); /* after the fields above */

/* 0 or -errno. */
int finisher_start(struct finisher *finisher);

/* Owns the job from here on. */
void finisher_add(struct finisher *finisher, struct finisher_job *job);
size_t finisher_nr_jobs(struct finisher *finisher);

/* When all that was added is done. Idempotent; a finisher that was not started is fine. */
void finisher_stop(struct finisher *finisher);

/* Finishes an output here and now: the last, when there is no thread. The job, whose outlet is not used, stays yours. */
int finisher_do(struct finisher *finisher, struct finisher_job *job, struct outlet *outlet,
		const struct outlet_closing *closing, struct diag *reterr);
void finisher_job_free(struct finisher_job *job); /* NULL is fine */
