/* SPDX-License-Identifier: MIT */
/* millrace doctor: what works here, found out by trying it, and what would make the rest work. */

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/cpuset.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "cmd/cli/command.h"
#include "cmd/cli/json_writer.h"
#include "cmd/cli/terminal.h"
#include "event/names/names.h"
#include "event/parse/event.h"
#include "event/parse/open.h"
#include "record/setup/eventset.h"
#include "record/setup/plan.h"
#include "record/setup/target.h"
#include "sysinfo/privileges.h"

enum { EXIT_NONE = 1, EXIT_ERROR = 255 };

enum doctor_state { DOCTOR_YES, DOCTOR_NO, DOCTOR_NOTE };

struct finding {
	const char *group, *name;
	enum doctor_state state;
	char text[320]; /* no: why, and the one thing that would change it */
};

struct doctor {
	struct finding findings[64];
	size_t nr;
	const char *group; /* of what is added next */
};

__attribute__((format(printf, 4, 5))) static void doctor_add(struct doctor *doctor, enum doctor_state state,
							     const char *name, const char *format, ...)
{
	va_list args;

	if (doctor->nr == sizeof(doctor->findings) / sizeof(doctor->findings[0]))
		return;
	struct finding *finding = &doctor->findings[doctor->nr++];
	*finding = (struct finding){.group = doctor->group, .name = name, .state = state};
	va_start(args, format);
	vsnprintf(finding->text, sizeof(finding->text), format, args);
	va_end(args);
}

/* Parsed and configured as for a recording of that kind. */
static int make_events(const char *text, const struct event_options *options, struct event_list *list,
		       struct diag *reterr)
{
	int err = event_list_parse(list, text, reterr);

	return err ? err : event_list_configure(list, options, reterr);
}

/* All tasks of the CPU that we run on, or ourselves. */
static int try_event(const char *text, const struct event_options *options, struct diag *reterr)
{
	struct event_list list __attribute__((cleanup(event_list_fini))) = {0};
	struct event_fallbacks fallbacks = {0};
	bool all = options->target == EVENT_TARGET_SYSTEM;
	struct event_open_args place = {.pid = all ? -1 : 0, .cpu = all ? sched_getcpu() : -1, .group_fd = -1};
	int err = make_events(text, options, &list, reterr);

	if (err)
		return err;
	int fd = event_open(&list.events[0], &fallbacks, &place, true, reterr);
	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static void probe(struct doctor *doctor, const char *name, const char *text, struct event_options options)
{
	struct diag diag = {""};
	int err = try_event(text, &options, &diag);

	if (err == -ENOENT && !strncmp(text, "instructions", 12)) {
		doctor_add(doctor, DOCTOR_NO, name,
			   "this machine has no PMU: a virtual machine needs a virtual PMU from its host; "
			   "cpu-clock works without");
		return;
	}
	doctor_add(doctor, err ? DOCTOR_NO : DOCTOR_YES, name, "%s", err ? diag.text : "");
}

/* Where the first instruction of a program lies in its file. 0: no ELF of 64 bits. */
static uint64_t entry_offset(const char *path)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf64_Ehdr header;
	Elf64_Phdr segment;

	if (fd < 0 || pread(fd, &header, sizeof(header), 0) != sizeof(header) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) || header.e_ident[EI_CLASS] != ELFCLASS64)
		return 0;
	for (unsigned i = 0; i < header.e_phnum; i++) {
		if (pread(fd, &segment, sizeof(segment), (off_t)(header.e_phoff + i * sizeof(segment))) !=
		    sizeof(segment))
			return 0;
		if (segment.p_type == PT_LOAD && header.e_entry - segment.p_vaddr < segment.p_filesz)
			return header.e_entry - segment.p_vaddr + segment.p_offset;
	}
	return 0;
}

/* Of the program that runs. NULL: not known, as /proc is not mounted, or out of memory. The caller frees it. */
static char *own_path(void)
{
	return realpath("/proc/self/exe", NULL);
}

