/* SPDX-License-Identifier: MIT */
/* Without events: what is mapped is told as records, of processes that have ended or of this one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/cpuset.h"
#include "base/fd.h"
#include "perfdata/object_id.h"
#include "perfdata/record.h"
#include "record/build_ids/object_watch.h"
#include "record/setup/target.h"
#include "sysinfo/elf_note.h"

enum { WAIT_MS = 5000, ANY_GENERATION = 0, OTHER_MAPS = 2000, MAPS_BETWEEN_NOTES = 50 };

/* The linker puts it in the place of libc's (--wrap): the clock of the day is set forward behind this call. */
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
static bool is_clock_set;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	int ret = __real_clock_gettime(clock, now);

	if (clock == CLOCK_REALTIME && is_clock_set)
		now->tv_sec -= 3600;
	return ret;
}

static char place[] = "/tmp/millrace-object-watch-XXXXXX";
static char program[128]; /* a copy of this test, which has a build-id */
static struct file_id file;

static int make_place(void **state)
{
	char command[256];
	struct stat status;

	(void)state;
	if (!mkdtemp(place))
		return -1;
	snprintf(program, sizeof(program), "%s/program", place);
	snprintf(command, sizeof(command), "cp /proc/%d/exe %s", (int)getpid(), program);
	if (system(command) || stat(program, &status))
		return -1;
	file = (struct file_id){.major = major(status.st_dev), .minor = minor(status.st_dev), .inode = status.st_ino};
	return 0;
}

static int remove_place(void **state)
{
	char command[256];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", place);
	return system(command);
}

static struct object_watch *start_with(size_t max_fds)
{
	const struct target no_tasks = {.kind = EVENT_TARGET_TASKS};
	const struct object_watch_params params = {.target = &no_tasks, .max_fds = max_fds};
	struct object_watch *watch = NULL;

	assert_int_equal(object_watch_open(&params, &watch), 0);
	assert_int_equal(object_watch_start(watch), 0);
	return watch;
}

static struct object_watch *start(void)
{
	return start_with(1024);
}

/* Of one that has ended. */
static pid_t gone_pid(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return pid;
}

static void put_map(pid_t pid, const char *name, const struct file_id *id, struct buf *out)
{
	const struct record_mmap2 record = {
		.header = {.type = PERF_RECORD_MMAP2, .misc = PERF_RECORD_MISC_USER},
		.pid = (uint32_t)pid,
		.tid = (uint32_t)pid,
		.addr = 0x1000,
		.len = 0x1000,
		.maj = id->major,
		.min = id->minor,
		.ino = id->inode,
		.ino_generation = id->generation,
		.prot = PROT_EXEC,
	};

	record_put(out, &record, sizeof(record), span_of_text(name), 0);
}

static void note_map_of(struct object_watch *watch, pid_t pid, const char *name, const struct file_id *id)
{
	AUTO_BUF struct buf records = {0};

	put_map(pid, name, id, &records);
	object_watch_note(watch, buf_span(&records));
}

static void note_map(struct object_watch *watch, pid_t pid, const char *name, uint64_t generation)
{
	const struct file_id id = {
		.major = file.major, .minor = file.minor, .inode = file.inode, .generation = generation};

	note_map_of(watch, pid, name, &id);
}

/* It is opened by another thread. */
static int wait_for(struct object_watch *watch, const struct file_id *wanted)
{
	int fd = -1;

	for (int i = 0; i < WAIT_MS && fd < 0; i++) {
		fd = object_watch_find(watch, wanted);
		if (fd < 0)
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return fd;
}

/* The first one is not asked again, nor any event waited for. */
static void maps_of_the_start_are_opened_at_once(void **state)
{
	struct object_watch *watch = start();

	(void)state;
	nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); /* it sleeps by then */
	note_map(watch, getpid(), program, ANY_GENERATION);
	assert_true(wait_for(watch, &file) >= 0);
	object_watch_free(watch);
}

