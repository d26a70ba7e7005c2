/* SPDX-License-Identifier: MIT */
#include "record/run/ledger.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "compress/stack_cut.h"
#include "event/parse/event.h"
#include "perfdata/ledger.h"
#include "record/drain/readers.h"
#include "record/setup/eventset.h"
#include "record/setup/perf_clock.h"
#include "stream/batch_pool.h"
#include "sysinfo/memory.h"

static struct ledger_moment moment_now(const struct eventset *set)
{
	const struct perf_event_attr *attr = set->events->nr ? &set->events->events[0].attr : NULL;
	uint64_t perf_ns = attr && attr->use_clockid ? clock_ns(attr->clockid) : perf_clock_now(set->clock);

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
	for (size_t i = 0; i < set->plan->nr_drained; i++)
		book->ledger.task_rings |= set->plan->rings[i].channel == CHANNEL_SIDE;
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

/* Readers wait as long as --max-cpu makes them: what did not fit in between was dropped by the CPU limit. */
static bool was_paced(const struct ledger_book *book)
{
	return book->interval_until_ns &&
	       atomic_load_explicit(book->interval_until_ns, memory_order_relaxed) > book->read_ns;
}

/* Draining threads waited for memory since the last reading. */
static bool was_storage_late(const struct ledger_book *book)
{
	return book->full_ns && atomic_load_explicit(book->full_ns, memory_order_relaxed) > book->read_ns;
}

static enum ledger_cause cause_of(const struct ledger_book *book, size_t slot)
{
	if (is_overwritten(book, slot))
		return LEDGER_PAUSED;
	return was_paced(book) ? LEDGER_CPU_LIMIT : was_storage_late(book) ? LEDGER_STORAGE : LEDGER_RING_FULL;
}

/* Events for wake-ups are no events of the file: what they lose is lost to that for whose sake they are there. */
static uint32_t event_in_file(const struct event_list *list, size_t event)
{
	size_t switches = 0;

	if (list->events[event].off_cpu != EVENT_WAKE_UPS)
		return (uint32_t)event;
	while (list->events[switches].off_cpu != EVENT_SWITCHES)
		switches++;
	return (uint32_t)switches;
}

static struct ledger_entry loss_of(const struct ledger_book *book, size_t slot, uint64_t from_ns, uint64_t to_ns)
{
	const struct plan_slot *plan = &book->set->plan->slots[slot];

