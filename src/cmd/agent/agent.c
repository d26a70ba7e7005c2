/* SPDX-License-Identifier: MIT */
/* millrace agent: records a machine all the time, and delivers what it recorded. */
#include "cmd/agent/agent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/log.h"
#include "cmd/cli/command.h"
#include "cmd/input/store_input.h"
#include "record/setup/options.h"

static int set_format(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)negated;
	const struct export_format *format = export_format_find(arg, reterr);

	if (!format)
		return -EINVAL;
	*(const struct export_format **)value = format;
	return 0;
}

static int set_size(const struct option *option, const char *arg, bool negated, void *uint64_bytes, struct diag *reterr)
{
	uint64_t bytes;

	(void)option, (void)negated;
	if (option_parse_size(arg, &bytes) || !bytes)
		return diag_set(reterr, -EINVAL, "\"%s\" is no size such as 512M or 2G", arg);
	*(uint64_t *)uint64_bytes = bytes;
	return 0;
}

static int set_trigger(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	struct trigger_list *list = value;

	(void)option;
	if (negated) {
		list->nr = 0;
		return 0;
	}
	if (list->nr == AGENT_TRIGGERS_MAX)
		return diag_set(reterr, -EINVAL, "at most %d triggers can be given", AGENT_TRIGGERS_MAX);
	int err = trigger_parse(arg, &list->specs[list->nr], reterr);
	list->nr += !err;
	return err;
}

#define AT(field) offsetof(struct agent_options, field)

static const struct option agent_table[] = {
	{.letter = 'F',
	 .name = "freq",
	 .arg = "HZ",
	 .help = "Samples a second on each CPU; default 19",
	 .set = option_set_u64,
	 .offset = AT(frequency),
	 .flags = OPTION_NO_NEGATE,
	 .group = "What is recorded"},
	{.letter = 'e',
	 .name = "event",
	 .arg = "EVENT",
	 .help = "Record this event, as in millrace record; default cycles, or cpu-clock",
	 .set = option_set_string,
	 .offset = AT(event)},
	{.name = "call-graph",
	 .arg = "MODE",
	 .values = "unwind fp no",
	 .help = "unwind[,SIZE] (the default), fp, or no",
	 .set = option_set_string,
	 .offset = AT(call_graph),
	 .flags = OPTION_NO_NEGATE},
	{.name = "every",
	 .arg = "TIME",
	 .help = "Deliver a piece each TIME (60s, the default; with s, m, h, d)",
	 .set = store_input_set_time,
	 .offset = AT(every_ns),
	 .flags = OPTION_NO_NEGATE},
	{.name = "to",
	 .arg = "URL",
	 .help = "Send to clickhouse://HOST[:PORT][/DATABASE], clickhouses://…, or with --format by POST to http://… "
		 "or "
		 "https://…",
	 .set = option_set_path,
	 .offset = AT(send.store.url),
	 .group = "Where it goes"},
	{.name = "files",
	 .arg = "DIR",
	 .help = "Keep the pieces as files in DIR: recordings, or what --format says",
	 .set = option_set_path,
	 .offset = AT(files)},
	{.name = "format",
	 .arg = "FORMAT",
	 .print_values = send_print_formats,
	 .help = "What is sent by POST (pprof, otlp) or kept in files (any format of millrace export)",
	 .set = set_format,
	 .offset = AT(send.format),
	 .flags = OPTION_NO_NEGATE},
	{.name = "inline",
	 .help = "Show inlined functions: takes the debug information of every object, and several times the CPU time",
	 .set = option_set_flag,
	 .offset = AT(inlined)},
	{.name = "service",
	 .arg = "NAME",
	 .help = "Store the samples under this name on the server; default: the name of the host",
	 .set = option_set_path,
	 .offset = AT(send.store.service)},
	{.name = "credentials",
	 .arg = "FILE",
	 .help = "Log in with the lines user=NAME and password=TEXT of FILE, which only you may read",
	 .set = option_set_path,
	 .offset = AT(send.store.credentials)},
	{.name = "ca-file",
	 .arg = "FILE",
	 .help = "Trust the certificates in FILE, not those of the system",
	 .set = option_set_path,
	 .offset = AT(send.store.ca)},
	{.name = "keep-size",
	 .arg = "SIZE",
	 .help = "Of --files, remove the oldest beyond SIZE; default 10G",
	 .set = set_size,
	 .offset = AT(keep_bytes),
	 .flags = OPTION_NO_NEGATE},
	{.name = "keep-for",
	 .arg = "TIME",
	 .help = "Of --files, remove what is older than TIME (7d)",
	 .set = store_input_set_time,
	 .offset = AT(keep_ns),
	 .flags = OPTION_NO_NEGATE},
	{.name = "state",
	 .arg = "DIR",
	 .help = "Directory of the agent alone; default $STATE_DIRECTORY, which systemd sets, or /var/lib/millrace",
	 .set = option_set_path,
	 .offset = AT(state),
	 .group = "Running"},
	{.name = "spool-size",
	 .arg = "SIZE",
	 .help = "While deliveries fail, keep at most SIZE of pieces, the newest; default 1G",
	 .set = set_size,
	 .offset = AT(spool_bytes),
	 .flags = OPTION_NO_NEGATE},
	{.name = "stop-time",
	 .arg = "TIME",
	 .help = "At the end, deliver for at most TIME; default 10s",
	 .set = store_input_set_time,
	 .offset = AT(stop_ns),
	 .flags = OPTION_NO_NEGATE},
	{.name = "on-trigger",
	 .arg = "WHEN",
	 .help = "Keep the last seconds at full rate in memory, and write them when load:NUMBER is reached, "
		 "psi:cpu:PERCENT (memory, io), on event:EVENT, or when exit:COMMAND ends; may be repeated",
	 .set = set_trigger,
	 .offset = AT(triggers),
	 .group = "Snapshots"},
	{.name = "flight",
	 .arg = "TIME[,SIZE]",
	 .help = "How many seconds, in how much memory; default 10s,64M",
	 .set = option_set_string,
	 .offset = AT(history),
	 .flags = OPTION_NO_NEGATE},
	{.name = "trigger-freq",
	 .arg = "HZ",
	 .help = "Samples a second of those; default 997",
	 .set = option_set_u64,
	 .offset = AT(trigger_frequency),
	 .flags = OPTION_NO_NEGATE},
	{.name = "trigger-pause",
	 .arg = "TIME",
	 .help = "At most one snapshot in TIME; default 1m",
	 .set = store_input_set_time,
	 .offset = AT(trigger_pause_ns),
	 .flags = OPTION_NO_NEGATE},
	{.name = "snapshots-size",
	 .arg = "SIZE",
	 .help = "Keep at most SIZE of snapshots, the newest; default 256M",
	 .set = set_size,
	 .offset = AT(snapshots_bytes),
	 .flags = OPTION_NO_NEGATE},
	{.letter = 'v',
	 .name = "verbose",
	 .help = "Say more on standard error; twice: everything",
	 .set = option_set_count,
	 .offset = AT(verbose),
	 .group = "Other"},
	{0},
};