/* As ldd(1) does: it maps a program for a moment, and under another path. */
static void each_process_that_maps_it_is_tried(void **state)
{
	struct object_watch *watch = start();
	char elsewhere[160];

	(void)state;
	snprintf(elsewhere, sizeof(elsewhere), "%s/root/program", place);
	for (int i = 0; i < 10; i++) { /* together, or one after the other */
		note_map(watch, gone_pid(), elsewhere, ANY_GENERATION);
		nanosleep(&(struct timespec){.tv_nsec = i % 2 ? 0 : 3000000}, NULL);
	}
	assert_int_equal(object_watch_find(watch, &file), -1);
	note_map(watch, getpid(), program, ANY_GENERATION);
	assert_true(wait_for(watch, &file) >= 0);
	object_watch_free(watch);
}

/* In a root of its own it has another path; the build-id tells that it is the same. */
static void a_build_is_found_whatever_its_path_was(void **state)
{
	struct object_watch *watch = start();
	struct elf_id build_id = {0}, other = {.len = 20};

	(void)state;
	note_map(watch, getpid(), program, ANY_GENERATION);
	int fd = wait_for(watch, &file);
	int len = elf_note_of_fd(fd, build_id.bytes);
	if (len <= 0)
		skip();
	build_id.len = (uint8_t)len;
	fd = object_watch_find(watch, &file);
	assert_true(fd >= 0);
	assert_int_equal(object_watch_find_build(watch, "/app/server", &build_id), fd);
	assert_int_equal(object_watch_find_build(watch, program, &build_id), fd);
	assert_int_equal(object_watch_find_build(watch, program, &other), -1);
	object_watch_free(watch);
}

/* A file that is not looked for, often enough to fill a ring many times. */
static void map_others(struct object_watch *watch)
{
	AUTO_FD int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	for (int i = 0; i < OTHER_MAPS; i++) {
		void *map = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
		assert_true(map != MAP_FAILED);
		munmap(map, 4096);
		if (i % MAPS_BETWEEN_NOTES == 0)
			object_watch_note(watch, (struct span){0});
	}
}

/* Its thread has not started, and the rings have room for few of them. */
static void maps_while_the_recording_starts_are_not_lost(void **state)
{
	pid_t self = getpid();
	struct target own = {.kind = EVENT_TARGET_TASKS, .tids = &self, .nr_tids = 1};
	const struct object_watch_params params = {.target = &own, .max_fds = 1024};
	struct object_watch *watch = NULL;

	(void)state;
	if (geteuid() != 0) /* perf_event_paranoid may forbid the events */
		skip();
	assert_true(cpuset_online(&own.cpus) >= 0);
	assert_int_equal(object_watch_open(&params, &watch), 0);
	map_others(watch);
	AUTO_FD int fd = open(program, O_RDONLY | O_CLOEXEC);
	void *map = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_true(map != MAP_FAILED);
	object_watch_note(watch, (struct span){0});
	assert_int_equal(object_watch_start(watch), 0);
	int found = wait_for(watch, &file);
	munmap(map, 4096);
	object_watch_free(watch);
	cpuset_fini(&own.cpus);
	assert_true(found >= 0);
}

/* A copy of the program, some ticks old; its path is in `ret`. */
static struct file_id copy_program(const char *name, char ret[160])
{
	char command[512];
	struct stat status;

	snprintf(ret, 160, "%s/%s", place, name);
	snprintf(command, sizeof(command), "cp -p %s %s", program, ret);
	assert_int_equal(system(command), 0);
	assert_int_equal(stat(ret, &status), 0);
	return (struct file_id){.major = major(status.st_dev), .minor = minor(status.st_dev), .inode = status.st_ino};
}

/* For so short a time that the watch only finds it behind its end. */
static void map_for_a_moment(const char *path)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *map = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	assert_true(map != MAP_FAILED);
	munmap(map, 4096);
}

static void write_in_place(const char *path, bool sets_time_back)
{
	struct stat status;

	assert_int_equal(stat(path, &status), 0);
	AUTO_FD int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_int_equal(write(fd, "x", 1), 1);
	if (sets_time_back)
		assert_int_equal(futimens(fd, (struct timespec[2]){status.st_atim, status.st_mtim}), 0);
}

