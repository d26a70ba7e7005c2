/* SPDX-License-Identifier: MIT */
/* explain: why perf_event_open(2) refused, and what would help. Private to this room. */
#pragma once

struct diag;
struct event;
struct event_place;

/* Fills the diag for -errno `err` and returns it. */
int explain_open(const struct event *event, int err, const struct event_place *place, struct diag *reterr);

/* kernel.perf_event_paranoid; 2, the kernel's default, when it cannot be read. */
long explain_paranoid(void);
