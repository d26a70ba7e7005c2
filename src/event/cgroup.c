/* SPDX-License-Identifier: MIT */
/* Source: perf_event_open(2) PERF_FLAG_PID_CGROUP; cgroups(7) "perf_event". */
#include "event/cgroup.h"

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
#include "event/event.h"

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
			return diag_set(reterr, -EINVAL, "\"%.*s\" is one cgroup more than there are events before it", (int)len,
					name);
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
