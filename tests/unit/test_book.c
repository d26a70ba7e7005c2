/* SPDX-License-Identifier: MIT */
/* How counters of lost records become entries with times, and those a coverage; counters come from pipes here. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "compress/extent_stats.h"
#include "compress/stack_cut.h"
#include "event/parse/event.h"
#include "perfdata/ledger.h"
#include "perfdata/record.h"
#include "record/drain/readers.h"
#include "record/run/ledger.h"
#include "record/setup/eventset.h"
#include "record/setup/perf_clock.h"
#include "stream/batch_pool.h"
#include "sysinfo/memory.h"

enum { CPU_0, CPU_1, TASK, OVERWRITTEN, NR_SLOTS };
enum { TID = 77, SEC_NS = 1000000000 };

/* Two CPUs, on the first of which only a task is observed, and that task anywhere: drained; an overwritten ring. */
static struct {
	struct event event;
	struct event_list list;
	struct plan_slot slots[NR_SLOTS];
	struct plan_ring rings[NR_SLOTS];
	struct plan plan;
	struct eventset set;
	int fds[NR_SLOTS], counters[NR_SLOTS];
	_Atomic uint64_t lost_before[NR_SLOTS];
	struct ledger_book book;
} fake;

static bool usage_is_unknown;

/* Instead of libc's: what the test does would make other numbers each time. */
int getrusage(__rusage_who_t who, struct rusage *ret)
{
	if (usage_is_unknown || who != RUSAGE_SELF) {
		errno = EINVAL;
		return -1;
	}
	*ret = (struct rusage){.ru_minflt = 900, .ru_majflt = 30, .ru_nvcsw = 50, .ru_nivcsw = 7};
	return 0;
}

static int begin(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	fake.event.attr = (struct perf_event_attr){
		.read_format = PERF_FORMAT_LOST | PERF_FORMAT_ID, .use_clockid = 1, .clockid = CLOCK_MONOTONIC};
	fake.list = (struct event_list){.events = &fake.event, .nr = 1};
	fake.plan = (struct plan){.slots = fake.slots, .nr_slots = NR_SLOTS, .rings = fake.rings, .nr_rings = NR_SLOTS};
	fake.plan.nr_drained = OVERWRITTEN;
	for (size_t i = 0; i < NR_SLOTS; i++) {
		int ends[2];
		if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
			return -1;
		fake.rings[i].channel = CHANNEL_DATA;
		fake.fds[i] = ends[0];
		fake.counters[i] = ends[1];
		fake.slots[i] = (struct plan_slot){
			.cpu = i == TASK ? -1 : (int)i, .pid = i == TASK || i == CPU_0 ? TID : -1, .ring = i};
	}
	fake.set = (struct eventset){
		.plan = &fake.plan, .events = &fake.list, .fds = fake.fds, .lost_before = fake.lost_before};
	return ledger_book_open(&fake.book, &fake.set, NULL);
}

static int end(void **state)
{
	(void)state;
	ledger_book_fini(&fake.book);
	for (size_t i = 0; i < NR_SLOTS; i++) {
		close(fake.fds[i]);
		close(fake.counters[i]);
	}
	return 0;
}

/* What the next read(2) of that slot says. */
static void lost(size_t slot, uint64_t count)
{
	const uint64_t values[5] = {123, 456, count}; /* value, id, lost; a read takes five at most */

	assert_int_equal(write(fake.counters[slot], values, sizeof(values)), sizeof(values));
}

static const struct ledger_entry *entry(size_t index, uint32_t cause, int cpu, uint64_t count)
{
	const struct ledger_entry *found = &fake.book.ledger.entries[index];

	assert_true(index < fake.book.ledger.nr_entries);
	assert_int_equal(found->event, 0);
	assert_int_equal(found->cause, cause);
	assert_int_equal(found->cpu, cpu);
	assert_int_equal(found->count, count);
	assert_true(found->from_ns <= found->to_ns);
	return found;
}

/* What is opened again counts from 0, and what was lost before stays. */
static void test_events_that_were_opened_again(void **state)
{
	(void)state;
	lost(CPU_1, 7);
	assert_int_equal(ledger_book_read(&fake.book), 0);
	entry(0, LEDGER_RING_FULL, 1, 7);
	lost(CPU_1, 0); /* it is open, and what was lost before is not noted yet */
	assert_int_equal(ledger_book_read(&fake.book), 0);
	fake.lost_before[CPU_1] = 7;
	lost(CPU_1, 2);
	assert_int_equal(ledger_book_read(&fake.book), 0);
	assert_int_equal(fake.book.ledger.nr_entries, 2);
	entry(1, LEDGER_RING_FULL, 1, 2);
}