static void probe_uprobe(struct doctor *doctor)
{
	static const char type_path[] = "/sys/bus/event_source/devices/uprobe/type";
	AUTO_FREE char *self = own_path();
	long type;

	if (!self) {
		doctor_add(doctor, DOCTOR_NO, "uprobes", "there is no /proc/self/exe: is /proc mounted?");
		return;
	}

	if (fd_slurp_long(type_path, &type)) {
		doctor_add(doctor, DOCTOR_NO, "uprobes",
			   "there is no %s: it takes a kernel with CONFIG_UPROBE_EVENTS, and /sys", type_path);
		return;
	}
	struct perf_event_attr attr = {
		.type = (uint32_t)type,
		.size = sizeof(attr),
		.disabled = 1,
		.uprobe_path = (uint64_t)(uintptr_t)self,
		.probe_offset = entry_offset(self),
	};
	long fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	int err = fd < 0 ? errno : 0;
	if (fd >= 0) {
		close((int)fd);
		doctor_add(doctor, DOCTOR_YES, "uprobes", "%s", self);
	} else if (event_open_is_filtered()) {
		doctor_add(doctor, DOCTOR_NO, "uprobes", "a seccomp filter refuses perf_event_open(2): %s",
			   EVENT_OPEN_FILTER_ADVICE);
	} else if (err == EACCES || err == EPERM) {
		doctor_add(doctor, DOCTOR_NO, "uprobes",
			   "not permitted: uprobes take CAP_SYS_ADMIN, on some kernels CAP_PERFMON (%s)",
			   privileges_advice());
	} else {
		doctor_add(doctor, DOCTOR_NO, "uprobes", "%s: %s", self, strerror(err));
	}
}

static void probe_breakpoint(struct doctor *doctor)
{
	static char watched[8] __attribute__((aligned(8)));
	char text[64];

	snprintf(text, sizeof(text), "mem:%#llx/8:w:u", (unsigned long long)(uintptr_t)watched);
	probe(doctor, "breakpoints", text, (struct event_options){.target = EVENT_TARGET_TASKS});
}

static void probe_rings(struct doctor *doctor)
{
	struct event_list list __attribute__((cleanup(event_list_fini))) = {0};
	struct target target __attribute__((cleanup(target_fini))) = {0};
	char pid[16];
	snprintf(pid, sizeof(pid), "%d", getpid());
	struct target_request request = {.tids = pid};
	struct event_options options = {.target = EVENT_TARGET_TASKS, .threads_only = true};
	struct ring_sizes sizes = {.exact = true};
	struct diag diag = {""};
	struct eventset set = {0};
	struct plan plan = {0};
	int err = target_resolve(&request, &target, &diag);

	if (!err)
		err = make_events("cpu-clock:u", &options, &list, &diag);
	if (!err)
		err = plan_make(&list, &target, &plan);
	if (!err)
		err = eventset_open(&set, &plan, &list, sizes, &diag);
	if (!err)
		doctor_add(doctor, DOCTOR_YES, "rings of the usual size", "%zu of %zu KiB", plan.nr_rings,
			   set.ring_pages * (size_t)sysconf(_SC_PAGESIZE) / 1024);
	else
		doctor_add(doctor, DOCTOR_NO, "rings of the usual size", "%s", diag.text);
	eventset_close(&set);
	plan_fini(&plan);
}

/* Events, call graphs and rings, by opening them. */
static void doctor_look_at_events(struct doctor *doctor)
{
	const struct event_options own = {.target = EVENT_TARGET_TASKS}, all = {.target = EVENT_TARGET_SYSTEM};
	struct event_options graph = own;

	doctor->group = "Events";
	probe(doctor, "own processes, user space", "cpu-clock:u", own);
	probe(doctor, "own processes, in the kernel, too", "cpu-clock:k", own);
	probe(doctor, "everything (-a)", "cpu-clock:k", all);
	probe(doctor, "hardware counters", "instructions:u", own);
	probe(doctor, "tracepoints of own processes", "sched:sched_switch", own);
	probe(doctor, "tracepoints of everything", "sched:sched_switch", all);
	probe_breakpoint(doctor);
	probe_uprobe(doctor);
	doctor->group = "Call graphs";
	graph.callgraph = CALLGRAPH_FP;
	probe(doctor, "fp", "cpu-clock:u", graph);
	graph.callgraph = CALLGRAPH_DWARF;
	probe(doctor, "dwarf", "cpu-clock:u", graph);
	graph.callgraph = CALLGRAPH_LBR;
	probe(doctor, "lbr", "instructions:u", graph);
	doctor->group = "Rings";
	probe_rings(doctor);
}

