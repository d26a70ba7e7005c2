/* SPDX-License-Identifier: MIT */
/* cmd/page: what is counted when, and the tree of names. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/machine/stacks.h"
#include "analyze/report/tally.h"
#include "cmd/page/page.h"
#include "perfdata/ledger.h"
#include "read/session.h"
#include "tasks/off_cpu.h"

enum { SECOND = 1000000000 };

static void add_at(struct page_times *times, uint64_t time_ns, uint32_t cell)
{
	const struct session_record record = {
		.sample = {
			.present = PERF_SAMPLE_TIME | PERF_SAMPLE_CPU, .time = time_ns, .cpu = cell % 3, .period = 10}};

	assert_int_equal(page_times_add(times, &record, cell % 2, cell), 0);
}

static uint64_t period_of(const struct page_times *times)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < times->nr; i++)
		sum += times->timed[i].period;
	return sum;
}

static void test_equal_samples_are_one(void **state)
{
	struct page_times times = {0};

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		add_at(&times, SECOND + i, 7);
	add_at(&times, SECOND - 5, 7); /* before the first: counts as the first */
	add_at(&times, SECOND + 99, 8);
	assert_int_equal(times.nr, 2);
	assert_int_equal(times.timed[0].nr, 101);
	assert_int_equal(times.timed[1].event, 0);
	assert_int_equal(period_of(&times), 1020);
	assert_int_equal(times.nr_cpus, 2);
	page_times_fini(&times);
}

/* The samples of an event may have no times: they count with the first one that has a time. */
static void test_samples_without_times(void **state)
{
	const struct session_record record = {.sample = {.period = 10}};
	struct page_times times = {0};

	(void)state;
	assert_int_equal(page_times_add(&times, &record, 0, 0), 0);
	add_at(&times, 5ull * SECOND, 2);
	assert_int_equal(page_times_add(&times, &record, 0, 0), 0);
	add_at(&times, 5ull * SECOND + 1000, 2);
	assert_int_equal(times.start_ns, 5ull * SECOND);
	assert_int_equal(times.end_ns, 5ull * SECOND + 1000);
	assert_int_equal(times.nr, 2);
	assert_int_equal(period_of(&times), 40);
	page_times_fini(&times);
}

/* However long it is, the intervals are no more than PAGE_BINS_MAX, and each sample stays in that of its time. */
static void test_intervals_grow(void **state)
{
	struct page_times times = {0};
	uint64_t step = 7919ull * 1000, nr = 100000, cpu_samples = 0;

	(void)state;
	for (uint64_t i = 0; i < nr; i++)
		add_at(&times, SECOND + i * step, 0);
	assert_int_equal(period_of(&times), nr * 10);
	assert_true((nr - 1) * step / times.bin_ns < PAGE_BINS_MAX);
	assert_true(times.bin_ns == 100000000 /* 792 s in intervals of 100 ms */);
	for (size_t i = 0; i < times.nr; i++) {
		uint64_t from = (times.timed[i].bin * times.bin_ns + step - 1) / step;
		uint64_t to = ((times.timed[i].bin + 1) * times.bin_ns + step - 1) / step;
		assert_int_equal(times.timed[i].nr, (to < nr ? to : nr) - from);
	}
	for (unsigned bin = 0; bin < PAGE_CPU_BINS; bin++)
		cpu_samples += times.cpus[0].bins[bin];
	assert_int_equal(cpu_samples, nr);
	page_times_fini(&times);
}

/* A sample each with a stack of its own: all are kept, with no more intervals than before. */
static void test_many_cells(void **state)
{
	struct page_times times = {0};
	enum { NR = 3000000 };

	(void)state;
	for (uint32_t i = 0; i < NR; i++)
		add_at(&times, SECOND + i * 100ull, i);
	assert_int_equal(times.nr, NR);
	assert_int_equal(period_of(&times), NR * 10ull);
	page_times_fini(&times);
}

