/* SPDX-License-Identifier: MIT */
/*
 * Options to attrs, as strace showed them of perf record 6.1; and what opening does when the kernel refuses.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/diag.h"
#include "base/log.h"
#include "event/parse/configure.h"
#include "event/parse/open.h"
#include "tests/fake/fake_sources.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static struct fake_sources fake;

/* The sample type in words, in the order of the fields of a sample. */
static void describe_type(uint64_t type, struct buf *ret)
{
	static const struct {
		uint64_t bit;
		const char *word;
	} words[] = {
		{PERF_SAMPLE_IDENTIFIER, "IDENT"}, {PERF_SAMPLE_IP, "IP"},
		{PERF_SAMPLE_TID, "TID"},          {PERF_SAMPLE_TIME, "TIME"},
		{PERF_SAMPLE_ADDR, "ADDR"},        {PERF_SAMPLE_READ, "READ"},
		{PERF_SAMPLE_CALLCHAIN, "CHAIN"},  {PERF_SAMPLE_ID, "ID"},
		{PERF_SAMPLE_CPU, "CPU"},          {PERF_SAMPLE_PERIOD, "PERIOD"},
		{PERF_SAMPLE_RAW, "RAW"},          {PERF_SAMPLE_BRANCH_STACK, "BRANCH"},
		{PERF_SAMPLE_REGS_USER, "REGS"},   {PERF_SAMPLE_STACK_USER, "STACK"},
		{PERF_SAMPLE_DATA_SRC, "SRC"},
	};

	for (size_t i = 0; i < COUNT_OF(words); i++) {
		if (type & words[i].bit)
			buf_printf(ret, "%s%s", ret->len ? "|" : "", words[i].word);
		type &= ~words[i].bit;
	}
	if (type)
		buf_printf(ret, "|%#llx", (unsigned long long)type);
}

/* What configuring sets: sample type; F or c and the number; then each other field that is not 0. */
static void describe(const struct perf_event_attr *attr, struct buf *ret)
{
	struct buf type = {0};

	describe_type(attr->sample_type, &type);
	buf_printf(ret, "%s %s%llu", buf_text(&type), attr->freq ? "F" : "c", (unsigned long long)attr->sample_freq);
	buf_fini(&type);
#define SHOW(field, word)                                                                                              \
	do {                                                                                                           \
		if (attr->field)                                                                                       \
			buf_put_text(ret, " " word);                                                                   \
	} while (0)
	SHOW(disabled, "off");
	SHOW(inherit, "inherit");
	SHOW(enable_on_exec, "exec");
	SHOW(mmap && attr->mmap2 && attr->comm && attr->comm_exec && attr->task && attr->ksymbol && attr->bpf_event,
	     "track");
	SHOW(mmap_data, "data");
	SHOW(inherit_stat, "stat");
	SHOW(exclude_callchain_user, "no-user-chain");
#undef SHOW
	if (attr->sample_stack_user)
		buf_printf(ret, " stack=%u", attr->sample_stack_user);
	if (attr->sample_max_stack)
		buf_printf(ret, " max=%u", attr->sample_max_stack);
	assert_int_equal(attr->sample_id_all, 1);
	assert_int_equal(attr->build_id, 0);
	assert_int_equal((attr->sample_regs_user != 0), (attr->sample_type & PERF_SAMPLE_REGS_USER) != 0);
}

