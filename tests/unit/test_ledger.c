/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "perfdata/ledger.h"
#include "perfdata/record.h"

enum { SAMPLE_TYPE = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME };

static void put_back_and_forth(void **state)
{
	struct ledger ledger = {.started_ns = 5, .ended_ns = 9, .counted = true}, read;
	const struct ledger_entry entry = {1, LEDGER_DISK_FULL, 3, -1, 6, 7, 8};
	const struct ledger_action action = {7, LEDGER_RING_GREW, 1, -1, 0, 4096, 16384};
	struct buf out = {0};

	(void)state;
	assert_int_equal(ledger_add_action(&ledger, &action), 0);
	assert_int_equal(ledger_add(&ledger, &entry), 0);
	assert_int_equal(ledger_add_cost(&ledger, "a name that is longer than there is room for it", 11), 0);
	assert_int_equal(ledger_set_cost(&ledger, "a name that is longer than there is room for it", 12), 0);
	ledger_encode(&ledger, &out);
	assert_int_equal(ledger_decode(buf_span(&out), &read), 0);
	assert_int_equal(read.nr_entries, 1);
	assert_memory_equal(read.entries, &entry, sizeof(entry));
	assert_int_equal(read.nr_costs, 1);
	assert_int_equal(read.costs[0].value, 12);
	assert_int_equal(strlen(read.costs[0].name), sizeof(read.costs[0].name) - 1);
	assert_int_equal(read.nr_actions, 1);
	assert_memory_equal(read.actions, &action, sizeof(action));
	assert_true(read.counted && read.started_ns == 5 && read.ended_ns == 9);
	ledger_fini(&read);
	const size_t first_version = out.len - sizeof(uint64_t) - sizeof(action);
	for (size_t cut = 0; cut < out.len; cut++)
		if (cut != first_version)
			assert_int_equal(ledger_decode((struct span){out.data, cut}, &read), -EBADMSG);
	assert_int_equal(ledger_decode((struct span){out.data, first_version}, &read), 0);
	assert_int_equal(read.nr_actions, 0);
	ledger_fini(&read);
	memset(out.data + 24, 0xff, 16); /* counts beyond everything */
	assert_int_equal(ledger_decode(buf_span(&out), &read), -EBADMSG);
	buf_fini(&out);
	ledger_fini(&ledger);
}

static void sums_count_each_time_once(void **state)
{
	struct ledger_entry gaps[] = {
		{0, LEDGER_RING_FULL, 1, -1, 15, 40, 1},
		{0, LEDGER_RING_FULL, 0, -1, 10, 20, 1},
		{1, LEDGER_RING_FULL, 0, -1, 15, 30, 1},
		{1, LEDGER_RING_FULL, 0, -1, 100, 101, 1},
	};
	struct ledger_sum sum;

	(void)state;
	assert_int_equal(ledger_sum(gaps, 4, &sum), 0);
	assert_int_equal(sum.gap_ns, 20 + 1 + 25);
	assert_int_equal(sum.any_ns, 30 + 1);
	assert_int_equal(sum.worst.cpu, 1);
	struct ledger_entry frozen[] = {
		{LEDGER_NO_EVENT, LEDGER_FROZEN, -1, -1, 0, 1000, 0},
		{0, LEDGER_RING_FULL, 0, -1, 10, 20, 1},
	};
	assert_int_equal(ledger_sum(frozen, 2, &sum), 0);
	assert_int_equal(sum.gap_ns, 10);
	assert_int_equal(sum.any_ns, 10);
	assert_int_equal(sum.worst.cause, LEDGER_RING_FULL);
	assert_int_equal(ledger_sum(frozen, 1, &sum), 0);
	assert_int_equal(sum.gap_ns + sum.worst.to_ns, 0);
	assert_int_equal(ledger_sum(gaps, 0, &sum), 0);
	assert_int_equal(sum.gap_ns + sum.worst.to_ns, 0);
}

/* Numbers that look random, the same in each run. */
static uint32_t next_number(uint64_t *seed, uint32_t below)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*seed >> 33) % below;
}

static void causes_have_names_and_meanings(void **state)
{
	static const struct {
		enum ledger_cause cause;
		const char *name;
		bool full, loses;
	} causes[] = {
		{LEDGER_RING_FULL, "ring full", true, true},
		{LEDGER_PAUSED, "paused", false, true},
		{LEDGER_THROTTLED, "throttled", false, true},
		{LEDGER_TRIMMED, "trimmed", false, false},
		{LEDGER_CPU_LIMIT, "CPU limit", true, true},
		{LEDGER_FROZEN, "frozen", false, false},
		{LEDGER_DISK_FULL, "disk full", false, true},
		{LEDGER_CPU_BACK, "CPU came online", false, true},
		{LEDGER_STORAGE, "storage did not keep up", true, true},
		{LEDGER_DROPPED, "dropped by the recorder", false, true},
		{LEDGER_DISABLED, "events disabled", false, false},
		{LEDGER_OVERWRITTEN, "overwritten", false, false},
	};

	(void)state;
	assert_int_equal(sizeof(causes) / sizeof(causes[0]), LEDGER_CAUSES);
	for (size_t i = 0; i < LEDGER_CAUSES; i++) {
		assert_string_equal(ledger_cause_name(causes[i].cause), causes[i].name);
		assert_int_equal(ledger_cause_is_full(causes[i].cause), causes[i].full);
		assert_int_equal(ledger_cause_loses(causes[i].cause), causes[i].loses);
	}
	assert_string_equal(ledger_cause_name(LEDGER_CAUSES), "unknown");
	assert_string_equal(ledger_action_kind_name(LEDGER_THREAD_CHANGED), "thread changed");
	assert_string_equal(ledger_action_kind_name(LEDGER_ACTION_KINDS), "unknown");
}

/* What is stored by others need not end its names, nor have each flag. */
static void other_writers(void **state)
{
	(void)state;
	for (unsigned flags = 0; flags < 4; flags++) {
		struct ledger ledger = {.counted = flags & 1, .task_rings = flags & 2}, read;
		struct buf out = {0};
		assert_int_equal(ledger_add_cost(&ledger, "first", 3), 0);
		assert_int_equal(ledger_set_cost(&ledger, "second", 4), 0);
		assert_int_equal(ledger_set_cost(&ledger, "first", 5), 0);
		assert_int_equal(ledger.nr_costs, 2);
		memset(ledger.costs[1].name, 'x', sizeof(ledger.costs[1].name));
		ledger_encode(&ledger, &out);
		assert_int_equal(ledger_decode(buf_span(&out), &read), 0);
		assert_int_equal(read.counted, ledger.counted);
		assert_int_equal(read.task_rings, ledger.task_rings);
		assert_string_equal(read.costs[0].name, "first");
		assert_int_equal(read.costs[0].value, 5);
		assert_int_equal(strnlen(read.costs[1].name, sizeof(read.costs[1].name)),
				 sizeof(read.costs[1].name) - 1);
		ledger_fini(&read);
		out.data[0]++; /* another version */
		assert_int_equal(ledger_decode(buf_span(&out), &read), -EBADMSG);
		buf_fini(&out);
		ledger_fini(&ledger);
	}
}

