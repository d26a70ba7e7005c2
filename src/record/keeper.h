/* SPDX-License-Identifier: MIT */
/*
 * keeper: a thread beside the readers for what comes round by the clock and must not hold up a drain: the ledger's
 * readings, the commits of the file, its way to the disk. Owned by the recording; book and commit are its own from
 * keeper_start() to keeper_stop().
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct commit;
struct freezer;
struct ledger_book;
struct sideline;
struct writer;

struct keeper {
	struct ledger_book *book; /* borrowed */
	struct commit *commit;    /* borrowed */
	struct freezer *freezer;  /* borrowed; zeroed: there is none */
	struct sideline *sideline; /* borrowed; NULL: there is none */
	struct writer *held;      /* borrowed; a stage that holds what comes (pack_stage.h); NULL: none */
	const int *sync_fds;      /* borrowed; what goes to the disk every sync_ms */
	size_t nr_sync_fds;
	uint64_t sync_ms; /* 0: never */
	int stop_fd;      /* eventfd(2) */
	pthread_t thread;
	bool started;
	uint64_t cpu_ns; /* valid after keeper_stop() */
};

int keeper_start(struct keeper *keeper); /* after the fields above `stop_fd` are set; none of them changes later; -errno */
void keeper_stop(struct keeper *keeper); /* idempotent; zeroed is fine */
