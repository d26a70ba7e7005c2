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

/* One side ring, drained by one stream. */
struct scene {
	struct plan_ring ring;
	struct plan plan;
	size_t which;
	struct data_file file;
	struct data_files files;
	struct perf_event_attr attr;
	struct task_log *task_log;
	uint64_t position;
};

static int begin(void **state)
{
	static struct scene scene;

	scene = (struct scene){
		.ring = {.channel = CHANNEL_SIDE, .cpu = 0, .tid = -1},
		.attr = {.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME, .sample_id_all = 1},
	};
	scene.plan = (struct plan){.rings = &scene.ring, .nr_rings = 1, .nr_drained = 1};
	scene.file.stream = (struct stream){.which = &scene.which, .nr_rings = 1};
	scene.files = (struct data_files){.files = &scene.file, .nr = 1};
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

/* Comes out of the side ring. */
static void see(struct scene *scene, struct buf *records)
{
	const struct span spans[2] = {buf_span(records)};
	struct stream_tap *tap = scene->file.stream.tap;

	tap->see(tap, spans, scene->position);
	scene->position += records->len;
	buf_fini(records);
}

/* The output is switched. */
static bool put_initial_state(struct scene *scene, struct buf *state_bytes)
{
	bool whole;

	scene->file.stream.tap->cut(scene->file.stream.tap, scene->position);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_is_whole_before_it_began, begin, end),
		cmocka_unit_test_setup_teardown(lists_what_was_there_and_what_came, begin, end),
		cmocka_unit_test_setup_teardown(a_loss_is_reported_at_once, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
