/* SPDX-License-Identifier: MIT */
/* The table of millrace record's options, and what their arguments mean. */
#include "cmd/record/record.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/diag.h"
#include "cmd/cli/command.h"
#include "cmd/cli/option.h"
#include "compress/zstd.h"
#include "event/names/registers.h"
#include "event/parse/configure.h"
#include "event/parse/event.h"
#include "record/setup/options.h"

/* -I, --user-regs */
static int set_registers(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)negated;
	if (arg)
		return registers_parse(arg, value, reterr);
	*(uint64_t *)value = registers_all();
	return *(uint64_t *)value ? 0
				  : diag_set(reterr, -EINVAL, "the registers of this architecture are not known here");
}

static int set_branch_filter(const struct option *option, const char *arg, bool negated, void *value,
			     struct diag *reterr)
{
	(void)option;
	if (negated) {
		*(uint64_t *)value = 0;
		return 0;
	}
	if (*(uint64_t *)value)
		return diag_set(reterr, -EINVAL, "-b and -j exclude each other, and are given once: -j takes a list");
	return branch_filter_parse(arg, value, reterr);
}

/* -b, -j: PERF_SAMPLE_BRANCH_*. */
static int set_branch_any(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)arg;
	return set_branch_filter(option, "any", negated, value, reterr);
}

/* -k, into a struct event_options. */
static int set_clockid(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	static const struct {
		const char *name, *abbreviation;
		int clockid;
	} clocks[] = {
		{"monotonic", "mono", CLOCK_MONOTONIC},
		{"monotonic_raw", "raw", CLOCK_MONOTONIC_RAW},
		{"realtime", "real", CLOCK_REALTIME},
		{"boottime", "boot", CLOCK_BOOTTIME},
		{"tai", "tai", CLOCK_TAI},
	};
	struct event_options *sampling = value;
	const char *name = strncasecmp(arg, "CLOCK_", 6) ? arg : arg + 6;
	struct timespec now;
	char *end;
	long number = strtol(arg, &end, 10);

	(void)option, (void)negated;
	sampling->use_clockid = true;
	for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
		if (!strcasecmp(name, clocks[i].name) || !strcasecmp(name, clocks[i].abbreviation)) {
			sampling->clockid = clocks[i].clockid;
			return 0;
		}
	}
	sampling->clockid = (int)number;
	if (*arg && !*end && number >= 0 && number < 64 && clock_gettime((clockid_t)number, &now) == 0)
		return 0;
	return diag_set(
		reterr, -EINVAL,
		"\"%s\" is no clock; there are monotonic, monotonic_raw, realtime, boottime, tai, or a number of "
		"clock_gettime(2)",
		arg);
}

/* --off-cpu, into the struct of struct event_options. */
static int set_off_cpu(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {"", 1000000}};
	enum { DEFAULT_NS = 1000 };
	struct event_options *sampling = (void *)((char *)value - offsetof(struct event_options, off_cpu));
	char *end = NULL;

	(void)option;
	sampling->off_cpu.on = !negated;
	sampling->off_cpu.min_ns = DEFAULT_NS;
	if (negated || !arg)
		return 0;
	double number = strtod(arg, &end);
	for (size_t i = 0; end != arg && number >= 0 && i < sizeof(units) / sizeof(units[0]); i++) {
		double ns = number * (double)units[i].ns;
		if (strcmp(end, units[i].unit) || ns > 1e18)
			continue;
		sampling->off_cpu.min_ns = (uint64_t)ns;
		return 0;
	}
	return diag_set(reterr, -EINVAL, "\"%s\" is no time: 500ns, 10us, 1ms, 1s; 0 for each time", arg);
}

/* -G, into a struct record_options. */
static int set_cgroups(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	struct record_options *options = value;

	(void)option, (void)negated;
	int err = cgroup_assign(&options->events, arg, &options->nr_cgroups, reterr);
	/* One name for all the events so far. */
	if (!err && options->nr_cgroups == 1)
		err = cgroup_assign_all(&options->events, arg, reterr);
	return err;
}

/* --synth, into a struct synth_options. */
static int set_synth(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	struct synth_options *synth = value;
	bool tasks = false, maps = false, cgroups = false;

	(void)option, (void)negated;
	for (const char *word = arg;;) {
		size_t len = strcspn(word, ",");
		bool all = len == 3 && !strncmp(word, "all", len), no = len == 2 && !strncmp(word, "no", len);
		bool task = len == 4 && !strncmp(word, "task", len), map = len == 4 && !strncmp(word, "mmap", len);
		bool cgroup = len == 6 && !strncmp(word, "cgroup", len);
		if (!all && !no && !task && !map && !cgroup)
			return diag_set(reterr, -EINVAL, "\"%.*s\" is none of no, all, task, mmap, cgroup", (int)len,
					word);
		tasks |= all || task;
		maps |= all || map;
		cgroups |= all || cgroup;
		if (!word[len])
			break;
		word += len + 1;
	}
	synth->no_tasks = !tasks;
	synth->no_maps = !maps;
	synth->no_cgroups = !cgroups;
	return 0;
}

/* A number from 1 to 1000000. */
static int set_small_number(const struct option *option, const char *arg, bool negated, void *value,
			    struct diag *reterr)
{
	enum { MOST = 1000000 };
	uint64_t number = 0;
	int err = option_set_u64(option, arg, negated, &number, reterr);