static void test_what_counters_grow_by_was_lost(void **state)
{
	(void)state;
	assert_true(fake.book.ledger.counted);
	assert_false(fake.book.ledger.task_rings);
	uint64_t began_ns = fake.book.read_ns;
	lost(CPU_0, 0);
	lost(CPU_1, 7);
	lost(TASK, 2);
	assert_int_equal(ledger_book_read(&fake.book), 0);
	assert_int_equal(fake.book.ledger.nr_entries, 2);
	assert_int_equal(entry(0, LEDGER_RING_FULL, 1, 7)->tid, -1);
	assert_int_equal(entry(1, LEDGER_RING_FULL, -1, 2)->tid, TID);
	assert_int_equal(fake.book.ledger.entries[0].from_ns, began_ns);
	assert_int_equal(fake.book.ledger.entries[0].to_ns, fake.book.read_ns);
	assert_int_equal(atomic_load(&fake.book.nr_lost), 9);

	uint64_t second_ns = fake.book.read_ns;
	lost(CPU_0, 5);
	lost(CPU_1, 7);
	lost(TASK, 3);
	assert_int_equal(ledger_book_read(&fake.book), 0);
	assert_int_equal(fake.book.ledger.nr_entries, 4);
	assert_int_equal(entry(2, LEDGER_RING_FULL, 0, 5)->from_ns, second_ns);
	assert_int_equal(entry(2, LEDGER_RING_FULL, 0, 5)->tid, -1); /* the ring is that of the CPU */
	entry(3, LEDGER_RING_FULL, -1, 1);
	assert_int_equal(atomic_load(&fake.book.nr_lost), 15);
}

static void test_causes(void **state)
{
	_Atomic uint64_t full_ns = 0, interval_until_ns = 0;

	(void)state;
	fake.book.full_ns = &full_ns;
	fake.book.interval_until_ns = &interval_until_ns;
	lost(CPU_0, 1);
	assert_int_equal(ledger_book_read(&fake.book), 0);
	atomic_store(&full_ns, fake.book.read_ns + 1);
	lost(CPU_0, 3);
	assert_int_equal(ledger_book_read(&fake.book), 0);
	atomic_store(&interval_until_ns, fake.book.read_ns + 1);
	atomic_store(&full_ns, fake.book.read_ns + 1);
	lost(CPU_0, 6);
	assert_int_equal(ledger_book_read(&fake.book), 0);
	atomic_store(&interval_until_ns, fake.book.read_ns);
	atomic_store(&full_ns, fake.book.read_ns);
	lost(CPU_0, 10);
	assert_int_equal(ledger_book_read(&fake.book), 0);
	assert_int_equal(fake.book.ledger.nr_entries, 4);
	entry(0, LEDGER_RING_FULL, 0, 1);
	entry(1, LEDGER_STORAGE, 0, 2);
	entry(2, LEDGER_CPU_LIMIT, 0, 3);
	entry(3, LEDGER_RING_FULL, 0, 4);
}

static void test_overwritten_rings_are_read_at_the_end_of_a_file(void **state)
{
	(void)state;
	lost(OVERWRITTEN, 4);
	assert_int_equal(ledger_book_read(&fake.book), 0);
	assert_int_equal(fake.book.ledger.nr_entries, 0);
	assert_int_equal(ledger_book_close(&fake.book), 0);
	entry(0, LEDGER_PAUSED, OVERWRITTEN, 4);
}

/* What an event for wake-ups loses is lost to that of switches. */
static void test_events_that_are_not_in_the_file(void **state)
{
	struct event events[] = {
		{.off_cpu = EVENT_NOT_OFF_CPU}, {.off_cpu = EVENT_SWITCHES}, {.off_cpu = EVENT_WAKE_UPS}};

	(void)state;
	for (size_t i = 0; i < 3; i++)
		events[i].attr = fake.event.attr;
	fake.list = (struct event_list){.events = events, .nr = 3};
	fake.slots[CPU_0].event = 2;
	fake.slots[CPU_1].event = 1;
	lost(CPU_0, 5);
	lost(CPU_1, 6);
	assert_int_equal(ledger_book_read(&fake.book), 0);
	assert_int_equal(fake.book.ledger.nr_entries, 2);
	assert_int_equal(fake.book.ledger.entries[0].event, 1);
	assert_int_equal(fake.book.ledger.entries[1].event, 1);
}

static uint64_t cost_of(const struct ledger *ledger, const char *name)
{
	for (size_t i = 0; i < ledger->nr_costs; i++)
		if (strcmp(ledger->costs[i].name, name) == 0)
			return ledger->costs[i].value;
	fail_msg("no %s", name);
	return 0;
}

