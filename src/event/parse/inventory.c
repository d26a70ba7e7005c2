/* SPDX-License-Identifier: MIT */
#include "event/parse/inventory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/diag.h"
#include "event/names/names.h"
#include "event/parse/event.h"
#include "event/parse/parse.h"

struct making {
	struct inventory *inventory;
	struct named_event last; /* what the event added last counts, if it came from names */
	int err;
};

/* Takes over the name. */
static int add(struct making *making, enum inventory_kind kind, char *name)
{
	struct inventory *inventory = making->inventory;
	size_t room = 64;

	while (room < inventory->nr + 1)
		room *= 2;
	struct inventory_event *grown = name ? realloc(inventory->events, room * sizeof(*inventory->events)) : NULL;
	if (!grown) {
		free(name);
		return making->err = -ENOMEM;
	}
	inventory->events = grown;
	grown[inventory->nr++] = (struct inventory_event){.kind = kind, .name = name};
	return 0;
}

static bool opens(const struct named_event *named)
{
	struct event event = list_new_event(named->type, named->config);

	event.attr.disabled = 1;
	for (int user_only = 0; user_only < 2; user_only++) {
		event.attr.exclude_kernel = event.attr.exclude_hv = (unsigned)user_only;
		long fd = syscall(SYS_perf_event_open, &event.attr, 0, -1, -1, 0UL);
		if (fd >= 0) {
			close((int)fd);
			return true;
		}
		if (errno != EACCES && errno != EPERM)
			return false;
	}
	return true; /* it is there, if not for us */
}

static int add_named(const char *word, const struct named_event *named, void *data)
{
	struct making *making = data;
	struct inventory *inventory = making->inventory;
	enum inventory_kind kind = named->type == PERF_TYPE_HARDWARE   ? INVENTORY_HARDWARE
				   : named->type == PERF_TYPE_SOFTWARE ? INVENTORY_SOFTWARE
								       : INVENTORY_CACHE;

	if (strchr(word, '_')) /* what perf stat measures: nothing to record */
		return 0;
	if (inventory->nr && making->last.type == named->type && making->last.config == named->config) {
		inventory->events[inventory->nr - 1].other = strdup(word);
		return inventory->events[inventory->nr - 1].other ? 0 : (making->err = -ENOMEM);
	}
	if (kind != INVENTORY_SOFTWARE && !opens(named))
		return 0;
	making->last = *named;
	return add(making, kind, strdup(word));
}

static int add_pmu_event(const char *pmu, const char *event, void *data)
{
	char *name;

	return add(data, INVENTORY_PMU, asprintf(&name, "%s/%s/", pmu, event) < 0 ? NULL : name);
}

static int add_tracepoint(const struct tracepoint *tracepoint, void *data)
{
	char *name;

	return add(data, INVENTORY_TRACEPOINT,
		   asprintf(&name, "%s:%s", tracepoint->system, tracepoint->name) < 0 ? NULL : name);
}

static int compare(const void *left, const void *right)
{
	const struct inventory_event *a = left, *b = right;

	return a->kind != b->kind ? (int)a->kind - (int)b->kind : strcmp(a->name, b->name);
}

int inventory_make(const struct event_sources *sources, struct inventory *ret, struct diag *retnote)
{
	struct inventory inventory = {0};
	struct making making = {.inventory = &inventory, .last = {.type = UINT32_MAX}};
	const char *tracefs = sources && sources->tracefs ? sources->tracefs : tracefs_path(retnote);

	names_visit(add_named, &making);
	if (!making.err)
		pmu_visit_events(sources && sources->event_sources ? sources->event_sources : PMU_SOURCES,
				 add_pmu_event, &making);
	if (!making.err && tracefs)
		tracepoint_visit(tracefs, "*", "*", add_tracepoint, &making, retnote);
	if (making.err) {
		inventory_fini(&inventory);
		return making.err;
	}
	if (inventory.nr)
		qsort(inventory.events, inventory.nr, sizeof(*inventory.events), compare);
	*ret = inventory;
	return 0;
}

void inventory_fini(struct inventory *inventory)
{
	for (size_t i = 0; i < inventory->nr; i++) {
		free(inventory->events[i].name);
		free(inventory->events[i].other);
	}
	free(inventory->events);
	*inventory = (struct inventory){0};
}