static const struct {
	const char *text;
	struct event_options options;
	const char *attrs; /* of all events, with "; " between */
} rows[] = {
#define O(...)                                                                                                         \
	{                                                                                                              \
		.inherit = true, .max_freq_hz = 100000, __VA_ARGS__                                                    \
	}
#define ALONE(...)                                                                                                     \
	{                                                                                                              \
		.max_freq_hz = 100000, __VA_ARGS__                                                                     \
	} /* does not inherit */
	{"cs", O(), "IP|TID|TIME|PERIOD F4000 off inherit exec track"},
	{"cs", O(.freq_hz = 99), "IP|TID|TIME|PERIOD F99 off inherit exec track"},
	{"cs", O(.freq_hz = EVENT_FREQ_MAX), "IP|TID|TIME|PERIOD F100000 off inherit exec track"},
	{"cs", O(.freq_hz = 200000), "IP|TID|TIME|PERIOD F100000 off inherit exec track"},
	{"cs/freq=200000/", O(), "IP|TID|TIME|PERIOD F100000 off inherit exec track"},
	{"cs", O(.period = 1000), "IP|TID|TIME c1000 off inherit exec track"},
	{"cs", O(.period = 1000, .periods = true), "IP|TID|TIME|PERIOD c1000 off inherit exec track"},
	{"cs", O(.no_periods = true), "IP|TID|TIME F4000 off inherit exec track"},
	{"cs", O(.no_samples = true), "IP|TID|TIME|PERIOD F0 off inherit exec track"},
	{"cs", O(.no_samples = true, .period = 9), "IP|TID|TIME c0 off inherit exec track"},
	{"cs/freq=7/", O(.no_samples = true), "IP|TID|TIME|PERIOD F7 off inherit exec track"},
	{"cs/period=7/", O(.freq_hz = 9), "IP|TID|TIME c7 off inherit exec track"},
	{"cs/freq=7/", O(.period = 9), "IP|TID|TIME|PERIOD F7 off inherit exec track"},
	{"cs", O(.no_timestamps = true), "IP|TID|PERIOD F4000 off inherit exec track"},
	{"cs/time=1/", O(.no_timestamps = true), "IP|TID|TIME|PERIOD F4000 off inherit exec track"},
	{"cs/time=0/", O(), "IP|TID|PERIOD F4000 off inherit exec track"},
	{"cs", O(.raw = true, .no_timestamps = true), "IP|TID|TIME|CPU|PERIOD|RAW F4000 off inherit exec track"},
	{"cs", O(.stat = true), "IP|TID|TIME|PERIOD F4000 off inherit exec track stat"},
	{"cs", O(.addresses = true), "IP|TID|TIME|ADDR|PERIOD|SRC F4000 off inherit exec track data"},
	{"cs", O(.pipe_output = true), "IP|TID|TIME|ID|PERIOD F4000 off inherit exec track"},
	{"cs", ALONE(.stat = false), "IP|TID|TIME|PERIOD F4000 off exec track"},
	{"cs/inherit/", ALONE(.stat = false), "IP|TID|TIME|PERIOD F4000 off inherit exec track"},
	{"cs", ALONE(.per_thread = true), "IP|TID|PERIOD F4000 off exec track"},
	{"cs", ALONE(.per_thread = true, .timestamps = true), "IP|TID|TIME|PERIOD F4000 off exec track"},
	{"cs", O(.target = EVENT_TARGET_TASKS), "IP|TID|TIME|PERIOD F4000 off inherit track"},
	{"cs", O(.target = EVENT_TARGET_TASKS, .has_workload = true), "IP|TID|TIME|PERIOD F4000 off inherit track"},
	{"cs:S", O(), "IP|TID|TIME|READ|ID|PERIOD F4000 off inherit exec track"},
	/* call graphs */
	{"cs", O(.callgraph = CALLGRAPH_FP), "IP|TID|TIME|CHAIN|PERIOD F4000 off inherit exec track"},
	{"cs", O(.callgraph = CALLGRAPH_DWARF),
	 "IP|TID|TIME|ADDR|CHAIN|PERIOD|REGS|STACK|SRC F4000 off inherit exec track data no-user-chain "
	 "stack=8192"},
	{"cs", O(.callgraph = CALLGRAPH_DWARF, .dump_bytes = 1001),
	 "IP|TID|TIME|ADDR|CHAIN|PERIOD|REGS|STACK|SRC F4000 off inherit exec track data no-user-chain "
	 "stack=1008"},
	{"cs/stack-size=512/", O(.callgraph = CALLGRAPH_DWARF),
	 "IP|TID|TIME|ADDR|CHAIN|PERIOD|REGS|STACK|SRC F4000 off inherit exec track data no-user-chain "
	 "stack=512"},
	{"cs", O(.callgraph = CALLGRAPH_UNWIND),
	 "IP|TID|TIME|CHAIN|PERIOD|REGS|STACK F4000 off inherit exec track stack=16384"},
	{"cs", O(.callgraph = CALLGRAPH_UNWIND, .kernel_callchains = true),
	 "IP|TID|TIME|CHAIN|PERIOD F4000 off inherit exec track no-user-chain"},
	{"cs/call-graph=unwind,stack-size=512/", O(.callgraph = CALLGRAPH_FP),
	 "IP|TID|TIME|CHAIN|PERIOD|REGS|STACK F4000 off inherit exec track stack=512"},
	{"cs", O(.callgraph = CALLGRAPH_LBR),
	 "IP|TID|TIME|CHAIN|PERIOD|BRANCH F4000 off inherit exec track no-user-chain"},
	{"cs/call-graph=no/", O(.callgraph = CALLGRAPH_FP), "IP|TID|TIME|PERIOD F4000 off inherit exec track"},
	{"cs/call-graph=fp/", O(.callgraph = CALLGRAPH_DWARF), "IP|TID|TIME|CHAIN|PERIOD F4000 off inherit exec track"},
	{"cs/max-stack=5/", O(), "IP|TID|TIME|CHAIN|PERIOD F4000 off inherit exec track max=5"},
	{"cs/max-stack=5,call-graph=no/", O(), "IP|TID|TIME|PERIOD F4000 off inherit exec track"},
	/* tracepoints and breakpoints */
	{"sched:sched_switch", O(), "IP|TID|TIME|CPU|PERIOD|RAW c1 off inherit exec track"},
	{"sched:sched_switch", O(.freq_hz = 9), "IP|TID|TIME|CPU|PERIOD|RAW F9 off inherit exec track"},
	{"sched:sched_switch", O(.period = 2), "IP|TID|TIME|CPU|PERIOD|RAW c2 off inherit exec track"},
	{"sched:sched_switch", O(.no_samples = true), "IP|TID|TIME|CPU|PERIOD|RAW c0 off inherit exec track"},
	{"sched:sched_switch", O(.no_timestamps = true, .no_periods = true),
	 "IP|TID|TIME|CPU|RAW c1 off inherit exec track"},
	/* --lean: where the attr has the period */
	{"sched:sched_switch", O(.lean = PERF_SAMPLE_PERIOD), "IP|TID|TIME|CPU|RAW c1 off inherit exec track"},
	{"sched:sched_switch", O(.lean = PERF_SAMPLE_PERIOD | PERF_SAMPLE_IP),
	 "TID|TIME|CPU|RAW c1 off inherit exec track"},
	{"sched:sched_switch", O(.lean = PERF_SAMPLE_PERIOD | PERF_SAMPLE_IP, .callgraph = CALLGRAPH_FP),
	 "IP|TID|TIME|CHAIN|CPU|RAW c1 off inherit exec track"},
	{"sched:sched_switch", O(.lean = PERF_SAMPLE_PERIOD, .periods = true),
	 "IP|TID|TIME|CPU|PERIOD|RAW c1 off inherit exec track"},
	{"sched:sched_switch", O(.lean = PERF_SAMPLE_PERIOD, .freq_hz = 9),
	 "IP|TID|TIME|CPU|PERIOD|RAW F9 off inherit exec track"},
	{"sched:sched_switch", O(.lean = PERF_SAMPLE_PERIOD, .period = 2),
	 "IP|TID|TIME|CPU|PERIOD|RAW c2 off inherit exec track"},
	{"cs", O(.lean = PERF_SAMPLE_PERIOD | PERF_SAMPLE_IP), "IP|TID|TIME|PERIOD F4000 off inherit exec track"},
	{"mem:4096", O(), "IP|TID|TIME c1 off inherit exec track"},
	{"mem:4096", O(.freq_hz = 9), "IP|TID|TIME|PERIOD F9 off inherit exec track"},
	/* several: ids, and who carries the records about tasks */
	{"cs,faults", O(),
	 "IP|TID|TIME|ID|PERIOD F4000 off inherit exec track; IP|TID|TIME|ID|PERIOD F4000 off inherit exec"},
	{"cs,sched:sched_switch", O(),
	 "IDENT|IP|TID|TIME|PERIOD F4000 off inherit exec track; "
	 "IDENT|IP|TID|TIME|CPU|PERIOD|RAW c1 off inherit exec"},
	{"cs,faults/call-graph=dwarf/", O(),
	 "IDENT|IP|TID|TIME|PERIOD F4000 off inherit exec track; "
	 "IDENT|IP|TID|TIME|ADDR|CHAIN|PERIOD|REGS|STACK|SRC "
	 "F4000 off inherit exec no-user-chain stack=8192"},
	/* the dummy */
	{"cs", O(.target = EVENT_TARGET_SYSTEM),
	 "IDENT|IP|TID|TIME|CPU|PERIOD F4000 off inherit; IDENT|IP|TID|TIME|CPU c1 inherit track"},
	{"cs", O(.target = EVENT_TARGET_CPUS, .delayed = true),
	 "IDENT|IP|TID|TIME|CPU|PERIOD F4000 off inherit; IDENT|IP|TID|TIME|CPU c1 inherit track"},
	{"cs", O(.target = EVENT_TARGET_SYSTEM, .period = 5),
	 "IP|TID|TIME|ID|CPU c5 off inherit; IP|TID|TIME|ID|CPU c5 inherit track"},
	{"cs", O(.target = EVENT_TARGET_SYSTEM, .freq_hz = 5),
	 "IP|TID|TIME|ID|CPU|PERIOD F5 off inherit; IP|TID|TIME|ID|CPU|PERIOD F5 inherit track"},
	{"cs", O(.target = EVENT_TARGET_SYSTEM, .no_samples = true),
	 "IDENT|IP|TID|TIME|CPU|PERIOD F0 off inherit; IDENT|IP|TID|TIME|CPU c0 inherit track"},
	{"cs", O(.target = EVENT_TARGET_SYSTEM, .addresses = true, .callgraph = CALLGRAPH_FP),
	 "IDENT|IP|TID|TIME|ADDR|CHAIN|CPU|PERIOD|SRC F4000 off inherit; "
	 "IDENT|IP|TID|TIME|ADDR|CHAIN|CPU|SRC c1 inherit track data"},
	{"cs", O(.delayed = true),
	 "IDENT|IP|TID|TIME|PERIOD F4000 off inherit; IDENT|IP|TID|TIME c1 off inherit exec track"},
	{"cs", O(.target = EVENT_TARGET_TASKS, .delayed = true),
	 "IDENT|IP|TID|TIME|PERIOD F4000 off inherit; IDENT|IP|TID|TIME c1 off inherit exec track"},
	{"dummy", O(.target = EVENT_TARGET_SYSTEM), "IP|TID|TIME|CPU|PERIOD F4000 inherit track"},
	{"dummy", O(.delayed = true), "IP|TID|TIME|PERIOD F4000 off inherit exec track"},
	{"dummy,cs", O(.target = EVENT_TARGET_SYSTEM),
	 "IP|TID|TIME|ID|CPU|PERIOD F4000 inherit track; IP|TID|TIME|ID|CPU|PERIOD F4000 off inherit"},
#undef O
#undef ALONE
};

