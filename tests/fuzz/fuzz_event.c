/* SPDX-License-Identifier: MIT */
/*
 * Texts of -e, on a machine whose tracepoints and PMUs are always the same. What was read must also configure.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/log.h"
#include "event/parse/configure.h"
#include "fuzz.h"
#include "tests/fake/fake_sources.h"

static struct fake_sources fake;

static void remove_fake(void)
{
	fake_sources_fini(&fake);
}

/* Each member stands as far behind its leader as it says, and the leader counts it. */
static void check_groups(const struct event_list *list)
{
	for (size_t i = 0; i < list->nr; i++) {
		const struct event *event = &list->events[i], *leader = event - event->behind_leader;
		if (event->behind_leader > i || (event->behind_leader && event->behind_leader >= leader->nr_members))
			abort();
		if (event->nr_members > list->nr - i || leader->behind_leader)
			abort();
	}
}

static void check_list(struct event_list *list)
{
	struct event_options options = {.target = EVENT_TARGET_SYSTEM,
					.inherit = true,
					.max_freq_hz = 100000,
					.callgraph = CALLGRAPH_DWARF,
					.overwrite_rings = true};

	if (list->nr == 0)
		abort();
	for (size_t i = 0; i < list->nr; i++)
		if (!list->events[i].name || !list->events[i].name[0])
			abort();
	check_groups(list);
	if (event_list_configure(list, &options, NULL) < 0)
		abort();
	for (size_t i = 0; i < list->nr; i++)
		if (!list->events[i].attr.sample_type || list->events[i].attr.size != 128)
			abort();
}

/* A complaint is one line, and leaves nothing behind. */
static void check_complaint(const struct event_list *list, const struct diag *diag)
{
	if (list->nr || !diag->text[0] || strpbrk(diag->text, "\n\r\t"))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *text = strndup(size ? (const char *)data : "", size);
	struct event_list list = {0};
	struct diag diag = {""};

	if (!text)
		abort();
	if (!fake.root[0]) {
		log_set_level(LOG_ERRORS);
		fake_sources_init(&fake);
		atexit(remove_fake);
	}
	if (event_list_parse_from(&list, text, &fake.sources, &diag) == 0)
		check_list(&list);
	else
		check_complaint(&list, &diag);
	event_list_fini(&list);
	return 0;
}

bool fuzz_seed(unsigned number, struct buf *out)
{
	static const char *const seeds[] = {
		"cycles,instructions:u,cs:kpp",
		"L1-dcache-load-misses,r1a8,1:0x3:GH",
		"sched:sched_switch,irq:*:u,sche?:*w*/call-graph=fp,max-stack=3/k",
		"cpu-clock/period=100,name='a:b,c',call-graph=dwarf,stack-size=512/upppDeI",
		"cpu/event=0x13c,umask=1,edge,ldlat=3/P,cpu/mem-loads,time=0/,tsc",
		"software/config=3,config1=1,config2=2,freq=99,no-inherit,overwrite/",
		"mem:0x1000/8:rw:u,mem:4096:x",
		"{cpu-clock,faults}:S",
		"name{cpu-clock:u,sched:sched_w*/call-graph=dwarf/,cs/period=3/}:SWpD, faults , {cs}",
		"cs/branch_type='any_call,u',nr=3,percore,metric-id=x,name=a:b:c/,cpu/whole/,duration_time",
		" cs , faults u,cpu-clok",
	};

	if (number >= sizeof(seeds) / sizeof(seeds[0]))
		return false;
	buf_put_text(out, seeds[number]);
	return true;
}