/* Of a thread that goes on, as of the last change of outputs; of one that has ended, all. */
static void test_costs(void **state)
{
	static struct reader threads[3]; /* the last one is no reader's */
	struct reader_work first = {.wakeups = 3, .visits = 5, .bytes = 100},
			   second = {.wakeups = 30, .visits = 50, .bytes = 1000};
	uint64_t housekeeping_ns = 7, peak_bytes;
	struct readers readers = {.readers = threads, .nr = 2};
	struct recorder_cost cost = {.readers = &readers, .housekeeping_cpu_ns = &housekeeping_ns, .start_cpu_ns = 11};
	struct ledger all = {0}, cut = {0}, later = {0};

	(void)state;
	first.use.cpu_ns = 1000;
	first.use.waited_ns = 10;
	first.use.sleeps = 1;
	first.use.preemptions = 2;
	second.use.cpu_ns = 20000;
	second.use.waited_ns = 200;
	second.use.sleeps = 20;
	second.use.preemptions = 40;
	memset(threads, 0, sizeof(threads));
	threads[0].started = true;
	threads[0].at_switch = first;
	threads[1].at_end = second;
	assert_int_equal(recorder_cost_add(&cost, &all), 0);
	assert_int_equal(cost_of(&all, "start cpu ns"), 11);
	assert_int_equal(cost_of(&all, "housekeeping cpu ns"), 7);
	assert_int_equal(cost_of(&all, "drain cpu ns"), 21000);
	assert_int_equal(cost_of(&all, "drain waited for a CPU ns"), 210);
	assert_int_equal(cost_of(&all, "drain wake-ups"), 33);
	assert_int_equal(cost_of(&all, "drain sleeps"), 21);
	assert_int_equal(cost_of(&all, "drain preemptions"), 42);
	assert_int_equal(cost_of(&all, "drain visits"), 55);
	assert_int_equal(cost_of(&all, "drained bytes"), 1100);
	assert_int_equal(cost_of(&all, "drain thread 0 cpu ns"), 1000);
	assert_int_equal(cost_of(&all, "drain thread 1 cpu ns"), 20000);
	for (size_t i = 0; i < all.nr_costs; i++)
		assert_string_not_equal(all.costs[i].name, "drain thread 2 cpu ns");
	assert_in_range(cost_of(&all, "all cpu ns"), 1, clock_ns(CLOCK_PROCESS_CPUTIME_ID));
	assert_int_equal(cost_of(&all, "page faults"), 930);
	assert_int_equal(cost_of(&all, "sleeps"), 50);
	assert_int_equal(cost_of(&all, "preemptions"), 7);
	assert_int_equal(memory_peak(&peak_bytes), 0);
	assert_in_range(cost_of(&all, "peak memory bytes"), 1 << 20, peak_bytes);

	/* Each file has what was used in its time. */
	assert_int_equal(recorder_cost_cut(&cost, &cut), 0);
	assert_int_equal(cost_of(&cut, "drained bytes"), 1100);
	threads[0].at_switch.bytes += 50;
	threads[0].at_switch.use.cpu_ns += 9;
	housekeeping_ns += 4;
	assert_int_equal(recorder_cost_cut(&cost, &later), 0);
	assert_int_equal(cost_of(&later, "drained bytes"), 50);
	assert_int_equal(cost_of(&later, "drain cpu ns"), 9);
	assert_int_equal(cost_of(&later, "drain thread 0 cpu ns"), 9);
	assert_int_equal(cost_of(&later, "drain thread 1 cpu ns"), 0);
	assert_int_equal(cost_of(&later, "housekeeping cpu ns"), 4);
	assert_int_equal(cost_of(&later, "start cpu ns"), 0);
	assert_int_equal(later.nr_costs, all.nr_costs);
	ledger_fini(&later);
	/* What stores took is estimated, and taken off: it may be more than the thread has used since the last file. */
	threads[0].at_switch.use.cpu_ns -= 5;
	assert_int_equal(recorder_cost_cut(&cost, &later), 0);
	assert_int_equal(cost_of(&later, "drain cpu ns"), 0);
	assert_int_equal(cost_of(&later, "drain thread 0 cpu ns"), 0);
	ledger_fini(&later);
	threads[0].at_switch.use.cpu_ns += 8;
	assert_int_equal(recorder_cost_cut(&cost, &later), 0);
	assert_int_equal(cost_of(&later, "drain cpu ns"), 3);
	ledger_fini(&later);
	if (!access("/proc/self/io", R_OK)) { /* some kernels do not count that */
		static const char kib[1024];
		int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
		for (unsigned i = 0; i < 3; i++)
			assert_int_equal(write(fd, kib, sizeof(kib)), sizeof(kib));
		close(fd);
		assert_int_equal(recorder_cost_cut(&cost, &later), 0);
		assert_in_range(cost_of(&later, "written bytes"), 3 * sizeof(kib), 1 << 20);
		assert_in_range(cost_of(&later, "write calls"), 3, 1000);
		assert_in_range(cost_of(&later, "read calls"), 1, 1000); /* of that file itself */
	}
	ledger_fini(&all);
	ledger_fini(&cut);
	ledger_fini(&later);
	/* One thread is not told apart; no threads that compress: no such cost. */
	readers.nr = 1;
	assert_int_equal(recorder_cost_add(&cost, &all), 0);
	for (size_t i = 0; i < all.nr_costs; i++)
		assert_true(strncmp(all.costs[i].name, "drain thread", 12) &&
			    strncmp(all.costs[i].name, "compress", 8));
	ledger_fini(&all);
	recorder_cost_fini(&cost);
	/* What the kernel does not tell is left out, and is no error. */
	usage_is_unknown = true;
	assert_int_equal(recorder_cost_add(&cost, &all), 0);
	usage_is_unknown = false;
	assert_int_equal(cost_of(&all, "drained bytes"), 150);
	for (size_t i = 0; i < all.nr_costs; i++)
		assert_string_not_equal(all.costs[i].name, "page faults");
	ledger_fini(&all);
}

/* The threads that compress, where there are some. */
static void test_costs_of_the_pool(void **state)
{
	struct readers readers = {0};
	uint64_t housekeeping_ns = 0;

	(void)state;
	for (int level = 0; level < 2; level++) {
		struct batch_pool *pool;
		struct ledger ledger = {0};
		const struct batch_pool_params params = {.level = level, .nr_pipelines = 1, .no_index = true};
		assert_int_equal(batch_pool_new(&params, &pool, NULL), 0);
		pool->totals.pack_cpu_ns = 5;
		pool->totals.write_cpu_ns = 6;
		struct recorder_cost cost = {
			.readers = &readers, .pool = pool, .housekeeping_cpu_ns = &housekeeping_ns};
		assert_int_equal(recorder_cost_add(&cost, &ledger), 0);
		assert_int_equal(cost_of(&ledger, "write cpu ns"), 6);
		if (level)
			assert_int_equal(cost_of(&ledger, "compress cpu ns"), 5);
		ledger_fini(&ledger);
		batch_pool_free(pool);
	}
}