static void test_each_option(void **state)
{
	(void)state;
	log_set_level(LOG_ERRORS);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct event_list list = {0};
		struct diag diag = {""};
		struct buf is = {0};

		if (event_list_parse_from(&list, rows[i].text, &fake.sources, &diag) < 0)
			fail_msg("%s: %s", rows[i].text, diag.text);
		if (event_list_configure(&list, &rows[i].options, &diag) < 0)
			fail_msg("%s: %s", rows[i].text, diag.text);
		for (size_t j = 0; j < list.nr; j++) {
			buf_put_text(&is, j ? "; " : "");
			describe(&list.events[j].attr, &is);
		}
		if (strcmp(buf_text(&is), rows[i].attrs) != 0)
			fail_msg("row %zu, %s:\n is     %s\n should %s", i, rows[i].text, buf_text(&is), rows[i].attrs);
		buf_fini(&is);
		event_list_fini(&list);
	}
}

static void test_side_band_is_marked(void **state)
{
	struct event_options options = {.target = EVENT_TARGET_SYSTEM, .inherit = true, .max_freq_hz = 100000};
	struct event_list list = {0};

	(void)state;
	assert_int_equal(event_list_parse_from(&list, "cs", &fake.sources, NULL), 0);
	assert_int_equal(event_list_configure(&list, &options, NULL), 0);
	assert_int_equal(list.nr, 2);
	assert_string_equal(list.events[1].name, "dummy:HG");
	assert_true(list.events[1].side_band && list.events[1].system_wide);
	assert_false(list.events[0].side_band || list.events[0].system_wide);
	event_list_fini(&list);

	options = (struct event_options){.delayed = true, .max_freq_hz = 100000};
	assert_int_equal(event_list_parse_from(&list, "cs", &fake.sources, NULL), 0);
	assert_int_equal(event_list_configure(&list, &options, NULL), 0);
	assert_true(list.events[1].side_band);
	assert_false(list.events[1].system_wide);
	event_list_fini(&list);
}

