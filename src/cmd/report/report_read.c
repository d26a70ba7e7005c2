/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/machine/chains.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/escape.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "base/pool.h"
#include "cmd/input/event_pair.h"
#include "cmd/input/records.h"
#include "cmd/input/store_input.h"
#include "cmd/report/report_read.h"
#include "cmd/report/report_wall.h"
#include "cmd/report/report_workers.h"
#include "perfdata/feature.h"
#include "perfdata/header.h"
#include "read/session.h"

static bool is_front(uint32_t type)
{
	return type == RECORD_HEADER_ATTR || type == RECORD_HEADER_FEATURE || type == RECORD_EVENT_UPDATE;
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
	const struct prefetcher_chunk *chunks;
	size_t nr = reading->workers && reading->begun ? input_records_span_begin(records, &chunks) : 0;

	if (!nr)
		return 0;
	int64_t got = report_workers_take(reading->workers, records->prefetcher, (struct report_run){chunks, nr});
	input_records_step_progress(records, chunks, nr);
	prefetcher_span_end(records->prefetcher, nr);
	return got < 0 ? describe_error(reading, (int)got, reterr) : got;
}

/* Everything before the first record that is no front of a pipe is known now. 1; 0: no more is wanted; -errno. */
static int begin(struct reading *reading, struct diag *reterr)
{
	struct samples *samples = &reading->samples;
	int err = samples->options.wall ? wall_new(reading->session, &samples->wall) : 0;

	reading->begun = true;
	if (err == -EINVAL)
		return diag_set(
			reterr, err,
			"--wall needs times off the CPU and samples of the CPU in one recording: record --off-cpu -e "
			"cpu-clock");
	if (err == -ENODATA)
		return diag_set(reterr, err,
				"--wall of overwritten rings needs a file whose recorder has finished it, and no pipe: "
				"only its ledger tells since when all times off the CPU are there");
	if (err)
		return describe_error(reading, err, reterr);
	return !reading->begin || reading->begin(reading->ctx);
}

static int complete(struct reading *reading, struct diag *reterr)
{
	report_workers_join(reading->workers);
	int err = samples_complete(&reading->samples);
	return err ? describe_error(reading, err, reterr) : 0;
}

static int read_records(struct reading *reading, struct diag *reterr)
{
	struct input_records records __attribute__((cleanup(input_records_close))) = {0};
	const struct session_record *record;
	int got = session_info(reading->session)->pipe ? 1 : begin(reading, reterr);

	if (got <= 0)
		return got;
	int err = input_records_open(&records, reading->session, report_workers_nr(reading->workers));
	if (err)
		return diag_set(reterr, err, "out of memory");
	err = input_records_switch(&records, &reading->samples.options.filter, reterr);
	if (err)
		return err;
	bool pipe = session_info(reading->session)->pipe;
	session_stop_at(reading->session, reading->stop);
	reading->samples.completes_later = !pipe && !reading->counted;
	/* A pipe ends by itself, when what is held back of it for the order was given. */
	while (pipe || !reading->stop || !*reading->stop) {
		int64_t taken = take_run(reading, &records, reterr);
		if (taken < 0)
			return (int)taken;
		reading->nr_records = records.progress.nr_records;
		if (chains_are_many(reading->samples.chains_of)) {
			err = complete(reading, reterr);
			if (err)
				return err;
		}
		if (taken)
			continue;
		got = input_records_next(&records, &record, reterr);
		if (got <= 0)
			break;
		if (!reading->begun && !is_front(record->view.header->type)) {
			int wanted = begin(reading, reterr);
			if (wanted <= 0)
				return wanted;
		}
		err = take(reading, record, reterr);
		if (err)
			return err;
	}
	if (!reading->begun) {
		int begun = begin(reading, got < 0 ? NULL : reterr);
		got = got < 0 ? got : begun;
	}
	return got < 0 ? got : 0;
}

int reading_run(struct reading *reading, const struct samples_options *samples, const struct symbol_options *symbols,
		struct diag *reterr)
{
	int err = machine_new(symbols, reading->session, &reading->machine);

	if (!err)
		err = samples_init(&reading->samples, samples, reading->session, reading->machine);
	if (!err && !reading->tasks_only && !reading->counted && !reading->samples.parallelism)
		err = report_workers_new(&reading->samples, &reading->workers);
	if (err)
		return diag_set(reterr, err, "out of memory");
	err = read_records(reading, reterr);
	int completed = complete(reading, err ? NULL : reterr);
	return err ? err : completed;
}

