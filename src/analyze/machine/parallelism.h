/* SPDX-License-Identifier: MIT */
/*
 * parallelism: how many of the recorded tasks run at a time, from PERF_RECORD_SWITCH in the order of time. It gives the
 * share of the elapsed time: while n threads run, a sample of one of them stands for 1/n of its period. One owner
 * (parallelism_free), one thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct parallelism;
struct session;
struct session_record;

/* Whether the recording has PERF_RECORD_SWITCH. */
bool parallelism_is_recorded(const struct session *session);

struct parallelism *parallelism_new(const struct session *session); /* NULL: out of memory */
void parallelism_free(struct parallelism *parallelism);             /* NULL is fine */

/* To be called for each record that is not a sample. 0 or -ENOMEM. */
int parallelism_observe(struct parallelism *parallelism, const struct session_record *record);

/*
 * How many tasks ran when the sample was taken: from 1 to the number of CPUs. After lost records a task counts again
 * from its next sample or switch on. 0: out of memory.
 */
uint32_t parallelism_at(struct parallelism *parallelism, const struct session_record *sample);
