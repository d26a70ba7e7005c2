/* SPDX-License-Identifier: MIT */
/* synth_cgroup: the names of all cgroups. Record: perf_event_open(2) "PERF_RECORD_CGROUP". */
#include "record/synth.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "event/cgroup.h"
#include "record/synth_record.h"

enum { DEPTH_MAX = 64 };

struct record_cgroup {
	struct perf_event_header header;
	uint64_t id;
}; /* then the path */

/* The id that samples carry: the inode of the directory, kernfs(5); the kernel hands it out as a file handle, too. */
static int put_cgroup(const struct synth_params *params, const char *path, size_t root_len, struct buf *out)
{
	struct stat st;

	if (stat(path, &st))
		return -errno;
	struct record_cgroup record = {.header = {.type = PERF_RECORD_CGROUP}, .id = st.st_ino};
	synth_put(out, &record, sizeof(record), synth_name(path[root_len] ? path + root_len : "/"), params->trailer_bytes);
	return synth_status(out);
}

/* `path` has room for PATH_MAX bytes. A cgroup that goes away meanwhile is left out. */
static int walk(const struct synth_params *params, char *path, size_t root_len, int depth, struct buf *out)
{
	size_t len = strlen(path);
	int err = put_cgroup(params, path, root_len, out);

	if (err)
		return err == -ENOENT ? 0 : err;
	DIR *dir = depth < DEPTH_MAX ? opendir(path) : NULL;
	if (!dir)
		return 0;
	for (struct dirent *entry; !err && (entry = readdir(dir));) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		if (snprintf(path + len, PATH_MAX - len, "/%s", entry->d_name) < (int)(PATH_MAX - len))
			err = walk(params, path, root_len, depth + 1, out);
		path[len] = '\0';
	}
	closedir(dir);
	return err;
}

int synth_cgroups(const struct synth_params *params, struct buf *out)
{
	AUTO_FREE char *root = cgroup_root(), *path = malloc(PATH_MAX);

	if (!root)
		return -ENOENT;
	if (!path)
		return -ENOMEM;
	snprintf(path, PATH_MAX, "%s", root);
	return walk(params, path, strlen(path), 0, out);
}
