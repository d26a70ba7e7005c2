/* SPDX-License-Identifier: MIT */
/* millrace merge: data directories and files as one perf.data file, in the order of time. */

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/cli/command.h"
#include "cmd/input/input.h"
#include "cmd/input/sandbox.h"
#include "cmd/join.h"
#include "cmd/merge_hosts.h"
#include "cmd/sorted_file.h"
#include "perfdata/record.h"
#include "read/session.h"

struct merge_options {
	const char *output;
	bool force;
	int verbose;
};

static const struct option merge_table[] = {
	{.letter = 'o',
	 .name = "output",
	 .arg = "FILE",
	 .help = "Write FILE; what was there before is kept as FILE.old",
	 .set = option_set_path,
	 .offset = offsetof(struct merge_options, output),
	 .group = "Output"},
	{.letter = 'f',
	 .name = "force",
	 .help = "Read recordings that belong to neither root nor you",
	 .set = option_set_flag,
	 .offset = offsetof(struct merge_options, force),
	 .group = "Input"},
	{.letter = 'v',
	 .name = "verbose",
	 .help = "Say more on standard error; twice: everything",
	 .set = option_set_count,
	 .offset = offsetof(struct merge_options, verbose)},
	{0},
};

/* One recording that is read, and its record whose turn has not come. */
struct merge_input {
	struct session *session;
	struct session_record record;
	uint64_t time_ns; /* of it; 0: none */
	uint64_t turn_ns; /* when it is to be written */
	uint64_t offset;  /* up to which it was read, for the progress */
	bool ended;
};

/* Everything that one run holds. */
struct merge_run {
	struct merge_options options;
	struct merge_input *inputs;
	struct session **sessions; /* of the inputs; owned */
	size_t nr_inputs;
	struct join join;
	struct sorted_file file;
	struct progress progress;
	struct buf moved; /* the record that is written, of one of several machines */
	uint64_t nr_records, nr_late;
	int input_err; /* of a recording that could not be read to its end; already logged */
};

static const struct host_shift *input_shift(const struct merge_run *run, const struct merge_input *input)
{
	return run->join.hosts.shifts ? &run->join.hosts.shifts[input - run->inputs] : NULL;
}

/* On the clock of its recording; 0: it has none. */
static uint64_t own_time(const struct session_record *record)
{
	bool timed = record->view.header->type < RECORD_USER_FIRST && record->sample.present & PERF_SAMPLE_TIME;

	return timed && record->sample.time != UINT64_MAX ? record->sample.time : 0;
}

/* On the clock of the file; 0: it has none. */
static uint64_t record_time(const struct session_record *record, const struct host_shift *shift)
{
	uint64_t time_ns = own_time(record);

	return time_ns && shift ? time_ns + (uint64_t)shift->time_ns : time_ns;
}

/* The clock of the first machine begins when that was started. */
static int check_time(const struct merge_run *run, const struct merge_input *input, const struct session_record *record,
		      struct diag *reterr)
{
	const struct host_shift *shift = input_shift(run, input);
	uint64_t time_ns = own_time(record);

	if (!shift || !time_ns || !host_shift_is_before_start(shift, time_ns))
		return 0;
	return diag_set(reterr, -EINVAL,
			"%s was recorded before %s was started, whose clock all times are moved to: name the "
			"recordings of %s first",
			session_info(input->session)->path, run->join.hosts.shifts[0].name, shift->name);
}

/*
 * Records without a time describe the initial state: they are written right before the first record with a time, not
 * before the older records of other inputs. So the first time is looked up; that takes the front of the input only.
 */
static int find_start(const struct merge_run *run, struct merge_input *input, struct diag *reterr)
{
	const struct input_options options = {.path = session_info(input->session)->path, .force = run->options.force};
	struct session *session;
	struct session_record record;
	int err = input_open(&options, 0, &session);

	if (err)
		return diag_set(reterr, err, "%s cannot be read a second time: has it changed?", options.path);
	while (!err && !input->turn_ns && session_next(session, &record, NULL) > 0) {
		input->turn_ns = record_time(&record, input_shift(run, input));
		err = check_time(run, input, &record, reterr);
	}
	session_close(session);
	return err;
}

/* The next record of an input. Damage is logged and ends it; the others go on. */
static void input_advance(struct merge_run *run, struct merge_input *input)
{
	struct diag diag = {0};
	int got;

	do
		got = session_next(input->session, &input->record, &diag);
	while (got > 0 &&
	       input->record.view.header->type == RECORD_FINISHED_ROUND); /* those of the output are others */
	input->ended = got <= 0;
	if (got < 0) {
		log_error("%s", diag.text);
		run->input_err = got;
	}
	if (got <= 0)
		return;
	input->time_ns = record_time(&input->record, input_shift(run, input));
	if (input->time_ns)
		input->turn_ns = input->time_ns;
}

