/* SPDX-License-Identifier: MIT */
#include "perfdata/attr.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "perfdata/layout.h"

void attr_encode(const struct perf_event_attr *attr, struct buf *out)
{
	struct perf_event_attr stored = *attr;
	size_t known = sizeof(stored) < LAYOUT_ATTR_BYTES ? sizeof(stored) : LAYOUT_ATTR_BYTES;

	stored.size = LAYOUT_ATTR_BYTES;
	void *at = buf_extend(out, LAYOUT_ATTR_BYTES);
	if (at)
		memcpy(at, &stored, known);
}

int attr_decode(struct span bytes, struct perf_event_attr *ret, size_t *ret_size)
{
	uint32_t size;

	if (bytes.len < LAYOUT_ATTR_MIN_BYTES)
		return -EBADMSG;
	memcpy(&size, (const char *)bytes.ptr + offsetof(struct perf_event_attr, size), sizeof(size));
	if (size == 0)
		size = LAYOUT_ATTR_MIN_BYTES;
	if (size < LAYOUT_ATTR_MIN_BYTES || size > bytes.len)
		return -EBADMSG;

	struct perf_event_attr attr = {0};
	memcpy(&attr, bytes.ptr, size < sizeof(attr) ? size : sizeof(attr));
	attr.size = size;
	*ret = attr;
	*ret_size = size;
	return 0;
}

/* Where the names of the next fields go. */
struct attr_fields {
	struct buf *out;
	const char *is;
	bool first;
};

static void field_begin(struct attr_fields *fields, const char *name)
{
	buf_printf(fields->out, "%s%s%s", fields->first ? "" : ", ", name, fields->is);
	fields->first = false;
}

static void field_number(struct attr_fields *fields, const char *name, uint64_t value)
{
	if (!value)
		return;
	field_begin(fields, name);
	buf_printf(fields->out, "%" PRIu64, value);
}

static void field_hex(struct attr_fields *fields, const char *name, uint64_t value)
{
	if (!value)
		return;
	field_begin(fields, name);
	buf_printf(fields->out, "%#" PRIx64, value);
}

struct bit_name {
	uint64_t bit;
	const char *name;
};

/*
 * Bits without a name are dropped beside others, as perf does; alone they are shown as a number (perf shows
 * what the field before left in its buffer).
 */
static void field_bits(struct attr_fields *fields, const char *name, uint64_t value, const struct bit_name names[],
		       size_t nr_names)
{
	const char *between = "";

	if (!value)
		return;
	field_begin(fields, name);
	for (size_t i = 0; i < nr_names; i++) {
		if (!(value & names[i].bit))
			continue;
		buf_printf(fields->out, "%s%s", between, names[i].name);
		between = "|";
	}
	if (!*between)
		buf_printf(fields->out, "%#" PRIx64, value);
}

#define NR(names) (sizeof(names) / sizeof((names)[0]))

#define NAME(prefix, name)                                                                                             \
	{                                                                                                              \
		prefix##name, #name                                                                                    \
	}

/* In perf's order, which is not quite that of the bits. TRANSACTION has no name there. */
static const struct bit_name sample_names[] = {
	NAME(PERF_SAMPLE_, IP),
	NAME(PERF_SAMPLE_, TID),
	NAME(PERF_SAMPLE_, TIME),
	NAME(PERF_SAMPLE_, ADDR),
	NAME(PERF_SAMPLE_, READ),
	NAME(PERF_SAMPLE_, CALLCHAIN),
	NAME(PERF_SAMPLE_, ID),
	NAME(PERF_SAMPLE_, CPU),
	NAME(PERF_SAMPLE_, PERIOD),
	NAME(PERF_SAMPLE_, STREAM_ID),
	NAME(PERF_SAMPLE_, RAW),
	NAME(PERF_SAMPLE_, BRANCH_STACK),
	NAME(PERF_SAMPLE_, REGS_USER),
	NAME(PERF_SAMPLE_, STACK_USER),
	NAME(PERF_SAMPLE_, IDENTIFIER),
	NAME(PERF_SAMPLE_, REGS_INTR),
	NAME(PERF_SAMPLE_, DATA_SRC),
	NAME(PERF_SAMPLE_, WEIGHT),
	NAME(PERF_SAMPLE_, PHYS_ADDR),
	NAME(PERF_SAMPLE_, AUX),
	NAME(PERF_SAMPLE_, CGROUP),
	NAME(PERF_SAMPLE_, DATA_PAGE_SIZE),
	NAME(PERF_SAMPLE_, CODE_PAGE_SIZE),
	NAME(PERF_SAMPLE_, WEIGHT_STRUCT),
};

