/* SPDX-License-Identifier: MIT */
/*
 * fake_sources: a small tracefs and sysfs of our own in a temporary directory, so that the tests know what is there.
 */
#pragma once

#include "event/parse/event.h"

struct fake_sources {
	char root[64];
	char tracefs[80], pmus[80];
	struct event_sources sources; /* points into this struct */
};

/* Ends the program when the directory cannot be made. */
void fake_sources_init(struct fake_sources *fake);
void fake_sources_fini(struct fake_sources *fake);
