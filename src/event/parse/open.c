/* SPDX-License-Identifier: MIT */
/*
 * perf_event_open(2), with what older kernels and smaller rights leave of an event. The order in which
 * features are given up is perf's, so that the same kernel records the same events for both.
 */
#include <errno.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "event/parse/event.h"
#include "event/parse/open.h"
#include "sysinfo/privileges.h"

/*
 * What an event asks for that nothing can stand in for. Releases: the comments of <linux/perf_event.h> and its history;
 * for messages only, never compared.
 */
static const struct {
	uint64_t sample_bit;
	const char *word;
} fields[] = {
	{PERF_SAMPLE_CODE_PAGE_SIZE, "page sizes of code (5.11): leave out --code-page-size"},
	{PERF_SAMPLE_DATA_PAGE_SIZE, "page sizes of data (5.11): leave out --data-page-size"},
	{PERF_SAMPLE_CGROUP, "cgroups in samples (5.7): leave out --all-cgroups"},
	{PERF_SAMPLE_PHYS_ADDR, "physical addresses (4.14): leave out --phys-data"},
	{PERF_SAMPLE_REGS_INTR, "registers of interrupted code (3.19): leave out -I"},
	{PERF_SAMPLE_TRANSACTION, "flags of transactions (3.13): leave out --transaction"},
	{PERF_SAMPLE_IDENTIFIER, "ids at a fixed args (3.12): record one kind of event at a time"},
	{PERF_SAMPLE_WEIGHT, "weights (3.10): leave out -W"},
	{PERF_SAMPLE_STACK_USER, "dumps of the user's stack (3.7): use --call-graph fp"},
	{PERF_SAMPLE_REGS_USER, "registers of user space (3.7): leave out --user-regs"},
};

enum { NR_FIELDS = sizeof(fields) / sizeof(fields[0]) };

enum need_bit {
	NEED_BUILD_ID,
	NEED_CGROUP,
	NEED_AUX_OUTPUT,
	NEED_NAMESPACES,
	NEED_BACKWARD,
	NEED_MAX_STACK,
	NEED_SWITCHES,
	NEED_CLOCKID,
	NEED_NO_KERNEL_CHAIN,
	NEED_NO_USER_CHAIN,
	NR_BITS,
};

static const char *const words[NR_BITS] = {
	[NEED_BUILD_ID] = "build-ids in records of maps (5.12): leave out --buildid-mmap",
	[NEED_CGROUP] = "records of cgroups (5.7): leave out --all-cgroups",
	[NEED_AUX_OUTPUT] = "output into an AUX area (5.4): leave out aux-output",
	[NEED_NAMESPACES] = "records of namespaces (4.12): leave out --namespaces",
	[NEED_BACKWARD] = "rings that overwrite (4.7): leave out overwrite",
	[NEED_MAX_STACK] = "depth of call chains for one event (4.8): leave out max-stack",
	[NEED_SWITCHES] = "records of context switches (4.3): leave out --switch-events",
	[NEED_CLOCKID] = ("choice of the clock (4.1), or not this one for tracepoints, probes, breakpoints and "
			  "hardware events: leave out -k, or try -k monotonic"),
	[NEED_NO_KERNEL_CHAIN] = "call chains without the kernel (3.7): leave out --user-callchains",
	[NEED_NO_USER_CHAIN] =
		"call chains without user space (3.7): leave out --kernel-callchains, use --call-graph fp",
};

static void leave_bit_out(struct perf_event_attr *attr, enum need_bit bit)
{
	switch (bit) {
	case NEED_BUILD_ID: attr->build_id = 0; break;
	case NEED_CGROUP: attr->cgroup = 0; break;
	case NEED_AUX_OUTPUT: attr->aux_output = 0; break;
	case NEED_NAMESPACES: attr->namespaces = 0; break;
	case NEED_BACKWARD: attr->write_backward = 0; break;
	case NEED_MAX_STACK: attr->sample_max_stack = 0; break;
	case NEED_SWITCHES: attr->context_switch = 0; break;
	case NEED_CLOCKID:
		attr->use_clockid = 0;
		attr->clockid = 0;
		break;
	case NEED_NO_KERNEL_CHAIN: attr->exclude_callchain_kernel = 0; break;
	case NEED_NO_USER_CHAIN: attr->exclude_callchain_user = 0; break;
	case NR_BITS: break;
	}
}