/* Each file of a switched output has the ledger of its time; the last one what came since. */
static void test_spans(void **state)
{
	struct ledger first, second;

	(void)state;
	lost(CPU_0, 2);
	assert_int_equal(ledger_book_cut(&fake.book, &first), 0);
	lost(CPU_0, 5);
	assert_int_equal(ledger_book_cut(&fake.book, &second), 0);
	lost(CPU_0, 9);
	assert_int_equal(ledger_book_close(&fake.book), 0);
	assert_int_equal(first.nr_entries, 1);
	assert_int_equal(first.entries[0].count, 2);
	assert_int_equal(second.nr_entries, 1);
	assert_int_equal(second.entries[0].count, 3);
	assert_int_equal(fake.book.span.nr_entries, 1);
	assert_int_equal(fake.book.span.entries[0].count, 4);
	assert_int_equal(fake.book.ledger.nr_entries, 3);
	assert_true(first.started_ns && first.started_ns <= first.ended_ns);
	assert_int_equal(first.ended_ns, second.started_ns);
	assert_int_equal(second.ended_ns, fake.book.span.started_ns);
	assert_int_equal(fake.book.ledger.started_ns, first.started_ns);
	assert_int_equal(fake.book.ledger.ended_ns, fake.book.span.ended_ns);
	assert_true(first.counted && second.counted && fake.book.span.counted);
	ledger_fini(&first);
	ledger_fini(&second);
}

/* Readings that follow each other become one entry when there are very many. */
static void test_many_readings_take_bounded_memory(void **state)
{
	enum { MANY = 16384, MORE = 10 };

	(void)state;
	for (uint64_t i = 1; i <= MANY + MORE; i++) {
		lost(CPU_0, i);
		assert_int_equal(ledger_book_read(&fake.book), 0);
	}
	assert_int_equal(fake.book.ledger.nr_entries, MANY);
	assert_int_equal(fake.book.ledger.entries[MANY - 1].count, 1 + MORE);
	assert_int_equal(fake.book.ledger.entries[MANY - 1].to_ns, fake.book.read_ns);
	assert_int_equal(atomic_load(&fake.book.nr_lost), MANY + MORE);
	/* Then another entry begins. */
	lost(CPU_0, MANY + MORE);
	assert_int_equal(ledger_book_read(&fake.book), 0);
	lost(CPU_0, MANY + MORE + 1);
	assert_int_equal(ledger_book_read(&fake.book), 0);
	assert_int_equal(fake.book.ledger.nr_entries, MANY + 1);
}

static void test_now(void **state)
{
	(void)state;
	uint64_t before = clock_ns(CLOCK_MONOTONIC), now = ledger_book_now(&fake.book);

	assert_in_range(now, before, clock_ns(CLOCK_MONOTONIC)); /* which is the clock of samples here */
}

static bool can_open_events(void)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
				       .size = sizeof(attr),
				       .config = PERF_COUNT_SW_DUMMY,
				       .exclude_kernel = 1,
				       .exclude_hv = 1};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* The kernel's own clock is asked by a record that it is made to write; without a free descriptor it cannot be. */
static void test_now_without_a_clock_of_ours(void **state)
{
	struct rlimit before, none;

	(void)state;
	fake.event.attr.use_clockid = 0;
	uint64_t now = ledger_book_now(&fake.book), later = ledger_book_now(&fake.book);
	if (can_open_events()) {
		assert_true(now > 0);
		assert_in_range(later, now + 1, now + 60 * (uint64_t)SEC_NS);
	}
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	/* What is known of the start is what it goes by, and nothing where that is not. */
	fake.book.start.perf_ns = 5000;
	uint64_t least = 5000 + clock_ns(CLOCK_MONOTONIC) - fake.book.start.ns;
	now = ledger_book_now(&fake.book);
	uint64_t most = 5000 + clock_ns(CLOCK_MONOTONIC) - fake.book.start.ns;
	fake.book.start.perf_ns = 0;
	later = ledger_book_now(&fake.book);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_in_range(now, least, most);
	assert_int_equal(later, 0);
}

/* What is kept for readings is no descriptor, and goes on when all events are disabled. */
static void test_now_by_a_clock_that_is_kept(void **state)
{
	enum { TIMES = 300 };
	uint64_t last = 0;

	(void)state;
	if (!can_open_events())
		skip(); /* perf_event_open(2) is not allowed */
	fake.event.attr.use_clockid = 0;
	const int before = dup(STDERR_FILENO);
	fake.set.clock = perf_clock_new();
	assert_non_null(fake.set.clock);
	for (int i = 0; i < TIMES; i++) {
		eventset_disable(&fake.set);
		const uint64_t now = ledger_book_now(&fake.book);
		assert_true(now > last);
		last = now;
	}
	for (int i = 0; i < TIMES; i++) { /* more records than its ring has room for */
		const uint64_t now = ledger_book_now(&fake.book);
		assert_true(now > last);
		last = now;
	}
	const int after = dup(STDERR_FILENO);
	assert_int_equal(after, before + 1);
	close(before);
	close(after);
	perf_clock_free(fake.set.clock);
}

