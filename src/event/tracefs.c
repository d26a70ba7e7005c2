/* SPDX-License-Identifier: MIT */
#include "event/tracefs.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/vfs.h>

#include "base/diag.h"

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
		diag_set(reterr, 0,
			 "this kernel has no tracefs (CONFIG_TRACING), so there are no tracepoints");
	else if (errno == ENOENT)
		diag_set(reterr, 0, "tracefs is not mounted and there is no %s: is /sys mounted?",
			 mount_point);
	else
		diag_set(reterr, 0, "tracefs is not mounted (%s); as root: mount -t tracefs nodev %s",
			 strerror(errno), mount_point);
	return NULL;
}