static const struct bit_name read_names[] = {
	NAME(PERF_FORMAT_, TOTAL_TIME_ENABLED),
	NAME(PERF_FORMAT_, TOTAL_TIME_RUNNING),
	NAME(PERF_FORMAT_, ID),
	NAME(PERF_FORMAT_, GROUP),
	NAME(PERF_FORMAT_, LOST),
};

static const struct bit_name branch_names[] = {
	NAME(PERF_SAMPLE_BRANCH_, USER),      NAME(PERF_SAMPLE_BRANCH_, KERNEL),
	NAME(PERF_SAMPLE_BRANCH_, HV),        NAME(PERF_SAMPLE_BRANCH_, ANY),
	NAME(PERF_SAMPLE_BRANCH_, ANY_CALL),  NAME(PERF_SAMPLE_BRANCH_, ANY_RETURN),
	NAME(PERF_SAMPLE_BRANCH_, IND_CALL),  NAME(PERF_SAMPLE_BRANCH_, ABORT_TX),
	NAME(PERF_SAMPLE_BRANCH_, IN_TX),     NAME(PERF_SAMPLE_BRANCH_, NO_TX),
	NAME(PERF_SAMPLE_BRANCH_, COND),      NAME(PERF_SAMPLE_BRANCH_, CALL_STACK),
	NAME(PERF_SAMPLE_BRANCH_, IND_JUMP),  NAME(PERF_SAMPLE_BRANCH_, CALL),
	NAME(PERF_SAMPLE_BRANCH_, NO_FLAGS),  NAME(PERF_SAMPLE_BRANCH_, NO_CYCLES),
	NAME(PERF_SAMPLE_BRANCH_, TYPE_SAVE), NAME(PERF_SAMPLE_BRANCH_, HW_INDEX),
	NAME(PERF_SAMPLE_BRANCH_, PRIV_SAVE),
};

static void attr_flags(struct attr_fields *fields, const struct perf_event_attr *attr)
{
#define FLAG(name) field_number(fields, #name, attr->name)
	FLAG(disabled);
	FLAG(inherit);
	FLAG(pinned);
	FLAG(exclusive);
	FLAG(exclude_user);
	FLAG(exclude_kernel);
	FLAG(exclude_hv);
	FLAG(exclude_idle);
	FLAG(mmap);
	FLAG(comm);
	FLAG(freq);
	FLAG(inherit_stat);
	FLAG(enable_on_exec);
	FLAG(task);
	FLAG(watermark);
	FLAG(precise_ip);
	FLAG(mmap_data);
	FLAG(sample_id_all);
	FLAG(exclude_host);
	FLAG(exclude_guest);
	FLAG(exclude_callchain_kernel);
	FLAG(exclude_callchain_user);
	FLAG(mmap2);
	FLAG(comm_exec);
	FLAG(use_clockid);
	FLAG(context_switch);
	FLAG(write_backward);
	FLAG(namespaces);
	FLAG(ksymbol);
	FLAG(bpf_event);
	FLAG(aux_output);
	FLAG(cgroup);
	FLAG(text_poke);
	FLAG(build_id);
	FLAG(inherit_thread);
	FLAG(remove_on_exec);
	FLAG(sigtrap);
#undef FLAG
}

