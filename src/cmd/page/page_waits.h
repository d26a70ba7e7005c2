/* SPDX-License-Identifier: MIT */
/*
 * page_waits: when the threads of a recording were off the CPU, for the timeline of a page. Where a recording has
 * very many of these times, consecutive short ones of a thread are joined, so that the memory does not grow with
 * their number. One owner, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "base/pool.h"

struct off_cpu_wait;
struct sample;

enum { PAGE_WAITS_MAX = 200000 };

/* One time off the CPU, or several that were joined, with the time between them. */
struct page_wait {
	uint64_t from_ns, to_ns;
	uint64_t off_ns, ready_ns; /* sums: off the CPU, and of it the parts in which the thread could have run */
	const char *state;         /* off_cpu_state_name() of the longest, before it was woken; static text */
	uint32_t event, cell;      /* of the longest, as of page_times_add() */
	uint32_t waker;            /* of the longest, in `wakers` */
	uint32_t tid, nr;          /* nr: how many there are */
	bool goes_on;              /* the last had not ended when the recording did */
	uint64_t longest_ns;
};

struct page_waits {
	struct page_wait *waits; /* heap; as they ended, but for those that were put together */
	size_t nr, room;
	uint64_t short_ns;   /* shorter ones may be put together; 0: none are */
	const char **wakers; /* heap; [0]: "", not known */
	uint32_t nr_wakers;
	/* private: */
	uint32_t wakers_room;
	struct hash_table by_tid, by_waker; /* the last of a thread, plus 1; wakers, plus 1 */
	struct pool pool;
};

/*
 * A sample that is counted in a cell of the tally of its event, with what its payload says; sums of many times are left
 * out, for it is not known when they were. `waker`: lines of text, the first of them its name. 0 or -ENOMEM.
 */
struct page_wait_place {
	uint32_t event, cell;
	const char *waker;
};
int page_waits_add(struct page_waits *waits, const struct sample *sample, const struct off_cpu_wait *wait,
		   const struct page_wait_place *place);
void page_waits_fini(struct page_waits *waits); /* zeroed is fine */
