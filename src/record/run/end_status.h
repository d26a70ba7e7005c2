/* SPDX-License-Identifier: MIT */
/*
 * end_status: a thread that shows on a terminal how far the end of a recording is: how many drained bytes are not
 * stored yet, with a progress bar, the rate and the remaining time; then that the file is being finished.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

struct batch_pool;

struct end_status {
	struct batch_pool *pool; /* borrowed until end_status_stop() */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool runs, stop;
};

/*
 * To be called when the events are disabled. Nothing is shown when no thread can be started, or standard error is no
 * terminal.
 */
void end_status_start(struct end_status *status, struct batch_pool *pool);
void end_status_stop(struct end_status *status); /* zeroed is fine; may be called more than once */