	return (struct ledger_entry){
		.event = event_in_file(book->set->events, plan->event),
		.cause = cause_of(book, slot),
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
	if (err)
		return err;
	atomic_fetch_add_explicit(&book->nr_lost, lost - book->lost[slot], memory_order_relaxed);
	book->lost[slot] = lost;
	return 0;
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

uint64_t ledger_book_now(const struct ledger_book *book)
{
	const struct ledger_moment *start = &book->start, now = moment_now(book->set);

	return now.perf_ns || !start->perf_ns ? now.perf_ns : start->perf_ns + (now.ns - start->ns);
}

/*
 * From one clock to the other, which may run at another rate. One that is not known, or was set back, gives the time of
 * the start.
 */
static uint64_t to_perf(const struct ledger_moment *start, const struct ledger_moment *end, uint64_t ns)
{
	if (!start->perf_ns || end->perf_ns < start->perf_ns || end->ns <= start->ns || ns <= start->ns)
		return start->perf_ns;
	if (ns >= end->ns)
		return end->perf_ns;
	double rate = (double)(end->perf_ns - start->perf_ns) / (double)(end->ns - start->ns);
	return start->perf_ns + (uint64_t)((double)(ns - start->ns) * rate);
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
	struct ledger span = {.counted = book->ledger.counted, .task_rings = book->ledger.task_rings};
	int err = 0;

	for (size_t i = book->span_entry; i < book->ledger.nr_entries && !err; i++)
		err = ledger_add(&span, &book->ledger.entries[i]);
	if (err) {
		ledger_fini(&span);
		return err;
	}
	convert(&span, &book->span_start, end);
	*ret = span;
	memset(book->open, 0, book->set->plan->nr_slots * sizeof(*book->open));
	memset(book->cut_open, 0, nr_cut_counts(book->cutter) * sizeof(*book->cut_open));
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

void ledger_book_end(struct ledger_book *book)
{
	book->end = moment_now(book->set);
}

int ledger_book_close(struct ledger_book *book)
{
	int err = read_slots(book, true);
	const struct ledger_moment end = book->end.ns ? book->end : moment_now(book->set);
	int span_err = end_span(book, &end, &book->span);

	convert(&book->ledger, &book->start, &end);
	return err ? err : span_err;
}

/* The ring, and as much again as came while it was full, in the next power of two. */
static size_t enough_bytes(const struct coverage_params *params, uint64_t lost)
{
	enum { LIKELY_RECORD = 128 };
	uint64_t record = params->nr_samples ? params->drained_bytes / params->nr_samples + 1 : LIKELY_RECORD;
	uint64_t need = params->ring_bytes + lost * record;
	size_t bytes = params->ring_bytes ? params->ring_bytes : 1;

	while ((bytes < need || bytes < params->least_ring_bytes) && bytes < (size_t)1 << 40)
		bytes *= 2;
	return bytes;
}

/* Of gaps in which nothing is known to be lost no size follows. */
static void advise(const struct coverage_params *params, const struct ledger_entry *gaps, size_t nr_gaps,
		   struct coverage *ret)
{
	for (size_t i = 0; i < nr_gaps; i++) {
		const struct ledger_entry *gap = &gaps[i];
		size_t bytes = gap->count ? enough_bytes(params, gap->count) : 0;
		if (gap->cause != LEDGER_RING_FULL)
			continue;
		if (bytes > params->most_ring_bytes && gap->to_ns - gap->from_ns > ret->blind_ns)
			ret->blind_ns = gap->to_ns - gap->from_ns;
		ret->enough_bytes = bytes > ret->enough_bytes ? bytes : ret->enough_bytes;
	}
	if (ret->blind_ns)
		ret->enough_bytes = 0;
}

static bool has_input(const struct loss_times *losses)
{
	return losses && losses->nr_places && losses->last_ns;
}

/*
 * The samples of a ring before its first LOST record may not be among those that were kept (collector.c): then the gap
 * may have begun with the recording. What the counters tell shortens it.
 */
static void extend_gaps(const struct ledger *ledger, struct loss_times *losses)
{
	for (size_t i = 0; i < losses->nr_gaps; i++) {
		struct ledger_entry *gap = &losses->gaps[i];
		if (gap->cause == LEDGER_RING_FULL && gap->from_ns == gap->to_ns && ledger->started_ns &&
		    ledger->started_ns < gap->to_ns)
			gap->from_ns = ledger->started_ns;
	}
}

static int gaps_of_records(const struct coverage_params *params, struct ledger_entry **ret, size_t *ret_nr)
{
	struct loss_times *losses = params->losses;
	struct ledger *ledger = params->ledger;
	int err = loss_times_end(losses, ledger->ended_ns ? ledger->ended_ns : losses->last_ns, ledger);

	if (err)
		return err;
	if (params->mixed)
		extend_gaps(ledger, losses);
	return ledger_join(ledger, losses->gaps, losses->nr_gaps, ret, ret_nr);
}

/* Without those of task events. */
static int gaps_of_readings(const struct coverage_params *params, struct ledger_entry **ret, size_t *ret_nr)
{
	const struct ledger *ledger = params->ledger;
	size_t nr = 0;

	*ret = calloc(ledger->nr_entries + 1, sizeof(**ret));
	for (size_t i = 0; *ret && i < ledger->nr_entries; i++)
		if (!ledger->task_rings || !params->losses ||
		    loss_times_samples(params->losses, ledger->entries[i].event))
			(*ret)[nr++] = ledger->entries[i];
	*ret_nr = nr;
	return *ret ? 0 : -ENOMEM;
}

int coverage_make(const struct coverage_params *params, struct coverage *ret)
{
	struct ledger *ledger = params->ledger;
	const bool by_records = has_input(params->losses);
	struct coverage coverage = {.exact = by_records && !params->mixed, .nr_places = params->nr_places};
	AUTO_FREE struct ledger_entry *gaps = NULL;
	size_t nr_gaps;
	int err = by_records ? gaps_of_records(params, &gaps, &nr_gaps) : gaps_of_readings(params, &gaps, &nr_gaps);

	if (!err)
		err = ledger_sum(gaps, nr_gaps, &coverage.sum);
	if (err)
		return err;
	if (by_records)
		coverage.nr_places = params->losses->nr_places;
	if (ledger->ended_ns > ledger->started_ns)
		coverage.elapsed_ns = ledger->ended_ns - ledger->started_ns;
	else if (by_records)
		coverage.elapsed_ns = params->losses->last_ns - params->losses->first_ns;
	advise(params, gaps, nr_gaps, &coverage);
	*ret = coverage;
	return 0;
}

double coverage_percent(const struct coverage *coverage)
{
	double all_ns = (double)coverage->elapsed_ns * (double)coverage->nr_places;
	double percent = all_ns > 0 ? 100.0 * (1.0 - (double)coverage->sum.gap_ns / all_ns) : 100.0;

	if (percent > 99.99 && percent < 100) /* "at least 100.00 %" would be false */
		return 99.99;
	return percent < 0 ? 0 : percent;
}

struct named_cost {
	const char *name;
	uint64_t value;
};

static int add_all(struct ledger *ledger, const struct named_cost costs[], size_t nr)
{
	int err = 0;

	for (size_t i = 0; i < nr && !err; i++)
		err = ledger_add_cost(ledger, costs[i].name, costs[i].value);
	return err;
}

#define ADD_ALL(ledger, costs) add_all(ledger, costs, sizeof(costs) / sizeof((costs)[0]))

/* proc_pid_io(5): "syscw: 12". 0: the kernel does not count it. */
static uint64_t io_count(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static int add_io(struct ledger *ledger)
{
	AUTO_BUF struct buf io = {0};
	int err = fd_slurp("/proc/self/io", 4096, &io);

	if (err)
		return err == -ENOMEM ? err : 0;
	const char *text = buf_text(&io);
	const struct named_cost costs[] = {
		{"read calls", io_count(text, "syscr: ")},
		{"write calls", io_count(text, "syscw: ")},
		{"written bytes", io_count(text, "wchar: ")},
	};
	return ADD_ALL(ledger, costs);
}

static int add_process(struct ledger *ledger)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage))
		return 0;
	const struct named_cost costs[] = {
		{"all cpu ns", clock_ns(CLOCK_PROCESS_CPUTIME_ID)},
		{"page faults", (uint64_t)(usage.ru_minflt + usage.ru_majflt)},
		{"sleeps", (uint64_t)usage.ru_nvcsw},
		{"preemptions", (uint64_t)usage.ru_nivcsw},
	};
	int err = ADD_ALL(ledger, costs);
	return err ? err : add_io(ledger);
}

static const struct reader_work *work_of(const struct reader *reader)
{
	return reader->started ? &reader->at_switch : &reader->at_end;
}

/* Of several: each by itself. */
static int add_threads(const struct readers *readers, struct ledger *ledger)
{
	int err = 0;

	for (size_t i = 0; i < readers->nr && readers->nr > 1 && !err; i++) {
		char name[sizeof(ledger->costs->name)];
		snprintf(name, sizeof(name), "drain thread %u cpu ns", (unsigned)i);
		err = ledger_add_cost(ledger, name, work_of(&readers->readers[i])->use.cpu_ns);
	}
	return err;
}

static int add_drain(const struct readers *readers, struct ledger *ledger)
{
	struct reader_work all = {0};

	for (size_t i = 0; i < readers->nr; i++) {
		const struct reader_work *work = work_of(&readers->readers[i]);
		all.use.cpu_ns += work->use.cpu_ns;
		all.use.waited_ns += work->use.waited_ns;
		all.use.sleeps += work->use.sleeps;
		all.use.preemptions += work->use.preemptions;
		all.wakeups += work->wakeups;
		all.visits += work->visits;
		all.bytes += work->bytes;
	}
	const struct named_cost costs[] = {
		{"drain cpu ns", all.use.cpu_ns},
		{"drain waited for a CPU ns", all.use.waited_ns},
		{"drain wake-ups", all.wakeups},
		{"drain sleeps", all.use.sleeps},
		{"drain preemptions", all.use.preemptions},
		{"drain visits", all.visits},
		{"drained bytes", all.bytes},
	};
	int err = ADD_ALL(ledger, costs);
	return err ? err : add_threads(readers, ledger);
}

/* The threads that compress and write. */
static int add_pool(struct batch_pool *pool, struct ledger *ledger)
{
	if (!pool)
		return 0;
	pthread_mutex_lock(&pool->lock);
	const struct named_cost costs[] = {
		{"compress cpu ns", pool->totals.pack_cpu_ns},
		{"write cpu ns", pool->totals.write_cpu_ns},
	};
	pthread_mutex_unlock(&pool->lock);
	/* The same costs in each cut: a level that is lowered to 0 still compressed before. */
	if (!pool->level)
		return ledger_add_cost(ledger, costs[1].name, costs[1].value);
	return ADD_ALL(ledger, costs);
}

/* All that grows, always in the same order. */
static int add_sums(const struct recorder_cost *cost, struct ledger *ledger)
{
	int err = ledger_add_cost(ledger, "start cpu ns", cost->start_cpu_ns);

	if (!err)
		err = add_drain(cost->readers, ledger);
	if (!err)
		err = add_pool(cost->pool, ledger);
	if (!err)
		err = ledger_add_cost(ledger, "housekeeping cpu ns", *cost->housekeeping_cpu_ns);
	return err ? err : add_process(ledger);
}

static int add_peak(struct ledger *ledger)
{
	uint64_t bytes;
	int err = memory_peak(&bytes);

	if (err)
		return err == -ENOMEM ? err : 0;
	return ledger_add_cost(ledger, "peak memory bytes", bytes);
}

int recorder_cost_cut(struct recorder_cost *cost, struct ledger *ledger)
{
	struct ledger now = {0};
	int err = add_sums(cost, &now);

	for (size_t i = 0; i < now.nr_costs && !err; i++) {
		const uint64_t before = i < cost->reported.nr_costs ? cost->reported.costs[i].value : 0;
		/* Less than before: a part of it is an estimate. It is made up for in a later file. */
		if (now.costs[i].value < before)
			now.costs[i].value = before;
		err = ledger_add_cost(ledger, now.costs[i].name, now.costs[i].value - before);
	}
	if (!err)
		err = add_peak(ledger);
	ledger_fini(&cost->reported);
	cost->reported = now;
	return err;
}

int recorder_cost_add(const struct recorder_cost *cost, struct ledger *ledger)
{
	int err = add_sums(cost, ledger);

	return err ? err : add_peak(ledger);
}

void recorder_cost_fini(struct recorder_cost *cost)
{
	ledger_fini(&cost->reported);
}
