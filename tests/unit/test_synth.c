/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/cpuset.h"
#include "perfdata/btf.h"
#include "perfdata/record.h"
#include "record/synth/synth.h"
#include "record/synth/synth_private.h"

struct view {
	struct perf_event_header header;
	const uint8_t *bytes;
};

/* Takes the next record and checks what holds for all of them. */
static bool take(struct span *records, struct view *ret)
{
	if (records->len == 0)
		return false;
	assert_true(records->len >= sizeof(ret->header));
	memcpy(&ret->header, records->ptr, sizeof(ret->header));
	assert_true(ret->header.size >= sizeof(ret->header) && ret->header.size <= records->len);
	assert_int_equal(ret->header.size % 8, 0);
	ret->bytes = records->ptr;
	*records = (struct span){ret->bytes + ret->header.size, records->len - ret->header.size};
	return true;
}

static uint64_t u64_at(const struct view *view, size_t offset)
{
	uint64_t value;

	assert_true(offset + sizeof(value) <= view->header.size);
	memcpy(&value, view->bytes + offset, sizeof(value));
	return value;
}

static uint32_t u32_at(const struct view *view, size_t offset)
{
	uint32_t value;

	assert_true(offset + sizeof(value) <= view->header.size);
	memcpy(&value, view->bytes + offset, sizeof(value));
	return value;
}

static uint16_t u16_at(const struct view *view, size_t offset)
{
	uint16_t value;

	assert_true(offset + sizeof(value) <= view->header.size);
	memcpy(&value, view->bytes + offset, sizeof(value));
	return value;
}

static void ids_are_cut_into_records(void **state)
{
	enum { NR = 3000 };
	AUTO_FREE struct synth_id *ids = calloc(NR, sizeof(*ids));
	AUTO_BUF struct buf out = {0};
	struct view view;
	size_t nr = 0;

	(void)state;
	for (size_t i = 0; i < NR; i++)
		ids[i] = (struct synth_id){.id = i + 1, .index = i % 7, .cpu = -1, .tid = (int64_t)i};
	assert_int_equal(synth_id_index(ids, NR, &out), 0);
	for (struct span rest = buf_span(&out); take(&rest, &view);) {
		assert_int_equal(view.header.type, RECORD_ID_INDEX);
		assert_int_equal(view.header.size, 16 + 32 * u64_at(&view, 8));
		assert_true(u64_at(&view, 8) <= 1364);
		for (uint64_t i = 0; i < u64_at(&view, 8); i++, nr++) {
			assert_int_equal(u64_at(&view, 16 + 32 * i), nr + 1);
			assert_int_equal(u64_at(&view, 24 + 32 * i), nr % 7);
			assert_true(u64_at(&view, 32 + 32 * i) == UINT64_MAX);
			assert_int_equal(u64_at(&view, 40 + 32 * i), nr);
		}
	}
	assert_int_equal(nr, NR);
}

static void no_id_is_no_record(void **state)
{
	AUTO_BUF struct buf out = {0};

	(void)state;
	assert_int_equal(synth_id_index(NULL, 0, &out), 0);
	assert_int_equal(out.len, 0);
}

static void clocks_have_unit_and_scale(void **state)
{
	uint64_t ids[] = {41, 42};
	struct event_desc events[] = {
		{.attr = {.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_CPU_CLOCK},
		 .name = (char *)"cpu-clock",
		 .ids = ids,
		 .nr_ids = 1},
		{.attr = {.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_CONTEXT_SWITCHES},
		 .name = (char *)"cs",
		 .ids = ids + 1,
		 .nr_ids = 1},
	};
	AUTO_BUF struct buf out = {0};
	struct span rest;
	struct view view;
	double scale;

	(void)state;
	assert_int_equal(synth_event_updates(events, 2, true, &out), 0);
	rest = buf_span(&out);
	assert_true(take(&rest, &view));
	assert_int_equal(view.header.type, RECORD_EVENT_UPDATE);
	assert_int_equal(view.header.size, 48);
	assert_int_equal(u64_at(&view, 8), EVENT_UPDATE_UNIT);
	assert_int_equal(u64_at(&view, 16), 41);
	assert_string_equal((const char *)view.bytes + 24, "msec");
	assert_true(take(&rest, &view));
	assert_int_equal(view.header.size, 48);
	assert_int_equal(u64_at(&view, 8), EVENT_UPDATE_SCALE);
	memcpy(&scale, view.bytes + 24, sizeof(scale));
	assert_true(scale == 1e-6);
	assert_true(take(&rest, &view));
	assert_int_equal(u64_at(&view, 8), EVENT_UPDATE_NAME);
	assert_string_equal((const char *)view.bytes + 24, "cpu-clock");
	assert_true(take(&rest, &view));
	assert_int_equal(u64_at(&view, 8), EVENT_UPDATE_NAME);
	assert_int_equal(u64_at(&view, 16), 42);
	assert_false(take(&rest, &view));
}

