/* SPDX-License-Identifier: MIT */
#include "sysinfo/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpuset.h"

/* sched_setattr(2); glibc of Debian 12 has no declaration. */
struct sched_request {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns, deadline_ns, period_ns;
};

enum {
	LOWEST_REALTIME = 1,
	/*
	 * Shortest slice that the fair class grants: a task with a short one runs sooner (kernel 6.12, 857b158dc5e8).
	 */
	SHORT_SLICE_NS = 100000,
};

static int set_slice(uint64_t slice_ns, int nice)
{
	struct sched_request request = {
		.size = sizeof(request),
		.policy = SCHED_OTHER,
		.nice = nice,
		.runtime_ns = slice_ns,
	};

	return syscall(SYS_sched_setattr, 0, &request, 0) ? -errno : 0;
}

static int set_policy(int policy, int level)
{
	struct sched_param param = {.sched_priority = level};

	return sched_setscheduler(0, policy, &param) ? -errno : 0;
}

/* Is the thread before all ordinary ones already, by the will of the user (chrt)? */
static bool is_realtime(int policy)
{
	policy &= ~SCHED_RESET_ON_FORK;
	return policy == SCHED_FIFO || policy == SCHED_RR || policy == SCHED_DEADLINE;
}

int priority_raise(int realtime, struct priority *ret_saved, const char **ret_how)
{
	struct sched_param param = {0};

	errno = 0;
	ret_saved->saved_nice = getpriority(PRIO_PROCESS, 0);
	ret_saved->saved_policy = sched_getscheduler(0);
	sched_getparam(0, &param);
	ret_saved->saved_realtime = param.sched_priority;

	if (realtime <= 0 && is_realtime(ret_saved->saved_policy)) {
		*ret_how = "kept";
		return 0;
	}
	int level = realtime > 0 ? realtime : LOWEST_REALTIME;
	*ret_how = "fifo";
	int err = set_policy(SCHED_FIFO | SCHED_RESET_ON_FORK, level);
	if (!err || realtime > 0)
		return err;
	*ret_how = set_slice(SHORT_SLICE_NS, ret_saved->saved_nice) ? "none" : "slice";
	return 0;
}

void priority_restore(const struct priority *saved)
{
	int policy = saved->saved_policy;
	int err = set_policy(policy, saved->saved_realtime);

	if (err == -EPERM) /* only the privileged take RESET_ON_FORK back: sched(7) */
		err = set_policy(policy | SCHED_RESET_ON_FORK, saved->saved_realtime);
	if (!err && policy == SCHED_OTHER)
		set_slice(0, saved->saved_nice); /* 0: the default slice again */
}

bool priority_is_realtime(int realtime)
{
	struct priority before;
	const char *how;
	int err = priority_raise(realtime, &before, &how);

	if (!err)
		priority_restore(&before);
	return !err && (!strcmp(how, "fifo") || !strcmp(how, "kept"));
}

/* "cpu_ns waited_ns slices": Documentation/scheduler/sched-stats.rst. */
static uint64_t read_waited_ns(void)
{
	char text[96], *at = text;
	int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	ssize_t len = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[len > 0 ? len : 0] = '\0';
	strtoull(at, &at, 10);
	return strtoull(at, NULL, 10);
}

struct thread_use thread_use_now(void)
{
	struct thread_use use = {.cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID), .waited_ns = read_waited_ns()};
	struct rusage usage;

	if (!getrusage(RUSAGE_THREAD, &usage)) {
		use.sleeps = (uint64_t)usage.ru_nvcsw;
		use.preemptions = (uint64_t)usage.ru_nivcsw;
	}
	return use;
}

static int lock_segments(struct dl_phdr_info *object, size_t size, void *ctx)
{
	(void)size, (void)ctx;
	for (size_t i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
		if (segment->p_type == PT_LOAD)
			(void)!mlock2((const void *)(object->dlpi_addr + segment->p_vaddr), segment->p_memsz,
				      MLOCK_ONFAULT);
	}
	return 0;
}

/* Not what is mapped later (MCL_FUTURE): where locked memory has a limit mmap(2) would fail. */
void memory_lock(void)
{
	if (mlockall(MCL_CURRENT | MCL_ONFAULT))
		dl_iterate_phdr(lock_segments, NULL);
}

/* The kernel only moves memory of threads without a policy of their own: this one says what that does otherwise. */
void memory_stay_on_nodes(void)
{
	int policy;

	if (!syscall(SYS_get_mempolicy, &policy, NULL, 0, NULL, 0) && policy == MPOL_DEFAULT)
		(void)!syscall(SYS_set_mempolicy, MPOL_LOCAL, NULL, 0);
}

void thread_use_add(struct thread_use *use, struct thread_use other)
{
	use->cpu_ns += other.cpu_ns;
	use->waited_ns += other.waited_ns;
	use->sleeps += other.sleeps;
	use->preemptions += other.preemptions;
}

enum {
	TRIES = 4,      /* CPUs, before it looks less often */
	FULL_LOOKS = 5, /* in a row; a CPU that is used up for so long has nothing left for what comes sooner */
};
static const uint64_t shortest_ns = 20000000, longest_ns = 3200000000;

bool slow_cpu_look(struct slow_cpu *slow, uint64_t now_ns, uint64_t cpu_ns, uint64_t nr_late)
{
	const uint64_t passed_ns = now_ns - slow->looked_ns, used_ns = cpu_ns - slow->cpu_ns;
	const bool full = slow->looked_ns && used_ns >= passed_ns / 10 * 9;

	slow->nr_full = full ? slow->nr_full + 1 : 0;
	const bool leave = full && (nr_late != slow->nr_late || slow->nr_full >= FULL_LOOKS);
	slow->nr_left = leave ? slow->nr_left + 1 : 0;
	slow->pause_ns = slow->nr_left > TRIES ? 2 * slow->pause_ns : shortest_ns;
	if (slow->pause_ns > longest_ns)
		slow->pause_ns = longest_ns;
	slow->looked_ns = now_ns;
	slow->next_ns = now_ns + slow->pause_ns;
	slow->cpu_ns = cpu_ns;
	slow->nr_late = nr_late;
	return leave;
}

int slow_cpu_leave(void)
{
	struct cpuset allowed = {0};
	int err = cpuset_allowed(&allowed);

	if (!err)
		err = cpuset_leave_cpu(&allowed);
	cpuset_fini(&allowed);
	return err;
}