static int check(const struct agent_options *options, struct diag *reterr)
{
	const char *word = options->nr_more ? options->more[0] : "-";

	if (!options->send.store.url == !options->files)
		return diag_set(reterr, -EINVAL, "agent needs one of --to=URL and --files=DIR, for its pieces");
	if (!options->frequency || !options->trigger_frequency)
		return diag_set(reterr, -EINVAL, "a frequency must be at least 1");
	if (options->every_ns < 1000000000)
		return diag_set(reterr, -EINVAL, "--every must be at least 1s");
	if (!strncmp(options->call_graph, "dwarf", 5))
		return diag_set(reterr, -EINVAL,
				"--call-graph=%s would store what stacks contain: use unwind, whose call chains are "
				"the same",
				options->call_graph);
	if (*word != '-')
		return diag_set(reterr, -EINVAL,
				"agent takes no argument, but got \"%s\"; options of record must follow --", word);
	if (options->files)
		return 0;
	int err = send_check(&options->send, reterr);
	return err ? err : store_check_url(options->send.store.url, reterr);
}

static int run(int argc, char **argv)
{
	const char *state = getenv("STATE_DIRECTORY");
	struct agent_options options = {
		.state = state && *state ? state : "/var/lib/millrace",
		.send.store.tries = 1, /* the same piece is tried again later */
		.call_graph = "unwind",
		.frequency = 19,
		.every_ns = UINT64_C(60000000000),
		.keep_bytes = UINT64_C(10) << 30,
		.spool_bytes = UINT64_C(1) << 30,
		.stop_ns = UINT64_C(10000000000),
		.trigger_frequency = 997,
		.trigger_pause_ns = UINT64_C(60000000000),
		.snapshots_bytes = UINT64_C(256) << 20,
		.history = "10s,64M",
	};
	struct diag diag = {0};
	AUTO_CONFIGURATION struct configuration config = {0};
	enum option_result result = configuration_parse(&command_agent, argc, argv, &options, &config);

	if (result != OPTION_OK)
		return result == OPTION_EXIT ? 0 : COMMAND_USAGE;
	options.more = argv + config.given.first;
	options.nr_more = argc - config.given.first;
	if (check(&options, &diag)) {
		log_error("%s", diag.text);
		return COMMAND_USAGE;
	}
	log_set_level(options.verbose);
	return agent_run(&options);
}

const struct command command_agent = {
	.name = "agent",
	.summary = "Record a machine all the time, and deliver what was recorded",
	.usage = "[OPTIONS] --to=URL | --files=DIR [-- OPTIONS OF RECORD]",
	.description = "Records all CPUs at a low rate until SIGTERM, in pieces of a minute, and sends each to a "
		       "server or keeps it as a file. While a server cannot be reached, pieces wait on the disk, up to "
		       "--spool-size. What was recorded, lost, delivered and dropped is counted in "
		       "STATE/status.json.\n\nExamples:\n  millrace agent --to=clickhouse://store.example.com "
		       "--service=web\n  millrace agent --format=otlp --to=http://collector:4318\n  millrace agent "
		       "--files=/var/log/millrace --keep-for=7d --on-trigger=psi:cpu:40",
	.options = agent_table,
	.run = run,
};
