/* SPDX-License-Identifier: MIT */
/* An attr as text; the expected lines are those of perf evlist -v (6.1) for files with these attrs. */
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "perfdata/attr.h"

static void check(const struct perf_event_attr *attr, const char *is, const char *expected)
{
	struct buf out = {0};

	attr_text(attr, is, &out);
	assert_string_equal(buf_text(&out), expected);
	buf_fini(&out);
}

static void test_usual(void **state)
{
	const struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = 128,
		.config = 3,
		.sample_period = 4000,
		.sample_type = 0x147,
		.read_format = 0x14,
		.disabled = 1,
		.inherit = 1,
		.freq = 1,
		.enable_on_exec = 1,
		.sample_id_all = 1,
		.exclude_guest = 1,
	};

	(void)state;
	check(&attr, ": ",
	      "type: 1, size: 128, config: 0x3, { sample_period, sample_freq }: 4000, "
	      "sample_type: IP|TID|TIME|ID|PERIOD, read_format: ID|LOST, disabled: 1, inherit: 1, freq: 1, "
	      "enable_on_exec: 1, sample_id_all: 1, exclude_guest: 1");
}

static void test_rare(void **state)
{
	const struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = 128,
		.bp_type = 3,
		.bp_addr = 0x1000,
		.bp_len = 4,
		.precise_ip = 3,
		.branch_sample_type = 1 | 8,
		.sample_regs_user = 0xff0fff,
		.sample_stack_user = 8192,
		.clockid = -3,
		.sample_regs_intr = 7,
		.aux_watermark = 9,
		.sample_max_stack = 127,
		.aux_sample_size = 3,
		.sig_data = 77,
	};

	(void)state;
	check(&attr, " = ",
	      "type = 5, size = 128, precise_ip = 3, bp_type = 3, { bp_addr, config1 } = 0x1000, "
	      "{ bp_len, config2 } = 0x4, branch_sample_type = USER|ANY, sample_regs_user = 0xff0fff, "
	      "sample_stack_user = 8192, clockid = -3, sample_regs_intr = 0x7, aux_watermark = 9, "
	      "sample_max_stack = 127, aux_sample_size = 3, sig_data = 77");
}

static void test_bits_without_name(void **state)
{
	(void)state;
	check(&(struct perf_event_attr){.sample_type = 0x7 << 14 | PERF_SAMPLE_IP}, ": ",
	      "sample_type: IP|IDENTIFIER|DATA_SRC|WEIGHT"); /* perf's order */
	check(&(struct perf_event_attr){.size = 128}, ": ", "size: 128");
	check(&(struct perf_event_attr){.sample_type = 1ull << 60 | 1}, ": ", "sample_type: IP");
	check(&(struct perf_event_attr){.sample_type = 1ull << 17}, ": ", "sample_type: 0x20000");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_usual),
		cmocka_unit_test(test_rare),
		cmocka_unit_test(test_bits_without_name),
	};
	return cmocka_run_group_tests_name("attr_text", tests, NULL, NULL);
}
