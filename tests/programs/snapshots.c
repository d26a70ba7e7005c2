/* SPDX-License-Identifier: MIT */
/*
 * snapshots: N snapshots of overwritten rings, one after the other, while T threads of ours make system calls that
 * count up in an argument. Each snapshot must be a run without a gap for each thread that ran, and must begin behind
 * the one before; unless the ring was overwritten since it must begin right there. It must end with the calls of its
 * moment: all that had returned are in it, none that began later. Prints what was seen; exit status 1: a law was
 * broken; 77: events cannot be opened.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "args.h"
#include "base/buf.h"
#include "base/cpuset.h"
#include "base/diag.h"
#include "event/parse/configure.h"
#include "record/drain/overwrite.h"
#include "record/setup/eventset.h"
#include "record/setup/target.h"

enum { MANY = 100, SOME = 10 }; /* calls between snapshots, and between the moment of one and its copy */
enum { THREADS_MAX = 64, RAW_OFFSET = 8 + 8 + 8 + 8 + 4 }; /* header, TID, TIME, CPU, size of the raw part */

struct caller {
	pthread_t thread;
	_Atomic pid_t tid;
	atomic_ulong begun, returned;        /* the numbers of the last calls */
	unsigned long nr_returned, nr_begun; /* before the moment of the snapshot, and behind it */
	uint64_t next;                       /* the number that must come; 0: none was seen */
};

static struct caller callers[THREADS_MAX];
static unsigned nr_callers;
static atomic_bool stop;

static void *call(void *arg)
{
	struct caller *caller = arg;

	atomic_store(&caller->tid, (pid_t)syscall(SYS_gettid));
	for (unsigned long i = 1; !atomic_load_explicit(&stop, memory_order_relaxed); i++) {
		atomic_store(&caller->begun, i);
		syscall(SYS_getppid, i);
		atomic_store(&caller->returned, i);
	}
	return NULL;
}

struct record {
	uint64_t time, number;
	pid_t tid;
};

static int by_time(const void *a, const void *b)
{
	const struct record *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* The calls in a snapshot; false: something in it is no record of ours. */
static bool parse(const struct buf *bytes, struct record *records, size_t *ret_nr)
{
	size_t nr = 0;

	for (size_t at = 0; at < bytes->len;) {
		struct perf_event_header header;
		uint32_t ids[2];
		uint64_t raw[3], time;

		if (bytes->len - at < sizeof(header))
			return false;
		memcpy(&header, bytes->data + at, sizeof(header));
		if (header.size < RAW_OFFSET + sizeof(raw) || header.size > bytes->len - at ||
		    header.type != PERF_RECORD_SAMPLE)
			return false;
		memcpy(ids, bytes->data + at + 8, sizeof(ids));
		memcpy(&time, bytes->data + at + 16, sizeof(uint64_t));
		memcpy(raw, bytes->data + at + RAW_OFFSET,
		       sizeof(raw)); /* common, id, args[0]: raw_syscalls/sys_enter */
		if (raw[1] == SYS_getppid)
			records[nr++] = (struct record){.time = time, .number = raw[2], .tid = (pid_t)ids[1]};
		at += header.size;
	}
	*ret_nr = nr;
	return true;
}

static struct caller *caller_of(pid_t tid)
{
	for (unsigned i = 0; i < nr_callers; i++)
		if (atomic_load(&callers[i].tid) == tid)
			return &callers[i];
	return NULL;
}

/*
 * Numbers of each thread without a gap. `joined`: this snapshot begins where the last one ended.
 */
static unsigned gaps(struct record *records, size_t nr, bool joined)
{
	unsigned nr_gaps = 0;

	qsort(records, nr, sizeof(*records), by_time);
	for (unsigned i = 0; i < nr_callers && !joined; i++)
		callers[i].next = 0;
	for (size_t i = 0; i < nr; i++) {
		struct caller *caller = caller_of(records[i].tid);
		if (!caller)
			continue;
		nr_gaps += caller->next && records[i].number != caller->next;
		caller->next = records[i].number + 1;
	}
	return nr_gaps;
}

static unsigned long count_returned(void)
{
	unsigned long nr = 0;

	for (unsigned i = 0; i < nr_callers; i++)
		nr += atomic_load(&callers[i].returned);
	return nr;
}

static void wait_for_calls(unsigned long nr)
{
	unsigned long before = count_returned();

	while (nr_callers && count_returned() - before < nr)
		sched_yield();
}

/* The moment of a snapshot, and which calls were made by then. */
static int mark(struct overwrite *overwrite)
{
	for (unsigned i = 0; i < nr_callers; i++)
		callers[i].nr_returned = atomic_load(&callers[i].returned);
	int err = overwrite_mark(overwrite);
	for (unsigned i = 0; i < nr_callers; i++)
		callers[i].nr_begun = atomic_load(&callers[i].begun);
	return err;
}

/* Threads whose last call in the snapshot is not that of its moment. */
static unsigned count_wrong_ends(void)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < nr_callers; i++)
		nr += callers[i].next &&
		      (callers[i].next <= callers[i].nr_returned || callers[i].next > callers[i].nr_begun + 1);
	return nr;
}