static void test_both_rates(void **state)
{
	struct event_options options = {.freq_hz = 1, .period = 1, .max_freq_hz = 100000};
	struct event_list list = {0};
	struct diag diag = {""};

	(void)state;
	assert_int_equal(event_list_configure(&list, &options, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, "not both"));
}

static void test_overwrite_needs_its_rings(void **state)
{
	struct event_options options = {.max_freq_hz = 100000};
	struct event_list list = {0};
	struct diag diag = {""};

	(void)state;
	assert_int_equal(event_list_parse_from(&list, "cs/overwrite/,faults", &fake.sources, NULL), 0);
	assert_int_equal(event_list_configure(&list, &options, &diag), -ENOTSUP);
	assert_non_null(strstr(diag.text, "event cs/overwrite/: "));
	options.overwrite_rings = true;
	assert_int_equal(event_list_configure(&list, &options, &diag), 0);
	assert_int_equal(list.events[0].attr.write_backward, 1);
	assert_int_equal(list.events[1].attr.write_backward, 0);
	event_list_fini(&list);
}

/* A kernel of our own behind syscall(2): refuses what `refuses` says, and keeps what it was asked last. */
static struct {
	int (*refuses)(const struct perf_event_attr *attr, unsigned long flags); /* errno, or 0 */
	struct perf_event_attr last;
	unsigned calls;
} kernel;