/* It is no ELF file any more. */
static void spoil(const char *path)
{
	AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);

	assert_int_equal(pwrite(fd, "x", 1, 0), 1);
}

static int check(struct object_watch *watch, const struct file_id *id, const char *path, struct watched_contents *ret)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

	return object_watch_check(watch, id, fd, ret);
}

/* A program of milliseconds that is written over at once, also by `cp -p`, which sets its time back. */
static void what_is_written_to_behind_its_map_is_not_what_was_mapped(void **state)
{
	const char *const names[] = {"same", "written", "set-back", "later", "later-set-back"};
	enum { NR = sizeof(names) / sizeof(names[0]), NR_AT_ONCE = 3 };
	struct target own = {.kind = EVENT_TARGET_TASKS, .tids = (pid_t[]){getpid()}, .nr_tids = 1};
	const struct object_watch_params params = {.target = &own, .max_fds = 1024};
	struct object_watch *watch = NULL;
	struct file_id ids[NR];
	char paths[NR][160];
	struct watched_contents then;

	(void)state;
	if (geteuid() != 0) /* perf_event_paranoid may forbid the events */
		skip();
	for (unsigned i = 0; i < NR; i++)
		ids[i] = copy_program(names[i], paths[i]);
	nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
	assert_true(cpuset_online(&own.cpus) >= 0);
	assert_int_equal(object_watch_open(&params, &watch), 0);
	for (unsigned i = 0; i < NR; i++)
		map_for_a_moment(paths[i]);
	for (unsigned i = 1; i < NR_AT_ONCE; i++)
		write_in_place(paths[i], i == 2);
	object_watch_note(watch, (struct span){0});
	assert_int_equal(object_watch_start(watch), 0);
	for (unsigned i = 0; i < NR; i++)
		assert_true(wait_for(watch, &ids[i]) >= 0);
	for (unsigned i = NR_AT_ONCE; i < NR; i++)
		write_in_place(paths[i], i == NR_AT_ONCE + 1);
	for (unsigned i = 0; i < NR; i++) {
		assert_int_equal(check(watch, &ids[i], paths[i], &then), i ? -ESTALE : 0);
		assert_int_equal(then.build_id.len != 0, i == 0 || i >= NR_AT_ONCE);
		assert_false(then.mapped_later);
	}
	spoil(paths[NR - 1]);
	map_for_a_moment(paths[NR - 1]);
	object_watch_note(watch, (struct span){0}); /* reads the rings, as its thread does */
	check(watch, &ids[NR - 1], paths[NR - 1], &then);
	assert_true(then.mapped_later);
	for (unsigned i = 0; i < NR; i++)
		unlink(paths[i]);
	object_watch_free(watch);
	cpuset_fini(&own.cpus);
}

static int64_t ns_of(const struct timespec *time)
{
	return time->tv_sec * INT64_C(1000000000) + time->tv_nsec;
}

/*
 * A program of milliseconds that was compiled in the tick before the recording began. What was written in the same tick
 * may have been something else when it was mapped.
 */