enum { PLACES = 3, TIMES = 64 }; /* CPUs, and tasks, from -1 on */

static int compare_places(const struct ledger_entry *a, const struct ledger_entry *b)
{
	return a->cpu != b->cpu ? (a->cpu > b->cpu) - (a->cpu < b->cpu) : (a->tid > b->tid) - (a->tid < b->tid);
}

/* Each nanosecond of each place by itself. */
static struct ledger_sum count_nanoseconds(const struct ledger_entry *entries, size_t nr)
{
	bool lost[PLACES][PLACES][TIMES] = {0}, any[TIMES] = {0};
	struct ledger_sum sum = {0};

	for (size_t i = 0; i < nr; i++) {
		const struct ledger_entry *entry = &entries[i];
		if (entry->cause == LEDGER_FROZEN || entry->cause == LEDGER_TRIMMED ||
		    entry->cause == LEDGER_DISABLED || entry->cause == LEDGER_OVERWRITTEN)
			continue;
		if (entry->to_ns - entry->from_ns > sum.worst.to_ns - sum.worst.from_ns)
			sum.worst = *entry;
		for (uint64_t ns = entry->from_ns; ns < entry->to_ns; ns++)
			lost[entry->cpu + 1][entry->tid + 1][ns] = any[ns] = true;
	}
	for (size_t ns = 0; ns < TIMES; ns++) {
		sum.any_ns += any[ns];
		for (size_t place = 0; place < PLACES * PLACES; place++)
			sum.gap_ns += lost[place / PLACES][place % PLACES][ns];
	}
	return sum;
}

static void sums_are_those_of_each_nanosecond(void **state)
{
	enum { ROUNDS = 3000, ENTRIES = 7 };
	uint64_t seed = 1;

	(void)state;
	for (size_t round = 0; round < ROUNDS; round++) {
		struct ledger_entry entries[ENTRIES];
		struct ledger_sum sum;
		size_t nr = next_number(&seed, ENTRIES + 1);
		for (size_t i = 0; i < nr; i++) {
			uint64_t from_ns = next_number(&seed, TIMES / 2);
			entries[i] = (struct ledger_entry){
				.cause = next_number(&seed, LEDGER_CAUSES),
				.cpu = (int32_t)next_number(&seed, PLACES) - 1,
				.tid = (int32_t)next_number(&seed, PLACES) - 1,
				.from_ns = from_ns,
				.to_ns = from_ns + next_number(&seed, TIMES / 2),
			};
		}
		struct ledger_sum counted = count_nanoseconds(entries, nr);
		assert_int_equal(ledger_sum(entries, nr, &sum), 0);
		assert_int_equal(sum.gap_ns, counted.gap_ns);
		assert_int_equal(sum.any_ns, counted.any_ns);
		assert_int_equal(sum.worst.to_ns - sum.worst.from_ns, counted.worst.to_ns - counted.worst.from_ns);
		for (size_t i = 1; i < nr; i++) {
			int order = compare_places(&entries[i - 1], &entries[i]);
			assert_true(order < 0 || (!order && entries[i - 1].from_ns <= entries[i].from_ns));
		}
	}
}

/* What is left of a gap: all readings of its place that touch it, with a millisecond around them. */
static struct ledger_entry clip_with_all(const struct ledger_entry *readings, size_t nr, struct ledger_entry gap)
{
	enum { MS = 1000000 };
	uint64_t from_ns = UINT64_MAX, to_ns = 0, last_ns = 0;
	struct ledger_entry clipped = gap;

	for (size_t i = 0; i < nr && gap.cause == LEDGER_RING_FULL; i++) {
		const struct ledger_entry *reading = &readings[i];
		if (!ledger_cause_is_full(reading->cause) || compare_places(reading, &gap) ||
		    reading->to_ns < gap.from_ns || reading->from_ns > gap.to_ns)
			continue;
		from_ns = reading->from_ns < from_ns ? reading->from_ns : from_ns;
		to_ns = reading->to_ns > to_ns ? reading->to_ns : to_ns;
		if (reading->from_ns >= last_ns) {
			clipped.cause = reading->cause;
			last_ns = reading->from_ns;
		}
	}
	if (to_ns && from_ns > gap.from_ns + MS)
		clipped.from_ns = from_ns - MS;
	if (to_ns && to_ns + MS < gap.to_ns)
		clipped.to_ns = to_ns + MS;
	return clipped;
}

static void any_readings_clip_any_gaps(void **state)
{
	enum { ROUNDS = 3000, MOST = 6, HALF_MS = 500000 };
	static const enum ledger_cause causes[] = {LEDGER_RING_FULL, LEDGER_RING_FULL, LEDGER_STORAGE,
						   LEDGER_CPU_LIMIT, LEDGER_PAUSED,    LEDGER_THROTTLED};
	uint64_t seed = 2;

	(void)state;
	for (size_t round = 0; round < ROUNDS; round++) {
		struct ledger ledger = {.counted = true};
		struct ledger_entry gaps[MOST] = {0}, readings[MOST];
		size_t nr_gaps = next_number(&seed, MOST + 1), nr = next_number(&seed, MOST + 1);
		for (size_t i = 0; i < nr + nr_gaps; i++) {
			/* No two begin at the same time. */
			uint64_t from_ns = (uint64_t)next_number(&seed, 40) * HALF_MS + i;
			struct ledger_entry entry = {
				.cause = causes[next_number(&seed, sizeof(causes) / sizeof(causes[0]))],
				.cpu = (int32_t)next_number(&seed, 2),
				.tid = (int32_t)next_number(&seed, 2) - 1,
				.from_ns = from_ns,
				.to_ns = from_ns + (uint64_t)next_number(&seed, 20) * HALF_MS + 1,
				.count = i, /* tells them apart */
			};
			if (i < nr) {
				readings[i] = entry;
				assert_int_equal(ledger_add(&ledger, &entry), 0);
			} else {
				gaps[i - nr] = entry;
			}
		}
		struct ledger_entry clipped[MOST];
		memcpy(clipped, gaps, sizeof(gaps));
		if (nr) /* a sanitizer sees what is looked at behind them */
			ledger.entries = reallocarray(ledger.entries, nr, sizeof(*ledger.entries));
		assert_int_equal(ledger_clip(&ledger, clipped, nr_gaps), 0);
		for (size_t i = 0; i < nr_gaps; i++) {
			struct ledger_entry expected = clip_with_all(readings, nr, gaps[clipped[i].count - nr]);
			assert_memory_equal(&clipped[i], &expected, sizeof(expected));
		}
		ledger_fini(&ledger);
	}
}

/* The ring was full for a moment; then nothing came for a long time. */
static void readings_end_a_gap(void **state)
{
	enum { MS = 1000000 };
	struct ledger ledger = {.counted = true};
	const struct ledger_entry reading = {0, LEDGER_RING_FULL, 0, -1, 200 * MS, 400 * MS, 7};
	struct ledger_entry gaps[] = {
		{0, LEDGER_RING_FULL, 1, -1, 10 * MS, 900 * MS, 7},
		{0, LEDGER_RING_FULL, 0, -1, 10 * MS, 900 * MS, 7},
		{0, LEDGER_RING_FULL, 0, -1, 250 * MS, 260 * MS, 7},
	};

	(void)state;
	assert_int_equal(ledger_add(&ledger, &reading), 0);
	assert_int_equal(ledger_clip(&ledger, gaps, 3), 0);
	assert_int_equal(gaps[0].from_ns, 199 * MS);
	assert_int_equal(gaps[0].to_ns, 401 * MS);
	assert_int_equal(gaps[1].to_ns - gaps[1].from_ns, 10 * MS);
	assert_int_equal(gaps[2].to_ns - gaps[2].from_ns, 890 * MS); /* no reading of that CPU */
	ledger_fini(&ledger);
}

