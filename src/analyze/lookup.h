/* SPDX-License-Identifier: MIT */
/*
 * lookup: whom a sample is of and where it was, asked of a machine by one thread, with a memory of its own for what was
 * asked before. Fixed, any number of them may be used at once, a thread each, while nobody changes the machine.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/machine.h"

struct lookup;

/* The machine is borrowed. NULL: out of memory. Not fixed: it may change the machine, as machine_task() and the others. */
struct lookup *lookup_new(struct machine *machine);
void lookup_free(struct lookup *lookup); /* NULL is fine */

/* The one through which the machine itself is asked, which is its own. */
struct lookup *machine_lookup(struct machine *machine);

/*
 * Fixed, it changes nothing. What cannot be told without a change (a task or an object that was not met before, a stack
 * that is to be unwound) is missed: then the answers since are not to be used, and are right once asked for not fixed.
 */
void lookup_fix(struct lookup *lookup, bool fixed); /* and nothing is missed */
bool lookup_missed(const struct lookup *lookup);

/* A change that may alter answers which were given before has another number. */
uint64_t lookup_epoch(const struct lookup *lookup);

/* As machine_task(); NULL: missed, too. */
struct task *lookup_task(struct lookup *lookup, uint32_t pid, uint32_t tid);
/* As machine_resolve() and machine_callchain(). */
void lookup_resolve(struct lookup *lookup, struct task *task, uint8_t cpumode, uint64_t ip, struct location *ret);
unsigned lookup_callchain(struct lookup *lookup, struct task *task, const struct session_record *record,
			  struct location *ret, unsigned max);
