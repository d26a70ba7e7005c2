/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "event/names/names.h"
#include "event/parse/configure.h"
#include "event/parse/event.h"
#include "event/parse/parse.h"

#ifndef PERF_ATTR_SIZE_VER7
#define PERF_ATTR_SIZE_VER7 128 /* <linux/perf_event.h> of 5.13: with sig_data */
#endif

struct event list_new_event(uint32_t type, uint64_t config)
{
	struct event event = {0};

	/* What perf 6.1 passes too; older kernels take a longer attr whose unknown part is zero. */
	event.attr.size = PERF_ATTR_SIZE_VER7;
	event.attr.type = type;
	event.attr.config = config;
	event.attr.exclude_guest = 1;
	return event;
}

void event_fini(struct event *event)
{
	free(event->name);
	free(event->tracepoint_system);
	free(event->tracepoint_name);
	if (event->in_cgroup)
		close(event->cgroup_fd);
	free(event->group_name);
	free(event->filter);
	cpuset_fini(&event->cpus);
	memset(event, 0, sizeof(*event));
}

void event_list_fini(struct event_list *list)
{
	for (size_t i = 0; i < list->nr; i++)
		event_fini(&list->events[i]);
	free(list->events);
	*list = (struct event_list){0};
}

static int reserve(struct event_list *list, size_t more, struct diag *reterr)
{
	if (list->nr + more > LIST_MAX_EVENTS)
		return diag_set(reterr, -E2BIG, "more than %d events", LIST_MAX_EVENTS);
	/* Powers of two, which the list needs no count for: asking again for the same room moves nothing. */
	size_t room = 1;
	while (room < list->nr + more)
		room *= 2;
	struct event *grown = realloc(list->events, room * sizeof(*grown));
	if (!grown)
		return diag_set(reterr, -ENOMEM, "out of memory");
	list->events = grown;
	return 0;
}

int list_add(struct event_list *list, struct event *event, struct diag *reterr)
{
	int err = reserve(list, 1, reterr);

	if (err < 0)
		return err;
	list->events[list->nr++] = *event;
	memset(event, 0, sizeof(*event));
	return 0;
}

int list_append(struct event_list *list, struct event_list *from, struct diag *reterr)
{
	int err = from->nr ? reserve(list, from->nr, reterr) : 0;

	if (err < 0 || !from->nr)
		return err;
	list->last_text = list->nr;
	memcpy(list->events + list->nr, from->events, from->nr * sizeof(*from->events));
	list->nr += from->nr;
	from->nr = 0;
	return 0;
}

void list_copy_settings(struct event *event, const struct event *model)
{
	uint64_t id = event->attr.config;

	event->attr = model->attr;
	event->attr.config = id;
	event->given = model->given;
	event->callgraph = model->callgraph;
	event->dump_bytes = model->dump_bytes;
}

void list_make_group(struct event_list *list, size_t first, char *name)
{
	struct event *leader = &list->events[first];

	free(leader->group_name);
	leader->group_name = name;
	leader->nr_members = (unsigned)(list->nr - first);
	leader->group_some_cpus = leader->some_cpus;
	for (unsigned i = 1; i < leader->nr_members; i++) {
		leader[i].behind_leader = i;
		leader[i].nr_members = 0; /* a leader among them leads no more */
		leader->group_some_cpus |= leader[i].some_cpus;
	}
}

size_t event_list_split_group(struct event_list *list, size_t index)
{
	size_t first = index - list->events[index].behind_leader;
	struct event *leader = &list->events[first];

	for (unsigned i = 1; i < leader->nr_members; i++) {
		leader[i].behind_leader = 0;
		leader[i].attr.disabled = leader->attr.disabled;
		leader[i].attr.enable_on_exec = leader->attr.enable_on_exec;
	}
	leader->nr_members = 0;
	return first;
}

