/* SPDX-License-Identifier: MIT */
/* The table of millrace record's options, and what their arguments mean. */
#include "cmd/record_options.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/diag.h"
#include "cmd/command.h"
#include "cmd/record_sampling.h"
#include "cmd/trigger_option.h"
#include "cmd/writer_option.h"
#include "pack/zstd.h"

static int set_pfm_events(const struct option *option, const char *arg, bool negated, void *value,
			  struct diag *reterr)
{
	(void)option, (void)negated;
	return event_list_parse_pfm(value, arg, reterr);
}

static int set_event(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)negated;
	return event_list_parse(value, arg, reterr);
}

static int set_filter(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)negated;
	return event_list_filter(value, arg, reterr);
}

static int set_exclude_perf(const struct option *option, const char *arg, bool negated, void *value,
			    struct diag *reterr)
{
	(void)option, (void)arg, (void)negated;
	return event_list_leave_out_recorder(value, reterr);
}

/* "128" is pages, "4M" bytes; either is rounded up to a power of two. */
static int set_ring_pages(const struct option *option, const char *arg, bool negated, void *value,
			  struct diag *reterr)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), pages = 1;
	uint64_t number;
	char *end;

	(void)option, (void)negated;
	errno = 0;
	number = strtoull(arg, &end, 10);
	if (errno || end == arg || *arg == '-' || (*end && option_parse_size(arg, &number)))
		return diag_set(reterr, -EINVAL, "\"%s\" is neither a number of pages nor a size such as 512K or 4M", arg);
	if (*end)
		number = (number + page_bytes - 1) / page_bytes;
	if (!number || number > (SIZE_MAX / 4) / page_bytes)
		return diag_set(reterr, -EINVAL, "\"%s\" is no possible size of a ring", arg);
	while (pages < number)
		pages *= 2;
	*(size_t *)value = pages;
	return 0;
}

static int set_flush(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)negated;
	if (option_parse_size(arg, value) || !*(uint64_t *)value)
		return diag_set(reterr, -EINVAL, "\"%s\" is no size such as 64K", arg);
	return 0;
}

static int set_max_memory(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)negated;
	if (option_parse_size(arg, value) || !*(uint64_t *)value)
		return diag_set(reterr, -EINVAL, "\"%s\" is no size such as 64M", arg);
	return 0;
}

/* "20", "20%", "0.5", "150" of one CPU. */
static int set_max_cpu(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	const double least = 0.1, most = 100000;
	char *end;
	double percent = strtod(arg, &end);

	(void)option, (void)negated;
	if (end == arg || (*end && strcmp(end, "%") != 0) || !(percent >= least && percent <= most))
		return diag_set(reterr, -EINVAL, "\"%s\" is no percentage of one CPU from %g to %.0f, such as 20", arg, least, most);
	*(double *)value = percent / 100;
	return 0;
}

static int set_freq(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)negated;
	if (!strcmp(arg, "max")) {
		*(uint64_t *)value = EVENT_FREQ_MAX;
		return 0;
	}
	int err = option_set_u64(option, arg, false, value, reterr);
	return !err && !*(uint64_t *)value ? diag_set(reterr, -EINVAL, "a frequency of 0 samples nothing") : err;
}

static int set_period(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)negated;
	int err = option_set_u64(option, arg, false, value, reterr);
	return !err && !*(uint64_t *)value ? diag_set(reterr, -EINVAL, "a period of 0 events is none") : err;
}

static int set_callgraph_fp(const struct option *option, const char *arg, bool negated, void *value,
			    struct diag *reterr)
{
	(void)option, (void)arg, (void)reterr;
	struct event_options *sampling = value;
	sampling->callgraph = negated ? CALLGRAPH_NONE : CALLGRAPH_FP;
	return 0;
}

