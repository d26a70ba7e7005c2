/* SPDX-License-Identifier: MIT */
/*
 * task_state: what each process has mapped at a moment that moves forward. Task events are put in as they come, and
 * applied in the order of their times. Private to record/unwind. One owner, one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mapped_object;
struct mapped_objects;
struct maps;
struct perf_event_header;
struct sample;
struct task_state;

/*
 * objects: borrowed, of what is mapped. trailer_bytes: the sample_id of records. max_waiting_bytes: of records that
 * wait for their time, see task_state_trim(). NULL: out of memory.
 */
struct task_state *task_state_new(struct mapped_objects *objects, size_t trailer_bytes, size_t max_waiting_bytes);
void task_state_free(struct task_state *state); /* NULL is fine */

/* A copy of the record waits for its time. 0 or -ENOMEM. Uses no objects. */
int task_state_put(struct task_state *state, const struct perf_event_header *record, uint64_t time_ns);

/* Moves the moment to time_ns: applies the records that wait and are not later. 0 or -ENOMEM. */
int task_state_advance(struct task_state *state, uint64_t time_ns);

/* Calls mark() for each object that a process has mapped; some more than once. 0 or -ENOMEM. */
int task_state_visit_objects(const struct task_state *state, void (*mark)(void *ctx, struct mapped_object *object),
			     void *ctx);

/* The time of the earliest record that waits; UINT64_MAX: none waits. */
uint64_t task_state_next_ns(const struct task_state *state);

/*
 * When more than max_waiting_bytes of records wait, applies the earliest ones, as if their time had come. 0 or -ENOMEM.
 */
int task_state_trim(struct task_state *state);

/* Whether task_state_trim() would apply any. */
bool task_state_is_full(const struct task_state *state);

/* From now on tells of each record that was put, when it was applied or dropped. */
void task_state_observe(struct task_state *state, void (*applied)(void *ctx, const struct perf_event_header *record),
			void *ctx);

/* Applies a synthesised task event now. Other records change nothing. 0 or -ENOMEM. */
int task_state_apply(struct task_state *state, const struct perf_event_header *record);

/* The same processes, without their threads, into a state that has none; not the records that wait. 0 or -ENOMEM. */
int task_state_copy(struct task_state *state, const struct task_state *from);

/* Forgets all processes, and drops the records that wait. 0 or -ENOMEM. */
int task_state_forget(struct task_state *state);

/*
 * The process that has other maps from this record on; 0: none. words: behind the header, pid first and, of FORK, the
 * parent's. A thread of a process has its maps.
 */
uint32_t task_state_changed_process(const struct perf_event_header *header, const uint32_t words[2]);

enum task_state_known {
	TASK_STATE_KNOWN,
	TASK_STATE_NO_PROCESS, /* no record is about it */
	TASK_STATE_TOO_LATE,   /* it has mapped something since then, or is another program */
};

/* The last task that was looked up, for the next sample of it. Zeroed when the state may have changed since. */
struct known_task {
	uint32_t pid, tid;
	const struct maps *maps; /* NULL: none was found */
	uint64_t generation;     /* of those */
	uint64_t changed_ns;     /* when its process last changed them */
};

/*
 * What the process of the sample had mapped at its time: last->maps, valid until the state changes.
 */
enum task_state_known task_state_maps(const struct task_state *state, const struct sample *sample,
				      struct known_task *last);
