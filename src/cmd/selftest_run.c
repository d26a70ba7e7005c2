/* SPDX-License-Identifier: MIT */
#include "cmd/selftest_run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "format/feature_ledger.h"
#include "read/session.h"

extern char **environ;

enum { MAX_ARGS = 32 };

/* A command line that is put together; the texts live as long as it. */
struct arguments {
	char *texts[MAX_ARGS];
	size_t nr;
};

static void arguments_fini(struct arguments *args)
{
	for (size_t i = 0; i < args->nr; i++)
		free(args->texts[i]);
}

__attribute__((format(printf, 2, 3))) static int add(struct arguments *args, const char *format, ...)
{
	va_list values;
	char *text;

	va_start(values, format);
	int len = vasprintf(&text, format, values);
	va_end(values);
	if (len < 0)
		return -ENOMEM;
	args->texts[args->nr++] = text;
	return 0;
}

static int add_event(const struct selftest_params *params, struct arguments *args)
{
	int err = 0;

	/* The event that carries the tasks' life in front: what is lost of that is not lost of the counted one. */
	if (params->kind == SELFTEST_SYSCALLS) {
		err |= add(args, "-edummy");
		err |= add(args, "-eraw_syscalls:sys_enter");
		err |= add(args, "--filter");
		return err | add(args, "id == %d", SYS_getppid);
	}
	err |= add(args, "-edummy,page-faults:u");
	err |= add(args, "-c1");
	return err | add(args, "-d");
}

static int make_arguments(const struct selftest_params *params, const struct selftest_case *how, const char *path,
			  struct arguments *args)
{
	int err = add(args, "millrace");

	err |= add(args, "record");
	err |= add(args, "-o%s", path);
	err |= add(args, "--writer=%s", how->writer);
	if (how->threads)
		err |= add(args, "--threads");
	if (how->compressed)
		err |= add(args, "-z");
	if (how->ring)
		err |= add(args, "-m%s", how->ring);
	err |= add(args, "-B");
	err |= add_event(params, args);
	err |= add(args, "--");
	err |= add(args, "/proc/self/exe");
	err |= add(args, "selftest");
	return err | add(args, "--load=%s:%" PRIu64, params->kind == SELFTEST_SYSCALLS ? "syscalls" : "faults",
			 params->nr);
}

/* Runs this program again, its words into a file. */
static int spawn(struct arguments *args, const char *words, int *ret_status)
{
	posix_spawn_file_actions_t actions;
	pid_t pid;

	/* What the user's file sets, a filter or an event, is not what is tested. */
	if (setenv("MILLRACE_CONFIG", "/dev/null", 1))
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, words, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	int err = -posix_spawn(&pid, "/proc/self/exe", &actions, NULL, args->texts, environ);
	posix_spawn_file_actions_destroy(&actions);
	while (!err && waitpid(pid, ret_status, 0) < 0)
		err = errno == EINTR ? 0 : -errno;
	return err;
}

static int record(const struct selftest_params *params, const struct selftest_case *how, const char *path,
		  const char *words, struct diag *reterr)
{
	__attribute__((cleanup(arguments_fini))) struct arguments args = {0};
	AUTO_BUF struct buf said = {0};
	int status = 0;

	if (make_arguments(params, how, path, &args))
		return diag_set(reterr, -ENOMEM, "out of memory");
	int err = spawn(&args, words, &status);
	if (err)
		return diag_set(reterr, err, "millrace record cannot be run: %s", strerror(-err));
	if (!status)
		return 0;
	fd_slurp(words, 65536, &said);
	return diag_set(reterr, -EIO, "millrace record failed: %s", buf_text(&said));
}

/* One byte for each number of each thread. */
struct tally {
	const struct selftest_params *params;
	size_t nr_threads;
	uint8_t *seen;
	struct selftest_result result;
};

