/* SPDX-License-Identifier: MIT */
#include "cmd/text/waker_chain.h"

#include <linux/perf_event.h>
#include <string.h>

#include "read/session.h"
#include "tasks/off_cpu.h"

enum { IPS_MAX = 1024 };

unsigned waker_chain(struct lookup *lookup, const struct session_record *record, const struct off_cpu_wait *wait,
		     struct location *ret, unsigned max)
{
	uint64_t ips[IPS_MAX]; /* those of the record lie at any alignment */
	size_t nr = wait->waker_ips.len / sizeof(*ips);
	struct task *task = nr ? lookup_task(lookup, wait->waker_pid, wait->waker_tid) : NULL;

	if (!task)
		return 0;
	nr = nr < IPS_MAX ? nr : IPS_MAX;
	memcpy(ips, wait->waker_ips.ptr, nr * sizeof(*ips));
	/* The program that an interrupt came in has nothing to do with it. */
	for (size_t i = 0; wait->flags & OFF_CPU_BY_INTERRUPT && i < nr; i++)
		if (ips[i] == (uint64_t)PERF_CONTEXT_USER)
			nr = i;
	const struct session_record waker = {
		.view = record->view,
		.event = record->event,
		.sample = {.present = PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN,
			   .time = record->sample.time,
			   .pid = wait->waker_pid,
			   .tid = wait->waker_tid,
			   .cpu = record->sample.cpu,
			   .nr_ips = nr,
			   .ips = ips},
	};
	return lookup_callchain(lookup, task, &waker, ret, max);
}
