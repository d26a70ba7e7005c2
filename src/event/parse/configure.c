/* SPDX-License-Identifier: MIT */
/*
 * From options to attrs. What perf record 6.1 sets for each option was measured with strace;
 * tests/parity/test_attrs.py holds us to it. What the fields mean: perf_event_open(2), <linux/perf_event.h>.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "event/names/registers.h"
#include "event/parse/configure.h"
#include "event/parse/off_cpu_events.h"
#include "event/parse/parse.h"

/* The words: perf-record(1), --branch-filter. */
static const struct {
	const char *word;
	uint64_t bit;
} filters[] = {
	{"u", PERF_SAMPLE_BRANCH_USER},
	{"k", PERF_SAMPLE_BRANCH_KERNEL},
	{"hv", PERF_SAMPLE_BRANCH_HV},
	{"any", PERF_SAMPLE_BRANCH_ANY},
	{"any_call", PERF_SAMPLE_BRANCH_ANY_CALL},
	{"any_ret", PERF_SAMPLE_BRANCH_ANY_RETURN},
	{"ind_call", PERF_SAMPLE_BRANCH_IND_CALL},
	{"abort_tx", PERF_SAMPLE_BRANCH_ABORT_TX},
	{"in_tx", PERF_SAMPLE_BRANCH_IN_TX},
	{"no_tx", PERF_SAMPLE_BRANCH_NO_TX},
	{"cond", PERF_SAMPLE_BRANCH_COND},
	{"ind_jmp", PERF_SAMPLE_BRANCH_IND_JUMP},
	{"call", PERF_SAMPLE_BRANCH_CALL},
	{"save_type", PERF_SAMPLE_BRANCH_TYPE_SAVE},
	{"stack", PERF_SAMPLE_BRANCH_CALL_STACK},
	{"priv", UINT64_C(1) << 18}, /* PERF_SAMPLE_BRANCH_PRIV_SAVE, Linux 6.1 */
};

enum {
	NR_FILTERS = sizeof(filters) / sizeof(filters[0]),
	PRIVILEGES = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_KERNEL | PERF_SAMPLE_BRANCH_HV,
};

int branch_filter_parse(const char *text, uint64_t *ret, struct diag *reterr)
{
	uint64_t mask = 0;

	for (const char *word = text;;) {
		size_t len = strcspn(word, ","), i = 0;
		while (i < NR_FILTERS && (strlen(filters[i].word) != len || strncasecmp(filters[i].word, word, len)))
			i++;
		if (i == NR_FILTERS) {
			AUTO_BUF struct buf list = {0};
			for (size_t f = 0; f < NR_FILTERS; f++)
				buf_printf(&list, " %s", filters[f].word);
			return diag_set(reterr, -EINVAL, "\"%.*s\" is no kind of branch; there are:%s", (int)len, word,
					buf_text(&list));
		}
		mask |= filters[i].bit;
		if (!word[len])
			break;
		word += len + 1;
	}
	*ret = mask & ~(uint64_t)PRIVILEGES ? mask : (uint64_t)PERF_SAMPLE_BRANCH_ANY;
	return 0;
}

int lean_fields_parse(const char *text, uint64_t *ret, struct diag *reterr)
{
	uint64_t fields = 0;

	for (const char *word = text;;) {
		size_t len = strcspn(word, ",");
		if (len == 6 && !strncmp(word, "period", len))
			fields |= PERF_SAMPLE_PERIOD;
		else if (len == 2 && !strncmp(word, "ip", len))
			fields |= PERF_SAMPLE_IP;
		else
			return diag_set(reterr, -EINVAL, "\"%.*s\" is neither period nor ip", (int)len, word);
		if (!word[len])
			break;
		word += len + 1;
	}
	*ret = fields;
	return 0;
}

/* The PMUs of x86 tell a weight in parts; elsewhere perf asks for one number: tests/lab/test_arm64.py. */
#ifdef __x86_64__
#define SAMPLE_WEIGHT PERF_SAMPLE_WEIGHT_STRUCT
#else
#define SAMPLE_WEIGHT PERF_SAMPLE_WEIGHT
#endif

