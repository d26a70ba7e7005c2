/* SPDX-License-Identifier: MIT */
/*
 * relief: drains the streams of a thread while that thread stores. Storing on the thread that drains is the cheapest
 * way (the bytes are in its cache, and no other thread is woken), but storage may stall for seconds: when a store takes
 * longer than some milliseconds the relief, a thread that sleeps otherwise, drains in its place until it is back.
 *
 * Both hold a lock while they use the streams. Owned by the reader, whose thread calls all functions.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "sysinfo/thread.h"

struct relief;
struct stream;

/*
 * The streams are borrowed, and know it from here on. The thread raises its priority as `realtime` says. 0 or -errno.
 */
int relief_start(struct stream **streams, size_t nr_streams, int realtime, struct relief **ret);
/* Its thread ends. NULL is fine. */
void relief_stop(struct relief *relief);

/* Around each use of the streams. NULL is fine. */
void relief_lock(struct relief *relief);
void relief_unlock(struct relief *relief);

/* CPU time of the caller's that went into storing so far. NULL: 0. */
uint64_t relief_store_ns(const struct relief *relief);
struct thread_use relief_use(const struct relief *relief); /* after relief_stop() */
void relief_free(struct relief *relief);                   /* stops it; NULL is fine */