/* Whose turn it is; NULL: all have ended. */
static struct merge_input *input_next(const struct merge_run *run)
{
	struct merge_input *next = NULL;

	for (size_t i = 0; i < run->nr_inputs; i++) {
		struct merge_input *input = &run->inputs[i];
		if (!input->ended && (!next || input->turn_ns < next->turn_ns))
			next = input;
	}
	return next;
}

/* Such records describe events or carry bytes behind them, which stand elsewhere in a file. */
static bool is_copied(uint32_t type)
{
	return type != RECORD_HEADER_ATTR && type != RECORD_TRACING_DATA && type != RECORD_AUXTRACE;
}

/* Offsets are those of one file; of directories only the number of records is known. */
static void begin_progress(struct merge_run *run)
{
	bool known = true;

	for (size_t i = 0; i < run->nr_inputs; i++) {
		known &= session_info(run->sessions[i])->one_file;
		run->progress.total += session_info(run->sessions[i])->file_bytes;
	}
	run->progress.total = known ? run->progress.total : 0;
	progress_start(&run->progress, "merging");
}

/* *ret: the record as it is to be written; NULL: it is not. */
static int move_record(struct merge_run *run, const struct merge_input *input, const struct perf_event_header **ret,
		       struct diag *reterr)
{
	const struct host_shift *shift = input_shift(run, input);
	const struct record_view *view = &input->record.view;

	*ret = view->header;
	if (!shift)
		return 0;
	int err = check_time(run, input, &input->record, reterr);
	if (err)
		return err;
	err = host_shift_record(shift, &input->record, &run->moved);
	*ret = run->moved.len ? (const void *)run->moved.data : NULL;
	if (err == -ENOTSUP)
		return diag_set(reterr, err,
				"%s: offset %#" PRIx64 ": %s records cannot be merged with those of other machines",
				session_info(input->session)->path, view->offset, record_type_name(view->header->type));
	return err ? diag_set(reterr, err, "%s: offset %#" PRIx64 ": %s", session_info(input->session)->path,
			      view->offset, err == -ENOMEM ? "out of memory" : "the record is damaged")
		   : 0;
}

/* Names of tasks that no record has, in front of all. */
static int put_idle(struct merge_run *run)
{
	AUTO_BUF struct buf records = {0};
	int err = 0;

	merge_hosts_put_idle(&run->join.hosts, sample_id_bytes(&run->join.events[0].attr), &records);
	for (size_t at = 0; !records.failed && !err && at < records.len;) {
		const struct perf_event_header *record = (const void *)(records.data + at);
		err = sorted_file_add(&run->file, record, 0);
		at += record->size;
		run->nr_records++;
	}
	return records.failed ? -ENOMEM : err;
}

static int copy_records(struct merge_run *run, struct diag *reterr)
{
	struct merge_input *input;
	uint64_t done = 0;

	begin_progress(run);
	if (put_idle(run))
		return diag_set(reterr, -EIO, "%s: cannot be written", run->options.output);
	for (size_t i = 0; i < run->nr_inputs; i++)
		input_advance(run, &run->inputs[i]);
	for (; (input = input_next(run)); input_advance(run, input)) {
		const struct perf_event_header *record = input->record.view.header;
		if (!is_copied(record->type))
			return diag_set(reterr, -ENOTSUP, "%s: offset %#" PRIx64 ": %s records cannot be merged",
					session_info(input->session)->path, input->record.view.offset,
					record_type_name(record->type));
		const struct perf_event_header *moved;
		int err = move_record(run, input, &moved, reterr);
		if (err)
			return err;
		err = moved ? sorted_file_add(&run->file, moved, input->time_ns) : 0;
		if (err)
			return diag_set(reterr, err, "%s: %s", run->options.output, strerror(-err));
		run->nr_records += moved != NULL;
		done += input->record.view.offset - input->offset;
		input->offset = input->record.view.offset;
		progress_step(&run->progress, 1, done);
	}
	return 0;
}

static int run_merge(struct merge_run *run, struct diag *reterr)
{
	int err = 0;

	for (size_t i = 0; i < run->nr_inputs && !err; i++)
		if (session_info(run->sessions[i])->pipe)
			err = diag_set(reterr, -EINVAL,
				       "%s has the layout of a pipe: only files and data directories are merged",
				       session_info(run->sessions[i])->path);
	if (!err)
		err = merge_hosts_find(run->sessions, run->nr_inputs, &run->join.hosts, reterr);
	for (size_t i = 0; i < run->nr_inputs && run->nr_inputs > 1 && !err; i++)
		err = find_start(run, &run->inputs[i], reterr);
	for (size_t i = 0; i < run->nr_inputs && !err; i++)
		err = join_add(&run->join, run->sessions[i], reterr);
	if (!err)
		err = join_features(&run->join, run->sessions, run->nr_inputs, reterr);
	if (!err)
		err = sorted_file_open(run->options.output, run->join.events, run->join.nr_events, &run->file, reterr);
	if (!err)
		err = copy_records(run, reterr);
	progress_end(&run->progress);
	if (err)
		return err;
	return sorted_file_finish(&run->file, &run->join.features, reterr);
}