/* Options that name one field of a sample: tests/parity/test_option_attrs.py. */
static const struct {
	size_t offset; /* of the option, a bool */
	uint64_t bit;
} fields[] = {
	{offsetof(struct event_options, cpus), PERF_SAMPLE_CPU},
	{offsetof(struct event_options, weights), SAMPLE_WEIGHT},
	{offsetof(struct event_options, transactions), PERF_SAMPLE_TRANSACTION},
	{offsetof(struct event_options, physical_addresses), PERF_SAMPLE_PHYS_ADDR},
	{offsetof(struct event_options, data_page_sizes), PERF_SAMPLE_DATA_PAGE_SIZE},
	{offsetof(struct event_options, code_page_sizes), PERF_SAMPLE_CODE_PAGE_SIZE},
	{offsetof(struct event_options, cgroups), PERF_SAMPLE_CGROUP},
	{offsetof(struct event_options, identifiers), PERF_SAMPLE_IDENTIFIER},
};

/* Nothing runs for a dummy: it has no registers and no branches, and the kernel refuses the latter. */
bool attr_is_dummy(const struct perf_event_attr *attr)
{
	return attr->type == PERF_TYPE_SOFTWARE && attr->config == PERF_COUNT_SW_DUMMY;
}

static void set_registers(struct perf_event_attr *attr, const struct event_options *options)
{
	if (attr_is_dummy(attr))
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
	if (!options->branches || attr_is_dummy(attr) || attr->branch_sample_type)
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

static void set_sample_fields(struct perf_event_attr *attr, const struct event_options *options)
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

enum { DEFAULT_FREQ_HZ = 4000 };

/* What all events share, worked out once. */
struct setup {
	const struct event_options *options;
	uint64_t max_freq_hz; /* 0: the kernel does not say */
	uint64_t freq_hz;     /* of -F, or 0 */
	bool all_tasks;
	bool some_cpus;  /* the first event is not opened on all CPUs, where tasks may be */
	bool task_rings; /* --per-thread of tasks: one ring per task, so nothing needs a time to be sorted by
			  */
	struct off_cpu_setup off_cpu;
	struct diag *reterr;
};

/*
 * Records about tasks have to come from the very start, before the events of the user are enabled (-D), or
 * from tasks that none of them has counted yet (-a, -C): an event that only carries them does that; and so it is when
 * they have a channel of their own. A dummy that the user put first will do.
 */
static int add_side_band(struct event_list *list, const struct setup *setup)
{
	bool side_channel = setup->options->side_channel;

	/* One that is overwritten keeps nothing from the start. */
	if (list->nr && attr_is_dummy(&list->events[0].attr) && !(side_channel && list->events[0].attr.write_backward))
		return 0;

	struct event event = list_new_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY);
	event.attr.exclude_guest = 0;
	event.side_band = true;
	event.system_wide = setup->all_tasks;
	event.attr.write_backward = setup->options->overwrite && !side_channel;
	/* No sample comes of it: it asks for no right to look at the kernel. */
	event.attr.exclude_kernel = event.attr.exclude_hv = side_channel && !setup->all_tasks;
	event.name = event_derived_name(&event.attr);
	if (!event.name)
		return diag_set(setup->reterr, -ENOMEM, "out of memory");
	int err = list_add(list, &event, setup->reterr);
	event_fini(&event);
	return err;
}

static uint64_t cap_freq(const struct setup *setup, uint64_t freq_hz, const char *whose)
{
	if (!setup->max_freq_hz || freq_hz <= setup->max_freq_hz)
		return freq_hz;
	log_note("%s: %llu samples per second are more than kernel.perf_event_max_sample_rate allows: taking "
		 "%llu",
		 whose, (unsigned long long)freq_hz, (unsigned long long)setup->max_freq_hz);
	return setup->max_freq_hz;
}

/* Each of these comes with a payload of its own. */
static bool is_raw_record(const struct event *event)
{
	return event->tracepoint_system ||
	       (event->attr.type == PERF_TYPE_SOFTWARE && event->attr.config == PERF_COUNT_SW_BPF_OUTPUT);
}

static void set_period(struct event *event, const struct setup *setup)
{
	const struct event_options *options = setup->options;
	struct perf_event_attr *attr = &event->attr;
	bool each_one = is_raw_record(event) || attr->type == PERF_TYPE_BREAKPOINT || event->side_band;

	if (event->given & EVENT_GIVEN_FREQ) {
		attr->sample_freq = cap_freq(setup, attr->sample_freq, event->name);
		return;
	}
	if (event->given & EVENT_GIVEN_PERIOD)
		return;
	if (options->period) {
		attr->sample_period = options->period;
	} else if (setup->freq_hz) {
		attr->freq = 1;
		attr->sample_freq = setup->freq_hz;
	} else if (each_one) {
		attr->sample_period = 1;
	} else {
		attr->freq = 1;
		attr->sample_freq = cap_freq(setup, DEFAULT_FREQ_HZ, "the default frequency");
	}
	if (options->no_samples)
		attr->sample_period = 0;
}

