/* SPDX-License-Identifier: MIT */
#include "record/ledger.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "event/event.h"
#include "record/eventset.h"
#include "record/perf_clock.h"

static struct ledger_moment moment_now(const struct eventset *set)
{
	uint64_t perf_ns = perf_clock_now(set->events->nr ? &set->events->events[0].attr : NULL);

	return (struct ledger_moment){.ns = clock_ns(CLOCK_MONOTONIC), .perf_ns = perf_ns};
}

int ledger_book_open(struct ledger_book *book, const struct eventset *set)
{
	size_t nr = set->plan->nr_slots;

	*book = (struct ledger_book){.set = set, .lost = calloc(nr + 1, sizeof(*book->lost)),
				     .open = calloc(nr + 1, sizeof(*book->open))};
	if (!book->lost || !book->open)
		return -ENOMEM;
	book->start = moment_now(set);
	book->read_ns = book->start.ns;
	return 0;
}

void ledger_book_fini(struct ledger_book *book)
{
	free(book->lost);
	free(book->open);
	ledger_fini(&book->ledger);
	*book = (struct ledger_book){0};
}

enum { MANY = 16384 };

/* Each reading that found something is an interval; when there are many, those that follow each other are one. */
static int note_slot(struct ledger_book *book, size_t slot, uint64_t count, uint64_t now)
{
	const struct plan_slot *plan = &book->set->plan->slots[slot];
	struct ledger_entry *open = book->open[slot] ? &book->ledger.entries[book->open[slot] - 1] : NULL;

	if (open && book->ledger.nr_entries >= MANY) {
		open->to_ns = now;
		open->count += count;
		return 0;
	}
	const struct ledger_entry entry = {
		.event = (uint32_t)plan->event,
		.cause = LEDGER_RING_FULL,
		.cpu = plan->cpu,
		.tid = plan->cpu < 0 ? plan->pid : -1,
		.from_ns = book->read_ns,
		.to_ns = now,
		.count = count,
	};
	int err = ledger_add(&book->ledger, &entry);
	if (!err)
		book->open[slot] = book->ledger.nr_entries;
	return err;
}

int ledger_book_read(struct ledger_book *book)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	int err = 0;

	for (size_t i = 0; i < book->set->plan->nr_slots && !err; i++) {
		uint64_t lost = eventset_lost(book->set, i);
		if (lost > book->lost[i])
			err = note_slot(book, i, lost - book->lost[i], now);
		else
			book->open[i] = 0;
		if (!err && lost > book->lost[i])
			book->lost[i] = lost;
	}
	book->read_ns = now;
	book->reading_ns = clock_ns(CLOCK_MONOTONIC) - now;
	return err;
}

int ledger_book_note(struct ledger_book *book, const struct ledger_entry *entry)
{
	return ledger_add(&book->ledger, entry);
}

/* From one clock to the other, which need not go at the same pace. */
static uint64_t to_perf(const struct ledger_book *book, const struct ledger_moment *end, uint64_t ns)
{
	const struct ledger_moment *start = &book->start;

	if (!start->perf_ns || !end->perf_ns || end->ns <= start->ns || ns <= start->ns)
		return start->perf_ns;
	double pace = (double)(end->perf_ns - start->perf_ns) / (double)(end->ns - start->ns);
	return start->perf_ns + (uint64_t)((double)(ns - start->ns) * pace);
}

int ledger_book_close(struct ledger_book *book)
{
	struct ledger *ledger = &book->ledger;
	int err = ledger_book_read(book);
	struct ledger_moment end = moment_now(book->set);

	for (size_t i = 0; i < ledger->nr_entries; i++) {
		ledger->entries[i].from_ns = to_perf(book, &end, ledger->entries[i].from_ns);
		ledger->entries[i].to_ns = to_perf(book, &end, ledger->entries[i].to_ns);
	}
	ledger->started_ns = book->start.perf_ns;
	ledger->ended_ns = end.perf_ns;
	return err;
}
