/* SPDX-License-Identifier: MIT */
#include "cmd/input/loss_data.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/log.h"
#include "cmd/input/records.h"
#include "perfdata/ledger.h"
#include "perfdata/record.h"
#include "read/session.h"

static int read_records(struct session *session, struct loss_data *data, struct diag *reterr)
{
	struct session_record record;
	struct progress progress;
	size_t nr;
	int got, err = 0;

	input_progress_start(&progress, session, "reading losses");
	while (!err && (got = session_next(session, &record, reterr)) > 0) {
		progress_step(&progress, 1, record.view.offset);
		const struct event_desc *events = session_events(session, &nr);
		/* Those of a pipe become known while it is read. */
		if (!data->times.nr_events)
			err = loss_times_init(&data->times, events, nr);
		else if (nr != data->times.nr_events)
			err = loss_times_add_events(&data->times, events, nr);
		data->times.events = events;
		if (!err)
			err = loss_times_take(&data->times, (const uint8_t *)record.view.header, record.view.header);
	}
	progress_end(&progress);
	return err ? diag_set(reterr, err, "out of memory") : got;
}

static int join_gaps(struct loss_data *data)
{
	int err = ledger_join(&data->ledger, data->times.gaps, data->times.nr_gaps, &data->gaps, &data->nr_gaps);

	for (size_t i = 0; i < data->ledger.nr_entries; i++) {
		const struct ledger_entry *entry = &data->ledger.entries[i];
		data->nr_trimmed += entry->cause == LEDGER_TRIMMED ? entry->count : 0;
		data->nr_freezes += entry->cause == LEDGER_FROZEN;
		data->frozen_ns += entry->cause == LEDGER_FROZEN ? entry->to_ns - entry->from_ns : 0;
	}
	for (size_t i = 0; i < data->ledger.nr_costs; i++) {
		const struct ledger_cost *cost = &data->ledger.costs[i];
		if (!strcmp(cost->name, LEDGER_UNWRITTEN))
			data->unwritten_bytes = cost->value;
		if (!strcmp(cost->name, LEDGER_DAMAGED))
			data->damaged_bytes = cost->value;
	}
	return err ? err : ledger_sum(data->gaps, data->nr_gaps, &data->sum);
}

static int by_event(const void *a, const void *b)
{
	const struct loss_row *left = a, *right = b;

	if (left->event != right->event)
		return left->event < right->event ? -1 : 1;
	if (left->cpu != right->cpu)
		return left->cpu < right->cpu ? -1 : 1;
	return (left->tid > right->tid) - (left->tid < right->tid);
}

/* Ids of one event on one CPU are one row, whatever tasks they were opened for. */
static void join_rows(struct loss_data *data)
{
	size_t nr = 0;

	if (data->nr_rows)
		qsort(data->rows, data->nr_rows, sizeof(*data->rows), by_event);
	for (size_t i = 0; i < data->nr_rows; i++) {
		if (nr && !by_event(&data->rows[nr - 1], &data->rows[i])) {
			data->rows[nr - 1].captured += data->rows[i].captured;
			data->rows[nr - 1].lost += data->rows[i].lost;
			data->rows[nr - 1].trimmed += data->rows[i].trimmed;
		} else {
			data->rows[nr++] = data->rows[i];
		}
	}
	data->nr_rows = nr;
}

/*
 * The ledger and the LOST_SAMPLES records have the same counts: the larger is used, which matters when the recording
 * was cut off before the records were written. LOST records count what these count, too.
 */
static int make_rows(struct loss_data *data)
{
	size_t room = data->times.nr_ids + data->ledger.nr_entries + 2;
	uint64_t by_ledger = 0, by_samples = 0;

	data->rows = calloc(room, sizeof(*data->rows));
	if (!data->rows)
		return -ENOMEM;
	if (!data->times.ids)
		return 0; /* no events: a pipe that ended before them */
	for (size_t i = 0; i < data->ledger.nr_entries; i++)
		by_ledger += ledger_cause_loses(data->ledger.entries[i].cause) ? data->ledger.entries[i].count : 0;
	data->lost_in_ledger = by_ledger;
	for (size_t i = 0; i <= data->times.nr_ids; i++)
		by_samples += data->times.ids[i].lost_samples;
	data->counted = data->ledger.counted || by_samples;
	for (size_t i = 0; i <= data->times.nr_ids; i++) {
		const struct loss_id *id = &data->times.ids[i];
		data->rows[data->nr_rows++] = (struct loss_row){
			.event = id->event,
			.cpu = id->cpu,
			.tid = id->tid,
			.captured = id->captured,
			.lost = data->counted ? (by_ledger < by_samples ? id->lost_samples : 0) : id->lost_records,
		};
	}
	for (size_t i = 0; i < data->ledger.nr_entries && by_ledger >= by_samples; i++) {
		const struct ledger_entry *entry = &data->ledger.entries[i];
		if (entry->count && ledger_cause_loses(entry->cause))
			data->rows[data->nr_rows++] = (struct loss_row){
				.event = entry->event, .cpu = entry->cpu, .tid = entry->tid, .lost = entry->count};
	}
	for (size_t i = 0; i < data->ledger.nr_entries; i++) {
		const struct ledger_entry *entry = &data->ledger.entries[i];
		if (entry->cause == LEDGER_TRIMMED)
			data->rows[data->nr_rows++] = (struct loss_row){
				.event = entry->event, .cpu = entry->cpu, .tid = entry->tid, .trimmed = entry->count};
	}
	join_rows(data);
	for (size_t i = 0; i < data->nr_rows; i++) {
		bool samples = loss_times_samples(&data->times, data->rows[i].event);
		data->captured += data->rows[i].captured;
		*(samples ? &data->lost : &data->lost_task_events) += data->rows[i].lost;
	}
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct loss_place *left = a, *right = b;

	if (left->cpu != right->cpu)
		return left->cpu < right->cpu ? -1 : 1;
	return (left->tid > right->tid) - (left->tid < right->tid);
}

