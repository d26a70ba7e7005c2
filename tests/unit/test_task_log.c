/* SPDX-License-Identifier: MIT */
/* The state of the tasks kept beside the outputs: whole, until something of it was lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "perfdata/record.h"
#include "record/output/data_files.h"
#include "record/output/task_log.h"
#include "stream/stream.h"

enum { TRAILER = 16 /* TID, TIME */ };

enum { STREAMS = 2 };

/* Side rings, each drained by a stream. */
struct scene {
	size_t which[STREAMS];
	struct data_file file_of[STREAMS];
	struct data_files files;
	struct perf_event_attr attr;
	struct task_log *task_log;
	uint64_t positions[STREAMS];
};

static int begin(void **state)
{
	static struct scene scene;

	scene = (struct scene){
		.attr = {.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME, .sample_id_all = 1},
	};
	for (size_t i = 0; i < STREAMS; i++) {
		scene.which[i] = i;
		scene.file_of[i].stream = (struct stream){.which = &scene.which[i], .nr_rings = 1, .nr_side_rings = 1};
	}
	scene.files = (struct data_files){.files = scene.file_of, .nr = STREAMS};
	*state = &scene;
	return task_log_new(&scene.attr, &scene.files, &scene.task_log);
}

static int end(void **state)
{
	task_log_free(((struct scene *)*state)->task_log);
	return 0;
}

static void put_comm(struct buf *out, uint32_t pid, const char *name)
{
	const struct record_comm fixed = {.header = {.type = PERF_RECORD_COMM}, .pid = pid, .tid = pid};

	record_put(out, &fixed, sizeof(fixed), span_of_text(name), TRAILER);
}

static void put_lost(struct buf *out)
{
	const struct {
		struct perf_event_header header;
		uint64_t id, lost;
	} fixed = {.header = {.type = PERF_RECORD_LOST}, .lost = 1};

	record_put(out, &fixed, sizeof(fixed), (struct span){0}, TRAILER);
}

/* Comes out of the side ring of that stream. */
static void see_in(struct scene *scene, size_t stream, struct buf *records)
{
	const struct span spans[2] = {buf_span(records)};
	struct stream_tap *tap = scene->file_of[stream].stream.tap;

	tap->see(tap, spans, scene->positions[stream]);
	scene->positions[stream] += records->len;
	buf_fini(records);
}

static void see(struct scene *scene, struct buf *records)
{
	see_in(scene, 0, records);
}

/* At that time. */
static void see_name_at(struct scene *scene, size_t stream, const char *name, uint64_t time)
{
	struct buf comm = {0};

	put_comm(&comm, 7, name);
	memcpy(comm.data + comm.len - sizeof(time), &time, sizeof(time));
	see_in(scene, stream, &comm);
}

static void drain(struct scene *scene, size_t stream)
{
	struct stream_tap *tap = scene->file_of[stream].stream.tap;

	tap->drain(tap);
}

static void see_name(struct scene *scene, size_t stream, uint32_t pid, const char *name)
{
	struct buf comm = {0};

	put_comm(&comm, pid, name);
	see_in(scene, stream, &comm);
}

static void cut(struct scene *scene)
{
	for (size_t i = 0; i < STREAMS; i++) {
		struct stream_tap *tap = scene->file_of[i].stream.tap;
		tap->cut(tap, scene->positions[i]);
	}
}

/* The output is switched. */
static bool put_initial_state(struct scene *scene, struct buf *state_bytes)
{
	bool whole;

	cut(scene);
	assert_int_equal(task_log_put(scene->task_log, state_bytes, &whole), 0);
	return whole;
}

static void start_with(struct scene *scene, uint32_t pid, const char *name)
{
	struct buf state_bytes = {0};

	put_comm(&state_bytes, pid, name);
	assert_int_equal(task_log_begin(scene->task_log, buf_span(&state_bytes)), 0);
	buf_fini(&state_bytes);
}

static bool names(const struct buf *state_bytes, const char *name)
{
	return memmem(state_bytes->data, state_bytes->len, name, strlen(name) + 1) != NULL;
}

