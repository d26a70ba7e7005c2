/* SPDX-License-Identifier: MIT */
/* described_events: the events as the file tells them, once opening has settled their attrs. Owned by the recording. */
#pragma once

#include <stddef.h>

#include "format/event_desc.h"
#include "format/feature.h"

struct eventset;

struct described_events {
	struct event_desc *descs; /* heap; in the order of the events */
	size_t nr_descs;
	char **tracepoints; /* heap; "sys:event" of those that are one */
	size_t nr_tracepoints;
	struct feature_group *groups; /* heap; their names belong to the events */
	uint32_t nr_groups;
};

/* 0 or -ENOMEM. */
int described_events_make(const struct eventset *set, struct described_events *ret);
void described_events_fini(struct described_events *events); /* zeroed is fine */