/* Meanings of the sysctls: Documentation/admin-guide/sysctl/kernel.rst. */
static void look_at_rights(struct doctor *doctor)
{
	AUTO_FREE char *self = own_path();
	bool has_it = privileges_have_perfmon();
	long level;

	if (has_it && !privileges_are_namespaced())
		doctor_add(doctor, DOCTOR_YES, "CAP_PERFMON", "of the whole machine");
	else if (has_it)
		doctor_add(doctor, DOCTOR_NO, "CAP_PERFMON",
			   "only in this user namespace, where it does not count: run as root on the host");
	else if (geteuid() == 0)
		doctor_add(doctor, DOCTOR_NO, "CAP_PERFMON",
			   "root without it: start the container with --cap-add PERFMON (podman, docker), "
			   "--capability=CAP_PERFMON (systemd-nspawn)");
	else
		doctor_add(doctor, DOCTOR_NO, "CAP_PERFMON",
			   "run as root, or as root: setcap cap_perfmon,cap_ipc_lock+ep %s", self ? self : "millrace");
	if (fd_slurp_long("/proc/sys/kernel/perf_event_paranoid", &level))
		doctor_add(doctor, DOCTOR_NO, "kernel.perf_event_paranoid",
			   "cannot be read: it takes /proc, and a kernel with CONFIG_PERF_EVENTS");
	else
		doctor_add(doctor, DOCTOR_NOTE, "kernel.perf_event_paranoid", "%ld: without CAP_PERFMON %s", level,
			   level > 2    ? "the user space of own processes; on kernels of Debian and Ubuntu nothing"
			   : level == 2 ? "the user space of own processes"
			   : level == 1 ? "own processes, in the kernel, too"
			   : level == 0 ? "everything but tracepoints: of these the system calls of own processes"
					: "everything, with any amount of ring memory");
}

/*
 * Of the first lines, not all of which are about an address other than 0. -errno: it cannot be read; else whether one
 * is shown. Who is shown them: kernel/kallsyms.c, kallsyms_show_value().
 */
static int shows_addresses(void)
{
	AUTO_FILE FILE *file = fopen("/proc/kallsyms", "re");
	unsigned long long addr = 0;
	int nr = 0;

	while (file && nr < 3 && !addr && fscanf(file, "%llx%*[^\n]", &addr) == 1)
		nr++;
	return nr ? addr != 0 : -ENOENT;
}

static void look_at_kallsyms(struct doctor *doctor)
{
	int shown = shows_addresses();
	long restricted = 0;

	fd_slurp_long("/proc/sys/kernel/kptr_restrict", &restricted);
	if (shown < 0)
		doctor_add(doctor, DOCTOR_NO, "/proc/kallsyms",
			   "cannot be read: kernel addresses have no names; is /proc mounted?");
	else if (shown)
		doctor_add(doctor, DOCTOR_YES, "/proc/kallsyms", "kernel addresses have names");
	else if (restricted >= 2)
		doctor_add(doctor, DOCTOR_NO, "/proc/kallsyms",
			   "shows no addresses, not even to root: kernel.kptr_restrict is %ld; as root: sysctl "
			   "kernel.kptr_restrict=1 for those with CAP_SYSLOG, or: sysctl kernel.kptr_restrict=0 "
			   "kernel.perf_event_paranoid=1",
			   restricted);
	else
		doctor_add(doctor, DOCTOR_NO, "/proc/kallsyms",
			   "shows no addresses: it takes CAP_SYSLOG (%s), or: sysctl kernel.kptr_restrict=0 "
			   "kernel.perf_event_paranoid=1",
			   privileges_advice());
}

static void look_at_tracefs(struct doctor *doctor)
{
	struct diag diag = {""};
	const char *root = tracefs_path(&diag);
	AUTO_FREE char *path = NULL;
	long id;

	if (!root) {
		doctor_add(doctor, DOCTOR_NO, "tracefs", "%s", diag.text);
		return;
	}
	/* A directory may be open to more users than what recording reads of its files. */
	if (asprintf(&path, "%s/events/sched/sched_switch/id", root) < 0)
		path = NULL;
	int err = path ? fd_slurp_long(path, &id) : -ENOMEM;
	if (!err)
		doctor_add(doctor, DOCTOR_YES, "tracefs", "%s", root);
	else if (err != -EACCES && err != -EPERM)
		doctor_add(doctor, DOCTOR_NO, "tracefs", "%s: %s", path ? path : root, strerror(-err));
	else
		doctor_add(doctor, DOCTOR_NO, "tracefs", "%s: %s; as root: mount -o remount,mode=750,gid=%u %s", path,
			   strerror(-err), (unsigned)getegid(), root);
}

