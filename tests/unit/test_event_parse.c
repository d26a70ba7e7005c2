/* SPDX-License-Identifier: MIT */
/* -e: what each text means, and where each wrong text is wrong. What perf 6.1 makes of them was measured. */
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/diag.h"
#include "event/parse/event.h"
#include "tests/fake/fake_sources.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define CACHE(cache, op, result) ((cache) | (op) << 8 | (result) << 16)

static struct fake_sources fake;

/* Every attr field that an event's text can set, in one line; what is 0 is left out. */
static void describe(const struct event *event, struct buf *ret)
{
	const struct perf_event_attr *attr = &event->attr;

#define SHOW(field)                                                                                                    \
	do {                                                                                                           \
		if (attr->field)                                                                                       \
			buf_printf(ret, " " #field "=%llu", (unsigned long long)attr->field);                          \
	} while (0)
#define GIVEN(bit, word)                                                                                               \
	do {                                                                                                           \
		if (event->given & (bit))                                                                              \
			buf_put_text(ret, " " word);                                                                   \
	} while (0)
	buf_printf(ret, "%u:%#llx", attr->type, (unsigned long long)attr->config);
	SHOW(exclude_user);
	SHOW(exclude_kernel);
	SHOW(exclude_hv);
	SHOW(exclude_idle);
	SHOW(exclude_host);
	SHOW(exclude_guest);
	SHOW(precise_ip);
	SHOW(pinned);
	SHOW(exclusive);
	SHOW(freq);
	SHOW(sample_period);
	SHOW(config1);
	SHOW(config2);
	SHOW(bp_type);
	SHOW(sample_max_stack);
	SHOW(write_backward);
	GIVEN(EVENT_GIVEN_PERIOD, "period");
	GIVEN(EVENT_GIVEN_FREQ, "freq");
	GIVEN(EVENT_GIVEN_MAX_PRECISE, "P");
	GIVEN(EVENT_GIVEN_SAMPLE_READ, "S");
	GIVEN(EVENT_GIVEN_TIME, "time");
	GIVEN(EVENT_GIVEN_NO_TIME, "no-time");
	GIVEN(EVENT_GIVEN_INHERIT, "inherit");
	GIVEN(EVENT_GIVEN_NO_INHERIT, "no-inherit");
	if (event->given & EVENT_GIVEN_CALLGRAPH)
		buf_printf(ret, " chain=%d", event->callgraph);
	if (event->given & EVENT_GIVEN_BRANCHES)
		buf_printf(ret, " branches=%#llx", (unsigned long long)attr->branch_sample_type);
	if (event->given & EVENT_GIVEN_DUMP_BYTES)
		buf_printf(ret, " dump=%u", event->dump_bytes);
#undef SHOW
#undef GIVEN
}

/* One event: text, what describe() says after "type:config" without exclude_guest=1, and its label (NULL: the text). */
struct row {
	const char *text;
	uint32_t type;
	uint64_t config;
	const char *rest;
	const char *name;
};

#define GUEST " exclude_guest=1"

static const struct row rows[] = {
	/* names */
	{"cycles", 0, 0, GUEST, NULL},
	{"cpu-cycles", 0, 0, GUEST, NULL},
	{"instructions", 0, 1, GUEST, NULL},
	{"cache-references", 0, 2, GUEST, NULL},
	{"cache-misses", 0, 3, GUEST, NULL},
	{"branches", 0, 4, GUEST, NULL},
	{"branch-instructions", 0, 4, GUEST, NULL},
	{"branch-misses", 0, 5, GUEST, NULL},
	{"bus-cycles", 0, 6, GUEST, NULL},
	{"stalled-cycles-frontend", 0, 7, GUEST, NULL},
	{"idle-cycles-frontend", 0, 7, GUEST, NULL},
	{"stalled-cycles-backend", 0, 8, GUEST, NULL},
	{"idle-cycles-backend", 0, 8, GUEST, NULL},
	{"ref-cycles", 0, 9, GUEST, NULL},
	{"cpu-clock", 1, 0, GUEST, NULL},
	{"task-clock", 1, 1, GUEST, NULL},
	{"page-faults", 1, 2, GUEST, NULL},
	{"faults", 1, 2, GUEST, NULL},
	{"context-switches", 1, 3, GUEST, NULL},
	{"cs", 1, 3, GUEST, NULL},
	{"cpu-migrations", 1, 4, GUEST, NULL},
	{"migrations", 1, 4, GUEST, NULL},
	{"minor-faults", 1, 5, GUEST, NULL},
	{"major-faults", 1, 6, GUEST, NULL},
	{"alignment-faults", 1, 7, GUEST, NULL},
	{"emulation-faults", 1, 8, GUEST, NULL},
	{"dummy", 1, 9, GUEST, NULL},
	{"bpf-output", 1, 10, GUEST, NULL},
	{"cgroup-switches", 1, 11, GUEST, NULL},
	/* caches */
	{"L1-dcache-loads", 3, CACHE(0, 0, 0), GUEST, NULL},
	{"L1-dcache-load-misses", 3, CACHE(0, 0, 1), GUEST, NULL},
	{"L1-dcache-stores", 3, CACHE(0, 1, 0), GUEST, NULL},
	{"L1-dcache-prefetch-misses", 3, CACHE(0, 2, 1), GUEST, NULL},
	{"l1d", 3, CACHE(0, 0, 0), GUEST, NULL},
	{"L1-data-speculative-read", 3, CACHE(0, 2, 0), GUEST, NULL},
	{"L1-icache-load-misses", 3, CACHE(1, 0, 1), GUEST, NULL},
	{"LLC-store-misses", 3, CACHE(2, 1, 1), GUEST, NULL},
	{"L2-write-refs", 3, CACHE(2, 1, 0), GUEST, NULL},
	{"dTLB-loads", 3, CACHE(3, 0, 0), GUEST, NULL},
	{"Data-TLB-misses", 3, CACHE(3, 0, 1), GUEST, NULL},
	{"iTLB-load-misses", 3, CACHE(4, 0, 1), GUEST, NULL},
	{"branch-loads", 3, CACHE(5, 0, 0), GUEST, NULL},
	{"branch-load-misses", 3, CACHE(5, 0, 1), GUEST, NULL},
	{"bpu-miss-read", 3, CACHE(5, 0, 1), GUEST, NULL},
	{"node-prefetches", 3, CACHE(6, 2, 0), GUEST, NULL},
	/* raw and numeric */
	{"r1", 4, 1, GUEST, NULL},
	{"r1a8", 4, 0x1a8, GUEST, NULL},
	{"rFFFFFFFFFFFFFFFF", 4, UINT64_MAX, GUEST, NULL},
	{"r0x1a8:u", 4, 0x1a8, " exclude_kernel=1 exclude_hv=1" GUEST, NULL},
	{"1:3", 1, 3, GUEST, NULL},
	{"1:0x3:k", 1, 3, " exclude_user=1 exclude_hv=1", NULL},
	{"0x9:0xffffffffffffffff", 9, UINT64_MAX, GUEST, NULL},
	{"1:3/period=7/", 1, 3, GUEST " sample_period=7 period", NULL},
	/* modifiers */
	{"cs:u", 1, 3, " exclude_kernel=1 exclude_hv=1" GUEST, NULL},
	{"cs:k", 1, 3, " exclude_user=1 exclude_hv=1", NULL},
	{"cs:h", 1, 3, " exclude_user=1 exclude_kernel=1", NULL},
	{"cs:uk", 1, 3, " exclude_hv=1" GUEST, NULL},
	{"cs:ku", 1, 3, " exclude_hv=1" GUEST, NULL},
	{"cs:ukh", 1, 3, GUEST, NULL},
	{"cs:kh", 1, 3, " exclude_user=1", NULL},
	{"cs:G", 1, 3, " exclude_host=1", NULL},
	{"cs:H", 1, 3, GUEST, NULL},
	{"cs:GH", 1, 3, "", NULL},
	{"cs:uG", 1, 3, " exclude_kernel=1 exclude_hv=1 exclude_host=1", NULL},
	{"cs:kG", 1, 3, " exclude_user=1 exclude_hv=1 exclude_host=1", NULL},
	{"cs:I", 1, 3, " exclude_idle=1", NULL},
	{"cs:p", 1, 3, GUEST " precise_ip=1", NULL},
	{"cs:pp", 1, 3, GUEST " precise_ip=2", NULL},
	{"cs:ppp", 1, 3, GUEST " precise_ip=3", NULL},
	{"cs:P", 1, 3, " precise_ip=3 P", NULL},
	{"cs:pP", 1, 3, GUEST " precise_ip=3 P", NULL},
	{"cs:pG", 1, 3, " exclude_host=1 precise_ip=1", NULL},
	{"cs:pu", 1, 3, " exclude_kernel=1 exclude_hv=1" GUEST " precise_ip=1", NULL},
	{"cs:D", 1, 3, " pinned=1", NULL},
	{"cs:e", 1, 3, " exclusive=1", NULL},
	{"cs:S", 1, 3, " S", NULL},
	{"cs:W", 1, 3, "", NULL},
	{"cs:ukhGHIpDe", 1, 3, " exclude_idle=1 precise_ip=1 pinned=1 exclusive=1", NULL},
	{"cs u", 1, 3, " exclude_kernel=1 exclude_hv=1" GUEST, NULL},
	/* terms */
	{"cs//", 1, 3, GUEST, NULL},
	{"cs//u", 1, 3, " exclude_kernel=1 exclude_hv=1" GUEST, NULL},
	{"cs/period=77/", 1, 3, GUEST " sample_period=77 period", NULL},
	{"cs/period=0/", 1, 3, GUEST " period", NULL},
	{"cs/period=0x10/k", 1, 3, " exclude_user=1 exclude_hv=1 sample_period=16 period", NULL},
	{"cs/freq=10/", 1, 3, GUEST " freq=1 sample_period=10 freq", NULL},
	{"cs/freq/", 1, 3, GUEST " freq=1 sample_period=1 freq", NULL},
	{"cs/period=7,freq=10/", 1, 3, GUEST " freq=1 sample_period=10 freq", NULL},
	{"cs/freq=7,period=10/", 1, 3, GUEST " sample_period=10 period", NULL},
	{"cs/name=bob/", 1, 3, GUEST, "bob"},
	{"cs/name='a:b,c'/u", 1, 3, " exclude_kernel=1 exclude_hv=1" GUEST, "a:b,c"},
	{"cs/name=\"it's {1}\"/", 1, 3, GUEST, "it's {1}"},
	{"cs/name=a,name=b/", 1, 3, GUEST, "b"},
	{"cs/config=9/", 1, 9, GUEST, NULL},
	{"cs/config1=5,config2=6/", 1, 3, GUEST " config1=5 config2=6", NULL},
	{"cs/call-graph=fp/", 1, 3, GUEST " chain=1", NULL},
	{"cs/call-graph=dwarf/", 1, 3, GUEST " chain=2", NULL},
	{"cs/call-graph=lbr/", 1, 3, GUEST " chain=3", NULL},
	{"cs/call-graph=unwind/", 1, 3, GUEST " chain=4", NULL},
	{"cs/call-graph=no/", 1, 3, GUEST " chain=0", NULL},
	{"cs/stack-size=512/", 1, 3, GUEST " dump=512", NULL},
	{"cs/stack-size=65528/", 1, 3, GUEST " dump=65528", NULL},
	{"cs/max-stack=5/", 1, 3, GUEST " sample_max_stack=5", NULL},
	{"cs/time=0/", 1, 3, GUEST " no-time", NULL},
	{"cs/time=1/", 1, 3, GUEST " time", NULL},
	{"cs/time/", 1, 3, GUEST " time", NULL},
	{"cs/inherit/", 1, 3, GUEST " inherit", NULL},
	{"cs/no-inherit/", 1, 3, GUEST " no-inherit", NULL},
	{"cs/inherit=0/", 1, 3, GUEST " no-inherit", NULL},
	{"cs/no-inherit=0/", 1, 3, GUEST " inherit", NULL},
	{"cs/overwrite/", 1, 3, GUEST " write_backward=1", NULL},
	{"cs/overwrite,no-overwrite/", 1, 3, GUEST, NULL},
	{"cs/no-overwrite/", 1, 3, GUEST, NULL},
	/* PMUs */
	{"software/config=3/", 1, 3, GUEST, NULL},
	{"software/period=1,name=cs,config=0x3/Duk", 1, 3, " exclude_hv=1" GUEST " pinned=1 sample_period=1 period",
	 "cs"},
	{"cpu/event=0x3c/", 4, 0x3c, GUEST, NULL},
	{"cpu/event=0x13c,umask=2/", 4, 0x10000023c, GUEST, NULL},
	{"cpu/event=0x3c,edge/u", 4, 0x4003c, " exclude_kernel=1 exclude_hv=1" GUEST, NULL},
	{"cpu/event=1,ldlat=0xffff,frontend=7/", 4, 1, GUEST " config1=65535 config2=7", NULL},
	{"cpu/mem-loads/", 4, 0x1cd, GUEST " config1=3", NULL},
	{"cpu/mem-loads,ldlat=9/", 4, 0x1cd, GUEST " config1=9", NULL},
	{"cpu/mem-loads,period=10/P", 4, 0x1cd, " precise_ip=3 sample_period=10 config1=3 period P", NULL},
	{"msr/tsc/", 9, 0, GUEST, NULL},
	{"tsc", 9, 0, GUEST, NULL},
	/* as with perf the case of letters makes no difference, but for a name that is there in both */
	{"msr/TSC/", 9, 0, GUEST, NULL},
	{"Mem-Loads:u", 4, 0x1cd, " exclude_kernel=1 exclude_hv=1" GUEST " config1=3", NULL},
	{"cpu/MEM-loads,ldlat=9/", 4, 0x1cd, GUEST " config1=9", NULL},
	{"cpu/Whole/", 4, 0x5, GUEST, NULL},
	{"Whole", 4, 0x5, GUEST, NULL},
	{"mem-loads:u", 4, 0x1cd, " exclude_kernel=1 exclude_hv=1" GUEST " config1=3", NULL},
	/* the name of an event as a value, as with perf */
	{"cpu/event=mem-loads/", 4, 0x1cd, GUEST " config1=3", NULL},
	{"cpu/event=MEM-loads,ldlat=9/", 4, 0x1cd, GUEST " config1=9", NULL},
	{"cpu/umask=2,Event = spaced/u", 4, 0x23c, " exclude_kernel=1 exclude_hv=1" GUEST, NULL},
	/* blanks between terms and around '=', as with perf; also in sysfs */
	{"cpu/ event=0x3c , umask=2 /", 4, 0x23c, GUEST, NULL},
	{"cpu/event = 0x3c,\tedge\n/u", 4, 0x4003c, " exclude_kernel=1 exclude_hv=1" GUEST, NULL},
	{"cpu/ spaced /", 4, 0x23c, GUEST, NULL},
	{"cs/ period = 7, name= 'a b' /", 1, 3, GUEST " sample_period=7 period", "a b"},
	{"cs/ /u", 1, 3, " exclude_kernel=1 exclude_hv=1" GUEST, NULL},
	/* tracepoints */
	{"sched:sched_switch", 2, 311, GUEST, NULL},
	{"sched:sched_switch:u", 2, 311, " exclude_kernel=1 exclude_hv=1" GUEST, "sched:sched_switch"},
	{"sched:*switch", 2, 311, GUEST, "sched:sched_switch"},
	{"sche?:sched_switc?", 2, 311, GUEST, "sched:sched_switch"},
	{"sch[e]d:sched_switch", 2, 311, GUEST, "sched:sched_switch"},
	{"*:softirq*", 2, 151, GUEST, "irq:softirq_entry"},
	{"*:sched_switch", 2, 311, GUEST, "sched:sched_switch"},
	{"sched:sched_switch/call-graph=fp,max-stack=3,inherit,overwrite/", 2, 311,
	 GUEST " sample_max_stack=3 write_backward=1 inherit chain=1", "sched:sched_switch"},
	{"irq:softirq_entry/no-inherit/k", 2, 151, " exclude_user=1 exclude_hv=1 no-inherit", "irq:softirq_entry"},
	/* breakpoints: address and length share the words of config1 and config2 */
	{"mem:0x1000", 5, 0, GUEST " config1=4096 config2=4 bp_type=3", NULL},
	{"mem:4096:rw", 5, 0, GUEST " config1=4096 config2=4 bp_type=3", NULL},
	{"mem:0x1000/8:w", 5, 0, GUEST " config1=4096 config2=8 bp_type=2", NULL},
	{"mem:0x1000:x:u", 5, 0, " exclude_kernel=1 exclude_hv=1" GUEST " config1=4096 config2=8 bp_type=4", NULL},
	{"mem:0x1000/1:r", 5, 0, GUEST " config1=4096 config2=1 bp_type=1", NULL},
	{"mem:0x1000:k", 5, 0, " exclude_user=1 exclude_hv=1 config1=4096 config2=4 bp_type=3", NULL},
	/* more terms */
	{"cs/nr=5/", 1, 3, GUEST, NULL},
	{"cs/percore,nr/", 1, 3, GUEST, NULL},
	{"cs/metric-id=x/", 1, 3, GUEST, NULL},
	{"cs/name=a:b:c,period=2/u", 1, 3, " exclude_kernel=1 exclude_hv=1" GUEST " sample_period=2 period", "a:b:c"},
	{"cs/branch_type='any_call,u'/", 1, 3, GUEST " branches=0x11", NULL},
	{"cs/branch_type=no/", 1, 3, GUEST " branches=0", NULL},
	{"duration_time", 1, 9, GUEST, NULL},
	{"cpu/whole/", 4, 0x1234, GUEST " config1=5", NULL},
	/* blanks around */
	{"  cs", 1, 3, GUEST, "cs"},
	{"cs  ", 1, 3, GUEST, "cs"},
	{"\tcs:u\n", 1, 3, " exclude_kernel=1 exclude_hv=1" GUEST, "cs:u"},
};

static void test_each_text(void **state)
{
	(void)state;
	assert_true(COUNT_OF(rows) >= 100);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct event_list list = {0};
		struct diag diag = {""};
		struct buf is = {0}, should = {0};

		if (event_list_parse_from(&list, rows[i].text, &fake.sources, &diag) < 0)
			fail_msg("%s: %s", rows[i].text, diag.text);
		if (list.nr != 1)
			fail_msg("%s: %zu events", rows[i].text, list.nr);
		describe(&list.events[0], &is);
		buf_printf(&should, "%u:%#llx%s", rows[i].type, (unsigned long long)rows[i].config, rows[i].rest);
		if (strcmp(buf_text(&is), buf_text(&should)) != 0)
			fail_msg("%s: is '%s', should be '%s'", rows[i].text, buf_text(&is), buf_text(&should));
		assert_string_equal(list.events[0].name, rows[i].name ? rows[i].name : rows[i].text);
		assert_int_equal(list.events[0].attr.size, 128);
		buf_fini(&is);
		buf_fini(&should);
		event_list_fini(&list);
	}
}

