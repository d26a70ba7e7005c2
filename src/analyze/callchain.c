/* SPDX-License-Identifier: MIT */
#include "analyze/machine.h"
#include "read/session.h"

/* From here up an entry of a chain is a marker, no address. Source: <linux/perf_event.h> PERF_CONTEXT_MAX. */
static const uint64_t first_marker = PERF_CONTEXT_MAX;

/* The mode that a marker announces; -1: a marker that says nothing we could use. */
static int marker_cpumode(uint64_t marker)
{
	switch (marker) {
	case PERF_CONTEXT_HV:
		return PERF_RECORD_MISC_HYPERVISOR;
	case PERF_CONTEXT_KERNEL:
		return PERF_RECORD_MISC_KERNEL;
	case PERF_CONTEXT_USER:
		return PERF_RECORD_MISC_USER;
	default:
		return -1;
	}
}

unsigned machine_callchain(struct machine *machine, struct task *task, const struct session_record *record,
			   struct location *ret, unsigned max)
{
	const struct sample *sample = &record->sample;
	uint8_t cpumode = PERF_RECORD_MISC_USER;
	unsigned nr = 0;

	for (uint64_t i = 0; i < sample->nr_ips && nr < max; i++) {
		uint64_t ip = sample->ips[i];
		if (ip < first_marker) {
			machine_resolve(machine, task, cpumode, ip, &ret[nr++]);
			continue;
		}
		int mode = marker_cpumode(ip);
		if (mode < 0) { /* as perf: such a chain is not to be trusted, not even what came before */
			nr = 0;
			break;
		}
		cpumode = (uint8_t)mode;
	}
	return nr;
}