static void look_at_cgroups(struct doctor *doctor)
{
	AUTO_FREE char *root = cgroup_root();

	if (root)
		doctor_add(doctor, DOCTOR_YES, "cgroups (-G, --all-cgroups)", "%s", root);
	else
		doctor_add(doctor, DOCTOR_NO, "cgroups (-G, --all-cgroups)",
			   "neither version 2 nor the controller perf_event is mounted: %s",
			   access("/proc/self/mounts", F_OK) ? "is /proc mounted?"
			   : access("/sys/fs/cgroup", F_OK)  ? "is /sys mounted?"
							     : "mount -t cgroup2 none /sys/fs/cgroup");
}

static void look_at_limits(struct doctor *doctor)
{
	struct rlimit fds = {0}, locked = {0};
	long mlock_kb = 0, level = 2, cpus = sysconf(_SC_NPROCESSORS_ONLN);

	getrlimit(RLIMIT_NOFILE, &fds);
	getrlimit(RLIMIT_MEMLOCK, &locked);
	doctor_add(doctor, DOCTOR_NOTE, "open files", "%llu: one for each event, CPU and thread; more: ulimit -n",
		   (unsigned long long)fds.rlim_max);
	if (fd_slurp_long("/proc/sys/kernel/perf_event_mlock_kb", &mlock_kb) == 0)
		doctor_add(doctor, DOCTOR_NOTE, "memory for rings",
			   "kernel.perf_event_mlock_kb %ld KiB for each of %ld CPUs", mlock_kb, cpus);
	/* Source: kernel/events/core.c, perf_mmap(). */
	fd_slurp_long("/proc/sys/kernel/perf_event_paranoid", &level);
	if (locked.rlim_cur == RLIM_INFINITY || level < 0 || privileges_may_lock_memory())
		doctor_add(doctor, DOCTOR_NOTE, "locked memory beyond that", "as much as there is");
	else
		doctor_add(doctor, DOCTOR_NOTE, "locked memory beyond that",
			   "%llu KiB; more: ulimit -l, or CAP_IPC_LOCK", (unsigned long long)locked.rlim_cur / 1024);
}

static void look_at_surroundings(struct doctor *doctor)
{
	AUTO_BUF struct buf lockdown = {0};

	if (access("/proc/self/ns/user", F_OK))
		doctor_add(doctor, DOCTOR_NO, "/proc",
			   "is not mounted: running tasks have no names: mount -t proc proc /proc");
	else if (privileges_are_namespaced())
		doctor_add(
			doctor, DOCTOR_NOTE, "container",
			"a user namespace: its rights do not count; more than own processes is recorded on the host");
	else if (privileges_pids_are_namespaced())
		doctor_add(doctor, DOCTOR_NOTE, "container",
			   "a process namespace: processes outside of it have no number and no name here; record on "
			   "the host to see them");
	else
		doctor_add(doctor, DOCTOR_NOTE, "container", "none");
	if (event_open_is_filtered())
		doctor_add(doctor, DOCTOR_NO, "seccomp", "the filter refuses perf_event_open(2): %s",
			   EVENT_OPEN_FILTER_ADVICE);
	else if (prctl(PR_GET_SECCOMP) > 0)
		doctor_add(doctor, DOCTOR_NOTE, "seccomp", "a filter is on, which allows perf_event_open(2)");
	else
		doctor_add(doctor, DOCTOR_NOTE, "seccomp", "no filter");
	if (fd_slurp("/sys/kernel/security/lockdown", 256, &lockdown))
		doctor_add(doctor, DOCTOR_NOTE, "lockdown", "this kernel does not say");
	else if (strstr(buf_text(&lockdown), "[confidentiality]"))
		doctor_add(doctor, DOCTOR_NO, "lockdown",
			   "confidentiality: no tracing of the kernel; boot with lockdown=integrity");
	else
		doctor_add(doctor, DOCTOR_NOTE, "lockdown", "does not forbid anything here");
}

