/* SPDX-License-Identifier: MIT */
#include "cmd/report_json.h"

#include <inttypes.h>
#include <stdlib.h>

#include "cmd/json_text.h"
#include "cmd/report_samples.h"
#include "format/event_desc.h"

static void print_address(uint64_t address, FILE *to)
{
	fprintf(to, "\"%#" PRIx64 "\"", address);
}

static void print_key(enum hist_column key, const struct hist_place *place, FILE *to)
{
	switch (key) {
	case HIST_COMM:
		fputs("\"comm\":", to);
		json_put_string(to, place->comm->text);
		break;
	case HIST_DSO:
		fputs("\"dso\":", to);
		if (place->dso)
			json_put_string(to, dso_long_name(place->dso));
		else
			fputs("null", to);
		break;
	case HIST_SYM:
		fputs("\"sym\":", to);
		if (place->symbol)
			json_put_string(to, place->symbol->name);
		else
			fputs("null", to);
		if (!place->symbol) {
			fputs(",\"address\":", to);
			print_address(place->address, to);
		}
		fprintf(to, ",\"level\":\"%c\"", place->level);
		break;
	case HIST_TID:
		fprintf(to, "\"tid\":%d", (int)place->tid);
		break;
	case HIST_CPU:
		fprintf(to, "\"cpu\":%d", place->cpu);
		break;
	case HIST_SOCKET:
		fprintf(to, "\"socket\":%d", place->details->socket);
		break;
	case HIST_TIME:
		fprintf(to, "\"time_ns\":%" PRIu64, place->details->time_ns);
		break;
	case HIST_SRCLINE:
		fputs("\"srcline\":", to);
		json_put_string(to, place->details->srcline);
		break;
	case HIST_SRCFILE:
		fputs("\"srcfile\":", to);
		json_put_string(to, place->details->srcfile);
		break;
	case HIST_TRACE:
		fputs("\"trace\":", to);
		json_put_string(to, place->details->trace);
		break;
	default:
		break;
	}
}

static void print_entry(const struct samples *samples, const struct hist_entry *entry, FILE *to)
{
	const struct hist_options *hist = &samples->options.hist;

	fputs("{", to);
	for (unsigned i = 0; i < hist->nr_keys; i++) {
		print_key(hist->keys[i], &entry->place, to);
		fputc(',', to);
	}
	fprintf(to, "\"period\":%" PRIu64 ",\"samples\":%" PRIu64, entry->period, entry->nr_samples);
	if (samples->children)
		fprintf(to, ",\"children_period\":%" PRIu64, entry->children_period);
	fputc('}', to);
}

static int print_event(const struct samples *samples, struct hist *hist, const struct event_desc *event,
		       const struct report_json_options *options, FILE *to)
{
	struct hist_entry *const *entries;
	uint64_t whole = hist_period(hist);
	bool first = true;
	size_t nr;
	int err = hist_sort(hist, &entries, &nr);

	if (err)
		return err;
	fputs("{\"event\":", to);
	json_put_string(to, event->name);
	fprintf(to, ",\"samples\":%" PRIu64 ",\"period\":%" PRIu64 ",\"entries\":[", hist_nr_samples(hist), whole);
	for (size_t i = 0; i < nr && !ferror(to); i++) {
		uint64_t shown = samples->children ? entries[i]->children_period : entries[i]->period;
		if (entries[i]->place.filtered ||
		    (whole && 100.0 * (double)shown / (double)whole < options->percent_limit))
			continue;
		fputs(first ? "\n" : ",\n", to);
		print_entry(samples, entries[i], to);
		first = false;
	}
	fputs("]}", to);
	return 0;
}

int report_json_print(struct samples *samples, const struct event_desc *events, size_t nr_events,
		      const struct report_json_options *options, FILE *to)
{
	bool first = true;
	int err = 0;

	fprintf(to, "{\"version\":1,\"lost_samples\":%" PRIu64 ",\"children\":%s,\"events\":[", options->lost_samples,
		samples->children ? "true" : "false");
	for (size_t i = 0; i < samples->nr && i < nr_events && !err; i++) {
		if (!samples->events[i].hist)
			continue;
		fputs(first ? "\n" : ",\n", to);
		err = print_event(samples, samples->events[i].hist, &events[i], options, to);
		first = false;
	}
	fputs("]}\n", to);
	return err;
}