/* Wrong texts: the column that the message names, and a part of it. */
static const struct {
	const char *text;
	int column;
	const char *part;
} wrong[] = {
	{"", 1, "expected an event, found the end"},
	{" ", 2, "expected an event"},
	{",", 1, "expected an event, found ','"},
	{",cs", 1, "expected an event"},
	{"cs,", 4, "expected an event, found the end"},
	{"cs,,cs", 4, "expected an event, found ','"},
	{":u", 1, "expected an event, found ':'"},
	{"/period=1/", 1, "expected an event"},
	{"'cs'", 1, "expected an event, found 'cs'"},
	{"cs\x01", 3, "control character 0x1"},
	{"cpu-clok", 1, "unknown event 'cpu-clok'; did you mean cpu-clock?"},
	{"CPU_CLOCK", 1, "did you mean cpu-clock?"},
	{"cs,instrutions,faults", 4, "did you mean instructions?"},
	{"L1-dcache-lod-misses", 1, "did you mean L1-dcache-load-misses"},
	{"L1-icache-stores", 1, "unknown event"},
	{"sched_switch", 1, "did you mean sched:sched_switch?"},
	{"tsk", 1, "did you mean tsc?"},
	{"cpu-clok:u", 1, "did you mean cpu-clock?"},
	{"r1xyz", 1, "unknown event"},
	{"r12345678901234567", 1, "unknown event"},
	{"1", 1, "unknown event '1'"},
	{"1:", 3, "expected the config of the event, a number, found the end"},
	{"1:x", 3, "expected the config of the event, a number, found 'x'"},
	{"4294967296:1", 1, "the type of an event has 32 bits"},
	{"99999999999999999999:1", 1, "the type of an event has 32 bits"},
	{"cs:", 4, "expected modifiers, found the end"},
	{"cs:U", 4, "unknown modifier 'U'"},
	{"cs:uu", 5, "repeated modifier 'u'"},
	{"cs:uppkpp", 9, "more than three 'p' modifiers"},
	{"cs:PP", 5, "repeated modifier 'P'"},
	{"cs::u", 4, "expected modifiers, found ':'"},
	{"cs:u:k", 5, "expected ','"},
	{"cs: u", 5, "expected modifiers, found a blank and 'u'"},
	{"cs faults", 4, "unknown modifier 'f'"},
	{"cs/period=1/:u", 13, "expected ','"},
	{"cs/period=1 2/", 13, "expected ',' or the closing '/' of the terms, found a blank and '2'"},
	{"cs/period =/", 12, "expected a value, found '/'"},
	{"cs/name=a b/", 11, "expected ',' or the closing '/'"},
	{"cs:u/period=1/", 5, "expected ','"},
	{"cs/", 4, "expected a term, found the end"},
	{"cs/,cs/", 4, "expected a term, found ','"},
	{"cs/freq=10,/", 12, "expected a term, found '/'"},
	{"cs/freq=10", 11, "expected ',' or the closing '/'"},
	{"cs/freq=/", 9, "expected a value, found '/'"},
	{"cs/freq=abc/", 9, "expected a number for 'freq'"},
	{"cs/freq=1K/", 9, "expected a number"},
	{"cs/freq=-1/", 9, "expected a number"},
	{"cs/freq=0x/", 9, "expected a number"},
	{"cs/freq=99999999999999999999/", 9, "'freq' is at most"},
	{"cs/period=0x8000000000000000/", 11, "'period' is at most 0x7fffffffffffffff"},
	{"cs/perod=1/", 4, "did you mean period?"},
	{"cs/Freq=1/", 4, "did you mean freq?"},
	{"cs/zzzzzz/", 4, "unknown term 'zzzzzz'; known here: config config1"},
	{"cs/time=2/", 9, "'time' is at most"},
	{"cs/call-graph=foo/", 15, "expected fp, dwarf, unwind, lbr or no"},
	{"cs/call-graph/", 14, "expected fp, dwarf, unwind, lbr or no"},
	{"cs/stack-size=65529/", 15, "'stack-size' is at most"},
	{"cs/max-stack=65536/", 14, "'max-stack' is at most"},
	{"cs/name/", 8, "expected '=' and a name"},
	{"cs/name=''/", 8, "expected '=' and a name"},
	{"cs/name='abc/", 9, "a quote that is not closed"},
	{"cs/name=a=b/", 10, "expected ',' or the closing"},
	{"softwar/config=1/", 1, "did you mean software?"},
	{"nopmu/config=1/", 1, "neither an event nor a PMU: 'nopmu'"},
	{"../config=1/", 1, "neither an event nor a PMU"},
	{"cpu/evnt=1/", 5, "did you mean event?"},
	{"cpu/event=mem-lods/", 11, "expected a number"},
	{"cpu/edge=mem-loads/", 10, "expected a number"},
	{"cpu/edge=2/", 10, "0x2 is too large for 'edge'"},
	{"cpu/odd=2/", 5, "the format of 'odd' in sysfs is not understood"},
	{"cpu/broken/", 7, "expected a number"},
	{"software/event=1/", 10, "unknown term 'event'"},
	{"sched:", 7, "expected the name of a tracepoint"},
	{"sched:sched_swich", 1, "did you mean sched:sched_switch?"},
	{"shced:sched_switch", 1, "did you mean sched:sched_switch?"},
	{"sched:zz*", 1, "no tracepoint is called 'sched:zz*'"},
	{"ftrace:function", 1, "no tracepoint is called"},
	{"sched:enable", 1, "no tracepoint is called"},
	{"..:sched_switch", 1, "no tracepoint is called"},
	{"sched:..", 1, "no tracepoint is called"},
	{"cs,sched:sched_switch/period=2/", 23, "unknown term 'period'"},
	{"sched:sched_switch:U", 20, "unknown modifier 'U'"},
	{"mem:", 5, "expected an address"},
	{"mem:here", 5, "expected an address, found 'here'"},
	{"mem:0x1000/", 12, "expected a length"},
	{"mem:0x1000:rr", 12, "unknown modifier 'r'"},
	{"mem:0x1000/len=8/", 12, "expected a length"},
	{"{", 2, "expected an event, found the end"},
	{"{}", 2, "expected an event, found '}'"},
	{"{,cs}", 2, "expected an event, found ','"},
	{"{cs,}", 5, "expected an event, found '}'"},
	{"{cs,faults", 11, "expected ',' or '}', found the end"},
	{"{cs faults}", 5, "unknown modifier 'f'"},
	{"{cs,{faults}}", 5, "expected an event, found '{'"},
	{"{cs,g{faults}}", 6, "a group cannot be a member of a group"},
	{"{cs,faults}u", 12, "expected ','"},
	{"{cs,faults}:", 13, "expected modifiers, found the end"},
	{"{cs,faults}:U", 13, "unknown modifier 'U'"},
	{"{cs,faults:pp}:pp", 16, "with the event's own, more than three 'p' modifiers"},
	{"{cs,faults}}", 12, "expected ','"},
	{"{cs}/freq=1/", 5, "expected ','"},
	{"{cs,nosuch}", 5, "unknown event 'nosuch'"},
	{"'g'{cs}", 1, "expected an event, found 'g'"},
	{"cs}", 3, "expected ','"},
	{"cs=1", 3, "expected ','"},
	{"cs/branch_type/", 15, "is no kind of branch"},
	{"cs/branch_type=any,k/", 20, "unknown term 'k'"},
	{"cs/branch_type=nosuch/", 16, "\"nosuch\" is no kind of branch"},
	{"cs/aux-output/", 4, "is for AUX tracing"},
	{"cs/aux-sample-size=4096/", 4, "is for AUX tracing"},
	{"software/@sink/", 10, "'@sink' is for AUX tracing"},
	{"cs/nr=x/", 7, "expected a number"},
	{"cs/period=1:2/", 11, "expected a number"},
};