/* What comes later waits for the storage. What is counted then was lost before. */
static void test_the_end_is_when_events_are_disabled(void **state)
{
	(void)state;
	ledger_book_end(&fake.book);
	const uint64_t before_ns = ledger_book_now(&fake.book);
	lost(CPU_0, 2);
	assert_int_equal(ledger_book_read(&fake.book), 0);
	lost(CPU_1, 3);
	assert_int_equal(ledger_book_close(&fake.book), 0);
	assert_true(fake.book.ledger.started_ns < fake.book.ledger.ended_ns);
	assert_true(fake.book.ledger.ended_ns <= before_ns);
	assert_true(entry(0, LEDGER_RING_FULL, 0, 2)->to_ns <= fake.book.ledger.ended_ns);
	assert_true(entry(1, LEDGER_RING_FULL, 1, 3)->to_ns <= fake.book.ledger.ended_ns);
}

/* The clock of samples may run at another rate, as that of CPU time does: entries lie in the time of the recording. */
static void test_times_are_of_the_clock_of_samples(void **state)
{
	struct ledger cut;

	(void)state;
	ledger_book_fini(&fake.book);
	fake.event.attr.clockid = CLOCK_PROCESS_CPUTIME_ID;
	uint64_t before_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	assert_int_equal(ledger_book_open(&fake.book, &fake.set, NULL), 0);
	lost(CPU_0, 2);
	assert_int_equal(ledger_book_read(&fake.book), 0);
	lost(CPU_1, 3);
	assert_int_equal(ledger_book_read(&fake.book), 0);
	const struct ledger_action action = {.ns = fake.book.read_ns, .kind = LEDGER_LEVEL_CHANGED};
	assert_int_equal(ledger_add_action(&fake.book.ledger, &action), 0);
	assert_int_equal(ledger_book_cut(&fake.book, &cut), 0);
	lost(CPU_1, 5);
	uint64_t now_ns = ledger_book_now(&fake.book);
	assert_in_range(now_ns, cut.ended_ns, clock_ns(CLOCK_PROCESS_CPUTIME_ID));
	assert_int_equal(ledger_book_close(&fake.book), 0);
	const struct ledger *all = &fake.book.ledger;
	assert_true(before_ns <= cut.started_ns && all->ended_ns <= clock_ns(CLOCK_PROCESS_CPUTIME_ID));
	assert_int_equal(cut.nr_entries, 2);
	assert_int_equal(cut.entries[0].from_ns, cut.started_ns);
	assert_true(cut.entries[0].from_ns <= cut.entries[0].to_ns);
	assert_int_equal(cut.entries[0].to_ns, cut.entries[1].from_ns);
	assert_true(cut.entries[1].from_ns <= cut.entries[1].to_ns && cut.entries[1].to_ns <= cut.ended_ns);
	assert_int_equal(all->nr_entries, 3);
	assert_int_equal(all->started_ns, cut.started_ns);
	assert_true(all->actions[0].ns >= all->started_ns && all->actions[0].ns <= all->ended_ns);
	for (size_t i = 0; i < 3; i++)
		assert_true(all->started_ns <= all->entries[i].from_ns &&
			    all->entries[i].from_ns <= all->entries[i].to_ns && all->entries[i].to_ns <= all->ended_ns);
	assert_true(all->entries[1].to_ns <= all->actions[0].ns);
	ledger_fini(&cut);
}

/* The clocks have little in common but their rate: times are as far from the start in one as in the other. */
static void test_times_between_clocks(void **state)
{
	enum { STEP_US = 20000, SLACK_NS = 1000000 };
	struct rlimit limit;
	uint64_t ns[3];

	(void)state;
	ledger_book_fini(&fake.book);
	fake.event.attr.clockid = CLOCK_BOOTTIME;
	assert_int_equal(ledger_book_open(&fake.book, &fake.set, NULL), 0);
	for (size_t i = 0; i < 3; i++) {
		usleep(STEP_US);
		lost(CPU_0, i + 1);
		assert_int_equal(ledger_book_read(&fake.book), 0);
		ns[i] = clock_ns(CLOCK_BOOTTIME); /* a moment later */
	}
	assert_int_equal(ledger_book_close(&fake.book), 0);
	for (size_t i = 0; i < 3; i++) {
		const uint64_t to_ns = fake.book.ledger.entries[i].to_ns;
		assert_in_range(to_ns, (i ? ns[i - 1] : fake.book.ledger.started_ns) + STEP_US * 1000 - SLACK_NS,
				ns[i] + SLACK_NS);
	}
	/* Where the clock was not known at the start no time is. */
	ledger_book_fini(&fake.book);
	assert_int_equal(ledger_book_open(&fake.book, &fake.set, NULL), 0);
	fake.book.start.perf_ns = 0;
	lost(CPU_0, 9);
	assert_int_equal(ledger_book_close(&fake.book), 0);
	assert_int_equal(fake.book.ledger.nr_entries, 1);
	assert_int_equal(fake.book.ledger.entries[0].to_ns, 0);
	/* What was before the start is given its time, and so is all where the clock is not known at the end, or was
	 * set back. */
	const struct ledger_entry early = {.cause = LEDGER_STORAGE, .from_ns = 1, .to_ns = 1};
	ledger_book_fini(&fake.book);
	assert_int_equal(ledger_book_open(&fake.book, &fake.set, NULL), 0);
	assert_int_equal(ledger_add(&fake.book.ledger, &early), 0);
	assert_int_equal(ledger_book_close(&fake.book), 0);
	assert_true(fake.book.start.perf_ns);
	assert_int_equal(fake.book.ledger.entries[0].to_ns, fake.book.start.perf_ns);
	ledger_book_fini(&fake.book);
	assert_int_equal(ledger_book_open(&fake.book, &fake.set, NULL), 0);
	fake.book.start.perf_ns += UINT64_C(3600000000000);
	lost(CPU_0, 18);
	assert_int_equal(ledger_book_close(&fake.book), 0);
	assert_int_equal(fake.book.ledger.entries[0].to_ns, fake.book.start.perf_ns);
	ledger_book_fini(&fake.book);
	assert_int_equal(ledger_book_open(&fake.book, &fake.set, NULL), 0);
	lost(CPU_0, 19);
	fake.event.attr.use_clockid = 0;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, limit.rlim_max}), 0);
	int err = ledger_book_close(&fake.book);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(err, 0);
	assert_int_equal(fake.book.ledger.ended_ns, 0);
	assert_int_equal(fake.book.ledger.entries[0].to_ns, fake.book.start.perf_ns);
}