static void threads_have_blank_padded_names(void **state)
{
	struct synth_task tasks[] = {{.tid = 7, .comm = "fifteen letters"}, {.tid = 8}};
	AUTO_BUF struct buf out = {0};
	struct span rest;
	struct view view;

	(void)state;
	assert_int_equal(synth_thread_map(tasks, 2, &out), 0);
	assert_int_equal(synth_thread_map(NULL, 0, &out), 0);
	rest = buf_span(&out);
	assert_true(take(&rest, &view));
	assert_int_equal(view.header.size, 16 + 2 * 24);
	assert_int_equal(u64_at(&view, 16), 7);
	assert_string_equal((const char *)view.bytes + 24, "fifteen letters");
	assert_int_equal(u64_at(&view, 40), 8);
	assert_true(take(&rest, &view));
	assert_int_equal(u64_at(&view, 8), 1);
	assert_true(u64_at(&view, 16) == UINT64_MAX);
}

static void cpu_map_of(const char *list, struct buf *out, struct view *ret)
{
	struct cpuset cpus = {0};
	struct span rest;

	out->len = 0;
	assert_int_equal(cpuset_parse(&cpus, list), 0);
	assert_int_equal(synth_cpu_map(&cpus, out), 0);
	cpuset_fini(&cpus);
	rest = buf_span(out);
	assert_true(take(&rest, ret));
	assert_int_equal(ret->header.type, RECORD_CPU_MAP);
	assert_int_equal(rest.len, 0);
}

static void cpus_take_their_shortest_form(void **state)
{
	AUTO_BUF struct buf out = {0};
	struct view view;

	(void)state;
	cpu_map_of("3-70", &out, &view);
	assert_int_equal(view.header.size, 16);
	assert_int_equal(u16_at(&view, 8), 2); /* range */
	assert_int_equal(u16_at(&view, 12), 3);
	assert_int_equal(u16_at(&view, 14), 70);

	cpu_map_of("0,1000", &out, &view);
	assert_int_equal(view.header.size, 16);
	assert_int_equal(u16_at(&view, 8), 0); /* list */
	assert_int_equal(u16_at(&view, 10), 2);
	assert_int_equal(u16_at(&view, 14), 1000);

	cpu_map_of("0-30,32-64", &out, &view);
	assert_int_equal(view.header.size, 32);
	assert_int_equal(u16_at(&view, 8), 1); /* mask */
	assert_int_equal(u16_at(&view, 10), 3);
	assert_int_equal(u16_at(&view, 12), 4);
	assert_int_equal(u32_at(&view, 14), 0x7fffffff);
	assert_true(u32_at(&view, 18) == UINT32_MAX);
	assert_int_equal(u32_at(&view, 22), 1);

	out.len = 0;
	assert_int_equal(synth_cpu_map(NULL, &out), 0);
	struct span rest = buf_span(&out);
	assert_true(take(&rest, &view));
	assert_int_equal(u16_at(&view, 8), 0);
	assert_int_equal(u16_at(&view, 10), 1);
	assert_int_equal(u16_at(&view, 12), 0xffff);
}

static void lost_samples_carry_the_id(void **state)
{
	const struct perf_event_attr attr = {
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_ID |
			       PERF_SAMPLE_IDENTIFIER,
		.sample_id_all = 1,
	};
	AUTO_BUF struct buf out = {0};
	struct span rest;
	struct view view;

	(void)state;
	assert_int_equal(synth_lost_samples(&attr, 99, 5, &out), 0);
	rest = buf_span(&out);
	assert_true(take(&rest, &view));
	assert_int_equal(view.header.type, PERF_RECORD_LOST_SAMPLES);
	assert_int_equal(view.header.size, 16 + 5 * 8);
	assert_int_equal(u64_at(&view, 8), 5);
	assert_int_equal(u64_at(&view, 32), 99); /* ID, behind TID and TIME */
	assert_int_equal(u64_at(&view, 40), 0);  /* CPU */
	assert_int_equal(u64_at(&view, 48), 99); /* IDENTIFIER */
}