static void what_was_written_just_before_the_start_is_what_was_mapped(void **state)
{
	struct target own = {.kind = EVENT_TARGET_TASKS, .tids = (pid_t[]){getpid()}, .nr_tids = 1};
	const struct object_watch_params params = {.target = &own, .max_fds = 1024};
	struct object_watch *watch = NULL;
	char before_path[160], behind_path[160];
	struct watched_contents then;
	struct stat status;

	(void)state;
	if (geteuid() != 0) /* perf_event_paranoid may forbid the events */
		skip();
	assert_true(cpuset_online(&own.cpus) >= 0);
	const struct file_id before = copy_program("before", before_path);
	assert_int_equal(stat(before_path, &status), 0);
	const int64_t written_ns = ns_of(&status.st_ctim); /* since Linux 6.13 it may be inside of a tick */
	while ((int64_t)clock_ns(CLOCK_REALTIME_COARSE) <= written_ns)
		;
	assert_int_equal(object_watch_open(&params, &watch), 0);
	map_for_a_moment(before_path);
	const struct file_id behind = copy_program("behind", behind_path);
	map_for_a_moment(behind_path);
	const int64_t mapped_ns = (int64_t)clock_ns(CLOCK_REALTIME);
	assert_int_equal(stat(behind_path, &status), 0);
	object_watch_note(watch, (struct span){0});
	assert_int_equal(object_watch_start(watch), 0);
	assert_true(wait_for(watch, &before) >= 0 && wait_for(watch, &behind) >= 0);
	assert_int_equal(check(watch, &before, before_path, &then), 0);
	assert_true(then.build_id.len);
	if (mapped_ns - ns_of(&status.st_ctim) < 20000000) { /* else there was no CPU for a while */
		assert_int_equal(check(watch, &behind, behind_path, &then), -ESTALE);
		assert_int_equal(then.build_id.len, 0);
	}
	write_in_place(before_path, true);
	assert_int_equal(check(watch, &before, before_path, &then), -ESTALE);
	unlink(before_path);
	unlink(behind_path);
	object_watch_free(watch);
	cpuset_fini(&own.cpus);
}

/* As by touch(1), while a program runs, and between two runs of it. */
static void what_is_touched_and_mapped_again_is_the_same(void **state)
{
	struct target own = {.kind = EVENT_TARGET_TASKS, .tids = (pid_t[]){getpid()}, .nr_tids = 1};
	const struct object_watch_params params = {.target = &own, .max_fds = 1024};
	struct object_watch *watch = NULL;
	struct watched_contents then;
	char path[160];

	(void)state;
	if (geteuid() != 0) /* perf_event_paranoid may forbid the events */
		skip();
	const struct file_id id = copy_program("touched", path);
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(cpuset_online(&own.cpus) >= 0);
	assert_int_equal(object_watch_open(&params, &watch), 0);
	assert_int_equal(object_watch_start(watch), 0);
	void *first = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_true(wait_for(watch, &id) >= 0);
	assert_int_equal(utimensat(AT_FDCWD, path, NULL, 0), 0);
	void *second = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_true(first != MAP_FAILED && second != MAP_FAILED);
	object_watch_stop(watch); /* looks once more */
	assert_int_equal(check(watch, &id, path, &then), -ESTALE);
	assert_false(then.mapped_later);
	if (!then.build_id.len)
		skip(); /* the linker gave it none */
	assert_int_equal(object_watch_check_contents(watch, &id, fd), 0);
	AUTO_FD int copy = object_watch_open_copy(watch, &id);
	assert_true(copy >= 0);
	spoil(path);
	assert_int_equal(object_watch_check_contents(watch, &id, fd), -ESTALE);
	assert_int_equal(object_watch_open_copy(watch, &id), -ESTALE);
	munmap(first, 4096);
	munmap(second, 4096);
	unlink(path);
	object_watch_free(watch);
	cpuset_fini(&own.cpus);
}

/* An empty file; its path is in `ret`. */
static struct file_id make_file(unsigned nr, char ret[160])
{
	struct stat status;

	snprintf(ret, 160, "%s/file%u", place, nr);
	AUTO_FD int fd = open(ret, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &status), 0);
	return (struct file_id){.major = major(status.st_dev), .minor = minor(status.st_dev), .inode = status.st_ino};
}

