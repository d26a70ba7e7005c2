/* SPDX-License-Identifier: MIT */
#include "cmd/report_stats.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "read/session.h"

/* Of one event. */
struct event_stats {
	uint64_t samples, lost_samples;
};

struct stats {
	uint64_t by_type[RECORD_USER_LAST + 1], total;
	struct event_stats *events; /* heap; by index */
	size_t nr_events;
};

/* NULL: out of memory. */
static struct event_stats *stats_event(struct stats *stats, const struct session *session,
				       const struct event_desc *event)
{
	size_t nr, at = (size_t)(event - session_events(session, &nr));

	if (at >= stats->nr_events) {
		struct event_stats *events = reallocarray(stats->events, at + 1, sizeof(*events));
		if (!events)
			return NULL;
		memset(events + stats->nr_events, 0, (at + 1 - stats->nr_events) * sizeof(*events));
		stats->events = events;
		stats->nr_events = at + 1;
	}
	return &stats->events[at];
}

static int stats_take(struct stats *stats, const struct session *session, const struct session_record *record)
{
	const struct perf_event_header *header = record->view.header;
	bool lost = header->type == PERF_RECORD_LOST_SAMPLES;

	stats->total++;
	if (header->type <= RECORD_USER_LAST)
		stats->by_type[header->type]++;
	if (!record->event || (header->type != PERF_RECORD_SAMPLE && !lost))
		return 0;
	struct event_stats *event = stats_event(stats, session, record->event);
	if (!event)
		return -ENOMEM;
	if (lost && header->size >= sizeof(*header) + sizeof(uint64_t))
		event->lost_samples += *(const uint64_t *)(header + 1);
	else
		event->samples += !lost;
	return 0;
}

static void print_line(FILE *to, const char *name, uint64_t nr)
{
	fprintf(to, "%16s events: %10" PRIu64, name, nr);
}

static void print_all(FILE *to, const struct stats *stats, const struct session *session)
{
	size_t nr_events;
	const struct event_desc *events = session_events(session, &nr_events);

	fputs("\nAggregated stats:\n", to);
	print_line(to, "TOTAL", stats->total);
	fputc('\n', to);
	for (uint32_t type = 1; type <= RECORD_USER_LAST; type++) {
		if (!stats->by_type[type])
			continue;
		print_line(to, record_type_name(type), stats->by_type[type]);
		fprintf(to, "  (%4.1f%%)\n", 100.0 * (double)stats->by_type[type] / (double)stats->total);
	}
	for (size_t i = 0; i < nr_events && i < stats->nr_events; i++) {
		const struct event_stats *event = &stats->events[i];
		if (event->samples || event->lost_samples)
			fprintf(to, "%s stats:\n", events[i].name);
		if (event->samples)
			print_line(to, "SAMPLE", event->samples), fputc('\n', to);
		if (event->lost_samples)
			print_line(to, "LOST_SAMPLES", event->lost_samples), fputc('\n', to);
	}
}

int stats_print(FILE *to, struct session *session, struct diag *reterr)
{
	struct stats stats = {0};
	struct session_record record;
	int got;

	while ((got = session_next(session, &record, reterr)) > 0) {
		if (stats_take(&stats, session, &record)) {
			got = diag_set(reterr, -ENOMEM, "out of memory");
			break;
		}
	}
	print_all(to, &stats, session);
	free(stats.events);
	return got;
}
