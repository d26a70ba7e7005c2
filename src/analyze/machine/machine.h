/* SPDX-License-Identifier: MIT */
/*
 * machine: the recorded machine as the records describe it: its tasks with names and maps, its kernel. Give it every
 * record in the order of session_next(), then look up addresses of samples. One thread, except for read-only lookups.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/symbols/dso.h"
#include "tasks/tasks.h"

struct debug_info;
struct machine;
struct sample;
struct session;
struct session_record;
struct unwind_chain;

/*
 * `session` has build-ids and the machine's name; borrowed for the life of the machine. Both may be NULL. 0 or -ENOMEM.
 */
int machine_new(const struct symbol_options *options, struct session *session, struct machine **ret);
void machine_free(struct machine *machine); /* NULL is fine */

/* MMAP, MMAP2, COMM, FORK, KSYMBOL, BUILD_ID…; other records change nothing. 0 or -ENOMEM. */
int machine_process(struct machine *machine, const struct session_record *record);

/* The task, made if needed; its maps' objects are struct dso. NULL: out of memory. Valid until machine_free(). */
struct task *machine_task(struct machine *machine, uint32_t pid, uint32_t tid);

/*
 * As machine_task(), but NULL if that would make the task or set its pid. By several threads at once, while none
 * changes the machine.
 */
struct task *machine_known_task(const struct machine *machine, uint32_t pid, uint32_t tid);

/* Frees the tasks that have ended and that is_used() does not want. 0 or -ENOMEM. */
int machine_forget_ended(struct machine *machine, bool (*is_used)(const void *, const struct task *), const void *ctx);

/*
 * At least one of the two numbers changes with each record that may change the result of a lookup for this task: its
 * process, its name, its maps. Different tasks may have equal numbers.
 */
struct task_epoch {
	uint64_t common, own;
};
struct task_epoch task_epoch(const struct machine *machine, const struct task *task);

/* Lists the last task of each tid, in no order; the caller frees *ret. 0 or -ENOMEM. */
int machine_list_tasks(const struct machine *machine, struct task ***ret, size_t *ret_nr);

/* An address of a sample, looked up. Pointers are valid until machine_free(). */
struct location {
	uint64_t ip;                 /* as sampled */
	uint64_t address;            /* inside the object: what perf prints in call chains and looks up symbols by */
	struct dso *dso;             /* NULL: no map there */
	const struct symbol *symbol; /* NULL: none there */
	char level;                  /* 'k', '.', 'H', 'g', 'u': perf's [k], [.] … */
	bool is_return;              /* a return address: debug information is looked up at address - 1, in the call */
	/* In a call chain: how many of the frames before it are inlined here; its source line is that of their call. */
	uint16_t nr_inlined; /* LOCATION_PENDING: what is inlined here is still to be looked up, see chains_expand() */
	uint32_t map_pages;  /* size of its map in pages of 4 KiB, rounded up; UINT32_MAX: more; 0: no map */
};

/* The path of a cgroup, as a record named it; "unknown": none did. Valid until machine_free(). */
const char *machine_cgroup(const struct machine *machine, uint64_t id);

/* The debug information of its objects. Valid until machine_free(). */
struct debug_info *machine_debug_info(const struct machine *machine);

/* cpumode is a PERF_RECORD_MISC_* mode of the record or of a context marker. */
void machine_resolve(struct machine *machine, struct task *task, uint8_t cpumode, uint64_t ip, struct location *ret);

enum { CHAIN_MOST_FRAMES = 1280 }; /* 1024 recorded or unwound, and what was inlined */

/*
 * The call chain of a sample, innermost frame first, without context markers. Writes at most `max` locations, and
 * returns how many. With --call-graph dwarf the user part is unwound from the stack dump.
 */
unsigned machine_callchain(struct machine *machine, struct task *task, const struct session_record *record,
			   struct location *ret, unsigned max);

/* Whether the chain is what is at its addresses, recorded and those of machine_unwind(), with no regard to time. */
bool machine_chain_is_plain(const struct machine *machine, const struct sample *sample);
/* Whether chains include inlined functions; whether there may be some at a frame. */
bool machine_inlines_all(const struct machine *machine);
bool machine_may_inline(const struct machine *machine, const struct location *frame);
/* Writes a user frame, before it the functions inlined there; innermost first, at most `max` > 0. Returns how many. */
unsigned machine_inlined(struct machine *machine, const struct location *frame, struct location *ret, unsigned max);

/* How many frames are unwound at most. Until it is set 127, as by perf. Source: perf-script(1) --max-stack. */
void machine_set_max_unwound(struct machine *machine, uint64_t max);
/* The user frames of a sample, from its registers and its copy of the stack, at most as many: see unwind_chain(). */
void machine_unwind(struct machine *machine, const struct task *task, const struct sample *sample,
		    struct unwind_chain *chain);

/*
 * Objects without symbols because the file at their path is not the one that was mapped; those that were looked up most
 * often first, at most `max`. Returns how many there are in all.
 */
size_t machine_list_doubts(const struct machine *machine, const struct dso *ret[], size_t max);

struct downloads *machine_downloads(const struct machine *machine); /* NULL: none are wanted; borrowed */

/*
 * lookup: the functions above with a cache of its own; each is used by one thread. Several read-only lookups may be
 * used at the same time, while nothing changes the machine.
 */
struct lookup;

/* The machine is borrowed. NULL: out of memory. It may change the machine, as machine_task() does. */
struct lookup *lookup_new(struct machine *machine);
void lookup_free(struct lookup *lookup); /* NULL is fine */

/* The machine's own, through which machine_task(), machine_resolve() and machine_callchain() go. */
struct lookup *machine_lookup(struct machine *machine);

/*
 * A read-only lookup never changes the machine. When it would have to (a new task or object, a stack to unwind)
 * lookup_needs_update() becomes true: the results since must not be used, and the thread that may change the machine
 * repeats the lookup with one that is not read-only. lookup_set_read_only() resets it.
 */
void lookup_set_read_only(struct lookup *lookup, bool read_only);
bool lookup_needs_update(const struct lookup *lookup);

/*
 * Sets the time of the next lookups to that of the sample: JIT code may change without a record of it (jitdumps).
 * lookup_callchain() sets it, too.
 */
void lookup_set_time(struct lookup *lookup, const struct sample *sample);
bool machine_is_timed(const struct machine *machine);      /* there is such code */
bool machine_has_jit_clock(const struct machine *machine); /* times of the records are those of jitdumps */

/* A new number after each change of the machine that may change earlier results. */
uint64_t lookup_epoch(const struct lookup *lookup);

const char *lookup_cgroup(const struct lookup *lookup, uint64_t id); /* as machine_cgroup() */

/* As machine_task(); NULL: also when an update is needed. */
struct task *lookup_task(struct lookup *lookup, uint32_t pid, uint32_t tid);
/* As machine_resolve() and machine_callchain(). lookup_resolve_caller(): of a return address, see last_call.h. */
void lookup_resolve(struct lookup *lookup, struct task *task, uint8_t cpumode, uint64_t ip, struct location *ret);
void lookup_resolve_caller(struct lookup *lookup, struct task *task, uint8_t cpumode, uint64_t ip,
			   struct location *ret);
unsigned lookup_callchain(struct lookup *lookup, struct task *task, const struct session_record *record,
			  struct location *ret, unsigned max);