int event_list_add_default(struct event_list *list, bool amd)
{
	struct event event = list_new_event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);

	event.attr.exclude_guest = !amd;
	event.attr.precise_ip = 3;
	event.given = EVENT_GIVEN_MODIFIER | EVENT_GIVEN_MAX_PRECISE;
	event.name = strdup("cycles:P");
	if (!event.name)
		return -ENOMEM;
	int err = list_add(list, &event, NULL);
	event_fini(&event);
	return err;
}

char *event_derived_name(const struct perf_event_attr *attr)
{
	const char *base = names_of(attr->type, attr->config);
	char letters[16];
	size_t nr = 0;
	bool levels = attr->exclude_user || attr->exclude_kernel || attr->exclude_hv;
	bool guest_left_out = levels || attr->precise_ip; /* the default then */

	if (!base)
		return NULL;
	if (levels && !attr->exclude_kernel)
		letters[nr++] = 'k';
	if (levels && !attr->exclude_user)
		letters[nr++] = 'u';
	if (levels && !attr->exclude_hv)
		letters[nr++] = 'h';
	for (unsigned i = 0; i < attr->precise_ip; i++)
		letters[nr++] = 'p';
	if (attr->exclude_host || attr->exclude_guest == guest_left_out) {
		if (!attr->exclude_host)
			letters[nr++] = 'H';
		if (!attr->exclude_guest)
			letters[nr++] = 'G';
	}
	letters[nr] = '\0';

	char *name = malloc(strlen(base) + nr + 2);
	if (name)
		stpcpy(stpcpy(stpcpy(name, base), nr ? ":" : ""), letters);
	return name;
}

/*
 * --filter and --exclude-perf: to which events they apply. Source: Documentation/trace/events.rst, "Event filtering".
 */

/* The events of the last text are all tracepoints. */
static int check_tracepoints(const struct event_list *list, const char *option, struct diag *reterr)
{
	if (!list->nr)
		return diag_set(reterr, -EINVAL, "%s must follow the -e of its tracepoints", option);
	for (size_t i = list->last_text; i < list->nr; i++)
		if (!list->events[i].tracepoint_system)
			return diag_set(reterr, -EINVAL,
					"%s is for tracepoints, and %s is not one: give them in two -e, and the filter "
					"behind the -e of the tracepoints",
					option, list->events[i].name);
	return 0;
}

static int add_filter(struct event *event, const char *filter)
{
	char *whole;

	if (!event->filter)
		whole = strdup(filter);
	else if (asprintf(&whole, "(%s) && (%s)", event->filter, filter) < 0)
		whole = NULL;
	if (!whole)
		return -ENOMEM;
	free(event->filter);
	event->filter = whole;
	return 0;
}

int event_list_filter(struct event_list *list, const char *filter, struct diag *reterr)
{
	int err = check_tracepoints(list, "--filter", reterr);

	if (!err && !filter[strspn(filter, " \t")])
		return diag_set(reterr, -EINVAL, "empty filter: give one such as prev_pid == 0");
	for (size_t i = list->last_text; !err && i < list->nr; i++) {
		err = add_filter(&list->events[i], filter);
		if (err)
			diag_set(reterr, err, "out of memory");
	}
	return err;
}

int event_list_leave_out_recorder(struct event_list *list, struct diag *reterr)
{
	int err = check_tracepoints(list, "--exclude-perf", reterr);

	for (size_t i = list->last_text; !err && i < list->nr; i++)
		list->events[i].leaves_out_recorder = true;
	return err;
}

/* Source: perf_event_open(2) PERF_FLAG_PID_CGROUP; cgroups(7) "perf_event". */

