/* SPDX-License-Identifier: MIT */
/* eventset: what the kernel leaves out of tracepoints: what --filter says, and the recorder itself. */
#include "record/setup/eventset.h"

#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "event/names/names.h"
#include "event/parse/event.h"
#include "record/setup/plan.h"

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
	enum { FORMAT_BYTES = 1 << 16 };
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
		if (set->plan->slots[i].event != index || set->fds[i] < 0 || set->stands_in[i])
			continue;
		if (ioctl(set->fds[i], PERF_EVENT_IOC_SET_FILTER, filter))
			return refused(&set->events->events[index], filter, -errno, reterr);
	}
	free(set->filters[index]);
	set->filters[index] = strdup(filter);
	return set->filters[index] ? 0 : diag_set(reterr, -ENOMEM, "out of memory");
}

/*
 * Asks the kernel about a filter that is set, extended, only when the recorder's threads run: by then the output is
 * there. An event of our own is asked, as each fd takes one filter. What does not open is not asked.
 */
static int try_filter(const struct event *event, struct diag *reterr)
{
	struct perf_event_attr attr = {
		.type = event->attr.type, .size = PERF_ATTR_SIZE_VER0, .config = event->attr.config, .disabled = 1};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	int err = fd >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_FILTER, event->filter) ? -errno : 0;

	if (fd >= 0)
		close(fd);
	return err ? refused(event, event->filter, err, reterr) : 0;
}

int eventset_set_filters(const struct eventset *set, struct diag *reterr)
{
	int err = 0;

	for (size_t e = 0; e < set->events->nr && !err; e++) {
		const struct event *event = &set->events->events[e];
		if (event->filter)
			err = event->leaves_out_recorder ? try_filter(event, reterr)
							 : set_filter(set, e, event->filter, reterr);
	}
	return err;
}

static int compare_tids(const void *one, const void *other)
{
	const pid_t *first = one, *second = other;

	return (*first > *second) - (*first < *second);
}

static int own_threads(pid_t **ret, size_t *ret_nr)
{
	AUTO_BUF struct buf tids = {0};
	DIR *dir = opendir("/proc/self/task");

	if (!dir)
		return -errno;
	for (struct dirent *entry; (entry = readdir(dir));) {
		pid_t tid = (pid_t)atoi(entry->d_name);
		if (tid > 0)
			buf_put(&tids, &tid, sizeof(tid));
	}
	closedir(dir);
	if (tids.failed)
		return -ENOMEM;
	*ret_nr = tids.len / sizeof(**ret);
	*ret = (pid_t *)take_ptr(tids.data);
	qsort(*ret, *ret_nr, sizeof(**ret), compare_tids);
	return 0;
}

/*
 * "common_pid != 17 && (common_pid < 20 || common_pid > 29)": common_pid is what user space calls a thread id. Threads
 * that were started one after the other mostly have numbers without a gap; a filter may be as long as a page.
 */
static int put_own_threads(struct buf *out, size_t *ret_nr)
{
	AUTO_FREE pid_t *tids = NULL;
	int err = own_threads(&tids, ret_nr);

	for (size_t i = 0, next; !err && i < *ret_nr; i = next) {
		for (next = i + 1; next < *ret_nr && tids[next] == tids[next - 1] + 1;)
			next++;
		buf_put_text(out, i ? " && " : "");
		if (next == i + 1)
			buf_printf(out, "common_pid != %d", tids[i]);
		else
			buf_printf(out, "(common_pid < %d || common_pid > %d)", tids[i], tids[next - 1]);
	}
	return err || !out->failed ? err : -ENOMEM;
}

/* Whether our threads have the numbers here that the kernel's filters know them by. */
static bool is_in_first_pid_namespace(void)
{
	const ino_t first = 0xeffffffc; /* PROC_PID_INIT_INO: linux/proc_ns.h */
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == first;
}

/* ftrace_profile_set_filter() of the kernel takes so much, with the zero at the end. */
static bool is_too_long(const char *filter)
{
	return strlen(filter) >= (size_t)sysconf(_SC_PAGESIZE);
}

int eventset_leave_out_recorder(const struct eventset *set, struct diag *reterr)
{
	AUTO_BUF struct buf others = {0};
	size_t nr_threads = 0;
	int err = 0;

	for (size_t e = 0; e < set->events->nr && !err; e++) {
		const struct event *event = &set->events->events[e];
		AUTO_BUF struct buf whole = {0};
		if (!event->leaves_out_recorder)
			continue;
		if (!others.len && (err = put_own_threads(&others, &nr_threads)) < 0)
			return diag_set(reterr, err, "--exclude-perf needs /proc: %s", strerror(-err));
		if (!is_in_first_pid_namespace())
			return diag_set(reterr, -EOPNOTSUPP,
					"--exclude-perf: filters take the numbers that threads have outside of this "
					"container, and these are not known in it: it needs the PID namespace of the "
					"host (--pid=host)");
		if (event->filter)
			buf_printf(&whole, "(%s) && (%s)", event->filter, buf_text(&others));
		const char *filter = event->filter ? buf_text(&whole) : buf_text(&others);
		if (is_too_long(filter))
			return diag_set(reterr, -E2BIG,
					"--exclude-perf: a filter for %s that names the recorder's %zu threads is "
					"longer than the kernel takes: use fewer threads, as with --no-threads",
					event->name, nr_threads);
		err = set_filter(set, e, filter, reterr);
	}
	return err;
}