/*
 * Takes the index-th need out of the attr. false: the attr has no such need. *ret_word: what it is, and how it is left
 * out, for a message.
 */
static bool leave_need_out(struct perf_event_attr *attr, size_t index, const char **ret_word)
{
	struct perf_event_attr before = *attr;

	*ret_word = index < NR_BITS ? words[index] : fields[index - NR_BITS].word;
	if (index < NR_BITS)
		leave_bit_out(attr, (enum need_bit)index);
	else
		attr->sample_type &= ~fields[index - NR_BITS].sample_bit;
	if (!(attr->sample_type & PERF_SAMPLE_REGS_INTR))
		attr->sample_regs_intr = 0;
	if (!(attr->sample_type & PERF_SAMPLE_REGS_USER))
		attr->sample_regs_user = 0;
	if (!(attr->sample_type & PERF_SAMPLE_STACK_USER))
		attr->sample_stack_user = 0;
	return memcmp(&before, attr, sizeof(before)) != 0;
}

/* Causes: perf_event_open(2), ERRORS; kernel/events/core.c; Documentation/admin-guide/sysctl/kernel.rst. */

/* kernel.perf_event_paranoid; 2, the kernel's default, when it cannot be read. */
static long paranoid_level(void)
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

/*
 * Source: kernel/trace/trace_event_perf.c, perf_trace_event_perm(): of own tasks only system calls are open to every
 * user.
 */
static bool is_raw_tracepoint(const struct event *event, int pid)
{
	const char *system = event->tracepoint_system;

	if (!system || !(event->attr.sample_type & PERF_SAMPLE_RAW))
		return false;
	return pid == -1 || (strcmp(system, "syscalls") != 0 && strcmp(system, "raw_syscalls") != 0);
}

static bool is_of_another_user(int pid)
{
	char path[32];
	struct stat status;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	return stat(path, &status) == 0 && status.st_uid != geteuid();
}

/* Flags that it does not know are the first thing that the kernel looks at: any other answer comes from a filter. */
bool event_open_is_filtered(void)
{
	return syscall(SYS_perf_event_open, NULL, -1, -1, -1, ~0UL) < 0 && errno != EINVAL && prctl(PR_GET_SECCOMP) > 0;
}

