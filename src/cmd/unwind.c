/* SPDX-License-Identifier: MIT */
/* millrace unwind: a recording with stack dumps as one with plain call chains. */

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/machine/machine.h"
#include "base/buf.h"
#include "base/diag.h"
#include "base/log.h"
#include "cmd/cli/command.h"
#include "cmd/input/input.h"
#include "cmd/input/records.h"
#include "cmd/join.h"
#include "cmd/sorted_file.h"
#include "perfdata/callchain.h"
#include "perfdata/record.h"
#include "read/session.h"
#include "unwind/unwind.h"

enum {
	MAX_STACK = 1024,
	EARLY_BYTES_MAX = 64 << 20,
};

struct unwind_options {
	struct input_options input;
	const char *output;
	uint64_t max_stack;
	int verbose;
};

static const struct option unwind_table[] = {
	{.letter = 'i',
	 .name = "input",
	 .arg = "FILE",
	 .help = "Read FILE, or the data directory of that name, or - for standard input; default perf.data",
	 .set = option_set_path,
	 .offset = offsetof(struct unwind_options, input.path),
	 .group = "Input"},
	{.letter = 'f',
	 .name = "force",
	 .help = "Read a recording that belongs to neither root nor you",
	 .set = option_set_flag,
	 .offset = offsetof(struct unwind_options, input.force)},
	INPUT_CACHE_OPTION(struct unwind_options, input),
	{.name = "symfs",
	 .arg = "DIR",
	 .help = "Look for the programs and libraries of the recording below DIR",
	 .set = option_set_string,
	 .offset = offsetof(struct unwind_options, input.machine.symfs)},
	{.letter = 'o',
	 .name = "output",
	 .arg = "FILE",
	 .help = "Write FILE; what was there before is kept as FILE.old",
	 .set = option_set_path,
	 .offset = offsetof(struct unwind_options, output),
	 .group = "Output"},
	{.name = "max-stack",
	 .arg = "N",
	 .help = "Frames of a chain, the kernel's among them: those farthest out are left out; default 127",
	 .set = option_set_u64,
	 .offset = offsetof(struct unwind_options, max_stack)},
	{.letter = 'v',
	 .name = "verbose",
	 .help = "Say more on standard error; twice: everything",
	 .set = option_set_count,
	 .offset = offsetof(struct unwind_options, verbose)},
	{0},
};

/* Everything that one run holds. */
struct unwind_run {
	struct unwind_options options;
	struct session *session;
	struct machine *machine; /* NULL: not started */
	struct join join;
	struct sorted_file file;
	struct buf early;                /* of a pipe: records that came before all events were known */
	uint64_t *record;                /* heap; the one that is rewritten */
	uint64_t nr_stacks;              /* samples with a stack */
	uint64_t by_end[UNWIND_NR_ENDS]; /* of those */
	uint64_t record_bytes;
};

static int no_memory(struct diag *reterr)
{
	return diag_set(reterr, -ENOMEM, "out of memory");
}

static int convert_events(struct unwind_run *run, struct diag *reterr)
{
	size_t nr_dumps = 0;

	for (size_t i = 0; i < run->join.nr_events; i++) {
		struct perf_event_attr *attr = &run->join.events[i].attr;
		if (!callchain_is_dump(attr))
			continue;
		callchain_convert_attr(
			attr, run->options.max_stack == CALLCHAIN_FRAMES ? 0 : (unsigned)run->options.max_stack);
		nr_dumps++;
	}
	if (nr_dumps)
		return 0;
	return diag_set(reterr, -EINVAL, "%s has no stacks to unwind: it was not recorded with --call-graph dwarf",
			session_info(run->session)->path);
}

static int add_record(struct unwind_run *run, const struct perf_event_header *record, uint64_t time_ns,
		      struct diag *reterr)
{
	int err = sorted_file_add(&run->file, record, time_ns);

	return err ? diag_set(reterr, err, "%s: %s", run->options.output, strerror(-err)) : 0;
}

