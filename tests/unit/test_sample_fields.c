/* SPDX-License-Identifier: MIT */
/* The argument of script -F: lists, changes and kinds, and every way to get them wrong. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/diag.h"
#include "cmd/text/sample_text.h"

#define BIT(field) FIELD_BIT(FIELD_##field)

static uint32_t parsed(const char *text, unsigned kind)
{
	struct sample_fields fields;
	struct diag diag = {0};

	sample_fields_init(&fields);
	if (sample_fields_parse(text, &fields, &diag))
		fail_msg("\"%s\": %s", text, diag.text);
	return fields.kinds[kind].shown;
}

static void test_lists(void **state)
{
	struct sample_fields before;

	(void)state;
	sample_fields_init(&before);
	uint32_t software = before.kinds[PERF_TYPE_SOFTWARE].shown;
	assert_int_equal(parsed("comm,ip", PERF_TYPE_SOFTWARE), BIT(COMM) | BIT(IP));
	assert_int_equal(parsed("comm,trace", PERF_TYPE_SOFTWARE), BIT(COMM));
	assert_int_equal(parsed("comm,trace", PERF_TYPE_TRACEPOINT), BIT(COMM) | BIT(TRACE));
	assert_int_equal(parsed("+pid,-comm", PERF_TYPE_SOFTWARE), (software | BIT(PID)) & ~BIT(COMM));
	assert_int_equal(parsed("trace:comm", PERF_TYPE_TRACEPOINT), BIT(COMM));
	assert_int_equal(parsed("trace:comm", PERF_TYPE_SOFTWARE), software);
	assert_int_equal(parsed("sw:+misc", PERF_TYPE_SOFTWARE), software | BIT(MISC));
	assert_int_equal(parsed("sw:", PERF_TYPE_SOFTWARE), 0);
	assert_int_equal(parsed("ip", KIND_OTHER), BIT(IP));
}

static void test_later_lists_change_earlier_ones(void **state)
{
	struct sample_fields fields;

	(void)state;
	sample_fields_init(&fields);
	assert_int_equal(sample_fields_parse("sw:", &fields, NULL), 0);
	assert_true(fields.kinds[PERF_TYPE_SOFTWARE].silenced);
	assert_int_equal(sample_fields_parse("comm", &fields, NULL), 0);
	assert_false(fields.kinds[PERF_TYPE_SOFTWARE].silenced);
	assert_int_equal(sample_fields_parse("+tid", &fields, NULL), 0);
	assert_int_equal(fields.kinds[PERF_TYPE_SOFTWARE].shown, BIT(COMM) | BIT(TID));
	assert_int_equal(fields.kinds[PERF_TYPE_SOFTWARE].required, BIT(COMM) | BIT(TID));
}

static void test_bad_lists(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{"", "is no field"},
		{",", "is no field"},
		{"comm,", "is no field"},
		{"+", "is no field"},
		{"comm,+tid", "or none"},
		{"+comm,tid", "or none"},
		{"nothing", "\"nothing\""},
		{"event:comm", "kind of events"},
		{":comm", "kind of events"},
		{"sw:trace", "software"},
		{"brstackinsn", "use perf script"},
		{"sw:comm:tid", "is no field"},
		{"com", "\"com\""},
		{"comm ", "is no field"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sample_fields fields;
		struct diag diag = {0};
		sample_fields_init(&fields);
		assert_int_equal(sample_fields_parse(cases[i].text, &fields, &diag), -EINVAL);
		if (!strstr(diag.text, cases[i].why))
			fail_msg("\"%s\": %s", cases[i].text, diag.text);
	}
}

static void test_what_samples_have_not_got(void **state)
{
	char name[] = "event";
	struct event_desc event = {
		.attr = {.type = PERF_TYPE_SOFTWARE, .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID}, .name = name};
	struct sample_fields fields;
	struct kind_fields *of = &fields.kinds[PERF_TYPE_SOFTWARE];

	(void)state;
	sample_fields_init(&fields);
	assert_int_equal(sample_fields_complete(of, &event, NULL), 0);
	assert_int_equal(of->shown & (BIT(CPU) | BIT(TIME) | BIT(TID)), BIT(TID));
	assert_int_equal(sample_fields_parse("+cpu", &fields, NULL), 0);
	assert_int_equal(sample_fields_complete(of, &event, NULL), -EINVAL);
	assert_int_equal(sample_fields_parse("ip,symoff", &fields, NULL), 0);
	assert_int_equal(sample_fields_complete(of, &event, NULL), -EINVAL);
	event.attr.sample_type = PERF_SAMPLE_TID;
	sample_fields_init(&fields);
	assert_int_equal(sample_fields_complete(of, &event, NULL), 0);
	assert_int_equal(of->shown & (BIT(IP) | BIT(SYM) | BIT(SYMOFF) | BIT(DSO)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_later_lists_change_earlier_ones),
		cmocka_unit_test(test_bad_lists),
		cmocka_unit_test(test_what_samples_have_not_got),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