/* The rows of a store name what the records of a session describe: tasks, objects, functions. All are made once. */
struct store_rows {
	struct pool pool;
	struct dso_table dsos;
	struct hash_table tasks;   /* host and command -> struct task */
	struct hash_table symbols; /* object and name -> struct symbol */
	struct event_desc *events; /* heap */
	uint32_t nr_tasks;
	size_t nr_events;
	struct buf image; /* of the session, a recording without records */
};

static void rows_free(struct store_rows *rows)
{
	if (!rows)
		return;
	for (size_t i = 0; i < rows->nr_events; i++)
		event_desc_fini(&rows->events[i]);
	free(rows->events);
	hash_table_fini(&rows->tasks);
	hash_table_fini(&rows->symbols);
	dso_table_fini(&rows->dsos);
	pool_fini(&rows->pool);
	buf_fini(&rows->image);
	free(rows);
}

/* Few: a loop finds them. The index, or -ENOMEM. */
static int64_t find_event(struct store_rows *rows, const char *name)
{
	for (size_t i = 0; i < rows->nr_events; i++)
		if (strcmp(rows->events[i].name, name) == 0)
			return (int64_t)i;
	struct event_desc *events = reallocarray(rows->events, rows->nr_events + 1, sizeof(*events));
	if (!events)
		return -ENOMEM;
	rows->events = events;
	events[rows->nr_events] = (struct event_desc){
		.attr = {.type = PERF_TYPE_RAW,
			 .config = rows->nr_events,
			 .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_PERIOD},
		.name = strdup(name),
	};
	return events[rows->nr_events].name ? (int64_t)rows->nr_events++ : -ENOMEM;
}

/* A number in place of pid and tid, which a store does not have. NULL: out of memory. */
static const struct task *find_task(struct store_rows *rows, const struct store_row *row)
{
	uint64_t key = hash_mix(hash_text(row->host), hash_text(row->comm));
	struct {
		struct task task;
		struct comm comm;
	} *made = hash_table_find_item(&rows->tasks, key);

	if (made)
		return &made->task;
	made = pool_take(&rows->pool, sizeof(*made));
	char *text = made ? pool_text(&rows->pool, row->comm, strlen(row->comm)) : NULL;
	if (!text || hash_table_add(&rows->tasks, key, made))
		return NULL;
	made->comm.text = text;
	rows->nr_tasks++;
	made->task = (struct task){.pid = rows->nr_tasks, .tid = rows->nr_tasks, .comm = &made->comm};
	return &made->task;
}

static int find_location(struct store_rows *rows, const char *object, const char *function, struct location *ret)
{
	uint64_t key = hash_mix(hash_text(object), hash_text(function));
	struct symbol *symbol = hash_table_find_item(&rows->symbols, key);
	struct dso *dso = *object ? dso_find(&rows->dsos, object, NULL, DSO_NOTHING) : NULL;

	if (*object && !dso)
		return -ENOMEM;
	if (!symbol) {
		symbol = pool_take(&rows->pool, sizeof(*symbol));
		const char *name = symbol ? pool_text(&rows->pool, function, strlen(function)) : NULL;
		if (!name || hash_table_add(&rows->symbols, key, symbol))
			return -ENOMEM;
		*symbol = (struct symbol){.name = name, .by_name = true};
	}
	*ret = (struct location){.dso = dso, .symbol = symbol, .level = '.'};
	return 0;
}

static int take_row(void *ctx, const struct store_row *row)
{
	struct reading *reading = ctx;
	struct store_rows *rows = reading->rows;
	struct location *frames = reading->samples.frames;
	unsigned nr = row->nr_frames < CHAIN_MOST_FRAMES ? row->nr_frames : CHAIN_MOST_FRAMES;
	int64_t event = find_event(rows, row->event);
	const struct task *task = find_task(rows, row);

	if (event < 0 || !task)
		return -ENOMEM;
	for (unsigned i = 0; i < nr; i++) {
		unsigned at = row->nr_frames - 1 - i; /* the innermost first */
		int err = find_location(rows, row->objects[at], row->frames[at], &frames[i]);
		if (err)
			return err;
		if (i < row->nr_kernel)
			frames[i].level = 'k';
	}
	reading->nr_records++;
	const struct samples_row samples = {
		.event = (size_t)event,
		.task = task,
		.host = row->host,
		.frames = frames,
		.nr_frames = nr,
		.amount = {.period = row->value, .nr_samples = row->samples},
	};
	return samples_add(&reading->samples, &samples);
}

