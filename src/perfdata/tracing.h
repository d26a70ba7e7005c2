/* SPDX-License-Identifier: MIT */
/* tracing: names of tracepoints from a TRACING_DATA blob; their formats are not parsed here. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

/* A tracepoint of the blob: "sched:sched_switch" is system and name. */
struct tracing_name {
	uint64_t id; /* attr.config */
	const char *system;
	struct span name;
};

/* Private, but for its life: it points into the blob. */
struct tracing_names {
	struct cursor at;
	const char *system;
	uint32_t systems_left, left; /* left: of this system */
};

struct tracing_names tracing_names_over(struct span blob);

/* The next one that has a name and a number. false: there is none, or the blob is damaged before it. */
bool tracing_names_next(struct tracing_names *names, struct tracing_name *ret);
