/* SPDX-License-Identifier: MIT */
#include "cmd/cli/command.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "sysinfo/shortage.h"

const struct command *const commands[] = {
	&command_record,  &command_report,   &command_top,    &command_script,
	&command_diff,    &command_flame,    &command_list,   &command_merge,
	&command_export,  &command_query,    &command_agent,  &command_unwind,
	&command_recover, &command_selftest, &command_doctor, NULL,
};

const struct command *command_find(const char *name)
{
	for (const struct command *const *command = commands; *command; command++)
		if (strcmp((*command)->name, name) == 0)
			return *command;
	return NULL;
}

/* What people type who know perf; perf 6.1's commands that are not here. */
static const struct {
	const char *name, *instead;
} of_perf[] = {
	{"annotate", "use 'millrace report' and the key a on a function"},
	{"archive", "use 'millrace record --bundle'"},
	{"bench", "there is none here"},
	{"buildid-cache", "'millrace record' fills ~/.debug by itself"},
	{"buildid-list", "perf's reads the same files"},
	{"c2c", "perf's 'c2c report' reads the same files"},
	{"config", "the file is described in millrace-config(5)"},
	{"daemon", "use 'millrace agent'"},
	{"data", "use 'millrace export'"},
	{"evlist", "use 'millrace report --header-only'; perf's reads the same files"},
	{"ftrace", "use perf's"},
	{"inject", "jitdumps and build-ids need none here; for stack dumps use 'millrace unwind'"},
	{"iostat", "use perf's"},
	{"kallsyms", "use perf's"},
	{"kmem", "perf's reads what 'millrace record -e kmem:*' writes"},
	{"kvm", "use perf's"},
	{"kwork", "use perf's"},
	{"lock", "perf's reads what 'millrace record -e lock:*' writes"},
	{"mem", "use 'millrace record -d -W' and 'millrace report --mem-mode'"},
	{"probe", "make the probe with perf; 'millrace record -e' takes it"},
	{"sched", "use 'millrace record --off-cpu'; perf's reads what 'millrace record -e sched:*' writes"},
	{"stat", "it counts, and millrace samples: use perf's"},
	{"test", "use 'millrace selftest'"},
	{"timechart", "use 'millrace record --off-cpu' and 'millrace flame'"},
	{"trace", "use 'millrace record -e raw_syscalls:*' and 'millrace script'"},
	{"version", "use 'millrace --version'"},
};

static const char *instead_of(const char *perf_command)
{
	for (size_t i = 0; i < sizeof(of_perf) / sizeof(of_perf[0]); i++)
		if (strcmp(of_perf[i].name, perf_command) == 0)
			return of_perf[i].instead;
	return NULL;
}

static const char *nearest_command(const char *name)
{
	const char *nearest = NULL;
	unsigned best = UINT_MAX;

	for (const struct command *const *command = commands; *command; command++) {
		unsigned distance = edit_distance(name, (*command)->name);

		if (edit_distance_is_close(name, (*command)->name) && distance < best) {
			best = distance;
			nearest = (*command)->name;
		}
	}
	return nearest;
}

int command_unknown(const char *name)
{
	const char *what = name[0] == '-' ? "option" : "command";
	const char *instead = instead_of(name);
	const char *nearest = nearest_command(name);

	if (instead)
		log_error("%s is a command of perf alone: %s", name, instead);
	else if (nearest)
		log_error("unknown %s %s; did you mean %s?", what, name, nearest);
	else
		log_error("unknown %s %s; 'millrace --help' lists what there is", what, name);
	return COMMAND_USAGE;
}

int command_check_shortage(const char *name)
{
	int err = shortage();

	if (!err || strcmp(name, "record") == 0 || strcmp(name, "agent") == 0)
		return 0;
	log_error("%s: what was printed or written may be incomplete",
		  err == -EMFILE   ? "too many open files (ulimit -n)"
		  : err == -ENFILE ? "too many open files (fs.file-max)"
				   : "out of memory");
	return COMMAND_SHORTAGE;
}

void command_print_help(FILE *to)
{
	fprintf(to, "Usage: millrace COMMAND [OPTIONS] [ARGS]\n"
		    "       millrace --help | --version\n\n"
		    "Records Linux perf events into perf.data files and reads such files back.\n\n"
		    "Commands:\n");
	for (const struct command *const *command = commands; *command; command++)
		fprintf(to, "  %-10s %s\n", (*command)->name, (*command)->summary);
	fprintf(to, "\n'millrace COMMAND --help' describes a command.\n");
}

void command_print_words(FILE *to)
{
	for (const struct command *const *command = commands; *command; command++)
		fprintf(to, "%s\t\n", (*command)->name);
	fprintf(to, "help\tCOMMAND\n-h\t\n--help\t\n--version\t\n");
}
