/* SPDX-License-Identifier: MIT */
#include "record/ledger.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "event/event.h"
#include "pack/stack_cut.h"
#include "record/eventset.h"
#include "record/perf_clock.h"

static struct ledger_moment moment_now(const struct eventset *set)
{
	uint64_t perf_ns = perf_clock_now(set->events->nr ? &set->events->events[0].attr : NULL);

	return (struct ledger_moment){.ns = clock_ns(CLOCK_MONOTONIC), .perf_ns = perf_ns};
}

static size_t nr_cut_counts(const struct stack_cutter *cutter)
{
	struct stack_cut_count count;
	size_t nr = 0;

	while (cutter && stack_cut_count(cutter, nr, &count))
		nr++;
	return nr;
}

int ledger_book_open(struct ledger_book *book, const struct eventset *set, const struct stack_cutter *cutter)
{
	size_t nr = set->plan->nr_slots, nr_cut = nr_cut_counts(cutter);

	*book = (struct ledger_book){
		.set = set,
		.lost = calloc(nr + 1, sizeof(*book->lost)),
		.open = calloc(nr + 1, sizeof(*book->open)),
		.cutter = cutter,
		.cut = calloc(nr_cut + 1, sizeof(*book->cut)),
		.cut_open = calloc(nr_cut + 1, sizeof(*book->cut_open)),
	};
	if (!book->lost || !book->open || !book->cut || !book->cut_open)
		return -ENOMEM;
	book->ledger.counted = eventset_counts_lost(set);
	book->start = book->span_start = moment_now(set);
	book->read_ns = book->start.ns;
	return 0;
}

void ledger_book_fini(struct ledger_book *book)
{
	free(book->lost);
	free(book->open);
	free(book->cut);
	free(book->cut_open);
	ledger_fini(&book->ledger);
	ledger_fini(&book->span);
	*book = (struct ledger_book){0};
}

enum { MANY = 16384 };

static bool is_overwritten(const struct ledger_book *book, size_t slot)
{
	return book->set->plan->slots[slot].ring >= book->set->plan->nr_drained;
}

/* Readers come as seldom as they are told to: what did not fit meanwhile was given up. */
static bool was_paced(const struct ledger_book *book)
{
	return book->paced_ns && atomic_load_explicit(book->paced_ns, memory_order_relaxed) > book->read_ns;
}

static struct ledger_entry loss_of(const struct ledger_book *book, size_t slot, uint64_t from_ns, uint64_t to_ns)
{
	const struct plan_slot *plan = &book->set->plan->slots[slot];

	return (struct ledger_entry){
		.event = (uint32_t)plan->event,
		.cause = is_overwritten(book, slot) ? LEDGER_PAUSED : was_paced(book) ? LEDGER_SHED : LEDGER_RING_FULL,
		.cpu = plan->cpu,
		.tid = plan->cpu < 0 ? plan->pid : -1,
		.from_ns = from_ns,
		.to_ns = to_ns,
	};
}

/* Each reading that found something is an interval; when there are many, those that follow each other are one. */
static int note(struct ledger_book *book, size_t *open, const struct ledger_entry *entry)
{
	struct ledger_entry *before = *open ? &book->ledger.entries[*open - 1] : NULL;

	if (before && book->ledger.nr_entries >= MANY && before->cause == entry->cause) {
		before->to_ns = entry->to_ns;
		before->count += entry->count;
		return 0;
	}
	int err = ledger_add(&book->ledger, entry);
	if (!err)
		*open = book->ledger.nr_entries;
	return err;
}

static int read_slot(struct ledger_book *book, size_t slot, uint64_t now)
{
	uint64_t lost = eventset_lost(book->set, slot);

	if (lost <= book->lost[slot]) {
		book->open[slot] = 0;
		return 0;
	}
	struct ledger_entry entry = loss_of(book, slot, book->read_ns, now);
	entry.count = lost - book->lost[slot];
	int err = note(book, &book->open[slot], &entry);
	if (!err)
		book->lost[slot] = lost;
	return err;
}

