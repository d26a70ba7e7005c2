/* SPDX-License-Identifier: MIT */
/* What processes have mapped as of what was drained: when records are applied, and what is kept. */
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "perfdata/attr.h"
#include "perfdata/sample.h"
#include "record/order/ring_events.h"
#include "record/unwind/drained_state.h"
#include "record/unwind/mapped_objects.h"
#include "record/unwind/task_state.h"
#include "record/unwind/unwound.h"
#include "stream/ring.h"
#include "tasks/maps.h"
#include "unwind/unwind.h"

enum {
	PID = 1 << 24, /* of no process */
	OTHER_PID = PID + 1,
	RING_BYTES = 8192,
	NR_RINGS = 2,
	CODE = 0x400000,
	CODE_BYTES = 0x1000,
	MANY_BYTES = 1 << 20,
	QUEUE_BYTES = 8 << 20,
};

/* The kernel's part of a ring. */
struct fake_ring {
	struct perf_event_mmap_page page;
	uint64_t data[RING_BYTES / 8];
	struct ring ring;
};

struct scene {
	struct fake_ring rings[NR_RINGS];
	const struct ring *list[NR_RINGS];
	struct event_desc event;
	uint64_t id;
	struct ring_events events;
	struct unwind_tables *tables;
	struct mapped_objects *objects;
	struct drained_state *state;
	struct task_state *complete; /* what is known of all that was in batches */
	_Alignas(8) uint8_t record[4096];
};

static int set_up(void **ret)
{
	static const struct mapped_objects_limits limits = {MANY_BYTES, 100};
	struct scene *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	for (size_t i = 0; i < NR_RINGS; i++) {
		ring_attach(&s->rings[i].ring, &s->rings[i].page, s->rings[i].data, RING_BYTES);
		s->list[i] = &s->rings[i].ring;
	}
	s->event.ids = &s->id;
	s->event.nr_ids = 1;
	s->event.attr = (struct perf_event_attr){
		.size = sizeof(s->event.attr),
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.sample_id_all = 1,
	};
	assert_int_equal(ring_events_init(&s->events, &s->event, 1), 0);
	s->tables = unwind_tables_new("x86_64", MANY_BYTES);
	s->objects = mapped_objects_new(s->tables, &limits, NULL);
	s->complete = task_state_new(s->objects, s->events.trailer_bytes, MANY_BYTES);
	assert_true(s->tables && s->objects && s->complete);
	const struct unwinding_rings rings = {.rings = s->list, .nr = NR_RINGS, .nr_threads = 1};
	const struct drained_state_params params = {.rings = &rings, .events = &s->events, .objects = s->objects};
	assert_int_equal(drained_state_new(&params, &s->state), 0);
	*ret = s;
	return 0;
}

static int tear_down(void **state)
{
	struct scene *s = *state;

	drained_state_free(s->state);
	task_state_free(s->complete);
	mapped_objects_free(s->objects);
	unwind_tables_free(s->tables);
	ring_events_fini(&s->events);
	free(s);
	return 0;
}

static void open_state(struct scene *s, uint64_t horizon_ns)
{
	assert_int_equal(drained_state_open(s->state, s->complete, horizon_ns, 0), 0);
}

static void make_record(struct scene *s, uint32_t type, const struct buf *payload)
{
	struct perf_event_header header = {
		.type = type, .misc = PERF_RECORD_MISC_USER, .size = (uint16_t)(sizeof(header) + payload->len)};

	assert_true(header.size <= sizeof(s->record));
	memcpy(s->record, &header, sizeof(header));
	memcpy(s->record + sizeof(header), payload->data, payload->len);
}

/* The process has that file at CODE. */
static void make_map(struct scene *s, uint32_t pid, const char *path, uint64_t time_ns)
{
	const uint64_t where[] = {CODE, CODE_BYTES, CODE_BYTES}, no_inode[2] = {0};
	const uint32_t rights[] = {PROT_READ | PROT_EXEC, MAP_PRIVATE};
	struct buf payload = {0};
	char name[64] = "";

	snprintf(name, sizeof(name), "%s", path);
	buf_put_u32(&payload, pid);
	buf_put_u32(&payload, pid);
	buf_put(&payload, where, sizeof(where));
	buf_put_u64(&payload, 0);
	buf_put(&payload, no_inode, sizeof(no_inode));
	buf_put(&payload, rights, sizeof(rights));
	buf_put(&payload, name, sizeof(name));
	buf_put_u32(&payload, pid);
	buf_put_u32(&payload, pid);
	buf_put_u64(&payload, time_ns);
	make_record(s, PERF_RECORD_MMAP2, &payload);
	buf_fini(&payload);
}

static size_t record_bytes(const struct scene *s)
{
	return ((const struct perf_event_header *)s->record)->size;
}