static int set_dump_bytes(const char *text, struct event_options *sampling, struct diag *reterr)
{
	uint64_t bytes;
	int err = option_parse_size(text, &bytes);

	bytes = (bytes + 7) / 8 * 8;
	if (err || !bytes || bytes > EVENT_DUMP_BYTES_MAX)
		return diag_set(reterr, -EINVAL, "dwarf,%s: the stack dump is 8 to %d bytes", text, EVENT_DUMP_BYTES_MAX);
	sampling->dump_bytes = (uint32_t)bytes;
	return 0;
}

static int set_callgraph(const struct option *option, const char *arg, bool negated, void *value,
			 struct diag *reterr)
{
	(void)option;
	struct event_options *sampling = value;

	if (negated || !strcmp(arg, "no")) {
		sampling->callgraph = CALLGRAPH_NONE;
		return 0;
	}
	if (!strcmp(arg, "fp")) {
		sampling->callgraph = CALLGRAPH_FP;
		return 0;
	}
	if (!strcmp(arg, "lbr")) {
		sampling->callgraph = CALLGRAPH_LBR;
		return 0;
	}
	if (!strncmp(arg, "dwarf", 5) && (!arg[5] || arg[5] == ',')) {
		sampling->callgraph = CALLGRAPH_DWARF;
		sampling->dump_bytes = EVENT_DUMP_BYTES;
		return arg[5] ? set_dump_bytes(arg + 6, sampling, reterr) : 0;
	}
	return diag_set(reterr, -EINVAL, "\"%s\" is none of fp, dwarf, dwarf,SIZE, lbr, no", arg);
}

static int set_realtime(const struct option *option, const char *arg, bool negated, void *value,
			struct diag *reterr)
{
	uint64_t level = 0;
	int err = option_set_u64(option, arg, negated, &level, reterr);

	if (!err && (level < 1 || level > 99))
		err = diag_set(reterr, -EINVAL, "\"%s\" is no real-time priority: 1 to 99", arg);
	if (!err)
		*(int *)value = (int)level;
	return err;
}

static int set_threads(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)reterr;
	*(struct threads_option *)value = (struct threads_option){.given = !negated, .one = negated, .spec = arg};
	return 0;
}

static int set_compression(const struct option *option, const char *arg, bool negated, void *value,
			   struct diag *reterr)
{
	uint64_t level = ZSTD_LEVEL_DEFAULT;
	int err = arg ? option_set_u64(option, arg, false, &level, reterr) : 0;

	if (!err && level > ZSTD_LEVEL_LAST)
		err = diag_set(reterr, -EINVAL, "\"%s\" is no level: 1 (fast) to %d (small), or 0 for none", arg,
			       ZSTD_LEVEL_LAST);
	if (!err)
		*(int *)value = negated ? 0 : (int)level;
	return err;
}

static int set_side_channel(const struct option *option, const char *arg, bool negated, void *value,
			    struct diag *reterr)
{
	(void)option;
	if (!negated && strcmp(arg, "on") && strcmp(arg, "off"))
		return diag_set(reterr, -EINVAL, "\"%s\" is neither on nor off", arg);
	*(bool *)value = negated || !strcmp(arg, "off");
	return 0;
}

static int set_timestamps(const struct option *option, const char *arg, bool negated, void *value,
			  struct diag *reterr)
{
	(void)option, (void)arg, (void)reterr;
	struct event_options *sampling = value;
	sampling->timestamps = !negated;
	sampling->no_timestamps = negated;
	return 0;
}

static int set_periods(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)arg, (void)reterr;
	struct event_options *sampling = value;
	sampling->periods = !negated;
	sampling->no_periods = negated;
	return 0;
}

static int set_sync(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	enum { MOST = 86400 };
	char *end;
	double seconds = strtod(arg, &end);

	(void)option, (void)negated;
	if (end == arg || *end || !(seconds >= 0.001 && seconds <= MOST))
		return diag_set(reterr, -EINVAL, "\"%s\" is no number of seconds from 0.001 to %d", arg, MOST);
	*(uint64_t *)value = (uint64_t)(seconds * 1000);
	return 0;
}