	if (!err && (number < 1 || number > MOST))
		err = diag_set(reterr, -EINVAL, "\"%s\" is not from 1 to %d", arg, MOST);
	if (!err)
		*(unsigned *)value = (unsigned)number;
	return err;
}

/* --affinity, into a struct record_options. */
static int set_affinity(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	struct record_options *options = value;

	(void)option, (void)negated;
	if (strcmp(arg, "cpu") && strcmp(arg, "node"))
		return diag_set(reterr, -EINVAL, "\"%s\" is neither cpu nor node", arg);
	options->affinity = arg;
	return 0;
}

/* An option of perf record that is not here: its help says why and what to use. */
/* What is held in memory becomes one whole file, when it is asked for. */
static int check_history(const struct record_options *options, struct diag *reterr)
{
	const struct rotation_spec *spec = &options->rotation;

	if (spec->post_ns && !spec->history_ns)
		return diag_set(reterr, -EINVAL, "--flight-post needs --flight");
	if (!spec->history_ns)
		return 0;
	if (spec->bytes || spec->period_ns || options->max_bytes)
		return diag_set(reterr, -EINVAL,
				"--flight writes on request: --switch-output=SIZE or TIME and --max-size do not go "
				"with it");
	if (options->tail_synthesize)
		return diag_set(
			reterr, -EINVAL,
			"--flight stores the tasks and maps of its start: --tail-synthesize does not go with it");
	if (options->output && !strcmp(options->output, "-"))
		return diag_set(reterr, -EINVAL, "--flight writes files: name them with -o");
	return 0;
}

/* It is made of the build-ids in a file that is there at the end. */
static int check_bundle(const struct record_options *options, struct diag *reterr)
{
	const struct rotation_spec *spec = &options->rotation;

	if (!options->bundle)
		return 0;
	if (options->no_build_ids || options->sampling.map_build_ids)
		return diag_set(reterr, -EINVAL,
				"--bundle copies what the build-ids at the end of the file name: neither -B nor "
				"--buildid-mmap go with it");
	if (spec->on || spec->history_ns || options->switch_events.nr)
		return diag_set(reterr, -EINVAL,
				"--bundle is for one file: --switch-output and --flight do not go with it");
	if (options->output && !strcmp(options->output, "-"))
		return diag_set(reterr, -EINVAL, "--bundle makes a directory beside the file: name the file with -o");
	return 0;
}

/* Tasks that were not named on the command line are never stopped. */
static int check_pressure(const struct record_options *options, struct diag *reterr)
{
	if (options->on_pressure != ON_PRESSURE_FREEZE)
		return 0;
	if (options->target.user)
		return diag_set(reterr, -EINVAL,
				"--on-pressure=freeze does not go with -u: it would stop shells and terminals, too");
	if (options->rotation.history_ns)
		return diag_set(reterr, -EINVAL,
				"--on-pressure=freeze does not go with --flight, which drops what is old");
	if (options->max_cpus)
		return diag_set(reterr, -EINVAL,
				"--max-cpu and --on-pressure=freeze exclude each other: one gives up events for CPU "
				"time, the other none");
	return 0;
}

int record_options_check(const struct record_options *options, struct diag *reterr)
{
	const struct event_options *sampling = &options->sampling;

	if (sampling->freq_hz && sampling->period)
		return diag_set(reterr, -EINVAL, "-F and -c exclude each other: a frequency, or a period");
	if (sampling->all_kernel && sampling->all_user)
		return diag_set(reterr, -EINVAL,
				"--all-kernel and --all-user exclude each other: leave out both for all");
	if (sampling->kernel_callchains && sampling->user_callchains)
		return diag_set(reterr, -EINVAL,
				"--kernel-callchains and --user-callchains exclude each other: leave out both for all");
	if (options->affinity && !options->threads.given)
		return diag_set(
			reterr, -EINVAL,
			"--affinity: one thread drains the rings of all CPUs and cannot stay on one: use --threads=%s",
			strcmp(options->affinity, "cpu") ? "numa" : "cpu");
	if (options->nr_cgroups && !options->target.all_cpus && !options->target.cpu_list)
		return diag_set(reterr, -EINVAL, "-G counts on CPUs, not in tasks: add -a or -C");
	if (options->latency && (options->target.all_cpus || options->target.cpu_list))
		return diag_set(reterr, -EINVAL,
				"--latency is about the time of one program: leave out -a and -C, or use "
				"--switch-events");
	if (options->sampling.off_cpu.wakers && !options->sampling.off_cpu.on)
		return diag_set(reterr, -EINVAL, "--off-cpu-wakers goes with --off-cpu");
	int err = check_bundle(options, reterr);
	if (!err)
		err = check_history(options, reterr);
	return err ? err : check_pressure(options, reterr);
}

/* trigger_option: setters of the options that say when something happens while recording. See option.h. */
static int set_delay(const struct option *option, const char *arg, bool negated, void *enable_times,
		     struct diag *reterr)
{
	(void)option, (void)negated;
	return enable_times_parse(arg, enable_times, reterr);
}

static int set_control(const struct option *option, const char *arg, bool negated, void *control_spec,
		       struct diag *reterr)
{
	(void)option, (void)negated;
	return control_parse(arg, control_spec, reterr);
}