/* Stands in for the one of libc in this program. */
long syscall(long number, ...)
{
	va_list args;

	assert_int_equal(number, SYS_perf_event_open);
	va_start(args, number);
	const struct perf_event_attr *attr = va_arg(args, struct perf_event_attr *);
	va_arg(args, int), va_arg(args, int), va_arg(args, int);
	unsigned long flags = va_arg(args, unsigned long);
	va_end(args);
	if (!attr) { /* is there a filter? No: the kernel itself answers */
		errno = EINVAL;
		return -1;
	}
	kernel.last = *attr;
	assert_true(++kernel.calls < 100);
	errno = kernel.refuses ? kernel.refuses(&kernel.last, flags) : 0;
	return errno ? -1 : 42;
}

/* Not a text of -e. */
#define DEFAULT "default"
#define DEFAULT_ON_AMD "default on AMD"

static void prepare(struct event_list *list, const char *text)
{
	struct event_options options = {.inherit = true, .max_freq_hz = 100000, .target = EVENT_TARGET_WORKLOAD};

	log_set_level(LOG_ERRORS);
	memset(&kernel, 0, sizeof(kernel));
	if (strncmp(text, DEFAULT, strlen(DEFAULT)) == 0)
		assert_int_equal(event_list_add_default(list, strcmp(text, DEFAULT_ON_AMD) == 0), 0);
	else
		assert_int_equal(event_list_parse_from(list, text, &fake.sources, NULL), 0);
	assert_int_equal(event_list_configure(list, &options, NULL), 0);
}