/* A recording of these events without records, for what asks a session. */
static int open_events(struct reading *reading, struct diag *reterr)
{
	struct store_rows *rows = reading->rows;
	struct feature_set features = {0};
	AUTO_BUF struct buf names = {0};
	struct file_header header;
	int err = header_encode(rows->events, rows->nr_events, &rows->image, &header);

	feature_encode_event_desc(rows->events, rows->nr_events, &names);
	if (!err)
		err = feature_set_add(&features, FEATURE_EVENT_DESC, &names);
	if (!err)
		err = feature_set_encode(&features, header.data.offset, &rows->image, header.features);
	if (!err && !rows->image.failed)
		memcpy(rows->image.data, &header, sizeof(header));
	feature_set_fini(&features);
	if (err || rows->image.failed)
		return diag_set(reterr, -ENOMEM, "out of memory");
	err = session_open_memory(buf_span(&rows->image), 0, &reading->session, reterr);
	reading->samples.session = reading->session;
	return err;
}

int reading_run_store(struct reading *reading, const struct samples_options *samples, const struct store_input *from,
		      struct diag *reterr)
{
	const struct store_question question = {
		.service = from->store.service,
		.since_s = store_input_since_s(from),
		.most_hosts = hist_has_key(&samples->hist, HIST_HOST) ? UINT32_MAX : 0,
		.ret_nr_hosts = &reading->nr_hosts,
		.row = take_row,
		.ctx = reading,
	};
	int err = machine_new(NULL, NULL, &reading->machine);

	reading->rows = calloc(1, sizeof(*reading->rows));
	if (!err && reading->rows)
		err = samples_init(&reading->samples, samples, NULL, reading->machine);
	if (err || !reading->rows)
		return diag_set(reterr, -ENOMEM, "out of memory");
	err = store_read(&from->store, &question, reterr);
	if (!err && !reading->nr_records)
		err = diag_set(reterr, -ENOENT, "%s: there are no samples of service %s in the last %" PRIu32 " s",
			       from->store.url, from->store.service, question.since_s);
	return err ? err : open_events(reading, reterr);
}

void reading_fini(struct reading *reading)
{
	report_workers_free(reading->workers);
	samples_fini(&reading->samples);
	machine_free(reading->machine);
	session_close(reading->session);
	rows_free(reading->rows);
	*reading = (struct reading){0};
}

static struct event_list list_of(const struct samples *samples)
{
	struct event_list list;

	list.events = session_events(samples->session, &list.nr);
	return list;
}

static bool has_samples(const struct samples *samples, size_t event)
{
	return event < samples->nr && samples->events[event].tally.nr;
}

bool reading_any_pair(const struct samples *baseline, const struct samples *other)
{
	const struct event_list from = list_of(baseline), to = list_of(other);

	for (size_t i = 0; i < from.nr; i++) {
		int32_t found = has_samples(baseline, i) ? event_pair_find(&from, i, &to) : -1;
		if (found >= 0 && has_samples(other, (size_t)found))
			return true;
	}
	return false;
}

static void put_events(const struct samples *samples, struct buf *out)
{
	const struct event_list list = list_of(samples);
	size_t nr_put = 0;

	for (size_t i = 0; i < list.nr; i++) {
		if (!has_samples(samples, i))
			continue;
		buf_put_text(out, nr_put++ ? ", " : "");
		escape_put_text(out, list.events[i].name);
	}
	buf_put_text(out, nr_put ? "" : "no samples");
}

void reading_report_no_pair(const char *const paths[], const struct samples *const samples[], unsigned nr)
{
	AUTO_BUF struct buf text = {0};

	for (unsigned i = 0; i < nr; i++) {
		AUTO_ESCAPED path = escaped_text(paths[i]);
		buf_printf(&text, "%s%s has ", i ? "; " : "", path.text);
		put_events(samples[i], &text);
	}
	log_note("no event has samples in the baseline and in another file: %s", buf_text(&text));
}