static int set_buffer(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	enum { LEAST = 1 << 20 };
	const uint64_t most = (uint64_t)1 << 40;
	uint64_t bytes;

	(void)option, (void)negated;
	if (option_parse_size(arg, &bytes) || bytes < LEAST || bytes > most)
		return diag_set(reterr, -EINVAL, "\"%s\" is no size from 1M to 1024G", arg);
	*(uint64_t *)value = bytes;
	return 0;
}

static int set_on_pressure(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)negated;
	static const char *const words[] = {
		[ON_PRESSURE_DROP] = "drop", [ON_PRESSURE_TRIM] = "trim", [ON_PRESSURE_FREEZE] = "freeze"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(arg, words[i]))
			continue;
		*(enum on_pressure *)value = (enum on_pressure)i;
		return 0;
	}
	return diag_set(reterr, -EINVAL, "\"%s\" is neither drop nor trim nor freeze", arg);
}

static int set_fail_on_loss(const struct option *option, const char *arg, bool negated, void *value,
			    struct diag *reterr)
{
	struct loss_limit limit = {.given = !negated};
	char *end = NULL;

	(void)option;
	if (arg)
		limit.percent = strtod(arg, &end);
	if (arg && (end == arg || (*end && strcmp(end, "%") != 0) || !(limit.percent >= 0 && limit.percent <= 100)))
		return diag_set(reterr, -EINVAL, "\"%s\" is no percentage from 0 to 100", arg);
	*(struct loss_limit *)value = limit;
	return 0;
}

enum { REFUSED = OPTION_HIDDEN | OPTION_NO_NEGATE | OPTION_NO_DEFAULT };

#define AT(field) offsetof(struct record_options, field)