static int explain_permission(const struct event *event, int err, int pid, struct diag *reterr)
{
	const char *advice = privileges_advice();
	long level = paranoid_level();
	long enough = is_raw_tracepoint(event, pid) ? -1 : pid == -1 ? 0 : event->attr.exclude_kernel ? 2 : 1;

	/* Linux 6.18 refuses uprobes with CAP_PERFMON, which was enough since 5.8 (c9e0924e5c2b). */
	if (is_probe(event))
		return diag_set(reterr, err,
				"event %s: not permitted: uprobes and kprobes take CAP_SYS_ADMIN, on some kernels "
				"CAP_PERFMON (%s)",
				event->name, advice);
	/* A patch of Debian and Ubuntu ("perf_paranoid_any"), where 3 and 4 are the defaults. */
	if (level > 2)
		return diag_set(
			reterr, err,
			"event %s: not permitted: kernel.perf_event_paranoid is %ld; this needs CAP_PERFMON, or, "
			"above 2 on kernels of Debian and Ubuntu, CAP_SYS_ADMIN (%s), or: sysctl "
			"kernel.perf_event_paranoid=%ld",
			event->name, level, advice, enough);
	if (level > enough)
		return diag_set(
			reterr, err,
			"event %s: not permitted: kernel.perf_event_paranoid is %ld; this needs CAP_PERFMON (%s), "
			"or: sysctl kernel.perf_event_paranoid=%ld",
			event->name, level, advice, enough);
	if (event->attr.type == PERF_TYPE_BREAKPOINT && !event->attr.exclude_kernel)
		return diag_set(reterr, err,
				"event %s: breakpoints that also see the kernel take CAP_SYS_ADMIN (%s); or add :u",
				event->name, advice);
	if (pid > 0 && is_of_another_user(pid))
		return diag_set(reterr, err,
				"event %s: process %d may not be watched: it belongs to another user, which takes "
				"CAP_PERFMON and CAP_SYS_PTRACE (%s)",
				event->name, pid, advice);
	return diag_set(reterr, err,
			"event %s: not permitted, although kernel.perf_event_paranoid is %ld: a security module "
			"or lockdown forbids it",
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
				"event %s: its PMU refuses the settings: perhaps it cannot sample, or only counts all "
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
		return diag_set(reterr, err, "event %s: only the first event of a group can have the modifiers D and e",
				event->name);
	return diag_set(reterr, err,
			"event %s: cannot be counted together with the first event of its group: fewer "
			"events in {…}, the same S for all (\"{…}:S\"), or :W to count them apart",
			event->name);
}

/* Of -b, -j and --call-graph lbr: perf_event_open(2), PERF_SAMPLE_BRANCH_STACK. */
static int explain_branches(const struct event *event, int err, struct diag *reterr)
{
	const struct perf_event_attr *attr = &event->attr;

	if (attr->branch_sample_type & PERF_SAMPLE_BRANCH_CALL_STACK)
		return diag_set(reterr, err,
				"event %s: this CPU, or virtual machine, does not offer call stacks of the hardware "
				"(Intel LBR): use --call-graph fp or dwarf",
				event->name);
	if (attr->type == PERF_TYPE_SOFTWARE || attr->type == PERF_TYPE_TRACEPOINT)
		return diag_set(
			reterr, err,
			"event %s: branch stacks (-b, -j) need a hardware event, and a CPU that records branches "
			"(Intel LBR, AMD LbrExtV2, Arm BRBE): this one is counted by software here",
			event->name);
	return diag_set(
		reterr, err,
		"event %s: branch stacks (-b, -j) need hardware that records branches (Intel LBR, AMD LbrExtV2, "
		"Arm BRBE), which this CPU, or virtual machine, does not offer",
		event->name);
}

static int explain_unsupported(const struct event *event, int err, struct diag *reterr)
{
	const struct perf_event_attr *attr = &event->attr;

	if (attr->type == PERF_TYPE_BREAKPOINT)
		return explain_breakpoint(event, err, reterr);
	if (attr->sample_type & PERF_SAMPLE_BRANCH_STACK)
		return explain_branches(event, err, reterr);
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
			"event %s: too many open files (%llu allowed, one is needed per event, CPU and task): fewer "
			"events or ulimit -n",
			event->name, (unsigned long long)limit.rlim_cur);
}

/* Opens an event that every kernel has, to find out what else an error comes from. 0 or -errno. */
static int try_dummy(const struct event_open_args *args, int whose, unsigned long flags)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr), .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_DUMMY, .disabled = 1};
	AUTO_FD int fd = (int)syscall(SYS_perf_event_open, &attr, whose, args->cpu, -1, flags | PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : 0;
}

/*
 * Whether the cgroup of -G is what the kernel refuses, not the event: it looks at the cgroup first, and has the same
 * error for both. Source: kernel/events/core.c, perf_cgroup_connect(), before perf_init_event().
 */
static bool is_refused_cgroup(const struct event *event, const struct event_open_args *args)
{
	return event->in_cgroup && try_dummy(args, event->cgroup_fd, PERF_FLAG_PID_CGROUP) && !try_dummy(args, -1, 0);
}

static int explain_cgroup(const struct event *event, int err, struct diag *reterr)
{
	char link[32], path[PATH_MAX] = "";

	snprintf(link, sizeof(link), "/proc/self/fd/%d", event->cgroup_fd);
	ssize_t len = readlink(link, path, sizeof(path) - 1);
	path[len > 0 ? len : 0] = '\0';
	if (err == -EINVAL)
		return diag_set(reterr, err,
				"event %s: this kernel counts no cgroups (CONFIG_CGROUP_PERF): leave out -G",
				event->name);
	return diag_set(reterr, err,
			"event %s: -G: %s is not in the hierarchy of cgroups that the kernel counts by (controller "
			"perf_event, or cgroup2), or is removed by now",
			event->name, path);
}

