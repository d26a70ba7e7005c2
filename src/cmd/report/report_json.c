/* SPDX-License-Identifier: MIT */
#include "cmd/report/report.h"

#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cmd/cli/json_writer.h"
#include "cmd/input/input.h"
#include "cmd/report/report_samples.h"
#include "cmd/text/memory_text.h"
#include "cmd/text/place_text.h"
#include "perfdata/attr.h"

static const char *const number_names[HIST_NUMBERS] = {
	[HIST_WEIGHT - HIST_WEIGHT] = "weight",
	[HIST_LOCAL_WEIGHT - HIST_WEIGHT] = "local_weight",
	[HIST_INS_LAT - HIST_WEIGHT] = "ins_lat",
	[HIST_LOCAL_INS_LAT - HIST_WEIGHT] = "local_ins_lat",
	[HIST_CODE_PAGE_SIZE - HIST_WEIGHT] = "code_page_size",
	[HIST_CYCLES - HIST_WEIGHT] = "cycles",
	[HIST_PARALLELISM - HIST_WEIGHT] = "parallelism",
	[HIST_DATA_PAGE_SIZE - HIST_WEIGHT] = "data_page_size",
};

/* Where a branch or an access goes: "from_dso", "data_sym". */
static void put_end(struct json_writer *json, enum hist_column key, const struct hist_place_end *end)
{
	static const char *const names[HIST_WEIGHT - HIST_DSO_FROM] = {
		"dso_from", "symbol_from", "addr_from", "srcline_from", "dso_to",     "symbol_to",
		"addr_to",  "srcline_to",  "dso_daddr", "symbol_daddr", "dcacheline", "symbol_iaddr",
	};
	const char *name = names[key - HIST_DSO_FROM];

	switch (key) {
	case HIST_DSO_FROM:
	case HIST_DSO_TO:
	case HIST_DSO_DATA: json_text(json, name, end->dso ? dso_long_name(end->dso) : NULL); break;
	case HIST_SRCLINE_FROM:
	case HIST_SRCLINE_TO: json_text(json, name, end->srcline); break;
	case HIST_ADDRESS_FROM:
	case HIST_ADDRESS_TO: json_address(json, name, end->ip); break;
	case HIST_CACHE_LINE: json_address(json, name, end->ip & ~UINT64_C(63)); break;
	default:
		json_text(json, name, end->symbol ? end->symbol->name : NULL);
		if (key >= HIST_DSO_DATA)
			json_address(json, key == HIST_SYM_CODE ? "iaddr" : "daddr", end->ip);
		break;
	}
}

/* null: the CPU does not say. */
static void put_prediction(struct json_writer *json, uint64_t bits)
{
	if (bits & 3)
		json_bool(json, "mispredicted", !(bits & 1));
	else
		json_text(json, "mispredicted", NULL);
}

static void put_signed(struct json_writer *json, const char *name, int64_t number)
{
	if (number < 0)
		json_null(json, name);
	else
		json_signed(json, name, number);
}

static void put_number(struct json_writer *json, const char *name, uint64_t number, bool known)
{
	if (known)
		json_number(json, name, number);
	else
		json_null(json, name);
}

/* The fields of a sample of which one has what the key tells; 0: no field has. */
static uint64_t fields_of(enum hist_column key)
{
	switch (key) {
	case HIST_TIME: return PERF_SAMPLE_TIME;
	case HIST_WEIGHT:
	case HIST_LOCAL_WEIGHT: return PERF_SAMPLE_WEIGHT_TYPE;
	case HIST_INS_LAT:
	case HIST_LOCAL_INS_LAT: return PERF_SAMPLE_WEIGHT_STRUCT;
	case HIST_CODE_PAGE_SIZE: return PERF_SAMPLE_CODE_PAGE_SIZE;
	case HIST_DATA_PAGE_SIZE: return PERF_SAMPLE_DATA_PAGE_SIZE;
	case HIST_PHYSICAL: return PERF_SAMPLE_PHYS_ADDR;
	case HIST_TRANSACTION: return PERF_SAMPLE_TRANSACTION;
	case HIST_CGROUP: return PERF_SAMPLE_CGROUP;
	case HIST_LOCKED:
	case HIST_TLB:
	case HIST_MEMORY:
	case HIST_SNOOP:
	case HIST_BLOCKED: return PERF_SAMPLE_DATA_SRC;
	default: return 0;
	}
}

