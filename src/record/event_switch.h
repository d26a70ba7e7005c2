/* SPDX-License-Identifier: MIT */
/*
 * event_switch: turns events on and off while they are recorded. By the thread that opened them. What carries the
 * side band alone (maps, names, tasks) is never turned off: samples that come later need it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct eventset;

enum { EVENT_SWITCH_ALL = -1, EVENT_SWITCH_SIDE_BAND = -2 };

/* `event`: its index, or one of these. 0, or -errno of the first that could not be switched; -EPERM: the side band by name. */
int event_switch(struct eventset *set, int event, bool on);

/* The index of the event of that name; -ENOENT. */
int event_switch_find(const struct eventset *set, const char *name);