/* The record comes into a ring. */
static void produce(struct scene *s, size_t ring)
{
	struct fake_ring *fake = &s->rings[ring];

	for (size_t i = 0; i < record_bytes(s); i += 8)
		memcpy((uint8_t *)fake->data + (fake->page.data_head + i) % RING_BYTES, s->record + i, 8);
	fake->page.data_head += record_bytes(s);
}

/* All of the ring is drained: what the last call of produce() has put there. */
static void take(struct scene *s, size_t ring)
{
	drained_state_see(s->state, s->record);
	s->rings[ring].page.data_tail = s->rings[ring].page.data_head;
}

static void see_map(struct scene *s, uint32_t pid, uint64_t time_ns)
{
	make_map(s, pid, "//anon", time_ns);
	drained_state_see(s->state, s->record);
}

static enum task_state_known known(struct scene *s, uint32_t pid, uint64_t time_ns)
{
	const struct sample sample = {.pid = pid, .tid = pid, .time = time_ns};
	enum task_state_known known = TASK_STATE_NO_PROCESS;
	struct known_task task = {0};
	uint64_t unused;
	const struct task_state *state = drained_state_begin(s->state, &unused);

	assert_non_null(state);
	known = task_state_maps(state, &sample, &task);
	drained_state_end(s->state);
	return known;
}

static bool is_open(struct scene *s)
{
	uint64_t unused;
	bool open = drained_state_begin(s->state, &unused);

	if (open)
		drained_state_end(s->state);
	return open;
}

/* Not before what is still in a ring and older: it may be about the same process. */
static void test_the_order_of_records(void **state)
{
	struct scene *s = *state;

	open_state(s, 0);
	make_map(s, OTHER_PID, "//anon", 5);
	produce(s, 1);
	make_map(s, PID, "//anon", 7);
	produce(s, 0);
	take(s, 0);
	assert_true(drained_state_work(s->state));
	assert_true(drained_state_is_changing(s->state, PID));
	assert_int_equal(known(s, PID, 8), TASK_STATE_NO_PROCESS);
	make_map(s, OTHER_PID, "//anon", 5);
	take(s, 1);
	assert_false(drained_state_work(s->state));
	assert_false(drained_state_is_changing(s->state, PID));
	assert_int_equal(known(s, PID, 8), TASK_STATE_KNOWN);
	assert_int_equal(known(s, PID, 6), TASK_STATE_TOO_LATE);
	assert_int_equal(known(s, OTHER_PID, 8), TASK_STATE_KNOWN);
	/* What is later is not waited for. */
	make_map(s, PID + 2, "//anon", 20);
	produce(s, 1);
	see_map(s, PID + 3, 19);
	assert_false(drained_state_work(s->state));
	assert_int_equal(known(s, PID + 3, 30), TASK_STATE_KNOWN);
}

/* A record that wraps in its ring has its time behind the start. */
static void test_a_record_that_wraps(void **state)
{
	struct scene *s = *state;

	open_state(s, 0);
	make_map(s, OTHER_PID, "//anon", 5);
	s->rings[1].page.data_head = s->rings[1].page.data_tail = RING_BYTES - 16;
	produce(s, 1);
	see_map(s, PID, 7);
	see_map(s, PID + 2, 4);
	assert_true(drained_state_work(s->state));
	assert_int_equal(known(s, PID, 8), TASK_STATE_NO_PROCESS);
	assert_int_equal(known(s, PID + 2, 8), TASK_STATE_KNOWN);
}

/* What the kernel does not write holds all back, and is not read beyond its end. */
static void test_a_record_without_size(void **state)
{
	struct scene *s = *state;

	open_state(s, 0);
	s->rings[1].page.data_head = 64;
	see_map(s, PID, 7);
	assert_true(drained_state_work(s->state));
	assert_int_equal(known(s, PID, 8), TASK_STATE_NO_PROCESS);
}

/* A copy has what is as old as its horizon; what came since it was asked for comes on top of it. */
static void test_what_comes_before_a_copy(void **state)
{
	struct scene *s = *state;

	open_state(s, 0);
	see_map(s, PID, 5);
	drained_state_close(s->state); /* records were lost, say */
	assert_false(is_open(s));
	assert_true(drained_state_has_missed(s->state));
	open_state(s, 4); /* the first call begins to keep what comes */
	assert_false(is_open(s));
	assert_false(drained_state_has_missed(s->state));
	assert_false(drained_state_is_changing(s->state, PID));
	see_map(s, OTHER_PID, 6);
	see_map(s, PID + 2, 9);
	assert_false(drained_state_work(s->state));
	open_state(s, 4); /* too early: the record of 5 may not be in it */
	assert_false(is_open(s));
	make_map(s, PID, "//anon", 5);
	assert_int_equal(task_state_apply(s->complete, (struct perf_event_header *)s->record), 0);
	open_state(s, 6);
	assert_true(is_open(s));
	assert_false(drained_state_work(s->state));
	assert_int_equal(known(s, PID, 10), TASK_STATE_KNOWN);
	/* It has what is not later from `complete`, which does not know of this one here. */
	assert_int_equal(known(s, OTHER_PID, 10), TASK_STATE_NO_PROCESS);
	assert_false(drained_state_is_changing(s->state, OTHER_PID));
	assert_int_equal(known(s, PID + 2, 10), TASK_STATE_KNOWN);
}