static void modules_are_sorted_and_located(void **state)
{
	static const char modules[] = "snd_pcm 1000 1 snd, Live 0xffffffffc0200000\n"
				      "nonsense\n"
				      "ext4 4096 2 - Live 0xffffffffc0100000 (OE)\n"
				      "hidden 4096 0 - Live 0x0000000000000000\n"
				      "mine 8192 0 - Live 0xffffffffc0300000 (OE)";
	static const char dep[] = "kernel/fs/ext4/ext4.ko.xz: kernel/lib/crc16.ko.xz\n"
				  "no colon here\n"
				  "kernel/sound/snd-pcm.ko: kernel/sound/snd.ko\n"
				  "updates/ext4.ko:\n"
				  "kernel/fs/mine.txt:\n";
	const struct synth_params params = {.trailer_bytes = 16};
	static const struct {
		uint64_t addr, len;
		const char *name;
	} expected[] = {
		{0xffffffffc0100000, 4096, "/lib/modules/X/kernel/fs/ext4/ext4.ko.xz"},
		{0xffffffffc0200000, 1000, "/lib/modules/X/kernel/sound/snd-pcm.ko"},
		{0xffffffffc0300000, 8192, "[mine]"},
	};
	AUTO_BUF struct buf out = {0};
	struct view view;
	struct span rest;

	(void)state;
	assert_int_equal(synth_modules_text(&params, modules, dep, "/lib/modules/X", &out), 0);
	rest = buf_span(&out);
	for (size_t i = 0; i < 3; i++) {
		assert_true(take(&rest, &view));
		assert_int_equal(view.header.type, PERF_RECORD_MMAP);
		assert_int_equal(view.header.misc, PERF_RECORD_MISC_KERNEL);
		assert_true(u32_at(&view, 8) == UINT32_MAX);
		assert_true(u64_at(&view, 16) == expected[i].addr);
		assert_int_equal(u64_at(&view, 24), expected[i].len);
		assert_int_equal(u64_at(&view, 32), 0);
		assert_string_equal((const char *)view.bytes + 40, expected[i].name);
		assert_int_equal(view.header.size, 40 + ((strlen(expected[i].name) + 8) & ~7ul) + 16);
	}
	assert_false(take(&rest, &view));
}

/* A type section of {int, array, struct of 2, func "fn"}, and what breaks it. */
static void btf_names_are_found(void **state)
{
	struct {
		uint16_t magic;
		uint8_t version, flags;
		uint32_t hdr_len, type_off, type_len, str_off, str_len;
		uint32_t types[3 + 1 + 3 + 3 + 3 + 6 + 3];
		char strings[8];
	} btf = {
		.magic = 0xeb9f,
		.hdr_len = 24,
		.type_len = sizeof(btf.types),
		.str_off = sizeof(btf.types),
		.str_len = sizeof(btf.strings),
		.types = {0, 1u << 24, 4, 0, 0, 3u << 24, 0, 1, 1,         1, 0, 4u << 24 | 2,
			  8, 0,        0, 0, 0, 0,        0, 3, 12u << 24, 0},
		.strings = "\0x\0fn",
	};
	struct span span = {&btf, sizeof(btf)};

	(void)state;
	assert_string_equal(btf_type_name(span, 4), "fn");
	assert_null(btf_type_name(span, 0));
	assert_null(btf_type_name(span, 1)); /* no name */
	assert_null(btf_type_name(span, 5)); /* past the end */
	assert_null(btf_type_name((struct span){&btf, 20}, 4));
	assert_null(btf_type_name((struct span){&btf, sizeof(btf) - 1}, 4));
	btf.types[19] = 8;
	assert_null(btf_type_name(span, 4));
	btf.types[19] = 3;
	btf.strings[5] = 'x', btf.strings[6] = 'x', btf.strings[7] = 'x';
	assert_null(btf_type_name(span, 4)); /* no NUL */
	btf.str_off = UINT32_MAX;
	assert_null(btf_type_name(span, 4));
}

