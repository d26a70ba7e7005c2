/* SPDX-License-Identifier: MIT */
#include "record/unwind/user_chain.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "record/setup/target.h"
#include "record/setup/workload.h"
#include "sysinfo/object_file.h"
#include "unwind/frame_pointers.h"

enum { MOST_PROGRAMS = 64 };
static const uint64_t most_ns = 100000000; /* for all that run */

/* Programs that were looked at, and the first answer that settles it. */
struct search {
	size_t nr;
	uint64_t programs[MOST_PROGRAMS]; /* hashes of their paths and mount namespaces */
	bool kept;                        /* one keeps them */
	bool incomplete;                  /* there are more programs than were looked at */
};

/* fd is closed. As frame_pointers_kept(). */
static int kept_in(int fd, const char *name)
{
	AUTO_FD int its = fd;

	if (its < 0)
		return its;
	int kept = frame_pointers_kept(its);
	if (kept >= 0)
		log_verbose("%s: code %s frame pointers", name, kept ? "keeps" : "does not keep");
	return kept;
}

/* The first that is there: a distribution builds all alike. A machine without a libc has programs that are static. */
static int kept_by_libc(void)
{
	static const char *const paths[] = {
		"/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/usr/lib64/libc.so.6", "/usr/lib/libc.so.6",
		"/lib/ld-musl-x86_64.so.1",        "/bin/sh",
	};
	int kept = -1;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]) && kept < 0; i++)
		kept = kept_in(object_file_open(paths[i], NULL), paths[i]);
	return kept;
}

/* Each program once. */
static bool is_new(struct search *search, uint64_t program)
{
	for (size_t i = 0; i < search->nr; i++)
		if (search->programs[i] == program)
			return false;
	if (search->nr == MOST_PROGRAMS) {
		search->incomplete = true;
		return false;
	}
	search->programs[search->nr++] = program;
	return true;
}

/* Of a link of /proc; no file system is asked. false: it cannot be read. */
static bool read_link(pid_t pid, const char *name, char *ret, size_t room)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	ssize_t len = readlink(path, ret, room - 1);
	ret[len < 0 ? 0 : len] = '\0';
	return len >= 0;
}

/* doubt: what is not known of this program counts as if it kept them. */
static void look_at_task(struct search *search, pid_t pid, bool doubt)
{
	char program[PATH_MAX], mounts[64], name[32];

	/* A kernel thread has none. */
	if (search->kept || !read_link(pid, "exe", program, sizeof(program)))
		return;
	(void)read_link(pid, "ns/mnt", mounts, sizeof(mounts));
	if (!is_new(search, hash_text(program) * 31 + hash_text(mounts)))
		return;
	snprintf(name, sizeof(name), "/proc/%d/exe", (int)pid);
	int kept = kept_in(object_file_open_program(pid, NULL), name);
	search->kept = kept > 0 || (kept < 0 && doubt);
	search->incomplete |= kept == -ETIMEDOUT;
}

/* What runs now. What begins later is not known. */
static void look_at_all(struct search *search)
{
	const uint64_t began_ns = clock_ns(CLOCK_MONOTONIC);
	DIR *dir = opendir("/proc");

	if (!dir) {
		search->incomplete = true;
		return;
	}
	for (const struct dirent *entry; !search->kept && !search->incomplete && (entry = readdir(dir));) {
		if (isdigit((unsigned char)entry->d_name[0]))
			look_at_task(search, atoi(entry->d_name), false);
		search->incomplete |= clock_ns(CLOCK_MONOTONIC) - began_ns > most_ns;
	}
	closedir(dir);
}

bool user_chain_is_of_use(const struct target *target, char *const workload[])
{
	struct search search = {0};

	/* A command may be a shell that runs others. */
	if (target->kind == EVENT_TARGET_WORKLOAD || kept_by_libc() != 0)
		return true;
	AUTO_FREE char *program = workload ? workload_find_program(workload[0]) : NULL;
	if (program)
		search.kept = kept_in(object_file_open(program, NULL), program) != 0;
	for (size_t i = 0; i < target->nr_tids && !search.kept; i++)
		look_at_task(&search, target->tids[i], true);
	if (target->kind == EVENT_TARGET_SYSTEM || target->kind == EVENT_TARGET_CPUS)
		look_at_all(&search);
	if (search.incomplete && !search.kept)
		log_verbose("not all programs that run were looked at for frame pointers");
	return search.kept || search.incomplete;
}