static int read_cuts(struct ledger_book *book, uint64_t now)
{
	struct stack_cut_count count;
	int err = 0;

	for (size_t i = 0; !err && stack_cut_count(book->cutter, i, &count); i++) {
		const struct ledger_entry entry = {
			.event = count.event,
			.cause = LEDGER_TRIMMED,
			.cpu = count.cpu,
			.tid = -1,
			.from_ns = book->read_ns,
			.to_ns = now,
			.count = count.count - book->cut[i],
		};
		if (entry.count)
			err = note(book, &book->cut_open[i], &entry);
		else
			book->cut_open[i] = 0;
		if (!err)
			book->cut[i] = count.count;
	}
	return err;
}

static int read_slots(struct ledger_book *book, bool overwritten)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	int err = 0;

	for (size_t i = 0; i < book->set->plan->nr_slots && !err; i++)
		if (overwritten || !is_overwritten(book, i))
			err = read_slot(book, i, now);
	if (!err && book->cutter)
		err = read_cuts(book, now);
	book->read_ns = now;
	book->reading_ns = clock_ns(CLOCK_MONOTONIC) - now;
	return err;
}

int ledger_book_read(struct ledger_book *book)
{
	return read_slots(book, false);
}

int ledger_book_note_pause(struct ledger_book *book, size_t slot, uint64_t from_ns, uint64_t to_ns)
{
	struct ledger_entry entry = loss_of(book, slot, from_ns, to_ns);
	uint64_t lost = eventset_lost(book->set, slot);

	entry.count = lost > book->lost[slot] ? lost - book->lost[slot] : 0;
	/* Time in which nothing happened is worth telling, but not worth any amount of memory. */
	if (!entry.count && book->ledger.nr_entries >= MANY)
		return 0;
	int err = ledger_add(&book->ledger, &entry);
	if (!err)
		book->lost[slot] += entry.count;
	return err;
}

/* From one clock to the other, which need not go at the same pace. */
static uint64_t to_perf(const struct ledger_moment *start, const struct ledger_moment *end, uint64_t ns)
{
	if (!start->perf_ns || !end->perf_ns || end->ns <= start->ns || ns <= start->ns)
		return start->perf_ns;
	double pace = (double)(end->perf_ns - start->perf_ns) / (double)(end->ns - start->ns);
	return start->perf_ns + (uint64_t)((double)(ns - start->ns) * pace);
}

static void convert(struct ledger *ledger, const struct ledger_moment *start, const struct ledger_moment *end)
{
	for (size_t i = 0; i < ledger->nr_entries; i++) {
		ledger->entries[i].from_ns = to_perf(start, end, ledger->entries[i].from_ns);
		ledger->entries[i].to_ns = to_perf(start, end, ledger->entries[i].to_ns);
	}
	for (size_t i = 0; i < ledger->nr_actions; i++)
		ledger->actions[i].ns = to_perf(start, end, ledger->actions[i].ns);
	ledger->started_ns = start->perf_ns;
	ledger->ended_ns = end->perf_ns;
}

/* From here on what is lost is that of the next span. */
static int end_span(struct ledger_book *book, const struct ledger_moment *end, struct ledger *ret)
{
	struct ledger span = {.counted = book->ledger.counted};
	int err = 0;

	for (size_t i = book->span_entry; i < book->ledger.nr_entries && !err; i++)
		err = ledger_add(&span, &book->ledger.entries[i]);
	if (err) {
		ledger_fini(&span);
		return err;
	}
	convert(&span, &book->span_start, end);
	*ret = span;
	for (size_t i = 0; i < book->set->plan->nr_slots; i++)
		book->open[i] = 0;
	for (size_t i = 0; i < nr_cut_counts(book->cutter); i++)
		book->cut_open[i] = 0;
	book->span_start = *end;
	book->span_entry = book->ledger.nr_entries;
	return 0;
}

int ledger_book_cut(struct ledger_book *book, struct ledger *ret)
{
	int err = read_slots(book, true);
	const struct ledger_moment end = moment_now(book->set);

	return err ? err : end_span(book, &end, ret);
}

int ledger_book_close(struct ledger_book *book)
{
	int err = read_slots(book, true);
	const struct ledger_moment end = moment_now(book->set);
	int span_err = end_span(book, &end, &book->span);

	convert(&book->ledger, &book->start, &end);
	return err ? err : span_err;
}