/* Fills the diag for -errno `err` and returns it. */
static int explain_open(const struct event *event, int err, const struct event_open_args *args, struct diag *reterr)
{
	int pid = args->pid, cpu = args->cpu;

	if ((err == -EPERM || err == -EACCES || err == -ENOSYS) && event_open_is_filtered())
		return diag_set(reterr, err,
				"event %s: a seccomp filter refuses perf_event_open(2): " EVENT_OPEN_FILTER_ADVICE,
				event->name);
	if ((err == -ENOENT || err == -EBADF || err == -EINVAL) && is_refused_cgroup(event, args))
		return explain_cgroup(event, err, reterr);
	switch (-err) {
	case EACCES:
	case EPERM: return explain_permission(event, err, pid, reterr);
	case EINVAL:
		return args->group_fd >= 0 ? explain_group(event, err, reterr) : explain_invalid(event, err, reterr);
	case EOPNOTSUPP: return explain_unsupported(event, err, reterr);
	case EMFILE:
	case ENFILE: return explain_no_fds(event, err, reterr);
	case ENOENT:
		return diag_set(reterr, err, "event %s: no PMU of this machine counts it; cpu-clock works everywhere",
				event->name);
	case ENODEV:
	case ENXIO: return diag_set(reterr, err, "event %s: CPU %d is offline, or its PMU is gone", event->name, cpu);
	case ESRCH: return diag_set(reterr, err, "event %s: there is no task %d", event->name, pid);
	case EOVERFLOW:
		return diag_set(reterr, err, "event %s: max-stack %u is more than kernel.perf_event_max_stack (%ld)",
				event->name, event->attr.sample_max_stack,
				sysctl_or("/proc/sys/kernel/perf_event_max_stack", 0));
	case ENOSPC:
		return diag_set(reterr, err, "event %s: all breakpoint registers of the CPU are in use", event->name);
	case EBUSY: return diag_set(reterr, err, "event %s: another user of the PMU has it exclusively", event->name);
	case ENOSYS:
		return diag_set(reterr, err, "event %s: this kernel has no perf events (CONFIG_PERF_EVENTS)",
				event->name);
	default: return diag_set(reterr, err, "event %s: perf_event_open: %s", event->name, strerror(-err));
	}
}

/* Bits of event_fallbacks.missing. */
enum {
	MISSING_LOST,
	MISSING_WEIGHT_STRUCT,
	MISSING_BRANCH_HW_INDEX,
	MISSING_BPF_EVENT,
	MISSING_KSYMBOL,
	MISSING_CLOEXEC,
	MISSING_MMAP2,
	MISSING_EXCLUDE_GUEST,
	MISSING_SAMPLE_ID_ALL,
	MISSING_BRANCH_FLAGS,
	NR_MISSING,

	LIMIT_RAISED_TO_HARD = 30, /* RLIMIT_NOFILE, not a feature */
	LIMIT_RAISED_MORE = 31,
};

static const char *const missing_words[NR_MISSING] = {
	[MISSING_LOST] = "counts of lost records (Linux 6.0)",
	[MISSING_WEIGHT_STRUCT] = "weights in parts (5.12)",
	[MISSING_BRANCH_HW_INDEX] = "branch hw_idx (5.7)",
	[MISSING_BPF_EVENT] = "records of BPF programs (5.1)",
	[MISSING_KSYMBOL] = "records of kernel symbols (5.1)",
	[MISSING_CLOEXEC] = "PERF_FLAG_FD_CLOEXEC (3.14)",
	[MISSING_MMAP2] = "MMAP2 and COMM_EXEC (3.16)",
	[MISSING_EXCLUDE_GUEST] = "exclude_guest and exclude_host (3.2)",
	[MISSING_SAMPLE_ID_ALL] = "sample_id_all (2.6.38)",
	[MISSING_BRANCH_FLAGS] = "branch NO_FLAGS and NO_CYCLES",
};