/* Does the number tell anything, of an event whose samples have these fields? The kernel does not know some pages. */
static bool is_known(enum hist_column key, uint64_t number, uint64_t sample_type)
{
	const uint64_t fields = fields_of(key);
	const bool page = key == HIST_CODE_PAGE_SIZE || key == HIST_DATA_PAGE_SIZE || key == HIST_PHYSICAL;

	return (!fields || sample_type & fields) && (number || !page);
}

/* What a number of the sample means, in words. null: the processor does not say. */
static void put_words(struct json_writer *json, enum hist_column key, uint64_t number, bool known)
{
	AUTO_BUF struct buf text = {0};

	switch (key) {
	case HIST_LOCKED: memory_text_lock(number, &text); break;
	case HIST_TLB: memory_text_tlb(number, &text); break;
	case HIST_MEMORY: memory_text_level(number, &text); break;
	case HIST_SNOOP: memory_text_snoop(number, &text); break;
	case HIST_BLOCKED: memory_text_blocked(number, &text); break;
	default: memory_text_transaction(number, &text); break;
	}
	const char *words = buf_text(&text);
	words += *words == ' '; /* of a column of text */
	json_text(json,
		  key == HIST_LOCKED    ? "locked"
		  : key == HIST_TLB     ? "tlb"
		  : key == HIST_MEMORY  ? "mem"
		  : key == HIST_SNOOP   ? "snoop"
		  : key == HIST_BLOCKED ? "blocked"
					: "transaction",
		  known && strcmp(words, "N/A") != 0 ? words : NULL);
}

/* NULL: "N/A" and "unknown" are words of the table. Names of wakers have a colon. */
static const char *known_text(const char *text)
{
	return strcmp(text, "N/A") && strcmp(text, "unknown") ? text : NULL;
}

static void put_key(struct json_writer *json, enum hist_column key, const struct hist_place *place,
		    uint64_t sample_type)
{
	const char level[] = {place->level, '\0'};
	const uint64_t number = key >= HIST_WEIGHT ? place->details->numbers[key - HIST_WEIGHT] : 0;
	const bool known = is_known(key, number, sample_type);

	if (key >= HIST_DSO_FROM && key < HIST_WEIGHT) {
		put_end(json, key, &place->details->ends[hist_end_of(key)]);
		return;
	}
	switch (key) {
	case HIST_COMM: json_text(json, "comm", place->comm->text); break;
	case HIST_DSO: json_text(json, "dso", place->dso ? dso_long_name(place->dso) : NULL); break;
	case HIST_SYM:
		json_text(json, "sym", place->symbol ? place->symbol->name : NULL);
		if (!place->symbol)
			json_address(json, "address", place->address);
		json_text(json, "level", level);
		break;
	case HIST_TID: put_signed(json, "tid", (int)place->tid); break;
	case HIST_CPU: put_signed(json, "cpu", place->cpu); break;
	case HIST_SOCKET: put_signed(json, "socket", place->details->socket); break;
	case HIST_TIME: put_number(json, "time_ns", place->details->time_ns, known); break;
	case HIST_SRCLINE: json_text(json, "srcline", place->details->srcline); break;
	case HIST_SRCFILE:
		json_text(json, "srcfile", place->details->srcfile[0] ? place->details->srcfile : NULL);
		break;
	case HIST_TRACE: json_text(json, "trace", place->details->trace); break;
	case HIST_STATE: json_text(json, "state", known_text(place->details->state)); break;
	case HIST_WAKER: json_text(json, "waker", known_text(place->details->waker)); break;
	case HIST_HOST:
		json_text(json, "host", place->details->host == details_unknown_host ? NULL : place->details->host);
		break;
	case HIST_CGROUP:
		json_text(json, "cgroup", known && place->details->cgroup[0] == '/' ? place->details->cgroup : NULL);
		break;
	case HIST_PARENT: json_text(json, "parent", place->details->parent); break;
	case HIST_CGROUP_ID:
		put_number(json, "cgroup_device", place->details->cgroup_device, number);
		put_number(json, "cgroup_inode", number, number);
		break;
	case HIST_ADDRESS: json_address(json, "addr", number); break;
	case HIST_SYM_SIZE:
		if (place->symbol)
			json_number(json, "symbol_size", number);
		else
			json_text(json, "symbol_size", NULL);
		break;
	case HIST_DSO_SIZE:
		if (place->dso)
			json_number(json, "dso_size", number);
		else
			json_text(json, "dso_size", NULL);
		break;
	case HIST_PHYSICAL:
		if (known)
			json_address(json, "phys_daddr", number);
		else
			json_null(json, "phys_daddr");
		break;
	case HIST_MISPREDICTED: put_prediction(json, number); break;
	case HIST_ABORTED: json_bool(json, "abort", number); break;
	case HIST_IN_TRANSACTION: json_bool(json, "in_tx", number); break;
	case HIST_TRANSACTION:
	case HIST_LOCKED:
	case HIST_TLB:
	case HIST_MEMORY:
	case HIST_SNOOP:
	case HIST_BLOCKED: put_words(json, key, number, known); break;
	default: put_number(json, number_names[key - HIST_WEIGHT], number, known); break;
	}
}

