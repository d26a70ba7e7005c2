/* SPDX-License-Identifier: MIT */
/*
 * ahead: the records of a session, found and ordered by a thread of its own, some batches ahead of the thread that decodes
 * and uses them, which may have others decode some of them. Memory: a fixed number of batches, whatever the size of the file.
 *
 * From ahead_start() to ahead_close() the session belongs to that thread; others may look at its events, features and
 * info (position and nr_late aside). When a record changes those, the thread first waits until all batches are back.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/crew.h"
#include "read/session.h"

struct ahead;
struct diag;
struct ticket;

/*
 * The session is borrowed. `nr_hands`: threads that ahead_share() is for, that of the caller and that which finds records among
 * them; 1: it is not called. 0, -ENOMEM, or -errno of pthread_create(3).
 */
int ahead_start(struct session *session, unsigned nr_hands, struct ahead **ret);

/* Stops the thread and joins it. NULL is fine. */
void ahead_close(struct ahead *ahead);

/* As session_next(): the record is valid until the next call. */
int ahead_next(struct ahead *ahead, const struct session_record **ret, struct diag *reterr);

enum { AHEAD_RUN_MAX = 256, AHEAD_PIECE_MAX = 512 };

/* Samples that follow each other; so do the pieces of a run, with nothing but samples in between. */
struct ahead_piece {
	const struct ticket *tickets;
	size_t nr; /* 1 to AHEAD_PIECE_MAX */
};

/*
 * A run: the samples that come next, as far as they were found already, for any number of threads to decode. They are in
 * *ret[0..result), which is valid until ahead_run_end(); nothing else of this header may be called meanwhile but
 * ahead_share() and the two ahead_decode...(). May wait, as ahead_next(). 0: what comes next is no sample, or the end: ahead_next() has it.
 */
size_t ahead_run_begin(struct ahead *ahead, const struct ahead_piece **ret);

/*
 * All parts of a job, as crew_begin() and crew_finish(): by the caller (hand 0), by the thread that finds records when there is
 * no room for more of them, and by others, as many as hands in all.
 */
void ahead_share(struct ahead *ahead, crew_part *part, void *of, unsigned nr_parts);

/*
 * The sample at index `at` of a piece. By any thread, several at once, in any order, though ascending is fastest. 1; 0: it
 * is left out; -EBADMSG: give it to ahead_decode_again(). *ret points into the record, which stays until ahead_run_end().
 */
int ahead_decode(const struct ahead *ahead, const struct ahead_piece *piece, size_t at, struct session_record *ret);

/*
 * The same by the thread that began the run, in the order of the records: a failure is kept, and told at the end as
 * ahead_next() does. false: failed, or left out. *ret is valid until the next call of it or of ahead_next().
 */
bool ahead_decode_again(struct ahead *ahead, const struct ahead_piece *piece, size_t at, const struct session_record **ret);

/* The first `nr_pieces` of the run count as given: ahead_next() goes on behind them. */
void ahead_run_end(struct ahead *ahead, size_t nr_pieces);
