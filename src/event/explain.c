/* SPDX-License-Identifier: MIT */
/* Causes: perf_event_open(2), ERRORS; kernel/events/core.c; Documentation/admin-guide/sysctl/kernel.rst. */
#include "event/explain.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/fd.h"
#include "event/event.h"

long explain_paranoid(void)
{
	long level;

	return fd_slurp_long("/proc/sys/kernel/perf_event_paranoid", &level) == 0 ? level : 2;
}

static long sysctl_or(const char *path, long otherwise)
{
	long value;

	return fd_slurp_long(path, &value) == 0 ? value : otherwise;
}

/* An event of the PMU uprobe or kprobe. */
static bool is_probe(const struct event *event)
{
	return event->attr.type == sysctl_or("/sys/bus/event_source/devices/uprobe/type", -1) ||
	       event->attr.type == sysctl_or("/sys/bus/event_source/devices/kprobe/type", -1);
}

/* Source: kernel/trace/trace_event_perf.c, perf_trace_event_perm(): of own tasks only system calls are everybody's. */
static bool is_raw_tracepoint(const struct event *event, int pid)
{
	const char *system = event->tracepoint_system;

	if (!system || !(event->attr.sample_type & PERF_SAMPLE_RAW))
		return false;
	return pid == -1 || (strcmp(system, "syscalls") != 0 && strcmp(system, "raw_syscalls") != 0);
}

static bool is_somebody_elses(int pid)
{
	char path[32];
	struct stat status;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	return stat(path, &status) == 0 && status.st_uid != geteuid();
}

static int explain_permission(const struct event *event, int err, int pid, struct diag *reterr)
{
	long level = explain_paranoid();
	long enough = is_raw_tracepoint(event, pid) ? -1 : pid == -1 ? 0 : event->attr.exclude_kernel ? 2 : 1;

	if (is_probe(event))
		return diag_set(reterr, err,
				"event %s: not permitted: uprobes and kprobes take CAP_PERFMON (run as root)", event->name);
	if (level > enough)
		return diag_set(reterr, err,
				"event %s: not permitted: kernel.perf_event_paranoid is %ld; it takes "
				"CAP_PERFMON (run as "
				"root) or: sysctl kernel.perf_event_paranoid=%ld",
				event->name, level, enough);
	if (event->attr.type == PERF_TYPE_BREAKPOINT && !event->attr.exclude_kernel)
		return diag_set(reterr, err,
				"event %s: breakpoints that also see the kernel take CAP_SYS_ADMIN; add :u, "
				"or run as root",
				event->name);
	if (pid > 0 && is_somebody_elses(pid))
		return diag_set(
			reterr, err,
			"event %s: process %d may not be watched: it belongs to somebody else, which takes "
			"CAP_PERFMON and CAP_SYS_PTRACE (run as root)",
			event->name, pid);
	return diag_set(reterr, err,
			"event %s: not permitted, although kernel.perf_event_paranoid is %ld: a security "
			"module, lockdown "
			"or the container's seccomp filter forbids it",
			event->name, level);
}

static int explain_breakpoint(const struct event *event, int err, struct diag *reterr)
{
	return diag_set(reterr, err,
			"event %s: the CPU has no such breakpoint: 1, 2, 4 or 8 bytes at a multiple of that; w, rw "
			"(many CPUs have no r alone), or x alone",
			event->name);
}

static int explain_invalid(const struct event *event, int err, struct diag *reterr)
{
	const struct perf_event_attr *attr = &event->attr;
	long max = sysctl_or("/proc/sys/kernel/perf_event_max_sample_rate", 0);

	if (attr->freq && max > 0 && attr->sample_freq > (uint64_t)max)
		return diag_set(reterr, err,
				"event %s: %llu samples per second are more than "
				"kernel.perf_event_max_sample_rate (%ld)",
				event->name, (unsigned long long)attr->sample_freq, max);
	if (attr->type == PERF_TYPE_BREAKPOINT)
		return explain_breakpoint(event, err, reterr);
	if (attr->sample_type & PERF_SAMPLE_READ && attr->inherit)
		return diag_set(reterr, err,
				"event %s: this kernel cannot read values in samples (:S) of inherited "
				"events: add -i",
				event->name);
	if (attr->write_backward)
		return diag_set(reterr, err, "event %s: refused by the kernel: 'overwrite' needs Linux 4.7",
				event->name);
	if (attr->type > PERF_TYPE_BREAKPOINT)
		return diag_set(reterr, err,
				"event %s: its PMU refuses the settings: perhaps it cannot sample, or only "
				"counts all "
				"tasks (-a)",
				event->name);
	return diag_set(reterr, err,
			"event %s: the kernel refuses its settings (perf_event_open: %s); dmesg may say why",
			event->name, strerror(EINVAL));
}