/* Stacks that were cut short are entries by event and CPU, of the time since the last reading. */
static void test_stacks_that_were_cut(void **state)
{
	static uint64_t id = 21;
	const struct event_desc dumps = {
		.attr = {.size = sizeof(struct perf_event_attr),
			 .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_CPU | PERF_SAMPLE_STACK_USER},
		.ids = &id,
		.nr_ids = 1};
	const uint64_t words[] = {id, 0, 16, 0xa, 0xb, 16}; /* id, CPU 0, a stack of two words */
	const struct perf_event_header header = {.type = PERF_RECORD_SAMPLE, .size = sizeof(header) + sizeof(words)};
	struct extent_stats *stats;
	struct stack_cutter *cutter;
	struct ledger span;

	(void)state;
	ledger_book_fini(&fake.book);
	assert_int_equal(extent_stats_new(&dumps, 1, &stats), 0);
	assert_int_equal(stack_cutter_new(&dumps, 1, stats, &cutter), 0);
	assert_int_equal(ledger_book_open(&fake.book, &fake.set, cutter), 0);
	uint64_t began_ns = fake.book.read_ns;
	for (uint64_t reading = 1; reading < 4; reading++) { /* in the second one nothing was cut */
		for (uint64_t i = 0; i < reading && reading != 2; i++) {
			uint64_t record[1 + sizeof(words) / 8];
			memcpy(record, &header, sizeof(header));
			memcpy(record + 1, words, sizeof(words));
			assert_int_equal(stack_cut(cutter, (uint8_t *)record, 8), 8);
		}
		assert_int_equal(ledger_book_read(&fake.book), 0);
	}
	assert_int_equal(fake.book.ledger.nr_entries, 2);
	assert_int_equal(entry(0, LEDGER_TRIMMED, 0, 1)->from_ns, began_ns);
	assert_int_equal(entry(1, LEDGER_TRIMMED, 0, 3)->to_ns, fake.book.read_ns);
	assert_int_equal(fake.book.ledger.entries[1].tid, -1);
	assert_int_equal(atomic_load(&fake.book.nr_lost), 0); /* those samples are there */
	assert_int_equal(ledger_book_cut(&fake.book, &span), 0);
	assert_int_equal(span.nr_entries, 2);
	assert_int_equal(ledger_book_close(&fake.book), 0);
	assert_int_equal(fake.book.span.nr_entries, 0);
	ledger_fini(&span);
	stack_cutter_free(cutter);
	extent_stats_free(stats);
}

static struct coverage cover(struct ledger_entry *entries, size_t nr, struct coverage_params params)
{
	struct ledger ledger = {
		.started_ns = 1000, .ended_ns = 2000, .counted = true, .entries = entries, .nr_entries = nr};
	struct coverage coverage;

	params.ledger = &ledger;
	assert_int_equal(coverage_make(&params, &coverage), 0);
	return coverage;
}