static void test_each_wrong_text(void **state)
{
	(void)state;
	assert_true(COUNT_OF(wrong) >= 30);
	for (size_t i = 0; i < COUNT_OF(wrong); i++) {
		struct event_list list = {0};
		struct diag diag = {""};
		char start[32];
		int err = event_list_parse_from(&list, wrong[i].text, &fake.sources, &diag);

		if (err != -EINVAL)
			fail_msg("%s: %d, not -EINVAL", wrong[i].text, err);
		assert_int_equal(list.nr, 0);
		snprintf(start, sizeof(start), "column %d of ", wrong[i].column);
		if (strncmp(diag.text, start, strlen(start)) != 0 || !strstr(diag.text, wrong[i].part))
			fail_msg("%s: '%s' is not '%s… %s'", wrong[i].text, diag.text, start, wrong[i].part);
		assert_null(strchr(diag.text, '\n'));
	}
}

/* Which CPUs an event is opened on; NULL: all. */
static const struct {
	const char *text, *cpus;
} cpus_of[] = {
	{"core/config=0/", "1-3,9"},
	{"ticks", "1-3,9"},
	{"core/ticks/u", "1-3,9"},
	{"21:0x3c", "1-3,9"},
	{"0:0x1500000000", "1-3,9"}, /* the kernel's cycles, of type 21 */
	{"3:0x1600000000", "4-7"},
	{"uncore/config=1/", "2,6"},
	{"asleep/config=1/", ""},
	{"every/config=1/", NULL},
	{"cpu/event=1/", NULL},
	{"software/config=1/", NULL},
	{"cycles", NULL},
	{"r1", NULL},
	{"999:1", NULL},
	{"sched:sched_switch", NULL},
};