static int without_pmu(const struct perf_event_attr *attr, unsigned long flags)
{
	(void)flags;
	return attr->type == PERF_TYPE_SOFTWARE ? 0 : ENOENT;
}

static void test_cycles_fall_back(void **state)
{
	static const struct {
		const char *text, *name;
		unsigned precise;
	} cases[] = {
		{DEFAULT, "cpu-clock:pppH", 3},  {DEFAULT_ON_AMD, "cpu-clock:ppp", 3}, {"cycles", "cpu-clock", 0},
		{"cycles:u", "cpu-clock:uH", 0}, {"cycles:pp", "cpu-clock:ppH", 2},    {"cycles/name=mine/", "mine", 0},
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct event_list list = {0};
		struct event_fallbacks fallbacks = {0};

		prepare(&list, cases[i].text);
		kernel.refuses = without_pmu;
		assert_int_equal(
			event_open(&list.events[0], &fallbacks, &(struct event_open_args){1, 0, -1}, true, NULL), 42);
		assert_int_equal(kernel.last.type, PERF_TYPE_SOFTWARE);
		assert_int_equal(kernel.last.config, PERF_COUNT_SW_CPU_CLOCK);
		assert_int_equal(kernel.last.precise_ip, cases[i].precise);
		assert_string_equal(list.events[0].name, cases[i].name);
		event_list_fini(&list);
	}
}

static void test_no_pmu_is_explained(void **state)
{
	struct event_list list = {0};
	struct event_fallbacks fallbacks = {0};
	struct diag diag = {""};

	(void)state;
	prepare(&list, "instructions");
	kernel.refuses = without_pmu;
	assert_int_equal(event_open(&list.events[0], &fallbacks, &(struct event_open_args){1, 0, -1}, true, &diag),
			 -ENOENT);
	assert_non_null(strstr(diag.text, "event instructions: no PMU"));
	event_list_fini(&list);
}

static int least_precise(const struct perf_event_attr *attr, unsigned long flags)
{
	(void)flags;
	return attr->precise_ip > 1 ? EOPNOTSUPP : 0;
}

static void test_highest_precision_that_opens(void **state)
{
	struct event_list list = {0};
	struct event_fallbacks fallbacks = {0};
	struct diag diag = {""};

	(void)state;
	prepare(&list, "cycles:P,cycles:pp");
	kernel.refuses = least_precise;
	assert_int_equal(event_open(&list.events[0], &fallbacks, &(struct event_open_args){1, 0, -1}, true, NULL), 42);
	assert_int_equal(kernel.last.precise_ip, 1);
	assert_string_equal(list.events[0].name, "cycles:P");
	assert_int_equal(event_open(&list.events[1], &fallbacks, &(struct event_open_args){1, 0, -1}, true, &diag),
			 -EOPNOTSUPP);
	assert_non_null(strstr(diag.text, "precision"));
	event_list_fini(&list);
}

