/* SPDX-License-Identifier: MIT */
/*
 * parallelism: how many of the recorded tasks run on a CPU at a time, by PERF_RECORD_SWITCH, in the order of
 * time. A share of the time that a program takes: where n of its threads run, each of their samples stands for 1/n of
 * it. One owner (parallelism_free), one thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct parallelism;
struct session;
struct session_record;

/* Are there such records in it? */
bool parallelism_is_recorded(const struct session *session);

struct parallelism *parallelism_new(const struct session *session); /* NULL: out of memory */
void parallelism_free(struct parallelism *parallelism);             /* NULL is fine */

/* A record that is no sample. 0 or -ENOMEM. */
int parallelism_observe(struct parallelism *parallelism, const struct session_record *record);

/*
 * When a sample was taken: 1 or more, at most the CPUs of the machine. Behind lost records tasks count again from their
 * next sample or switch on. 0: out of memory.
 */
uint32_t parallelism_at(struct parallelism *parallelism, const struct session_record *sample);
