/* SPDX-License-Identifier: MIT */
#include "event/tracepoint.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"

static void cleanup_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

#define AUTO_DIR __attribute__((cleanup(cleanup_dir)))

bool tracepoint_is_pattern(const char *text)
{
	return strpbrk(text, "*?[") != NULL;
}

static int unreadable(int error, const char *path, struct diag *reterr)
{
	if (error == EACCES || error == EPERM)
		return diag_set(reterr, -EACCES,
				"no permission to read %s; as root: mount -o remount,mode=755 %.*s", path,
				(int)(strstr(path, "/events") ? strstr(path, "/events") - path : 0), path);
	return diag_set(reterr, -error, "%s: %s", path, strerror(error));
}

/* One visit: the directory being read is `path`, cut back to its first `root_len` bytes for the next system.
 */
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
	int len =
		snprintf(visit->path + visit->root_len, sizeof(visit->path) - visit->root_len, "/%s", system);
	size_t system_len = visit->root_len + (size_t)len;

	if (system_len >= sizeof(visit->path))
		return 0;
	if (!tracepoint_is_pattern(visit->name_pattern))
		return visit_one(visit, system, system_len, visit->name_pattern);

	AUTO_DIR DIR *dir = opendir(visit->path);
	if (!dir)
		return errno == ENOTDIR || errno == ENOENT ? 0
							   : unreadable(errno, visit->path, visit->reterr);
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
		     int (*call)(const struct tracepoint *tracepoint, void *data), void *data,
		     struct diag *reterr)
{
	struct visit visit = {.system_pattern = system_pattern,
			      .name_pattern = name_pattern,
			      .call = call,
			      .data = data,
			      .reterr = reterr};
	int len = snprintf(visit.path, sizeof(visit.path), "%s/events", tracefs);

	if (len < 0 || (size_t)len >= sizeof(visit.path) || system_pattern[0] == '.' ||
	    name_pattern[0] == '.')
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

void tracepoint_names(const char *tracefs, void (*offer)(const char *system, const char *name, void *data),
		      void *data)
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
