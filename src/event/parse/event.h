/* SPDX-License-Identifier: MIT */
/*
 * event: what to measure. A list is parsed from -e texts, configured by the options of the recording, and
 * then opened fd by fd. Owned by the recording; one thread.
 */
#pragma once

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpuset.h"
#include "event/names/names.h"

struct diag;

/* Bits of event.given: what the event's own text sets, so that options of the command line do not change it. */
enum event_given {
	EVENT_GIVEN_PERIOD = 1 << 0,
	EVENT_GIVEN_FREQ = 1 << 1,
	EVENT_GIVEN_NAME = 1 << 2,
	EVENT_GIVEN_MODIFIER = 1 << 3,    /* any modifier: then exclude_guest is not the default */
	EVENT_GIVEN_MAX_PRECISE = 1 << 4, /* :P */
	EVENT_GIVEN_SAMPLE_READ = 1 << 5, /* :S */
	EVENT_GIVEN_CALLGRAPH = 1 << 6,
	EVENT_GIVEN_DUMP_BYTES = 1 << 7,
	EVENT_GIVEN_MAX_STACK = 1 << 8,
	EVENT_GIVEN_TIME = 1 << 9,
	EVENT_GIVEN_NO_TIME = 1 << 10,
	EVENT_GIVEN_INHERIT = 1 << 11,
	EVENT_GIVEN_NO_INHERIT = 1 << 12,
	EVENT_GIVEN_SIDES = 1 << 13, /* :G or :H */
	EVENT_GIVEN_WEAK = 1 << 14,  /* :W: the group may be taken apart */
	EVENT_GIVEN_BRANCHES = 1 << 15,
	EVENT_GIVEN_OVERWRITE = 1 << 16, /* or no-overwrite */
};

enum event_callgraph {
	CALLGRAPH_NONE,
	CALLGRAPH_FP,
	CALLGRAPH_DWARF, /* registers and a copy of the stack are stored */
	CALLGRAPH_LBR,
	CALLGRAPH_UNWIND, /* the kernel copies the same; the recorder unwinds the copies and stores only chains */
};

/* --off-cpu: what an event that event_list_configure() added is for. */
enum event_off_cpu {
	EVENT_NOT_OFF_CPU,
	EVENT_SWITCHES, /* tasks leave CPUs; in the file it is the event "offcpu-time" */
	EVENT_WAKE_UPS, /* tasks are woken; the file does not have this event, which is the last in the list */
};

/* Fields in payloads; bytes 0: there is none. `woken` is of EVENT_WAKE_UPS, the others are of EVENT_SWITCHES. */
struct event_off_cpu_fields {
	struct tracepoint_field state, previous, next, woken;
};

struct event {
	struct perf_event_attr attr;    /* after configure: what is passed to the kernel */
	char *name;                     /* heap; the label in the file: text as typed, with its modifiers */
	char *tracepoint_system;        /* heap; NULL: no tracepoint */
	char *tracepoint_name;          /* heap */
	unsigned given;                 /* enum event_given */
	enum event_callgraph callgraph; /* with EVENT_GIVEN_CALLGRAPH */
	uint32_t dump_bytes;            /* with EVENT_GIVEN_DUMP_BYTES */
	char *group_name;               /* heap; of a leader whose group has a name */
	unsigned nr_members;            /* of the group that it leads, with itself; 0: it leads none */
	unsigned behind_leader;         /* distance in the list; 0: it is in no group, or leads it */
	char *filter;                   /* heap; of a tracepoint: what PERF_EVENT_IOC_SET_FILTER gets */
	bool leaves_out_recorder, leaves_out_children; /* a tracepoint; of a group with values in samples (:S) */
	bool unwinds;                                  /* after configure: CALLGRAPH_UNWIND */
	unsigned max_stack;                            /* likewise: frames of its chains; 0: the default */
	enum event_off_cpu off_cpu;
	struct event_off_cpu_fields off_cpu_fields;
	bool side_band;                  /* added by event_list_configure(): it only delivers task events */
	bool side_channel;               /* has rings apart from those of samples: see event_options */
	bool some_cpus, group_some_cpus; /* its PMU counts on some CPUs only; one of a leader's group does */
	struct cpuset cpus;              /* with some_cpus: these; owned */
	bool system_wide;                /* opened for all tasks on each CPU, whatever the target */
	bool in_cgroup;                  /* -G: counts the tasks of one cgroup only */
	int cgroup_fd;                   /* with in_cgroup: of its directory; owned */
};

struct event_list {
	struct event *events;
	size_t nr;
	size_t last_text; /* index of the first event of the text that was added last */
};

void event_list_fini(struct event_list *list);

/*
 * Adds the events of one -e text. Globs expand in the order of the directory, as in perf. On error nothing
 * was added and the diag says column, what was expected, and near matches. -EINVAL (syntax, unknown name),
 * -ENOENT (tracefs or PMU not there), -EACCES (not readable).
 */
int event_list_parse(struct event_list *list, const char *text, struct diag *reterr);

/* The same for names of libpfm4, as in --pfm-events: separated by commas, groups in braces. */
int event_list_parse_pfm(struct event_list *list, const char *text, struct diag *reterr);

/* Where the kernel describes its events. NULL: the usual place. */
struct event_sources {
	const char *tracefs;       /* the directory that holds events/; usually tracefs_path() */
	const char *event_sources; /* one directory per PMU; usually /sys/bus/event_source/devices */
};

/* The same, from directories that the caller names. */
int event_list_parse_from(struct event_list *list, const char *text, const struct event_sources *sources,
			  struct diag *reterr);

/*
 * Filters the tracepoints of the text that was added last; with a second filter an event must match both. -EINVAL: no
 * text was added, or one of its events is no tracepoint.
 */
int event_list_filter(struct event_list *list, const char *filter, struct diag *reterr);

/* The same, to leave out the threads of the recorder: the recording adds that filter, when it knows their tids. */
int event_list_leave_out_recorder(struct event_list *list, struct diag *reterr);

/*
 * The directory of the hierarchy that perf events follow: the one mounted with perf_event, or cgroup2. Heap; NULL: none
 * is mounted.
 */
char *cgroup_root(void);

/*
 * Assigns the names in a list such as "a,,b" to the next events, from *position on, and advances *position: each of
 * these events counts only the tasks of its cgroup; an empty name: all tasks. 0; -EINVAL, -ENOMEM, or -ENOENT (no
 * cgroups are mounted), with the reason.
 */
int cgroup_assign(struct event_list *list, const char *names, unsigned *position, struct diag *reterr);

/* Assigns one cgroup to all events that were added so far, as perf does for a single name. The same errors. */
int cgroup_assign_all(struct event_list *list, const char *name, struct diag *reterr);

/* Cycles as precisely as they open: when none is named. Without guests, which AMD's cannot leave out. 0 or -ENOMEM. */
int event_list_add_default(struct event_list *list, bool amd);

/*
 * The label of an event that was given none: its first name and the modifiers that its attr amounts to, such
 * as "cpu-clock:ppp" or "dummy:HG". Heap; NULL: out of memory, or neither a hardware nor a software event.
 */
char *event_derived_name(const struct perf_event_attr *attr);

/*
 * Dissolves the group that this event is in: from now on each event is opened alone. Returns the index of the leader.
 */
size_t event_list_split_group(struct event_list *list, size_t index);