/* LOST records do not say why the ring was full, nor are the readings gaps of their own. */
static void readings_count_what_the_cpu_limit_dropped(void **state)
{
	enum { MS = 1000000 };
	struct ledger ledger = {.counted = true};
	const struct ledger_entry readings[] = {
		{0, LEDGER_RING_FULL, 0, -1, 200 * MS, 400 * MS, 7},
		{0, LEDGER_CPU_LIMIT, 0, -1, 600 * MS, 800 * MS, 7},
	};
	struct ledger_entry *gaps, reported[] = {
					   {0, LEDGER_RING_FULL, 0, -1, 250 * MS, 300 * MS, 7},
					   {0, LEDGER_RING_FULL, 0, -1, 650 * MS, 900 * MS, 7},
				   };
	size_t nr;

	(void)state;
	assert_int_equal(ledger_add(&ledger, &readings[0]), 0);
	assert_int_equal(ledger_add(&ledger, &readings[1]), 0);
	assert_int_equal(ledger_join(&ledger, reported, 2, &gaps, &nr), 0);
	assert_int_equal(nr, 2);
	assert_int_equal(gaps[0].cause, LEDGER_RING_FULL);
	assert_int_equal(gaps[1].cause, LEDGER_CPU_LIMIT);
	assert_int_equal(gaps[1].to_ns, 801 * MS);
	free(gaps);
	ledger_fini(&ledger);
}

/* A reading that ends where the gap begins, or begins where it ends, touches it. */
static void readings_that_touch_a_gap(void **state)
{
	static const struct ledger_entry gap = {0, LEDGER_RING_FULL, 0, -1, 5000, 6000, 7};
	static const struct {
		uint64_t from_ns, to_ns;
		bool touches;
	} cases[] = {{4000, 4999, false}, {4000, 5000, true}, {6000, 7000, true}, {6001, 7000, false}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ledger ledger = {.counted = true};
		const struct ledger_entry reading = {0, LEDGER_CPU_LIMIT, 0, -1, cases[i].from_ns, cases[i].to_ns, 7};
		struct ledger_entry found = gap;
		assert_int_equal(ledger_add(&ledger, &reading), 0);
		assert_int_equal(ledger_clip(&ledger, &found, 1), 0);
		assert_int_equal(found.cause, cases[i].touches ? LEDGER_CPU_LIMIT : LEDGER_RING_FULL);
		ledger.counted = false; /* nothing is known then */
		found = gap;
		assert_int_equal(ledger_clip(&ledger, &found, 1), 0);
		assert_memory_equal(&found, &gap, sizeof(gap));
		ledger_fini(&ledger);
	}
}

