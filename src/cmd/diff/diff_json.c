/* SPDX-License-Identifier: MIT */
#include "cmd/cli/json_writer.h"
#include "cmd/diff/diff.h"
#include "cmd/input/input.h"
#include "perfdata/attr.h"

static void put_signed(struct json_writer *json, const char *name, int64_t number)
{
	if (number < 0)
		json_null(json, name);
	else
		json_signed(json, name, number);
}

/* As in `report --json`. */
static void put_key(struct json_writer *json, enum hist_column key, const struct hist_place *place)
{
	switch (key) {
	case HIST_COMM: json_text(json, "comm", place->comm->text); break;
	case HIST_DSO: json_text(json, "dso", place->dso ? dso_long_name(place->dso) : NULL); break;
	case HIST_SYM: json_text(json, "sym", place->symbol ? place->symbol->name : NULL); break;
	case HIST_TID: put_signed(json, "tid", (int)place->tid); break;
	case HIST_CPU: put_signed(json, "cpu", place->cpu); break;
	case HIST_SRCLINE: json_text(json, "srcline", place->details->srcline); break;
	default: json_text(json, "srcfile", place->details->srcfile[0] ? place->details->srcfile : NULL); break;
	}
}

static void put_cell(struct json_writer *json, const struct diff_rows *rows, const struct diff_row *row, unsigned file,
		     const struct diff_options *options)
{
	static const char *const names[] = {"delta", "delta", "ratio", "wdiff"};
	bool computable = options->compute <= DIFF_DELTA_ABS || row->cells[0].has;

	if (!row->cells[file].has) {
		json_null(json, NULL);
		return;
	}
	json_object(json, NULL);
	json_number(json, "period", row->cells[file].period);
	json_printf(json, "percent", "%.4f", file ? diff_percent(rows, row, file) : diff_baseline_percent(rows, row));
	if (file && computable)
		json_printf(json, names[options->compute], "%.6f", diff_value(rows, row, file, options));
	json_end(json);
}

static void put_row(struct json_writer *json, const struct diff_rows *rows, const struct diff_row *row,
		    const struct diff_options *options)
{
	json_break(json);
	json_object(json, NULL);
	for (unsigned i = 0; i < options->nr_keys; i++)
		put_key(json, options->keys[i], &row->place);
	json_array(json, "files");
	for (unsigned file = 0; file < rows->nr_files; file++)
		put_cell(json, rows, row, file, options);
	json_end(json);
	json_end(json);
}

void diff_json_put(struct json_writer *json, const struct diff_rows *rows, const struct event_desc *event,
		   const struct diff_options *options)
{
	json_break(json);
	json_object(json, NULL);
	json_text(json, "event", event->name);
	json_text(json, "unit", input_event_unit(event));
	json_array(json, "totals");
	for (unsigned file = 0; file < rows->nr_files; file++)
		json_number(json, NULL, file ? rows->totals[file] : rows->baseline);
	json_end(json);
	json_array(json, "entries");
	for (size_t i = 0; i < rows->nr; i++)
		put_row(json, rows, rows->rows[i], options);
	json_end(json);
	json_end(json);
}
