/* SPDX-License-Identifier: MIT */
#include "analyze/inlines.h"
#include "analyze/machine_priv.h"
#include "analyze/unwind.h"
#include "format/feature.h"
#include "read/session.h"

/* How much of a chain is taken: as perf. Source: perf-script(1) --max-stack. */
enum { MAX_RECORDED = 127, MAX_UNWOUND = 127, MAX_INLINES = 32 };

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

/* NULL: the recording does not say. */
static const char *recorded_arch(const struct machine *machine)
{
	struct span payload;
	const char *arch;

	if (!session_feature(machine->session, FEATURE_ARCH, &payload) || feature_decode_string(payload, &arch))
		return NULL;
	return arch;
}

/* Made when the first sample needs it. NULL: out of memory. */
static struct unwinder *unwinder_of(struct machine *machine)
{
	if (!machine->unwinder)
		machine->unwinder = unwinder_new(machine->options.symfs ? machine->options.symfs : "", recorded_arch(machine));
	return machine->unwinder;
}

/*
 * Frame pointers lead past the caller of a function that has no frame of its own. Returns how many locations that
 * makes; samples with a stack need no such help.
 */
static unsigned add_leaf_caller(struct lookup *lookup, struct task *task, const struct sample *sample, uint64_t ip,
				struct location *ret)
{
	struct machine *machine = lookup->machine;
	uint64_t caller;

	if (!sample->user_regs.regs || sample->present & PERF_SAMPLE_STACK_USER || !task->maps)
		return 0;
	lookup->missed |= lookup->fixed;
	if (lookup->fixed || !unwinder_of(machine))
		return 0;
	if (!unwind_leaf_caller(machine->unwinder, task->maps, sample, ip, &caller) || caller == ip)
		return 0;
	lookup_resolve(lookup, task, PERF_RECORD_MISC_USER, caller, ret);
	return 1;
}

/* What the kernel walked: its own frames, and by frame pointers those of the program. */
static unsigned add_recorded(struct lookup *lookup, struct task *task, const struct sample *sample,
			     struct location *ret, unsigned max)
{
	uint8_t cpumode = PERF_RECORD_MISC_USER;
	bool leaf = false; /* the program's innermost function comes next */
	unsigned nr = 0;

	for (uint64_t i = 0; i < sample->nr_ips && nr < max && nr < MAX_RECORDED; i++) {
		uint64_t ip = sample->ips[i];
		if (ip < first_marker) {
			lookup_resolve(lookup, task, cpumode, ip, &ret[nr++]);
			if (leaf && nr < max)
				nr += add_leaf_caller(lookup, task, sample, ip, &ret[nr]);
			leaf = false;
			continue;
		}
		int mode = marker_cpumode(ip);
		if (mode < 0) /* as perf: such a chain is not to be trusted, not even what came before */
			return 0;
		cpumode = (uint8_t)mode;
		leaf = mode == PERF_RECORD_MISC_USER;
	}
	return nr;
}

/* One frame, and before it those that the compiler put into it. Returns how many locations that makes. */
static unsigned add_frame(struct machine *machine, const struct location *frame, struct location *ret,
			  unsigned max)
{
	const struct symbol *functions[MAX_INLINES];
	unsigned nr = frame->symbol
			      ? inlines_find(machine->inlines, frame->dso, frame->symbol, frame->address,
					     functions, max < MAX_INLINES ? max : MAX_INLINES)
			      : 0;

	ret[0] = *frame;
	for (unsigned i = 0; i < nr; i++) {
		ret[i] = *frame;
		ret[i].symbol = functions[i];
	}
	return nr ? nr : 1;
}

/* The program's frames out of the sample's registers and stack. */
static unsigned add_unwound(struct lookup *lookup, struct task *task, const struct sample *sample,
			    struct location *ret, unsigned max)
{
	struct machine *machine = lookup->machine;
	const char *symfs = machine->options.symfs ? machine->options.symfs : "";
	uint64_t ips[MAX_UNWOUND];
	unsigned nr = 0;

	lookup->missed |= lookup->fixed;
	if (lookup->fixed)
		return 0;

	if (!machine->inlines)
		machine->inlines = inlines_new(symfs);
	if (!unwinder_of(machine) || !machine->inlines || !task->maps)
		return 0;
	unsigned nr_ips = unwind_sample(machine->unwinder, task->maps, sample, ips, MAX_UNWOUND);
	for (unsigned i = 0; i < nr_ips && nr < max; i++) {
		struct location frame;
		lookup_resolve(lookup, task, PERF_RECORD_MISC_USER, ips[i], &frame);
		nr += add_frame(machine, &frame, ret + nr, max - nr);
	}
	return nr;
}

unsigned lookup_callchain(struct lookup *lookup, struct task *task, const struct session_record *record,
			  struct location *ret, unsigned max)
{
	const struct sample *sample = &record->sample;
	unsigned nr = add_recorded(lookup, task, sample, ret, max);

	if (sample->user_stack.len && nr < max)
		nr += add_unwound(lookup, task, sample, ret + nr, max - nr);
	return nr;
}
