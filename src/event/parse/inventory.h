/* SPDX-License-Identifier: MIT */
/* inventory: the events that this machine has, by the names that -e takes. One thread. */
#pragma once

#include <stddef.h>

struct diag;
struct event_sources;

enum inventory_kind {
	INVENTORY_HARDWARE,
	INVENTORY_SOFTWARE,
	INVENTORY_CACHE,
	INVENTORY_PMU, /* sysfs has a name for it */
	INVENTORY_TRACEPOINT,
	INVENTORY_NR_KINDS,
};

struct inventory_event {
	enum inventory_kind kind;
	char *name;  /* heap */
	char *other; /* heap; a second name, or NULL */
};

struct inventory {
	struct inventory_event *events; /* heap; by kind, then by name */
	size_t nr;
};

/*
 * Hardware and cache events that cannot be opened are left out. NULL: the usual sources. 0 or -ENOMEM; *retnote gets
 * the reason when there are no tracepoints.
 */
int inventory_make(const struct event_sources *sources, struct inventory *ret, struct diag *retnote);
void inventory_fini(struct inventory *inventory);