/* CPUs that no machine has: a made recording is read to its end, and their samples are those of an unknown one. */
static void test_many_cpus(void **state)
{
	struct page_times times = {0};
	enum { NR = 70000, MOST = 65536 };
	uint64_t samples = 0;

	(void)state;
	for (uint32_t i = 0; i < NR; i++) {
		const struct session_record record = {.sample = {.present = PERF_SAMPLE_TIME | PERF_SAMPLE_CPU,
								 .time = SECOND + i,
								 .cpu = i * 3,
								 .period = 10}};
		assert_int_equal(page_times_add(&times, &record, 0, 0), 0);
	}
	assert_int_equal(times.nr_cpus, MOST + 1);
	for (uint32_t cpu = 0; cpu < times.nr_cpus; cpu++)
		for (unsigned bin = 0; bin < PAGE_CPU_BINS; bin++)
			samples += times.cpus[cpu].bins[bin];
	assert_int_equal(samples, NR);
	assert_int_equal(times.cpus[MOST].cpu, -1);
	page_times_fini(&times);
}

static void add_wait(struct page_waits *waits, uint32_t tid, uint64_t to_ns, uint64_t ns)
{
	const struct sample sample = {.present = PERF_SAMPLE_TIME, .time = to_ns, .tid = tid};
	const struct off_cpu_wait wait = {.ns = ns, .runnable_ns = ns / 4, .state = ns < 1000 ? 1 : 2, .nr_times = 1};
	const struct page_wait_place place = {0, tid, ns < 1000 ? "short" : "long"};

	assert_int_equal(page_waits_add(waits, &sample, &wait, &place), 0);
}

static void test_waits_are_kept(void **state)
{
	struct page_waits waits = {0};
	const struct sample sample = {.present = PERF_SAMPLE_TIME, .time = SECOND, .tid = 1};
	const struct off_cpu_wait sum = {.ns = 100, .flags = OFF_CPU_SUM, .nr_times = 7};
	const struct page_wait_place place = {0, 0, ""};

	(void)state;
	for (unsigned i = 0; i < 5000; i++)
		add_wait(&waits, i % 2, SECOND + i * 1000ull, 100 + i);
	assert_int_equal(page_waits_add(&waits, &sample, &sum, &place), 0); /* when they were is not known */
	assert_int_equal(waits.nr, 5000);
	assert_int_equal(waits.nr_wakers, 3);
	assert_int_equal(waits.short_ns, 0);
	assert_int_equal(waits.waits[4321].from_ns, SECOND + 4321 * 1000ull - 4421);
	assert_int_equal(waits.waits[4321].ready_ns, 4421 / 4);
	assert_string_equal(waits.waits[4321].state, "uninterruptible");
	assert_string_equal(waits.wakers[waits.waits[4321].waker], "long");
	page_waits_fini(&waits);
}

/* Very many: the short ones are put together, without a nanosecond less; the long ones stay. */
static void test_many_waits_are_put_together(void **state)
{
	struct page_waits waits = {0};
	uint64_t off_ns = 0, nr = 0, shown_ns = 0, shown = 0, nr_long = 0;

	(void)state;
	for (unsigned i = 0; i < 1000000; i++) {
		uint64_t ns = i % 1000 == 1 ? 3000000 : 500;
		add_wait(&waits, i % 3, SECOND + i * 4000ull + (i / 1000 + 1) * 3000000ull, ns);
		off_ns += ns;
		nr++;
	}
	for (size_t i = 0; i < waits.nr; i++) {
		shown_ns += waits.waits[i].off_ns;
		shown += waits.waits[i].nr;
		assert_true(waits.waits[i].to_ns - waits.waits[i].from_ns >= waits.waits[i].off_ns);
		if (waits.waits[i].longest_ns == 3000000) {
			assert_int_equal(waits.waits[i].nr, 1);
			nr_long++;
		}
	}
	assert_true(waits.nr <= PAGE_WAITS_MAX && waits.short_ns > 0 && waits.short_ns < 3000000);
	assert_int_equal(shown_ns, off_ns);
	assert_int_equal(shown, nr);
	assert_int_equal(nr_long, 1000);
	page_waits_fini(&waits);
}

/* Two processes, of which one calls `work` from main, the other one itself too. */
struct recording {
	struct symbol main, work;
	struct dso dso;
	struct comm comms[2];
	struct task tasks[2];
	struct stacks *stacks;
	struct tally tally;
	struct page_times times;
};

