/* SPDX-License-Identifier: MIT */
#include "cmd/report_details.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/lookup.h"
#include "analyze/pool.h"
#include "analyze/srcline.h"
#include "analyze/tracepoint.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "cmd/source_text.h"
#include "cmd/trace_formats.h"
#include "format/feature_cpu.h"
#include "read/session.h"

struct details {
	struct details_options options;
	struct session *session; /* borrowed, as the machine */
	struct machine *machine;
	struct srclines *srclines;
	struct tracepoints *formats; /* NULL until they are needed */
	struct feature_cpu_topology topology;
	bool topology_read;
	struct pool pool;         /* what the trees hold */
	void *texts, *known;      /* tsearch(3): strings, struct hist_details */
};

static bool asks(const struct details *details, enum hist_column key)
{
	return details->options.wanted[key];
}

struct details *details_new(const struct details_options *options, struct session *session, struct machine *machine)
{
	struct details *details = calloc(1, sizeof(*details));

	if (!details)
		return NULL;
	*details = (struct details){.options = *options, .session = session, .machine = machine};
	if (asks(details, HIST_SRCLINE) || asks(details, HIST_SRCFILE)) {
		details->srclines = srclines_new(options->symfs);
		if (!details->srclines) {
			free(details);
			return NULL;
		}
	}
	return details;
}

static void leave_to_pool(void *node)
{
	(void)node;
}

void details_free(struct details *details)
{
	if (!details)
		return;
	tdestroy(details->texts, leave_to_pool);
	tdestroy(details->known, leave_to_pool);
	tracepoints_close(details->formats);
	srclines_free(details->srclines);
	pool_fini(&details->pool);
	free(details);
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* The one object with that text. NULL: out of memory. */
static const char *keep_text(struct details *details, struct buf *text)
{
	const char *wanted = buf_text(text);
	char *const *found = tfind(wanted, &details->texts, compare_texts);

	if (found || text->failed)
		return found ? *found : NULL;
	char *copy = pool_text(&details->pool, wanted, strlen(wanted));
	return copy && tsearch(copy, &details->texts, compare_texts) ? copy : NULL;
}

static int compare_pointers(const void *a, const void *b)
{
	return (uintptr_t)a < (uintptr_t)b ? -1 : (uintptr_t)a > (uintptr_t)b;
}

/* Any order; texts are one object each. */
static int compare_known(const void *left, const void *right)
{
	const struct hist_details *a = left, *b = right;
	int order = (a->socket > b->socket) - (a->socket < b->socket);

	if (!order)
		order = (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns);
	if (!order)
		order = compare_pointers(a->srcline, b->srcline);
	if (!order)
		order = compare_pointers(a->srcfile, b->srcfile);
	return order ? order : compare_pointers(a->trace, b->trace);
}

static const struct hist_details *keep(struct details *details, const struct hist_details *wanted)
{
	struct hist_details *const *found = tfind(wanted, &details->known, compare_known);

	if (found)
		return *found;
	struct hist_details *copy = pool_take(&details->pool, sizeof(*copy));
	if (!copy)
		return NULL;
	*copy = *wanted;
	return tsearch(copy, &details->known, compare_known) ? copy : NULL;
}

/* -1: the recording does not tell. */
static int32_t socket_of(struct details *details, const struct sample *sample)
{
	struct feature_cpu_topology *topology = &details->topology;
	struct feature_nrcpus nr;
	struct feature_cpu_ids ids;
	struct span payload;

	if (!details->topology_read && session_feature(details->session, FEATURE_NRCPUS, &payload) &&
	    !feature_decode_nrcpus(payload, &nr) && session_feature(details->session, FEATURE_CPU_TOPOLOGY, &payload) &&
	    feature_decode_cpu_topology(payload, nr.available, topology))
		*topology = (struct feature_cpu_topology){0};
	details->topology_read = true;
	if (!topology->has_ids || !(sample->present & PERF_SAMPLE_CPU) || sample->cpu >= topology->nr_cpus)
		return -1;
	feature_cpu_topology_ids(topology, sample->cpu, &ids);
	return (int32_t)ids.package;
}

static const char *trace_of(struct details *details, const struct session_record *record, struct diag *reterr)
{
	AUTO_BUF struct buf text = {0};

	if (record->event->attr.type != PERF_TYPE_TRACEPOINT)
		buf_put_text(&text, "N/A");
	else if (trace_formats_open(details->session, machine_lookup(details->machine), &details->formats, reterr))
		return NULL;
	else if (details->formats)
		tracepoint_print(details->formats, record->sample.raw, record->sample.cpu, &text);
	return keep_text(details, &text);
}

/* false: out of memory. */
static bool add_source(struct details *details, const struct location *at, struct hist_details *ret)
{
	unsigned flags = SOURCE_SYMBOL | (details->options.full_paths ? SOURCE_FULL_PATH : 0);
	AUTO_BUF struct buf line = {0}, file = {0};

	if (asks(details, HIST_SRCLINE)) {
		source_text_line(details->srclines, at, flags, &line);
		ret->srcline = keep_text(details, &line);
		if (!ret->srcline)
			return false;
	}
	if (asks(details, HIST_SRCFILE)) {
		source_text_file(details->srclines, at, flags, &file);
		ret->srcfile = keep_text(details, &file);
		if (!ret->srcfile)
			return false;
	}
	return true;
}

int details_of_sample(struct details *details, const struct session_record *record, const struct location *at,
		      const struct hist_details **ret, struct diag *reterr)
{
	uint64_t quantum = details->options.quantum_ns, time = record->sample.time;
	struct hist_details found = {0};

	diag_set(reterr, -ENOMEM, "out of memory");
	if (asks(details, HIST_TIME))
		found.time_ns = quantum ? time / quantum * quantum : time;
	if (asks(details, HIST_SOCKET))
		found.socket = socket_of(details, &record->sample);
	if (asks(details, HIST_TRACE)) {
		found.trace = trace_of(details, record, reterr);
		if (!found.trace)
			return -EBADMSG;
	}
	if (!add_source(details, at, &found))
		return -ENOMEM;
	*ret = keep(details, &found);
	return *ret ? 0 : -ENOMEM;
}

const struct hist_details *details_of_caller(struct details *details, const struct hist_details *callee,
					     const struct location *at)
{
	struct hist_details found = *callee;

	return add_source(details, at, &found) ? keep(details, &found) : NULL;
}