/* It leaves as many to others as it has, and what they have mapped, too, is not lost because of it. */
static void one_process_does_not_take_all_descriptors(void **state)
{
	enum { MAX_FDS = 128, MAX_OPEN = MAX_FDS / 4, FILES = 2 * MAX_OPEN, SHARED = FILES - 1 };
	const pid_t greedy = gone_pid(), others[] = {getpid(), getppid()};
	struct object_watch *watch = start_with(MAX_FDS);
	struct file_id ids[FILES];
	char paths[FILES][160];
	unsigned nr = 0;

	(void)state;
	for (unsigned i = 0; i < FILES; i++) {
		ids[i] = make_file(i, paths[i]);
		note_map_of(watch, greedy, paths[i], &ids[i]);
	}
	note_map(watch, others[0], program, ANY_GENERATION);
	note_map(watch, greedy, program, ANY_GENERATION);
	bool is_open = wait_for(watch, &file) >= 0;
	for (unsigned i = 0; i < FILES; i++)
		nr += object_watch_find(watch, &ids[i]) >= 0;
	int shared = object_watch_find(watch, &ids[SHARED]);
	int of_none = object_watch_find_build(watch, program, &(struct elf_id){.bytes = {1}, .len = 20});
	note_map_of(watch, others[1], paths[SHARED], &ids[SHARED]);
	bool is_shared_open = wait_for(watch, &ids[SHARED]) >= 0;
	object_watch_free(watch);
	for (unsigned i = 0; i < FILES; i++)
		unlink(paths[i]);
	assert_true(is_open);
	assert_int_equal(nr, MAX_OPEN / 2);
	assert_int_equal(shared, -1);
	assert_int_equal(of_none, -1);
	assert_true(is_shared_open);
}

/* That this process has read(2). false: the kernel does not count them. */
static bool bytes_read(unsigned long long *ret)
{
	AUTO_BUF struct buf text = {0};

	return fd_slurp("/proc/self/io", 4096, &text) == 0 && sscanf(buf_text(&text), "rchar: %llu", ret) == 1;
}

/* Not found by their range, as where a process has changed it since; without privileges they cannot be opened. */
static void maps_are_read_once_for_all_deleted_files_of_a_process(void **state)
{
	enum { FILES = 400, MOST_BYTES = 4 << 20 };
	struct file_id ids[FILES];
	void *maps[FILES];
	char path[160];
	unsigned long long before, after;
	AUTO_BUF struct buf records = {0};

	(void)state;
	if (!bytes_read(&before))
		skip();
	for (unsigned i = 0; i < FILES; i++) {
		ids[i] = make_file(i, path);
		AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
		maps[i] = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
		assert_true(maps[i] != MAP_FAILED);
		assert_int_equal(unlink(path), 0);
		put_map(getpid(), path, &ids[i], &records);
	}
	put_map(getpid(), program, &file, &records);
	struct object_watch *watch = start_with(16 * FILES);
	assert_true(bytes_read(&before));
	object_watch_note(watch, buf_span(&records)); /* all of them at once */
	bool is_last_open = wait_for(watch, &file) >= 0;
	unsigned nr_open = 0;
	for (unsigned i = 0; i < FILES; i++)
		nr_open += object_watch_find(watch, &ids[i]) >= 0;
	object_watch_free(watch);
	assert_true(bytes_read(&after));
	for (unsigned i = 0; i < FILES; i++)
		munmap(maps[i], 4096);
	assert_true(is_last_open);
	assert_true(after - before < MOST_BYTES);
	assert_true(nr_open == 0 || nr_open == FILES);
}

/* A path to the program that takes a millisecond: as many links as may follow each other, each as long as it may be. */
static void make_slow_path(char ret[160])
{
	enum { LINKS = 38, DOTS = 1900 };
	char target[2 * DOTS + 160], *end = target;

	for (int i = 0; i < DOTS; i++)
		end = stpcpy(end, "./");
	strcpy(end, "program");
	for (int i = 0; i < LINKS; i++) {
		snprintf(ret, 160, "%s/link%d", place, i);
		unlink(ret);
		assert_int_equal(symlink(target, ret), 0);
		snprintf(end, 32, "link%d", i);
	}
}

static size_t nr_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t nr = 0;

	assert_non_null(dir);
	while (readdir(dir))
		nr++;
	closedir(dir);
	return nr;
}

