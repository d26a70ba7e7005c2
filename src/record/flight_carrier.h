/* SPDX-License-Identifier: MIT */
/* flight_carrier: an event that counts nothing and owns an overwritten ring, which live events are sent to and from. */
#pragma once

struct perf_event_attr;
struct plan_ring;

/*
 * For SET_OUTPUT carrier and events must have the same CPU (of a thread's ring: the same thread), clock and direction:
 * kernel/events/core.c, perf_event_set_output(). A CPU's carrier watches ourselves there, which anybody may. The fd,
 * or -errno (-ESRCH: the thread is gone).
 */
int flight_carrier_open(const struct perf_event_attr *like, const struct plan_ring *ring);