/* Ourselves: /proc/self is always there. */
static void a_process_is_described(void **state)
{
	const struct synth_params params = {.trailer_bytes = 24, .mmap2 = true};
	AUTO_BUF struct buf out = {0};
	bool stack = false, self = false;
	struct span rest;
	struct view view;
	char exe[4096] = "";

	(void)state;
	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	prctl(PR_SET_NAME, "a) (b\nc");
	assert_int_equal(synth_process(&params, getpid(), &out), 0);
	rest = buf_span(&out);
	assert_true(take(&rest, &view));
	assert_int_equal(view.header.type, PERF_RECORD_COMM);
	assert_int_equal(u32_at(&view, 8), getpid());
	assert_int_equal(u32_at(&view, 12), getpid());
	assert_string_equal((const char *)view.bytes + 16, "a) (b\nc");
	while (take(&rest, &view)) {
		assert_int_equal(view.header.type, PERF_RECORD_MMAP2);
		assert_true(u32_at(&view, 64) & PROT_EXEC);
		stack |= !strcmp((const char *)view.bytes + 72, "[stack]");
		self |= !strcmp((const char *)view.bytes + 72, exe);
	}
	assert_true(self);
	assert_false(stack);

	const struct synth_params all = {.trailer_bytes = 24, .data_maps = true};
	out.len = 0;
	assert_int_equal(synth_process(&all, getpid(), &out), 0);
	rest = buf_span(&out);
	assert_true(take(&rest, &view));
	while (take(&rest, &view)) {
		assert_int_equal(view.header.type, PERF_RECORD_MMAP);
		bool is_stack = !strcmp((const char *)view.bytes + 40, "[stack]");
		if (is_stack)
			assert_int_equal(view.header.misc, PERF_RECORD_MISC_USER | PERF_RECORD_MISC_MMAP_DATA);
		stack |= is_stack;
	}
	assert_true(stack);
}

/* Two ways to ask the kernel, one answer. */
static void maps_are_the_same_by_query_and_by_text(void **state)
{
	static const char *const names[] = {"/tmp/a b.so ", "/tmp/new\nline.so", "/tmp/gone.so"};
	const size_t nr = sizeof(names) / sizeof(names[0]);
	void *mapped[3];

	(void)state;
	for (size_t i = 0; i < nr; i++) {
		AUTO_FD int fd = open(names[i], O_RDWR | O_CREAT | O_CLOEXEC, 0700);
		assert_true(fd >= 0);
		assert_int_equal(ftruncate(fd, 8192), 0);
		mapped[i] = mmap(NULL, 4096, PROT_READ | PROT_EXEC, i ? MAP_PRIVATE : MAP_SHARED, fd, 4096);
		if (mapped[i] == MAP_FAILED)
			skip(); /* a /tmp without exec */
		unlink(names[i]);
	}
	for (int data_maps = 0; data_maps < 2; data_maps++) {
		const struct synth_params params = {.trailer_bytes = 8, .mmap2 = true, .data_maps = data_maps};
		AUTO_BUF struct buf text = {0}, query = {0};
		AUTO_FD int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
		struct synth_maps by_text, by_query;

		buf_extend(&text, 1 << 20), buf_extend(&query, 1 << 20); /* nothing is mapped between the two */
		text.len = query.len = 0;
		assert_int_equal(synth_maps_init(&by_text, &params, &text), 0);
		assert_int_equal(synth_maps_init(&by_query, &params, &query), 0);
		by_text.query_missing = true;
		assert_int_equal(synth_maps_put(&by_text, getpid(), fd), 0);
		assert_int_equal(synth_maps_put(&by_query, getpid(), fd), 0);
		assert_true(text.len > 0);
		bool same = text.len == query.len && !memcmp(text.data, query.data, text.len);
		bool asked = !by_query.query_missing;
		synth_maps_fini(&by_text);
		synth_maps_fini(&by_query);
		if (!asked)
			skip(); /* before Linux 6.11 */
		assert_true(same);
	}
	for (size_t i = 0; i < nr; i++)
		munmap(mapped[i], 4096);
}

/*
 * What is mapped from hugetlbfs is memory, from each of its mounts; a directory whose name only begins as that of a
 * mount is another one.
 */
