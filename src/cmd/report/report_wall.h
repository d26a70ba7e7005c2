/* SPDX-License-Identifier: MIT */
/*
 * report_wall: where the time of threads went, on and off the CPU, in nanoseconds: a recording with the event
 * offcpu-time and one that samples the CPU. A time off the CPU is as long as it was; a sample of the CPU stands for the
 * time on it since the sample before, of the same thread, whatever the event counts. One owner (wall_free), one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct off_cpu_wait;
struct sample;
struct session;
struct session_record;
struct wall;

/*
 * -EINVAL: the recording has no event of one of the kinds; -ENODATA: it is of overwrite rings, and does not tell of
 * which time they had all times off the CPU; -ENOMEM.
 */
int wall_new(const struct session *session, struct wall **ret);
void wall_free(struct wall *wall); /* NULL is fine */

/* Indices of the two events; of samples of others nothing is counted. */
size_t wall_off_cpu_event(const struct wall *wall);
size_t wall_on_cpu_event(const struct wall *wall);

/* A record that is no sample: a new task is none that had its number before. */
void wall_observe(struct wall *wall, const struct session_record *record);

/*
 * Where the session has samples behind its times, of all times the parts within are counted. 1; 0: nothing of it is; or
 * -ENOMEM.
 *
 * A sample of the CPU: the time that it stands for, *ret_ns.
 */
int wall_take_on_cpu(struct wall *wall, const struct sample *sample, uint64_t *ret_ns);
/* A time off the CPU. Of one that is unknown only the part behind samples of the CPU is left. */
int wall_take_off_cpu(struct wall *wall, const struct sample *sample, struct off_cpu_wait *wait);
/* Is that behind those times? */
bool wall_is_later(const struct wall *wall, uint64_t time_ns);

/* Time on the CPU behind the last sample there, or of threads that were never sampled: that no row has. */
uint64_t wall_unsampled_ns(const struct wall *wall);
