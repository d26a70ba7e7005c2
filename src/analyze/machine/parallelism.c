/* SPDX-License-Identifier: MIT */
#include "analyze/machine/parallelism.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>

#include "base/hash_table.h"
#include "perfdata/feature.h"
#include "perfdata/feature_machine.h"
#include "read/session.h"

enum { NO_TASK = UINT32_MAX, NO_CPU = UINT32_MAX };

struct parallelism {
	const struct session *session;
	struct hash_table running; /* by tid: the CPU + 1 */
	struct hash_table last;    /* by CPU: the tid + 1 of the task that was there last */
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
	hash_table_fini(&parallelism->last);
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

/* 0 or -ENOMEM. */
static int set_number(struct hash_table *table, uint64_t key, uint64_t number)
{
	struct hash_slot *slot = hash_table_find(table, key);

	if (!slot)
		return hash_table_add_number(table, key, number);
	slot->number = number;
	return 0;
}

/* The idle task does not count. */
static int set_running(struct parallelism *parallelism, const struct sample *sample)
{
	if (!sample->tid || sample->tid == NO_TASK)
		return 0;
	int err = set_number(&parallelism->running, sample->tid, (uint64_t)sample->cpu + 1);
	return err || sample->cpu == NO_CPU ? err
					    : set_number(&parallelism->last, sample->cpu, (uint64_t)sample->tid + 1);
}

/* A task that has ended leaves its CPU, after PERF_RECORD_EXIT, when it may have no number any more. */
static struct hash_slot *find_on_cpu(const struct parallelism *parallelism, uint32_t cpu)
{
	uint64_t tid = hash_table_find_number(&parallelism->last, cpu);
	struct hash_slot *slot = tid ? hash_table_find(&parallelism->running, tid - 1) : NULL;

	return slot && slot->number == (uint64_t)cpu + 1 ? slot : NULL;
}

static void set_off(struct parallelism *parallelism, const struct sample *sample)
{
	struct hash_slot *slot = sample->tid == NO_TASK ? find_on_cpu(parallelism, sample->cpu)
							: hash_table_find(&parallelism->running, sample->tid);

	if (slot)
		hash_table_remove(&parallelism->running, slot);
}

int parallelism_observe(struct parallelism *parallelism, const struct session_record *record)
{
	const struct perf_event_header *header = record->view.header;

	switch (header->type) {
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		if (!(header->misc & PERF_RECORD_MISC_SWITCH_OUT))
			return set_running(parallelism, &record->sample);
		set_off(parallelism, &record->sample);
		return 0;
	case PERF_RECORD_EXIT: set_off(parallelism, &record->sample); return 0;
	case PERF_RECORD_LOST:
		hash_table_clear(&parallelism->running);
		hash_table_clear(&parallelism->last);
		return 0;
	default: return 0;
	}
}

uint32_t parallelism_at(struct parallelism *parallelism, const struct session_record *sample)
{
	if (set_running(parallelism, &sample->sample))
		return 0;
	uint32_t nr = (uint32_t)parallelism->running.nr, most = nr_cpus(parallelism);
	return nr < 1 ? 1 : nr < most ? nr : most;
}