/* Of tracepoints; those that the event has. */
static void put_fields(struct json_writer *json, const struct samples *samples, const struct hist_details *details)
{
	json_object(json, "fields");
	for (unsigned i = 0; i < HIST_FIELDS; i++)
		if (details->fields[i])
			json_text(json, samples->options.fields[i].name, details->fields[i]->text);
	json_end(json);
}

static void put_entry(struct json_writer *json, const struct samples *samples, const struct event_desc *event,
		      const struct hist_entry *entry)
{
	const struct hist_options *hist = &samples->options.hist;

	json_break(json);
	json_object(json, NULL);
	bool fields = false;
	for (unsigned i = 0; i < hist->nr_keys; i++)
		if (place_is_field(hist->keys[i]))
			fields = true;
		else
			put_key(json, hist->keys[i], &entry->place, event->attr.sample_type);
	if (fields)
		put_fields(json, samples, entry->place.details);
	json_number(json, "period", samples->options.latency ? entry->latency : entry->period);
	if (samples->parallelism)
		json_number(json, "latency", samples->options.latency ? entry->period : entry->latency);
	if (samples->options.wall) {
		json_number(json, "on_cpu", hist_number(entry, HIST_ON_CPU));
		json_number(json, "off_cpu_blocked", hist_number(entry, HIST_BLOCKED_TIME));
		json_number(json, "off_cpu_runnable", hist_number(entry, HIST_RUNNABLE));
	}
	json_number(json, "samples", entry->nr_samples);
	if (samples->children)
		json_number(json, samples->options.latency ? "children_latency" : "children_period",
			    entry->children_period);
	json_end(json);
}

/* NULL: weights of accesses, of which each processor has its own; and of a store only names of events are read. */
static const char *unit_of(const struct samples_options *options, const struct event_desc *event, bool store)
{
	if (store)
		return NULL;
	switch (options->mode) {
	case SAMPLES_BRANCHES: return "count";
	case SAMPLES_MEMORY: return NULL;
	default: return options->wall ? "ns" : input_event_unit(event);
	}
}

static int put_event(struct json_writer *json, const struct samples *samples, struct hist *hist,
		     const struct event_desc *event, const struct report_json_options *options)
{
	struct hist_entry *const *entries;
	uint64_t whole = hist_period(hist);
	size_t nr;
	int err = hist_sort(hist, &entries, &nr);

	if (err)
		return err;
	json_break(json);
	json_object(json, NULL);
	json_text(json, "event", options->title ? options->title : event->name);
	json_text(json, "unit", unit_of(&samples->options, event, options->lost_samples == LOST_UNKNOWN));
	json_number(json, "samples", hist_nr_samples(hist));
	json_number(json, "period", samples->options.latency ? hist_latency(hist) : whole);
	if (samples->parallelism)
		json_number(json, "latency", samples->options.latency ? whole : hist_latency(hist));
	json_array(json, "entries");
	for (size_t i = 0; i < nr && !ferror(json->to); i++) {
		uint64_t shown = samples->children ? entries[i]->children_period : entries[i]->period;
		bool small = whole && 100.0 * (double)shown / (double)whole < options->percent_limit;
		if (!entries[i]->place.filtered && !small)
			put_entry(json, samples, event, entries[i]);
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
	if (options->lost_samples == LOST_UNKNOWN)
		json_text(&json, "lost_samples", NULL);
	else
		json_number(&json, "lost_samples", options->lost_samples);
	json_bool(&json, "children", samples->children);
	json_array(&json, "events");
	for (size_t i = 0; i < samples->nr && i < nr_events && !err; i++)
		if (samples->events[i].hist)
			err = put_event(&json, samples, samples->events[i].hist, &events[i], options);
	json_end(&json);
	put_hints(&json, options->hints);
	json_end(&json);
	fputc('\n', to);
	return err;
}