static void test_coverage(void **state)
{
	struct ledger_entry entries[] = {
		{.cause = LEDGER_RING_FULL, .cpu = 0, .tid = -1, .from_ns = 1100, .to_ns = 1200, .count = 10},
		{.cause = LEDGER_STORAGE, .cpu = 1, .tid = -1, .from_ns = 1150, .to_ns = 1450, .count = 1000000},
	};
	struct coverage_params params = {.nr_places = 2, .ring_bytes = 4096, .most_ring_bytes = 1 << 20};

	(void)state;
	struct coverage coverage = cover(entries, 0, params);
	assert_false(coverage.exact);
	assert_int_equal(coverage.elapsed_ns, 1000);
	assert_int_equal(coverage.nr_places, 2);
	assert_true(coverage_percent(&coverage) == 100.0);
	assert_int_equal(coverage.enough_bytes, 0);
	assert_int_equal(coverage.blind_ns, 0);

	coverage = cover(entries, 2, params);
	assert_int_equal(coverage.sum.gap_ns, 400);
	assert_true(coverage_percent(&coverage) > 79.99 && coverage_percent(&coverage) < 80.01);
	/* 10 records of 128 bytes more than 4096; what storage lost no ring would have held. */
	assert_int_equal(coverage.enough_bytes, 8192);
	assert_int_equal(coverage.blind_ns, 0);

	/* Records of 101 bytes: 4096 + 41 * 101 is more than 8192, 40 are not. */
	params.drained_bytes = 1000;
	params.nr_samples = 10;
	entries[0].count = 40;
	assert_int_equal(cover(entries, 1, params).enough_bytes, 8192);
	entries[0].count = 41;
	assert_int_equal(cover(entries, 1, params).enough_bytes, 16384);

	/* Not one into which a sample does not fit. */
	params.least_ring_bytes = 65536;
	assert_int_equal(cover(entries, 1, params).enough_bytes, 65536);
	params.least_ring_bytes = 0;

	/* A gap that the largest ring would not have held. */
	params.most_ring_bytes = 8192;
	coverage = cover(entries, 1, params);
	assert_int_equal(coverage.blind_ns, 100);
	assert_int_equal(coverage.enough_bytes, 0);
	params.most_ring_bytes = 16384;
	coverage = cover(entries, 1, params);
	assert_int_equal(coverage.blind_ns, 0);
	assert_int_equal(coverage.enough_bytes, 16384);

	/* The longest of several. */
	params.most_ring_bytes = 8192;
	entries[1] = entries[0];
	entries[1].cpu = 1;
	entries[1].from_ns = entries[1].to_ns - 10;
	assert_int_equal(cover(entries, 2, params).blind_ns, 100);
	params.most_ring_bytes = 16384;

	/* The size for the worst of them. */
	entries[1] = entries[0];
	entries[1].cpu = 1;
	entries[1].count = 1;
	assert_int_equal(cover(entries, 2, params).enough_bytes, 16384);
	/* No size follows from a gap in which nothing is known to be lost. */
	entries[0].count = 0;
	assert_int_equal(cover(entries, 1, params).enough_bytes, 0);
}

/* Without records of samples the readings are the gaps; those of task events are none, where they have own rings. */
static void test_coverage_without_records(void **state)
{
	struct ledger_entry entries[] = {
		{.event = 0, .cause = LEDGER_RING_FULL, .cpu = 0, .tid = -1, .from_ns = 100, .to_ns = 200, .count = 1},
		{.event = 1, .cause = LEDGER_RING_FULL, .cpu = 1, .tid = -1, .from_ns = 300, .to_ns = 350, .count = 1},
	};
	struct event_desc events[2] = {{.attr = {.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_CPU_CLOCK}},
				       {.attr = {.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_DUMMY}}};
	struct loss_times losses = {
		.events = events, .nr_events = 2, .last_ns = 5}; /* no place: no ID_INDEX was there */
	struct ledger ledger = {.started_ns = 100, .ended_ns = 1100, .entries = entries, .nr_entries = 2};
	const struct coverage_params params = {.ledger = &ledger, .losses = &losses, .nr_places = 2};
	struct coverage coverage;

	(void)state;
	for (unsigned apart = 0; apart < 2; apart++) {
		ledger.task_rings = apart;
		assert_int_equal(coverage_make(&params, &coverage), 0);
		assert_false(coverage.exact);
		assert_int_equal(coverage.nr_places, 2);
		assert_int_equal(coverage.elapsed_ns, 1000);
		assert_int_equal(coverage.sum.gap_ns, apart ? 100 : 150);
	}
	/* When it ended is not known: then neither is how long it took. */
	ledger.ended_ns = 0;
	assert_int_equal(coverage_make(&params, &coverage), 0);
	assert_int_equal(coverage.elapsed_ns, 0);
}

static void take_record(struct loss_times *losses, uint32_t type, const uint64_t *words, size_t bytes)
{
	const struct perf_event_header header = {.type = type, .size = (uint16_t)(sizeof(header) + bytes)};
	uint64_t record[12];

	memcpy(record, &header, sizeof(header));
	memcpy(record + 1, words, bytes);
	assert_int_equal(loss_times_take(losses, (const uint8_t *)record, &header), 0);
}

/* Records of samples tell places, gaps and, where the ledger does not, from when to when it was. */
static void test_coverage_of_records(void **state)
{
	static uint64_t ids[] = {100, 101};
	const struct event_desc event = {.attr = {.type = PERF_TYPE_TRACEPOINT,
						  .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME,
						  .sample_id_all = 1},
					 .ids = ids,
					 .nr_ids = 2};
	static const uint64_t index[] = {2, 100, 0, 0, (uint64_t)-1, 101, 1, 1, (uint64_t)-1}, first[] = {100, 1000},
			      lost_records[] = {100, 7, 1900, 100}, last[] = {101, 3000};
	const struct {
		uint32_t type;
		const uint64_t *words;
		size_t bytes;
	} records[] = {{RECORD_ID_INDEX, index, sizeof(index)},
		       {PERF_RECORD_SAMPLE, first, sizeof(first)},
		       {PERF_RECORD_LOST, lost_records, sizeof(lost_records)},
		       {PERF_RECORD_SAMPLE, last, sizeof(last)}};

	(void)state;
	for (unsigned known = 0; known < 2; known++) {
		struct ledger ledger = {.started_ns = known ? 500 : 0, .ended_ns = known ? 4500 : 0};
		struct loss_times losses;
		struct coverage coverage;
		assert_int_equal(loss_times_init(&losses, &event, 1), 0);
		for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++)
			take_record(&losses, records[i].type, records[i].words, records[i].bytes);
		const struct coverage_params params = {.ledger = &ledger, .losses = &losses, .nr_places = 9};
		assert_int_equal(coverage_make(&params, &coverage), 0);
		assert_true(coverage.exact);
		assert_int_equal(coverage.nr_places, 2);
		assert_int_equal(coverage.elapsed_ns, known ? 4000 : 2000);
		assert_int_equal(coverage.sum.gap_ns, 900);
		loss_times_fini(&losses);
	}
}

