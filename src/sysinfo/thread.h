/* SPDX-License-Identifier: MIT */
/*
 * thread: priority, CPU time, choice of a CPU and locked memory of the threads that drain.
 *
 * priority: a high scheduling priority for these threads, because a ring that fills while its reader waits for a CPU
 * loses records. A reader sleeps until a ring wakes it, and then runs for a short time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct priority {
	int saved_policy, saved_nice; /* of the thread, before it was raised */
	int saved_realtime;
};

/*
 * Raises the priority of the calling thread. realtime 0: SCHED_FIFO at the lowest level where that is allowed (the
 * kernel's throttle, kernel.sched_rt_runtime_us, leaves time for other tasks), else a short time slice in the fair
 * class, which any user may set; then it never fails. realtime > 0: SCHED_FIFO at that level (-r N), or -errno. A
 * thread that is real-time already keeps its priority. *ret_how is a static word for the result: "fifo", "slice",
 * "none" or "kept". Child processes do not inherit the priority.
 */
int priority_raise(int realtime, struct priority *ret_saved, const char **ret_how);
void priority_restore(const struct priority *saved);
/* Whether priority_raise() would make the calling thread real-time: raises it and restores it. */
bool priority_is_realtime(int realtime);

/* thread_use: CPU time and context switches of the calling thread since its start. */

struct thread_use {
	uint64_t cpu_ns;
	uint64_t waited_ns;   /* time it was runnable without a CPU; 0 also when the kernel lacks CONFIG_SCHED_INFO */
	uint64_t sleeps;      /* voluntary context switches */
	uint64_t preemptions; /* involuntary context switches */
};

/* Makes some system calls, so it is not for the drain loop. */
struct thread_use thread_use_now(void);
void thread_use_add(struct thread_use *use, struct thread_use other);

/*
 * slow_cpu: whether a thread that drains or writes should go on on another CPU. The scheduler takes no real-time thread
 * off a CPU that does little for it: one of a slower kind, or from which a hypervisor or interrupts take much. One
 * owner, one thread; zeroed at first.
 */

struct slow_cpu {
	/* At the last look: CLOCK_MONOTONIC (0: none yet), CPU time of the thread, how often it was late. */
	uint64_t looked_ns, cpu_ns, nr_late;
	uint64_t next_ns, pause_ns; /* when the next look is due; between the last two */
	unsigned nr_full, nr_left;  /* looks in a row: all of the CPU was used; it was to go elsewhere */
};

/* CLOCK_MONOTONIC. Most often false. */
static inline bool slow_cpu_is_due(const struct slow_cpu *slow, uint64_t now_ns)
{
	return now_ns >= slow->next_ns;
}

/*
 * A look. nr_late: how often the thread has been late so far. True: since the last look it has used all of its CPU, and
 * was late, or it has used all of it at each of the last five. A ring may be full soon after that, so looks are 20 ms
 * apart; where it does not help to go elsewhere they become rare.
 */
bool slow_cpu_look(struct slow_cpu *slow, uint64_t now_ns, uint64_t cpu_ns, uint64_t nr_late);

/* The calling thread goes to another one of the CPUs that it may run on. It allocates. 0 or -errno. */
int slow_cpu_leave(void);

/*
 * Locks the mapped memory of this process, each page when it is first used (MCL_ONFAULT). Otherwise the kernel may drop
 * pages of program text when memory is short, and a thread that drains would wait until a busy disk has read them
 * again. When RLIMIT_MEMLOCK is too small for all memory, only the program and its libraries are locked, as far as the
 * limit allows. To be called after all threads have been started: memory that is mapped later is not locked.
 */
void memory_lock(void);

/*
 * Keeps the kernel from looking for memory to be moved to another NUMA node (kernel.numa_balancing): to find out who
 * uses it, it takes it away from all threads of the process again and again, so that those that drain run into page
 * faults, and wait while one thread goes through all of it. For the calling thread, and for what it starts from then
 * on, also other programs. A policy that was set (numactl) stays.
 */
void memory_stay_on_nodes(void);
