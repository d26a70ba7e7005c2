/* SPDX-License-Identifier: MIT */
#include "perfdata/record.h"

#include <stddef.h>
#include <string.h>

#include "base/buf.h"

static const char *const kernel_names[] = {
	[PERF_RECORD_MMAP] = "MMAP",
	[PERF_RECORD_LOST] = "LOST",
	[PERF_RECORD_COMM] = "COMM",
	[PERF_RECORD_EXIT] = "EXIT",
	[PERF_RECORD_THROTTLE] = "THROTTLE",
	[PERF_RECORD_UNTHROTTLE] = "UNTHROTTLE",
	[PERF_RECORD_FORK] = "FORK",
	[PERF_RECORD_READ] = "READ",
	[PERF_RECORD_SAMPLE] = "SAMPLE",
	[PERF_RECORD_MMAP2] = "MMAP2",
	[PERF_RECORD_AUX] = "AUX",
	[PERF_RECORD_ITRACE_START] = "ITRACE_START",
	[PERF_RECORD_LOST_SAMPLES] = "LOST_SAMPLES",
	[PERF_RECORD_SWITCH] = "SWITCH",
	[PERF_RECORD_SWITCH_CPU_WIDE] = "SWITCH_CPU_WIDE",
	[PERF_RECORD_NAMESPACES] = "NAMESPACES",
	[PERF_RECORD_KSYMBOL] = "KSYMBOL",
	[PERF_RECORD_BPF_EVENT] = "BPF_EVENT",
	[PERF_RECORD_CGROUP] = "CGROUP",
	[PERF_RECORD_TEXT_POKE] = "TEXT_POKE",
	[21] = "AUX_OUTPUT_HW_ID", /* PERF_RECORD_AUX_OUTPUT_HW_ID, Linux 5.16 */
	[RECORD_CALLCHAIN_DEFERRED] = "CALLCHAIN_DEFERRED",
};

static const char *const user_names[] = {
	"ATTR",          "EVENT_TYPE",  "TRACING_DATA",   "BUILD_ID",      "FINISHED_ROUND",   "ID_INDEX",
	"AUXTRACE_INFO", "AUXTRACE",    "AUXTRACE_ERROR", "THREAD_MAP",    "CPU_MAP",          "STAT_CONFIG",
	"STAT",          "STAT_ROUND",  "EVENT_UPDATE",   "TIME_CONV",     "FEATURE",          "COMPRESSED",
	"FINISHED_INIT", "COMPRESSED2", "BPF_METADATA",   "SCHEDSTAT_CPU", "SCHEDSTAT_DOMAIN",
};
_Static_assert(sizeof(user_names) / sizeof(user_names[0]) == RECORD_USER_LAST - RECORD_USER_FIRST + 1,
	       "a name for every record that recorders add");

/* NULL: it is not known. */
static const char *name_of(uint32_t type)
{
	if (type >= RECORD_USER_FIRST)
		return type <= RECORD_USER_LAST ? user_names[type - RECORD_USER_FIRST] : NULL;
	return type < sizeof(kernel_names) / sizeof(kernel_names[0]) ? kernel_names[type] : NULL;
}

bool record_type_known(uint32_t type)
{
	return name_of(type);
}

const char *record_type_name(uint32_t type)
{
	const char *name = name_of(type);

	return name ? name : "UNKNOWN";
}

void record_put(struct buf *out, const void *fixed, size_t fixed_bytes, struct span name, size_t trailer_bytes)
{
	size_t name_bytes = name.ptr ? (name.len + 1 + 7) & ~(size_t)7 : 0;
	size_t bytes = fixed_bytes + name_bytes + trailer_bytes;
	uint8_t *record = buf_extend(out, bytes);
	struct perf_event_header header;

	if (!record)
		return;
	memcpy(record, fixed, fixed_bytes);
	memcpy(&header, fixed, sizeof(header));
	header.size = (uint16_t)bytes;
	memcpy(record, &header, sizeof(header));
	if (name.ptr)
		memcpy(record + fixed_bytes, name.ptr, name.len);
}
