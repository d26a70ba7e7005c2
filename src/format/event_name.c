/* SPDX-License-Identifier: MIT */
#include "format/event_name.h"

#include <inttypes.h>
#include <linux/perf_event.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Numbers and order: enum perf_hw_id, perf_sw_ids, perf_hw_cache_id … of <linux/perf_event.h>. */
static const char *const hardware[] = {
	"cycles",     "instructions",            "cache-references",       "cache-misses", "branches", "branch-misses",
	"bus-cycles", "stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles",
};
static const char *const software[] = {
	"cpu-clock",    "task-clock",   "page-faults",      "context-switches", "cpu-migrations", "minor-faults",
	"major-faults", "alignment-faults", "emulation-faults", "dummy",        "bpf-output",     "cgroup-switches",
};
static const char *const caches[] = {"L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"};
static const char *const accesses[] = {"load", "store", "prefetch"};

static void put_cache(uint64_t config, struct buf *out)
{
	uint64_t cache = config & 0xff, access = config >> 8 & 0xff, missed = config >> 16;

	if (cache >= COUNT(caches) || access >= COUNT(accesses) || missed > 1)
		buf_printf(out, "cache 0x%" PRIx64, config);
	else if (missed)
		buf_printf(out, "%s-%s-misses", caches[cache], accesses[access]);
	else
		buf_printf(out, "%s-%s%s", caches[cache], accesses[access], access == 2 ? "es" : "s");
}

static void put_known(const char *const names[], size_t nr, const char *kind, uint64_t config, struct buf *out)
{
	if (config < nr)
		buf_put_text(out, names[config]);
	else
		buf_printf(out, "%s 0x%" PRIx64, kind, config);
}

static void put_breakpoint(const struct perf_event_attr *attr, struct buf *out)
{
	buf_printf(out, "mem:0x%" PRIx64 ":%s%s%s", (uint64_t)attr->bp_addr, attr->bp_type & 1 ? "r" : "",
		   attr->bp_type & 2 ? "w" : "", attr->bp_type & 4 ? "x" : "");
}

/* The letters that -e takes behind a colon; what is excluded by default is not told. */
static void put_modifiers(const struct perf_event_attr *attr, struct buf *out)
{
	char letters[16] = "";
	size_t nr = 0;

	if (attr->exclude_user || attr->exclude_kernel || attr->exclude_hv) {
		if (!attr->exclude_kernel)
			letters[nr++] = 'k';
		if (!attr->exclude_user)
			letters[nr++] = 'u';
		if (!attr->exclude_hv)
			letters[nr++] = 'h';
	}
	for (unsigned i = 0; i < attr->precise_ip; i++)
		letters[nr++] = 'p';
	if (attr->exclude_host || !attr->exclude_guest) {
		if (!attr->exclude_host)
			letters[nr++] = 'H';
		if (!attr->exclude_guest)
			letters[nr++] = 'G';
	}
	letters[nr] = '\0';
	if (nr)
		buf_printf(out, ":%s", letters);
}

char *event_name(const struct perf_event_attr *attr)
{
	AUTO_BUF struct buf out = {0};

	switch (attr->type) {
	case PERF_TYPE_HARDWARE:
		put_known(hardware, COUNT(hardware), "hardware", attr->config, &out);
		break;
	case PERF_TYPE_SOFTWARE:
		put_known(software, COUNT(software), "software", attr->config, &out);
		break;
	case PERF_TYPE_HW_CACHE:
		put_cache(attr->config, &out);
		break;
	case PERF_TYPE_TRACEPOINT:
		buf_printf(&out, "tracepoint %" PRIu64, (uint64_t)attr->config);
		break;
	case PERF_TYPE_BREAKPOINT:
		put_breakpoint(attr, &out);
		break;
	case PERF_TYPE_RAW:
		buf_printf(&out, "raw 0x%" PRIx64, (uint64_t)attr->config);
		break;
	default:
		buf_printf(&out, "type %u 0x%" PRIx64, attr->type, (uint64_t)attr->config);
		break;
	}
	if (attr->type != PERF_TYPE_TRACEPOINT && attr->type != PERF_TYPE_BREAKPOINT)
		put_modifiers(attr, &out);
	const char *text = buf_text(&out);
	return out.failed ? NULL : strdup(text);
}
