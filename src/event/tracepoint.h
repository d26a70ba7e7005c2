/* SPDX-License-Identifier: MIT */
/* tracepoint: the events/ directory of tracefs: SYSTEM/NAME/id. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct diag;

struct tracepoint {
	const char *system, *name; /* borrowed for the time of the call */
	uint64_t id;               /* attr.config */
};

/*
 * Calls `visit` for every tracepoint that both patterns (fnmatch(3); a plain name is one) take, in the order
 * of the directories; what it returns, when not 0, ends the visit. 0 also when there was none; -EACCES and
 * other errors of the directories with a diag.
 */
int tracepoint_visit(const char *tracefs, const char *system_pattern, const char *name_pattern,
		     int (*visit)(const struct tracepoint *tracepoint, void *data), void *data,
		     struct diag *reterr);

/* Calls `offer` with "system:name" of all of them, without looking at ids; errors end it silently. */
void tracepoint_names(const char *tracefs, void (*offer)(const char *system, const char *name, void *data),
		      void *data);

bool tracepoint_is_pattern(const char *text);