/* Takes the feature out of the attr; false when the attr does not use it. */
static bool leave_out(struct perf_event_attr *attr, int feature)
{
	struct perf_event_attr before = *attr;

	switch (feature) {
	case MISSING_LOST: attr->read_format &= ~(uint64_t)PERF_FORMAT_LOST; break;
	case MISSING_WEIGHT_STRUCT:
		if (attr->sample_type & PERF_SAMPLE_WEIGHT_STRUCT)
			attr->sample_type |= PERF_SAMPLE_WEIGHT;
		attr->sample_type &= ~(uint64_t)PERF_SAMPLE_WEIGHT_STRUCT;
		break;
	case MISSING_BRANCH_HW_INDEX: attr->branch_sample_type &= ~(uint64_t)PERF_SAMPLE_BRANCH_HW_INDEX; break;
	case MISSING_BPF_EVENT: attr->bpf_event = 0; break;
	case MISSING_KSYMBOL: attr->ksymbol = 0; break;
	case MISSING_MMAP2:
		attr->mmap2 = 0;
		attr->comm_exec = 0;
		break;
	case MISSING_EXCLUDE_GUEST:
		attr->exclude_guest = 0;
		attr->exclude_host = 0;
		break;
	case MISSING_SAMPLE_ID_ALL: attr->sample_id_all = 0; break;
	case MISSING_BRANCH_FLAGS:
		attr->branch_sample_type &= ~(uint64_t)(PERF_SAMPLE_BRANCH_NO_FLAGS | PERF_SAMPLE_BRANCH_NO_CYCLES);
		break;
	}
	return memcmp(&before, attr, sizeof(before)) != 0;
}

static int call_open(const struct event *event, const struct event_fallbacks *fallbacks,
		     const struct event_open_args *args)
{
	unsigned long flags = fallbacks->cloexec_missing ? 0 : PERF_FLAG_FD_CLOEXEC;
	struct perf_event_attr attr = event->attr; /* the kernel may write its own size into it */
	int whose = event->in_cgroup ? event->cgroup_fd : args->pid;

	if (event->in_cgroup)
		flags |= PERF_FLAG_PID_CGROUP;
	long fd = syscall(SYS_perf_event_open, &attr, whose, args->cpu, args->group_fd, flags);

	return fd < 0 ? -errno : (int)fd;
}

/* First what the hard limit allows, then, with the rights for it, some more. */
static bool raise_fd_limit(struct event_fallbacks *fallbacks)
{
	enum { MORE_FDS = 1000 };
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return false;
	if (!(fallbacks->missing & 1u << LIMIT_RAISED_TO_HARD)) {
		fallbacks->missing |= 1u << LIMIT_RAISED_TO_HARD;
		if (limit.rlim_cur < limit.rlim_max) {
			limit.rlim_cur = limit.rlim_max;
			return setrlimit(RLIMIT_NOFILE, &limit) == 0;
		}
	}
	if (fallbacks->missing & 1u << LIMIT_RAISED_MORE)
		return false;
	limit.rlim_max += MORE_FDS;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0) {
		fallbacks->missing |= 1u << LIMIT_RAISED_MORE;
		return false;
	}
	return true;
}

/* The call, with as many files as it takes. */
static int try_open(const struct event *event, struct event_fallbacks *fallbacks, const struct event_open_args *args)
{
	int fd = call_open(event, fallbacks, args);

	while (fd == -EMFILE && raise_fd_limit(fallbacks))
		fd = call_open(event, fallbacks, args);
	return fd;
}

/* "P": the highest precision that opens. The precision stays what it was when none does. */
static int try_precisions(struct event *event, struct event_fallbacks *fallbacks, const struct event_open_args *args)
{
	int first = try_open(event, fallbacks, args), fd = first;
	unsigned highest = event->attr.precise_ip;

	if (!(event->given & EVENT_GIVEN_MAX_PRECISE))
		return fd;
	while ((fd == -EOPNOTSUPP || fd == -EINVAL || fd == -ENOENT) && event->attr.precise_ip > 0) {
		event->attr.precise_ip--;
		fd = try_open(event, fallbacks, args);
	}
	if (fd >= 0)
		return fd;
	event->attr.precise_ip = highest & 3;
	return first;
}