/* One kernel that lacks each feature alone. */
#define REFUSES(name, condition)                                                                                       \
	static int name(const struct perf_event_attr *attr, unsigned long flags)                                       \
	{                                                                                                              \
		(void)attr, (void)flags;                                                                               \
		return (condition) ? EINVAL : 0;                                                                       \
	}
REFUSES(refuses_lost, attr->read_format &PERF_FORMAT_LOST)
REFUSES(refuses_bpf, attr->bpf_event)
REFUSES(refuses_ksymbol, attr->ksymbol)
REFUSES(refuses_cloexec, flags &PERF_FLAG_FD_CLOEXEC)
REFUSES(refuses_mmap2, attr->mmap2 || attr->comm_exec)
REFUSES(refuses_guest, attr->exclude_guest || attr->exclude_host)
REFUSES(refuses_id_all, attr->sample_id_all)
REFUSES(refuses_hw_index, attr->branch_sample_type &PERF_SAMPLE_BRANCH_HW_INDEX)
REFUSES(refuses_branch_flags, attr->branch_sample_type &PERF_SAMPLE_BRANCH_NO_FLAGS)
REFUSES(refuses_all_new, attr->read_format &PERF_FORMAT_LOST || attr->bpf_event || attr->ksymbol ||
				 flags & PERF_FLAG_FD_CLOEXEC || attr->mmap2 || attr->exclude_guest)

static void test_older_kernels(void **state)
{
	int (*const kernels[])(const struct perf_event_attr *, unsigned long) = {
		refuses_lost,  refuses_bpf,    refuses_ksymbol,  refuses_cloexec,      refuses_mmap2,
		refuses_guest, refuses_id_all, refuses_hw_index, refuses_branch_flags, refuses_all_new,
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(kernels); i++) {
		struct event_list list = {0};
		struct event_fallbacks fallbacks = {0};

		prepare(&list, "cs/call-graph=lbr/,faults");
		kernel.refuses = kernels[i];
		assert_int_equal(
			event_open(&list.events[0], &fallbacks, &(struct event_open_args){1, 0, -1}, true, NULL), 42);
		assert_true(fallbacks.missing);
		/* What is missing is known from then on: one call each. */
		kernel.calls = 0;
		assert_int_equal(
			event_open(&list.events[0], &fallbacks, &(struct event_open_args){1, 1, -1}, false, NULL), 42);
		assert_int_equal(kernel.calls, 1);
		assert_int_equal(
			event_open(&list.events[1], &fallbacks, &(struct event_open_args){1, 0, -1}, true, NULL), 42);
		assert_int_equal(kernel.calls, 2);
		event_list_fini(&list);
	}
}

REFUSES(refuses_guest_of_msr, attr->type == 9 && attr->exclude_guest)

/* What one PMU refuses other events still ask for. */
static void test_a_pmu_without_exclude_guest(void **state)
{
	struct event_list list = {0};
	struct event_fallbacks fallbacks = {0};

	(void)state;
	prepare(&list, "cs,msr/tsc/,faults");
	kernel.refuses = refuses_guest_of_msr;
	for (size_t i = 0; i < 3; i++) {
		kernel.calls = 0;
		assert_int_equal(
			event_open(&list.events[i], &fallbacks, &(struct event_open_args){1, 0, -1}, true, NULL), 42);
		assert_int_equal(list.events[i].attr.exclude_guest, i != 1);
		assert_true(kernel.calls == 1 || i == 1);
	}
	event_list_fini(&list);
}

REFUSES(refuses_everything, true)

static void test_refusal_ends(void **state)
{
	struct event_list list = {0};
	struct event_fallbacks fallbacks = {0};
	struct diag diag = {""};

	(void)state;
	prepare(&list, DEFAULT);
	kernel.refuses = refuses_everything;
	assert_int_equal(event_open(&list.events[0], &fallbacks, &(struct event_open_args){1, 0, -1}, true, &diag),
			 -EINVAL);
	assert_non_null(strstr(diag.text, "event cycles:P: the kernel refuses"));
	event_list_fini(&list);
}