static void nothing_is_whole_before_it_began(void **state)
{
	struct buf state_bytes = {0}, comm = {0};

	put_comm(&comm, 7, "seven");
	see(*state, &comm);
	assert_false(put_initial_state(*state, &state_bytes));
	buf_fini(&state_bytes);
}

static void lists_what_was_there_and_what_came(void **state)
{
	struct buf state_bytes = {0}, comm = {0};

	start_with(*state, 6, "six");
	put_comm(&comm, 7, "seven");
	see(*state, &comm);
	assert_true(put_initial_state(*state, &state_bytes));
	assert_true(names(&state_bytes, "six") && names(&state_bytes, "seven"));
	buf_fini(&state_bytes);
}

/* Also one that was not read when the output is switched; until it begins again. */
static void a_loss_is_reported_at_once(void **state)
{
	struct buf state_bytes = {0}, lost = {0};

	start_with(*state, 6, "six");
	put_lost(&lost);
	see(*state, &lost);
	assert_false(put_initial_state(*state, &state_bytes));
	start_with(*state, 8, "eight");
	state_bytes.len = 0;
	assert_true(put_initial_state(*state, &state_bytes));
	assert_true(names(&state_bytes, "eight") && !names(&state_bytes, "six"));
	buf_fini(&state_bytes);
}

/* What the output has kept of each stream is not in the state, too; what was dropped is. */
static void the_state_has_what_each_stream_dropped(void **state)
{
	struct scene *scene = *state;
	struct buf state_bytes = {0};

	start_with(scene, 6, "six");
	cut(scene); /* the output that is kept does not begin with the streams */
	see_name(scene, 0, 7, "zero kept");
	see_name(scene, 1, 8, "one dropped");
	const uint64_t dropped[STREAMS] = {0, scene->positions[1]};
	see_name(scene, 1, 9, "one kept");
	cut(scene);
	see_name(scene, 0, 10, "zero next");
	task_log_window(scene->task_log, 0, dropped);
	bool whole;
	assert_int_equal(task_log_put(scene->task_log, &state_bytes, &whole), 0);
	assert_true(whole);
	assert_true(names(&state_bytes, "six") && names(&state_bytes, "one dropped"));
	assert_false(names(&state_bytes, "zero kept") || names(&state_bytes, "one kept") ||
		     names(&state_bytes, "zero next"));
	buf_fini(&state_bytes);
}

/* Names and times of the records, in their order. */
static void assert_names(const struct buf *state_bytes, const char *expected)
{
	struct buf text = {0};
	struct perf_event_header header;

	for (size_t at = 0; at < state_bytes->len; at += header.size) {
		uint64_t time;
		memcpy(&header, state_bytes->data + at, sizeof(header));
		memcpy(&time, state_bytes->data + at + header.size - sizeof(time), sizeof(time));
		if (header.type == PERF_RECORD_COMM)
			buf_printf(&text, "%s@%llu ", (const char *)state_bytes->data + at + sizeof(struct record_comm),
				   (unsigned long long)time);
	}
	assert_string_equal(buf_text(&text), expected);
	buf_fini(&text);
}

/* Samples in the next output may be older than a name that went to the former one while streams were drained. */
static void the_state_is_as_of_when_the_streams_were_drained(void **state)
{
	struct scene *scene = *state;
	struct buf state_bytes = {0};
	bool whole;

	start_with(scene, 7, "first");
	see_name_at(scene, 0, "old", 10);
	assert_int_equal(task_log_hold(scene->task_log, true), 0);
	see_name_at(scene, 1, "newer", 20);
	drain(scene, 0);
	see_name_at(scene, 0, "newest", 40);
	see_name_at(scene, 1, "between", 30);
	drain(scene, 1); /* from the first one on there may be older samples */
	cut(scene);
	see_name_at(scene, 0, "next", 50); /* the output has it */
	assert_int_equal(task_log_put(scene->task_log, &state_bytes, &whole), 0);
	assert_true(whole);
	assert_names(&state_bytes, "old@0 newer@20 between@30 newest@40 ");
	/* At the next switch all of it is old. */
	buf_fini(&state_bytes);
	assert_int_equal(task_log_hold(scene->task_log, true), 0);
	drain(scene, 0);
	drain(scene, 1);
	assert_true(put_initial_state(scene, &state_bytes));
	assert_names(&state_bytes, "newest@0 next@50 ");
	buf_fini(&state_bytes);
}

