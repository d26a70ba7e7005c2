/* SPDX-License-Identifier: MIT */
#include "sysinfo/memory.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"

enum { FILE_MAX_BYTES = 1 << 20 };

#define NO_LIMIT ((uint64_t)INT64_MAX & ~UINT64_C(0xffff)) /* pages have at most 64 KiB */

/* The names of the two versions of control groups. */
struct group_files {
	const char *type; /* of the file system */
	const char *limit, *usage;
	const char *inactive, *active; /* pages of files, which the kernel takes back: lines of memory.stat */
};

static const struct group_files versions[] = {
	{"cgroup", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ", "total_active_file "},
	{"cgroup2", "memory.max", "memory.current", "inactive_file ", "active_file "},
};

/* The number behind `name` at the beginning of a line; 0: there is none. */
static uint64_t number_behind(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, name, len))
			return strtoull(line + len, NULL, 10);
	}
	return 0;
}

/* false: the file is not there, or says "max". */
static bool read_number(const char *dir, const char *name, uint64_t *ret)
{
	AUTO_FREE char *path = NULL;
	AUTO_BUF struct buf text = {0};
	char *end;

	if (asprintf(&path, "%s/%s", dir, name) < 0) {
		path = NULL;
		return false;
	}
	if (fd_slurp(path, FILE_MAX_BYTES, &text))
		return false;
	const char *number = buf_text(&text);
	*ret = strtoull(number, &end, 10);
	return end != number;
}

/* Pages of files are not counted as used: the kernel takes them back. UINT64_MAX: there is no limit. */
static uint64_t left_in_group(const char *dir, const struct group_files *files)
{
	AUTO_FREE char *path = NULL;
	AUTO_BUF struct buf stat = {0};
	uint64_t limit, usage;

	/* Version 1 says "no limit" by the largest number of whole pages. Source: mem_cgroup_read_u64() */
	if (!read_number(dir, files->limit, &limit) || limit >= NO_LIMIT || !read_number(dir, files->usage, &usage))
		return UINT64_MAX;
	if (asprintf(&path, "%s/memory.stat", dir) < 0)
		path = NULL;
	if (path && fd_slurp(path, FILE_MAX_BYTES, &stat) == 0) {
		uint64_t of_files =
			number_behind(buf_text(&stat), files->inactive) + number_behind(buf_text(&stat), files->active);
		usage -= of_files < usage ? of_files : usage;
	}
	return limit > usage ? limit - usage : 0;
}

/* Is `path` that directory, or below it? Then what is behind it, else NULL. */
static const char *below(const char *path, const char *dir)
{
	size_t len = strcmp(dir, "/") ? strlen(dir) : 0;

	return !strncmp(path, dir, len) && (!path[len] || path[len] == '/') ? path + len : NULL;
}

/* Of the group and of those that it is in, as far as they can be seen here. */
static uint64_t left_in_groups(const char *mount_point, const char *group, const struct group_files *files)
{
	AUTO_FREE char *dir = NULL;
	size_t top = strlen(mount_point);
	uint64_t least = UINT64_MAX;

	if (asprintf(&dir, "%s%s", mount_point, strcmp(group, "/") ? group : "") < 0) {
		dir = NULL;
		return least;
	}
	for (;;) {
		uint64_t left = left_in_group(dir, files);
		char *slash = strrchr(dir, '/');
		least = left < least ? left : least;
		if (strlen(dir) <= top || !slash)
			return least;
		*slash = '\0';
	}
}

/* proc_pid_cgroup(5): "4:memory:/a", or "0::/a" of version 2. The path, in `text`, which is changed; NULL. */
static char *group_of(char *text, bool version_2)
{
	char *rest = NULL;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		bool found = version_2 ? !strcmp(line, "0:") : strstr(names, "memory") != NULL;
		if (found && path[0] == '/')
			return path;
	}
	return NULL;
}

