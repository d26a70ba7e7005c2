/* SPDX-License-Identifier: MIT */
/*
 * ahead: the records of a session, found and ordered by a thread of its own, some batches ahead of the thread that decodes
 * and uses them. Memory: a fixed number of batches, whatever the size of the file.
 *
 * From ahead_start() to ahead_close() the session belongs to that thread; others may look at its events, features and
 * info (position and nr_late aside). When a record changes those, the thread first waits until all batches are back.
 */
#pragma once

#include "read/session.h"

struct ahead;
struct diag;

/* The session is borrowed. 0, -ENOMEM, or -errno of pthread_create(3). */
int ahead_start(struct session *session, struct ahead **ret);

/* Stops the thread and joins it. NULL is fine. */
void ahead_close(struct ahead *ahead);

/* As session_next(): the record is valid until the next call. */
int ahead_next(struct ahead *ahead, const struct session_record **ret, struct diag *reterr);