static int set_switch_output(const struct option *option, const char *arg, bool negated, void *rotation_spec,
			     struct diag *reterr)
{
	struct rotation_spec *spec = rotation_spec;

	(void)option;
	if (negated) {
		*spec = (struct rotation_spec){0};
		return 0;
	}
	return rotation_spec_parse(arg ? arg : "signal", spec, reterr);
}

static int set_history(const struct option *option, const char *arg, bool negated, void *rotation_spec,
		       struct diag *reterr)
{
	(void)option, (void)negated;
	return rotation_spec_parse_history(arg, rotation_spec, reterr);
}

static int set_history_post(const struct option *option, const char *arg, bool negated, void *uint64_ns,
			    struct diag *reterr)
{
	(void)option, (void)negated;
	return rotation_spec_parse_time(arg, uint64_ns, reterr);
}

static int set_max_size(const struct option *option, const char *arg, bool negated, void *uint64_value,
			struct diag *reterr)
{
	(void)option, (void)negated;
	if (option_parse_size(arg, uint64_value) || !*(uint64_t *)uint64_value)
		return diag_set(reterr, -EINVAL, "\"%s\" is no size such as 100M", arg);
	return 0;
}

/* The table of millrace record's options, and what their arguments mean. */
static int set_pfm_events(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
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
	(void)option, (void)arg;
	return negated ? 0 : event_list_leave_out_recorder(value, reterr);
}

/* "128" is pages, "4M" bytes; either is rounded up to a power of two. */
static int parse_ring_pages(const char *arg, size_t *ret, struct diag *reterr)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), pages = 1;
	uint64_t number;
	char *end;

	errno = 0;
	number = strtoull(arg, &end, 10);
	if (errno || end == arg || *arg == '-' || (*end && option_parse_size(arg, &number)))
		return diag_set(reterr, -EINVAL, "\"%s\" is neither a number of pages nor a size such as 512K or 4M",
				arg);
	if (*end)
		number = (number + page_bytes - 1) / page_bytes;
	if (!number || number > (SIZE_MAX / 4) / page_bytes)
		return diag_set(reterr, -EINVAL, "\"%s\" is no possible size of a ring", arg);
	while (pages < number)
		pages *= 2;
	*ret = pages;
	return 0;
}

static int set_ring_pages(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)negated;
	return parse_ring_pages(arg, value, reterr);
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
		return diag_set(reterr, -EINVAL, "\"%s\" is no percentage of one CPU from %g to %.0f, such as 20", arg,
				least, most);
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
	return !err && !*(uint64_t *)value ? diag_set(reterr, -EINVAL, "a frequency must be at least 1") : err;
}

static int set_period(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)negated;
	int err = option_set_u64(option, arg, false, value, reterr);
	return !err && !*(uint64_t *)value ? diag_set(reterr, -EINVAL, "a period must be at least 1") : err;
}

static int set_callgraph_fp(const struct option *option, const char *arg, bool negated, void *value,
			    struct diag *reterr)
{
	(void)option, (void)arg, (void)reterr;
	struct event_options *sampling = value;
	sampling->callgraph = negated ? CALLGRAPH_NONE : CALLGRAPH_FP;
	sampling->no_callgraph = negated;
	return 0;
}

static int set_dump_bytes(const char *mode, const char *text, struct event_options *sampling, struct diag *reterr)
{
	uint64_t bytes;
	int err = option_parse_size(text, &bytes);

	bytes = (bytes + 7) / 8 * 8;
	if (err || !bytes || bytes > EVENT_DUMP_BYTES_MAX)
		return diag_set(reterr, -EINVAL, "%s,%s: the copy of the stack must have 8 to %d bytes", mode, text,
				EVENT_DUMP_BYTES_MAX);
	sampling->dump_bytes = (uint32_t)bytes;
	return 0;
}

static int set_max_stack(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	enum { MOST = 1024 };
	uint64_t frames = 0;
	int err = option_set_u64(option, arg, negated, &frames, reterr);

	if (err)
		return err;
	if (!frames || frames > MOST)
		return diag_set(reterr, -EINVAL, "--max-stack must be 1 to %d frames", MOST);
	*(unsigned *)value = (unsigned)frames;
	return 0;
}

static int set_callgraph(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option;
	struct event_options *sampling = value;

	sampling->no_callgraph = negated || !strcmp(arg, "no");
	if (sampling->no_callgraph) {
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
		return arg[5] ? set_dump_bytes("dwarf", arg + 6, sampling, reterr) : 0;
	}
	if (!strncmp(arg, "unwind", 6) && (!arg[6] || arg[6] == ',')) {
		sampling->callgraph = CALLGRAPH_UNWIND;
		sampling->dump_bytes = EVENT_UNWIND_BYTES;
		return arg[6] ? set_dump_bytes("unwind", arg + 7, sampling, reterr) : 0;
	}
	return diag_set(reterr, -EINVAL, "\"%s\" is none of fp, unwind, unwind,SIZE, dwarf, dwarf,SIZE, lbr, no", arg);
}

