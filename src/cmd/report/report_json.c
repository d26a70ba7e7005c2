/* SPDX-License-Identifier: MIT */
#include "cmd/report/report.h"

#include <stdlib.h>

#include "cmd/cli/json_writer.h"
#include "cmd/report/report_samples.h"
#include "perfdata/attr.h"

static const char *const number_names[HIST_NUMBERS] = {
	[HIST_WEIGHT - HIST_WEIGHT] = "weight",
	[HIST_LOCAL_WEIGHT - HIST_WEIGHT] = "local_weight",
	[HIST_INS_LAT - HIST_WEIGHT] = "ins_lat",
	[HIST_LOCAL_INS_LAT - HIST_WEIGHT] = "local_ins_lat",
	[HIST_CODE_PAGE_SIZE - HIST_WEIGHT] = "code_page_size",
};

static void put_key(struct json_writer *json, enum hist_column key, const struct hist_place *place)
{
	const char level[] = {place->level, '\0'};

	switch (key) {
	case HIST_COMM: json_text(json, "comm", place->comm->text); break;
	case HIST_DSO: json_text(json, "dso", place->dso ? dso_long_name(place->dso) : NULL); break;
	case HIST_SYM:
		json_text(json, "sym", place->symbol ? place->symbol->name : NULL);
		if (!place->symbol)
			json_address(json, "address", place->address);
		json_text(json, "level", level);
		break;
	case HIST_TID: json_signed(json, "tid", (int)place->tid); break;
	case HIST_CPU: json_signed(json, "cpu", place->cpu); break;
	case HIST_SOCKET: json_signed(json, "socket", place->details->socket); break;
	case HIST_TIME: json_number(json, "time_ns", place->details->time_ns); break;
	case HIST_SRCLINE: json_text(json, "srcline", place->details->srcline); break;
	case HIST_SRCFILE: json_text(json, "srcfile", place->details->srcfile); break;
	case HIST_TRACE: json_text(json, "trace", place->details->trace); break;
	case HIST_CGROUP: json_text(json, "cgroup", place->details->cgroup); break;
	case HIST_ADDRESS: json_address(json, "addr", place->details->numbers[key - HIST_WEIGHT]); break;
	default: json_number(json, number_names[key - HIST_WEIGHT], place->details->numbers[key - HIST_WEIGHT]); break;
	}
}

static void put_entry(struct json_writer *json, const struct samples *samples, const struct hist_entry *entry)
{
	const struct hist_options *hist = &samples->options.hist;

	json_break(json);
	json_object(json, NULL);
	for (unsigned i = 0; i < hist->nr_keys; i++)
		put_key(json, hist->keys[i], &entry->place);
	json_number(json, "period", entry->period);
	json_number(json, "samples", entry->nr_samples);
	if (samples->children)
		json_number(json, "children_period", entry->children_period);
	json_end(json);
}

static int put_event(struct json_writer *json, const struct samples *samples, struct hist *hist,
		     const struct event_desc *event, double percent_limit)
{
	struct hist_entry *const *entries;
	uint64_t whole = hist_period(hist);
	size_t nr;
	int err = hist_sort(hist, &entries, &nr);

	if (err)
		return err;
	json_break(json);
	json_object(json, NULL);
	json_text(json, "event", event->name);
	json_number(json, "samples", hist_nr_samples(hist));
	json_number(json, "period", whole);
	json_array(json, "entries");
	for (size_t i = 0; i < nr && !ferror(json->to); i++) {
		uint64_t shown = samples->children ? entries[i]->children_period : entries[i]->period;
		bool small = whole && 100.0 * (double)shown / (double)whole < percent_limit;
		if (!entries[i]->place.filtered && !small)
			put_entry(json, samples, entries[i]);
	}
	json_end(json);
	json_end(json);
	return 0;
}

static void put_hints(struct json_writer *json, const struct hint_list *hints)
{
	json_array(json, "hints");
	for (size_t i = 0; i < hints->nr; i++) {
		json_break(json);
		json_object(json, NULL);
		json_printf(json, "percent", "%.2f", hints->at[i].percent);
		json_text(json, "text", hints->at[i].text);
		json_end(json);
	}
	json_end(json);
}

int report_json_print(struct samples *samples, const struct event_desc *events, size_t nr_events,
		      const struct report_json_options *options, FILE *to)
{
	struct json_writer json = {.to = to};
	int err = 0;

	json_object(&json, NULL);
	json_number(&json, "version", 1);
	json_number(&json, "lost_samples", options->lost_samples);
	json_bool(&json, "children", samples->children);
	json_array(&json, "events");
	for (size_t i = 0; i < samples->nr && i < nr_events && !err; i++)
		if (samples->events[i].hist)
			err = put_event(&json, samples, samples->events[i].hist, &events[i], options->percent_limit);
	json_end(&json);
	put_hints(&json, options->hints);
	json_end(&json);
	fputc('\n', to);
	return err;
}
