/* SPDX-License-Identifier: MIT */
#include "cmd/report/report.h"

#include <inttypes.h>
#include <string.h>

#include "base/diag.h"
#include "base/escape.h"
#include "base/text.h"
#include "cmd/cli/json_writer.h"
#include "cmd/input/loss_data.h"
#include "read/session.h"

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static uint64_t elapsed_ns(const struct loss_data *data)
{
	return data->end_ns > data->start_ns ? data->end_ns - data->start_ns : 0;
}

static const char *event_name(const struct loss_data *data, uint32_t event)
{
	const struct event_desc *events = data->times.events;

	if (!loss_times_samples(&data->times, event))
		return "task events (mmap, comm, fork, exit)";
	return event < data->times.nr_events && events[event].name ? events[event].name : "(all)";
}

static void print_place(FILE *to, int32_t cpu, int32_t tid)
{
	char text[24] = "all";

	if (cpu >= 0)
		snprintf(text, sizeof(text), "CPU %d", cpu);
	else if (tid >= 0)
		snprintf(text, sizeof(text), "task %d", tid);
	fprintf(to, "%12s", text);
}

static double covered_percent(const struct loss_data *data)
{
	double all_ns = (double)elapsed_ns(data) * (double)(data->nr_places ? data->nr_places : 1);

	return all_ns > 0 && (double)data->sum.gap_ns < all_ns ? 100.0 * (1 - (double)data->sum.gap_ns / all_ns)
	       : data->sum.gap_ns                              ? 0
							       : 100.0;
}

/* What is printed with four digits; all of it only where that is so. */
static double covered_percent_down(const struct loss_data *data)
{
	double percent = covered_percent(data);

	return percent > 99.9999 && percent < 100 ? 99.9999 : percent;
}

static void print_front(FILE *to, const struct loss_data *data)
{
	/* A ring tells what it lost in front of its next record, and these files have nothing behind the last one. */
	const bool ends_unknown = !data->has_ledger && !data->counted;
	const bool is_partial = ends_unknown || data->nr_missing_files || data->lost_untimed || data->unwritten_bytes ||
				data->damaged_bytes;

	fprintf(to, "# Captured: %" PRIu64 " samples; lost: %" PRIu64 " (%.2f %%)\n", data->captured, data->lost,
		percent(data->lost, data->captured + data->lost));
	if (data->lost_task_events)
		fprintf(to, "# Lost task events (mmap, comm, fork, exit): %" PRIu64 "\n", data->lost_task_events);
	if (data->unwritten_bytes)
		fprintf(to, "# Not counted: %" PRIu64 " bytes of records at the end that could not be written\n",
			data->unwritten_bytes);
	if (data->nr_missing_files)
		fprintf(to, "# Not counted: the records of %" PRIu64 " file%s of the directory that %s missing\n",
			data->nr_missing_files, text_s(data->nr_missing_files),
			data->nr_missing_files == 1 ? "is" : "are");
	if (data->damaged_bytes)
		fprintf(to, "# Not counted: %" PRIu64 " bytes of the file that were damaged, and left out\n",
			data->damaged_bytes);
	if (ends_unknown)
		fputs("# Not known: whether more was lost behind the last record of a ring: there is no ledger\n", to);
	if (data->lost_untimed)
		fprintf(to, "# Of these, %" PRIu64 " were lost at times that are not known\n", data->lost_untimed);
	fprintf(to, "# Elapsed: %.6f s on %zu CPUs or tasks; covered: %s%.4f %% of their time\n",
		(double)elapsed_ns(data) / 1e9, data->nr_places, is_partial ? "at most " : "",
		covered_percent_down(data));
	fprintf(to, "# lost_time/elapsed_time: %s%.6f/%.6f s = %.4f %%\n", is_partial ? "at least " : "",
		(double)data->sum.any_ns / 1e9, (double)elapsed_ns(data) / 1e9,
		percent(data->sum.any_ns, elapsed_ns(data)));
	if (data->nr_freezes)
		fprintf(to, "# Stopped: what was recorded, %zu time%s, %.6f s in all, until there was room in memory\n",
			data->nr_freezes, text_s(data->nr_freezes), (double)data->frozen_ns / 1e9);
	if (data->nr_trimmed)
		fprintf(to, "# Cut short: the stacks of %" PRIu64 " sample%s, while there was little room in memory\n",
			data->nr_trimmed, text_s(data->nr_trimmed));
	if (!data->counted && data->lost)
		fputs("# Not counted by event: the counts are those of LOST records, which are of a ring\n", to);
	fputs("#\n", to);
}

