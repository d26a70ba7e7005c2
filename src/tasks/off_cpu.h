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

struct buf;
struct perf_event_header;
struct raw_sample_shape;

#define OFF_CPU_EVENT "offcpu-time"

enum off_cpu_flag {
	/* its state is not known, except that it was not preempted if `state` is not 0 */
	OFF_CPU_NO_STATE = 1 << 16,
	OFF_CPU_STARTING = 1 << 17, /* a new task, until it first ran: no call chain */
	/* it left the CPU before the recording; only the time since the start counts */
	OFF_CPU_BEGAN_EARLIER = 1 << 18,
	OFF_CPU_GOES_ON = 1 << 19, /* it was still off the CPU when the recording ended */
	OFF_CPU_UNKNOWN = 1 << 20, /* records were lost, and it may have run in that time; PERIOD is 0 */
	/* the sum of several waits, each too short for a sample of its own: no call chain */
	OFF_CPU_SUM = 1 << 21,
	OFF_CPU_NO_WAKE_UP = 1 << 22,   /* when it was woken is not known: runnable_ns is 0 */
	OFF_CPU_BY_INTERRUPT = 1 << 23, /* it was woken by an interrupt, not by a task */
};

/* In a state of sched_switch: it was preempted, "R+"; TASK_REPORT_MAX, include/linux/sched.h. Not in a wait. */
#define OFF_CPU_PREEMPTED 0x100

struct off_cpu_wait {
	/* time off the CPU, runnable_ns included; with OFF_CPU_UNKNOWN: time in which it may have run */
	uint64_t ns;
	uint64_t runnable_ns; /* time since it was woken; equal to ns when it was preempted or is starting */
	uint32_t state;       /* 0: it was preempted, or yielded; 1: S, 2: D, 4: T, ...; off_cpu_state_letter() */
	uint32_t flags;       /* enum off_cpu_flag */
	uint32_t waker_pid, waker_tid; /* 0, 0: not known, or OFF_CPU_BY_INTERRUPT */
	uint64_t nr_times;             /* 1, but with OFF_CPU_SUM */
	struct span waker_ips;         /* u64 each, at any alignment */
};

/* Whether it is such an event: of ours, with this payload, or of `perf record --off-cpu`, without it. */
bool off_cpu_is_event(const struct event_desc *desc);

/* Changes the attr of the event whose samples off_cpu_put() converts to that of the samples in the file. */
void off_cpu_convert_attr(struct perf_event_attr *attr);

/* Decodes the payload of a sample of such an event. 0, or -EBADMSG: it is too short or damaged. */
int off_cpu_decode(const struct sample *sample, struct off_cpu_wait *ret);

/* "R", "S", "D", ... as in ps(1); "R+": preempted. "?": not known. */
const char *off_cpu_state_letter(const struct off_cpu_wait *wait);

/*
 * The state of the task, as static text ("sleeping", "runnable", ...): with `ready` that of the last part, runnable_ns,
 * else that of the time before.
 */
const char *off_cpu_state_name(const struct off_cpu_wait *wait, bool ready);

/* Where and when the task ran again. */
struct off_cpu_end {
	uint32_t pid, tid;
	uint64_t time_ns;
	uint32_t cpu;
};

/*
 * Appends the sample of a wait. `left`: the SAMPLE that was taken when the task left the CPU; `shape` is that of its
 * attr, which must have TID, TIME, CPU, PERIOD and RAW, and no READ. What else it has is copied, also what stands
 * behind its payload, which is not looked at. 0, or -EBADMSG: `left` is no such sample, or the result would be too
 * long. The caller checks buf_status(out).
 */
int off_cpu_put(const struct raw_sample_shape *shape, const struct perf_event_header *left,
		const struct off_cpu_wait *wait, const struct off_cpu_end *end, struct buf *out);

/* Appends a SAMPLE that can be used as `left` in off_cpu_put() when only the id of the event is known. */
void off_cpu_put_blank(const struct perf_event_attr *attr, uint64_t id, struct buf *out);