static void take(struct recording *of, unsigned process, unsigned depth, unsigned nr)
{
	struct location frames[4];
	const struct hist_place place = {
		.comm = &of->comms[process], .task = &of->tasks[process], .tid = of->tasks[process].tid, .level = '.'};
	uint32_t chain, cell;

	for (unsigned i = 0; i < depth; i++)
		frames[i] = (struct location){
			.dso = &of->dso, .symbol = i + 1 == depth ? &of->main : &of->work, .level = '.'};
	assert_int_equal(stacks_intern(of->stacks, frames, depth, &chain), 0);
	assert_int_equal(tally_find(&of->tally, &place, chain, &cell), 0);
	for (unsigned i = 0; i < nr; i++) {
		const struct session_record record = {.sample = {.present = PERF_SAMPLE_TIME, .time = i, .period = 1}};
		assert_int_equal(page_times_add(&of->times, &record, 0, cell), 0);
	}
}

static void recording_init(struct recording *of)
{
	*of = (struct recording){
		.main = {.name = "main"},
		.work = {.name = "work"},
		.dso = {.name = "/bin/prog", .short_name = "prog"},
		.comms = {{.text = "first"}, {.text = "second"}},
		.tasks = {{.pid = 10, .tid = 10}, {.pid = 20, .tid = 21}},
		.stacks = stacks_new(),
	};
	take(of, 0, 1, 2);
	take(of, 0, 2, 5);
	take(of, 1, 2, 7);
	take(of, 1, 3, 11);
}

static void recording_fini(struct recording *of)
{
	stacks_free(of->stacks);
	tally_fini(&of->tally);
	page_times_fini(&of->times);
}

static void add_to_tree(struct page_tree *tree, const struct recording *of, uint32_t first_series)
{
	const struct tally *const events[] = {&of->tally};
	const struct page_recording recording = {.events = events,
						 .nr_events = 1,
						 .first_series = first_series,
						 .stacks = of->stacks,
						 .times = &of->times};

	assert_int_equal(page_tree_add(tree, &recording), 0);
}

/* "first;main;work 5" of each weight of a series, one behind the other. */
static const char *folded(const struct page_tree *tree, uint32_t series)
{
	static char text[512];
	char line[128], rest[512];

	text[0] = '\0';
	for (size_t i = 0; i < tree->nr_weights; i++) {
		if (tree->weights[i].series != series)
			continue;
		snprintf(line, sizeof(line), " %d\n", (int)tree->weights[i].period);
		for (uint32_t node = tree->weights[i].node; node; node = tree->nodes[node].parent) {
			snprintf(rest, sizeof(rest), "%s%s%s", tree->names[tree->nodes[node].name].text,
				 node == tree->weights[i].node ? "" : ";", line);
			rest[sizeof(line) - 1] = 0;
			strcpy(line, rest);
		}
		strcat(text, line);
	}
	return text;
}

static void test_tree(void **state)
{
	const struct page_limits limits = {.nodes = 100, .threads = 100};
	struct recording recording, other;
	struct page_tree tree = {.base = PAGE_BASE_COMMAND};

	(void)state;
	recording_init(&recording);
	recording_init(&other); /* its objects and symbols are others of the same names */
	add_to_tree(&tree, &recording, 0);
	add_to_tree(&tree, &other, 1);
	assert_int_equal(page_tree_finish(&tree, &limits), 0);
	assert_string_equal(folded(&tree, 0),
			    "second;main;work 7\nsecond;main;work;work 11\nfirst;main 2\nfirst;main;work 5\n");
	char *first = strdup(folded(&tree, 0));
	assert_string_equal(folded(&tree, 1), first);
	free(first);
	assert_int_equal(tree.nr_nodes, 8);
	assert_int_equal(tree.nr_threads, 2);
	assert_int_equal(tree.nr_samples, 50);
	for (uint32_t i = 1; i < tree.nr_nodes;
	     i++) /* as they are drawn: the next one is a callee or a callee of a caller */
		assert_true(tree.nodes[i].parent < i);
	page_tree_fini(&tree);
	recording_fini(&recording);
	recording_fini(&other);
}