/* Each takes several system calls; the thread looks at them, which is not there yet. */
static void processes_of_the_start_are_looked_at_behind_it(void **state)
{
	const struct target no_tasks = {.kind = EVENT_TARGET_TASKS};
	const struct object_watch_params params = {.target = &no_tasks, .max_fds = 1024};
	const struct file_id none = {0};
	struct object_watch *watch = NULL;

	(void)state;
	assert_int_equal(object_watch_open(&params, &watch), 0);
	size_t before = nr_fds();
	note_map_of(watch, getpid(), "//anon", &none);
	note_map_of(watch, getpid(), "/dev/zero", &none);
	assert_int_equal(nr_fds(), before);
	assert_int_equal(object_watch_start(watch), 0);
	for (unsigned ms = 0; ms < WAIT_MS && nr_fds() < before + 2; ms++)
		usleep(1000);
	assert_int_equal(nr_fds(), before + 2); /* its pidfd and its /tmp: once */
	object_watch_free(watch);
}

/* As at a switch of the output, when all maps are noted anew. */
static void a_map_that_is_noted_while_it_is_opened(void **state)
{
	enum { ROUNDS = 10 };
	char slow[160];

	(void)state;
	make_slow_path(slow);
	size_t before = nr_fds();
	for (int i = 0; i < ROUNDS; i++) {
		struct object_watch *watch = start();
		for (int k = 0; k < 1000000 && object_watch_find(watch, &file) < 0; k++)
			note_map(watch, getpid(), slow, ANY_GENERATION);
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL); /* it may be noted to be opened again */
		assert_true(object_watch_find(watch, &file) >= 0);
		object_watch_free(watch);
		assert_int_equal(nr_fds(), before);
	}
}

/* A former process with the number may have left what is older than the recording. */
static void an_old_perf_map_of_a_process_that_was_not_seen_is_not_taken(void **state)
{
	static const char text[] = "1000 1000 name\n";
	const pid_t pid = gone_pid();
	const time_t now = time(NULL);
	const struct {
		time_t age_s;
		int err;
	} maps[] = {{3600, -ECHILD}, {2, 0}, {0, 0}};
	struct object_watch *watch = start();
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)pid);
	AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	bool is_right = fd_write(fd, text, strlen(text)) == 0;
	int results[3];
	for (size_t i = 0; i < 3; i++) {
		const struct timespec times[] = {{.tv_sec = now - maps[i].age_s}, {.tv_sec = now - maps[i].age_s}};
		AUTO_BUF struct buf map = {0};
		int64_t written_ns = 0;
		is_right &= futimens(fd, times) == 0;
		results[i] = object_watch_read_perf_map(watch, pid, 0, &map, &written_ns);
		is_right &= map.len == (results[i] ? 0 : strlen(text));
		is_right &= written_ns == (results[i] ? 0 : times[0].tv_sec * INT64_C(1000000000));
	}
	unlink(path);
	object_watch_free(watch);
	assert_true(is_right);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(results[i], maps[i].err);
}

/* The thread is at work when it is to end. */
static void the_end_waits_by_no_clock_that_can_be_set(void **state)
{
	enum { SLOW_MAPS = 100 };
	char slow[160];
	struct file_id id = file;

	(void)state;
	make_slow_path(slow);
	size_t before = nr_fds();
	struct object_watch *watch = start();
	for (unsigned i = 0; i < SLOW_MAPS; i++) {
		id.inode = file.inode + 1 + i; /* it is another file, and so looked for at each place */
		note_map_of(watch, getpid(), slow, &id);
	}
	is_clock_set = true;
	object_watch_free(watch);
	is_clock_set = false;
	assert_int_equal(nr_fds(), before);
}

/* The last output but one is finished, as is its collection. */
static void end_output(struct object_watch *watch)
{
	unsigned next = object_watch_next_output(watch);

	object_watch_forget(watch, next - 1);
}

