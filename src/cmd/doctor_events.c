/* SPDX-License-Identifier: MIT */
/* Each probe opens what a recording would open, for a moment; the reasons are those that millrace record would give. */
#include "cmd/doctor.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/cpuset.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "event/event.h"
#include "record/eventset.h"
#include "record/plan.h"
#include "record/target.h"

/* Parsed and configured as for a recording of that kind. */
static int make_events(const char *text, const struct event_options *options, struct event_list *list, struct diag *reterr)
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
	struct event_place place = {.pid = all ? -1 : 0, .cpu = all ? sched_getcpu() : -1, .group_fd = -1};
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
		doctor_add(doctor, DOCTOR_NO, name, "this machine has no PMU: a virtual machine needs a virtual PMU from its host; "
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
		if (pread(fd, &segment, sizeof(segment), (off_t)(header.e_phoff + i * sizeof(segment))) != sizeof(segment))
			return 0;
		if (segment.p_type == PT_LOAD && header.e_entry - segment.p_vaddr < segment.p_filesz)
			return header.e_entry - segment.p_vaddr + segment.p_offset;
	}
	return 0;
}

static void probe_uprobe(struct doctor *doctor)
{
	static const char type_path[] = "/sys/bus/event_source/devices/uprobe/type";
	char self[4096];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	long type;

	if (fd_slurp_long(type_path, &type)) {
		doctor_add(doctor, DOCTOR_NO, "uprobes", "there is no %s: it takes a kernel with CONFIG_UPROBE_EVENTS, and /sys",
			   type_path);
		return;
	}
	self[len > 0 ? len : 0] = '\0';
	struct perf_event_attr attr = {
		.type = (uint32_t)type,
		.size = sizeof(attr),
		.disabled = 1,
		.uprobe_path = (uint64_t)(uintptr_t)self,
		.probe_offset = entry_offset(self),
	};
	long fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd >= 0)
		close((int)fd);
	doctor_add(doctor, fd < 0 ? DOCTOR_NO : DOCTOR_YES, "uprobes", "%s%s", fd < 0 ? strerror(errno) : "",
		   fd < 0 ? ": run as root (CAP_PERFMON)" : "");
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
	struct eventset_sizes sizes = {.exact = true};
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

void doctor_look_at_events(struct doctor *doctor)
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