static void maps_of_hugetlbfs_are_memory(void **state)
{
	enum { NR_DIRS = 3, NR_HUGE = 2 };
	static const char *const below[NR_DIRS] = {"huge/file", "huge 1G/file", "huge2/file"};
	const struct synth_params params = {.mmap2 = true, .data_maps = true};
	char dir[] = "/tmp/millrace-synth-XXXXXX", path[NR_DIRS][64], mounts[256], parent[64];
	AUTO_BUF struct buf out = {0};
	AUTO_FD int maps_fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	void *mapped[NR_DIRS];
	struct synth_maps maps;
	struct view view;
	unsigned nr_found[NR_DIRS] = {0};

	(void)state;
	assert_non_null(mkdtemp(dir));
	for (size_t i = 0; i < NR_DIRS; i++) {
		snprintf(path[i], sizeof(path[i]), "%s/%s", dir, below[i]);
		snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(path[i], '/') - path[i]), path[i]);
		assert_int_equal(mkdir(parent, 0700), 0);
		AUTO_FD int fd = open(path[i], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		assert_int_equal(ftruncate(fd, 4096), 0);
		mapped[i] = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
		assert_ptr_not_equal(mapped[i], MAP_FAILED);
	}
	snprintf(mounts, sizeof(mounts),
		 "none %s tmpfs rw 0 0\nhugetlbfs %s/huge hugetlbfs rw,pagesize=2M 0 0\n"
		 "none %s/huge\\0401G hugetlbfs rw,pagesize=1024M 0 0\n",
		 dir, dir, dir);
	assert_int_equal(synth_maps_init(&maps, &params, &out), 0);
	synth_huge_dirs(mounts, &maps.huge_dirs);
	maps.huge_known = true;
	assert_int_equal(synth_maps_put(&maps, getpid(), maps_fd), 0);
	synth_maps_fini(&maps);
	for (struct span rest = buf_span(&out); take(&rest, &view);) {
		const char *name = (const char *)view.bytes + 72;
		for (size_t i = 0; i < NR_DIRS; i++) {
			if (u64_at(&view, 16) != (uintptr_t)mapped[i])
				continue;
			assert_string_equal(name, i < NR_HUGE ? "//anon" : path[i]);
			assert_int_equal((u32_at(&view, 68) & MAP_HUGETLB) != 0, i < NR_HUGE);
			nr_found[i]++;
		}
	}
	for (size_t i = 0; i < NR_DIRS; i++) {
		assert_int_equal(nr_found[i], 1);
		munmap(mapped[i], 4096);
		unlink(path[i]);
		*strrchr(path[i], '/') = '\0';
		rmdir(path[i]);
	}
	rmdir(dir);
}

/* The first thread brings the maps of its process. */
static void threads_that_are_gone_are_skipped(void **state)
{
	const struct synth_params params = {.mmap2 = true};
	AUTO_BUF struct buf process = {0}, once = {0}, gone = {0};
	pid_t self = getpid(), no_task = 0x7ffffff0;

	(void)state;
	assert_int_equal(synth_process(&params, self, &process), 0);
	assert_int_equal(synth_threads(&params, (pid_t[]){no_task, self}, 2, &once), 0);
	assert_int_equal(once.len, process.len);
	assert_memory_equal(once.data, process.data, once.len);
	assert_int_equal(synth_threads(&params, &no_task, 1, &gone), -ESRCH);
	assert_int_equal(synth_threads(&params, NULL, 0, &gone), 0);
	assert_int_equal(gone.len, 0);
}

static void *wait_for_ever(void *arg)
{
	(void)arg;
	while (pause())
		;
	return NULL;
}

static void *write_tid(void *fd)
{
	pid_t tid = gettid();

	if (write(*(int *)fd, &tid, sizeof(tid)) != sizeof(tid))
		_exit(1);
	return wait_for_ever(NULL);
}

/* How many of the records are of this type and task. */
static size_t count_records(const struct buf *records, uint32_t type, pid_t pid)
{
	size_t nr = 0;

	for (size_t at = 0; at < records->len;) {
		struct perf_event_header header;
		uint32_t whose;
		memcpy(&header, records->data + at, sizeof(header));
		memcpy(&whose, records->data + at + sizeof(header), sizeof(whose));
		nr += header.type == type && whose == (uint32_t)pid;
		at += header.size;
	}
	return nr;
}