static void print_rows(FILE *to, const struct loss_data *data)
{
	fprintf(to, "# %10s  %12s  %12s  %8s  Event\n", "Where", "Captured", "Lost", "Lost %");
	for (size_t i = 0; i < data->nr_rows; i++) {
		const struct loss_row *row = &data->rows[i];
		if (!row->captured && !row->lost && !row->trimmed)
			continue;
		print_place(to, row->cpu, row->tid);
		AUTO_ESCAPED name = escaped_text(event_name(data, row->event));
		fprintf(to, "  %12" PRIu64 "  %12" PRIu64 "  %8.2f  %s\n", row->captured, row->lost,
			percent(row->lost, row->captured + row->lost), name.text);
	}
}

static void print_places(FILE *to, const struct loss_data *data)
{
	fprintf(to, "\n# %10s  %8s  %12s  %12s  %12s  %12s  Cause\n", "Where", "Gaps", "Lost ms", "Worst ms", "at s",
		"Throttled ms");
	for (size_t i = 0; i < data->nr_places; i++) {
		const struct loss_place *place = &data->places[i];
		if (!place->nr_gaps && !place->throttled_ns)
			continue;
		uint64_t at = place->worst.from_ns > data->start_ns ? place->worst.from_ns - data->start_ns : 0;
		print_place(to, place->cpu, place->tid);
		fprintf(to, "  %8" PRIu64 "  %12.3f  %12.3f  %12.3f  %12.3f  %s\n", place->nr_gaps,
			(double)place->gap_ns / 1e6, (double)(place->worst.to_ns - place->worst.from_ns) / 1e6,
			(double)at / 1e9, (double)place->throttled_ns / 1e6,
			place->nr_gaps ? ledger_cause_name(place->worst.cause) : "throttled");
	}
}

enum { COLUMNS = 60 };

/*
 * How much of each column of the timeline the gaps of a place take, from 0 to 1. Gaps and places are in one order:
 * *first is the first gap of this place or behind it, and then that of the next one.
 */
static void fill_columns(const struct loss_data *data, const struct loss_place *place, size_t *first,
			 double columns[COLUMNS])
{
	double width = (double)elapsed_ns(data) / COLUMNS;

	for (; *first < data->nr_gaps; ++*first) {
		const struct ledger_entry *gap = &data->gaps[*first];
		if (gap->cpu != place->cpu || gap->tid != place->tid)
			break;
		if (gap->to_ns < data->start_ns)
			continue;
		double from = gap->from_ns > data->start_ns ? (double)(gap->from_ns - data->start_ns) / width : 0;
		double end = (double)(gap->to_ns - data->start_ns) / width;
		for (int c = from < COLUMNS ? (int)from : COLUMNS - 1; c < COLUMNS && c <= end; c++) {
			double low = from > c ? from : c, high = end < c + 1 ? end : c + 1;
			columns[c] += high > low ? high - low : 0;
			columns[c] = columns[c] > 0 ? columns[c] : 1e-9; /* a gap without length is one, too */
		}
	}
}

static char column_mark(double part)
{
	return part <= 0 ? ' ' : part < 0.1 ? '.' : part < 0.5 ? ':' : part < 0.9 ? '+' : '#';
}

static void print_timeline(FILE *to, const struct loss_data *data)
{
	if (!data->nr_gaps || !elapsed_ns(data))
		return;
	fprintf(to, "\n# Timeline: %d columns of %.3f ms; lost in them: . little, : a part, + most, # all\n", COLUMNS,
		(double)elapsed_ns(data) / 1e6 / COLUMNS);
	for (size_t i = 0, first = 0; i < data->nr_places; i++) {
		const struct loss_place *place = &data->places[i];
		double columns[COLUMNS] = {0};
		fill_columns(data, place, &first, columns);
		if (!place->nr_gaps && !place->throttled_ns)
			continue;
		print_place(to, place->cpu, place->tid);
		fputs(" |", to);
		for (int c = 0; c < COLUMNS; c++)
			fputc(column_mark(columns[c]), to);
		fputs("|\n", to);
	}
}

static void print_costs(FILE *to, const struct ledger *ledger)
{
	if (ledger->nr_costs)
		fputs("\n# What recording used\n", to);
	for (size_t i = 0; i < ledger->nr_costs; i++) {
		char line[COST_TEXT_BYTES];
		fprintf(to, "%s\n", cost_text(&ledger->costs[i], line));
	}
}

struct action_unit {
	uint64_t value;
	const char *name;
};

static struct action_unit unit_of(uint32_t kind)
{
	switch (kind) {
	case LEDGER_LEVEL_CHANGED:
	case LEDGER_THREAD_CHANGED: return (struct action_unit){1, ""};
	case LEDGER_POLL_INTERVAL:
	case LEDGER_FAST_POLL: return (struct action_unit){1000000, " ms"};
	default: return (struct action_unit){1024, " KiB"};
	}
}