/* When the events are known: all that stands before the records. */
static int start(struct unwind_run *run, struct diag *reterr)
{
	int err = join_add(&run->join, run->session, reterr);

	if (!err)
		err = convert_events(run, reterr);
	if (!err)
		err = join_features(&run->join, &run->session, 1, reterr);
	if (err)
		return err;
	run->record = malloc(RECORD_MAX_BYTES + 1);
	if (!run->record || machine_new(&run->options.input.machine, run->session, &run->machine))
		return no_memory(reterr);
	machine_set_max_unwound(run->machine, run->options.max_stack);
	err = sorted_file_open(run->options.output, run->join.events, run->join.nr_events, &run->file, reterr);
	for (size_t at = 0; at < run->early.len && !err;) {
		struct perf_event_header header;
		memcpy(&header, (const char *)run->early.data + at, sizeof(header));
		memcpy(run->record, (const char *)run->early.data + at, header.size);
		err = add_record(run, (const struct perf_event_header *)run->record, 0, reterr);
		at += header.size;
	}
	return err;
}

/* The record in run->record, with the chain of its stack. */
static int convert(struct unwind_run *run, const struct session_record *in, struct diag *reterr)
{
	const struct perf_event_attr *attr = &in->event->attr;
	struct perf_event_header *record = (struct perf_event_header *)run->record;
	const struct sample *sample = &in->sample;
	uint64_t ips[MAX_STACK];
	const unsigned most = (unsigned)run->options.max_stack;
	struct callchain user = {.ips = ips, .most = most, .kernel = callchain_kernel_part(sample, most)};
	struct sample copy;

	struct task *task = machine_task(run->machine, sample->pid, sample->tid);
	if (!task)
		return no_memory(reterr);
	if (sample->user_stack.len) {
		struct unwind_chain chain = {.ips = ips, .max = most - user.kernel.nr_frames};
		machine_unwind(run->machine, task, sample, &chain);
		user.nr = chain.nr;
		run->nr_stacks++;
		run->by_end[chain.end]++;
	}
	memcpy(record, in->view.header, in->view.header->size);
	int err = sample_decode(attr, record, &copy);
	if (err)
		return diag_set(reterr, err, "offset %#" PRIx64 ": the sample is truncated", in->view.offset);
	callchain_convert(attr, record, &copy, &user);
	return 0;
}

/* Such records describe events, which stand elsewhere in a file, or bring bytes that are none of it. */
static bool is_copied(uint32_t type)
{
	return type != RECORD_HEADER_ATTR && type != RECORD_HEADER_FEATURE && type != RECORD_TRACING_DATA &&
	       type != RECORD_FINISHED_ROUND;
}

static int take_early(struct unwind_run *run, const struct perf_event_header *record, struct diag *reterr)
{
	if (is_copied(record->type))
		buf_put(&run->early, record, record->size);
	if (run->early.failed || run->early.len > EARLY_BYTES_MAX)
		return no_memory(reterr);
	return 0;
}

static int take(struct unwind_run *run, const struct session_record *in, struct diag *reterr)
{
	const struct perf_event_header *record = in->view.header;
	bool timed = record->type < RECORD_USER_FIRST && in->sample.present & PERF_SAMPLE_TIME;
	uint64_t time_ns = timed && in->sample.time != UINT64_MAX ? in->sample.time : 0;

	/* A pipe describes its events before the first record of the kernel. */
	if (!run->machine && record->type >= RECORD_USER_FIRST)
		return take_early(run, record, reterr);
	int err = run->machine ? 0 : start(run, reterr);
	if (err || (!is_copied(record->type) && record->type != RECORD_HEADER_ATTR))
		return err;
	if (record->type == RECORD_AUXTRACE || record->type == RECORD_HEADER_ATTR)
		return diag_set(reterr, -ENOTSUP, "%s: offset %#" PRIx64 ": %s records cannot be written to the output",
				session_info(run->session)->path, in->view.offset, record_type_name(record->type));
	if (record->type != PERF_RECORD_SAMPLE && machine_process(run->machine, in))
		return no_memory(reterr);
	if (record->type == PERF_RECORD_SAMPLE && callchain_is_dump(&in->event->attr)) {
		err = convert(run, in, reterr);
		record = (const struct perf_event_header *)run->record;
	}
	return err ? err : add_record(run, record, time_ns, reterr);
}

/* Damage is logged, and what was read before it is kept: *ret_damage. */
static int take_all(struct unwind_run *run, int *ret_damage, struct diag *reterr)
{
	struct session_record record;
	struct progress progress;
	int err = session_info(run->session)->pipe ? 0 : start(run, reterr), got;

	input_progress_start(&progress, run->session, "unwinding");
	while (!err && (got = session_next(run->session, &record, reterr)) != 0) {
		if (got < 0) {
			log_error("%s", reterr->text);
			*ret_damage = got;
			break;
		}
		err = take(run, &record, reterr);
		progress_step(&progress, 1, record.view.offset);
	}
	progress_end(&progress);
	if (!err && !run->machine)
		err = start(run, reterr);
	if (err)
		return err;
	run->record_bytes = run->file.data_bytes;
	return sorted_file_finish(&run->file, &run->join.features, reterr);
}

