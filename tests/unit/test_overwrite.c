/* SPDX-License-Identifier: MIT */
/* Overwritten rings in files that stand for events: of a thread that is gone, and snapshots of one moment. */
#include <errno.h>
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/diag.h"
#include "event/parse/event.h"
#include "record/drain/overwrite.h"
#include "record/setup/eventset.h"

static bool thread_is_gone, refuses_to_send;
static int carrier;

static int make_ring(void)
{
	int fd = memfd_create("ring", MFD_CLOEXEC);

	assert_int_equal(ftruncate(fd, 2 * sysconf(_SC_PAGESIZE)), 0);
	return fd;
}

/* Stands before the one that asks the kernel. */
int ring_carrier_open(const struct perf_event_attr *like, const struct plan_ring *ring, uint32_t wakeup_bytes)
{
	(void)like, (void)ring, (void)wakeup_bytes;
	carrier = thread_is_gone ? -ESRCH : make_ring();
	return carrier;
}

int ioctl(int fd, unsigned long request, ...)
{
	(void)fd, (void)request;
	errno = EINVAL;
	return refuses_to_send ? -1 : 0;
}

struct fake {
	struct event event;
	struct event_list events;
	struct plan_slot slot;
	struct plan_ring ring;
	struct plan plan;
	int fd;
	struct eventset set;
	struct overwrite *overwrite;
	struct perf_event_mmap_page *page;
	uint8_t *data;
	uint64_t next;
};

static void open_fake(struct fake *fake)
{
	const struct ring_sizes sizes = {.pages = 1, .exact = true};
	struct diag diag;

	*fake = (struct fake){.slot = {.pid = 1, .cpu = -1},
			      .ring = {.channel = CHANNEL_OVERWRITE, .cpu = -1, .tid = 1},
			      .fd = make_ring()};
	fake->events = (struct event_list){.events = &fake->event, .nr = 1};
	fake->plan =
		(struct plan){.slots = &fake->slot, .nr_slots = 1, .rings = &fake->ring, .nr_rings = 1, .nr_places = 1};
	fake->set = (struct eventset){.plan = &fake->plan, .events = &fake->events, .fds = &fake->fd};
	assert_int_equal(overwrite_open(&fake->set, sizes, &fake->overwrite, &diag), 0);
	if (thread_is_gone)
		return;
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	fake->page =
		mmap(NULL, 2 * page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, refuses_to_send ? fake->fd : carrier, 0);
	assert_ptr_not_equal(fake->page, MAP_FAILED);
	fake->data = (uint8_t *)fake->page + page_bytes;
}

static void close_fake(struct fake *fake)
{
	overwrite_free(fake->overwrite);
	if (fake->page)
		munmap(fake->page, 2 * (size_t)sysconf(_SC_PAGESIZE));
	close(fake->fd);
}

struct numbered {
	struct perf_event_header header;
	uint64_t number;
};

/* As the kernel does: a record of each number that follows. They fit into the page without a wrap. */
static void write_records(struct fake *fake, unsigned nr)
{
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE);

	for (unsigned i = 0; i < nr; i++) {
		const struct numbered record = {{.type = PERF_RECORD_SAMPLE, .size = sizeof(record)}, fake->next++};
		fake->page->data_head -= sizeof(record);
		memcpy(fake->data + (fake->page->data_head & (bytes - 1)), &record, sizeof(record));
	}
}

static void assert_collected(struct fake *fake, uint64_t first, unsigned nr)
{
	struct buf records = {0};
	uint64_t whole_from_ns = 1;

	assert_int_equal(overwrite_collect(fake->overwrite, &records, &whole_from_ns), 0);
	assert_int_equal(whole_from_ns, 0);
	assert_int_equal(records.len, nr * sizeof(struct numbered));
	for (unsigned i = 0; i < nr; i++)
		assert_int_equal(((const struct numbered *)(const void *)records.data)[i].number, first + i);
	buf_fini(&records);
}

static void a_thread_that_is_gone_has_no_records(void **state)
{
	struct fake fake;

	(void)state;
	thread_is_gone = true;
	open_fake(&fake);
	thread_is_gone = false;
	assert_int_equal(overwrite_mark(fake.overwrite), 0);
	overwrite_copy(fake.overwrite);
	struct buf records = {0};
	assert_int_equal(overwrite_collect(fake.overwrite, &records, NULL), 0);
	assert_int_equal(records.len, 0);
	close_fake(&fake);
}

/* In a ring of several events, and in one of an event alone: what comes later is in the next one. */
static void a_snapshot_holds_what_there_was_at_its_moment(void **state)
{
	(void)state;
	for (int mode = 0; mode < 4; mode++) {
		struct fake fake;
		refuses_to_send = mode & 1;
		open_fake(&fake);
		if (mode & 2)
			overwrite_start(fake.overwrite);
		write_records(&fake, 3);
		assert_int_equal(overwrite_mark(fake.overwrite), 0);
		write_records(&fake, 1);
		overwrite_copy(fake.overwrite);
		write_records(&fake, 1);
		assert_int_equal(overwrite_mark(fake.overwrite), -EBUSY);
		overwrite_copy(fake.overwrite);
		assert_collected(&fake, 0, 3);
		assert_int_equal(overwrite_mark(fake.overwrite), 0);
		overwrite_copy(fake.overwrite);
		assert_collected(&fake, 3, 2);
		write_records(&fake, 4);
		struct buf records = {0};
		uint64_t whole_from_ns;
		assert_int_equal(overwrite_end(fake.overwrite, &records, &whole_from_ns), 0);
		assert_int_equal(records.len, 4 * sizeof(struct numbered));
		buf_fini(&records);
		assert_int_equal(overwrite_counters(fake.overwrite).nr_snapshots, 3);
		assert_int_equal(overwrite_counters(fake.overwrite).nr_records, 9);
		close_fake(&fake);
	}
}

/* All of it was overwritten before it was copied. */
static void no_time_is_whole_when_nothing_is_left(void **state)
{
	struct buf records = {0};
	uint64_t whole_from_ns = 0;
	struct fake fake;

	(void)state;
	refuses_to_send = false;
	open_fake(&fake);
	write_records(&fake, 5);
	assert_int_equal(overwrite_mark(fake.overwrite), 0);
	write_records(&fake, (unsigned)((size_t)sysconf(_SC_PAGESIZE) / sizeof(struct numbered)));
	overwrite_copy(fake.overwrite);
	assert_int_equal(overwrite_collect(fake.overwrite, &records, &whole_from_ns), 0);
	assert_int_equal(records.len, 0);
	assert_true(whole_from_ns == UINT64_MAX);
	assert_int_equal(overwrite_counters(fake.overwrite).nr_overwritten, 1);
	assert_int_equal(overwrite_counters(fake.overwrite).nr_emptied, 1);
	close_fake(&fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_that_is_gone_has_no_records),
		cmocka_unit_test(a_snapshot_holds_what_there_was_at_its_moment),
		cmocka_unit_test(no_time_is_whole_when_nothing_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