/* Is it only together with its leader that the kernel refuses it? Then no feature is missing. */
static bool opens_alone(const struct event *event, struct event_fallbacks *fallbacks,
			const struct event_open_args *args)
{
	struct event_open_args alone = {args->pid, args->cpu, -1};
	int fd = try_open(event, fallbacks, &alone);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/* The attr without these features. */
static struct event without(const struct event *event, unsigned gone, struct event_fallbacks *fallbacks)
{
	struct event less = *event;

	for (int feature = 0; feature < NR_MISSING; feature++)
		if (gone & 1u << feature)
			leave_out(&less.attr, feature);
	fallbacks->missing |= gone;
	fallbacks->cloexec_missing |= (gone & 1u << MISSING_CLOEXEC) != 0;
	return less;
}

/*
 * The event is open without the features that are `gone`, of which the last one may have been the only one that
 * mattered: a PMU may refuse exclude_guest on a kernel that has all of them. What opens with a feature keeps it.
 */
static int give_back(struct event *event, struct event_fallbacks *fallbacks, const struct event_open_args *args, int fd,
		     const struct event *whole, struct event_fallbacks known, unsigned gone)
{
	for (int feature = 0; feature < NR_MISSING && gone & (gone - 1); feature++) {
		if (!(gone & 1u << feature))
			continue;
		struct event_fallbacks fewer = known;
		struct event more = without(whole, gone & ~(1u << feature), &fewer);
		int again = try_precisions(&more, &fewer, args);
		if (again < 0)
			continue;
		close(fd);
		fd = again;
		gone &= ~(1u << feature);
		event->attr = more.attr;
		*fallbacks = fewer;
	}
	return fd;
}

/* On EINVAL one feature after the other goes, and those that the kernel lacks stay away. */
static int try_features(struct event *event, struct event_fallbacks *fallbacks, const struct event_open_args *args)
{
	int fd = try_precisions(event, fallbacks, args);

	if (fd == -EINVAL && args->group_fd >= 0 && opens_alone(event, fallbacks, args))
		return fd;
	const struct event whole = *event;
	const struct event_fallbacks known = *fallbacks;
	for (int feature = 0; fd == -EINVAL && feature < NR_MISSING; feature++) {
		if (fallbacks->missing & 1u << feature)
			continue;
		if (feature == MISSING_CLOEXEC)
			fallbacks->cloexec_missing = true;
		else if (!leave_out(&event->attr, feature))
			continue;
		fallbacks->missing |= 1u << feature;
		fd = try_precisions(event, fallbacks, args);
	}
	unsigned gone = fallbacks->missing & ~known.missing & ((1u << NR_MISSING) - 1);
	return fd < 0 ? fd : give_back(event, fallbacks, args, fd, &whole, known, gone);
}

/* A PMU may refuse this on a kernel that has it: the events behind it are asked. The kernel's own take it. */
static bool refused_by_pmu(const struct event *event, unsigned before, unsigned after)
{
	bool of_kernel = event->attr.type == PERF_TYPE_SOFTWARE || event->attr.type == PERF_TYPE_TRACEPOINT;

	return (after & ~before) & 1u << MISSING_EXCLUDE_GUEST && !of_kernel;
}

static void say_missing(const struct event *event, unsigned before, unsigned after)
{
	for (int feature = 0; feature < NR_MISSING; feature++) {
		if (!((after & ~before) & 1u << feature))
			continue;
		if (feature == MISSING_EXCLUDE_GUEST && refused_by_pmu(event, before, after))
			log_verbose("%s: its PMU takes no exclude_guest or exclude_host: recording without",
				    event->name);
		else
			log_verbose("this kernel lacks %s: recording without", missing_words[feature]);
	}
}

bool event_cpu_is_offline(int cpu)
{
	return try_dummy(&(struct event_open_args){.cpu = cpu}, -1, 0) == -ENODEV;
}

/* A machine without a PMU for cycles can still look at the clock. */
static bool replace_cycles(struct event *event, int err, const struct event_open_args *args)
{
	struct perf_event_attr *attr = &event->attr;

	if (err != -ENOENT && err != -ENXIO && err != -ENODEV)
		return false;
	if (err == -ENODEV && args->pid < 0 && event_cpu_is_offline(args->cpu))
		return false;
	if (attr->type != PERF_TYPE_HARDWARE || attr->config != PERF_COUNT_HW_CPU_CYCLES)
		return false;
	attr->type = PERF_TYPE_SOFTWARE;
	attr->config = PERF_COUNT_SW_CPU_CLOCK;
	return true;
}

/* Without the right to watch the kernel the user's side is left. */
static bool restrict_to_user(struct event *event, int err)
{
	struct perf_event_attr *attr = &event->attr;

	if ((err != -EACCES && err != -EPERM) || attr->exclude_kernel || attr->exclude_user || paranoid_level() <= 1)
		return false;
	attr->exclude_kernel = 1;
	attr->exclude_hv = 1;
	return true;
}

/* The label that perf gives to an event that became another one. NULL: stays as it is. */
static char *changed_name(const struct event *event, bool replaced)
{
	size_t len = strlen(event->name);
	char *name;

	/* The label of a tracepoint is what readers find its format by. */
	if (event->given & EVENT_GIVEN_NAME || event->tracepoint_system)
		return NULL;
	if (replaced)
		return event_derived_name(&event->attr);
	bool has_modifiers = strchr(event->name, ':') || (len && event->name[len - 1] == '/');
	return asprintf(&name, "%s%s", event->name, has_modifiers ? "u" : ":u") < 0 ? NULL : name;
}

static void say_changed(struct event *event, bool replaced, bool restricted)
{
	if (!replaced && !restricted)
		return;
	log_note("%s: %s%s%s: sampling %s%s", event->name, replaced ? "this machine has no PMU that counts cycles" : "",
		 replaced && restricted ? ", and " : "",
		 restricted ? "kernel.perf_event_paranoid forbids to watch the kernel" : "",
		 replaced ? "cpu-clock instead" : "user space only",
		 replaced && restricted ? ", of user space only" : "");
	char *name = changed_name(event, replaced);
	if (name) {
		free(event->name);
		event->name = name;
	}
}

/*
 * What an event is refused for although everything went that can go: the one thing without which it opens. It is
 * an error: to record less than was asked for would not be seen.
 */
static const char *missing_need(const struct event *event, struct event_fallbacks *fallbacks,
				const struct event_open_args *args)
{
	for (size_t i = 0; i < NR_FIELDS + NR_BITS; i++) {
		struct event less = *event;
		const char *word;
		if (!leave_need_out(&less.attr, i, &word))
			continue;
		int fd = try_open(&less, fallbacks, args);
		if (fd >= 0) {
			close(fd);
			return word;
		}
	}
	return NULL;
}

static int refuse(const struct event *event, int err, struct event_fallbacks *fallbacks,
		  const struct event_open_args *args, struct diag *reterr)
{
	bool forbidden = err == -EACCES || err == -EPERM;
	struct event_open_args alone = {args->pid, args->cpu, -1};

	/* Not its group is why: without what is missing it still differs from its leader. */
	if (err == -EINVAL && args->group_fd >= 0 && !opens_alone(event, fallbacks, args))
		args = &alone;
	const char *word = err == -EINVAL || forbidden ? missing_need(event, fallbacks, args) : NULL;
	if (word)
		return diag_set(reterr, err, "event %s%s: %s %s", event->name,
				event->off_cpu && event->tracepoint_system ? " (--off-cpu), a tracepoint" : "",
				forbidden ? "only CAP_PERFMON (root) gives" : "this kernel has no", word);
	return explain_open(event, err, args, reterr);
}

int event_open(struct event *event, struct event_fallbacks *fallbacks, const struct event_open_args *args, bool first,
	       struct diag *reterr)
{
	if (!first) {
		int fd = try_open(event, fallbacks, args);
		return fd < 0 ? explain_open(event, fd, args, reterr) : fd;
	}

	unsigned before = fallbacks->missing;
	bool replaced = false, restricted = false;
	for (int feature = 0; feature < NR_MISSING; feature++) {
		if (before & 1u << feature)
			leave_out(&event->attr, feature);
	}
	int fd = try_features(event, fallbacks, args);
	while (fd < 0) {
		if (replace_cycles(event, fd, args))
			replaced = true;
		else if (restrict_to_user(event, fd))
			restricted = true;
		else
			return refuse(event, fd, fallbacks, args, reterr);
		fd = try_features(event, fallbacks, args);
	}
	say_missing(event, before, fallbacks->missing);
	if (refused_by_pmu(event, before, fallbacks->missing))
		fallbacks->missing &= ~(1u << MISSING_EXCLUDE_GUEST);
	say_changed(event, replaced, restricted);
	return fd;
}