static void set_time(struct event *event, const struct setup *setup)
{
	const struct event_options *options = setup->options;
	struct perf_event_attr *attr = &event->attr;

	bool unwinds = options->callgraph == CALLGRAPH_UNWIND; /* by what was mapped at that time */
	bool orders = unwinds || options->off_cpu.on;

	if (!options->no_timestamps && (!setup->task_rings || options->timestamps || orders))
		attr->sample_type |= PERF_SAMPLE_TIME;
	if (options->raw || is_raw_record(event))
		attr->sample_type |= PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_RAW;
	if (event->given & EVENT_GIVEN_TIME)
		attr->sample_type |= PERF_SAMPLE_TIME;
	if (event->given & EVENT_GIVEN_NO_TIME)
		attr->sample_type &= ~(uint64_t)PERF_SAMPLE_TIME;
}

/*
 * The event's own terms stand above the options; each of them asks for a call chain where there would be none.
 */
static enum event_callgraph callgraph_of(const struct event *event, const struct setup *setup)
{
	const struct event_options *options = setup->options;

	if (event->given & EVENT_GIVEN_CALLGRAPH)
		return event->callgraph;
	if (event->off_cpu)
		return off_cpu_callgraph(event, &setup->off_cpu);
	if (options->callgraph == CALLGRAPH_NONE && event->attr.sample_max_stack)
		return CALLGRAPH_FP;
	return options->callgraph;
}

/* Where the user's part of the chains is not wanted there is nothing to unwind. */
static enum event_callgraph wanted_callgraph(const struct event *event, const struct setup *setup)
{
	const enum event_callgraph callgraph = callgraph_of(event, setup);

	return callgraph == CALLGRAPH_UNWIND && setup->options->kernel_callchains ? CALLGRAPH_FP : callgraph;
}

static uint32_t dump_bytes_of(const struct event *event, const struct event_options *options,
			      enum event_callgraph callgraph)
{
	uint32_t bytes = event->given & EVENT_GIVEN_DUMP_BYTES ? event->dump_bytes : options->dump_bytes;

	if (bytes > EVENT_DUMP_BYTES_MAX)
		bytes = EVENT_DUMP_BYTES_MAX;
	if (!bytes)
		return callgraph == CALLGRAPH_UNWIND ? EVENT_UNWIND_BYTES : EVENT_DUMP_BYTES;
	return (bytes + 7) / 8 * 8;
}

static int set_callgraph(struct event *event, const struct setup *setup, enum event_callgraph callgraph)
{
	struct perf_event_attr *attr = &event->attr;

	if (callgraph == CALLGRAPH_NONE) {
		attr->sample_max_stack = 0;
		return 0;
	}
	attr->sample_type |= PERF_SAMPLE_CALLCHAIN;
	if (setup->options->max_stack && !(event->given & EVENT_GIVEN_MAX_STACK))
		attr->sample_max_stack = (uint16_t)setup->options->max_stack;
	if (callgraph == CALLGRAPH_FP && registers_leaf()) {
		attr->sample_type |= PERF_SAMPLE_REGS_USER;
		attr->sample_regs_user = setup->options->user_regs | registers_leaf();
	}
	event->unwinds = callgraph == CALLGRAPH_UNWIND;
	if (callgraph == CALLGRAPH_DWARF || callgraph == CALLGRAPH_UNWIND) {
		uint64_t regs =
			setup->options->user_regs ? setup->options->user_regs | registers_ip_sp() : registers_all();
		if (event->unwinds && setup->options->user_regs)
			return diag_set(setup->reterr, -EINVAL,
					"--call-graph unwind removes the registers from the samples: use --call-graph "
					"dwarf, or leave out --user-regs");
		if (event->unwinds && !(attr->sample_type & PERF_SAMPLE_TIME))
			return diag_set(setup->reterr, -EINVAL,
					"--call-graph unwind needs the times of samples: use --timestamp, or leave out "
					"the option that removes them");
		if (!regs)
			return diag_set(setup->reterr, -ENOTSUP, "no DWARF call graphs on this architecture: use fp");
		attr->sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
		attr->sample_regs_user = regs;
		attr->sample_stack_user = dump_bytes_of(event, setup->options, callgraph);
		/* The kernel's own chain goes on where the copy ends: unwind_chain() continues with it. */
		attr->exclude_callchain_user = !event->unwinds;
	}
	if (event->unwinds) {
		event->max_stack = attr->sample_max_stack;
		if (attr->sample_max_stack > EVENT_KERNEL_FRAMES)
			attr->sample_max_stack = 0;
	}
	if (callgraph == CALLGRAPH_LBR && setup->options->branches)
		return diag_set(
			setup->reterr, -EINVAL,
			"the branch records of the CPU serve either call graphs (lbr) or -b and -j: choose one");
	if (callgraph == CALLGRAPH_LBR) {
		attr->sample_type |= PERF_SAMPLE_BRANCH_STACK;
		attr->branch_sample_type = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_CALL_STACK |
					   PERF_SAMPLE_BRANCH_NO_FLAGS | PERF_SAMPLE_BRANCH_NO_CYCLES |
					   PERF_SAMPLE_BRANCH_HW_INDEX;
		attr->exclude_callchain_user =
			!(event->given & EVENT_GIVEN_CALLGRAPH); /* as perf: of the option only */
	}
	return 0;
}

