/* SPDX-License-Identifier: MIT */
/*
 * machine: the recorded machine as the records tell it: its tasks with their names and maps, its kernel.
 * One thread. Feed it every record in the order of session_next(); then ask about a sample.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct diag;
struct dso;
struct machine;
struct map;
struct session;
struct session_record;
struct symbol;
struct task;

struct machine_options {
	const char *kallsyms; /* --kallsyms FILE; NULL: /proc/kallsyms when it is this machine's, else none */
	const char *vmlinux;  /* --vmlinux FILE; NULL: none */
	const char *symfs;    /* --symfs DIR: where to look for the files of the recorded machine; NULL: "" */
};

/* The session gives build-ids and names the machine; borrowed for the life of the machine. */
int machine_new(const struct machine_options *options, struct session *session, struct machine **ret);
void machine_free(struct machine *machine); /* NULL is fine */

/* MMAP, MMAP2, COMM, FORK, EXIT, KSYMBOL, BUILD_ID…; other records change nothing. 0 or -ENOMEM. */
int machine_process(struct machine *machine, const struct session_record *record);

/* The task, made when it was not known yet. NULL: out of memory. Valid until machine_free(). */
struct task *machine_task(struct machine *machine, uint32_t pid, uint32_t tid);

/* The same when there is nothing to make or to learn; else NULL. By several threads at once, while none changes the machine. */
struct task *machine_known_task(const struct machine *machine, uint32_t pid, uint32_t tid);

/*
 * Two numbers of which at least one is another after each record that may change what is known of the samples of this
 * task: its process, its name, what an address of its is. Those of different tasks may be the same.
 */
struct task_epoch {
	uint64_t world, own;
};
struct task_epoch task_epoch(const struct machine *machine, const struct task *task);

/* Its name as of the records so far; ":TID" when none told it. Valid until machine_free(), also after a
 * change. */
const char *task_comm(const struct task *task);

uint32_t task_pid(const struct task *task);
uint32_t task_tid(const struct task *task);
uint32_t task_parent(const struct task *task); /* the tid of the task that forked it; UINT32_MAX: not told */

struct maps;
const struct maps *task_maps(const struct task *task); /* NULL: none */

/* All tasks that have not lost their tid to another one, in no order; for free(). 0 or -ENOMEM. */
int machine_list_tasks(const struct machine *machine, struct task ***ret, size_t *ret_nr);

/*
 * The name as a thing that may be told later: while no record told it the text is ":TID", from then on what
 * the first record says. A task that takes another name gets another one. Valid until machine_free().
 */
struct comm {
	const char *text;
};
const struct comm *task_comm_object(const struct task *task);

/* An address of a sample, looked up. Pointers are valid until machine_free(). */
struct location {
	uint64_t ip;      /* as sampled */
	uint64_t address; /* inside the object: what perf prints in call chains and looks up symbols by */
	struct dso *dso;  /* NULL: no map there */
	const struct symbol *symbol; /* NULL: none there */
	char level;                  /* 'k', '.', 'H', 'g', 'u': perf's [k], [.] … */
};

struct symbol {
	uint64_t start, end; /* addresses inside the object, end exclusive */
	const char *name;    /* demangled */
	bool inlined;        /* a function that the compiler put into this one: its name, the range of the whole */
};

/* cpumode is a PERF_RECORD_MISC_* mode of the record or of a context marker. */
void machine_resolve(struct machine *machine, struct task *task, uint8_t cpumode, uint64_t ip,
		     struct location *ret);

const char *dso_long_name(const struct dso *dso);  /* "/usr/lib/libc.so.6", "[kernel.kallsyms]" */
const char *dso_short_name(const struct dso *dso); /* "libc.so.6", "[kernel.kallsyms]", "[vdso]" */

struct sample;

/*
 * The call chain of a sample, innermost frame first, context markers applied and removed. Writes at most
 * `max` locations and returns how many. The user part of a dwarf recording is unwound from its stack dump.
 */
unsigned machine_callchain(struct machine *machine, struct task *task, const struct session_record *record,
			   struct location *ret, unsigned max);