char *cgroup_root(void)
{
	AUTO_BUF struct buf mounts = {0};
	AUTO_FREE char *unified = NULL;
	char *rest = NULL;

	if (fd_slurp("/proc/self/mounts", 1 << 22, &mounts) || !buf_text(&mounts)[0])
		return NULL;
	for (char *line = strtok_r((char *)mounts.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char dir[PATH_MAX], type[32], flags[512];

		if (sscanf(line, "%*s %4095s %31s %511s", dir, type, flags) != 3)
			continue;
		if (!strcmp(type, "cgroup") && strstr(flags, "perf_event"))
			return strdup(dir);
		if (!strcmp(type, "cgroup2") && !unified)
			unified = strdup(dir);
	}
	return take_ptr(unified);
}

static int open_one(const char *name, size_t len, struct diag *reterr)
{
	AUTO_FREE char *root = cgroup_root(), *path = NULL;

	if (!root)
		return diag_set(reterr, -ENOENT, "no cgroups are mounted: mount -t cgroup2 none /sys/fs/cgroup");
	if (asprintf(&path, "%s/%.*s", root, (int)len, name) < 0) {
		path = NULL;
		return diag_set(reterr, -ENOMEM, "out of memory");
	}
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? diag_set(reterr, -EINVAL, "cgroup %s: %s", path, strerror(errno)) : fd;
}

static int assign(struct event *event, const char *name, size_t len, struct diag *reterr)
{
	int fd = open_one(name, len, reterr);

	if (fd < 0)
		return fd;
	if (event->in_cgroup)
		close(event->cgroup_fd);
	event->in_cgroup = true;
	event->cgroup_fd = fd;
	return 0;
}

int cgroup_assign(struct event_list *list, const char *names, unsigned *position, struct diag *reterr)
{
	if (!list->nr)
		return diag_set(reterr, -EINVAL, "cgroups are for the events before them: give -e first");
	for (const char *name = names;; ++*position) {
		size_t len = strcspn(name, ",");
		if (len && *position >= list->nr)
			return diag_set(reterr, -EINVAL, "cgroup \"%.*s\" has no event: give -e for it before -G",
					(int)len, name);
		int err = len ? assign(&list->events[*position], name, len, reterr) : 0;
		if (err)
			return err;
		name += len;
		if (!*name++)
			break;
	}
	++*position;
	return 0;
}

int cgroup_assign_all(struct event_list *list, const char *name, struct diag *reterr)
{
	for (size_t i = 0; i < list->nr; i++) {
		int err = assign(&list->events[i], name, strlen(name), reterr);
		if (err)
			return err;
	}
	return 0;
}

bool event_list_copies_stacks(const struct event_list *list)
{
	for (size_t i = 0; i < list->nr; i++)
		if (list->events[i].attr.sample_stack_user)
			return true;
	return false;
}

uint32_t event_list_most_dump_bytes(const struct event_list *list)
{
	uint32_t most = 0;

	for (size_t i = 0; i < list->nr; i++)
		if (list->events[i].attr.sample_stack_user > most)
			most = list->events[i].attr.sample_stack_user;
	return most;
}

bool event_list_unwinds(const struct event_list *list)
{
	for (size_t i = 0; i < list->nr; i++)
		if (list->events[i].unwinds)
			return true;
	return false;
}

bool event_list_only_unwinds(const struct event_list *list)
{
	for (size_t i = 0; i < list->nr; i++)
		if (list->events[i].attr.sample_stack_user && !list->events[i].unwinds)
			return false;
	return event_list_unwinds(list);
}

uint64_t event_list_interval_ns(const struct event_list *list)
{
	uint64_t shortest = UINT64_MAX;

	for (size_t i = 0; i < list->nr; i++) {
		const struct perf_event_attr *attr = &list->events[i].attr;
		bool software = attr->type == PERF_TYPE_SOFTWARE;
		bool clock = software &&
			     (attr->config == PERF_COUNT_SW_CPU_CLOCK || attr->config == PERF_COUNT_SW_TASK_CLOCK);
		uint64_t interval_ns = attr->freq && attr->sample_freq ? UINT64_C(1000000000) / attr->sample_freq
				       : clock && !attr->freq          ? attr->sample_period
								       : 0;
		if (!attr_is_dummy(attr))
			shortest = interval_ns < shortest ? interval_ns : shortest;
	}
	return shortest == UINT64_MAX ? 0 : shortest;
}