const struct option record_option_table[] = {
	{.letter = 'e', .name = "event", .arg = "EVENT", .set = set_event, .offset = AT(events),
	 .flags = OPTION_NO_NEGATE, .group = "What to record",
	 .help = "Events, separated by commas: cpu-clock, cycles:u, sched:*, cpu-clock/period=1000,name=x/. Default: "
		 "cycles, or cpu-clock where there is no hardware counter"},
	{.name = "pfm-events", .arg = "EVENTS", .set = set_pfm_events, .offset = AT(events), .flags = OPTION_NO_NEGATE,
	 .help = "Events by the names of libpfm4, separated by commas: inst_retired:any_p:u; those in braces are a group"},
	{.name = "filter", .arg = "FILTER", .set = set_filter, .offset = AT(events),
	 .flags = OPTION_NO_NEGATE | OPTION_NO_DEFAULT,
	 .help = "Only hits of the tracepoints of the last -e for which this is true: 'prev_pid == 0 || next_pid > 100'"},
	{.name = "exclude-perf", .set = set_exclude_perf, .offset = AT(events),
	 .flags = OPTION_NO_NEGATE | OPTION_NO_DEFAULT,
	 .help = "Only hits of the tracepoints of the last -e that are not the recorder's own"},
	{.letter = 'F', .name = "freq", .arg = "HZ", .set = set_freq, .offset = AT(sampling.freq_hz), .family = "rate",
	 .flags = OPTION_NO_NEGATE, .help = "Samples per second of each event, or \"max\". Default: 4000"},
	{.letter = 'c', .name = "count", .arg = "N", .set = set_period, .offset = AT(sampling.period), .family = "rate",
	 .flags = OPTION_NO_NEGATE, .help = "One sample for every N events, instead of a frequency"},
	{.letter = 'g', .set = set_callgraph_fp, .offset = AT(sampling), .help = "Call chains by frame pointers"},
	{.name = "call-graph", .arg = "MODE", .set = set_callgraph, .offset = AT(sampling),
	 .help = "Call chains: fp (frame pointers), dwarf[,SIZE] (dumps SIZE bytes of the stack to unwind later; "
		 "default 8192), lbr (branch records of the CPU)"},

	{.name = "group", .set = option_set_flag, .offset = AT(sampling.group),
	 .help = "All events in one group: counted at the same times"},
	{.name = "kernel-callchains", .set = option_set_flag, .offset = AT(sampling.kernel_callchains),
	 .help = "Only the kernel's part of call chains"},
	{.name = "user-callchains", .set = option_set_flag, .offset = AT(sampling.user_callchains),
	 .help = "Only the user's part of call chains"},
	{.name = "all-kernel", .set = option_set_flag, .offset = AT(sampling.all_kernel),
	 .help = "All events in the kernel only, whatever their modifiers say"},
	{.name = "all-user", .set = option_set_flag, .offset = AT(sampling.all_user),
	 .help = "All events in user space only, whatever their modifiers say"},
	{.name = "strict-freq", .set = option_set_flag, .offset = AT(sampling.strict_freq),
	 .help = "Fail when the kernel does not allow the frequency of -F, instead of lowering it"},
	{.name = "switch-events", .set = option_set_flag, .offset = AT(sampling.switches),
	 .help = "Also a record for each context switch"},
	{.name = "namespaces", .set = option_set_flag, .offset = AT(sampling.namespaces),
	 .help = "Also which namespaces tasks are in"},
	{.name = "all-cgroups", .set = option_set_flag, .offset = AT(sampling.cgroups),
	 .help = "Also the cgroup of each sample, and the names of all cgroups"},
	{.name = "no-bpf-event", .set = option_set_flag, .offset = AT(sampling.no_bpf_events),
	 .help = "No records about BPF programs"},

	{.letter = 'a', .name = "all-cpus", .set = option_set_flag, .offset = AT(target.all_cpus),
	 .flags = OPTION_NO_DEFAULT, .group = "Of whom", .help = "Everything that runs, on all CPUs"},
	{.letter = 'C', .name = "cpu", .arg = "LIST", .set = option_set_string, .offset = AT(target.cpu_list),
	 .flags = OPTION_NO_NEGATE | OPTION_NO_DEFAULT, .help = "Only these CPUs: 0-3,7"},
	{.letter = 'p', .name = "pid", .arg = "PID,…", .set = option_set_string, .offset = AT(target.pids),
	 .flags = OPTION_NO_NEGATE | OPTION_NO_DEFAULT,
	 .help = "Running processes, with all their threads and the children to come"},
	{.letter = 't', .name = "tid", .arg = "TID,…", .set = option_set_string, .offset = AT(target.tids),
	 .flags = OPTION_NO_NEGATE | OPTION_NO_DEFAULT, .help = "Running threads, and only these"},
	{.letter = 'u', .name = "uid", .arg = "USER", .set = option_set_string, .offset = AT(target.user),
	 .flags = OPTION_NO_NEGATE | OPTION_NO_DEFAULT, .help = "The running processes of a user, by name or number"},
	{.letter = 'G', .name = "cgroup", .arg = "NAME,…", .set = set_cgroups, .offset = 0,
	 .flags = OPTION_NO_NEGATE | OPTION_NO_DEFAULT,
	 .help = "With -a or -C: the events before it only in these cgroups, one for each event, or one for all"},
	{.letter = 'i', .name = "no-inherit", .set = option_set_flag, .offset = AT(no_inherit),
	 .flags = OPTION_NO_NEGATE, .help = "Do not follow into children"},
	{.name = "per-thread", .set = option_set_flag, .offset = AT(target.per_thread),
	 .flags = OPTION_NO_NEGATE, .help = "A ring for each thread instead of one for each CPU"},
	{.letter = 'D', .name = "delay", .arg = "MS", .set = set_delay, .offset = AT(times),
	 .flags = OPTION_NO_NEGATE, .help = "Start recording MS milliseconds after the program; -1: start disabled; "
					     "10-20,30-40: record in these ranges of time only"},
	{.name = "control", .arg = "WHERE", .set = set_control, .offset = AT(control), .flags = OPTION_NO_NEGATE,
	 .help = "fd:CTL[,ACK] or fifo:CTL[,ACK]: take commands while recording: enable [EVENT], disable [EVENT], "
		 "evlist [-v|-g|-F], snapshot, ping, stop; each is answered with \"ack\""},

	{.letter = 'd', .name = "data", .set = option_set_flag, .offset = AT(sampling.addresses),
	 .group = "What each sample holds", .help = "The data address"},
	{.letter = 'T', .name = "timestamp", .set = set_timestamps, .offset = AT(sampling), .help = "The time"},
	{.letter = 'P', .name = "period", .set = set_periods, .offset = AT(sampling), .help = "The period"},
	{.letter = 'R', .name = "raw-samples", .set = option_set_flag, .offset = AT(sampling.raw),
	 .help = "The raw record of every counter (the default for tracepoints)"},
	{.letter = 's', .name = "stat", .set = option_set_flag, .offset = AT(sampling.stat),
	 .help = "Counts per thread, too"},
	{.letter = 'W', .name = "weight", .set = option_set_flag, .offset = AT(sampling.weights),
	 .help = "The weight: what the instruction cost, for events of PMUs that tell"},
	{.name = "transaction", .set = option_set_flag, .offset = AT(sampling.transactions),
	 .help = "Flags of hardware transactions, for events of PMUs that tell"},
	{.name = "phys-data", .set = option_set_flag, .offset = AT(sampling.physical_addresses),
	 .help = "The physical address of the data"},
	{.name = "data-page-size", .set = option_set_flag, .offset = AT(sampling.data_page_sizes),
	 .help = "The size of the page that the data is on"},
	{.name = "code-page-size", .set = option_set_flag, .offset = AT(sampling.code_page_sizes),
	 .help = "The size of the page that the instruction is on"},
	{.letter = 'I', .name = "intr-regs", .arg = "REGS", .set = set_registers, .offset = AT(sampling.intr_regs),
	 .flags = OPTION_ARG_OPTIONAL | OPTION_NO_NEGATE,
	 .help = "Registers of the interrupted code: a list such as ax,ip; \"?\" lists them. Default: all"},
	{.name = "user-regs", .arg = "REGS", .set = set_registers, .offset = AT(sampling.user_regs),
	 .flags = OPTION_ARG_OPTIONAL | OPTION_NO_NEGATE,
	 .help = "Registers of user space: a list; \"?\" lists them. Default: all"},
	{.letter = 'b', .name = "branch-any", .set = set_branch_any, .offset = AT(sampling.branches), .family = "branches",
	 .flags = OPTION_NO_NEGATE, .help = "The last branches taken, of CPUs that record them"},
	{.letter = 'j', .name = "branch-filter", .arg = "KIND,…", .set = set_branch_filter,
	 .offset = AT(sampling.branches), .family = "branches", .flags = OPTION_NO_NEGATE,
	 .help = "The last branches of these kinds: any, any_call, any_ret, ind_call, ind_jmp, call, cond, abort_tx, in_tx, "
		 "no_tx, stack; u, k, hv; save_type, priv"},
	{.name = "sample-cpu", .set = option_set_flag, .offset = AT(sampling.cpus), .help = "The CPU"},
	{.name = "sample-identifier", .set = option_set_flag, .offset = AT(sampling.identifiers),
	 .help = "The event's id at a fixed place"},
	{.name = "running-time", .set = option_set_flag, .offset = AT(sampling.running_times),
	 .help = "How long the event was enabled and how long it ran, where values are read (:S)"},
	{.letter = 'k', .name = "clockid", .arg = "CLOCK", .set = set_clockid, .offset = AT(sampling),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Which clock the times are of: monotonic, monotonic_raw, realtime, boottime, tai, or a number"},
	{.letter = 'n', .name = "no-samples", .set = option_set_flag, .offset = AT(sampling.no_samples),
	 .flags = OPTION_NO_NEGATE, .help = "No samples, only side-band records"},

	{.letter = 'o', .name = "output", .arg = "FILE", .set = option_set_string, .offset = AT(output),
	 .flags = OPTION_NO_NEGATE, .group = "Where to, and how",
	 .help = "Default: perf.data. One that exists is kept as FILE.old. \"-\": to standard output, as a pipe"},
	{.name = "switch-output", .arg = "WHEN", .set = set_switch_output, .offset = AT(rotation),
	 .flags = OPTION_ARG_OPTIONAL, .help = "Go on in another file, FILE.TIMESTAMP: on SIGUSR2 or the control command "
						"snapshot (signal, the default), each SIZE (100M), or each time (30s, 5m)"},
	{.name = "switch-output-event", .arg = "EVENT", .set = set_event, .offset = AT(switch_events),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Also on each sample of these events, which are not recorded themselves: --switch-output comes with it"},
	{.name = "flight", .arg = "TIME[,SIZE]", .set = set_flight, .offset = AT(rotation), .flags = OPTION_NO_NEGATE,
	 .help = "Keep the last TIME (30s) in memory, of at most SIZE (64M), compressed; write FILE.TIMESTAMP only when "
		 "asked: SIGUSR2, the control command snapshot, --switch-output-event"},
	{.name = "flight-post", .arg = "TIME", .set = set_flight_post, .offset = AT(rotation.post_ns),
	 .flags = OPTION_NO_NEGATE, .help = "And what comes within TIME after that"},
	{.name = "switch-max-files", .arg = "N", .set = option_set_u64, .offset = AT(max_files),
	 .flags = OPTION_NO_NEGATE, .help = "Keep only the last N of these files"},
	{.name = "timestamp-filename", .set = option_set_flag, .offset = AT(timestamp_name),
	 .help = "Add the time of its end to the name of the file"},
	{.name = "timestamp-boundary", .set = option_set_flag, .offset = AT(timestamp_boundary),
	 .help = "Store the times of the first and the last sample, which is always done"},
	{.name = "tail-synthesize", .set = option_set_flag, .offset = AT(tail_synthesize),
	 .help = "Describe tasks and maps as they are at the end of a file, not at its start"},
	{.name = "max-size", .arg = "SIZE", .set = set_max_size, .offset = AT(max_bytes),
	 .flags = OPTION_NO_NEGATE, .help = "End when a file is this long"},
	{.letter = 'm', .name = "mmap-pages", .arg = "SIZE", .set = set_ring_pages, .offset = AT(ring_pages),
	 .flags = OPTION_NO_NEGATE, .help = "Size of each ring in pages, or with K, M, G; rounded up to a power of two"},
	{.name = "overwrite", .set = option_set_flag, .offset = AT(sampling.overwrite),
	 .help = "A flight recorder: rings are overwritten for ever, and what they hold is written at the end. One event "
		 "alone: EVENT/overwrite/, and EVENT/no-overwrite/ beside this"},
	{.name = "side-channel", .arg = "WHEN", .set = set_side_channel, .offset = AT(no_side_channel),
	 .help = "on: what tasks do (maps, names, forks, exits) has rings of its own and is not lost with samples; off: it "
		 "shares the rings of the first event, as in perf. Default: on"},
	{.name = "mmap-flush", .arg = "SIZE", .set = set_flush, .offset = AT(flush_bytes),
	 .flags = OPTION_NO_NEGATE, .help = "Leave less than this in a ring for a later pass. Default: a sixteenth of "
					     "the ring"},
	{.name = "writer", .arg = "NAME[,KEY=VALUE]", .set = set_writer, .offset = AT(writer), .family = "writer",
	 .flags = OPTION_NO_NEGATE, .help = "How the file is written: serial, mmap[,window=SIZE], aio[,blocks=N], "
					     "uring[,blocks=N], direct[,blocks=N,block=SIZE] (past the page cache), null "
					     "(to nowhere), auto"},
	{.name = "aio", .arg = "N", .set = set_aio, .offset = AT(writer), .family = "writer", .flags = OPTION_ARG_OPTIONAL,
	 .help = "Asynchronous: --writer=aio with N staging blocks for each ring. Default: 1"},
	{.name = "mmap-output", .arg = "SIZE", .set = set_mmap_output, .offset = AT(writer), .family = "writer",
	 .flags = OPTION_ARG_OPTIONAL, .help = "Mapped: --writer=mmap with windows of SIZE. Default: 64M"},
	{.name = "buffer-memory", .arg = "SIZE", .set = set_buffer, .offset = AT(buffer_bytes), .flags = OPTION_NO_NEGATE,
	 .help = "Memory between draining and writing, for all rings together: bridges storage that stalls. Default: none, "
		 "or 64M with -z"},
	{.name = "max-memory", .arg = "SIZE", .set = set_max_memory, .offset = AT(max_memory), .flags = OPTION_NO_NEGATE,
	 .help = "All rings and the memory before the writer together take no more; rings grow as far as that lets them, also beside "
		 "-m. Default: to 8M each at most, and together to a thirty-second of the memory; with -m they do not"},
	{.name = "max-cpu", .arg = "PERCENT", .set = set_max_cpu, .offset = AT(max_cpus), .flags = OPTION_NO_NEGATE,
	 .help = "While events flow the recorder uses no more than PERCENT of one CPU's time, all its threads together: it compresses "
		 "less or not at all, then drains less often; what rings lose by that is counted as shed. Default: any"},
	{.name = "on-pressure", .arg = "WHAT", .set = set_on_pressure, .offset = AT(on_pressure), .flags = OPTION_NO_NEGATE,
	 .help = "When that memory is full: drop: what does not fit into the rings is lost and counted; trim: before that "
		 "stack dumps are cut short and counted; freeze: the command, or the tasks of -p and -t, are stopped until there is room. Default: drop"},
	{.letter = 'z', .name = "compression-level", .arg = "LEVEL", .set = set_compression, .offset = AT(compression_level),
	 .flags = OPTION_ARG_OPTIONAL, .help = "Compress the records (zstd) at LEVEL, 1 to 22. Default: 1"},
	{.name = "threads", .arg = "SPEC", .set = set_threads, .offset = AT(threads), .flags = OPTION_ARG_OPTIONAL,
	 .help = "Drain with several threads into a data directory: one for each cpu (default), core, package, socket or "
		 "numa node, or by masks CPUS/AFFINITY:CPUS/AFFINITY…; without it: one, or one for each 8 of more CPUs than that, into "
		 "one file; --no-threads: one"},
	{.name = "single-file", .set = option_set_flag, .offset = AT(single_file),
	 .help = "With --threads: into one ordinary file, as always into a pipe, rather than into a directory"},
	{.letter = 'r', .name = "realtime", .arg = "PRIO", .set = set_realtime, .offset = AT(realtime),
	 .flags = OPTION_NO_NEGATE, .help = "Drain the rings with this real-time priority (SCHED_FIFO)"},
	{.letter = 'B', .name = "no-buildid", .set = option_set_flag, .offset = AT(no_build_ids),
	 .flags = OPTION_NO_NEGATE, .help = "Do not look up the build-ids of what was hit: a faster end, but symbols "
					     "may not be found later"},
	{.name = "sync", .arg = "SECONDS", .set = set_sync, .offset = AT(sync_ms), .flags = OPTION_NO_NEGATE,
	 .help = "Send what was written to the disk that often: all that a power cut can take. Default: when the kernel "
		 "does"},
	{.name = "fail-on-loss", .arg = "PCT", .set = set_fail_on_loss, .offset = AT(fail_on_loss),
	 .flags = OPTION_ARG_OPTIONAL, .help = "Exit with status 3 when more than PCT percent of the events were lost. "
						 "Default: 0"},
	{.name = "buildid-all", .set = option_set_flag, .offset = AT(all_build_ids),
	 .help = "The build-ids of all objects that were mapped, hit or not"},
	{.name = "bundle", .set = option_set_flag, .offset = AT(bundle),
	 .help = "Copy the objects that were hit, with their debug information, and the kernel's symbols into the directory "
		 "FILE.bundle: report and script on another machine look there first"},
	{.name = "buildid-mmap", .set = option_set_flag, .offset = AT(sampling.map_build_ids),
	 .help = "The build-ids in the records of maps: they need not be looked up at the end"},
	{.letter = 'N', .name = "no-buildid-cache", .set = option_set_flag, .offset = AT(no_build_id_cache),
	 .help = "Copy no objects into a cache: millrace never does"},
	{.name = "synth", .arg = "TYPE,…", .set = set_synth, .offset = AT(synth), .flags = OPTION_NO_NEGATE,
	 .help = "What to tell of tasks that run already: all, no, task, mmap, cgroup. Default: all"},
	{.name = "num-thread-synthesize", .arg = "N", .set = set_small_number, .offset = AT(synth.nr_threads),
	 .flags = OPTION_NO_NEGATE, .help = "Look at them with N threads. Default: 1"},
	{.name = "proc-map-timeout", .arg = "MS", .set = set_small_number, .offset = AT(synth.maps_timeout_ms),
	 .flags = OPTION_NO_NEGATE, .help = "Give up the maps of a process after so many milliseconds. Default: never"},
	{.name = "affinity", .arg = "WHERE", .set = set_affinity, .offset = 0, .flags = OPTION_NO_NEGATE,
	 .help = "With --threads: threads that stay on the cpu or the node of their rings"},
	{.name = "no-buffering", .set = option_set_flag, .offset = AT(sampling.no_buffering),
	 .help = "Wake up for every record: sooner in the file, at a high cost"},
	{.name = "dry-run", .set = option_set_flag, .offset = AT(dry_run), .flags = OPTION_NO_DEFAULT,
	 .help = "Check the command line and end"},
	{.letter = 'q', .name = "quiet", .set = option_set_flag, .offset = AT(quiet), .family = "talk",
	 .flags = OPTION_NO_NEGATE, .help = "Print nothing but errors"},
	{.letter = 'v', .name = "verbose", .set = option_set_count, .offset = AT(verbose), .family = "talk",
	 .flags = OPTION_NO_NEGATE, .help = "Tell what is done; twice: in detail"},

	/* Of perf record, and not here: refused by name. */
	{.letter = 'S', .name = "snapshot", .arg = "OPTS", .set = refuse_option,
	 .flags = REFUSED | OPTION_ARG_OPTIONAL,
	 .help = "AUX area tracing (Intel PT, CoreSight) is not recorded here: use perf record -S"},
	{.name = "aux-sample", .arg = "OPTS", .set = refuse_option,
	 .flags = REFUSED | OPTION_ARG_OPTIONAL,
	 .help = "AUX area tracing (Intel PT, CoreSight) is not recorded here: use perf record --aux-sample"},
	{.name = "clang-opt", .arg = "OPTIONS", .set = refuse_option,
	 .flags = REFUSED,
	 .help = "no BPF programs are compiled here: load the program with bpftool, and record its tracepoints"},
	{.name = "clang-path", .arg = "PATH", .set = refuse_option,
	 .flags = REFUSED,
	 .help = "no BPF programs are compiled here: load the program with bpftool, and record its tracepoints"},
	{.name = "vmlinux", .arg = "FILE", .set = refuse_option,
	 .flags = REFUSED,
	 .help = "only BPF programs need it in a recording, which are not compiled here; millrace report finds vmlinux by itself"},
	{.name = "off-cpu", .set = refuse_option,
	 .flags = REFUSED,
	 .help = "needs a BPF program in the kernel; what tasks wait for is told by -e sched:sched_switch -g"},
	{.name = "kcore", .set = refuse_option,
	 .flags = REFUSED,
	 .help = "copies of kernel code are not kept; take one with: perf buildid-cache --kcore /proc/kcore"},
	{.name = "debuginfod", .arg = "URLS", .set = refuse_option,
	 .flags = REFUSED | OPTION_ARG_OPTIONAL,
	 .help = "recording fetches nothing; readers do when DEBUGINFOD_URLS is set"},
	{.set = NULL},
};
