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

uint64_t record_outside_bytes(const struct perf_event_header *header, const void *body)
{
	size_t len = header->size - sizeof(*header);

	if (header->type == RECORD_TRACING_DATA && len >= sizeof(uint32_t)) {
		uint32_t size;
		memcpy(&size, body, sizeof(size));
		return ((uint64_t)size + 7) & ~7ull;
	}
	if (header->type == RECORD_AUXTRACE && len >= sizeof(uint64_t)) {
		uint64_t size;
		memcpy(&size, body, sizeof(size));
		return size;
	}
	return 0;
}

enum { CHUNK_BYTES_MAX = 1 << 30 /* of one ring, compressed */ };

uint64_t record_compressed2_chunk(const struct record_compressed2 *first)
{
	uint64_t bytes = sizeof(*first) + first->data_bytes, padded = (bytes + 7) & ~7ull;

	if (first->header.type != RECORD_COMPRESSED2 || first->data_bytes > CHUNK_BYTES_MAX)
		return 0;
	return padded > RECORD_MAX_BYTES && (uint16_t)padded == first->header.size ? bytes : 0;
}

bool record_compressed2_in_chunk(struct record_compressed2 *record, bool first, uint64_t left)
{
	if (first)
		record->header.size = (uint16_t)(left < RECORD_MAX_BYTES ? left : RECORD_MAX_BYTES);
	if (record->header.type != RECORD_COMPRESSED2 || record->header.size <= sizeof(*record) ||
	    record->header.size > left)
		return false;
	record->data_bytes = record->header.size - sizeof(*record);
	return true;
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