/* Members follow their leader: perf_event_open(2), "group_fd", and what one PMU can count at a time. */
static int explain_group(const struct event *event, int err, struct diag *reterr)
{
	if (event->attr.pinned || event->attr.exclusive)
		return diag_set(reterr, err,
				"event %s: only the first event of a group can have the modifiers D and e",
				event->name);
	return diag_set(reterr, err,
			"event %s: cannot be counted together with the first event of its group: fewer "
			"events in {…}, the same S for all (\"{…}:S\"), or :W to count them apart",
			event->name);
}

static int explain_unsupported(const struct event *event, int err, struct diag *reterr)
{
	const struct perf_event_attr *attr = &event->attr;

	if (attr->type == PERF_TYPE_BREAKPOINT)
		return explain_breakpoint(event, err, reterr);
	if (attr->sample_type & PERF_SAMPLE_BRANCH_STACK)
		return diag_set(reterr, err,
				"event %s: no branch stack in this hardware: use --call-graph fp or dwarf",
				event->name);
	if (attr->precise_ip)
		return diag_set(reterr, err, "event %s: the hardware has no such precision: leave out a 'p'",
				event->name);
	return diag_set(reterr, err, "event %s: the PMU cannot sample it", event->name);
}

static int explain_no_fds(const struct event *event, int err, struct diag *reterr)
{
	struct rlimit limit = {0};

	getrlimit(RLIMIT_NOFILE, &limit);
	return diag_set(reterr, err,
			"event %s: too many open files (%llu allowed, one is needed per event, CPU and "
			"task): fewer events "
			"or ulimit -n",
			event->name, (unsigned long long)limit.rlim_cur);
}

int explain_open(const struct event *event, int err, const struct event_place *place, struct diag *reterr)
{
	int pid = place->pid, cpu = place->cpu;

	switch (-err) {
	case EACCES:
	case EPERM:
		return explain_permission(event, err, pid, reterr);
	case EINVAL:
		return place->group_fd >= 0 ? explain_group(event, err, reterr)
					    : explain_invalid(event, err, reterr);
	case EOPNOTSUPP:
		return explain_unsupported(event, err, reterr);
	case EMFILE:
	case ENFILE:
		return explain_no_fds(event, err, reterr);
	case ENOENT:
		return diag_set(reterr, err,
				"event %s: no PMU of this machine counts it; cpu-clock works everywhere",
				event->name);
	case ENODEV:
	case ENXIO:
		return diag_set(reterr, err, "event %s: CPU %d is offline, or its PMU is gone", event->name,
				cpu);
	case ESRCH:
		return diag_set(reterr, err, "event %s: there is no task %d", event->name, pid);
	case EOVERFLOW:
		return diag_set(reterr, err,
				"event %s: max-stack %u is more than kernel.perf_event_max_stack (%ld)",
				event->name, event->attr.sample_max_stack,
				sysctl_or("/proc/sys/kernel/perf_event_max_stack", 0));
	case ENOSPC:
		return diag_set(reterr, err, "event %s: all breakpoint registers of the CPU are in use",
				event->name);
	case EBUSY:
		return diag_set(reterr, err, "event %s: somebody else uses the PMU exclusively", event->name);
	case ENOSYS:
		return diag_set(reterr, err, "event %s: this kernel has no perf events (CONFIG_PERF_EVENTS)",
				event->name);
	default:
		return diag_set(reterr, err, "event %s: perf_event_open: %s", event->name, strerror(-err));
	}
}