static void set_sampling(struct event *event, const struct setup *setup)
{
	const struct event_options *options = setup->options;
	struct perf_event_attr *attr = &event->attr;

	attr->sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID;
	set_period(event, setup);
	if (attr->freq || is_raw_record(event) || options->periods)
		attr->sample_type |= PERF_SAMPLE_PERIOD;
	if (options->no_periods)
		attr->sample_type &= ~(uint64_t)PERF_SAMPLE_PERIOD;
	if (setup->all_tasks)
		attr->sample_type |= PERF_SAMPLE_CPU;
	if (event->given & EVENT_GIVEN_SAMPLE_READ)
		attr->sample_type |= PERF_SAMPLE_READ;
	set_time(event, setup);

	attr->read_format = PERF_FORMAT_ID | PERF_FORMAT_LOST;
	if (options->stat) {
		attr->inherit_stat = 1;
		attr->read_format |= PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	}
}

/*
 * A tracepoint of which each occurrence is a sample has the period of its attr, 1. Not so the ones that count by a
 * field of theirs (__perf_count(), which Linux uses in these of include/trace/events/sched.h only): without PERIOD the
 * kernel writes as many samples as that field says. And of any other period: with PERIOD it writes a sample for each
 * occurrence all the same, without it for each nth (perf_swevent_event(), kernel/events/core.c).
 */
static bool has_period_of_attr(const struct event *event)
{
	bool counts_by_field = !strcmp(event->tracepoint_system, "sched") &&
			       !strncmp(event->tracepoint_name, "sched_stat_", strlen("sched_stat_"));

	return !event->attr.freq && event->attr.sample_period == 1 && !counts_by_field;
}

/* --lean. Behind a call chain the address is where it begins, and READ has values that are no events. */
static void leave_out_fields(struct event *event, const struct event_options *options)
{
	struct perf_event_attr *attr = &event->attr;

	if (!event->tracepoint_system || event->off_cpu || attr->sample_type & PERF_SAMPLE_READ)
		return;
	if (options->lean & PERF_SAMPLE_PERIOD && !options->periods && has_period_of_attr(event))
		attr->sample_type &= ~(uint64_t)PERF_SAMPLE_PERIOD;
	if (options->lean & PERF_SAMPLE_IP && !(attr->sample_type & PERF_SAMPLE_CALLCHAIN))
		attr->sample_type &= ~(uint64_t)PERF_SAMPLE_IP;
}

/* The bits of the one event whose ring gets the records about tasks and kernel symbols. */
static void set_tracking(struct perf_event_attr *attr, const struct event_options *options, bool data_maps)
{
	attr->mmap = 1;
	attr->mmap2 = 1;
	attr->mmap_data = data_maps;
	attr->comm = 1;
	attr->comm_exec = 1;
	attr->task = 1;
	attr->ksymbol = 1;
	attr->bpf_event = !options->no_bpf_events;
	attr->context_switch = options->switches;
	attr->namespaces = options->namespaces;
	attr->cgroup = options->cgroups;
	attr->build_id = options->map_build_ids;
}

/* `carrier`: this event is there to carry the records about tasks from the start. */
static void set_start(struct perf_event_attr *attr, const struct setup *setup, bool carrier)
{
	const struct event_options *options = setup->options;

	if (carrier && (options->side_channel || setup->some_cpus) && options->target == EVENT_TARGET_TASKS) {
		attr->disabled = 0; /* before procfs is read: nothing falls between the two */
		return;
	}
	attr->disabled = !(carrier && setup->all_tasks);
	if (carrier)
		attr->enable_on_exec = !setup->all_tasks;
	else
		attr->enable_on_exec = options->target == EVENT_TARGET_WORKLOAD && !options->delayed;
}

