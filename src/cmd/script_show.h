/* SPDX-License-Identifier: MIT */
/* script_show: which records that are no samples `millrace script` prints, each kind on request. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct machine;
struct session_record;
struct task;

struct script_show {
	bool tasks, mmaps, switches, namespaces, lost, bpf, cgroups, text_pokes, rounds;
};

/* Their rows in the table of a command whose struct `type` has a struct script_show `field`. */
#define SCRIPT_SHOW_OPTION(option, what, type, member) \
	{.name = option, .help = what, .set = option_set_flag, .offset = offsetof(type, member)}
#define SCRIPT_SHOW_OPTIONS(type, field, heading) \
	{.name = "show-task-events", \
	 .help = "Print also the records of names, forks and exits", \
	 .set = option_set_flag, \
	 .offset = offsetof(type, field.tasks), \
	 .group = heading}, \
	SCRIPT_SHOW_OPTION("show-mmap-events", "Print also the records of maps", type, field.mmaps), \
	SCRIPT_SHOW_OPTION("show-switch-events", "Print also the records of context switches", type, field.switches), \
	SCRIPT_SHOW_OPTION("show-namespace-events", "Print also the records of namespaces", type, field.namespaces), \
	SCRIPT_SHOW_OPTION("show-lost-events", "Print also the records of lost records", type, field.lost), \
	SCRIPT_SHOW_OPTION("show-bpf-events", "Print also the records of BPF programs and their symbols", type, field.bpf), \
	SCRIPT_SHOW_OPTION("show-cgroup-events", "Print also the records of control groups", type, field.cgroups), \
	SCRIPT_SHOW_OPTION("show-text-poke-events", "Print also the records of kernel code that was changed", type, \
			   field.text_pokes), \
	SCRIPT_SHOW_OPTION("show-round-events", "Print also the marks that end a round, all in the order of the file", type, \
			   field.rounds)

bool script_show_any(const struct script_show *show);

/* Is a record of that type printed? */
bool script_show_has(const struct script_show *show, uint32_t type);

/* Whose record it is, once the machine has processed it. NULL: out of memory. */
struct task *script_show_task(struct machine *machine, const struct session_record *record);
