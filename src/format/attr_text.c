/* SPDX-License-Identifier: MIT */
#include "format/attr_text.h"

#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/buf.h"

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

/*
 * names[n] is bit n. Bits without a name are dropped beside others, as perf does; alone they are shown as a number
 * (perf shows what the field before left in its buffer).
 */
static void field_bits(struct attr_fields *fields, const char *name, uint64_t value, const char *const names[],
		       unsigned nr_names)
{
	const char *between = "";

	if (!value)
		return;
	field_begin(fields, name);
	for (unsigned bit = 0; bit < nr_names; bit++) {
		if (!(value >> bit & 1) || !names[bit])
			continue;
		buf_printf(fields->out, "%s%s", between, names[bit]);
		between = "|";
	}
	if (!*between)
		buf_printf(fields->out, "%#" PRIx64, value);
}

#define NR(names) (sizeof(names) / sizeof((names)[0]))

static const char *const sample_names[] = {
	"IP", "TID", "TIME", "ADDR", "READ", "CALLCHAIN", "ID", "CPU", "PERIOD", "STREAM_ID", "RAW", "BRANCH_STACK",
	"REGS_USER", "STACK_USER", "WEIGHT", "DATA_SRC", "IDENTIFIER", NULL /* TRANSACTION: perf 6.1 has no name */,
	"REGS_INTR", "PHYS_ADDR", "AUX", "CGROUP", "DATA_PAGE_SIZE", "CODE_PAGE_SIZE", "WEIGHT_STRUCT",
};

static const char *const read_names[] = {"TOTAL_TIME_ENABLED", "TOTAL_TIME_RUNNING", "ID", "GROUP", "LOST"};

static const char *const branch_names[] = {
	"USER", "KERNEL", "HV", "ANY", "ANY_CALL", "ANY_RETURN", "IND_CALL", "ABORT_TX", "IN_TX", "NO_TX", "COND",
	"CALL_STACK", "IND_JUMP", "CALL", "NO_FLAGS", "NO_CYCLES", "TYPE_SAVE", "HW_INDEX", "PRIV_SAVE",
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