static int configure_event(struct event *event, const struct setup *setup, bool tracking, bool carrier)
{
	const struct event_options *options = setup->options;
	struct perf_event_attr *attr = &event->attr;
	enum event_callgraph callgraph = wanted_callgraph(event, setup);

	/* Such a ring fills backwards: read as the others are, it is noise. */
	if (attr->write_backward && !options->overwrite_rings)
		return diag_set(setup->reterr, -ENOTSUP,
				"event %s: this recorder has no rings that overwrite: leave out "
				"'overwrite'",
				event->name);
	attr->sample_id_all = 1;
	attr->inherit = options->inherit;
	if (event->given & (EVENT_GIVEN_INHERIT | EVENT_GIVEN_NO_INHERIT))
		attr->inherit = (event->given & EVENT_GIVEN_INHERIT) != 0;
	set_sampling(event, setup);
	if (event->given & EVENT_GIVEN_SAMPLE_READ && (event->nr_members > 1 || event->behind_leader)) {
		attr->read_format |= PERF_FORMAT_GROUP;
		event->leaves_out_children = attr->inherit && !setup->all_tasks;
		attr->inherit = 0; /* perf_event_open(2): no values of a group from children, up to Linux 6.12 */
	}
	if (event->off_cpu)
		off_cpu_set_fields(event);
	int err = set_callgraph(event, setup, callgraph);
	if (err < 0)
		return err;
	/* Unwinding looks at data, too, and perf wants to know where that was. */
	if (attr->branch_sample_type && event->given & EVENT_GIVEN_BRANCHES)
		attr->sample_type |= PERF_SAMPLE_BRANCH_STACK;
	if (options->addresses || callgraph == CALLGRAPH_DWARF)
		attr->sample_type |= PERF_SAMPLE_ADDR | PERF_SAMPLE_DATA_SRC;
	uint64_t own_branches = attr->branch_sample_type;
	set_sample_fields(attr, options);
	if (event->given & EVENT_GIVEN_BRANCHES && !own_branches) { /* branch_type=no beside -b */
		attr->sample_type &= ~(uint64_t)PERF_SAMPLE_BRANCH_STACK;
		attr->branch_sample_type = 0;
	}
	leave_out_fields(event, options);
	if (tracking)
		set_tracking(attr, options, options->addresses || callgraph == CALLGRAPH_DWARF);
	set_start(attr, setup, carrier);
	if (event->off_cpu)
		off_cpu_set_tasks(event, &setup->off_cpu);
	return 0;
}

/* A member begins and ends with its leader; with S the leader samples for all, and reads what each has counted. */
static void follow_leader(struct event *event)
{
	const struct event *leader = event - event->behind_leader;
	bool own_rate = event->given & (EVENT_GIVEN_PERIOD | EVENT_GIVEN_FREQ);
	struct perf_event_attr *attr = &event->attr;

	attr->disabled = 0;
	attr->enable_on_exec = 0;
	if (!(leader->given & EVENT_GIVEN_SAMPLE_READ))
		return;
	if (!own_rate) {
		attr->freq = 0;
		attr->sample_period = 0;
	}
	attr->write_backward = 0;
	attr->sample_type = leader->attr.sample_type;
}

/*
 * A reader finds the event of a record by its id. The id has a fixed place (IDENTIFIER) when the events'
 * records differ in layout; a file with one event needs none, a pipe always has one.
 */
static void set_ids(struct event_list *list, bool pipe)
{
	bool equal = true, read = false;

	for (size_t i = 0; i < list->nr; i++) {
		equal &= list->events[i].attr.sample_type == list->events[0].attr.sample_type &&
			 list->events[i].unwinds == list->events[0].unwinds; /* which changes the type in the file */
		read |= (list->events[i].attr.sample_type & PERF_SAMPLE_READ) != 0;
	}
	if (list->nr == 1 && !pipe && !read)
		return;
	if (list->events[0].attr.sample_type & PERF_SAMPLE_IDENTIFIER)
		return; /* --sample-identifier: all of them have it */
	for (size_t i = 0; i < list->nr; i++)
		list->events[i].attr.sample_type |= equal ? PERF_SAMPLE_ID : PERF_SAMPLE_IDENTIFIER;
}

