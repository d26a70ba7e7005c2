/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/diag.h"
#include "base/log.h"
#include "cmd/agent/agent.h"
#include "cmd/agent/child.h"
#include "cmd/input/sandbox.h"
#include "record/output/recover.h"

enum { EXIT_FAILED = 1, EXIT_NO_RECORDS = 2 };

/* Names of files that are not finished. */
static const char newest[] = "perf.data"; /* what the recorder writes into */
static const char open_end[] = ".part";   /* what it finishes */
static const char kept_end[] = ".left";   /* what could not be recovered yet */

static bool has_end(const char *name, const char *end)
{
	size_t len = strlen(name), end_len = strlen(end);

	return len > end_len && strcmp(name + len - end_len, end) == 0;
}

static int is_kept(const struct dirent *entry)
{
	return has_end(entry->d_name, kept_end);
}

/* "perf.data.old": an earlier perf.data, for which a recorder made room. */
static int is_left(const struct dirent *entry)
{
	return is_kept(entry) || has_end(entry->d_name, open_end) || strcmp(entry->d_name, newest) == 0 ||
	       (strncmp(entry->d_name, newest, strlen(newest)) == 0 &&
		strcmp(entry->d_name + strlen(newest), ".old") == 0);
}

/* The name that it gets when it is whole: behind those of the pieces before it; it is given to no other file. */
static char *finished_name(const char *directory, const char *name)
{
	const char *end = has_end(name, kept_end) ? kept_end : has_end(name, open_end) ? open_end : NULL;
	char *path;
	int len = end ? asprintf(&path, "%s/%.*s", directory, (int)(strlen(name) - strlen(end)), name)
		      : asprintf(&path, "%s/%s.9.%" PRIu64, directory, newest, clock_ns(CLOCK_REALTIME));

	return len < 0 ? NULL : path;
}

static int run_recover(void *ctx)
{
	char *path = ctx, name[] = "recover", *words[] = {name, path, NULL};
	const struct recover_params params = {.path = path, .build_ids = true, .argc = 2, .argv = words};
	struct recover_result result = {0};
	struct diag diag = {0};

	sandbox_enter(path, 0);
	int err = recover_recording(&params, &result, &diag);
	if (err)
		log_error("%s", diag.text);
	else if (result.was_whole)
		log_note("%s is whole", path);
	else
		log_note("%s: recovered %.3f MB; %" PRIu64 " bytes behind the last whole record were cut off", path,
			 (double)result.data_bytes / 1e6, result.dropped_bytes);
	return err == -EBADMSG ? EXIT_NO_RECORDS : err ? EXIT_FAILED : 0;
}

/* The exit status of run_recover() in a child, and its message. */
static int recover_in_child(char *path, char message[CHILD_MESSAGE_BYTES])
{
	struct diag diag = {0};
	int status;

	if (child_run(run_recover, path, &status, message, &diag)) {
		snprintf(message, CHILD_MESSAGE_BYTES, "%s", diag.text);
		return EXIT_FAILED;
	}
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	snprintf(message, CHILD_MESSAGE_BYTES, "%s: its recovery was ended by signal %d", path, WTERMSIG(status));
	return EXIT_FAILED;
}

/* The next recorder does not touch it, and the next call finds it. */
static void keep(const char *path, const char *finished, const char *message)
{
	AUTO_FREE char *kept = NULL;

	log_error("a recorder that was killed left a file that cannot be recovered now; it is tried again: %s",
		  message);
	if (asprintf(&kept, "%s%s", finished, kept_end) < 0) {
		kept = NULL;
		log_error("out of memory");
	} else if (rename(path, kept)) {
		log_error("cannot rename %s to %s: %s", path, kept, strerror(errno));
	}
}

/* No record can be read: it is set aside, if there is a byte in it. */
static void refuse(const char *path, const char *refused, struct recovery *result, const char *message)
{
	struct stat st;

	log_error("a recorder that was killed left a file that cannot be recovered: %s", message);
	if (stat(path, &st) == 0 && !st.st_size) {
		unlink(path);
		return;
	}
	if (rename(path, refused) == 0)
		result->nr_refused++;
	else
		result->nr_waiting++;
}

static void recover_file(const char *directory, const char *name, const char *refused, struct recovery *result)
{
	AUTO_FREE char *path = NULL, *finished = finished_name(directory, name);
	char message[CHILD_MESSAGE_BYTES];

	if (asprintf(&path, "%s/%s", directory, name) < 0)
		path = NULL;
	if (!path || !finished) {
		log_error("out of memory");
		result->nr_waiting++;
		return;
	}
	int status = recover_in_child(path, message);
	if (status == EXIT_NO_RECORDS) {
		refuse(path, refused, result, message);
	} else if (status == 0 && rename(path, finished) == 0) {
		log_note("a recorder was killed: %s", message);
	} else {
		result->nr_waiting++;
		if (has_end(name, kept_end))
			log_verbose("%s", message);
		else
			keep(path, finished, message);
	}
}

struct recovery recovery_run(const char *directory, const char *refused, bool while_recording)
{
	struct dirent **entries = NULL;
	struct recovery result = {0};
	int nr = scandir(directory, &entries, while_recording ? is_kept : is_left, alphasort);

	if (nr < 0) {
		log_error("%s: %s", directory, strerror(errno));
		result.nr_waiting = 1;
	}
	for (int i = 0; i < nr; i++) {
		recover_file(directory, entries[i]->d_name, refused, &result);
		free(entries[i]);
	}
	free(entries);
	return result;
}