void attr_text(const struct perf_event_attr *attr, const char *is, struct buf *out)
{
	struct attr_fields fields = {.out = out, .is = is, .first = true};

	field_number(&fields, "type", attr->type);
	field_number(&fields, "size", attr->size);
	field_hex(&fields, "config", attr->config);
	field_number(&fields, "{ sample_period, sample_freq }", attr->sample_period);
	field_bits(&fields, "sample_type", attr->sample_type, sample_names, NR(sample_names));
	field_bits(&fields, "read_format", attr->read_format, read_names, NR(read_names));
	attr_flags(&fields, attr);
	field_number(&fields, "{ wakeup_events, wakeup_watermark }", attr->wakeup_events);
	field_number(&fields, "bp_type", attr->bp_type);
	field_hex(&fields, "{ bp_addr, config1 }", attr->bp_addr);
	field_hex(&fields, "{ bp_len, config2 }", attr->bp_len);
	field_bits(&fields, "branch_sample_type", attr->branch_sample_type, branch_names, NR(branch_names));
	field_hex(&fields, "sample_regs_user", attr->sample_regs_user);
	field_number(&fields, "sample_stack_user", attr->sample_stack_user);
	if (attr->clockid) {
		field_begin(&fields, "clockid");
		buf_printf(out, "%d", (int)attr->clockid);
	}
	field_hex(&fields, "sample_regs_intr", attr->sample_regs_intr);
	field_number(&fields, "aux_watermark", attr->aux_watermark);
	field_number(&fields, "sample_max_stack", attr->sample_max_stack);
	field_number(&fields, "aux_sample_size", attr->aux_sample_size);
	field_number(&fields, "sig_data", attr->sig_data);
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Numbers and order: enum perf_hw_id, perf_sw_ids, perf_hw_cache_id … of <linux/perf_event.h>. */
static const char *const hardware[] = {
	"cycles",        "instructions", "cache-references",        "cache-misses",           "branches",
	"branch-misses", "bus-cycles",   "stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles",
};
static const char *const software[] = {
	"cpu-clock",        "task-clock",   "page-faults",  "context-switches",
	"cpu-migrations",   "minor-faults", "major-faults", "alignment-faults",
	"emulation-faults", "dummy",        "bpf-output",   "cgroup-switches",
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
	/* Which event excludes guests by default: as event_derived_name(). */
	bool guest_excluded = attr->exclude_user || attr->exclude_kernel || attr->exclude_hv || attr->precise_ip;

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
	if (attr->exclude_host || attr->exclude_guest == guest_excluded) {
		if (!attr->exclude_host)
			letters[nr++] = 'H';
		if (!attr->exclude_guest)
			letters[nr++] = 'G';
	}
	letters[nr] = '\0';
	if (nr)
		buf_printf(out, ":%s", letters);
}

char *attr_name(const struct perf_event_attr *attr)
{
	AUTO_BUF struct buf out = {0};

	switch (attr->type) {
	case PERF_TYPE_HARDWARE: put_known(hardware, COUNT(hardware), "hardware", attr->config, &out); break;
	case PERF_TYPE_SOFTWARE: put_known(software, COUNT(software), "software", attr->config, &out); break;
	case PERF_TYPE_HW_CACHE: put_cache(attr->config, &out); break;
	case PERF_TYPE_TRACEPOINT: buf_printf(&out, "tracepoint %" PRIu64, (uint64_t)attr->config); break;
	case PERF_TYPE_BREAKPOINT: put_breakpoint(attr, &out); break;
	case PERF_TYPE_RAW: buf_printf(&out, "raw 0x%" PRIx64, (uint64_t)attr->config); break;
	default: buf_printf(&out, "type %u 0x%" PRIx64, attr->type, (uint64_t)attr->config); break;
	}
	if (attr->type != PERF_TYPE_TRACEPOINT && attr->type != PERF_TYPE_BREAKPOINT)
		put_modifiers(attr, &out);
	const char *text = buf_text(&out);
	return out.failed ? NULL : strdup(text);
}

void event_desc_fini(struct event_desc *desc)
{
	free(desc->name);
	free(desc->ids);
	*desc = (struct event_desc){0};
}
