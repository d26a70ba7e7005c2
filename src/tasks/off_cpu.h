/* SPDX-License-Identifier: MIT */
/*
 * off_cpu: samples of the event "offcpu-time", one for each time that a task was off the CPU, as `record --off-cpu`
 * writes them. Pure: memory in, memory out.
 *
 * TIME is when the task ran again, so that the samples of a file stand in the order of time; PERIOD is the time off the
 * CPU in nanoseconds, so it left at TIME - PERIOD. Call chain and IP are those of when it left. What else is known is
 * the payload of the RAW field, in the byte order of the file:
 *
 *	u32 state		low 16 bits: as the kernel's sched_switch has it; above them enum off_cpu_flag
 *	u64 runnable_ns		the last part of the time, in which the task could have run; see off_cpu_wait
 *	u32 waker_pid, waker_tid	with OFF_CPU_SUM: a u64, the number of times
 *	u64 waker_ips[]		up to the end, with PERF_CONTEXT_* markers
 *
 * A payload may end behind runnable_ns or the waker. docs/decisions says why the event is of this type.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "perfdata/attr.h"
#include "perfdata/sample.h"

#define OFF_CPU_EVENT "offcpu-time"

enum off_cpu_flag {
	OFF_CPU_NO_STATE = 1 << 16,      /* of its state it is known at most that it was not preempted */
	OFF_CPU_STARTING = 1 << 17,      /* a new task, until it first ran: no call chain */
	OFF_CPU_BEGAN_EARLIER = 1 << 18, /* before the recording: what came before that does not count */
	OFF_CPU_GOES_ON = 1 << 19,       /* it was still off the CPU when the recording ended */
	OFF_CPU_UNKNOWN = 1 << 20,       /* records were lost: it may have run in that time; PERIOD is 0 */
	OFF_CPU_SUM = 1 << 21,           /* of several times, each too short to be written by itself: no call chain */
	OFF_CPU_NO_WAKE_UP = 1 << 22,    /* when it was woken is not known: runnable_ns is 0 */
	OFF_CPU_BY_INTERRUPT = 1 << 23,  /* what woke it was an interrupt, and no task */
};

struct off_cpu_wait {
	uint64_t ns;          /* off the CPU, runnable_ns among it; with OFF_CPU_UNKNOWN: on or off */
	uint64_t runnable_ns; /* since it was woken; all of it where it was preempted or is starting */
	uint32_t state;       /* 0: it was preempted, or yielded; 1: S, 2: D, 4: T, ...; off_cpu_state_letter() */
	uint32_t flags;       /* enum off_cpu_flag */
	uint32_t waker_pid, waker_tid; /* 0, 0: not known, or OFF_CPU_BY_INTERRUPT */
	uint64_t nr_times;             /* 1, but with OFF_CPU_SUM */
	struct span waker_ips;         /* u64 each, at any alignment */
};

/* Whether samples of the event have such a payload, or are those of `perf record --off-cpu`, without one. */
bool off_cpu_is_event(const struct event_desc *desc);

/* The attr of the file, of the event whose samples off_cpu_put() changes. */
void off_cpu_convert_attr(struct perf_event_attr *attr);

/* Of a sample of such an event. 0, or -EBADMSG: the payload is no such thing. */
int off_cpu_decode(const struct sample *sample, struct off_cpu_wait *ret);

/* "R", "S", "D", ... as in ps(1); "R+": preempted. "?": not known. */
const char *off_cpu_state_letter(const struct off_cpu_wait *wait);

/*
 * What the task did in the last part of the time, when it could have run (`ready`), or before: "sleeping", "runnable",
 * ... Static text.
 */
const char *off_cpu_state_name(const struct off_cpu_wait *wait, bool ready);

/* How a wait ended, beside what struct off_cpu_wait has. */
struct off_cpu_end {
	uint32_t pid, tid;
	uint64_t time_ns;
	uint32_t cpu;
};

/*
 * Appends the sample of a wait. `left`: the SAMPLE that was taken when the task left the CPU, whose attr has TID, TIME,
 * CPU, PERIOD and RAW, and no READ; its id, IP and call chain stay. -EBADMSG: it is none, or the result too long.
 * `out` may be out of memory afterwards.
 */
int off_cpu_put(const struct perf_event_attr *attr, const struct perf_event_header *left,
		const struct off_cpu_wait *wait, const struct off_cpu_end *end, struct buf *out);

/* Appends a SAMPLE for off_cpu_put() of which nothing but the id is known. */
void off_cpu_put_blank(const struct perf_event_attr *attr, uint64_t id, struct buf *out);
