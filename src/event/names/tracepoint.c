/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "event/names/names.h"

/* Documentation/trace/ftrace.rst: the mount point since 4.1, and the one inside debugfs. */
static const char mount_point[] = "/sys/kernel/tracing";
static const char debugfs_copy[] = "/sys/kernel/debug/tracing";

/* statfs(2) asks for no permission on the directory itself: seen also by users who may not enter. */
static bool is_tracefs(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && fs.f_type == TRACEFS_MAGIC;
}

const char *tracefs_path(struct diag *reterr)
{
	if (is_tracefs(mount_point))
		return mount_point;
	if (is_tracefs(debugfs_copy))
		return debugfs_copy;
	if (mount("nodev", mount_point, "tracefs", 0, NULL) == 0)
		return mount_point;
	if (errno == ENODEV)
		diag_set(reterr, 0, "this kernel has no tracefs (CONFIG_TRACING), so there are no tracepoints");
	else if (errno == ENOENT)
		diag_set(reterr, 0, "tracefs is not mounted and there is no %s: is /sys mounted?", mount_point);
	else
		diag_set(reterr, 0,
			 "tracefs is not mounted (%s); as root: mount -t tracefs nodev %s; in a container: start that "
			 "with --volume %s:%s",
			 strerror(errno), mount_point, mount_point, mount_point);
	return NULL;
}

bool tracepoint_is_pattern(const char *text)
{
	return strpbrk(text, "*?[") != NULL;
}

/*
 * Both obstacles of an ordinary user: directories and files (mode 0440: readable for the group of the mount), and what
 * perf_trace_event_perm() of kernel/trace/trace_event_perf.c asks for; system calls of own tasks need only the first.
 */
static int unreadable(int error, const char *path, struct diag *reterr)
{
	const char *events = strstr(path, "/events");
	long paranoid;

	if (error != EACCES && error != EPERM)
		return diag_set(reterr, -error, "%s: %s", path, strerror(error));
	bool restricted = fd_slurp_long("/proc/sys/kernel/perf_event_paranoid", &paranoid) == 0 && paranoid > -1;
	return diag_set(reterr, -EACCES, "no permission to read %s; as root: mount -o remount,mode=750,gid=%u %.*s%s",
			path, (unsigned)getegid(), (int)(events ? events - path : 0), path,
			restricted ? "; sysctl kernel.perf_event_paranoid=-1" : "");
}

/* One visit: the directory being read is `path`, cut back to its first `root_len` bytes for the next system. */
struct visit {
	const char *system_pattern, *name_pattern;
	int (*call)(const struct tracepoint *tracepoint, void *data);
	void *data;
	struct diag *reterr;
	char path[PATH_MAX];
	size_t root_len;
};

/* 1 when the tracepoint has an id; those of ftrace itself, and the files beside them, have none: 0. */
static int read_id(struct visit *visit, size_t system_len, const char *name, uint64_t *ret)
{
	long id;

	snprintf(visit->path + system_len, sizeof(visit->path) - system_len, "/%s/id", name);
	int err = fd_slurp_long(visit->path, &id);
	if (err == -EACCES || err == -EPERM)
		return unreadable(-err, visit->path, visit->reterr);
	visit->path[system_len] = '\0';
	if (err < 0 || id < 0)
		return 0;
	*ret = (uint64_t)id;
	return 1;
}

static int visit_one(struct visit *visit, const char *system, size_t system_len, const char *name)
{
	struct tracepoint tracepoint = {.system = system, .name = name};
	int found = read_id(visit, system_len, name, &tracepoint.id);

	return found > 0 ? visit->call(&tracepoint, visit->data) : found;
}

static int visit_system(struct visit *visit, const char *system)
{
	int len = snprintf(visit->path + visit->root_len, sizeof(visit->path) - visit->root_len, "/%s", system);
	size_t system_len = visit->root_len + (size_t)len;

	if (system_len >= sizeof(visit->path))
		return 0;
	if (!tracepoint_is_pattern(visit->name_pattern))
		return visit_one(visit, system, system_len, visit->name_pattern);

	AUTO_DIR DIR *dir = opendir(visit->path);
	if (!dir)
		return errno == ENOTDIR || errno == ENOENT ? 0 : unreadable(errno, visit->path, visit->reterr);
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (entry->d_name[0] == '.' || entry->d_type == DT_REG)
			continue;
		if (fnmatch(visit->name_pattern, entry->d_name, 0) != 0)
			continue;
		int err = visit_one(visit, system, system_len, entry->d_name);
		if (err)
			return err;
	}
	return 0;
}

int tracepoint_visit(const char *tracefs, const char *system_pattern, const char *name_pattern,
		     int (*call)(const struct tracepoint *tracepoint, void *data), void *data, struct diag *reterr)
{
	struct visit visit = {.system_pattern = system_pattern,
			      .name_pattern = name_pattern,
			      .call = call,
			      .data = data,
			      .reterr = reterr};
	int len = snprintf(visit.path, sizeof(visit.path), "%s/events", tracefs);

	if (len < 0 || (size_t)len >= sizeof(visit.path) || system_pattern[0] == '.' || name_pattern[0] == '.')
		return 0;
	visit.root_len = (size_t)len;

	AUTO_DIR DIR *dir = opendir(visit.path);
	if (!dir)
		return unreadable(errno, visit.path, reterr);
	if (!tracepoint_is_pattern(system_pattern))
		return visit_system(&visit, system_pattern);
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (entry->d_name[0] == '.' || entry->d_type == DT_REG)
			continue;
		if (fnmatch(system_pattern, entry->d_name, 0) != 0)
			continue;
		int err = visit_system(&visit, entry->d_name);
		if (err)
			return err;
	}
	return 0;
}

void tracepoint_names(const char *tracefs, void (*offer)(const char *system, const char *name, void *data), void *data)
{
	char path[PATH_MAX];
	size_t root_len = (size_t)snprintf(path, sizeof(path), "%s/events", tracefs);

	if (root_len >= sizeof(path))
		return;
	AUTO_DIR DIR *systems = opendir(path);
	for (struct dirent *system; systems && (system = readdir(systems));) {
		if (system->d_name[0] == '.' || system->d_type == DT_REG)
			continue;
		snprintf(path + root_len, sizeof(path) - root_len, "/%s", system->d_name);
		AUTO_DIR DIR *names = opendir(path);
		for (struct dirent *name; names && (name = readdir(names));) {
			if (name->d_name[0] != '.' && name->d_type != DT_REG)
				offer(system->d_name, name->d_name, data);
		}
	}
}

/* "\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;": Documentation/trace/events.rst, "Event formats". */
int tracepoint_field(const char *tracefs, const char *tracepoint, const char *field, struct tracepoint_field *ret)
{
	enum { MOST_BYTES = 1 << 16 };
	AUTO_BUF struct buf text = {0};
	char path[PATH_MAX], name[128];
	unsigned offset, bytes;

	snprintf(path, sizeof(path), "%s/events/%s/format", tracefs, tracepoint);
	snprintf(name, sizeof(name), " %s;", field);
	int err = fd_slurp(path, MOST_BYTES, &text);
	if (err)
		return err;
	const char *at = strstr(buf_text(&text), name);
	if (!at || sscanf(at + strlen(name), " offset:%u; size:%u;", &offset, &bytes) != 2 || offset > UINT16_MAX ||
	    bytes > UINT16_MAX)
		return -ENOENT;
	*ret = (struct tracepoint_field){(uint16_t)offset, (uint16_t)bytes};
	return 0;
}
