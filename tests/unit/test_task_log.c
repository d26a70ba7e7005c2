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
#include "perfdata/record.h"
#include "record/output/data_files.h"
#include "record/output/task_log.h"
#include "record/setup/plan.h"
#include "stream/stream.h"

enum { TRAILER = 16 /* TID, TIME */ };

enum { STREAMS = 2 };

/* Side rings, each drained by a stream. */
struct scene {
	struct plan_ring rings[STREAMS];
	struct plan plan;
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
		scene.rings[i] = (struct plan_ring){.channel = CHANNEL_SIDE, .cpu = (int)i, .tid = -1};
		scene.which[i] = i;
		scene.file_of[i].stream = (struct stream){.which = &scene.which[i], .nr_rings = 1};
	}
	scene.plan = (struct plan){.rings = scene.rings, .nr_rings = STREAMS, .nr_drained = STREAMS};
	scene.files = (struct data_files){.files = scene.file_of, .nr = STREAMS};
	*state = &scene;
	return task_log_new(&scene.plan, &scene.attr, &scene.files, &scene.task_log);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_is_whole_before_it_began, begin, end),
		cmocka_unit_test_setup_teardown(lists_what_was_there_and_what_came, begin, end),
		cmocka_unit_test_setup_teardown(a_loss_is_reported_at_once, begin, end),
		cmocka_unit_test_setup_teardown(the_state_has_what_each_stream_dropped, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
