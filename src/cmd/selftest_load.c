/* SPDX-License-Identifier: MIT */
#include "cmd/selftest_load.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/cpuset.h"
#include "format/sample.h"
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
	enum { HELD_PAGES = 1024 };
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
		if (i % HELD_PAGES == HELD_PAGES - 1)
			madvise(pages + (i + 1 - HELD_PAGES) * page, HELD_PAGES * page, MADV_DONTNEED);
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
	return record->sample.present & PERF_SAMPLE_ADDR && record->sample.addr >= PAGES_AT && *ret_thread < CPU_SETSIZE;
}

int selftest_load_number(enum selftest_kind kind, const struct session_record *record, uint64_t *ret_thread,
			 uint64_t *ret_nr)
{
	if (record->view.header->type != PERF_RECORD_SAMPLE)
		return 0;
	return kind == SELFTEST_SYSCALLS ? number_of_call(record, ret_thread, ret_nr)
					 : number_of_fault(record, ret_thread, ret_nr);
}