static void wait_until_it_is_a_zombie(pid_t pid)
{
	enum { MOST_MS = 30000 };
	char path[64], text[256], *state = NULL;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	for (unsigned i = 0; i < MOST_MS; i++) {
		FILE *file = fopen(path, "re");
		assert_non_null(file);
		text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
		fclose(file);
		state = strrchr(text, ')');
		assert_non_null(state);
		if (state[2] == 'Z')
			return;
		usleep(1000);
	}
	kill(pid, SIGKILL);
	fail_msg("the first thread of process %d has not ended after %d s: its state is %c", pid, MOST_MS / 1000,
		 state[2]);
}

/* Of a process whose first thread has ended, too. */
static void maps_of_several_threads_are_those_of_one(void **state)
{
	enum { NR_THREADS = 3 };
	const struct synth_params params = {.mmap2 = true};
	AUTO_BUF struct buf process = {0}, threads = {0}, ended = {0};
	pid_t tids[NR_THREADS];
	int ends[2];
	char go = 0;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	pid_t pid = fork();
	if (pid == 0) {
		pthread_t thread;
		alarm(60);
		close(ends[0]);
		for (size_t i = 0; i < NR_THREADS; i++)
			pthread_create(&thread, NULL, write_tid, &ends[1]);
		while (read(ends[1], &go, 1) != 1)
			;
		syscall(SYS_exit, 0); /* of this thread */
	}
	close(ends[1]);
	for (size_t i = 0; i < NR_THREADS; i++)
		assert_int_equal(read(ends[0], &tids[i], sizeof(tids[i])), sizeof(tids[i]));
	assert_int_equal(synth_process(&params, pid, &process), 0);
	assert_int_equal(synth_threads(&params, tids, NR_THREADS, &threads), 0);
	assert_int_equal(write(ends[0], &go, 1), 1);
	wait_until_it_is_a_zombie(pid);
	assert_int_equal(synth_threads(&params, tids, NR_THREADS, &ended), 0);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(ends[0]);
	size_t nr = count_records(&process, PERF_RECORD_MMAP2, pid);
	assert_true(nr > 2);
	for (size_t i = 0; i < 2; i++) {
		const struct buf *found = i ? &ended : &threads;
		assert_int_equal(count_records(found, PERF_RECORD_MMAP2, pid), nr);
		assert_int_equal(count_records(found, PERF_RECORD_COMM, pid), NR_THREADS + 1);
	}
}

/* /proc/PID/maps is empty then, though other threads run. */
static void a_process_whose_first_thread_ended_has_maps(void **state)
{
	const struct synth_params params = {.mmap2 = true}, no_maps = {.mmap2 = true, .skip_maps = true};
	const struct synth_params named = {.mmap2 = true, .only_named = true};
	AUTO_BUF struct buf process = {0}, thread = {0}, all = {0}, none = {0}, all_named = {0}, thread_named = {0};
	int ends[2];
	pid_t tid;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	if (pid == 0) {
		pthread_t other;
		alarm(60);
		pthread_create(&other, NULL, wait_for_ever, NULL);
		DIR *dir = opendir("/proc/self/task");
		for (struct dirent *entry; (entry = readdir(dir));)
			if (atoi(entry->d_name) > 0 && atoi(entry->d_name) != getpid())
				tid = atoi(entry->d_name);
		if (write(ends[1], &tid, sizeof(tid)) != sizeof(tid))
			_exit(1);
		syscall(SYS_exit, 0); /* of this thread */
	}
	assert_int_equal(read(ends[0], &tid, sizeof(tid)), sizeof(tid));
	wait_until_it_is_a_zombie(pid);
	assert_int_equal(synth_process(&params, pid, &process), 0);
	assert_int_equal(synth_threads(&params, &tid, 1, &thread), 0);
	assert_int_equal(synth_threads(&params, (pid_t[]){pid, tid}, 2, &all), 0);
	assert_int_equal(synth_threads(&named, (pid_t[]){pid, tid}, 2, &all_named), 0);
	assert_int_equal(synth_threads(&named, &tid, 1, &thread_named), 0);
	assert_int_equal(synth_process(&no_maps, pid, &none), 0);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(ends[0]);
	close(ends[1]);
	size_t nr = count_records(&process, PERF_RECORD_MMAP2, pid);
	assert_true(nr > 2);
	assert_int_equal(count_records(&thread, PERF_RECORD_MMAP2, pid), nr);
	assert_int_equal(count_records(&all, PERF_RECORD_MMAP2, pid), nr);
	assert_int_equal(count_records(&none, PERF_RECORD_MMAP2, pid), 0);
	assert_int_equal(count_records(&process, PERF_RECORD_COMM, pid), 2);
	assert_memory_equal(all_named.data, all.data, all.len);
	assert_int_equal(count_records(&thread_named, PERF_RECORD_MMAP2, pid), 0);
	assert_int_equal(count_records(&thread_named, PERF_RECORD_COMM, pid), 1);
}