static int prepare(struct setup *setup)
{
	const struct event_options *options = setup->options;
	long max;

	setup->all_tasks = options->target == EVENT_TARGET_SYSTEM || options->target == EVENT_TARGET_CPUS;
	setup->task_rings = options->per_thread && !setup->all_tasks;
	setup->max_freq_hz = options->max_freq_hz;
	if (!setup->max_freq_hz && fd_slurp_long("/proc/sys/kernel/perf_event_max_sample_rate", &max) == 0 && max > 0)
		setup->max_freq_hz = (uint64_t)max;
	if (options->freq_hz && options->period)
		return diag_set(setup->reterr, -EINVAL, "either a frequency or a period, not both");
	if (options->strict_freq && options->freq_hz != EVENT_FREQ_MAX && setup->max_freq_hz &&
	    options->freq_hz > setup->max_freq_hz)
		return diag_set(setup->reterr, -EINVAL,
				"-F: %llu samples per second are more than kernel.perf_event_max_sample_rate allows: "
				"%llu (--strict-freq)",
				(unsigned long long)options->freq_hz, (unsigned long long)setup->max_freq_hz);
	if (options->freq_hz != EVENT_FREQ_MAX)
		setup->freq_hz = cap_freq(setup, options->freq_hz, "-F");
	else if (setup->max_freq_hz)
		setup->freq_hz = setup->max_freq_hz;
	else
		return diag_set(setup->reterr, -ENOENT,
				"the highest frequency is not known: no "
				"/proc/sys/kernel/perf_event_max_sample_rate");
	return 0;
}

/*
 * Readers that look for no id in records about tasks (hotspot) take all of them to end as those of the first event do.
 */
static void set_side_channel(struct event_list *list, size_t side)
{
	const uint64_t trailer = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU; /* sample_id_all */
	__u64 *type = &list->events[side].attr.sample_type;

	list->events[side].side_channel = true;
	list->events[side].attr.inherit_stat = 0; /* it counts nothing */
	*type = (*type & ~trailer) | (list->events[0].attr.sample_type & trailer);
}

/* --overwrite */
static void set_overwrite(struct event_list *list, const struct event_options *options)
{
	for (size_t i = 0; options->overwrite && i < list->nr; i++) {
		struct event *event = &list->events[i];
		if (!(event->given & EVENT_GIVEN_OVERWRITE))
			event->attr.write_backward = 1;
	}
}

int event_list_configure(struct event_list *list, const struct event_options *given, struct diag *reterr)
{
	/* Records of all events end alike: those of switches with the CPU. */
	struct event_options of_all = *given, *options = &of_all;
	options->cpus |= options->off_cpu.on;
	struct setup setup = {.options = options, .reterr = reterr};
	int err = prepare(&setup);

	setup.off_cpu = (struct off_cpu_setup){.callgraph = options->callgraph,
					       .no_callgraph = options->no_callgraph,
					       .wakers = options->off_cpu.wakers,
					       .all_user = options->all_user,
					       .switches = options->switches,
					       .per_thread = options->per_thread,
					       .all_tasks = setup.all_tasks};
	if (!err && options->off_cpu.on && options->no_timestamps)
		err = diag_set(reterr, -EINVAL, "--off-cpu needs the times of samples: leave out --no-timestamp");
	if (!err && options->off_cpu.on)
		err = off_cpu_add_switches(list, &setup.off_cpu, reterr);

	if (err < 0)
		return err;
	set_overwrite(list, options);
	if (options->group)
		list_make_group(list, 0, NULL); /* what tasks do is told while the leader is off, too */
	setup.some_cpus =
		list->nr && !options->per_thread && (list->events[0].some_cpus || list->events[0].group_some_cpus);
	bool carried = setup.all_tasks || options->delayed || options->side_channel || setup.some_cpus;
	if (carried && (err = add_side_band(list, &setup)) < 0)
		return err;
	size_t tracking = carried && list->events[list->nr - 1].side_band ? list->nr - 1 : 0;
	if (options->off_cpu.on && (err = off_cpu_add_wake_ups(list, reterr)) < 0)
		return err;
	for (size_t i = 0; i < list->nr; i++) {
		err = configure_event(&list->events[i], &setup, i == tracking, carried && i == tracking);
		if (err < 0)
			return err;
		if (list->events[i].behind_leader)
			follow_leader(&list->events[i]);
	}
	if (options->side_channel && attr_is_dummy(&list->events[tracking].attr))
		set_side_channel(list, tracking);
	set_ids(list, options->pipe_output);
	return 0;
}