/* Sources, limits and what stands around us, by reading and trying them. */
static void doctor_look_at_system(struct doctor *doctor)
{
	doctor->group = "Rights";
	look_at_rights(doctor);
	doctor->group = "Sources";
	look_at_kallsyms(doctor);
	look_at_tracefs(doctor);
	look_at_cgroups(doctor);
	doctor->group = "Limits";
	look_at_limits(doctor);
	doctor->group = "Surroundings";
	look_at_surroundings(doctor);
}

/* millrace doctor: what works here, found out by doing it, and what would make the rest work. */
struct doctor_options {
	bool json;
};

static const struct option doctor_table[] = {
	{.name = "json",
	 .set = option_set_flag,
	 .offset = offsetof(struct doctor_options, json),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Print a JSON array of objects with group, name, state and text"},
	{.set = NULL},
};

static const char *const state_words[] = {[DOCTOR_YES] = "yes", [DOCTOR_NO] = "no", [DOCTOR_NOTE] = "note"};

/* The reason: WHY of "event NAME: WHY", which may be the same for many events; of others the whole text. */
static const char *why(const struct finding *finding)
{
	static const char event[] = "event ";
	const char *colon = strstr(finding->text, ": ");

	return colon && strncmp(finding->text, event, strlen(event)) == 0 ? colon + 2 : finding->text;
}

/* The first finding with the same reason; NULL: that is this finding, or the reason is short. */
static const struct finding *first_alike(const struct doctor *doctor, const struct finding *finding)
{
	enum { SHORT = 60 };
	const struct finding *first = doctor->findings;

	while (strcmp(why(first), why(finding)) != 0)
		first++;
	return first == finding || strlen(why(first)) <= SHORT ? NULL : first;
}

static void print_text(const struct doctor *doctor)
{
	const char *group = NULL;

	for (size_t i = 0; i < doctor->nr; i++) {
		const struct finding *finding = &doctor->findings[i], *first = first_alike(doctor, finding);
		if (finding->group != group)
			printf("%s%s\n", group ? "\n" : "", finding->group);
		group = finding->group;
		printf("  %-4s  %-*s%s%s\n", state_words[finding->state], *finding->text ? 38 : 0, finding->name,
		       first ? "as for: " : "", first ? first->name : finding->text);
	}
}

static void print_json(const struct doctor *doctor)
{
	struct json_writer json = {.to = stdout};

	json_array(&json, NULL);
	for (size_t i = 0; i < doctor->nr; i++) {
		const struct finding *finding = &doctor->findings[i];
		json_break(&json);
		json_object(&json, NULL);
		json_text(&json, "group", finding->group);
		json_text(&json, "name", finding->name);
		json_text(&json, "state", state_words[finding->state]);
		json_text(&json, "text", finding->text);
		json_end(&json);
	}
	json_end(&json);
	printf("\n");
}

static int run(int argc, char **argv)
{
	static struct doctor doctor; /* some kilobytes */
	struct doctor_options options = {0};
	int first;

	switch (option_parse(&command_doctor, argc, argv, &options, &first)) {
	case OPTION_EXIT: return 0;
	case OPTION_BAD: return COMMAND_USAGE;
	case OPTION_OK: break;
	}
	if (first < argc) {
		log_error("doctor takes no argument, but got \"%s\"", argv[first]);
		return COMMAND_USAGE;
	}
	doctor = (struct doctor){0};
	/* Where there is no tracefs, parsing an event mounts it: here for this process alone */
	if (unshare(CLONE_NEWNS) == 0)
		(void)!mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	log_set_level(LOG_ERRORS); /* what an event falls back to is no answer here */
	doctor_look_at_events(&doctor);
	doctor_look_at_system(&doctor);
	(options.json ? print_json : print_text)(&doctor);
	/* The first finding: can anything be recorded at all? */
	bool none = doctor.findings[0].state == DOCTOR_NO;
	return standard_output_flush() ? EXIT_ERROR : none ? EXIT_NONE : 0;
}

const struct command command_doctor = {
	.name = "doctor",
	.summary = "Say what can be recorded here, and what would make the rest work",
	.usage = "[--json]",
	.description =
		"Tries events, call graphs, rings and what recording reads, with the rights of its user, and prints "
		"yes or no for each; for each no, why, and the one thing that would change it. Nothing is changed and "
		"no file is written. The exit status is 1 when nothing can be recorded at all.",
	.options = doctor_table,
	.run = run,
};
