/* SPDX-License-Identifier: MIT */
/*
 * machine: the recorded machine as the records describe it: its tasks with their names and maps, its kernel.
 * Feed it every record in the order of session_next(); then ask about a sample. One thread, but for read-only lookups.
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
 * The session gives build-ids and names the machine; borrowed for the life of the machine, NULL: none. options NULL:
 * none are set. 0 or -ENOMEM.
 */
int machine_new(const struct symbol_options *options, struct session *session, struct machine **ret);
void machine_free(struct machine *machine); /* NULL is fine */

/* MMAP, MMAP2, COMM, FORK, KSYMBOL, BUILD_ID…; other records change nothing. 0 or -ENOMEM. */
int machine_process(struct machine *machine, const struct session_record *record);

/*
 * The task, made when there is none yet; the objects of its maps are struct dso. NULL: out of memory. Valid until
 * machine_free().
 */
struct task *machine_task(struct machine *machine, uint32_t pid, uint32_t tid);

/* NULL: machine_task() would make it, or set its pid. By several threads at once, while none changes the machine. */
struct task *machine_known_task(const struct machine *machine, uint32_t pid, uint32_t tid);

/* Frees the tasks that have ended and that is_used() does not want. 0 or -ENOMEM. */
int machine_forget_ended(struct machine *machine, bool (*is_used)(const void *, const struct task *), const void *ctx);

/*
 * Two numbers of which at least one is another after each record that may change what is known of the samples of this
 * task: its process, its name, what an address of its is. Those of different tasks may be the same.
 */
struct task_epoch {
	uint64_t common, own;
};
struct task_epoch task_epoch(const struct machine *machine, const struct task *task);

/* All tasks that have not lost their tid to another one, in no order; for free(). 0 or -ENOMEM. */
int machine_list_tasks(const struct machine *machine, struct task ***ret, size_t *ret_nr);

/* An address of a sample, looked up. Pointers are valid until machine_free(). */
struct location {
	uint64_t ip;                 /* as sampled */
	uint64_t address;            /* inside the object: what perf prints in call chains and looks up symbols by */
	struct dso *dso;             /* NULL: no map there */
	const struct symbol *symbol; /* NULL: none there */
	char level;                  /* 'k', '.', 'H', 'g', 'u': perf's [k], [.] … */
	bool is_return; /* and debug information is asked for the byte before `address`, where the call is */
	/* In a call chain: so many frames further in are inlined here; its line of the source is that of their call. */
	uint16_t nr_inlined;
	uint32_t map_pages; /* of 4 KiB, begun or whole, of the map that it is in; UINT32_MAX: more. 0: no map there */
};

/* The path of a cgroup, as a record named it; "unknown": none did. Valid until machine_free(). */
const char *machine_cgroup(const struct machine *machine, uint64_t id);

/* The debug information of its objects. Valid until machine_free(). */
struct debug_info *machine_debug_info(const struct machine *machine);

/* cpumode is a PERF_RECORD_MISC_* mode of the record or of a context marker. */
void machine_resolve(struct machine *machine, struct task *task, uint8_t cpumode, uint64_t ip, struct location *ret);

enum { CHAIN_MOST_FRAMES = 1280 }; /* 1024 recorded, or fewer recorded and 127 unwound, and what was inlined */

/*
 * The call chain of a sample, innermost frame first, context markers applied and removed. Writes at most `max`
 * locations and returns how many. The user part of a dwarf recording is unwound from its stack dump.
 */
unsigned machine_callchain(struct machine *machine, struct task *task, const struct session_record *record,
			   struct location *ret, unsigned max);

/* Is the chain its recorded addresses, each looked up, and perhaps what was inlined there, for all times? */
bool machine_chain_is_plain(const struct machine *machine, const struct sample *sample);
/* Are inlined functions part of it? */
bool machine_inlines_all(const struct machine *machine);

/*
 * A frame of a program, and before it the functions that were inlined there, as --inline of the symbol options says;
 * innermost first, at most `max` > 0. Returns how many.
 */
unsigned machine_inlined(struct machine *machine, const struct location *frame, struct location *ret, unsigned max);

/* The user frames of a sample, from its registers and its copy of the stack: see unwind_chain(). */
void machine_unwind(struct machine *machine, const struct task *task, const struct sample *sample,
		    struct unwind_chain *chain);

/*
 * Objects that have no names because the file under their name is not what was mapped: those that were looked up most
 * often first, at most `max`. Returns how many there are.
 */
size_t machine_list_doubts(const struct machine *machine, const struct dso *ret[], size_t max);

struct downloads *machine_downloads(const struct machine *machine); /* NULL: none are wanted; borrowed */

/*
 * lookup: the questions above with a cache of the caller's own, by one thread. Read-only lookups, one for each thread,
 * may be used at the same time while nothing changes the machine.
 */
struct lookup;

/* The machine is borrowed. NULL: out of memory. It may change the machine, as machine_task() does. */
struct lookup *lookup_new(struct machine *machine);
void lookup_free(struct lookup *lookup); /* NULL is fine */

/* The machine's own, through which machine_task(), machine_resolve() and machine_callchain() go. */
struct lookup *machine_lookup(struct machine *machine);

/*
 * A read-only lookup never changes the machine. When it would have to (a task or an object that was not met before, a
 * stack that is to be unwound) it needs an update: the results since are not to be used, and the caller asks once more
 * on the thread that may change the machine, with a lookup that is not read-only. Setting it forgets that an update was
 * needed.
 */
void lookup_set_read_only(struct lookup *lookup, bool read_only);
bool lookup_needs_update(const struct lookup *lookup);

/*
 * The time of the sample that is asked about next: some code is not the same all the time, without a record that says
 * so (jitdumps). lookup_callchain() sets it, too.
 */
void lookup_set_time(struct lookup *lookup, const struct sample *sample);
bool machine_is_timed(const struct machine *machine);      /* there is such code */
bool machine_has_jit_clock(const struct machine *machine); /* times of the records are those of jitdumps */

/* Another number after a change of the machine that may alter earlier results. */
uint64_t lookup_epoch(const struct lookup *lookup);

const char *lookup_cgroup(const struct lookup *lookup, uint64_t id); /* as machine_cgroup() */

/* As machine_task(); NULL: also when an update is needed. */
struct task *lookup_task(struct lookup *lookup, uint32_t pid, uint32_t tid);
/* As machine_resolve() and machine_callchain(). */
void lookup_resolve(struct lookup *lookup, struct task *task, uint8_t cpumode, uint64_t ip, struct location *ret);
unsigned lookup_callchain(struct lookup *lookup, struct task *task, const struct session_record *record,
			  struct location *ret, unsigned max);