static void actions_in_order_of_time(void **state)
{
	struct ledger ledger = {0}, other = {0};
	const struct ledger_action actions[] = {{2, LEDGER_RING_GREW, 1, -1, 0, 4096, 16384},
						{7, LEDGER_LEVEL_CHANGED, -1, -1, 0, 9, 1},
						{7, LEDGER_LEVEL_CHANGED, -1, -1, 0, 9, 1},
						{8, LEDGER_RING_GREW, 2, -1, 0, 4096, 16384},
						{9, LEDGER_RING_GREW, 3, -1, 0, 4096, 16384}};
	static const unsigned ours[] = {4, 1}, theirs[] = {0, 2, 3};

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(ledger_add_action(&ledger, &actions[ours[i]]), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(ledger_add_action(&other, &actions[theirs[i]]), 0);
	assert_int_equal(ledger_add_actions(&ledger, &other), 0);
	assert_int_equal(ledger.nr_actions, 5);
	for (unsigned i = 0; i < 5; i++)
		assert_memory_equal(&ledger.actions[i], &actions[i], sizeof(actions[i]));
	assert_string_equal(ledger_action_kind_name(ledger.actions[1].kind), "level changed");
	ledger_fini(&ledger);
	ledger_fini(&other);
}

/* A LOST record comes late, and may be in another file. */
static void the_ledger_knows_pauses_better(void **state)
{
	struct ledger ledger = {.counted = true, .started_ns = 1};
	const struct ledger_entry pause = {0, LEDGER_PAUSED, 0, -1, 20, 30, 7};
	struct ledger_entry *gaps, reported[] = {
					   {0, LEDGER_PAUSED, 0, -1, 10, 90, 7},
					   {0, LEDGER_THROTTLED, 0, -1, 40, 50, 0},
				   };
	size_t nr;

	(void)state;
	assert_int_equal(ledger_add(&ledger, &pause), 0);
	for (ledger.ended_ns = 0; ledger.ended_ns < 200; ledger.ended_ns += 100) {
		assert_int_equal(ledger_join(&ledger, reported, 2, &gaps, &nr), 0);
		assert_int_equal(nr, ledger.ended_ns ? 2 : 3);
		assert_int_equal(gaps[0].cause, ledger.ended_ns ? LEDGER_THROTTLED : LEDGER_PAUSED);
		assert_memory_equal(&gaps[nr - 1], &pause, sizeof(pause));
		free(gaps);
	}
	ledger_fini(&ledger);
}

static void take(struct loss_times *times, uint32_t type, const uint64_t *words, uint16_t nr)
{
	uint64_t record[24];
	struct perf_event_header header = {.type = type, .size = (uint16_t)(8 + nr * 8)};

	memcpy(record, &header, sizeof(header));
	memcpy(record + 1, words, nr * sizeof(*words));
	assert_int_equal(loss_times_take(times, (const uint8_t *)record, &header), 0);
}

#define TAKE(times, type, ...)                                                                                         \
	take(times, type, (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void records_show_gaps(void **state)
{
	uint64_t ids[] = {100, 101};
	struct event_desc event = {
		.attr = {.type = PERF_TYPE_TRACEPOINT, .sample_type = SAMPLE_TYPE, .sample_id_all = 1},
		.ids = ids,
		.nr_ids = 2};
	struct loss_times times;
	struct ledger_sum sum;

	(void)state;
	assert_int_equal(loss_times_init(&times, &event, 1), 0);
	TAKE(&times, RECORD_ID_INDEX, 2, 100, 0, 0, (uint64_t)-1, 101, 1, 1, (uint64_t)-1);
	TAKE(&times, PERF_RECORD_SAMPLE, 100, 1000); /* identifier, time */
	TAKE(&times, PERF_RECORD_SAMPLE, 101, 1500);
	TAKE(&times, PERF_RECORD_LOST, 100, 7, 1900, 100); /* id, lost; time, identifier */
	TAKE(&times, PERF_RECORD_SAMPLE, 100, 1901);
	TAKE(&times, PERF_RECORD_THROTTLE, 2000, 101, 101, 2000, 101);
	TAKE(&times, PERF_RECORD_UNTHROTTLE, 2100, 101, 101, 2100, 101);
	TAKE(&times, PERF_RECORD_THROTTLE, 2200, 101, 101, 2200, 101);
	TAKE(&times, PERF_RECORD_LOST_SAMPLES, 7, 0, 100);
	TAKE(&times, PERF_RECORD_SAMPLE, 77, 5); /* of no event */
	assert_int_equal(loss_times_end(&times, 2250, NULL), 0);
	assert_int_equal(times.nr_places, 2);
	assert_int_equal(times.nr_gaps, 3);
	assert_int_equal(times.gaps[0].cpu, 0);
	assert_int_equal(times.gaps[0].from_ns, 1000);
	assert_int_equal(times.gaps[0].to_ns, 1900);
	assert_int_equal(times.gaps[1].cause, LEDGER_THROTTLED);
	assert_int_equal(times.ids[0].captured, 2);
	assert_int_equal(times.ids[0].lost_samples, 7);
	assert_int_equal(ledger_sum(times.gaps, times.nr_gaps, &sum), 0);
	assert_int_equal(sum.gap_ns, 900 + 100 + 50);
	loss_times_fini(&times);
}

/* Samples of times off the CPU stand behind later records of their ring; what is not known was not in the ring. */
static void gaps_beside_times_off_the_cpu(void **state)
{
	uint64_t ids[] = {100, 101};
	struct event_desc events[] = {
		{.attr = {.type = PERF_TYPE_TRACEPOINT, .sample_type = SAMPLE_TYPE, .sample_id_all = 1},
		 .ids = ids,
		 .nr_ids = 1},
		{.attr = {.type = PERF_TYPE_SOFTWARE,
			  .config = PERF_COUNT_SW_CONTEXT_SWITCHES,
			  .sample_type = SAMPLE_TYPE | PERF_SAMPLE_PERIOD | PERF_SAMPLE_RAW,
			  .sample_id_all = 1},
		 .ids = ids + 1,
		 .nr_ids = 1},
	};
	struct loss_times times;

	(void)state;
	assert_int_equal(loss_times_init(&times, events, 2), 0);
	TAKE(&times, RECORD_ID_INDEX, 2, 100, 0, 0, (uint64_t)-1, 101, 0, 0, (uint64_t)-1);
	TAKE(&times, PERF_RECORD_SAMPLE, 100, 1000);
	TAKE(&times, PERF_RECORD_SAMPLE, 101, 900, 50, 0); /* identifier, time, period, raw */
	TAKE(&times, PERF_RECORD_SAMPLE, 101, 1600, 0, 0);
	TAKE(&times, PERF_RECORD_LOST, 100, 7, 1900, 100);
	TAKE(&times, PERF_RECORD_SAMPLE, 101, 1910, 20, 0);
	TAKE(&times, PERF_RECORD_LOST, 100, 7, 1990, 100);
	assert_int_equal(loss_times_end(&times, 2250, NULL), 0);
	assert_int_equal(times.nr_gaps, 2);
	assert_int_equal(times.gaps[0].from_ns, 1000);
	assert_int_equal(times.gaps[0].to_ns, 1900);
	assert_int_equal(times.gaps[1].from_ns, 1910);
	assert_int_equal(times.last_ns, 1910);
	loss_times_fini(&times);
}

static uint64_t sum_counts(const struct loss_times *times)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < times->nr_gaps; i++)
		sum += times->gaps[i].count;
	return sum;
}

/* Each CPU has a ring of samples, and one of task events. */
static void begin(struct loss_times *times, struct event_desc events[2], uint64_t ids[4])
{
	for (size_t i = 0; i < 4; i++)
		ids[i] = 100 + i;
	events[0] = (struct event_desc){
		.attr = {.type = PERF_TYPE_TRACEPOINT, .sample_type = SAMPLE_TYPE, .sample_id_all = 1},
		.ids = ids,
		.nr_ids = 2};
	events[1] = events[0];
	events[1].attr.type = PERF_TYPE_SOFTWARE;
	events[1].attr.config = PERF_COUNT_SW_DUMMY;
	events[1].ids = ids + 2;
	assert_int_equal(loss_times_init(times, events, 2), 0);
	TAKE(times, RECORD_ID_INDEX, 4, 100, 0, 0, (uint64_t)-1, 101, 1, 1, (uint64_t)-1, 102, 0, 0, (uint64_t)-1, 103,
	     1, 1, (uint64_t)-1);
}

/* An event that is not in the file may have had samples, whatever its number is. */
static void events_that_sample(void **state)
{
	struct event_desc events[3];
	struct loss_times times;
	uint64_t ids[4];

	(void)state;
	begin(&times, events, ids);
	events[2] = events[1]; /* is not among them */
	assert_true(loss_times_samples(&times, 0));
	assert_false(loss_times_samples(&times, 1));
	assert_true(loss_times_samples(&times, 2));
	assert_true(loss_times_samples(&times, (uint32_t)LEDGER_NO_EVENT));
	loss_times_fini(&times);
}

/* The recorder was stopped, and the load went elsewhere: the readings alone tell. Gaps and counts agree. */
static void a_gap_without_an_end(void **state)
{
	const struct ledger_entry readings[] = {
		{0, LEDGER_RING_FULL, 0, -1, 200, 400, 7},    /* told by a LOST record */
		{0, LEDGER_RING_FULL, 0, -1, 1000, 3000, 50}, /* then nothing came any more */
		{0, LEDGER_RING_FULL, 0, -1, 3000, 3200, 5},
		{0, LEDGER_RING_FULL, 1, -1, 200, 400,
		 9}, /* this ring told 4 of them, and the rest is of the same reading */
		{1, LEDGER_RING_FULL, 1, -1, 200, 2000, 1000}, /* task events: no sample is missing */
	};
	struct ledger ledger = {.counted = true, .task_rings = true};
	struct event_desc events[2];
	struct loss_times times;
	uint64_t ids[4];

	(void)state;
	begin(&times, events, ids);
	for (size_t i = 0; i < sizeof(readings) / sizeof(*readings); i++)
		assert_int_equal(ledger_add(&ledger, &readings[i]), 0);
	TAKE(&times, PERF_RECORD_SAMPLE, 100, 250);
	TAKE(&times, PERF_RECORD_LOST, 100, 7, 350, 100);
	TAKE(&times, PERF_RECORD_SAMPLE, 100, 1100);
	TAKE(&times, PERF_RECORD_SAMPLE, 101, 210);
	TAKE(&times, PERF_RECORD_LOST, 101, 4, 220, 101);
	TAKE(&times, PERF_RECORD_SAMPLE, 101, 230);
	TAKE(&times, PERF_RECORD_LOST, 103, 900, 1000, 103);
	TAKE(&times, PERF_RECORD_LOST, 103, 100, 2000, 103);
	assert_int_equal(loss_times_end(&times, 4000, &ledger), 0);
	assert_int_equal(times.nr_gaps, 4);
	assert_int_equal(sum_counts(&times), 7 + 50 + 5 + 9);
	assert_int_equal(times.gaps[2].from_ns, 1100);
	assert_int_equal(times.gaps[2].to_ns, 3200);
	assert_int_equal(times.gaps[2].count, 55);
	assert_int_equal(times.gaps[2].event, (uint32_t)LEDGER_NO_EVENT); /* of a ring */
	assert_int_equal(times.gaps[3].event, (uint32_t)LEDGER_NO_EVENT);
	assert_int_equal(times.gaps[3].cpu, 1);
	assert_int_equal(times.gaps[3].from_ns, 230);
	assert_int_equal(times.gaps[3].to_ns, 400);
	loss_times_fini(&times);
	ledger_fini(&ledger);
}

/*
 * A file of --switch-output: a LOST record in front of all others of its ring also counts what was lost before, which
 * is in the count of the former file. Gaps and counts agree.
 */
static void a_gap_that_began_in_another_file(void **state)
{
	enum { MS = 1000000 };
	static const struct {
		uint64_t early, late; /* found by readings before that record, and after it */
		size_t nr_gaps;
		uint64_t from_ns;
	} cases[] = {{0, 0, 0, 0}, {20, 0, 1, 1000}, {0, 30, 1, 1600}, {20, 30, 2, 1000}, {900, 0, 1, 1000}};

	(void)state;
	for (size_t k = 0; k < 2 * sizeof(cases) / sizeof(cases[0]); k++) {
		const bool before = k % 2; /* the ring had records that were read late, and a gap */
		const size_t i = k / 2;
		struct ledger ledger = {
			.counted = true, .task_rings = true, .started_ns = 1000 * MS, .ended_ns = 2000 * MS};
		const struct ledger_entry readings[] = {
			{0, LEDGER_RING_FULL, 0, -1, 1000 * MS, 1100 * MS, cases[i].early},
			{0, LEDGER_RING_FULL, 0, -1, 1600 * MS, 1700 * MS, cases[i].late},
			{1, LEDGER_RING_FULL, 0, -1, 1000 * MS, 1100 * MS, 5000}, /* task events */
			{0, LEDGER_RING_FULL, 1, -1, 1000 * MS, 1100 * MS, 3},    /* another ring */
		};
		struct event_desc events[2];
		struct loss_times times;
		uint64_t ids[4];
		begin(&times, events, ids);
		for (size_t at = 0; at < sizeof(readings) / sizeof(*readings); at++)
			assert_int_equal(ledger_add(&ledger, &readings[at]), 0);
		TAKE(&times, PERF_RECORD_LOST, 102, 5000, 1040 * MS, 102);
		if (before) {
			TAKE(&times, PERF_RECORD_SAMPLE, 100, 970 * MS);
			TAKE(&times, PERF_RECORD_LOST, 100, 40, 980 * MS, 100);
			TAKE(&times, PERF_RECORD_SAMPLE, 100, 990 * MS);
		}
		TAKE(&times, PERF_RECORD_LOST, 100, 900, 1050 * MS, 100);
		TAKE(&times, PERF_RECORD_SAMPLE, 100, 1060 * MS);
		TAKE(&times, PERF_RECORD_LOST, 101, 3, 1050 * MS, 101);
		assert_int_equal(loss_times_end(&times, ledger.ended_ns, &ledger), 0);
		assert_int_equal(times.nr_gaps, cases[i].nr_gaps + 1);
		assert_int_equal(sum_counts(&times), cases[i].early + cases[i].late + 3);
		for (size_t at = 0; at < times.nr_gaps; at++) {
			if (times.gaps[at].cpu == 1)
				assert_int_equal(times.gaps[at].count, 3);
			else if (times.gaps[at].to_ns == 1050 * MS)
				assert_int_equal(times.gaps[at].from_ns, cases[i].from_ns * MS);
			else
				assert_int_equal(times.gaps[at].count, cases[i].late);
		}
		loss_times_fini(&times);
		ledger_fini(&ledger);
	}
}

/* A ring that holds samples and task events: what a LOST record of the one event counts is of both. */
static void gaps_of_shared_rings_stay(void **state)
{
	const struct ledger_entry readings[] = {
		{0, LEDGER_RING_FULL, 0, -1, 200, 400, 7},
		{1, LEDGER_RING_FULL, 0, -1, 200, 400, 2},
	};
	struct ledger ledger = {.counted = true};
	struct event_desc events[2];
	struct loss_times times;
	uint64_t ids[4];

	(void)state;
	begin(&times, events, ids);
	for (size_t i = 0; i < sizeof(readings) / sizeof(*readings); i++)
		assert_int_equal(ledger_add(&ledger, &readings[i]), 0);
	TAKE(&times, PERF_RECORD_SAMPLE, 100, 250);
	TAKE(&times, PERF_RECORD_LOST, 102, 9, 350, 102);
	assert_int_equal(loss_times_end(&times, 4000, &ledger), 0);
	assert_int_equal(times.nr_gaps, 1);
	assert_int_equal(times.gaps[0].count, 9);
	assert_int_equal(times.gaps[0].event, (uint32_t)LEDGER_NO_EVENT);
	loss_times_fini(&times);
	ledger_fini(&ledger);
}

/*
 * Whatever LOST records and readings of the counters say of a ring: its gaps count as many as the larger of both, and
 * those that the readings alone tell lie within them.
 */
static void gaps_count_what_was_lost(void **state)
{
	enum { ROUNDS = 3000, CPUS = 2, STEPS = 5 };
	uint64_t seed = 3;

	(void)state;
	for (size_t round = 0; round < ROUNDS; round++) {
		struct ledger ledger = {.counted = true, .task_rings = next_number(&seed, 2)};
		uint64_t reported[CPUS] = {0}, counted[CPUS] = {0}, found[CPUS] = {0}, first_ns[CPUS], last_ns[CPUS];
		struct event_desc events[2];
		struct loss_times times;
		uint64_t ids[4];
		begin(&times, events, ids);
		for (uint32_t cpu = 0; cpu < CPUS; cpu++) {
			uint64_t time_ns = 101 + 2 * next_number(&seed, 50); /* of records: odd ones */
			uint64_t read_ns = 100 + 2 * next_number(&seed, 50);
			first_ns[cpu] = read_ns;
			for (size_t step = 0; step < STEPS; step++) {
				uint32_t event = next_number(&seed, 3) == 0;
				uint64_t id = 100 + cpu + 2 * event, count = next_number(&seed, 10);
				bool counts = !event || !ledger.task_rings;
				if (next_number(&seed, 2)) {
					TAKE(&times, PERF_RECORD_LOST, id, count, time_ns, id);
					reported[cpu] += counts ? count : 0;
				} else if (!event) {
					TAKE(&times, PERF_RECORD_SAMPLE, id, time_ns);
				}
				time_ns += 2 * next_number(&seed, 50);
				uint64_t until_ns = read_ns + 2 + 2 * next_number(&seed, 50);
				const struct ledger_entry reading = {
					event,   LEDGER_RING_FULL, (int32_t)cpu,          -1,
					read_ns, until_ns,         next_number(&seed, 10)};
				read_ns = until_ns + 2 * next_number(&seed, 20);
				last_ns[cpu] = until_ns;
				assert_int_equal(ledger_add(&ledger, &reading), 0);
				counted[cpu] += counts ? reading.count : 0;
			}
		}
		assert_int_equal(loss_times_end(&times, 5000, &ledger), 0);
		for (size_t i = 0; i < times.nr_gaps; i++) {
			const struct ledger_entry *gap = &times.gaps[i];
			assert_int_equal(gap->cause, LEDGER_RING_FULL);
			assert_int_equal(gap->event, (uint32_t)LEDGER_NO_EVENT);
			assert_in_range(gap->cpu, 0, CPUS - 1);
			assert_true(gap->from_ns <= gap->to_ns);
			found[gap->cpu] += gap->count;
			if (gap->to_ns % 2 == 0)
				assert_true(gap->from_ns >= first_ns[gap->cpu] && gap->to_ns <= last_ns[gap->cpu]);
		}
		for (size_t cpu = 0; cpu < CPUS; cpu++)
			assert_int_equal(found[cpu], reported[cpu] > counted[cpu] ? reported[cpu] : counted[cpu]);
		loss_times_fini(&times);
		ledger_fini(&ledger);
	}
}

/* A reading that found a loss which a LOST record tells is not told twice, where both touch. */
static void readings_that_records_repeat(void **state)
{
	static const struct {
		uint64_t from_ns, to_ns;
		size_t nr_gaps;
	} cases[] = {
		{200, 300, 2}, /* it ends where the gap of the record begins */
		{200, 301, 1}, {350, 360, 1}, {399, 500, 1}, {400, 500, 2}, /* begins where that gap ends */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ledger ledger = {.counted = true};
		const struct ledger_entry readings[] = {
			{0, LEDGER_RING_FULL, 0, -1, cases[i].from_ns, cases[i].to_ns, 6},
			{0, LEDGER_STORAGE, 0, -1, 700, 800, 4},
		};
		struct event_desc events[2];
		struct loss_times times;
		uint64_t ids[4];
		begin(&times, events, ids);
		TAKE(&times, PERF_RECORD_SAMPLE, 100, 300);
		TAKE(&times, PERF_RECORD_LOST, 100, 2, 400, 100);
		TAKE(&times, PERF_RECORD_SAMPLE, 100, 600);
		assert_int_equal(ledger_add(&ledger, &readings[0]), 0);
		assert_int_equal(ledger_add(&ledger, &readings[1]), 0);
		assert_int_equal(loss_times_end(&times, 900, &ledger), 0);
		assert_int_equal(times.nr_gaps, cases[i].nr_gaps + 1);
		assert_int_equal(times.gaps[0].count, 2);
		assert_int_equal(times.gaps[0].from_ns, 300);
		assert_int_equal(times.gaps[1].cause, LEDGER_STORAGE);
		assert_int_equal(times.gaps[1].from_ns, 700);
		assert_int_equal(sum_counts(&times), 10);
		loss_times_fini(&times);
		ledger_fini(&ledger);
	}
}

/* What is lost when the last record of a ring was written came before it: when, no record tells. */
static void readings_that_end_with_a_record(void **state)
{
	const struct ledger_entry reading = {0, LEDGER_RING_FULL, 0, -1, 200, 400, 6};

	(void)state;
	for (uint64_t last_ns = 399; last_ns <= 401; last_ns++) {
		struct ledger ledger = {.counted = true};
		struct event_desc events[2];
		struct loss_times times;
		uint64_t ids[4];
		begin(&times, events, ids);
		assert_int_equal(ledger_add(&ledger, &reading), 0);
		TAKE(&times, PERF_RECORD_SAMPLE, 100, last_ns);
		assert_int_equal(loss_times_end(&times, 900, &ledger), 0);
		assert_int_equal(times.nr_gaps, 1);
		assert_int_equal(times.gaps[0].from_ns, last_ns < 400 ? last_ns : 200);
		assert_int_equal(times.gaps[0].to_ns, 400);
		loss_times_fini(&times);
		ledger_fini(&ledger);
	}
}

/* Two events of two tasks with a ring each: 7 and 5. */
static void begin_with_tasks(struct loss_times *times, struct event_desc events[2], uint64_t ids[4])
{
	for (size_t i = 0; i < 4; i++)
		ids[i] = 100 + i;
	for (size_t i = 0; i < 2; i++)
		events[i] = (struct event_desc){
			.attr = {.type = PERF_TYPE_TRACEPOINT, .sample_type = SAMPLE_TYPE, .sample_id_all = 1},
			.ids = ids + 2 * i,
			.nr_ids = 2};
	assert_int_equal(loss_times_init(times, events, 2), 0);
	TAKE(times, RECORD_ID_INDEX, 4, 100, 0, (uint64_t)-1, 7, 101, 1, (uint64_t)-1, 5, 102, 2, (uint64_t)-1, 7, 103,
	     3, (uint64_t)-1, 5);
	assert_int_equal(times->nr_places, 2);
}

/* As many indexes as there are, and whatever they tell: rings are found when a record needs them, and not for ever. */
static void indexes_without_end(void **state)
{
	enum { IDS = 1 << 16, MOST_SORTED = 1 << 22, INDEXES = 1000 };
	uint64_t *ids = calloc(IDS, sizeof(*ids));
	struct event_desc event = {
		.attr = {.type = PERF_TYPE_TRACEPOINT, .sample_type = SAMPLE_TYPE, .sample_id_all = 1},
		.ids = ids,
		.nr_ids = IDS};
	struct loss_times times;

	(void)state;
	assert_non_null(ids);
	for (size_t i = 0; i < IDS; i++)
		ids[i] = i + 1;
	assert_int_equal(loss_times_init(&times, &event, 1), 0);
	for (uint64_t i = 1; i <= INDEXES; i++)
		TAKE(&times, RECORD_ID_INDEX, 1, i, 0, i, (uint64_t)-1);
	assert_int_equal(times.nr_sorted, IDS); /* with the first */
	TAKE(&times, PERF_RECORD_SAMPLE, 1, 250);
	assert_int_equal(times.nr_places, INDEXES + 1); /* and the ids that no index has */
	assert_int_equal(times.nr_sorted, 2 * IDS);
	TAKE(&times, RECORD_ID_INDEX, 1, 7, 0, 7, (uint64_t)-1); /* nothing new */
	TAKE(&times, PERF_RECORD_SAMPLE, 1, 260);
	assert_int_equal(times.nr_sorted, 2 * IDS);
	for (uint64_t i = 1; i <= INDEXES; i++) {
		TAKE(&times, RECORD_ID_INDEX, 1, 1, 0, 7 + i % 2, (uint64_t)-1);
		TAKE(&times, PERF_RECORD_SAMPLE, 1, 300 + i);
	}
	assert_in_range(times.nr_sorted, MOST_SORTED, MOST_SORTED + IDS);
	assert_int_equal(loss_times_end(&times, 4000, NULL), 0);
	loss_times_fini(&times);
	free(ids);
}

/* A ring of a CPU is shared by tasks: those of its index are not told apart. */
static void rings_of_cpus_are_of_no_task(void **state)
{
	uint64_t ids[] = {100, 101, 102};
	struct event_desc event = {
		.attr = {.type = PERF_TYPE_TRACEPOINT, .sample_type = SAMPLE_TYPE, .sample_id_all = 1},
		.ids = ids,
		.nr_ids = 3};
	struct loss_times times;

	(void)state;
	assert_int_equal(loss_times_init(&times, &event, 1), 0);
	TAKE(&times, RECORD_ID_INDEX, 3, 100, 0, 0, 7, 101, 1, 0, 8, 102, 2, 1, 7);
	assert_int_equal(times.nr_places, 2);
	TAKE(&times, PERF_RECORD_SAMPLE, 101, 250);
	TAKE(&times, PERF_RECORD_LOST, 100, 6, 300, 100);
	assert_int_equal(times.nr_gaps, 1);
	assert_int_equal(times.gaps[0].cpu, 0);
	assert_int_equal(times.gaps[0].tid, -1);
	assert_int_equal(times.gaps[0].from_ns, 250);
	loss_times_fini(&times);
}

/* What LOST records tell of one task is not taken for what another one has lost. */
static void readings_of_tasks(void **state)
{
	const struct ledger_entry readings[] = {
		{0, LEDGER_RING_FULL, -1, 7, 200, 400, 6},
		{0, LEDGER_RING_FULL, -1, 5, 200, 400, 4},
	};
	struct ledger ledger = {.counted = true};
	struct event_desc events[2];
	struct loss_times times;
	uint64_t ids[4];

	(void)state;
	begin_with_tasks(&times, events, ids);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(ledger_add(&ledger, &readings[i]), 0);
	TAKE(&times, PERF_RECORD_SAMPLE, 100, 250);
	TAKE(&times, PERF_RECORD_SAMPLE, 101, 260);
	TAKE(&times, PERF_RECORD_LOST, 100, 6, 300, 100);
	assert_int_equal(loss_times_end(&times, 4000, &ledger), 0);
	assert_int_equal(times.nr_gaps, 2);
	assert_int_equal(times.gaps[0].tid, 7);
	assert_int_equal(times.gaps[0].count, 6);
	assert_int_equal(times.gaps[1].tid, 5);
	assert_int_equal(times.gaps[1].count, 4);
	loss_times_fini(&times);
	ledger_fini(&ledger);
}

/* The events of a ring know when it had its last record. */
static void rings_of_tasks(void **state)
{
	struct event_desc events[2];
	struct loss_times times;
	uint64_t ids[4];

	(void)state;
	begin_with_tasks(&times, events, ids);
	TAKE(&times, PERF_RECORD_SAMPLE, 100, 1000);
	TAKE(&times, PERF_RECORD_SAMPLE, 101, 2000);
	TAKE(&times, PERF_RECORD_LOST, 102, 1, 3000, 102);
	TAKE(&times, PERF_RECORD_LOST, 103, 2, 4000, 103);
	TAKE(&times, PERF_RECORD_LOST, 101, 3, 5000, 101);
	assert_int_equal(times.nr_gaps, 3);
	assert_int_equal(times.gaps[0].from_ns, 1000);
	assert_int_equal(times.gaps[0].tid, 7);
	assert_int_equal(times.gaps[0].cpu, -1);
	assert_int_equal(times.gaps[1].from_ns, 2000);
	assert_int_equal(times.gaps[1].tid, 5);
	assert_int_equal(times.gaps[2].from_ns, 4000);
	assert_int_equal(times.first_ns, 1000);
	assert_int_equal(times.last_ns, 2000);
	loss_times_reach(&times, 0, 0);
	loss_times_reach(&times, 1500, 1700);
	assert_true(times.first_ns == 1000 && times.last_ns == 2000);
	loss_times_reach(&times, 900, 2100);
	assert_true(times.first_ns == 900 && times.last_ns == 2100);
	loss_times_fini(&times);
}

/* A ring that is overwritten loses while it is paused; an event that is stopped again is so from the first time on. */
static void pauses_and_throttling(void **state)
{
	uint64_t ids[] = {100};
	struct event_desc event = {.attr = {.type = PERF_TYPE_HARDWARE,
					    .sample_type = SAMPLE_TYPE,
					    .sample_id_all = 1,
					    .write_backward = 1},
				   .ids = ids,
				   .nr_ids = 1};
	struct loss_times times;

	(void)state;
	assert_int_equal(loss_times_init(&times, &event, 1), 0);
	TAKE(&times, PERF_RECORD_LOST, 100, 5, 50, 100); /* the first record: when it began is not known */
	TAKE(&times, PERF_RECORD_UNTHROTTLE, 90, 100, 100, 90, 100);
	TAKE(&times, PERF_RECORD_THROTTLE, 100, 100, 100, 100, 100);
	TAKE(&times, PERF_RECORD_THROTTLE, 200, 100, 100, 200, 100);
	TAKE(&times, PERF_RECORD_THROTTLE, 210, 99, 99, 210, 99); /* of no event */
	TAKE(&times, PERF_RECORD_UNTHROTTLE, 300, 100, 100, 300, 100);
	TAKE(&times, PERF_RECORD_THROTTLE, 400, 100, 100, 400, 100);
	assert_int_equal(loss_times_end(&times, 400, NULL), 0);
	assert_int_equal(times.nr_gaps, 2);
	assert_int_equal(times.gaps[0].cause, LEDGER_PAUSED);
	assert_true(times.gaps[0].from_ns == 50 && times.gaps[0].to_ns == 50);
	assert_int_equal(times.gaps[1].cause, LEDGER_THROTTLED);
	assert_int_equal(times.gaps[1].event, 0);
	assert_true(times.gaps[1].from_ns == 100 && times.gaps[1].to_ns == 300);
	loss_times_fini(&times);
}

/* perf gives a file of one event no ids in its records: the CPU tells of which ring they are. */
static void records_without_ids(void **state)
{
	enum { TYPE = PERF_SAMPLE_IP | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU };
	uint64_t ids[] = {100, 101};
	struct event_desc event = {.attr = {.sample_type = TYPE, .sample_id_all = 1}, .ids = ids, .nr_ids = 2};
	struct loss_times times;

	(void)state;
	assert_int_equal(loss_times_init(&times, &event, 1), 0);
	TAKE(&times, RECORD_ID_INDEX, 2, 100, 0, 0, (uint64_t)-1, 101, 1, 1, (uint64_t)-1);
	TAKE(&times, PERF_RECORD_SAMPLE, 0x1000, 1000, 0); /* ip, time, cpu */
	TAKE(&times, PERF_RECORD_SAMPLE, 0x1000, 1500, 1);
	TAKE(&times, PERF_RECORD_SAMPLE, 0x1000, 1600, 1);
	TAKE(&times, PERF_RECORD_SAMPLE, 0x1000, 1700, 7);  /* of no ring that is known */
	TAKE(&times, PERF_RECORD_LOST, 0, 9, 1900, 1);      /* id, lost; time, cpu */
	TAKE(&times, PERF_RECORD_LOST_SAMPLES, 3, 1950, 0); /* which CPU, that does not say */
	assert_int_equal(times.ids[0].captured, 1);
	assert_int_equal(times.ids[1].captured, 2);
	assert_int_equal(times.ids[2].captured, 1);
	assert_int_equal(times.ids[0].lost_samples, 0);
	assert_int_equal(times.ids[2].lost_samples, 3);
	assert_int_equal(times.ids[1].lost_records, 9);
	assert_int_equal(times.nr_gaps, 1);
	assert_int_equal(times.gaps[0].cpu, 1);
	assert_int_equal(times.gaps[0].from_ns, 1600);
	loss_times_fini(&times);

	/* One id: all is of it, whatever CPU it was on. */
	event.nr_ids = 1;
	assert_int_equal(loss_times_init(&times, &event, 1), 0);
	TAKE(&times, PERF_RECORD_SAMPLE, 0x1000, 1000, 5);
	TAKE(&times, PERF_RECORD_LOST_SAMPLES, 3, 1950, 0);
	assert_int_equal(times.ids[0].captured, 1);
	assert_int_equal(times.ids[0].lost_samples, 3);
	loss_times_fini(&times);

	/* Without sample_id_all the last word of a LOST record is a count and no CPU. */
	event.nr_ids = 2;
	event.attr.sample_id_all = 0;
	assert_int_equal(loss_times_init(&times, &event, 1), 0);
	TAKE(&times, RECORD_ID_INDEX, 2, 100, 0, 0, (uint64_t)-1, 101, 1, 1, (uint64_t)-1);
	TAKE(&times, PERF_RECORD_LOST, 0, 1);
	assert_int_equal(times.ids[1].lost_records, 0);
	assert_int_equal(times.ids[2].lost_records, 1);
	loss_times_fini(&times);
}

/* Samples without a time are counted, and tell nothing of when something was lost. */
static void records_without_times(void **state)
{
	uint64_t ids[] = {100};
	struct event_desc event = {
		.attr = {.sample_type = PERF_SAMPLE_IDENTIFIER, .sample_id_all = 1}, .ids = ids, .nr_ids = 1};
	struct loss_times times;

	(void)state;
	for (unsigned timed = 0; timed < 2; timed++) {
		event.attr.sample_type |= timed ? PERF_SAMPLE_TIME : 0;
		assert_int_equal(loss_times_init(&times, &event, 1), 0);
		TAKE(&times, PERF_RECORD_SAMPLE, 100, 0);
		TAKE(&times, PERF_RECORD_LOST, 100, 6, 0, 100);
		assert_int_equal(times.ids[0].captured, 1);
		assert_int_equal(times.ids[0].lost_records, 6);
		assert_int_equal(times.nr_gaps, 0);
		assert_true(times.first_ns == 0 && times.last_ns == 0);
		loss_times_fini(&times);
	}
}

/* Of a pipe: what is known of the first stays. */
static void events_are_added(void **state)
{
	uint64_t ids[] = {200, 100};
	struct event_desc events[] = {
		{.attr = {.sample_type = SAMPLE_TYPE, .sample_id_all = 1}, .ids = ids, .nr_ids = 1},
		{.attr = {.sample_type = SAMPLE_TYPE, .sample_id_all = 1}, .ids = ids + 1, .nr_ids = 1}};
	struct event_desc *elsewhere = malloc(sizeof(events));
	struct loss_times times;

	(void)state;
	assert_non_null(elsewhere);
	memcpy(elsewhere, events, sizeof(events));
	assert_int_equal(loss_times_init(&times, events, 1), 0);
	TAKE(&times, RECORD_ID_INDEX, 1, 200, 0, 3, (uint64_t)-1);
	TAKE(&times, PERF_RECORD_SAMPLE, 200, 1000);
	assert_int_equal(loss_times_add_events(&times, elsewhere, 2), 0);
	TAKE(&times, RECORD_ID_INDEX, 1, 100, 1, 3, (uint64_t)-1);
	TAKE(&times, PERF_RECORD_LOST, 100, 4, 0, 2000, 100);
	assert_int_equal(times.nr_ids, 2);
	assert_int_equal(times.ids[0].captured, 1);
	assert_int_equal(times.ids[1].lost_records, 4);
	assert_int_equal(times.nr_gaps, 1);
	assert_int_equal(times.gaps[0].from_ns, 1000); /* one ring */
	assert_int_equal(times.gaps[0].to_ns, 2000);
	loss_times_fini(&times);
	free(elsewhere);
}

/* Whatever a file says, no byte behind a record is looked at: sanitizers watch. */
static void hostile_records(void **state)
{
	uint64_t ids[] = {1};
	struct event_desc event = {.attr = {.sample_type = SAMPLE_TYPE, .sample_id_all = 1}, .ids = ids, .nr_ids = 1};
	struct loss_times times;

	(void)state;
	assert_int_equal(loss_times_init(&times, &event, 1), 0);
	for (uint32_t type = 0; type < 90; type++) {
		for (uint16_t size = 8; size < 64; size++) {
			uint8_t *record = malloc(size);
			struct perf_event_header header = {.type = type, .size = size};
			memset(record, 0xff, size);
			memcpy(record, &header, sizeof(header));
			assert_int_equal(loss_times_take(&times, record, &header), 0);
			free(record);
		}
	}
	loss_times_fini(&times);
	/* An event without ids has none of 0, either. */
	event.nr_ids = 0;
	assert_int_equal(loss_times_init(&times, &event, 1), 0);
	TAKE(&times, PERF_RECORD_SAMPLE, 0, 5);
	assert_int_equal(times.ids[0].captured, 0);
	loss_times_fini(&times);
	assert_int_equal(loss_times_init(&times, NULL, 0), 0);
	TAKE(&times, PERF_RECORD_SAMPLE, 1, 5);
	TAKE(&times, RECORD_ID_INDEX, 1, 1, 1, 1, 1);
	assert_int_equal(loss_times_end(&times, 7, NULL), 0);
	loss_times_fini(&times);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(put_back_and_forth),
		cmocka_unit_test(sums_count_each_time_once),
		cmocka_unit_test(readings_end_a_gap),
		cmocka_unit_test(readings_that_touch_a_gap),
		cmocka_unit_test(records_show_gaps),
		cmocka_unit_test(gaps_beside_times_off_the_cpu),
		cmocka_unit_test(records_without_ids),
		cmocka_unit_test(records_without_times),
		cmocka_unit_test(events_are_added),
		cmocka_unit_test(hostile_records),
		cmocka_unit_test(the_ledger_knows_pauses_better),
		cmocka_unit_test(readings_count_what_the_cpu_limit_dropped),
		cmocka_unit_test(events_that_sample),
		cmocka_unit_test(a_gap_without_an_end),
		cmocka_unit_test(a_gap_that_began_in_another_file),
		cmocka_unit_test(gaps_of_shared_rings_stay),
		cmocka_unit_test(actions_in_order_of_time),
		cmocka_unit_test(causes_have_names_and_meanings),
		cmocka_unit_test(other_writers),
		cmocka_unit_test(sums_are_those_of_each_nanosecond),
		cmocka_unit_test(any_readings_clip_any_gaps),
		cmocka_unit_test(gaps_count_what_was_lost),
		cmocka_unit_test(readings_that_records_repeat),
		cmocka_unit_test(rings_of_tasks),
		cmocka_unit_test(readings_of_tasks),
		cmocka_unit_test(indexes_without_end),
		cmocka_unit_test(rings_of_cpus_are_of_no_task),
		cmocka_unit_test(readings_that_end_with_a_record),
		cmocka_unit_test(pauses_and_throttling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