/* In the order of time, as they were done. */
static void print_actions(FILE *to, const struct loss_data *data)
{
	if (data->ledger.nr_actions)
		fputs("\n# What was done about it\n", to);
	for (size_t i = 0; i < data->ledger.nr_actions; i++) {
		const struct ledger_action *action = &data->ledger.actions[i];
		fprintf(to, "%13.6f s  ",
			action->ns > data->start_ns ? (double)(action->ns - data->start_ns) / 1e9 : 0.0);
		print_place(to, action->cpu, action->tid);
		const struct action_unit unit = unit_of(action->kind);
		fprintf(to, "  %s", ledger_action_kind_name(action->kind));
		if (action->from != action->to)
			fprintf(to, " from %" PRIu64, action->from / unit.value);
		fprintf(to, "%s %" PRIu64 "%s\n", action->from != action->to ? " to" : " at", action->to / unit.value,
			unit.name);
	}
}

static void put_json_place(struct json_writer *json, int32_t cpu, int32_t tid)
{
	json_signed(json, "cpu", cpu);
	json_signed(json, "tid", tid);
}

static void put_json_rows(struct json_writer *json, const struct loss_data *data)
{
	json_array(json, "events");
	for (size_t i = 0; i < data->nr_rows; i++) {
		const struct loss_row *row = &data->rows[i];
		json_break(json);
		json_object(json, NULL);
		json_text(json, "event", event_name(data, row->event));
		put_json_place(json, row->cpu, row->tid);
		json_number(json, "captured", row->captured);
		json_number(json, "lost", row->lost);
		json_number(json, "trimmed", row->trimmed);
		json_end(json);
	}
	json_end(json);
	json_break(json);
}

static void put_json_gaps(struct json_writer *json, const struct loss_data *data)
{
	json_array(json, "gaps");
	for (size_t i = 0; i < data->nr_gaps; i++) {
		const struct ledger_entry *gap = &data->gaps[i];
		json_break(json);
		json_object(json, NULL);
		put_json_place(json, gap->cpu, gap->tid);
		json_number(json, "from_ns", gap->from_ns);
		json_number(json, "to_ns", gap->to_ns);
		json_number(json, "records", gap->count);
		json_text(json, "cause", ledger_cause_name(gap->cause));
		json_end(json);
	}
	json_end(json);
	json_break(json);
}

static void put_json_actions(struct json_writer *json, const struct ledger *ledger)
{
	json_array(json, "actions");
	for (size_t i = 0; i < ledger->nr_actions; i++) {
		const struct ledger_action *action = &ledger->actions[i];
		json_break(json);
		json_object(json, NULL);
		json_number(json, "ns", action->ns);
		put_json_place(json, action->cpu, action->tid);
		json_text(json, "kind", ledger_action_kind_name(action->kind));
		json_number(json, "from", action->from);
		json_number(json, "to", action->to);
		json_end(json);
	}
	json_end(json);
	json_break(json);
}

static void print_json(FILE *to, const struct loss_data *data)
{
	struct json_writer json = {.to = to};

	json_object(&json, NULL);
	json_number(&json, "captured", data->captured);
	json_number(&json, "lost", data->lost);
	json_bool(&json, "counted", data->counted);
	json_bool(&json, "ledger", data->has_ledger);
	json_break(&json);
	json_number(&json, "started_ns", data->start_ns);
	json_number(&json, "elapsed_ns", elapsed_ns(data));
	json_number(&json, "lost_time_ns", data->sum.any_ns);
	json_printf(&json, "covered_percent", "%.6f", covered_percent(data));
	json_break(&json);
	json_number(&json, "freezes", data->nr_freezes);
	json_number(&json, "frozen_ns", data->frozen_ns);
	json_number(&json, "trimmed", data->nr_trimmed);
	json_number(&json, "lost_in_ledger", data->lost_in_ledger);
	json_number(&json, "lost_task_events", data->lost_task_events);
	json_number(&json, "lost_untimed", data->lost_untimed);
	json_break(&json);
	put_json_rows(&json, data);
	put_json_gaps(&json, data);
	put_json_actions(&json, &data->ledger);
	json_object(&json, "cost");
	for (size_t i = 0; i < data->ledger.nr_costs; i++) {
		json_break(&json);
		json_number(&json, data->ledger.costs[i].name, data->ledger.costs[i].value);
	}
	json_end(&json);
	json_end(&json);
	fputc('\n', to);
}

int report_loss_print(const struct report_loss_options *options, struct session *session, FILE *to, struct diag *reterr)
{
	struct loss_data data;
	int err = loss_data_read(session, &data, reterr);

	if (options->json) {
		print_json(to, &data);
	} else {
		if (!options->headless)
			print_front(to, &data);
		print_rows(to, &data);
		print_places(to, &data);
		print_timeline(to, &data);
		print_actions(to, &data);
		print_costs(to, &data.ledger);
	}
	loss_data_fini(&data);
	return err;
}
