/* SPDX-License-Identifier: MIT */
/* filters: the kernel decides which hits of a tracepoint become records. Used by the main thread. */
#pragma once

struct diag;
struct eventset;

/* What the user asked for (--filter), but for events that leave out the recorder. -errno and the diag names event, filter and the fields that there are. */
int filters_apply(const struct eventset *set, struct diag *reterr);

/*
 * Of events that leave out the recorder: the same filter, and none of the threads that this process has now. To be called
 * when all of them run, and before the events are enabled.
 */
int filters_leave_out_recorder(const struct eventset *set, struct diag *reterr);
