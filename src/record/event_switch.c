/* SPDX-License-Identifier: MIT */
#include "record/event_switch.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>

#include "event/event.h"
#include "record/eventset.h"

static bool is_meant(const struct eventset *set, size_t of, int event, bool on)
{
	bool side_band = set->events->events[of].side_band;

	if (side_band && !on)
		return false;
	return event == EVENT_SWITCH_ALL || (event == EVENT_SWITCH_SIDE_BAND ? side_band : of == (size_t)event);
}

int event_switch(struct eventset *set, int event, bool on)
{
	int err = 0;

	if (event >= 0 && !on && set->events->events[event].side_band)
		return -EPERM;
	for (size_t i = 0; i < set->plan->nr_slots; i++) {
		if (set->fds[i] < 0 || !is_meant(set, set->plan->slots[i].event, event, on))
			continue;
		if (ioctl(set->fds[i], on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0) && !err)
			err = -errno;
	}
	return err;
}

int event_switch_find(const struct eventset *set, const char *name)
{
	for (size_t i = 0; i < set->events->nr; i++)
		if (!strcmp(set->events->events[i].name, name))
			return (int)i;
	return -ENOENT;
}