static void count_record(struct tally *tally, const struct session_record *record)
{
	const struct perf_event_header *header = record->view.header;
	uint64_t thread, nr;

	/* Of the counted event, which is not the first; the dummy loses tasks' lives. */
	if (header->type == PERF_RECORD_LOST_SAMPLES && header->size >= sizeof(*header) + sizeof(uint64_t) &&
	    record->event && record->event->attr.config != PERF_COUNT_SW_DUMMY)
		tally->result.lost += *(const uint64_t *)(header + 1);
	if (!selftest_load_number(tally->params->kind, record, &thread, &nr))
		return;
	if (thread >= tally->nr_threads || nr >= tally->params->nr) {
		tally->result.strange++;
		return;
	}
	uint8_t *seen = &tally->seen[thread * tally->params->nr + nr];
	tally->result.captured += !*seen;
	tally->result.twice += *seen;
	*seen = 1;
}

static void read_ledger(const struct session *session, struct selftest_result *result)
{
	struct span payload;
	struct ledger ledger;

	if (!session_feature(session, FEATURE_LEDGER, &payload) || ledger_decode(payload, &ledger))
		return;
	for (size_t i = 0; i < ledger.nr_entries; i++)
		if (ledger.entries[i].event == 1) /* behind the dummy */
			result->ledger_lost += ledger_cause_loses(ledger.entries[i].cause) ? ledger.entries[i].count : 0;
	for (size_t i = 0; i < ledger.nr_costs; i++)
		if (!strcmp(ledger.costs[i].name, "all cpu ns"))
			result->cpu_ns = ledger.costs[i].value;
	ledger_fini(&ledger);
}

static int tally_session(const char *path, struct tally *tally, struct diag *reterr)
{
	struct session_record record;
	struct session *session;
	int got, err = session_open(path, SESSION_FILE_ORDER, &session, reterr);

	if (err)
		return err;
	while ((got = session_next(session, &record, reterr)) > 0)
		count_record(tally, &record);
	read_ledger(session, &tally->result);
	session_close(session);
	return got;
}

static void remove_recording(const char *path)
{
	AUTO_FREE char *old = NULL;
	char *argv[] = {(char *)(uintptr_t) "rm", (char *)(uintptr_t) "-rf", (char *)(uintptr_t) "--", NULL, NULL};
	pid_t pid;

	argv[3] = old = strdup(path);
	if (old && posix_spawnp(&pid, "rm", NULL, NULL, argv, environ) == 0)
		waitpid(pid, NULL, 0);
}

int selftest_run(const struct selftest_params *params, const struct selftest_case *how, struct selftest_result *ret,
		 struct diag *reterr)
{
	AUTO_FREE char *path = NULL, *words = NULL;
	AUTO_FREE uint8_t *seen = NULL;
	struct tally tally = {.params = params, .nr_threads = selftest_load_threads()};

	tally.seen = seen = calloc(tally.nr_threads, params->nr);
	if (!seen || asprintf(&path, "%s/recording", params->directory) < 0 || asprintf(&words, "%s/words", params->directory) < 0)
		return diag_set(reterr, -ENOMEM, "out of memory");
	int err = record(params, how, path, words, reterr);
	if (!err)
		err = tally_session(path, &tally, reterr);
	remove_recording(path);
	unlink(words);
	if (err)
		return err;
	tally.result.generated = tally.nr_threads * params->nr;
	*ret = tally.result;
	return 0;
}

bool selftest_passed(const struct selftest_params *params, const struct selftest_result *result)
{
	uint64_t missing = result->generated - result->captured;
	/* A filter leaves nothing but the load of system calls; faults of others may be lost, too. */
	bool accounted = params->kind == SELFTEST_SYSCALLS ? missing == result->lost : missing <= result->lost;

	/* A recorder that captures nothing tests nothing, however well it counts. */
	return accounted && result->captured && !result->twice && !result->strange && result->lost == result->ledger_lost;
}
