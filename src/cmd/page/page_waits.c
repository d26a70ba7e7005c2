/* SPDX-License-Identifier: MIT */
#include "cmd/page/page_waits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "perfdata/sample.h"
#include "tasks/off_cpu.h"

enum { FIRST_ROOM = 1 << 10, FIRST_SHORT_NS = 10000 };

void page_waits_fini(struct page_waits *waits)
{
	free(waits->waits);
	free(waits->wakers);
	hash_table_fini(&waits->by_tid);
	hash_table_fini(&waits->by_waker);
	pool_fini(&waits->pool);
	*waits = (struct page_waits){0};
}

static int find_waker(struct page_waits *waits, const char *text, uint32_t *ret)
{
	uint64_t key = hash_text(text);

	for (struct hash_slot *slot = hash_table_find(&waits->by_waker, key); slot;
	     slot = hash_table_next(&waits->by_waker, slot)) {
		*ret = (uint32_t)slot->number - 1;
		if (!strcmp(waits->wakers[*ret], text))
			return 0;
	}
	if (array_room(waits->wakers, waits->nr_wakers, waits->wakers_room))
		return -ENOMEM;
	const char *copy = pool_text(&waits->pool, text, strlen(text));
	if (!copy || hash_table_add_number(&waits->by_waker, key, waits->nr_wakers + 1ull))
		return -ENOMEM;
	waits->wakers[waits->nr_wakers] = copy;
	*ret = waits->nr_wakers++;
	return 0;
}

/* Two of a thread that follow each other, both so short that no one will look for them, and what is between them. */
static bool belong_together(const struct page_waits *waits, const struct page_wait *before,
			    const struct page_wait *after)
{
	return !before->goes_on && before->longest_ns < waits->short_ns && after->longest_ns < waits->short_ns &&
	       after->from_ns < before->to_ns + waits->short_ns;
}

static void put_together(struct page_wait *into, const struct page_wait *more)
{
	if (more->longest_ns > into->longest_ns) {
		into->longest_ns = more->longest_ns;
		into->state = more->state;
		into->event = more->event;
		into->cell = more->cell;
		into->waker = more->waker;
	}
	if (more->to_ns > into->to_ns)
		into->to_ns = more->to_ns;
	into->off_ns += more->off_ns;
	into->ready_ns += more->ready_ns;
	into->nr += more->nr;
	into->goes_on = more->goes_on;
}

/* There is room for it. */
static int append(struct page_waits *waits, const struct page_wait *wait)
{
	struct hash_slot *last = hash_table_find(&waits->by_tid, wait->tid);

	if (last && belong_together(waits, &waits->waits[last->number - 1], wait)) {
		put_together(&waits->waits[last->number - 1], wait);
		return 0;
	}
	if (!last && hash_table_add_number(&waits->by_tid, wait->tid, waits->nr + 1))
		return -ENOMEM;
	if (last)
		last->number = waits->nr + 1;
	waits->waits[waits->nr++] = *wait;
	return 0;
}

/* Longer ones count as short from now on. */
static int coarsen(struct page_waits *waits)
{
	size_t nr = waits->nr;
	int err = 0;

	waits->short_ns = waits->short_ns ? 2 * waits->short_ns : FIRST_SHORT_NS;
	waits->nr = 0;
	hash_table_clear(&waits->by_tid);
	for (size_t i = 0; i < nr && !err; i++) {
		const struct page_wait wait = waits->waits[i]; /* its place may be taken */
		err = append(waits, &wait);
	}
	return err;
}

static int make_room(struct page_waits *waits)
{
	int err = 0;

	if (waits->nr < waits->room)
		return 0;
	/* Of no use where each has a thread of its own. */
	for (unsigned i = 0; i < 8 && !err && waits->nr >= PAGE_WAITS_MAX && waits->nr > waits->room / 2; i++)
		err = coarsen(waits);
	if (err || waits->nr < waits->room / 2)
		return err;
	size_t room = waits->room ? waits->room * 2 : FIRST_ROOM;
	if (room > PAGE_WAITS_MAX && waits->nr < PAGE_WAITS_MAX)
		room = PAGE_WAITS_MAX;
	struct page_wait *more = reallocarray(waits->waits, room, sizeof(*more));
	if (!more)
		return -ENOMEM;
	waits->waits = more;
	waits->room = room;
	return 0;
}

int page_waits_add(struct page_waits *waits, const struct sample *sample, const struct off_cpu_wait *wait,
		   const struct page_wait_place *place)
{
	struct page_wait added = {
		.from_ns = sample->time - (wait->ns < sample->time ? wait->ns : sample->time),
		.to_ns = sample->time,
		.off_ns = wait->ns,
		.ready_ns = wait->runnable_ns,
		.state = off_cpu_state_name(wait, wait->ns == wait->runnable_ns),
		.event = place->event,
		.cell = place->cell,
		.tid = sample->tid,
		.nr = 1,
		.goes_on = wait->flags & OFF_CPU_GOES_ON,
		.longest_ns = wait->ns,
	};
	int err = 0;

	if (wait->flags & OFF_CPU_SUM || !(sample->present & PERF_SAMPLE_TIME))
		return 0;
	if (!waits->nr_wakers)
		err = find_waker(waits, "", &added.waker);
	if (!err)
		err = find_waker(waits, place->waker, &added.waker);
	if (!err)
		err = make_room(waits);
	return err ? err : append(waits, &added);
}
