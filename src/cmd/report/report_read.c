/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "base/diag.h"
#include "cmd/input/records.h"
#include "cmd/report/report_read.h"
#include "cmd/report/report_workers.h"
#include "read/session.h"

static bool is_front(uint32_t type)
{
	return type == RECORD_HEADER_ATTR || type == RECORD_HEADER_FEATURE;
}

static int describe_error(const struct reading *reading, int err, struct diag *reterr)
{
	return diag_set(reterr, err, "%s", err == -ENOMEM ? "out of memory" : reading->samples.why.text);
}

static int take(struct reading *reading, const struct session_record *record, struct diag *reterr)
{
	bool sample = record->view.header->type == PERF_RECORD_SAMPLE;
	int err = 0;

	input_count_losses(&reading->losses, record);
	if (!sample && reading->observe)
		err = reading->observe(reading->ctx, record);
	if (!sample && !err)
		err = samples_observe(&reading->samples, record);
	if (!sample && !err)
		err = machine_process(reading->machine, record);
	else if (!reading->tasks_only && !err)
		err = samples_take(&reading->samples, record);
	if (sample && !err && reading->counted && !reading->samples.last.left_out)
		err = reading->counted(reading->ctx, record);
	return err ? describe_error(reading, err, reterr) : 0;
}

/* Samples that follow each other, as many as can be had at once: how many; 0: none; -errno. */
static int64_t take_run(struct reading *reading, struct input_records *records, struct diag *reterr)
{
	const struct prefetcher_chunk *pieces;
	size_t nr = reading->workers && reading->begun ? input_records_run(records, &pieces) : 0;

	if (!nr)
		return 0;
	int64_t got = report_workers_take(reading->workers, records->ahead, (struct report_run){pieces, nr});
	input_records_passed(records, pieces, nr);
	prefetcher_span_end(records->ahead, nr);
	return got < 0 ? describe_error(reading, (int)got, reterr) : got;
}

/* Everything before the first record that is no front of a pipe is known now. false: no more is wanted. */
static bool begin(struct reading *reading)
{
	reading->begun = true;
	return !reading->begin || reading->begin(reading->ctx);
}

static int read_records(struct reading *reading, struct diag *reterr)
{
	struct input_records records __attribute__((cleanup(input_records_close))) = {0};
	const struct session_record *record;
	int got = 0;

	if (!session_info(reading->session)->pipe && !begin(reading))
		return 0;
	int err = input_records_open(&records, reading->session, report_workers_nr(reading->workers));
	if (err)
		return diag_set(reterr, err, "cannot start a thread: %s", strerror(-err));
	err = input_records_switch(&records, &reading->samples.options.filter, reterr);
	if (err)
		return err;
	bool pipe = session_info(reading->session)->pipe;
	session_stop_at(reading->session, reading->stop);
	/* A pipe ends by itself, when what is held back of it for the order was given. */
	while (pipe || !reading->stop || !*reading->stop) {
		int64_t taken = take_run(reading, &records, reterr);
		if (taken < 0)
			return (int)taken;
		reading->nr_records = records.progress.nr_records;
		if (taken)
			continue;
		got = input_records_next(&records, &record, reterr);
		if (got <= 0)
			break;
		if (!reading->begun && !is_front(record->view.header->type) && !begin(reading))
			return 0;
		err = take(reading, record, reterr);
		if (err)
			return err;
	}
	if (!reading->begun)
		begin(reading);
	return got < 0 ? got : 0;
}

int reading_run(struct reading *reading, const struct samples_options *samples, const struct symbol_options *symbols,
		struct diag *reterr)
{
	int err = machine_new(symbols, reading->session, &reading->machine);

	if (!err)
		err = samples_init(&reading->samples, samples, reading->session, reading->machine);
	if (err == -EINVAL)
		return diag_set(
			reterr, err,
			"--wall needs times off the CPU and samples of the CPU in one recording: record --off-cpu -e "
			"cpu-clock");
	if (!err && !reading->tasks_only && !reading->counted && !reading->samples.parallelism)
		err = report_workers_new(&reading->samples, &reading->workers);
	if (err)
		return diag_set(reterr, err, "out of memory");
	err = read_records(reading, reterr);
	report_workers_join(reading->workers);
	return err;
}

void reading_fini(struct reading *reading)
{
	report_workers_free(reading->workers);
	samples_fini(&reading->samples);
	machine_free(reading->machine);
	session_close(reading->session);
	*reading = (struct reading){0};
}
