/* SPDX-License-Identifier: MIT */
#include "record/unwind/user_chain.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "record/setup/target.h"
#include "record/setup/workload.h"
#include "unwind/frame_pointers.h"

enum { MOST_PROGRAMS = 64 };
static const uint64_t most_ns = 100000000; /* for all that run */

/* Programs that were looked at, and the first answer that settles it. */
struct search {
	size_t nr;
	struct {
		dev_t dev;
		ino_t ino;
	} programs[MOST_PROGRAMS];
	bool kept;       /* one keeps them */
	bool incomplete; /* there are more programs than were looked at */
};

/* As frame_pointers_kept(). */
static int kept_in(const char *path)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return -1;
	int kept = frame_pointers_kept(fd);
	if (kept >= 0)
		log_verbose("%s: code %s frame pointers", path, kept ? "keeps" : "does not keep");
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
		kept = kept_in(paths[i]);
	return kept;
}

/* Each program once. */
static bool is_new(struct search *search, const struct stat *st)
{
	for (size_t i = 0; i < search->nr; i++)
		if (search->programs[i].dev == st->st_dev && search->programs[i].ino == st->st_ino)
			return false;
	if (search->nr == MOST_PROGRAMS) {
		search->incomplete = true;
		return false;
	}
	search->programs[search->nr].dev = st->st_dev;
	search->programs[search->nr++].ino = st->st_ino;
	return true;
}

/* doubt: what is not known of this program counts as if it kept them. */
static void look_at(struct search *search, const char *path, bool doubt)
{
	struct stat st; /* of a kernel thread: there is none */

	if (search->kept || stat(path, &st) || !is_new(search, &st))
		return;
	int kept = kept_in(path);
	search->kept = kept > 0 || (kept < 0 && doubt);
}

static void look_at_task(struct search *search, const char *tid, bool doubt)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%.20s/exe", tid);
	look_at(search, path, doubt);
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
			look_at_task(search, entry->d_name, false);
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
		look_at(&search, program, true);
	for (size_t i = 0; i < target->nr_tids && !search.kept; i++) {
		char tid[16];
		snprintf(tid, sizeof(tid), "%d", (int)target->tids[i]);
		look_at_task(&search, tid, true);
	}
	if (target->kind == EVENT_TARGET_SYSTEM || target->kind == EVENT_TARGET_CPUS)
		look_at_all(&search);
	if (search.incomplete && !search.kept)
		log_verbose("not all programs that run were looked at for frame pointers");
	return search.kept || search.incomplete;
}
