/* SPDX-License-Identifier: MIT */
#include "record/filters.h"

#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "event/event.h"
#include "event/tracefs.h"
#include "record/eventset.h"

enum { FORMAT_BYTES = 1 << 16 };

/* Appends the names of a tracepoint's fields: of "field:pid_t prev_pid;" the last word, without "[16]". */
static void put_fields(const char *format, struct buf *out)
{
	const char *at = format;

	while ((at = strstr(at, "field:"))) {
		const char *end = strchr(at, ';'), *from;
		if (!end)
			return;
		const char *bracket = memchr(at, '[', (size_t)(end - at));
		const char *last = bracket ? bracket : end;
		for (from = last; from > at && from[-1] != ' ' && from[-1] != '*';)
			from--;
		if (out->len + (size_t)(last - from) < 140 && strncmp(from, "common_", 7) != 0)
			buf_printf(out, " %.*s", (int)(last - from), from);
		at = end;
	}
}

static int refused(const struct event *event, const char *filter, int err, struct diag *reterr)
{
	AUTO_BUF struct buf format = {0}, fields = {0};
	const char *tracefs = tracefs_path(NULL);
	char path[512];

	if (err != -EINVAL)
		return diag_set(reterr, err, "filter '%s' for %s: %s", filter, event->name, strerror(-err));
	snprintf(path, sizeof(path), "%s/events/%s/%s/format", tracefs ? tracefs : "", event->tracepoint_system,
		 event->tracepoint_name);
	if (tracefs && fd_slurp(path, FORMAT_BYTES, &format) >= 0)
		put_fields(buf_text(&format), &fields);
	return diag_set(reterr, err, "filter '%.80s' for %s is refused by the kernel; fields:%s", filter, event->name,
			fields.len ? buf_text(&fields) : " see its format in tracefs");
}

/* All fds of the event: the kernel keeps a filter for each. */
static int set_filter(const struct eventset *set, size_t index, const char *filter, struct diag *reterr)
{
	for (size_t i = 0; i < set->plan->nr_slots; i++) {
		if (set->plan->slots[i].event != index || set->fds[i] < 0)
			continue;
		if (ioctl(set->fds[i], PERF_EVENT_IOC_SET_FILTER, filter))
			return refused(&set->events->events[index], filter, -errno, reterr);
	}
	return 0;
}

int filters_apply(const struct eventset *set, struct diag *reterr)
{
	int err = 0;

	for (size_t e = 0; e < set->events->nr && !err; e++) {
		const struct event *event = &set->events->events[e];
		/* The kernel takes one filter for each fd, once. */
		if (event->filter && !event->leaves_out_recorder)
			err = set_filter(set, e, event->filter, reterr);
	}
	return err;
}

/* "common_pid != 17 && common_pid != 18": common_pid is what user space calls a thread id. */
static int put_own_threads(struct buf *out)
{
	DIR *dir = opendir("/proc/self/task");

	if (!dir)
		return -errno;
	for (struct dirent *entry; (entry = readdir(dir));)
		if (entry->d_name[0] != '.')
			buf_printf(out, "%scommon_pid != %s", out->len ? " && " : "", entry->d_name);
	closedir(dir);
	return out->failed ? -ENOMEM : 0;
}

int filters_leave_out_recorder(const struct eventset *set, struct diag *reterr)
{
	AUTO_BUF struct buf others = {0};
	int err = 0;

	for (size_t e = 0; e < set->events->nr && !err; e++) {
		const struct event *event = &set->events->events[e];
		AUTO_BUF struct buf whole = {0};
		if (!event->leaves_out_recorder)
			continue;
		if (!others.len && (err = put_own_threads(&others)) < 0)
			return diag_set(reterr, err, "--exclude-perf needs /proc: %s", strerror(-err));
		if (event->filter)
			buf_printf(&whole, "(%s) && (%s)", event->filter, buf_text(&others));
		err = set_filter(set, e, event->filter ? buf_text(&whole) : buf_text(&others), reterr);
	}
	return err;
}