static void test_pmus_that_count_on_some_cpus(void **state)
{
	struct event_list list = {0};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(cpus_of); i++) {
		struct buf cpus = {0};
		assert_int_equal(event_list_parse_from(&list, cpus_of[i].text, &fake.sources, NULL), 0);
		cpuset_format(&list.events[0].cpus, &cpus);
		assert_int_equal(list.events[0].some_cpus, cpus_of[i].cpus != NULL);
		assert_string_equal(buf_text(&cpus), cpus_of[i].cpus ? cpus_of[i].cpus : "");
		buf_fini(&cpus);
		event_list_fini(&list);
	}
	assert_int_equal(event_list_parse_from(&list, "{cs,core/ticks/,cycles},{cs,cycles}", &fake.sources, NULL), 0);
	assert_true(list.events[0].group_some_cpus);
	assert_false(list.events[3].group_some_cpus);
	event_list_fini(&list);
}

/* On a processor with two kinds of cores: what -e asks for, and "type:config CPUs NAME" of each event. */
static const struct {
	const char *text, *events;
} kinds[] = {
	{"r1a8", "4:0x1a8 1-3 cpu_core/r1a8/; 10:0x1a8 4-7 cpu_atom/r1a8/; "},
	{"r0x1a8:u,cs", "4:0x1a8 1-3 cpu_core/r0x1a8:u/; 10:0x1a8 4-7 cpu_atom/r0x1a8:u/; 1:0x3  cs; "},
	{"r1/name=x/", "4:0x1 1-3 cpu_core/x/; 10:0x1 4-7 cpu_atom/x/; "},
	{"r1/period=7/", "4:0x1 1-3 r1/period=7/; 10:0x1 4-7 r1/period=7/; "},
	{"{r1,r2},r3", "4:0x1 1-3 r1; 4:0x2 1-3 r2; 4:0x3 1-3 cpu_core/r3/; 10:0x3 4-7 cpu_atom/r3/; "},
	{"4:5", "4:0x5 1-3 4:5; "},
	{"cycles", "0:0  cycles; "},
};

