/* SPDX-License-Identifier: MIT */
#include "cmd/selftest_run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/cpuset.h"
#include "base/diag.h"
#include "base/fd.h"
#include "perfdata/ledger.h"
#include "perfdata/sample.h"
#include "read/session.h"

enum { MAGIC = 0x6d696c6c };

/* Where the pages of the threads are: no program is mapped there, with 47 bits of address or more. */
#define PAGES_AT 0x100000000000ull
#define PAGES_OF_THREAD 0x1000000000ull /* bytes from one thread's to the next's */

struct load_thread {
	pthread_t thread;
	size_t index;
	int cpu;
	enum selftest_kind kind;
	uint64_t nr;
	int err;
};

static const char *const kind_names[] = {[SELFTEST_SYSCALLS] = "syscalls", [SELFTEST_FAULTS] = "faults"};

int selftest_load_parse(const char *text, enum selftest_kind *ret_kind, uint64_t *ret_nr)
{
	for (int kind = SELFTEST_SYSCALLS; kind <= SELFTEST_FAULTS; kind++) {
		size_t len = strlen(kind_names[kind]);
		char *end;
		if (strncmp(text, kind_names[kind], len) || text[len] != ':')
			continue;
		*ret_nr = strtoull(text + len + 1, &end, 10);
		*ret_kind = (enum selftest_kind)kind;
		return *end || end == text + len + 1 ? -EINVAL : 0;
	}
	return -EINVAL;
}

size_t selftest_load_threads(void)
{
	return cpuset_count_allowed();
}

static void make_calls(const struct load_thread *load)
{
	for (uint64_t i = 0; i < load->nr; i++)
		syscall(SYS_getppid, i, MAGIC, load->index);
}

/* Memory is given back now and then: the addresses count, not what is there. */
static int touch_pages(const struct load_thread *load)
{
	enum { MAPPED_PAGES = 1024 };
	size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = load->nr * page;
	void *wanted = (void *)(uintptr_t)(PAGES_AT + load->index * PAGES_OF_THREAD);

	if (bytes > PAGES_OF_THREAD)
		return -EINVAL;
	uint8_t *pages = mmap(wanted, bytes, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (pages != wanted)
		return pages == MAP_FAILED ? -errno : -EEXIST;
	madvise(pages, bytes, MADV_NOHUGEPAGE); /* a huge one is one fault for many numbers */
	for (uint64_t i = 0; i < load->nr; i++) {
		*(volatile uint8_t *)(pages + i * page) = 1;
		if (i % MAPPED_PAGES == MAPPED_PAGES - 1)
			madvise(pages + (i + 1 - MAPPED_PAGES) * page, MAPPED_PAGES * page, MADV_DONTNEED);
	}
	return 0;
}

static void *run_thread(void *arg)
{
	struct load_thread *load = arg;
	struct cpuset own = {0};

	if (!cpuset_add(&own, (unsigned)load->cpu))
		cpuset_run_on(&own);
	cpuset_fini(&own);
	if (load->kind == SELFTEST_SYSCALLS)
		make_calls(load);
	else
		load->err = touch_pages(load);
	return NULL;
}

int selftest_load_run(enum selftest_kind kind, uint64_t nr)
{
	size_t nr_threads = selftest_load_threads(), at = 0;
	AUTO_FREE struct load_thread *threads = calloc(nr_threads, sizeof(*threads));
	struct cpuset cpus = {0};
	int failed = 0;

	if (!threads || cpuset_allowed(&cpus)) {
		cpuset_fini(&cpus);
		return 1;
	}
	for (int cpu = cpuset_next(&cpus, 0); cpu >= 0 && at < nr_threads; cpu = cpuset_next(&cpus, cpu + 1)) {
		threads[at] = (struct load_thread){.index = at, .cpu = cpu, .kind = kind, .nr = nr};
		if (pthread_create(&threads[at].thread, NULL, run_thread, &threads[at]))
			return 1;
		at++;
	}
	cpuset_fini(&cpus);
	for (size_t i = 0; i < at; i++) {
		pthread_join(threads[i].thread, NULL);
		failed |= threads[i].err != 0;
	}
	return failed;
}

/* The RAW part of raw_syscalls:sys_enter: 8 bytes that all have, id, six arguments; its format in tracefs. */
static int number_of_call(const struct session_record *record, uint64_t *ret_thread, uint64_t *ret_nr)
{
	struct {
		uint64_t common, id, args[6];
	} raw;

	if (record->sample.raw.len < sizeof(raw))
		return 0;
	memcpy(&raw, record->sample.raw.ptr, sizeof(raw));
	*ret_nr = raw.args[0];
	*ret_thread = raw.args[2];
	return raw.id == SYS_getppid && raw.args[1] == MAGIC;
}

static int number_of_fault(const struct session_record *record, uint64_t *ret_thread, uint64_t *ret_nr)
{
	uint64_t at = record->sample.addr - PAGES_AT;

	*ret_thread = at / PAGES_OF_THREAD;
	*ret_nr = at % PAGES_OF_THREAD / (uint64_t)sysconf(_SC_PAGESIZE);
	return record->sample.present & PERF_SAMPLE_ADDR && record->sample.addr >= PAGES_AT &&
	       *ret_thread < CPU_SETSIZE;
}

int selftest_load_number(enum selftest_kind kind, const struct session_record *record, uint64_t *ret_thread,
			 uint64_t *ret_nr)
{
	if (record->view.header->type != PERF_RECORD_SAMPLE)
		return 0;
	return kind == SELFTEST_SYSCALLS ? number_of_call(record, ret_thread, ret_nr)
					 : number_of_fault(record, ret_thread, ret_nr);
}

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
	return err |
	       add(args, "--load=%s:%" PRIu64, params->kind == SELFTEST_SYSCALLS ? "syscalls" : "faults", params->nr);
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
			result->ledger_lost +=
				ledger_cause_loses(ledger.entries[i].cause) ? ledger.entries[i].count : 0;
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
	if (!seen || asprintf(&path, "%s/recording", params->directory) < 0 ||
	    asprintf(&words, "%s/words", params->directory) < 0)
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
	return accounted && result->captured && !result->twice && !result->strange &&
	       result->lost == result->ledger_lost;
}
