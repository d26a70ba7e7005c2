/* SPDX-License-Identifier: MIT */
/*
 * priority: gets the CPU for the thread that drains, because a ring that fills while its reader waits for a CPU
 * loses records. The reader sleeps until a ring is half full, and its bursts are short.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct priority {
	int saved_policy, saved_nice; /* of the thread before */
	int saved_realtime;
};

/*
 * Raises the calling thread: real-time FIFO at the lowest level where that is allowed (the kernel's own throttle,
 * kernel.sched_rt_runtime_us, leaves the other tasks a share), else a short slice of the fair class, which any user
 * may ask for. realtime > 0: FIFO at that level as the user said (-r), and then failing is an error: -errno.
 * A thread that is real-time already keeps what it has. Returns a static word for what was reached ("fifo", "slice",
 * "none", "kept") in *ret_how. Children do not inherit what was raised.
 */
int priority_raise(int realtime, struct priority *ret_saved, const char **ret_how);
void priority_restore(const struct priority *saved);
/* Whether priority_raise() would make the calling thread real-time. Tries it for a moment. */
bool priority_is_realtime(int realtime);

/* thread_use: what the calling thread has used of the machine since it began. */

struct thread_use {
	uint64_t cpu_ns;
	uint64_t waited_ns; /* able to run, without a CPU; 0 also where the kernel does not tell (CONFIG_SCHED_INFO) */
	uint64_t sleeps;    /* it waited for something */
	uint64_t preemptions; /* another task got its CPU */
};

/* Some system calls: for the end of a thread and for rare moments. */
struct thread_use thread_use_now(void);
void thread_use_add(struct thread_use *use, struct thread_use other);

/*
 * Locks the mapped memory of this process, each page from its first use on: else the kernel may drop pages of program
 * text when memory is short, and a thread that drains would wait until a busy disk has read them again. Where
 * RLIMIT_MEMLOCK does not allow all of it, the program and its libraries are locked, as far as allowed. To be called
 * after all threads have been started.
 */
void memory_stay(void);