static int set_realtime(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
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

static int set_compression(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
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
	struct record_options *options = value;

	(void)option;
	options->side_channel.off = negated || !strcmp(arg, "off");
	options->side_channel.ring_pages = 0;
	if (options->side_channel.off || !strcmp(arg, "on"))
		return 0;
	if (parse_ring_pages(arg, &options->side_channel.ring_pages, reterr))
		return diag_set(reterr, -EINVAL, "\"%s\" is neither on nor off nor a size such as 4M", arg);
	return 0;
}

static int set_timestamps(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
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

static int set_lean(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option;
	if (negated) {
		*(uint64_t *)value = 0;
		return 0;
	}
	return lean_fields_parse(arg ? arg : "period", value, reterr);
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

/* Into the options of record. */
static int set_durable(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	struct record_options *options = value;
	int err = set_sync(option, arg ? arg : "1", negated, &options->sync_ms, reterr);

	options->durable = !err;
	return err;
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

#define NO_AUX "AUX area tracing (Intel PT, CoreSight) is not recorded here: use perf record "
#define NO_BPF_PROGRAMS "no BPF programs are compiled here: load the program with bpftool, and record its tracepoints"

#define AT(field) offsetof(struct record_options, field)

const struct option record_option_table[] = {
	{.letter = 'e',
	 .name = "event",
	 .arg = "EVENT",
	 .set = set_event,
	 .offset = AT(events),
	 .flags = OPTION_NO_NEGATE,
	 .group = "What to record",
	 .help = "Events, separated by commas: cpu-clock, cycles:u, sched:*, cpu-clock/period=1000,name=x/. Default: "
		 "cycles, or cpu-clock where there is no hardware counter"},
	{.name = "pfm-events",
	 .arg = "EVENTS",
	 .set = set_pfm_events,
	 .offset = AT(events),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Events by the names of libpfm4, separated by commas: inst_retired:any_p:u; those in braces are a "
		 "group"},
	{.name = "filter",
	 .arg = "FILTER",
	 .set = set_filter,
	 .offset = AT(events),
	 .flags = OPTION_NO_NEGATE | OPTION_NO_DEFAULT,
	 .help = "Only events of the tracepoints of the last -e for which this is true: 'prev_pid == 0 || next_pid > "
		 "100'"},
	{.name = "exclude-perf",
	 .set = set_exclude_perf,
	 .offset = AT(events),
	 .flags = OPTION_NO_DEFAULT,
	 .help = "Only events of the tracepoints of the last -e that are not the recorder's own"},
	{.letter = 'F',
	 .name = "freq",
	 .arg = "HZ",
	 .set = set_freq,
	 .offset = AT(sampling.freq_hz),
	 .family = "rate",
	 .flags = OPTION_NO_NEGATE,
	 .help = "Samples per second of each event, or \"max\". Default: 4000"},
	{.letter = 'c',
	 .name = "count",
	 .arg = "N",
	 .set = set_period,
	 .offset = AT(sampling.period),
	 .family = "rate",
	 .flags = OPTION_NO_NEGATE,
	 .help = "One sample for every N events, instead of a frequency"},
	{.letter = 'g', .set = set_callgraph_fp, .offset = AT(sampling), .help = "Call chains by frame pointers"},
	{.name = "call-graph",
	 .arg = "MODE",
	 .values = "fp unwind dwarf lbr no",
	 .set = set_callgraph,
	 .offset = AT(sampling),
	 .help = "Call chains: fp (frame pointers), unwind[,SIZE] (the kernel copies SIZE bytes of the stack, default "
		 "16384; they are unwound while recording, and only chains are stored), dwarf[,SIZE] (the copies are "
		 "stored, to unwind them later; default 8192), lbr (branch records of the CPU)"},

	{.name = "max-stack",
	 .arg = "N",
	 .set = set_max_stack,
	 .offset = AT(sampling.max_stack),
	 .help = "Frames of a call chain at most, the kernel's among them; default 127, and with unwind up to 1024"},

	{.name = "group",
	 .set = option_set_flag,
	 .offset = AT(sampling.group),
	 .help = "All events in one group: counted at the same times"},
	{.name = "kernel-callchains",
	 .set = option_set_flag,
	 .offset = AT(sampling.kernel_callchains),
	 .help = "Only the kernel's part of call chains"},
	{.name = "user-callchains",
	 .set = option_set_flag,
	 .offset = AT(sampling.user_callchains),
	 .help = "Only the user's part of call chains"},
	{.name = "all-kernel",
	 .set = option_set_flag,
	 .offset = AT(sampling.all_kernel),
	 .help = "All events in the kernel only, whatever their modifiers say"},
	{.name = "all-user",
	 .set = option_set_flag,
	 .offset = AT(sampling.all_user),
	 .help = "All events in user space only, whatever their modifiers say"},
	{.name = "strict-freq",
	 .set = option_set_flag,
	 .offset = AT(sampling.strict_freq),
	 .help = "Fail when the kernel does not allow the frequency of -F, instead of lowering it"},
	{.name = "switch-events",
	 .set = option_set_flag,
	 .offset = AT(sampling.switches),
	 .help = "Also a record for each context switch"},
	{.name = "latency",
	 .set = option_set_flag,
	 .offset = AT(latency),
	 .help = "Also what report --latency needs: --switch-events"},
	{.name = "off-cpu",
	 .arg = "MIN_TIME",
	 .set = set_off_cpu,
	 .offset = AT(sampling.off_cpu),
	 .flags = OPTION_ARG_OPTIONAL,
	 .help = "Also the time that tasks are off the CPU, as event offcpu-time: a sample for each time of at least "
		 "MIN_TIME (default 1us), shorter ones added up; with the call chain of when they left, their "
		 "state, and as root who woke them"},
	{.name = "off-cpu-wakers",
	 .set = option_set_flag,
	 .offset = AT(sampling.off_cpu.wakers),
	 .help = "With --off-cpu: also the call chain of the task that woke them"},
	{.name = "namespaces",
	 .set = option_set_flag,
	 .offset = AT(sampling.namespaces),
	 .help = "Also which namespaces tasks are in"},
	{.name = "all-cgroups",
	 .set = option_set_flag,
	 .offset = AT(sampling.cgroups),
	 .help = "Also the cgroup of each sample, and the names of all cgroups"},
	{.name = "no-bpf-event",
	 .set = option_set_flag,
	 .offset = AT(sampling.no_bpf_events),
	 .help = "No records about BPF programs"},

	{.letter = 'a',
	 .name = "all-cpus",
	 .set = option_set_flag,
	 .offset = AT(target.all_cpus),
	 .flags = OPTION_NO_DEFAULT,
	 .group = "Which tasks and CPUs",
	 .help = "Everything that runs, on all CPUs"},
	{.letter = 'C',
	 .name = "cpu",
	 .arg = "LIST",
	 .set = option_set_string,
	 .offset = AT(target.cpu_list),
	 .flags = OPTION_NO_NEGATE | OPTION_NO_DEFAULT,
	 .help = "Only these CPUs: 0-3,7"},
	{.letter = 'p',
	 .name = "pid",
	 .arg = "PID,…",
	 .set = option_set_string,
	 .offset = AT(target.pids),
	 .flags = OPTION_NO_NEGATE | OPTION_NO_DEFAULT,
	 .help = "Running processes, with all their threads and future children"},
	{.letter = 't',
	 .name = "tid",
	 .arg = "TID,…",
	 .set = option_set_string,
	 .offset = AT(target.tids),
	 .flags = OPTION_NO_NEGATE | OPTION_NO_DEFAULT,
	 .help = "Running threads, and only these"},
	{.letter = 'u',
	 .name = "uid",
	 .arg = "USER",
	 .set = option_set_string,
	 .offset = AT(target.user),
	 .flags = OPTION_NO_NEGATE | OPTION_NO_DEFAULT,
	 .help = "The running processes of a user, by name or number"},
	{.letter = 'G',
	 .name = "cgroup",
	 .arg = "NAME,…",
	 .set = set_cgroups,
	 .offset = 0,
	 .flags = OPTION_NO_NEGATE | OPTION_NO_DEFAULT,
	 .help = "With -a or -C: the events before it only in these cgroups, one for each event, or one for all"},
	{.letter = 'i',
	 .name = "no-inherit",
	 .set = option_set_flag,
	 .offset = AT(no_inherit),
	 .help = "Do not follow into children"},
	{.name = "per-thread",
	 .set = option_set_flag,
	 .offset = AT(target.per_thread),
	 .help = "A ring for each thread instead of one for each CPU"},
	{.letter = 'D',
	 .name = "delay",
	 .arg = "MS",
	 .set = set_delay,
	 .offset = AT(times),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Start recording MS milliseconds after the program; -1: start disabled; "
		 "10-20,30-40: record in these ranges of time only"},
	{.name = "control",
	 .arg = "WHERE",
	 .set = set_control,
	 .offset = AT(control),
	 .flags = OPTION_NO_NEGATE,
	 .help = "fd:CTL[,ACK] or fifo:CTL[,ACK]: take commands while recording: enable [EVENT], disable [EVENT], "
		 "evlist [-v|-g|-F], snapshot, ping, stop; each is acknowledged with \"ack\""},

	{.letter = 'd',
	 .name = "data",
	 .set = option_set_flag,
	 .offset = AT(sampling.addresses),
	 .group = "What each sample holds",
	 .help = "The data address"},
	{.letter = 'T', .name = "timestamp", .set = set_timestamps, .offset = AT(sampling), .help = "The time"},
	{.letter = 'P', .name = "period", .set = set_periods, .offset = AT(sampling), .help = "The period"},
	{.name = "lean",
	 .arg = "FIELDS",
	 .values = "period ip",
	 .set = set_lean,
	 .offset = AT(sampling.lean),
	 .flags = OPTION_ARG_OPTIONAL,
	 .help = "Leave these out of samples of tracepoints: period, where it is always 1 (the default), ip; "
		 "--no-lean: "
		 "neither"},
	{.letter = 'R',
	 .name = "raw-samples",
	 .set = option_set_flag,
	 .offset = AT(sampling.raw),
	 .help = "The raw record of every counter (the default for tracepoints)"},
	{.letter = 's',
	 .name = "stat",
	 .set = option_set_flag,
	 .offset = AT(sampling.stat),
	 .help = "Counts per thread, too"},
	{.letter = 'W',
	 .name = "weight",
	 .set = option_set_flag,
	 .offset = AT(sampling.weights),
	 .help = "The weight: what the instruction cost, for events of PMUs that measure it"},
	{.name = "transaction",
	 .set = option_set_flag,
	 .offset = AT(sampling.transactions),
	 .help = "Flags of hardware transactions, for events of PMUs that have them"},
	{.name = "phys-data",
	 .set = option_set_flag,
	 .offset = AT(sampling.physical_addresses),
	 .help = "The physical address of the data"},
	{.name = "data-page-size",
	 .set = option_set_flag,
	 .offset = AT(sampling.data_page_sizes),
	 .help = "The size of the page that the data is on"},
	{.name = "code-page-size",
	 .set = option_set_flag,
	 .offset = AT(sampling.code_page_sizes),
	 .help = "The size of the page that the instruction is on"},
	{.letter = 'I',
	 .name = "intr-regs",
	 .arg = "REGS",
	 .set = set_registers,
	 .offset = AT(sampling.intr_regs),
	 .flags = OPTION_ARG_OPTIONAL | OPTION_NO_NEGATE,
	 .help = "Registers of the interrupted code: a list such as ax,ip; \"?\" lists them. Default: all"},
	{.name = "user-regs",
	 .arg = "REGS",
	 .set = set_registers,
	 .offset = AT(sampling.user_regs),
	 .flags = OPTION_ARG_OPTIONAL | OPTION_NO_NEGATE,
	 .help = "Registers of user space: a list; \"?\" lists them. Default: all"},
	{.letter = 'b',
	 .name = "branch-any",
	 .set = set_branch_any,
	 .offset = AT(sampling.branches),
	 .family = "branches",
	 .help = "The last branches taken, of CPUs that record them"},
	{.letter = 'j',
	 .name = "branch-filter",
	 .arg = "KIND,…",
	 .values = "any any_call any_ret ind_call ind_jmp call cond abort_tx in_tx no_tx stack u k hv save_type priv",
	 .set = set_branch_filter,
	 .offset = AT(sampling.branches),
	 .family = "branches",
	 .flags = OPTION_NO_NEGATE,
	 .help = "The last branches of these kinds: any, any_call, any_ret, ind_call, ind_jmp, call, cond, abort_tx, "
		 "in_tx, no_tx, stack; u, k, hv; save_type, priv"},
	{.name = "sample-cpu", .set = option_set_flag, .offset = AT(sampling.cpus), .help = "The CPU"},
	{.name = "sample-identifier",
	 .set = option_set_flag,
	 .offset = AT(sampling.identifiers),
	 .help = "The event's id at a fixed place"},
	{.name = "running-time",
	 .set = option_set_flag,
	 .offset = AT(sampling.running_times),
	 .help = "How long the event was enabled and how long it ran, where values are read (:S)"},
	{.letter = 'k',
	 .name = "clockid",
	 .arg = "CLOCK",
	 .values = "monotonic monotonic_raw realtime boottime tai",
	 .set = set_clockid,
	 .offset = AT(sampling),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Which clock the times are of: monotonic, monotonic_raw, realtime, boottime, tai, or a number"},
	{.letter = 'n',
	 .name = "no-samples",
	 .set = option_set_flag,
	 .offset = AT(sampling.no_samples),
	 .help = "No samples, only side-band records"},

	{.letter = 'o',
	 .name = "output",
	 .arg = "FILE",
	 .set = option_set_path,
	 .offset = AT(output),
	 .flags = OPTION_NO_NEGATE,
	 .group = "Output",
	 .help = "Default: perf.data. One that exists is kept as FILE.old. \"-\": to standard output, as a pipe"},
	{.name = "switch-output",
	 .arg = "WHEN",
	 .set = set_switch_output,
	 .offset = AT(rotation),
	 .flags = OPTION_ARG_OPTIONAL,
	 .help = "Continue in another file, FILE.TIMESTAMP: on SIGUSR2 or the control command snapshot (signal, the "
		 "default), each SIZE (100M), or each time (30s, 5m)"},
	{.name = "switch-output-event",
	 .arg = "EVENT",
	 .set = set_event,
	 .offset = AT(switch_events),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Also on each sample of these events, which are not recorded themselves: --switch-output comes with "
		 "it"},
	{.name = "flight",
	 .arg = "TIME[,SIZE]",
	 .set = set_history,
	 .offset = AT(rotation),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Keep the last TIME (30s) in memory, of at most SIZE (64M), compressed; write FILE.TIMESTAMP only on "
		 "request: SIGUSR2, the control command snapshot, --switch-output-event"},
	{.name = "flight-post",
	 .arg = "TIME",
	 .set = set_history_post,
	 .offset = AT(rotation.post_ns),
	 .flags = OPTION_NO_NEGATE,
	 .help = "With --flight: the file also gets the records of TIME after the request"},
	{.name = "switch-max-files",
	 .arg = "N",
	 .set = option_set_u64,
	 .offset = AT(max_files),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Keep only the last N of these files"},
	{.name = "timestamp-filename",
	 .set = option_set_flag,
	 .offset = AT(timestamp_name),
	 .help = "Add the time of its end to the name of the file"},
	{.name = "timestamp-boundary",
	 .set = option_set_flag,
	 .offset = AT(timestamp_boundary),
	 .help = "Store the times of the first and the last sample, which is always done but with "
		 "-B and --buildid-mmap"},
	{.name = "tail-synthesize",
	 .set = option_set_flag,
	 .offset = AT(tail_synthesize),
	 .help = "Describe tasks and maps as they are at the end of a file, not at its start"},
	{.name = "max-size",
	 .arg = "SIZE",
	 .set = set_max_size,
	 .offset = AT(max_bytes),
	 .flags = OPTION_NO_NEGATE,
	 .help = "End when a file is this long"},
	{.letter = 'm',
	 .name = "mmap-pages",
	 .arg = "SIZE",
	 .set = set_ring_pages,
	 .offset = AT(ring_pages),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Size of each ring in pages, or with K, M, G; rounded up to a power of two"},
	{.name = "overwrite",
	 .set = option_set_flag,
	 .offset = AT(sampling.overwrite),
	 .help = "Let the kernel overwrite the oldest records in the rings, and write what the rings hold at the "
		 "end. For one event: EVENT/overwrite/; EVENT/no-overwrite/ excepts one"},
	{.name = "side-channel",
	 .arg = "WHEN",
	 .values = "on off",
	 .set = set_side_channel,
	 .help = "on: what tasks do (maps, names, forks, exits) has rings of its own and is not lost with samples; "
		 "SIZE: the same with rings of that size, in pages, or with K, M, G; off: it shares the rings of the "
		 "first event, as in perf. Default: on"},
	{.name = "mmap-flush",
	 .arg = "SIZE",
	 .set = set_flush,
	 .offset = AT(flush_bytes),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Drain a ring only when it holds SIZE or more. Default: a sixteenth of the ring"},
	{.name = "writer",
	 .arg = "NAME[,KEY=VALUE]",
	 .print_values = print_writers,
	 .set = set_writer,
	 .offset = AT(writer),
	 .family = "writer",
	 .flags = OPTION_NO_NEGATE,
	 .help = "How the file is written: serial, mmap[,window=SIZE], aio[,blocks=N], "
		 "direct (past the page cache), null "
		 "(to nowhere), auto"},
	{.name = "aio",
	 .arg = "N",
	 .set = set_aio,
	 .offset = AT(writer),
	 .family = "writer",
	 .flags = OPTION_ARG_OPTIONAL,
	 .help = "Asynchronous: --writer=aio with N staging blocks for each ring. Default: 1"},
	{.name = "mmap-output",
	 .arg = "SIZE",
	 .set = set_mmap_output,
	 .offset = AT(writer),
	 .family = "writer",
	 .flags = OPTION_ARG_OPTIONAL,
	 .help = "Mapped: --writer=mmap with windows of SIZE. Default: 64M"},
	{.name = "buffer-memory",
	 .arg = "SIZE",
	 .set = set_buffer,
	 .offset = AT(buffer_bytes),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Memory between draining and writing, for all rings together, for times in which storage stalls. "
		 "Default: an eighth of the available memory, at most 1G; 64M with --on-pressure=freeze"},
	{.name = "max-memory",
	 .arg = "SIZE",
	 .set = set_max_memory,
	 .offset = AT(max_memory),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Limit for all rings and the memory before the writer together. Default: rings take no more than "
		 "a thirty-second of the memory"},
	{.name = "max-cpu",
	 .arg = "PERCENT",
	 .set = set_max_cpu,
	 .offset = AT(max_cpus),
	 .flags = OPTION_NO_NEGATE,
	 .help = "While events flow the recorder uses no more than PERCENT of one CPU's time, all its threads "
		 "together: it compresses less or not at all, then drains less often; what rings lose by that is "
		 "counted as \"CPU limit\". Default: any"},
	{.name = "on-pressure",
	 .arg = "WHAT",
	 .values = "drop trim freeze",
	 .set = set_on_pressure,
	 .offset = AT(on_pressure),
	 .flags = OPTION_NO_NEGATE,
	 .help = "When the memory between draining and writing is full: drop: what does not fit into the rings is "
		 "lost and counted; trim: before that stack dumps are cut short and counted; freeze: the command, "
		 "or the tasks of -p and -t, are stopped until there is room. Default: drop"},
	{.letter = 'z',
	 .name = "compression-level",
	 .arg = "LEVEL",
	 .set = set_compression,
	 .offset = AT(compression_level),
	 .flags = OPTION_ARG_OPTIONAL,
	 .help = "Compress the records (zstd) at LEVEL, 1 to 22. Default: 1"},
	{.name = "threads",
	 .arg = "SPEC",
	 .set = set_threads,
	 .offset = AT(threads),
	 .flags = OPTION_ARG_OPTIONAL,
	 .help = "Drain with several threads into a data directory: one for each cpu (default), core, package, socket "
		 "or numa node, or by masks CPUS/AFFINITY:CPUS/AFFINITY…. Without this option: one thread, or with "
		 "more than 8 CPUs one for each 8 of them, into one file; --no-threads: one"},
	{.name = "single-file",
	 .set = option_set_flag,
	 .offset = AT(single_file),
	 .help = "With --threads: into one ordinary file, as always into a pipe, rather than into a directory"},
	{.letter = 'r',
	 .name = "realtime",
	 .arg = "PRIO",
	 .set = set_realtime,
	 .offset = AT(realtime),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Drain the rings with this real-time priority (SCHED_FIFO)"},
	{.letter = 'B',
	 .name = "no-buildid",
	 .set = option_set_flag,
	 .offset = AT(no_build_ids),
	 .help = "Do not look up the build-ids of the sampled objects: a faster end, but symbols "
		 "may not be found later"},
	{.name = "sync",
	 .arg = "SECONDS",
	 .set = set_sync,
	 .offset = AT(sync_ms),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Sync the output to the disk every SECONDS: a power cut loses no more than that. Default: when "
		 "the kernel writes it"},
	{.name = "durable",
	 .arg = "SECONDS",
	 .set = set_durable,
	 .offset = 0,
	 .flags = OPTION_ARG_OPTIONAL | OPTION_NO_NEGATE,
	 .help = "As --sync, every second by default, and the finished file is on the disk when record returns"},
	{.name = "wait-close",
	 .set = option_set_flag,
	 .offset = AT(wait_close),
	 .help = "Return only after the kernel has closed all events, which takes seconds with hundreds of "
		 "tracepoints"},
	{.name = "fail-on-loss",
	 .arg = "PCT",
	 .set = set_fail_on_loss,
	 .offset = AT(fail_on_loss),
	 .flags = OPTION_ARG_OPTIONAL,
	 .help = "Exit with status 3 when more than PCT percent of the events were lost. "
		 "Default: 0"},
	{.name = "buildid-all",
	 .set = option_set_flag,
	 .offset = AT(all_build_ids),
	 .help = "The build-ids of all objects that were mapped, sampled or not"},
	{.name = "bundle",
	 .set = option_set_flag,
	 .offset = AT(bundle),
	 .help = "Copy the sampled objects, with their debug information, and the kernel's symbols into the directory "
		 "FILE.bundle: report and script on another machine look there first"},
	{.name = "buildid-mmap",
	 .set = option_set_flag,
	 .offset = AT(sampling.map_build_ids),
	 .help = "The build-ids in the records of maps: they need not be looked up at the end"},
	{.letter = 'N',
	 .name = "no-buildid-cache",
	 .set = option_set_flag,
	 .offset = AT(no_build_id_cache),
	 .help = "Copy no objects into a cache. Default: objects that will not be found under their path (in "
		 "containers, replaced or deleted) are copied into ~/.debug, at most 1 GiB"},
	{.name = "buildid-dir",
	 .arg = "DIR",
	 .set = option_set_path,
	 .offset = AT(build_id_dir),
	 .help = "Copy them into this directory instead of ~/.debug"},
	{.name = "synth",
	 .arg = "TYPE,…",
	 .values = "all no task mmap cgroup",
	 .set = set_synth,
	 .offset = AT(synth),
	 .flags = OPTION_NO_NEGATE,
	 .help = "What to record of tasks that run already: all, no, task, mmap, cgroup. Default: all"},
	{.name = "num-thread-synthesize",
	 .arg = "N",
	 .set = set_small_number,
	 .offset = AT(synth.nr_threads),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Read the tasks that run already from /proc with N threads. Default: one for each 400 "
		 "processes, at most 4, and not more than CPUs"},
	{.name = "proc-map-timeout",
	 .arg = "MS",
	 .set = set_small_number,
	 .offset = AT(synth.maps_timeout_ms),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Give up the maps of a process after so many milliseconds. Default: never"},
	{.name = "affinity",
	 .arg = "WHERE",
	 .values = "cpu node",
	 .set = set_affinity,
	 .offset = 0,
	 .flags = OPTION_NO_NEGATE,
	 .help = "With --threads: threads that stay on the cpu or the node of their rings"},
	{.name = "no-buffering",
	 .set = option_set_flag,
	 .offset = AT(sampling.no_buffering),
	 .help = "Wake up for every record: sooner in the file, at a high cost"},
	{.name = "dry-run",
	 .set = option_set_flag,
	 .offset = AT(dry_run),
	 .flags = OPTION_NO_DEFAULT,
	 .help = "Check the command line and end"},
	{.letter = 'q',
	 .name = "quiet",
	 .set = option_set_flag,
	 .offset = AT(quiet),
	 .family = "talk",
	 .help = "Print nothing but errors"},
	{.letter = 'v',
	 .name = "verbose",
	 .set = option_set_count,
	 .offset = AT(verbose),
	 .family = "talk",
	 .help = "Print what is done; twice: in detail"},

	/* Of perf record, and not here: refused by name. */
	OPTION_REFUSED_OPTIONAL('S', "snapshot", NO_AUX "-S"),
	OPTION_REFUSED_OPTIONAL(0, "aux-sample", NO_AUX "--aux-sample"),
	OPTION_REFUSED(0, "clang-opt", "OPTIONS", NO_BPF_PROGRAMS),
	OPTION_REFUSED(0, "clang-path", "PATH", NO_BPF_PROGRAMS),
	OPTION_REFUSED(0, "vmlinux", "FILE",
		       "only BPF programs need it in a recording, which are not compiled here; millrace report finds "
		       "vmlinux by itself"),
	OPTION_REFUSED(0, "kcore", NULL,
		       "copies of kernel code are not kept; take one with: perf buildid-cache --kcore /proc/kcore"),
	OPTION_REFUSED_OPTIONAL(0, "debuginfod", "recording fetches nothing; readers do when DEBUGINFOD_URLS is set"),
	{.set = NULL},
};
