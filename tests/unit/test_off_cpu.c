/* SPDX-License-Identifier: MIT */
/* Samples of offcpu-time: put together and read back, whatever else they hold. */
#include <errno.h>
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "perfdata/sample.h"
#include "tasks/off_cpu.h"
#include "tasks/raw_sample.h"

static const uint64_t least = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			      PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_RAW;

static void check(uint64_t sample_type, const struct off_cpu_wait *wait)
{
	struct perf_event_attr attr = {.sample_type = sample_type, .sample_regs_user = 7, .sample_stack_user = 64};
	const struct off_cpu_end end = {.pid = 1, .tid = 2, .time_ns = 3, .cpu = 4};
	const struct raw_sample_shape shape = raw_sample_shape(&attr);
	AUTO_BUF struct buf blank = {0}, out = {0};
	struct off_cpu_wait found;
	struct sample sample;

	off_cpu_put_blank(&attr, 99, &blank);
	assert_int_equal(off_cpu_put(&shape, (const void *)blank.data, wait, &end, &out), 0);
	assert_int_equal(out.len % 8, 0);
	assert_int_equal(sample_decode(&attr, (const void *)out.data, &sample), 0);
	assert_int_equal(sample.id, 99);
	assert_int_equal(sample.pid, 1);
	assert_int_equal(sample.tid, 2);
	assert_int_equal(sample.time, 3);
	assert_int_equal(sample.cpu, 4);
	assert_int_equal(sample.period, wait->flags & OFF_CPU_UNKNOWN ? 0 : wait->ns);
	assert_int_equal(off_cpu_decode(&sample, &found), 0);
	assert_int_equal(found.ns, wait->ns);
	assert_int_equal(found.runnable_ns, wait->flags & OFF_CPU_UNKNOWN ? 0 : wait->runnable_ns);
	assert_int_equal(found.state, wait->state);
	assert_int_equal(found.flags, wait->flags);
	assert_int_equal(found.nr_times, wait->nr_times);
	assert_int_equal(found.waker_tid, wait->waker_tid);
	assert_int_equal(found.waker_ips.len, wait->waker_ips.len);
	assert_memory_equal(found.waker_ips.ptr, wait->waker_ips.ptr, wait->waker_ips.len);
}

static void test_round_trip(void **state)
{
	const uint64_t ips[] = {PERF_CONTEXT_KERNEL, 1, 2};
	const struct off_cpu_wait waits[] = {
		{.ns = 1000, .runnable_ns = 10, .state = 1, .nr_times = 1},
		{.ns = 1000, .runnable_ns = 10, .state = 2, .waker_pid = 7, .waker_tid = 8, .nr_times = 1},
		{.ns = 5, .state = 2, .waker_pid = 7, .waker_tid = 8, .nr_times = 1, .waker_ips = {ips, sizeof(ips)}},
		{.ns = 1000, .flags = OFF_CPU_UNKNOWN, .nr_times = 1},
		{.ns = 1000, .runnable_ns = 1000, .flags = OFF_CPU_SUM, .nr_times = 12},
	};
	const uint64_t more[] = {
		0,
		PERF_SAMPLE_CALLCHAIN,
		PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_ADDR | PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_REGS_USER |
			PERF_SAMPLE_STACK_USER,
		PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_WEIGHT_STRUCT | PERF_SAMPLE_TRANSACTION | PERF_SAMPLE_PHYS_ADDR |
			PERF_SAMPLE_CGROUP | PERF_SAMPLE_DATA_PAGE_SIZE | PERF_SAMPLE_CODE_PAGE_SIZE,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
		for (size_t k = 0; k < sizeof(waits) / sizeof(waits[0]); k++)
			check(least | more[i], &waits[k]);
}

/* Whatever the bytes are, they are read within their bounds. */
static void test_broken(void **state)
{
	uint8_t raw[64];
	uint64_t random = 88172645463325252ull;

	(void)state;
	for (unsigned round = 0; round < 20000; round++) {
		for (size_t i = 0; i < sizeof(raw); i++) {
			random ^= random << 13, random ^= random >> 7, random ^= random << 17;
			raw[i] = (uint8_t)random;
		}
		const struct sample sample = {
			.present = PERF_SAMPLE_RAW, .period = random >> 8, .raw = {raw, random % sizeof(raw)}};
		struct off_cpu_wait wait;
		int err = off_cpu_decode(&sample, &wait);
		assert_true(err == 0 || err == -EBADMSG);
		assert_true(err || wait.runnable_ns <= wait.ns);
		assert_true(err || wait.waker_ips.len <= sample.raw.len);
	}
	const struct sample shorter = {.present = PERF_SAMPLE_RAW, .raw = {raw, 11}};
	struct off_cpu_wait wait;
	assert_int_equal(off_cpu_decode(&shorter, &wait), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip), cmocka_unit_test(test_broken)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
