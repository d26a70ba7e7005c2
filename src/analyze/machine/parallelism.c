/* SPDX-License-Identifier: MIT */
#include "analyze/machine/parallelism.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>

#include "base/hash_table.h"
#include "perfdata/feature.h"
#include "perfdata/feature_machine.h"
#include "read/session.h"

enum { NO_TASK = UINT32_MAX };

struct parallelism {
	const struct session *session;
	struct hash_table running; /* by tid */
	uint32_t nr_cpus;          /* 0: not asked yet */
};

bool parallelism_is_recorded(const struct session *session)
{
	size_t nr;
	const struct event_desc *events = session_events(session, &nr);

	for (size_t i = 0; i < nr; i++)
		if (events[i].attr.context_switch)
			return true;
	return false;
}

struct parallelism *parallelism_new(const struct session *session)
{
	struct parallelism *parallelism = calloc(1, sizeof(*parallelism));

	if (parallelism)
		parallelism->session = session;
	return parallelism;
}

void parallelism_free(struct parallelism *parallelism)
{
	if (!parallelism)
		return;
	hash_table_fini(&parallelism->running);
	free(parallelism);
}

static uint32_t nr_cpus(struct parallelism *parallelism)
{
	struct feature_nrcpus nr = {0};
	struct span payload;

	if (!parallelism->nr_cpus && session_feature(parallelism->session, FEATURE_NRCPUS, &payload) &&
	    feature_decode_nrcpus(payload, &nr))
		nr.available = 0;
	if (!parallelism->nr_cpus)
		parallelism->nr_cpus = nr.available ? nr.available : UINT32_MAX;
	return parallelism->nr_cpus;
}

/* The idle task does not count. */
static int set_running(struct parallelism *parallelism, uint32_t tid, bool running)
{
	struct hash_slot *slot = hash_table_find(&parallelism->running, tid);

	if (slot && !running)
		hash_table_remove(&parallelism->running, slot);
	if (slot || !running || !tid || tid == NO_TASK)
		return 0;
	return hash_table_add_number(&parallelism->running, tid, 1);
}

int parallelism_observe(struct parallelism *parallelism, const struct session_record *record)
{
	const struct perf_event_header *header = record->view.header;

	switch (header->type) {
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		return set_running(parallelism, record->sample.tid, !(header->misc & PERF_RECORD_MISC_SWITCH_OUT));
	case PERF_RECORD_EXIT: return set_running(parallelism, record->sample.tid, false);
	case PERF_RECORD_LOST: hash_table_clear(&parallelism->running); return 0;
	default: return 0;
	}
}

uint32_t parallelism_at(struct parallelism *parallelism, const struct session_record *sample)
{
	if (set_running(parallelism, sample->sample.tid, true))
		return 0;
	uint32_t nr = (uint32_t)parallelism->running.nr, most = nr_cpus(parallelism);
	return nr < 1 ? 1 : nr < most ? nr : most;
}
