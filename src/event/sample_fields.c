/* SPDX-License-Identifier: MIT */
/* Measured with strace(1) on perf record 6.1: tests/parity/test_option_attrs.py holds us to it. */
#include "event/sample_fields.h"

#include "event/event.h"

static const struct {
	size_t offset; /* of the option, a bool */
	uint64_t bit;
} fields[] = {
	{offsetof(struct event_options, cpus), PERF_SAMPLE_CPU},
	{offsetof(struct event_options, weights), PERF_SAMPLE_WEIGHT_STRUCT},
	{offsetof(struct event_options, transactions), PERF_SAMPLE_TRANSACTION},
	{offsetof(struct event_options, physical_addresses), PERF_SAMPLE_PHYS_ADDR},
	{offsetof(struct event_options, data_page_sizes), PERF_SAMPLE_DATA_PAGE_SIZE},
	{offsetof(struct event_options, code_page_sizes), PERF_SAMPLE_CODE_PAGE_SIZE},
	{offsetof(struct event_options, cgroups), PERF_SAMPLE_CGROUP},
	{offsetof(struct event_options, identifiers), PERF_SAMPLE_IDENTIFIER},
};

/* Nothing runs for a dummy: it has no registers and no branches, and the kernel refuses the latter. */
static bool is_dummy(const struct perf_event_attr *attr)
{
	return attr->type == PERF_TYPE_SOFTWARE && attr->config == PERF_COUNT_SW_DUMMY;
}

static void set_registers(struct perf_event_attr *attr, const struct event_options *options)
{
	if (is_dummy(attr))
		return;
	if (options->intr_regs) {
		attr->sample_type |= PERF_SAMPLE_REGS_INTR;
		attr->sample_regs_intr = options->intr_regs;
	}
	if (options->user_regs && !(attr->sample_type & PERF_SAMPLE_REGS_USER)) {
		attr->sample_type |= PERF_SAMPLE_REGS_USER;
		attr->sample_regs_user = options->user_regs;
	}
}

/* The event's own terms stand above -j. */
static void set_branches(struct perf_event_attr *attr, const struct event_options *options)
{
	if (!options->branches || is_dummy(attr) || attr->branch_sample_type)
		return;
	attr->sample_type |= PERF_SAMPLE_BRANCH_STACK;
	attr->branch_sample_type = options->branches;
}

/* --all-kernel and --all-user stand above the modifiers of the event, as in perf. */
static void set_sides(struct perf_event_attr *attr, const struct event_options *options)
{
	if (options->all_kernel || options->all_user) {
		attr->exclude_user = options->all_kernel;
		attr->exclude_kernel = options->all_user;
	}
	if (!(attr->sample_type & PERF_SAMPLE_CALLCHAIN))
		return;
	if (options->kernel_callchains)
		attr->exclude_callchain_user = 1;
	if (options->user_callchains)
		attr->exclude_callchain_kernel = 1;
}

void sample_fields_set(struct perf_event_attr *attr, const struct event_options *options)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (*(const bool *)((const char *)options + fields[i].offset))
			attr->sample_type |= fields[i].bit;
	set_registers(attr, options);
	set_branches(attr, options);
	set_sides(attr, options);
	if (options->running_times)
		attr->read_format |= PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	if (options->use_clockid) {
		attr->use_clockid = 1;
		attr->clockid = options->clockid;
	}
	if (options->no_buffering)
		attr->wakeup_events = 1;
}