static void test_raw_events_of_two_kinds_of_cores(void **state)
{
	struct event_sources sources = fake.sources;
	char pmus[80];

	(void)state;
	snprintf(pmus, sizeof(pmus), "%s/kinds", fake.root);
	sources.event_sources = pmus;
	for (size_t i = 0; i < COUNT_OF(kinds); i++) {
		struct event_list list = {0};
		struct buf is = {0};
		assert_int_equal(event_list_parse_from(&list, kinds[i].text, &sources, NULL), 0);
		for (size_t j = 0; j < list.nr; j++) {
			const struct event *event = &list.events[j];
			buf_printf(&is, "%u:%#llx ", event->attr.type, (unsigned long long)event->attr.config);
			cpuset_format(&event->cpus, &is);
			buf_printf(&is, " %s; ", event->name);
			assert_int_equal(event->attr.exclude_kernel, strstr(kinds[i].text, ":u") && j < 2);
			assert_int_equal(event->attr.sample_period, strstr(kinds[i].text, "period=7") ? 7 : 0);
		}
		assert_string_equal(buf_text(&is), kinds[i].events);
		buf_fini(&is);
		event_list_fini(&list);
	}
}

static void test_lists_grow_or_stay(void **state)
{
	struct event_list list = {0};
	struct diag diag = {""};

	(void)state;
	assert_int_equal(event_list_parse_from(&list, "cs:u, faults ,sched:sched_w*", &fake.sources, &diag), 0);
	assert_int_equal(list.nr, 4);
	assert_string_equal(list.events[0].name, "cs:u");
	assert_string_equal(list.events[1].name, "faults");
	for (size_t i = 2; i < 4; i++) { /* in the order of the directory, which is not defined */
		assert_string_equal(list.events[i].tracepoint_system, "sched");
		assert_memory_equal(list.events[i].tracepoint_name, "sched_w", 7);
		assert_in_range(list.events[i].attr.config, 312, 313);
	}
	assert_int_not_equal(list.events[2].attr.config, list.events[3].attr.config);
	assert_int_equal(event_list_parse_from(&list, "migrations,nonsense", &fake.sources, &diag), -EINVAL);
	assert_int_equal(list.nr, 4);
	assert_int_equal(event_list_add_default(&list, false), 0);
	assert_int_equal(list.nr, 5);
	assert_string_equal(list.events[4].name, "cycles:P");
	event_list_fini(&list);
	assert_int_equal(list.nr, 0);
}