/* A recording of days does not keep the disks' room of what was deleted, nor comes to the end of its descriptors. */
static void what_only_finished_outputs_need_is_closed(void **state)
{
	enum { NR = 40 }; /* more than may be open */
	char path[160], lasting_path[160];
	struct object_watch *watch = start_with(40);
	const struct file_id lasting = make_file(NR, lasting_path);
	bool was_opened = true, is_kept = true, is_closed = true;
	size_t most_fds = 0;

	(void)state;
	note_map_of(watch, getpid(), lasting_path, &lasting);
	const int lasting_fd = wait_for(watch, &lasting);
	const size_t before = nr_fds();
	for (unsigned i = 0; i < NR; i++) {
		const struct file_id id = make_file(i, path);
		note_map_of(watch, getpid(), path, &id);
		was_opened &= wait_for(watch, &id) >= 0;
		unlink(path);
		end_output(watch);
		note_map_of(watch, getpid(), lasting_path, &lasting); /* as the initial state tells */
		is_kept &= object_watch_find(watch, &id) >= 0;        /* the output that has just begun needs it */
		most_fds = nr_fds() > most_fds ? nr_fds() : most_fds;
		end_output(watch);
		note_map_of(watch, getpid(), lasting_path, &lasting);
		is_closed &= object_watch_find(watch, &id) < 0;
		is_kept &= object_watch_find(watch, &lasting) == lasting_fd;
	}
	const size_t after = nr_fds();
	unlink(lasting_path);
	object_watch_free(watch);
	assert_true(lasting_fd >= 0 && was_opened && is_kept && is_closed);
	assert_true(most_fds <= before + 1);
	assert_int_equal(after, before);
}

static bool has_fds(size_t nr)
{
	for (int i = 0; i < WAIT_MS && nr_fds() != nr; i++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	return nr_fds() == nr;
}

/* With code compiled at run time; one that lives is kept. */
static void processes_of_finished_outputs_are_forgotten(void **state)
{
	static const char run_time_code[] = "//anon";
	static const struct file_id no_file;
	struct object_watch *watch = start();
	const size_t before = nr_fds();
	pid_t pid = fork();

	(void)state;
	if (!pid) {
		pause();
		_exit(0);
	}
	assert_true(pid > 0);
	note_map_of(watch, pid, run_time_code, &no_file);
	bool was_opened = has_fds(before + 2);
	for (int i = 0; i < 3; i++)
		end_output(watch);
	bool is_kept = nr_fds() == before + 2;
	kill(pid, SIGKILL);
	bool was_read = has_fds(before + 1); /* that of its /tmp is closed then */
	waitpid(pid, NULL, 0);
	end_output(watch);
	bool is_needed = nr_fds() == before + 1;
	end_output(watch);
	end_output(watch);
	const size_t after = nr_fds();
	object_watch_free(watch);
	assert_true(was_opened && is_kept && was_read && is_needed);
	assert_int_equal(after, before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(maps_of_the_start_are_opened_at_once),
		cmocka_unit_test(each_process_that_maps_it_is_tried),
		cmocka_unit_test(maps_while_the_recording_starts_are_not_lost),
		cmocka_unit_test(what_is_written_to_behind_its_map_is_not_what_was_mapped),
		cmocka_unit_test(what_was_written_just_before_the_start_is_what_was_mapped),
		cmocka_unit_test(what_is_touched_and_mapped_again_is_the_same),
		cmocka_unit_test(a_build_is_found_whatever_its_path_was),
		cmocka_unit_test(a_map_that_is_noted_while_it_is_opened),
		cmocka_unit_test(one_process_does_not_take_all_descriptors),
		cmocka_unit_test(processes_of_the_start_are_looked_at_behind_it),
		cmocka_unit_test(an_old_perf_map_of_a_process_that_was_not_seen_is_not_taken),
		cmocka_unit_test(maps_are_read_once_for_all_deleted_files_of_a_process),
		cmocka_unit_test(what_only_finished_outputs_need_is_closed),
		cmocka_unit_test(processes_of_finished_outputs_are_forgotten),
		cmocka_unit_test(the_end_waits_by_no_clock_that_can_be_set),
	};

	return cmocka_run_group_tests(tests, make_place, remove_place);
}
