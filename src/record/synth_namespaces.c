/* SPDX-License-Identifier: MIT */
/* synth_namespaces: which namespaces a task is in. Record: perf_event_open(2) "PERF_RECORD_NAMESPACES". */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "record/synth.h"
#include "record/synth_record.h"

/* In the order of their indices: <linux/perf_event.h>, NET_NS_INDEX and so on. */
static const char *const names[] = {"net", "uts", "ipc", "pid", "user", "mnt", "cgroup"};
enum { NR_NAMES = sizeof(names) / sizeof(names[0]) };

struct record_namespaces {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t nr;
	struct {
		uint64_t dev, ino;
	} links[NR_NAMES];
};

int synth_namespaces(const struct synth_params *params, pid_t pid, pid_t tid, struct buf *out)
{
	struct record_namespaces record = {
		.header = {.type = PERF_RECORD_NAMESPACES},
		.pid = (uint32_t)pid,
		.tid = (uint32_t)tid,
		.nr = NR_NAMES,
	};

	for (size_t i = 0; i < NR_NAMES; i++) {
		char path[64];
		struct stat st;
		snprintf(path, sizeof(path), "/proc/%d/task/%d/ns/%s", pid, tid, names[i]);
		if (stat(path, &st))
			continue;
		record.links[i].dev = st.st_dev;
		record.links[i].ino = st.st_ino;
	}
	synth_put(out, &record, sizeof(record), (struct span){0}, params->trailer_bytes);
	return synth_status(out);
}