/* "leader/behind" of each event, and the name of its group. */
static void describe_groups(const char *text, struct buf *ret)
{
	struct event_list list = {0};
	struct diag diag = {""};

	if (event_list_parse_from(&list, text, &fake.sources, &diag) < 0)
		fail_msg("%s: %s", text, diag.text);
	for (size_t i = 0; i < list.nr; i++)
		buf_printf(ret, "%s%s%s%u/%u", i ? " " : "", list.events[i].group_name ? list.events[i].group_name : "",
			   list.events[i].group_name ? " " : "", list.events[i].nr_members,
			   list.events[i].behind_leader);
	event_list_fini(&list);
}

static void test_groups(void **state)
{
	static const char *const groups[][2] = {
		{"{cs}", "1/0"},
		{"{cs,faults}", "2/0 0/1"},
		{" { cs , faults } : u ", "2/0 0/1"},
		{"cs,{cs,faults:u,cpu-clock}:k,cs", "0/0 3/0 0/1 0/2 0/0"},
		{"{cs,faults},g{cs,faults}", "2/0 0/1 g 2/0 0/1"},
		{"g{irq:*,cs}:S", "g 3/0 0/1 0/2"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(groups); i++) {
		struct buf is = {0};
		describe_groups(groups[i][0], &is);
		assert_string_equal(buf_text(&is), groups[i][1]);
		buf_fini(&is);
	}
}

/* What stands behind a group adds to what its members say themselves. */
static void test_group_modifiers(void **state)
{
	static const struct {
		const char *text;
		const char *first, *second;
	} groups[] = {
		{"{cs,faults}:k", "1:0x3 exclude_user=1 exclude_hv=1" GUEST, "1:0x2 exclude_user=1 exclude_hv=1" GUEST},
		{"{cs:u,faults:k}:u", "1:0x3 exclude_kernel=1 exclude_hv=1" GUEST, "1:0x2 exclude_hv=1" GUEST},
		{"{cs:H,faults}:G", "1:0x3", "1:0x2 exclude_host=1"},
		{"{cs:p,faults}:pp", "1:0x3" GUEST " precise_ip=3", "1:0x2" GUEST " precise_ip=2"},
		{"{cs:pp,faults}:P", "1:0x3" GUEST " precise_ip=3 P", "1:0x2" GUEST " precise_ip=3 P"},
		{"{cs,faults}:De", "1:0x3" GUEST " pinned=1 exclusive=1", "1:0x2" GUEST},
		{"{cs,faults:I}:S", "1:0x3" GUEST " S", "1:0x2 exclude_idle=1 S"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(groups); i++) {
		struct event_list list = {0};
		struct buf first = {0}, second = {0};
		assert_int_equal(event_list_parse_from(&list, groups[i].text, &fake.sources, NULL), 0);
		assert_int_equal(list.nr, 2);
		describe(&list.events[0], &first);
		describe(&list.events[1], &second);
		assert_string_equal(buf_text(&first), groups[i].first);
		assert_string_equal(buf_text(&second), groups[i].second);
		buf_fini(&first);
		buf_fini(&second);
		event_list_fini(&list);
	}
}

static void test_globs_take_all_systems(void **state)
{
	struct event_list list = {0};

	(void)state;
	assert_int_equal(event_list_parse_from(&list, "*:*", &fake.sources, NULL), 0);
	assert_int_equal(list.nr, 5);
	event_list_fini(&list);
}

static void test_no_tracefs(void **state)
{
	struct event_sources nowhere = {.tracefs = "/nonexistent", .event_sources = "/nonexistent"};
	struct event_list list = {0};
	struct diag diag = {""};

	(void)state;
	assert_int_equal(event_list_parse_from(&list, "sched:sched_switch", &nowhere, &diag), -ENOENT);
	assert_non_null(strstr(diag.text, "/nonexistent/events"));
	assert_int_equal(event_list_parse_from(&list, "cs", &nowhere, &diag), 0);
	event_list_fini(&list);
}

static void test_derived_names(void **state)
{
	static const struct {
		const char *text, *name;
	} names[] = {
		{"cpu-clock", "cpu-clock"},  {"cycles:u", "cycles:uH"},      {"cycles:k", "cycles:k"},
		{"cycles:pp", "cycles:ppH"}, {"cycles:P", "cycles:ppp"},     {"cycles:uP", "cycles:upppH"},
		{"dummy:GH", "dummy:HG"},    {"cs:G", "context-switches:G"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(names); i++) {
		struct event_list list = {0};
		assert_int_equal(event_list_parse_from(&list, names[i].text, &fake.sources, NULL), 0);
		char *name = event_derived_name(&list.events[0].attr);
		assert_non_null(name);
		assert_string_equal(name, names[i].name);
		free(name);
		event_list_fini(&list);
	}
	assert_null(event_derived_name(&(struct perf_event_attr){.type = PERF_TYPE_RAW}));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_text),
		cmocka_unit_test(test_each_wrong_text),
		cmocka_unit_test(test_pmus_that_count_on_some_cpus),
		cmocka_unit_test(test_raw_events_of_two_kinds_of_cores),
		cmocka_unit_test(test_lists_grow_or_stay),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_group_modifiers),
		cmocka_unit_test(test_globs_take_all_systems),
		cmocka_unit_test(test_no_tracefs),
		cmocka_unit_test(test_derived_names),
	};

	fake_sources_init(&fake);
	int failed = cmocka_run_group_tests_name("event_parse", tests, NULL, NULL);
	fake_sources_fini(&fake);
	return failed;
}