/* More records than are kept are as good as lost ones. */
static void test_too_many_records(void **state)
{
	struct scene *s = *state;
	uint64_t nr = 0;

	open_state(s, 0);
	for (; !drained_state_has_missed(s->state); nr++)
		see_map(s, PID, nr + 1);
	assert_int_equal(nr - 1, QUEUE_BYTES / record_bytes(s));
	open_state(s, nr - 1); /* the last one is missing */
	assert_false(is_open(s));
	assert_false(drained_state_is_changing(s->state, PID));
	open_state(s, nr - 1);
	assert_false(is_open(s));
	open_state(s, nr);
	assert_true(is_open(s));
}

/* Threads have the maps of their process. */
static void test_threads_in_a_copy(void **state)
{
	struct scene *s = *state;
	struct buf payload = {0};

	make_map(s, PID, "//anon", 1);
	assert_int_equal(task_state_apply(s->complete, (struct perf_event_header *)s->record), 0);
	buf_put_u32(&payload, PID);
	buf_put_u32(&payload, PID);
	buf_put_u32(&payload, PID + 10);
	buf_put_u32(&payload, PID);
	for (unsigned i = 0; i < 3; i++)
		buf_put_u64(&payload, 2);
	make_record(s, PERF_RECORD_FORK, &payload);
	assert_int_equal(task_state_apply(s->complete, (struct perf_event_header *)s->record), 0);
	open_state(s, 2);
	const struct sample sample = {.pid = PID, .tid = PID + 10, .time = 3};
	struct known_task task = {0}, of_copy = {0};
	uint64_t unused;
	assert_int_equal(task_state_maps(s->complete, &sample, &task), TASK_STATE_KNOWN);
	const struct task_state *copy = drained_state_begin(s->state, &unused);
	assert_int_equal(task_state_maps(copy, &sample, &of_copy), TASK_STATE_KNOWN);
	assert_ptr_not_equal(task.maps, of_copy.maps);
	assert_non_null(maps_find(of_copy.maps, CODE));
	assert_memory_equal(maps_find(of_copy.maps, CODE), maps_find(task.maps, CODE), sizeof(struct map));
	assert_int_equal(maps_users(of_copy.maps), 1); /* threads are not copied, but found by their process */
	drained_state_end(s->state);
	buf_fini(&payload);
}

/* What the state has mapped is not given up, and not changed by others. */
static void mark(void *ctx, struct mapped_object *object)
{
	mapped_object_mark(ctx, object);
}

static void test_its_objects_are_kept(void **state)
{
	struct scene *s = *state;
	uint64_t unused;

	open_state(s, 0);
	make_map(s, PID, "/program", 1);
	drained_state_see(s->state, s->record);
	assert_false(drained_state_work(s->state));
	for (unsigned i = 0; i < 200; i++) { /* of which no process is known any more */
		char path[32];
		snprintf(path, sizeof(path), "/other/%u", i);
		make_map(s, OTHER_PID, path, 2 + i);
		drained_state_see(s->state, s->record);
		assert_false(drained_state_work(s->state));
	}
	assert_true(mapped_objects_are_many(s->objects));
	assert_true(drained_state_lock_objects(s->state, mark, s->objects));
	assert_false(drained_state_lock_objects(s->state, mark, s->objects));
	mapped_objects_give_up(s->objects);
	drained_state_unlock(s->state);
	const struct sample sample = {.pid = PID, .tid = PID, .time = 2};
	struct known_task task = {0};
	const struct task_state *drained = drained_state_begin(s->state, &unused);
	assert_int_equal(task_state_maps(drained, &sample, &task), TASK_STATE_KNOWN);
	assert_non_null(mapped_object_table(maps_find(task.maps, CODE)->object)); /* ASan: is not freed */
	drained_state_end(s->state);
}

/* With its thread: soon after a record was seen. */
static void test_the_thread(void **state)
{
	struct scene *s = *state;

	assert_int_equal(drained_state_start(s->state), 0);
	open_state(s, 0);
	for (uint32_t i = 0; i < 100; i++) {
		see_map(s, PID + i, 1 + i);
		while (drained_state_is_changing(s->state, PID + i))
			usleep(100);
	}
	assert_int_equal(known(s, PID + 99, 200), TASK_STATE_KNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_the_order_of_records, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_record_that_wraps, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_record_without_size, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_comes_before_a_copy, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_too_many_records, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_threads_in_a_copy, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_its_objects_are_kept, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_thread, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("drained_state", tests, NULL, NULL);
}
