/* SPDX-License-Identifier: MIT */
/* thread_use: what the calling thread has used of the machine since it began. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct thread_use {
	uint64_t cpu_ns;
	uint64_t waited_ns;   /* able to run, without a CPU; 0 also where the kernel does not tell (CONFIG_SCHED_INFO) */
	uint64_t sleeps;      /* it waited for something */
	uint64_t preemptions; /* somebody else got its CPU */
};

/* Some system calls: for the end of a thread and for rare moments. */
struct thread_use thread_use_now(void);

/* Of another thread of this process: that it ran, and that it waited for a CPU. 0: the kernel does not tell. */
struct thread_times {
	uint64_t cpu_ns, waited_ns;
};
struct thread_times thread_times_of(pid_t tid);
