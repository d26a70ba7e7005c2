/* SPDX-License-Identifier: MIT */
/* ring_carrier: an event that counts nothing and owns a ring, which live events are sent to and from. */
#pragma once

#include <stdint.h>

struct perf_event_attr;
struct plan_ring;

/*
 * For SET_OUTPUT carrier and events (`like`: one of them) must have the same CPU (of a thread's ring: the same thread), clock
 * and direction: kernel/events/core.c, perf_event_set_output(). A CPU's carrier watches our first thread there, which any of
 * ours may. wakeup_bytes: as many in the ring wake up who polls; 0: half of it. The fd, or -errno (-ESRCH: the thread is gone).
 */
int ring_carrier_open(const struct perf_event_attr *like, const struct plan_ring *ring, uint32_t wakeup_bytes);
