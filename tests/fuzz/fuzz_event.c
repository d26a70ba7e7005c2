/* SPDX-License-Identifier: MIT */
/* Texts of -e: parsed or refused with a reason. Nothing is opened; the units and tracepoints are those of the machine. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "event/event.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *text = strndup(size ? (const char *)data : "", size);
	struct event_list list = {0};
	struct diag diag = {""};

	if (!text)
		abort();
	if (strchr(text, '*')) /* all tracepoints of a machine take a second */
		return 0;
	int err = event_list_parse(&list, text, &diag);
	if (err ? list.nr || !diag.text[0] : !list.nr)
		abort();
	for (size_t i = 0; i < list.nr; i++)
		if (!list.events[i].name)
			abort();
	event_list_fini(&list);
	return 0;
}

bool fuzz_seed(unsigned number, struct buf *out)
{
	static const char *const seeds[] = {
		"cpu-clock:u,context-switches",
		"cycles/period=0x10,freq=5,name='a:b'/k",
		"software/config=3,config1=1/",
		"{cpu-clock,faults}:S",
		"sched:sched_switch",
		"mem:0x1000/8:rw",
		"r1a8,1:0x3:P",
		"L1-dcache-load-misses",
	};

	if (number >= sizeof(seeds) / sizeof(seeds[0]))
		return false;
	buf_put_text(out, seeds[number]);
	return true;
}
