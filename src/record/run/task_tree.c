/* SPDX-License-Identifier: MIT */
#include "record/run/task_tree.h"

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/hash_table.h"

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* Those that a thread has forked, or that became its own by the end of another thread. */
static int add_children(unsigned pid, unsigned tid, struct buf *pids)
{
	enum { MOST_BYTES = 64 << 20 }; /* PID_MAX_LIMIT numbers have no more */
	AUTO_BUF struct buf text = {0};
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/task/%u/children", pid, tid);
	int err = fd_slurp(path, MOST_BYTES, &text);
	if (err) /* it has ended, but for -ENOMEM */
		return err == -ENOMEM ? err : 0;
	char *end = NULL;
	for (const char *at = buf_text(&text);; at = end) {
		uint32_t child = (uint32_t)strtoul(at, &end, 10);
		if (end == at)
			return buf_status(pids);
		buf_put(pids, &child, sizeof(child));
	}
}

static int add_threads(unsigned pid, struct hash_table *known, struct buf *ret_tids, struct buf *pids)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	__attribute__((cleanup(close_dir))) DIR *dir = opendir(path);
	int err = 0;

	for (struct dirent *entry; dir && !err && (entry = readdir(dir));) {
		uint32_t tid = (uint32_t)strtoul(entry->d_name, NULL, 10);
		if (!tid) /* "." and ".." */
			continue;
		if (!hash_table_find_number(known, tid)) {
			err = hash_table_add_number(known, tid, true);
			buf_put(ret_tids, &tid, sizeof(tid));
		}
		err = err ? err : add_children(pid, tid, pids);
	}
	return err ? err : buf_status(ret_tids);
}

int task_tree_list(pid_t pid, struct hash_table *known, struct buf *ret_tids)
{
	struct hash_table visited = {0}; /* one that is given another parent on the way has two */
	AUTO_BUF struct buf pids = {0};
	uint32_t next = (uint32_t)pid;

	buf_put(&pids, &next, sizeof(next));
	int err = buf_status(&pids);
	for (size_t at = 0; at < pids.len && !err; at += sizeof(next)) {
		memcpy(&next, pids.data + at, sizeof(next));
		if (hash_table_find_number(&visited, next))
			continue;
		err = hash_table_add_number(&visited, next, true);
		err = err ? err : add_threads(next, known, ret_tids, &pids);
	}
	hash_table_fini(&visited);
	return err;
}