/* No sample of a ring was kept before its loss: that may have lasted since the start, or since the counters tell it. */
static void test_coverage_of_mixed_records(void **state)
{
	static uint64_t ids[] = {100, 101};
	const struct event_desc event = {.attr = {.type = PERF_TYPE_TRACEPOINT,
						  .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME,
						  .sample_id_all = 1},
					 .ids = ids,
					 .nr_ids = 2};
	enum { MS = 1000000 };
	struct ledger_entry reading = {
		.cause = LEDGER_RING_FULL, .cpu = 0, .tid = -1, .from_ns = 60 * MS, .to_ns = 100 * MS, .count = 7};
	static const struct {
		bool mixed, counted;
		uint64_t gap_ns;
	} cases[] = {{false, false, 0}, {true, false, 70 * MS}, {true, true, 31 * MS}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ledger ledger = {.started_ns = 20 * MS,
					.ended_ns = 120 * MS,
					.counted = cases[i].counted,
					.entries = &reading,
					.nr_entries = cases[i].counted};
		struct loss_times losses;
		struct coverage coverage;
		const uint64_t index[] = {2, 100, 0, 0, (uint64_t)-1, 101, 1, 1, (uint64_t)-1},
			       sample[] = {101, 30 * MS}, lost[] = {100, 7, 90 * MS, 100};
		assert_int_equal(loss_times_init(&losses, &event, 1), 0);
		take_record(&losses, RECORD_ID_INDEX, index, sizeof(index));
		take_record(&losses, PERF_RECORD_SAMPLE, sample, sizeof(sample));
		take_record(&losses, PERF_RECORD_LOST, lost, sizeof(lost));
		const struct coverage_params params = {.ledger = &ledger, .losses = &losses, .mixed = cases[i].mixed};
		assert_int_equal(coverage_make(&params, &coverage), 0);
		assert_int_equal(coverage.exact, !cases[i].mixed);
		assert_int_equal(coverage.sum.gap_ns, cases[i].gap_ns);
		loss_times_fini(&losses);
	}
}

static void test_rings_of_task_events_are_noted(void **state)
{
	struct ledger_book book;

	(void)state;
	fake.rings[OVERWRITTEN].channel = CHANNEL_SIDE; /* not drained: not looked at */
	assert_int_equal(ledger_book_open(&book, &fake.set, NULL), 0);
	assert_false(book.ledger.task_rings);
	ledger_book_fini(&book);
	fake.rings[CPU_1].channel = CHANNEL_SIDE;
	assert_int_equal(ledger_book_open(&book, &fake.set, NULL), 0);
	assert_true(book.ledger.task_rings);
	ledger_book_fini(&book);
}

static void test_percent_is_bounded(void **state)
{
	struct coverage coverage = {.elapsed_ns = 100, .nr_places = 2, .sum = {.gap_ns = 50}};

	(void)state;
	assert_true(coverage_percent(&coverage) == 75.0);
	coverage.sum.gap_ns = 1000;
	assert_true(coverage_percent(&coverage) == 0.0);
	coverage.elapsed_ns = 0;
	assert_true(coverage_percent(&coverage) == 100.0);
	/* It is printed with two digits, behind "at least". */
	coverage = (struct coverage){.elapsed_ns = 1000000000, .nr_places = 2, .sum = {.gap_ns = 20}};
	assert_true(coverage_percent(&coverage) == 99.99);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_events_that_were_opened_again, begin, end),
		cmocka_unit_test_setup_teardown(test_what_counters_grow_by_was_lost, begin, end),
		cmocka_unit_test_setup_teardown(test_causes, begin, end),
		cmocka_unit_test_setup_teardown(test_overwritten_rings_are_read_at_the_end_of_a_file, begin, end),
		cmocka_unit_test_setup_teardown(test_spans, begin, end),
		cmocka_unit_test_setup_teardown(test_many_readings_take_bounded_memory, begin, end),
		cmocka_unit_test_setup_teardown(test_events_that_are_not_in_the_file, begin, end),
		cmocka_unit_test(test_costs),
		cmocka_unit_test(test_costs_of_the_pool),
		cmocka_unit_test_setup_teardown(test_now, begin, end),
		cmocka_unit_test_setup_teardown(test_now_without_a_clock_of_ours, begin, end),
		cmocka_unit_test_setup_teardown(test_now_by_a_clock_that_is_kept, begin, end),
		cmocka_unit_test_setup_teardown(test_rings_of_task_events_are_noted, begin, end),
		cmocka_unit_test_setup_teardown(test_the_end_is_when_events_are_disabled, begin, end),
		cmocka_unit_test_setup_teardown(test_times_are_of_the_clock_of_samples, begin, end),
		cmocka_unit_test_setup_teardown(test_times_between_clocks, begin, end),
		cmocka_unit_test_setup_teardown(test_stacks_that_were_cut, begin, end),
		cmocka_unit_test(test_coverage),
		cmocka_unit_test(test_coverage_without_records),
		cmocka_unit_test(test_coverage_of_records),
		cmocka_unit_test(test_coverage_of_mixed_records),
		cmocka_unit_test(test_percent_is_bounded),
	};

	return cmocka_run_group_tests_name("book", tests, NULL, NULL);
}