static void report(const struct unwind_run *run)
{
	uint64_t came = session_info(run->session)->file_bytes;

	log_note("%s: %" PRIu64 " stacks unwound, %" PRIu64 " of them whole, %.3f MB", run->options.output,
		 run->nr_stacks, run->by_end[UNWIND_COMPLETE], (double)run->record_bytes / 1e6);
	if (run->by_end[UNWIND_FULL])
		log_note("  %" PRIu64 " of %" PRIu64 " stacks have more than %" PRIu64 " frames: --max-stack N",
			 run->by_end[UNWIND_FULL], run->nr_stacks, run->options.max_stack);
	for (enum unwind_end end = 0; end < UNWIND_NR_ENDS; end++)
		if (run->by_end[end] && unwind_end_text(end))
			log_note("  %" PRIu64 " of %" PRIu64 " stacks %s", run->by_end[end], run->nr_stacks,
				 unwind_end_text(end));
	if (came)
		log_verbose("%s has %.3f MB", session_info(run->session)->path, (double)came / 1e6);
	input_report_doubts(run->machine);
	input_report_late(run->session);
}

static int run_status(struct unwind_run *run)
{
	struct diag diag = {0};
	int damage = 0;

	if (input_open(&run->options.input, SESSION_ALL, &run->session))
		return INPUT_EXIT_ERROR;
	int err = take_all(run, &damage, &diag);
	int close_err = sorted_file_close(&run->file);
	if (!err && close_err)
		err = diag_set(&diag, close_err, "%s: %s", run->options.output, strerror(-close_err));
	if (err) {
		log_error("%s", diag.text);
		return INPUT_EXIT_ERROR;
	}
	report(run);
	return damage ? INPUT_EXIT_ERROR : 0;
}

static void run_fini(struct unwind_run *run)
{
	machine_free(run->machine);
	join_fini(&run->join);
	buf_fini(&run->early);
	free(run->record);
	session_close(run->session);
}

static int unwind_run_command(int argc, char **argv)
{
	struct unwind_run run = {.options.max_stack = CALLCHAIN_FRAMES};
	AUTO_CONFIGURATION struct configuration config = {0};

	switch (configuration_parse(&command_unwind, argc, argv, &run.options, &config)) {
	case OPTION_EXIT: return 0;
	case OPTION_BAD: return COMMAND_USAGE;
	case OPTION_OK: break;
	}
	log_set_level(run.options.verbose);
	if (config.given.first < argc) {
		log_error("unwind: unexpected \"%s\": name the recording with -i", argv[config.given.first]);
		return COMMAND_USAGE;
	}
	if (!run.options.max_stack || run.options.max_stack > MAX_STACK) {
		log_error("--max-stack must be 1 to %d frames", MAX_STACK);
		return COMMAND_USAGE;
	}
	char *const input = (char *)input_path(&run.options.input);
	if (sorted_file_check_path("unwind", run.options.output, &input, 1))
		return COMMAND_USAGE;
	run.options.input.no_line_cache = true; /* it looks up no lines */
	input_enter_sandbox(&run.options.input, run.options.output, 0);
	int status = run_status(&run);
	run_fini(&run);
	return status;
}

const struct command command_unwind = {
	.name = "unwind",
	.summary = "Make call chains of the stack dumps of a recording",
	.usage = "[OPTIONS] [-i FILE] -o FILE",
	.description = "Reads a recording with copies of the stack (--call-graph dwarf, of millrace or perf), unwinds "
		       "each of them as report would, and writes a recording that has plain call chains in their "
		       "place, and everything else unchanged. It is much smaller, holds no contents of any stack, and "
		       "is read by programs that know no stack dumps. The programs and libraries must still be "
		       "there.\n\nExamples:\n  millrace unwind -i dwarf.data -o chains.data\n  perf record "
		       "--call-graph dwarf -o - ./app | millrace unwind -o chains.data",
	.options = unwind_table,
	.run = unwind_run_command,
};