static int open_inputs(struct merge_run *run, char *const paths[], int nr)
{
	run->inputs = calloc((size_t)nr, sizeof(*run->inputs));
	run->sessions = calloc((size_t)nr, sizeof(struct session *));
	if (!run->inputs || !run->sessions) {
		log_error("out of memory");
		return -ENOMEM;
	}
	for (int i = 0; i < nr; i++) {
		const struct input_options options = {.path = paths[i], .force = run->options.force};
		int err = input_open(&options, SESSION_ALL, &run->sessions[i]);
		if (err)
			return err;
		run->inputs[run->nr_inputs++].session = run->sessions[i];
	}
	return 0;
}

static void run_fini(struct merge_run *run)
{
	join_fini(&run->join);
	buf_fini(&run->moved);
	for (size_t i = 0; i < run->nr_inputs; i++)
		session_close(run->sessions[i]);
	free(run->sessions);
	free(run->inputs);
}

/* By one name, or by several names of one file or directory. That is merged as it was asked for. */
static void note_repeated(char *const paths[], int nr)
{
	struct stat one, other;

	for (int i = 1; i < nr; i++)
		for (int j = 0; j < i; j++) {
			if (stat(paths[i], &one) || stat(paths[j], &other) || one.st_dev != other.st_dev ||
			    one.st_ino != other.st_ino)
				continue;
			log_note("%s is given twice%s%s: its samples count twice", paths[i],
				 strcmp(paths[i], paths[j]) ? ", also as " : "",
				 strcmp(paths[i], paths[j]) ? paths[j] : "");
			break;
		}
}

static int run_status(struct merge_run *run, char *const paths[], int nr)
{
	struct diag diag = {0};

	if (open_inputs(run, paths, nr))
		return INPUT_EXIT_ERROR;
	int err = run_merge(run, &diag);
	uint64_t bytes = run->file.data_bytes;
	int close_err = sorted_file_close(&run->file);
	if (!err && close_err)
		err = diag_set(&diag, close_err, "%s: %s", run->options.output, strerror(-close_err));
	if (err) {
		log_error("%s", diag.text);
		return INPUT_EXIT_ERROR;
	}
	for (size_t i = 0; i < run->nr_inputs; i++)
		input_report_late(run->sessions[i]);
	log_note("%s: %" PRIu64 " record%s, %.1f MB, of %zu recording%s", run->options.output, run->nr_records,
		 text_s(run->nr_records), (double)bytes / 1e6, run->nr_inputs, text_s(run->nr_inputs));
	return run->input_err ? INPUT_EXIT_ERROR : 0;
}

static int merge_run_command(int argc, char **argv)
{
	struct merge_run run = {0};
	AUTO_CONFIGURATION struct configuration config = {0};

	switch (configuration_parse(&command_merge, argc, argv, &run.options, &config)) {
	case OPTION_EXIT: return 0;
	case OPTION_BAD: return COMMAND_USAGE;
	case OPTION_OK: break;
	}
	char **recordings = argv + config.given.first;
	int nr = argc - config.given.first;
	log_set_level(run.options.verbose);
	if (nr < 1) {
		log_error("merge needs data directories or files");
		return COMMAND_USAGE;
	}
	if (sorted_file_check_path("merge", run.options.output, recordings, (size_t)nr))
		return COMMAND_USAGE;
	note_repeated(recordings, nr);
	sandbox_enter(run.options.output, 0);
	int status = run_status(&run, recordings, nr);
	run_fini(&run);
	return status;
}

const struct command command_merge = {
	.name = "merge",
	.summary = "Make one perf.data file of a data directory or of several files",
	.usage = "[OPTIONS] -o FILE RECORDING...",
	.description =
		"Reads data directories, as recording with several threads makes them, and ordinary files, and writes "
		"all their records in the order of time into one ordinary file, which every reader of the format "
		"takes. Memory does not grow with the recordings.\n"
		"\n"
		"Events that are equal become one, others stand side by side; for that their samples must have the "
		"same layout. Recordings of one machine must be of one boot; of several machines pids, CPUs, times "
		"and addresses of the kernel are moved so that nothing is taken for that of another.\n"
		"\n"
		"Examples:\n"
		"  millrace merge perf.data -o merged.data\n"
		"  millrace merge -o all.data before.data after.data\n"
		"  millrace merge -o all.data web1.data web2.data\n"
		"  millrace report -i all.data -s host,symbol",
	.options = merge_table,
	.run = merge_run_command,
};
