/* SPDX-License-Identifier: MIT */
/*
 * relief: a thread that drains the streams of a reader while the reader stores. Storing on the thread that drains costs
 * least (the bytes are in its cache, and no other thread is woken), but storage may stall for seconds. When a store
 * takes longer than some milliseconds, the relief thread, which sleeps otherwise, drains until the reader is back.
 *
 * Each of the two holds a lock while it uses the streams. Owned by the reader, whose thread calls all functions here.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "sysinfo/thread.h"

struct relief;
struct stream;

/*
 * Starts the thread. The streams are borrowed, and their `storage` is set. The thread raises its priority: `realtime`
 * as in priority_raise(). 0 or -errno.
 */
int relief_start(struct stream **streams, size_t nr_streams, int realtime, struct relief **ret);
/* Ends its thread. NULL is fine. */
void relief_stop(struct relief *relief);

/* Around each use of the streams. NULL is fine. */
void relief_lock(struct relief *relief);
void relief_unlock(struct relief *relief);

/* CPU time in ns that the reader's thread has spent on storing so far. NULL: 0. */
uint64_t relief_store_ns(const struct relief *relief);
struct thread_use relief_use(const struct relief *relief); /* after relief_stop() */
void relief_free(struct relief *relief);                   /* stops it; NULL is fine */