/* The records of these processes among those of all tasks, in their order. */
static void records_of(const pid_t *pids, size_t nr, unsigned nr_threads, struct buf *ret)
{
	const struct synth_params params = {.mmap2 = true, .nr_threads = nr_threads};
	AUTO_BUF struct buf all = {0};

	assert_int_equal(synth_all_tasks(&params, &all), 0);
	struct span left = {all.data, all.len};
	for (struct view view; take(&left, &view);) {
		bool ours = false;
		for (size_t i = 0; i < nr && !ours; i++)
			ours = u32_at(&view, sizeof(view.header)) == (uint32_t)pids[i];
		if (ours)
			buf_put(ret, view.bytes, view.header.size);
	}
}

/* They are enough for more than one thread where the number of threads is not given. */
static void many_processes_are_read_once_by_any_number_of_threads(void **state)
{
	enum { NR = 820, COUNTED = 20 };
	AUTO_BUF struct buf one = {0}, few = {0}, useful = {0};
	pid_t pids[NR], counted[COUNTED], parent = getpid();

	(void)state;
	for (size_t i = 0; i < NR; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == parent)
			pause();
		_exit(0);
	}
	for (size_t i = 0; i < COUNTED; i++)
		counted[i] = pids[i * (NR - 1) / (COUNTED - 1)];
	records_of(counted, COUNTED, 1, &one);
	records_of(counted, COUNTED, 3, &few);
	records_of(counted, COUNTED, 0, &useful);
	for (size_t i = 0; i < NR; i++) {
		kill(pids[i], SIGKILL);
		assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
	}
	for (size_t i = 0; i < COUNTED; i++) {
		assert_int_equal(count_records(&one, PERF_RECORD_COMM, counted[i]), 1);
		assert_true(count_records(&one, PERF_RECORD_MMAP2, counted[i]) > 2);
	}
	assert_int_equal(few.len, one.len);
	assert_memory_equal(few.data, one.data, one.len);
	assert_int_equal(useful.len, one.len);
	assert_memory_equal(useful.data, one.data, one.len);
}

static void a_task_that_is_gone_is_reported(void **state)
{
	const struct synth_params params = {.mmap2 = true};
	AUTO_BUF struct buf out = {0};
	pid_t child = fork();

	(void)state;
	if (child == 0)
		_exit(0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(synth_process(&params, child, &out), -ESRCH);
	assert_int_equal(synth_threads(&params, &child, 1, &out), -ESRCH);
	assert_int_equal(synth_workload(&params, child, &out), -ESRCH);
	assert_int_equal(out.len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_are_cut_into_records),
		cmocka_unit_test(no_id_is_no_record),
		cmocka_unit_test(clocks_have_unit_and_scale),
		cmocka_unit_test(threads_have_blank_padded_names),
		cmocka_unit_test(cpus_take_their_shortest_form),
		cmocka_unit_test(lost_samples_carry_the_id),
		cmocka_unit_test(modules_are_sorted_and_located),
		cmocka_unit_test(btf_names_are_found),
		cmocka_unit_test(a_process_is_described),
		cmocka_unit_test(maps_are_the_same_by_query_and_by_text),
		cmocka_unit_test(maps_of_hugetlbfs_are_memory),
		cmocka_unit_test(threads_that_are_gone_are_skipped),
		cmocka_unit_test(maps_of_several_threads_are_those_of_one),
		cmocka_unit_test(a_process_whose_first_thread_ended_has_maps),
		cmocka_unit_test(many_processes_are_read_once_by_any_number_of_threads),
		cmocka_unit_test(a_task_that_is_gone_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
