/* SPDX-License-Identifier: MIT */
/* synth_wishes: what options say about telling the state of the world. */
#pragma once

#include <stdbool.h>

/* Zeroed: everything, with one thread, as long as it takes. */
struct synth_wishes {
	bool no_tasks, no_maps, no_cgroups; /* --synth */
	unsigned maps_timeout_ms;           /* --proc-map-timeout; 0: none */
	unsigned nr_threads;                /* --num-thread-synthesize; 0: one */
};