static int wanted_errno;

static int refuses_with(const struct perf_event_attr *attr, unsigned long flags)
{
	(void)attr, (void)flags;
	return wanted_errno;
}

static void test_errors_name_a_remedy(void **state)
{
	static const struct {
		int number;
		const char *part;
	} errors[] = {
		{ESRCH, "there is no task 7"},
		{ENODEV, "CPU 3 is offline"},
		{EOVERFLOW, "kernel.perf_event_max_stack"},
		{ENFILE, "ulimit -n"},
		{ENOSYS, "CONFIG_PERF_EVENTS"},
		{EBUSY, "exclusively"},
		{ENOMEM, "memory"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(errors); i++) {
		struct event_list list = {0};
		struct event_fallbacks fallbacks = {0};
		struct diag diag = {""};

		prepare(&list, "faults:u");
		kernel.refuses = refuses_with;
		wanted_errno = errors[i].number;
		assert_int_equal(
			event_open(&list.events[0], &fallbacks, &(struct event_open_args){7, 3, -1}, true, &diag),
			-errors[i].number);
		if (!strstr(diag.text, errors[i].part) || !strstr(diag.text, "event faults:u: "))
			fail_msg("%s", diag.text);
		event_list_fini(&list);
	}
}

/* Tasks may run on CPUs that the first event is not opened on. */
static void test_task_events_come_from_all_cpus(void **state)
{
	struct event_options options = {.target = EVENT_TARGET_WORKLOAD, .inherit = true};
	struct event_list list = {0};

	(void)state;
	assert_int_equal(event_list_parse(&list, "cs", NULL), 0);
	list.events[0].some_cpus = true;
	assert_int_equal(event_list_configure(&list, &options, NULL), 0);
	assert_int_equal(list.nr, 2);
	assert_true(list.events[1].side_band && list.events[1].attr.mmap && list.events[1].attr.enable_on_exec);
	assert_false(list.events[0].attr.mmap);
	event_list_fini(&list);

	options.target = EVENT_TARGET_TASKS;
	assert_int_equal(event_list_parse(&list, "{cs,faults}", NULL), 0);
	list.events[0].group_some_cpus = true;
	assert_int_equal(event_list_configure(&list, &options, NULL), 0);
	assert_int_equal(list.nr, 3);
	assert_true(list.events[2].attr.mmap && !list.events[2].attr.disabled);
	event_list_fini(&list);

	options.per_thread = true;
	assert_int_equal(event_list_parse(&list, "cs", NULL), 0);
	list.events[0].some_cpus = true;
	assert_int_equal(event_list_configure(&list, &options, NULL), 0);
	assert_int_equal(list.nr, 1);
	assert_true(list.events[0].attr.mmap);
	event_list_fini(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_task_events_come_from_all_cpus),
		cmocka_unit_test(test_each_option),
		cmocka_unit_test(test_side_band_is_marked),
		cmocka_unit_test(test_both_rates),
		cmocka_unit_test(test_overwrite_needs_its_rings),
		cmocka_unit_test(test_cycles_fall_back),
		cmocka_unit_test(test_no_pmu_is_explained),
		cmocka_unit_test(test_highest_precision_that_opens),
		cmocka_unit_test(test_older_kernels),
		cmocka_unit_test(test_a_pmu_without_exclude_guest),
		cmocka_unit_test(test_refusal_ends),
		cmocka_unit_test(test_errors_name_a_remedy),
	};

	fake_sources_init(&fake);
	int failed = cmocka_run_group_tests_name("event_configure", tests, NULL, NULL);
	fake_sources_fini(&fake);
	return failed;
}
