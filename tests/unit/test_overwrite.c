/* SPDX-License-Identifier: MIT */
/* Overwritten rings of a thread that ends while they are made. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/diag.h"
#include "event/parse/event.h"
#include "record/drain/overwrite.h"
#include "record/setup/eventset.h"

static unsigned nr_left; /* so many are opened while the thread lives */

/* Stands before the one that asks the kernel. */
int ring_carrier_open(const struct perf_event_attr *like, const struct plan_ring *ring, uint32_t wakeup_bytes)
{
	(void)like, (void)ring, (void)wakeup_bytes;
	if (!nr_left)
		return -ESRCH;
	nr_left--;
	int fd = memfd_create("carrier", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, 2 * sysconf(_SC_PAGESIZE)), 0);
	return fd;
}

static void a_thread_that_is_gone_has_no_records(void **state)
{
	struct event event = {0};
	struct event_list events = {.events = &event, .nr = 1};
	struct plan_slot slot = {.pid = 1, .cpu = -1};
	struct plan_ring ring = {.channel = CHANNEL_OVERWRITE, .cpu = -1, .tid = 1};
	struct plan plan = {.slots = &slot, .nr_slots = 1, .rings = &ring, .nr_rings = 1, .nr_places = 1};
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct eventset set = {.plan = &plan, .events = &events, .fds = &fd};
	struct diag diag;

	(void)state;
	for (unsigned opened = 0; opened < 2; opened++) {
		struct overwrite *overwrite;
		struct buf records = {0};
		nr_left = opened;
		assert_int_equal(
			overwrite_open(&set, (struct ring_sizes){.pages = 1, .exact = true}, &overwrite, &diag), 0);
		assert_int_equal(overwrite_freeze(overwrite), 0);
		assert_int_equal(overwrite_collect(overwrite, &records, NULL), 0);
		assert_int_equal(records.len, 0);
		overwrite_free(overwrite);
	}
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_that_is_gone_has_no_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
