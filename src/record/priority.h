/* SPDX-License-Identifier: MIT */
/*
 * priority: gets the CPU for the thread that drains, because a ring that fills while its reader waits for a CPU
 * loses records. The reader sleeps until a ring is half full, and its bursts are short.
 */
#pragma once

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