/* What is cut off counts with its caller, and is told. */
static void test_limits(void **state)
{
	const struct page_limits limits = {.nodes = 2, .threads = 1};
	struct recording recording;
	struct page_tree tree = {.base = PAGE_BASE_NONE};

	(void)state;
	recording_init(&recording);
	add_to_tree(&tree, &recording, 0);
	assert_int_equal(page_tree_finish(&tree, &limits), 0);
	assert_string_equal(folded(&tree, 0), "main;work 18\nmain 2\nmain;work 5\n");
	assert_int_equal(tree.nr_cut, 11);
	assert_int_equal(tree.nr_threads, 2);
	assert_int_equal(tree.threads[1].nr, 7);
	assert_null(tree.threads[1].comm);
	page_tree_fini(&tree);
	recording_fini(&recording);
}

/* On the heap. */
static char *page_of(const struct page *page)
{
	char *text = NULL;
	size_t len;
	FILE *to = open_memstream(&text, &len);

	assert_non_null(to);
	assert_int_equal(page_print(page, to), 0);
	assert_int_equal(fclose(to), 0);
	return text;
}

/* More gaps than a page holds: those near each other and of one cause are one, and no CPU is without its own. */
static void test_many_gaps(void **state)
{
	enum { CPUS = 8, OF_A_CPU = 1000, MOST = 2000 };
	const struct page_times times = {.start_ns = SECOND, .end_ns = 11ull * SECOND, .bin_ns = 1000000};
	struct page_tree tree = {.base = PAGE_BASE_NONE};
	const struct page_limits limits = {.nodes = 2, .threads = 1};
	struct ledger_entry *gaps = calloc((size_t)CPUS * OF_A_CPU, sizeof(*gaps));
	const struct page_row row = {.thread = "host", .nr = 1};
	unsigned nr = 0, by_cpu[CPUS] = {0}, cpu;
	uint64_t records = 0;

	(void)state;
	assert_non_null(gaps);
	for (unsigned i = 0; i < CPUS * OF_A_CPU; i++) {
		uint64_t from_ns = SECOND + i % OF_A_CPU * 10000000ull;
		gaps[i] = (struct ledger_entry){.cause = i % 2 ? LEDGER_THROTTLED : LEDGER_RING_FULL,
						.cpu = (int)(i / OF_A_CPU),
						.tid = -1,
						.from_ns = from_ns,
						.to_ns = from_ns + 1000,
						.count = 3};
	}
	assert_int_equal(page_tree_add_row(&tree, &row), 0);
	assert_int_equal(page_tree_finish(&tree, &limits), 0);
	const struct page_file file = {
		.name = "file", .times = &times, .gaps = gaps, .nr_gaps = (size_t)CPUS * OF_A_CPU};
	const struct page_series series = {.name = "event", .baseline = -1};
	char *text = page_of(&(struct page){
		.title = "", .tree = &tree, .series = &series, .nr_series = 1, .files = &file, .nr_files = 1});
	for (const char *at = strstr(text, "\"gaps\":["); (at = strstr(at, "{\"cpu\":")); at++, nr++) {
		uint64_t from_ns, to_ns, count;
		assert_int_equal(
			sscanf(at, "{\"cpu\":%u,\"from_ns\":%" SCNu64 ",\"to_ns\":%" SCNu64 ",\"records\":%" SCNu64,
			       &cpu, &from_ns, &to_ns, &count),
			4);
		assert_true(cpu < CPUS && from_ns < to_ns);
		by_cpu[cpu]++;
		records += count;
	}
	assert_true(nr && nr <= MOST);
	assert_int_equal(records, 3ull * CPUS * OF_A_CPU);
	for (cpu = 0; cpu < CPUS; cpu++)
		assert_true(by_cpu[cpu] > 10);
	free(text);
	free(gaps);
	page_tree_fini(&tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal_samples_are_one),
		cmocka_unit_test(test_samples_without_times),
		cmocka_unit_test(test_intervals_grow),
		cmocka_unit_test(test_many_cells),
		cmocka_unit_test(test_many_cpus),
		cmocka_unit_test(test_waits_are_kept),
		cmocka_unit_test(test_many_waits_are_put_together),
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_many_gaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