/* One line of proc_pid_mountinfo(5): a mount of control groups that bound memory? */
static uint64_t left_in_mount(const char *root, const char *line, const char *groups)
{
	char group_root[PATH_MAX], mount_point[PATH_MAX], type[32], flags[512];
	const char *behind = strstr(line, " - ");
	uint64_t left = UINT64_MAX;

	if (!behind || sscanf(line, "%*s %*s %*s %4095s %4095s", group_root, mount_point) != 2 ||
	    sscanf(behind + 3, "%31s %*s %511s", type, flags) != 2)
		return UINT64_MAX;
	for (size_t version = 0; version < sizeof(versions) / sizeof(versions[0]); version++) {
		AUTO_FREE char *text = NULL, *dir = NULL;
		if (strcmp(type, versions[version].type) || (!version && !strstr(flags, "memory")))
			continue;
		text = strdup(groups);
		if (!text || asprintf(&dir, "%s%s", root, mount_point) < 0) {
			dir = NULL;
			return UINT64_MAX;
		}
		const char *path = group_of(text, version == 1);
		const char *rest = path ? below(path, group_root) : NULL;
		/* In a namespace of its own the mount shows another part of the tree: what it shows is there. */
		left = left_in_groups(dir, rest ? rest : "", &versions[version]);
	}
	return left;
}

static uint64_t left_in_containers(const char *root)
{
	AUTO_FREE char *of_groups = NULL, *of_mounts = NULL;
	AUTO_BUF struct buf groups = {0}, mounts = {0};
	uint64_t least = UINT64_MAX;
	char *rest = NULL;

	if (asprintf(&of_groups, "%s/proc/self/cgroup", root) < 0) {
		of_groups = NULL;
		return least;
	}
	if (asprintf(&of_mounts, "%s/proc/self/mountinfo", root) < 0) {
		of_mounts = NULL;
		return least;
	}
	if (fd_slurp(of_groups, FILE_MAX_BYTES, &groups) || fd_slurp(of_mounts, 4 * FILE_MAX_BYTES, &mounts) ||
	    !buf_text(&mounts)[0])
		return least;
	const char *text = buf_text(&groups);
	for (char *line = strtok_r((char *)mounts.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		uint64_t left = left_in_mount(root, line, text);
		least = left < least ? left : least;
	}
	return least;
}

/* ulimit -v. */
static uint64_t left_in_address_space(const char *root)
{
	AUTO_FREE char *path = NULL;
	uint64_t pages;
	struct rlimit limit;

	if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	if (asprintf(&path, "%s/proc/self", root) < 0) {
		path = NULL;
		return UINT64_MAX;
	}
	if (!read_number(path, "statm", &pages))
		return UINT64_MAX;
	uint64_t used = pages * (uint64_t)sysconf(_SC_PAGESIZE);
	return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

static uint64_t left_on_machine(const char *root)
{
	AUTO_FREE char *path = NULL;
	AUTO_BUF struct buf text = {0};

	if (asprintf(&path, "%s/proc/meminfo", root) < 0) {
		path = NULL;
		return UINT64_MAX;
	}
	if (fd_slurp(path, FILE_MAX_BYTES, &text))
		return UINT64_MAX;
	uint64_t kib = number_behind(buf_text(&text), "MemAvailable:");
	return kib ? kib * 1024 : UINT64_MAX;
}

uint64_t memory_available(const char *root)
{
	const uint64_t left[] = {left_on_machine(root), left_in_containers(root), left_in_address_space(root)};
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++)
		least = left[i] < least ? left[i] : least;
	return least == UINT64_MAX ? 0 : least ? least : 1;
}

/* Not ru_maxrss of getrusage(2), which begins with what the process had before its exec. */
bool memory_counts_addresses(const char *root)
{
	AUTO_FREE char *path = NULL;
	struct rlimit limit;
	uint64_t mode;

	if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur != RLIM_INFINITY)
		return true;
	if (asprintf(&path, "%s/proc/sys/vm", root) < 0) {
		path = NULL;
		return true;
	}
	return read_number(path, "overcommit_memory", &mode) && mode == 2;
}

int memory_peak(uint64_t *ret_bytes)
{
	AUTO_BUF struct buf status = {0};
	int err = fd_slurp("/proc/self/status", FILE_MAX_BYTES, &status);

	if (!err)
		*ret_bytes = number_behind(buf_text(&status), "VmHWM:") * 1024;
	return err;
}
