/* SPDX-License-Identifier: MIT */
/*
 * drained_state: what each process has mapped as of what was drained, for who unwinds samples in their rings; so it is
 * ahead of what the samples in batches need. A thread applies task events some milliseconds after they were taken out
 * of their rings, when no older one can come any more. Private to record/unwind.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct drained_state;
struct mapped_objects;
struct mapped_object;
struct ring_events;
struct task_state;
struct unwinding_rings;

struct drained_state_params {
	/* Borrowed: */
	const struct unwinding_rings *rings; /* for the call; what it points to: as long as the state */
	const struct ring_events *events;
	struct mapped_objects *objects;
	bool realtime; /* the thread runs with real-time priority where that is allowed */
};

/* It is closed, and has no thread. 0 or -ENOMEM. */
int drained_state_new(const struct drained_state_params *params, struct drained_state **ret);
int drained_state_start(struct drained_state *state); /* its thread; 0 or -errno */
void drained_state_free(struct drained_state *state); /* stops it. NULL is fine */

/* What its thread does, again and again. Returns whether something is left, for which it is too early. */
bool drained_state_work(struct drained_state *state);

/*
 * Threads that drain, which never wait.
 */

/* A task event that they have copied, before its room is the kernel's again. */
void drained_state_see(struct drained_state *state, const uint8_t *record);

/*
 * The state does not change until drained_state_end(). It does not know what is older than *ret_known_from_ns. NULL: it
 * is closed, or changes now.
 */
const struct task_state *drained_state_begin(struct drained_state *state, uint64_t *ret_known_from_ns);
void drained_state_end(struct drained_state *state);

/* Records that change what the process has mapped were seen, and are not applied yet. */
bool drained_state_is_changing(const struct drained_state *state, uint32_t pid);
/* Some were seen that will never be applied: there was no room. */
bool drained_state_has_missed(const struct drained_state *state);

/* A new number when what could not be unwound before may be unwound now. */
uint64_t drained_state_chances(const struct drained_state *state);
void drained_state_retry(struct drained_state *state); /* makes it one. Any thread */

/*
 * The thread that resolves what is in batches.
 */

void drained_state_close(struct drained_state *state); /* none uses it when this returns */
/*
 * Opens it, where it is closed or has missed records: as a copy of `complete`, which is as of horizon_ns, and has all
 * that is as old. Only if nothing older is missing: what has come since the last call is kept for that. Does not know
 * what is older than known_from_ns. 0, also if it is not open yet, or -ENOMEM.
 */
int drained_state_open(struct drained_state *state, const struct task_state *complete, uint64_t horizon_ns,
		       uint64_t known_from_ns);

/*
 * Calls mark() for each object that a process has mapped, and keeps the state as it is until drained_state_unlock().
 * false: it is in use, nothing was called or locked.
 */
bool drained_state_lock_objects(struct drained_state *state, void (*mark)(void *ctx, struct mapped_object *object),
				void *ctx);
void drained_state_unlock(struct drained_state *state);

/* No thread that drains uses it from the first call to the second. Any thread. */
void drained_state_hold(struct drained_state *state);
void drained_state_release(struct drained_state *state);

uint64_t drained_state_cpu_ns(struct drained_state *state); /* of its thread, since the last call */