static void join_places(struct loss_data *data)
{
	size_t nr = 0;

	if (data->nr_places)
		qsort(data->places, data->nr_places, sizeof(*data->places), by_place);
	for (size_t i = 0; i < data->nr_places; i++)
		if (!nr || by_place(&data->places[nr - 1], &data->places[i]))
			data->places[nr++] = data->places[i];
	data->nr_places = nr;
}

static void note_gap(struct loss_place *place, const struct ledger_entry *gap)
{
	uint64_t ns = gap->to_ns - gap->from_ns;

	if (gap->cause == LEDGER_THROTTLED) {
		place->throttled_ns += ns;
		return;
	}
	place->nr_gaps++;
	place->gap_ns += ns;
	place->lost_records += gap->count;
	if (ns >= place->worst.to_ns - place->worst.from_ns)
		place->worst = *gap;
}

static int make_places(struct loss_data *data)
{
	data->places = calloc(data->times.nr_ids + data->nr_gaps + 1, sizeof(*data->places));
	if (!data->places)
		return -ENOMEM;
	for (size_t i = 0; i < data->times.nr_ids; i++)
		data->places[data->nr_places++] =
			(struct loss_place){.cpu = data->times.ids[i].cpu, .tid = data->times.ids[i].tid};
	for (size_t i = 0; i < data->nr_gaps; i++)
		data->places[data->nr_places++] =
			(struct loss_place){.cpu = data->gaps[i].cpu, .tid = data->gaps[i].tid};
	join_places(data);
	for (size_t i = 0; i < data->nr_gaps; i++) {
		const struct loss_place key = {.cpu = data->gaps[i].cpu, .tid = data->gaps[i].tid};
		note_gap(bsearch(&key, data->places, data->nr_places, sizeof(key), by_place), &data->gaps[i]);
	}
	return 0;
}

/* A ledger tells when what no LOST record tells was lost. */
static void count_untimed(struct loss_data *data)
{
	uint64_t all = data->lost + data->lost_task_events, in_gaps = 0;

	for (size_t i = 0; i < data->nr_gaps; i++)
		in_gaps += data->gaps[i].count;
	data->lost_untimed = !data->has_ledger && all > in_gaps ? all - in_gaps : 0;
}

static int put_together(struct loss_data *data)
{
	data->start_ns = data->ledger.started_ns ? data->ledger.started_ns : data->times.first_ns;
	data->end_ns = data->ledger.ended_ns > data->start_ns ? data->ledger.ended_ns : data->times.last_ns;
	int err = loss_times_end(&data->times, data->end_ns, data->has_ledger ? &data->ledger : NULL);
	if (!err)
		err = join_gaps(data);
	if (!err)
		err = make_rows(data);
	count_untimed(data);
	return err ? err : make_places(data);
}

int loss_data_read(struct session *session, struct loss_data *ret, struct diag *reterr)
{
	struct span payload;

	*ret = (struct loss_data){0};
	int err = read_records(session, ret, reterr);
	ret->nr_missing_files = session_info(session)->nr_missing_files;
	if (session_feature(session, FEATURE_LEDGER, &payload))
		ret->has_ledger = ledger_decode(payload, &ret->ledger) == 0;
	if (put_together(ret))
		return err ? err : diag_set(reterr, -ENOMEM, "out of memory");
	return err;
}

void loss_data_read_again(struct session *session, const char *path, struct loss_data *ret)
{
	struct session *again;
	struct diag diag = {0};

	*ret = (struct loss_data){0};
	if (session_info(session)->pipe)
		return;
	if (session_open(path, SESSION_FORCE | SESSION_FILE_ORDER, &again, &diag)) {
		log_error("%s: the output does not say what was lost", diag.text);
		return;
	}
	loss_data_read(again, ret, &diag); /* what it could read is what there is */
	session_close(again);
}

void loss_data_fini(struct loss_data *data)
{
	loss_times_fini(&data->times);
	ledger_fini(&data->ledger);
	free(data->gaps);
	free(data->rows);
	free(data->places);
	*data = (struct loss_data){0};
}

const char *cost_text(const struct ledger_cost *cost, char line[COST_TEXT_BYTES])
{
	size_t len = strlen(cost->name);

	if (len > 3 && !strcmp(cost->name + len - 3, " ns"))
		snprintf(line, COST_TEXT_BYTES, "%24.*s  %15.6f s", (int)len - 3, cost->name,
			 (double)cost->value / 1e9);
	else
		snprintf(line, COST_TEXT_BYTES, "%24s  %15" PRIu64, cost->name, cost->value);
	return line;
}
