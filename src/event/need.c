/* SPDX-License-Identifier: MIT */
/* Releases: the comments of <linux/perf_event.h> and its history; they are told, never asked. */
#include "event/need.h"

#include <linux/perf_event.h>
#include <stdint.h>
#include <string.h>

static const struct {
	uint64_t sample_bit;
	const char *word;
} fields[] = {
	{PERF_SAMPLE_CODE_PAGE_SIZE, "page sizes of code (5.11): leave out --code-page-size"},
	{PERF_SAMPLE_DATA_PAGE_SIZE, "page sizes of data (5.11): leave out --data-page-size"},
	{PERF_SAMPLE_CGROUP, "cgroups in samples (5.7): leave out --all-cgroups"},
	{PERF_SAMPLE_PHYS_ADDR, "physical addresses (4.14): leave out --phys-data"},
	{PERF_SAMPLE_REGS_INTR, "registers of interrupted code (3.19): leave out -I"},
	{PERF_SAMPLE_TRANSACTION, "flags of transactions (3.13): leave out --transaction"},
	{PERF_SAMPLE_IDENTIFIER, "ids at a fixed place (3.12): record one kind of event at a time"},
	{PERF_SAMPLE_WEIGHT, "weights (3.10): leave out -W"},
	{PERF_SAMPLE_STACK_USER, "dumps of the user's stack (3.7): use --call-graph fp"},
	{PERF_SAMPLE_REGS_USER, "registers of user space (3.7): leave out --user-regs"},
};

enum need_bit {
	NEED_BUILD_ID,
	NEED_CGROUP,
	NEED_AUX_OUTPUT,
	NEED_NAMESPACES,
	NEED_BACKWARD,
	NEED_MAX_STACK,
	NEED_SWITCHES,
	NEED_CLOCKID,
	NEED_NO_KERNEL_CHAIN,
	NEED_NO_USER_CHAIN,
	NR_BITS,
};

static const char *const words[NR_BITS] = {
	[NEED_BUILD_ID] = "build-ids in records of maps (5.12): leave out --buildid-mmap",
	[NEED_CGROUP] = "records of cgroups (5.7): leave out --all-cgroups",
	[NEED_AUX_OUTPUT] = "output into an AUX area (5.4): leave out aux-output",
	[NEED_NAMESPACES] = "records of namespaces (4.12): leave out --namespaces",
	[NEED_BACKWARD] = "rings that overwrite (4.7): leave out overwrite",
	[NEED_MAX_STACK] = "a depth of call chains for one event (4.8): leave out max-stack",
	[NEED_SWITCHES] = "records of context switches (4.3): leave out --switch-events",
	[NEED_CLOCKID] = "a choice of the clock (4.1), or not this one: leave out -k, or try -k monotonic",
	[NEED_NO_KERNEL_CHAIN] = "call chains without the kernel (3.7): leave out --user-callchains",
	[NEED_NO_USER_CHAIN] = "call chains without user space (3.7): leave out --kernel-callchains, use --call-graph fp",
};

static void leave_bit_out(struct perf_event_attr *attr, enum need_bit bit)
{
	switch (bit) {
	case NEED_BUILD_ID:
		attr->build_id = 0;
		break;
	case NEED_CGROUP:
		attr->cgroup = 0;
		break;
	case NEED_AUX_OUTPUT:
		attr->aux_output = 0;
		break;
	case NEED_NAMESPACES:
		attr->namespaces = 0;
		break;
	case NEED_BACKWARD:
		attr->write_backward = 0;
		break;
	case NEED_MAX_STACK:
		attr->sample_max_stack = 0;
		break;
	case NEED_SWITCHES:
		attr->context_switch = 0;
		break;
	case NEED_CLOCKID:
		attr->use_clockid = 0;
		attr->clockid = 0;
		break;
	case NEED_NO_KERNEL_CHAIN:
		attr->exclude_callchain_kernel = 0;
		break;
	case NEED_NO_USER_CHAIN:
		attr->exclude_callchain_user = 0;
		break;
	case NR_BITS:
		break;
	}
}

bool need_leave_out(struct perf_event_attr *attr, size_t index, const char **ret_word)
{
	enum { NR_FIELDS = sizeof(fields) / sizeof(fields[0]) };
	struct perf_event_attr before = *attr;

	_Static_assert(NR_FIELDS + NR_BITS <= NEED_MAX, "all of them are asked for");
	if (index >= NR_FIELDS + NR_BITS)
		return false;
	*ret_word = index < NR_BITS ? words[index] : fields[index - NR_BITS].word;
	if (index < NR_BITS)
		leave_bit_out(attr, (enum need_bit)index);
	else
		attr->sample_type &= ~fields[index - NR_BITS].sample_bit;
	if (!(attr->sample_type & PERF_SAMPLE_REGS_INTR))
		attr->sample_regs_intr = 0;
	if (!(attr->sample_type & PERF_SAMPLE_REGS_USER))
		attr->sample_regs_user = 0;
	if (!(attr->sample_type & PERF_SAMPLE_STACK_USER))
		attr->sample_stack_user = 0;
	return memcmp(&before, attr, sizeof(before)) != 0;
}
