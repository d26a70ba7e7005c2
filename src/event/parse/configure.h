/* SPDX-License-Identifier: MIT */
/* configure: sets the attrs of events from the options of a recording. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "event/parse/event.h"

struct diag;

enum event_target {
	EVENT_TARGET_WORKLOAD, /* a command that we start */
	EVENT_TARGET_SYSTEM,   /* -a */
	EVENT_TARGET_CPUS,     /* -C: without -a also all tasks, of these CPUs */
	EVENT_TARGET_TASKS,    /* -p, -t */
};

#define EVENT_FREQ_MAX UINT64_MAX

enum {
	EVENT_DUMP_BYTES = 8192, /* of user stack in a sample, by default */
	EVENT_UNWIND_BYTES =
		16384,             /* the same for --call-graph unwind: the recorder unwinds it and does not store it */
	EVENT_KERNEL_FRAMES = 127, /* the most that the kernel finds by default: kernel.perf_event_max_stack */
	EVENT_DUMP_BYTES_MAX = 65528, /* perf_event_open(2): a multiple of 8, and the sample's size has 16 bits */
};

/* What the options say about all events. */
struct event_options {
	enum event_target target;
	uint64_t freq_hz;     /* -F; 0: not given; EVENT_FREQ_MAX: the highest that the kernel allows */
	uint64_t max_freq_hz; /* the highest that the kernel allows; 0: read it from
				 (kernel.perf_event_max_sample_rate) */
	uint64_t period;      /* -c; 0: not given */
	enum event_callgraph callgraph;
	bool no_callgraph;   /* asked for: --off-cpu has none, either */
	uint32_t dump_bytes; /* of the user stack, with dwarf or unwind; 0: the default; rounded up to 8 */
	unsigned max_stack;  /* --max-stack: frames of call chains; 0: the default */
	bool inherit;        /* false: -i, -t, --per-thread */
	bool per_thread;     /* --per-thread */
	bool threads_only;   /* -t */
	bool addresses;      /* -d */
	bool timestamps;     /* -T given */
	bool no_timestamps;  /* --no-timestamp */
	bool periods;        /* -P given */
	bool no_periods;     /* --no-period */
	uint64_t lean;    /* --lean: of PERF_SAMPLE_PERIOD and PERF_SAMPLE_IP, what samples of tracepoints leave out */
	bool raw;         /* -R */
	bool no_samples;  /* -n: a period of 0, except for events whose own text gives one */
	bool stat;        /* -s */
	bool delayed;     /* -D other than 0 */
	bool pipe_output; /* the output is a pipe, so samples have an id even if there is only one event */
	bool overwrite_rings; /* the recorder maps overwrite rings; else events with `overwrite` are
				 refused */
	bool side_channel;    /* task events come from an event of their own, which event.side_channel marks */
	bool overwrite;       /* --overwrite: for all events whose own text does not say no-overwrite */
	bool has_workload;    /* a command runs also with -a or -p */

	/* What each sample holds in addition: configure.c. */
	bool cpus, weights, transactions, physical_addresses, data_page_sizes, code_page_sizes;
	bool identifiers;       /* --sample-identifier */
	bool running_times;     /* --running-time */
	uint64_t intr_regs;     /* -I; 0: none */
	uint64_t user_regs;     /* --user-regs; 0: none, or with dwarf all */
	uint64_t branches;      /* -b, -j: PERF_SAMPLE_BRANCH_*; 0: no branch stacks */
	bool kernel_callchains; /* --kernel-callchains: without the user part */
	bool user_callchains;   /* --user-callchains: without the kernel part */
	bool all_kernel, all_user;
	bool use_clockid; /* -k */
	int clockid;
	bool no_buffering; /* a wake-up for every record */
	bool group;        /* --group: all events in one */
	bool strict_freq;  /* refuse a frequency that would have to be lowered */

	struct {
		bool on;         /* --off-cpu */
		uint64_t min_ns; /* waits that are shorter are not written one by one */
		bool wakers;     /* --off-cpu-wakers: the call chain of the task that wakes another */
	} off_cpu;

	/* What is recorded of tasks in addition to maps, names, forks and exits. */
	bool switches, namespaces, cgroups, map_build_ids;
	bool no_bpf_events;
};

/*
 * Sets every attr as perf record 6.1 does for the same options, adds a dummy event for task events where perf does
 * (system-wide recordings), and lowers a frequency that the kernel would refuse (with a log_note).
 */
int event_list_configure(struct event_list *list, const struct event_options *options, struct diag *reterr);

bool attr_is_dummy(const struct perf_event_attr *attr);

/* Of a list that is configured. */
bool event_list_copies_stacks(const struct event_list *list);       /* whether samples of any event have stacks */
bool event_list_unwinds(const struct event_list *list);             /* whether any of those is stored as a call chain */
bool event_list_only_unwinds(const struct event_list *list);        /* whether there are stacks, and all of them are */
uint32_t event_list_most_dump_bytes(const struct event_list *list); /* of the stack, in a sample of any event */
/* Between two samples on a CPU, at least, in ns; 0: an event may come at any time. */
uint64_t event_list_interval_ns(const struct event_list *list);

/*
 * Converts the argument of -j, such as "any_call,u", to PERF_SAMPLE_BRANCH_*. Privileges alone (u, k, hv) mean any
 * branch, as in perf. -EINVAL: the diag lists the words.
 */
int branch_filter_parse(const char *text, uint64_t *ret, struct diag *reterr);
/* Converts the argument of --lean, such as "period,ip", to PERF_SAMPLE_*. -EINVAL: the diag lists the words. */
int lean_fields_parse(const char *text, uint64_t *ret, struct diag *reterr);
