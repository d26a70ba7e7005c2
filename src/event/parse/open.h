/* SPDX-License-Identifier: MIT */
/* open: perf_event_open(2) for an event of a recording. One thread. */
#pragma once

#include <stdbool.h>

struct diag;
struct event;

/* What event_open() found missing in this kernel; starts zeroed, shared by all opens of a recording. */
struct event_fallbacks {
	unsigned missing; /* private to open.c */
	bool cloexec_missing;
};

/* Where an event is opened: arguments of perf_event_open(2). */
struct event_open_args {
	int pid, cpu;
	int group_fd; /* of the leader of its group, for the same pid and cpu; -1: none */
};

#define EVENT_OPEN_FILTER_ADVICE                                                                                       \
	"start the container with --security-opt seccomp=unconfined (podman, docker) or "                              \
	"--system-call-filter=perf_event_open (systemd-nspawn)"

/* Whether a seccomp filter refuses every perf_event_open(2) of this process, whatever its arguments. */
bool event_open_is_filtered(void);

/* Whether no event of all tasks can be opened on this CPU now, whatever it counts. */
bool event_cpu_is_offline(int cpu);

/*
 * Opens the event; with PERF_FLAG_FD_CLOEXEC if the kernel has it. The first open of an event may change its attr and
 * name (older kernel, cycles without a PMU, no permission for kernel samples); log_note() or log_verbose() says so.
 * Later opens change nothing. Returns the fd, or -errno with a diag that names event, cause and remedy (sysctl,
 * capability).
 */
int event_open(struct event *event, struct event_fallbacks *fallbacks, const struct event_open_args *args, bool first,
	       struct diag *reterr);