/* Overwritten rings have all that came since then, and streams that end may not have been drained. */
static void the_state_is_as_of_when_it_was_held(void **state)
{
	struct scene *scene = *state;

	for (int drained = 0; drained < 2; drained++) {
		struct buf state_bytes = {0};
		start_with(scene, 7, "first");
		see_name_at(scene, 0, "old", 10);
		assert_int_equal(task_log_hold(scene->task_log, !drained), 0);
		see_name_at(scene, 1, "newer", 20);
		see_name_at(scene, 1, "newest", 30);
		if (drained)
			drain(scene, 0);
		assert_true(put_initial_state(scene, &state_bytes));
		assert_names(&state_bytes, "first@0 old@10 newer@20 newest@30 ");
		buf_fini(&state_bytes);
		end(state);
		begin(state);
	}
}

/* Rings are drained one after the other, and what is old is applied in between. */
static void late_records_come_in_their_order(void **state)
{
	const uint64_t second = 1000000000;
	struct scene *scene = *state;
	struct buf state_bytes = {0};
	bool whole;

	start_with(scene, 7, "first");
	see_name_at(scene, 0, "applied", second);
	see_name_at(scene, 0, "two", 5 * second);
	see_name_at(scene, 0, "four", 7 * second);
	assert_int_equal(task_log_absorb(scene->task_log), 0);
	see_name_at(scene, 1, "late", second / 2); /* later than any ring is drained */
	see_name_at(scene, 1, "one", 4 * second);
	see_name_at(scene, 1, "three", 6 * second);
	see_name_at(scene, 0, "five", 8 * second);
	cut(scene);
	task_log_window(scene->task_log, 4 * second, NULL);
	cut(scene);
	assert_int_equal(task_log_put(scene->task_log, &state_bytes, &whole), 0);
	assert_true(whole);
	assert_names(&state_bytes,
		     "late@0 one@4000000000 two@5000000000 three@6000000000 four@7000000000 five@8000000000 ");
	buf_fini(&state_bytes);
}

static uint64_t cpu_ns_of_absorbing(struct scene *scene)
{
	const uint64_t from_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	assert_int_equal(task_log_absorb(scene->task_log), 0);
	return clock_ns(CLOCK_THREAD_CPUTIME_ID) - from_ns;
}

/* Beside a load that makes hundreds of thousands of records a second the output would not be switched in time. */
static void what_was_kept_is_not_sorted_again(void **state)
{
	enum { KEPT = 200000, TIMES = 100 };
	struct scene *scene = *state;
	struct buf comms = {0};
	uint64_t all_ns, more_ns = 0;

	start_with(scene, 7, "first");
	for (uint64_t i = 0; i < KEPT; i++) {
		const uint64_t time = 1 + (i * 7919) % KEPT; /* a prime: in no order */
		put_comm(&comms, 7, "name");
		memcpy(comms.data + comms.len - sizeof(time), &time, sizeof(time));
	}
	see(scene, &comms);
	all_ns = cpu_ns_of_absorbing(scene);
	for (int i = 0; i < TIMES; i++) {
		see_name_at(scene, 1, "late", KEPT - 10);
		more_ns += cpu_ns_of_absorbing(scene);
	}
	assert_true(more_ns < 5 * all_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_is_whole_before_it_began, begin, end),
		cmocka_unit_test_setup_teardown(lists_what_was_there_and_what_came, begin, end),
		cmocka_unit_test_setup_teardown(a_loss_is_reported_at_once, begin, end),
		cmocka_unit_test_setup_teardown(the_state_has_what_each_stream_dropped, begin, end),
		cmocka_unit_test_setup_teardown(the_state_is_as_of_when_the_streams_were_drained, begin, end),
		cmocka_unit_test_setup_teardown(the_state_is_as_of_when_it_was_held, begin, end),
		cmocka_unit_test_setup_teardown(late_records_come_in_their_order, begin, end),
		cmocka_unit_test_setup_teardown(what_was_kept_is_not_sorted_again, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
