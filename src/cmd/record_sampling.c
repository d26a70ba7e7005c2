/* SPDX-License-Identifier: MIT */
#include "cmd/record_sampling.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/diag.h"
#include "cmd/record_options.h"
#include "event/branch_filter.h"
#include "event/cgroup.h"
#include "event/registers.h"

int set_registers(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)negated;
	if (arg)
		return registers_parse(arg, value, reterr);
	*(uint64_t *)value = registers_all();
	return *(uint64_t *)value ? 0 : diag_set(reterr, -EINVAL, "the registers of this architecture are not known here");
}

int set_branch_any(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)arg;
	return set_branch_filter(option, "any", negated, value, reterr);
}

int set_branch_filter(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)negated;
	if (*(uint64_t *)value)
		return diag_set(reterr, -EINVAL, "-b and -j exclude each other, and are given once: -j takes a list");
	return branch_filter_parse(arg, value, reterr);
}

int set_clockid(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	static const struct {
		const char *name, *abbreviation;
		int clockid;
	} clocks[] = {
		{"monotonic", "mono", CLOCK_MONOTONIC}, {"monotonic_raw", "raw", CLOCK_MONOTONIC_RAW},
		{"realtime", "real", CLOCK_REALTIME},	{"boottime", "boot", CLOCK_BOOTTIME},
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
	return diag_set(reterr, -EINVAL,
			"\"%s\" is no clock; there are monotonic, monotonic_raw, realtime, boottime, tai, or a number of "
			"clock_gettime(2)",
			arg);
}

int set_cgroups(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	struct record_options *options = value;

	(void)option, (void)negated;
	int err = cgroup_assign(&options->events, arg, &options->nr_cgroups, reterr);
	/* One name for all the events so far. */
	if (!err && options->nr_cgroups == 1)
		err = cgroup_assign_all(&options->events, arg, reterr);
	return err;
}

int set_synth(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	struct synth_wishes *synth = value;
	bool tasks = false, maps = false, cgroups = false;

	(void)option, (void)negated;
	for (const char *word = arg;;) {
		size_t len = strcspn(word, ",");
		bool all = len == 3 && !strncmp(word, "all", len), no = len == 2 && !strncmp(word, "no", len);
		bool task = len == 4 && !strncmp(word, "task", len), map = len == 4 && !strncmp(word, "mmap", len);
		bool cgroup = len == 6 && !strncmp(word, "cgroup", len);
		if (!all && !no && !task && !map && !cgroup)
			return diag_set(reterr, -EINVAL, "\"%.*s\" is none of no, all, task, mmap, cgroup", (int)len, word);
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

int set_small_number(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
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

int set_affinity(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	struct record_options *options = value;

	(void)option, (void)negated;
	if (strcmp(arg, "cpu") && strcmp(arg, "node"))
		return diag_set(reterr, -EINVAL, "\"%s\" is neither cpu nor node", arg);
	options->affinity = arg;
	return 0;
}

int refuse_option(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)arg, (void)negated, (void)value;
	return diag_set(reterr, -EINVAL, "%s", option->help);
}

/* What is held in memory becomes one whole file, when it is asked for. */
static int check_flight(const struct record_options *options, struct diag *reterr)
{
	const struct rotation_spec *spec = &options->rotation;

	if (spec->post_ns && !spec->flight_ns)
		return diag_set(reterr, -EINVAL, "--flight-post is for what --flight holds");
	if (!spec->flight_ns)
		return 0;
	if (spec->bytes || spec->period_ns || options->max_bytes)
		return diag_set(reterr, -EINVAL, "--flight writes when it is asked to: neither --switch-output=SIZE or TIME nor "
						 "--max-size go with it");
	if (options->tail_synthesize)
		return diag_set(reterr, -EINVAL, "--flight tells what was there at its start: --tail-synthesize does not go "
						 "with it");
	if (options->output && !strcmp(options->output, "-"))
		return diag_set(reterr, -EINVAL, "--flight writes files: it needs a name for them (-o)");
	return 0;
}

/* It is made of the build-ids in a file that is there at the end. */
static int check_bundle(const struct record_options *options, struct diag *reterr)
{
	const struct rotation_spec *spec = &options->rotation;

	if (!options->bundle)
		return 0;
	if (options->no_build_ids || options->sampling.map_build_ids)
		return diag_set(reterr, -EINVAL, "--bundle copies what the build-ids at the end of the file name: neither -B nor "
						 "--buildid-mmap go with it");
	if (spec->on || spec->flight_ns || options->switch_events.nr)
		return diag_set(reterr, -EINVAL, "--bundle is for one file: --switch-output and --flight do not go with it");
	if (options->output && !strcmp(options->output, "-"))
		return diag_set(reterr, -EINVAL, "--bundle lies beside the file: it needs a name for it (-o)");
	return 0;
}

/* Somebody else's tasks are not stopped unless they were named. */
static int check_pressure(const struct record_options *options, struct diag *reterr)
{
	if (options->on_pressure != ON_PRESSURE_FREEZE)
		return 0;
	if (options->target.user)
		return diag_set(reterr, -EINVAL, "--on-pressure=freeze does not go with -u: it would stop shells and terminals, too");
	if (options->rotation.flight_ns)
		return diag_set(reterr, -EINVAL, "--on-pressure=freeze does not go with --flight, which drops what is old");
	if (options->max_cpus)
		return diag_set(reterr, -EINVAL, "--max-cpu and --on-pressure=freeze exclude each other: one gives up events for CPU "
				"time, the other none");
	return 0;
}

int record_options_check(const struct record_options *options, struct diag *reterr)
{
	const struct event_options *sampling = &options->sampling;

	if (sampling->freq_hz && sampling->period)
		return diag_set(reterr, -EINVAL, "-F and -c exclude each other: a frequency, or a period");
	if (sampling->all_kernel && sampling->all_user)
		return diag_set(reterr, -EINVAL, "--all-kernel and --all-user exclude each other: leave out both for all");
	if (sampling->kernel_callchains && sampling->user_callchains)
		return diag_set(reterr, -EINVAL,
				"--kernel-callchains and --user-callchains exclude each other: leave out both for all");
	if (options->affinity && !options->threads.given)
		return diag_set(reterr, -EINVAL,
				"--affinity: one thread drains all rings, and would only be sent around: use --threads=%s, whose "
				"threads stay where their rings are",
				strcmp(options->affinity, "cpu") ? "numa" : "cpu");
	if (options->nr_cgroups && !options->target.all_cpus && !options->target.cpu_list)
		return diag_set(reterr, -EINVAL, "-G looks at CPUs: add -a or -C");
	int err = check_bundle(options, reterr);
	if (!err)
		err = check_flight(options, reterr);
	return err ? err : check_pressure(options, reterr);
}