static bool open_overwrite(struct event_list *events, const struct target *target, unsigned pages, struct plan *plan,
			   struct eventset *set, struct overwrite **overwrite)
{
	struct diag diag = {0};
	struct ring_sizes sizes = {.pages = pages, .exact = true};

	if (event_list_parse(events, "raw_syscalls:sys_enter/overwrite/", &diag)) {
		fprintf(stderr, "%s\n", diag.text);
		return false;
	}
	struct perf_event_attr *attr = &events->events[0].attr;
	attr->sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_RAW;
	attr->sample_period = 1;
	attr->disabled = 1;
	attr->inherit = 0;
	attr->read_format = PERF_FORMAT_LOST;
	if (plan_make(events, target, plan))
		return false;
	if (eventset_open(set, plan, events, sizes, &diag) || overwrite_open(set, sizes, overwrite, &diag)) {
		fprintf(stderr, "%s\n", diag.text);
		return false;
	}
	return true;
}

static void start_callers(void)
{
	for (unsigned i = 0; i < nr_callers; i++) {
		pthread_create(&callers[i].thread, NULL, call, &callers[i]);
		while (!atomic_load(&callers[i].tid))
			sched_yield();
	}
}

int main(int argc, char **argv)
{
	struct args args[] = {{'n', 30, "snapshots"},
			      {'t', 2, "threads that make system calls"},
			      {'m', 4096, "pages of each ring"},
			      {'c', 0, "CPU whose rings alone are recorded; all calls are made there"},
			      {0}};
	struct target target = {.kind = EVENT_TARGET_CPUS};
	struct event_list events = {0};
	struct plan plan = {0};
	struct eventset set = {0};
	struct overwrite *overwrite = NULL;
	unsigned nr_gaps = 0, nr_bad = 0, nr_wrong_ends = 0;
	uint64_t nr_calls = 0, lost = 0, overwritten = 0, nr_joined = 0;
	char cpu[16];

	args_parse(args, argc, argv);
	nr_callers = args[1].value < THREADS_MAX ? args[1].value : THREADS_MAX;
	snprintf(cpu, sizeof(cpu), "%u", args[3].value);
	cpu_set_t here;
	CPU_ZERO(&here);
	CPU_SET(args[3].value, &here);
	start_callers();
	for (unsigned i = 0; i < nr_callers; i++)
		sched_setaffinity(callers[i].tid, sizeof(here), &here);
	if (cpuset_parse(&target.cpus, cpu) ||
	    !open_overwrite(&events, &target, args[2].value, &plan, &set, &overwrite))
		return 77;
	struct record *records = calloc((size_t)args[2].value * 4096 / 64 + 1, sizeof(*records));
	if (!records || eventset_enable(&set))
		return 77;
	for (unsigned i = 0; i < args[0].value; i++) {
		struct buf bytes = {0};
		size_t nr = 0;
		wait_for_calls(MANY);
		int err = mark(overwrite);
		wait_for_calls(i % 2 ? SOME : 0); /* which are later ones */
		overwrite_copy(overwrite);
		if (err || overwrite_collect(overwrite, &bytes, NULL) || !parse(&bytes, records, &nr))
			nr_bad++;
		bool joined = overwrite_counters(overwrite).nr_overwritten == overwritten;
		overwritten = overwrite_counters(overwrite).nr_overwritten;
		nr_joined += joined;
		nr_gaps += gaps(records, nr, joined);
		nr_wrong_ends += count_wrong_ends();
		nr_calls += nr;
		buf_fini(&bytes);
	}
	eventset_disable(&set);
	atomic_store(&stop, true);
	for (unsigned i = 0; i < nr_callers; i++)
		pthread_join(callers[i].thread, NULL);
	for (size_t i = 0; i < plan.nr_slots; i++)
		lost += eventset_lost(&set, i);
	struct overwrite_counters counters = overwrite_counters(overwrite);
	printf("%llu snapshots, %llu joined, %llu calls, %u gaps, %u wrong ends, %u torn, %llu lost\n",
	       (unsigned long long)counters.nr_snapshots, (unsigned long long)nr_joined, (unsigned long long)nr_calls,
	       nr_gaps, nr_wrong_ends, nr_bad + (unsigned)counters.nr_broken, (unsigned long long)lost);
	free(records);
	overwrite_free(overwrite);
	eventset_close(&set);
	plan_fini(&plan);
	event_list_fini(&events);
	target_fini(&target);
	return nr_gaps || nr_wrong_ends || nr_bad || counters.nr_broken || lost;
}
