/* SPDX-License-Identifier: MIT */
/*
 * Unwind tables of programs that have ended: where their files are found, which tables are given up, and that chains
 * stay the same.
 */
#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "perfdata/object_id.h"
#include "perfdata/record.h"
#include "perfdata/sample.h"
#include "record/build_ids/object_watch.h"
#include "record/setup/target.h"
#include "record/unwind/mapped_objects.h"
#include "record/unwind/task_state.h"
#include "tasks/maps.h"
#include "tests/fake/fake_elf.h"
#include "unwind/unwind.h"
#include "unwind/unwind_memory.h"

enum {
	SP = 7, /* among the sampled registers; <asm/perf_regs.h> */
	IP = 8,
	NR_REGS = 17,
	SAMPLED_MASK = 0xff01ff,
	NR_WORDS = 32,
	FIRST_PID = 1 << 24, /* of no process */
	NR_PROGRAMS = 5,
	MANY_BYTES = 1 << 20,
	ALL_OBJECTS = 100,
	MAPPED_BYTES = 4096,
	WAIT_MS = 5000,
};

static const uint64_t STACK = 0x7fff0000, CODE = 0x400000;

struct host {
	char directory[32];
	struct object_watch *watch; /* NULL: none */
	struct unwind_tables *tables;
	struct mapped_objects *objects;
	struct task_state *state;
	uint32_t last_pid;
};

/* What is unwound in one thread. */
struct walker {
	struct host *host;
	struct unwind_cache *cache;
	uint32_t pid;
	uint64_t ips[NR_WORDS], cfas[NR_WORDS];
};

static void program_path(const struct host *host, unsigned program, char ret[64])
{
	snprintf(ret, 64, "%s/%u", host->directory, program);
}

/* In the function of each program the CFA is another one. */
static uint64_t program_cfa(unsigned program)
{
	return STACK + 8 * (1 + program);
}

static void write_program(const struct host *host, unsigned program)
{
	const uint8_t first[] = {DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1};
	const uint8_t own[] = {DW_CFA_def_cfa_offset, (uint8_t)(8 * (1 + program))};
	char path[64];
	struct fake_elf elf;

	fake_elf_init(&elf, EM_X86_64);
	fake_elf_cie(&elf, "zR", first, sizeof(first));
	fake_elf_fde(&elf, 0, 0x10, own, sizeof(own));
	program_path(host, program, path);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(elf.bytes, sizeof(elf.bytes), 1, file), 1);
	assert_int_equal(fclose(file), 0);
}

static void write_programs(struct host *host)
{
	*host = (struct host){.directory = "/tmp/mapped_objects.XXXXXX", .last_pid = FIRST_PID};
	assert_non_null(mkdtemp(host->directory));
	for (unsigned i = 0; i < NR_PROGRAMS; i++)
		write_program(host, i);
}

static void make_objects(struct host *host, size_t max_bytes, const struct mapped_objects_limits *limits)
{
	host->tables = unwind_tables_new("x86_64", max_bytes);
	host->objects = mapped_objects_new(host->tables, limits, host->watch);
	host->state = task_state_new(host->objects, 0, MANY_BYTES);
	assert_true(host->tables && host->objects && host->state);
}

static void new_host(struct host *host, size_t max_bytes, const struct mapped_objects_limits *limits)
{
	write_programs(host);
	make_objects(host, max_bytes, limits);
}

/* The watch has no events: what is mapped is told as records. */
static void new_watched_host(struct host *host)
{
	const struct target no_tasks = {.kind = EVENT_TARGET_TASKS};
	const struct object_watch_params params = {.target = &no_tasks, .max_fds = 1024};
	const struct mapped_objects_limits all = {MANY_BYTES, ALL_OBJECTS};

	write_programs(host);
	assert_int_equal(object_watch_open(&params, &host->watch), 0);
	assert_int_equal(object_watch_start(host->watch), 0);
	make_objects(host, MANY_BYTES, &all);
}

static void free_host(struct host *host)
{
	char path[64];

	task_state_free(host->state);
	mapped_objects_free(host->objects);
	unwind_tables_free(host->tables);
	object_watch_free(host->watch);
	for (unsigned i = 0; i < NR_PROGRAMS; i++) {
		program_path(host, i, path);
		unlink(path);
	}
	rmdir(host->directory);
}

static void apply(struct host *host, uint32_t type, const struct buf *payload)
{
	_Alignas(8) uint8_t record[256];
	struct perf_event_header header = {
		.type = type, .misc = PERF_RECORD_MISC_USER, .size = (uint16_t)(sizeof(header) + payload->len)};

	assert_true(header.size <= sizeof(record));
	memcpy(record, &header, sizeof(header));
	memcpy(record + sizeof(header), payload->data, payload->len);
	assert_int_equal(task_state_apply(host->state, (struct perf_event_header *)record), 0);
}

/* A process that runs the program, whose file the kernel names so. Its pid. */
static uint32_t start_file(struct host *host, unsigned program, const struct file_id *file)
{
	const uint64_t where[] = {CODE, FAKE_ELF_CODE_BYTES, FAKE_ELF_CODE};
	const uint64_t numbers[] = {file->inode, file->generation};
	const uint32_t pid = ++host->last_pid, rights[] = {PROT_READ | PROT_EXEC, MAP_PRIVATE};
	struct buf payload = {0};
	char path[64] = "";

	program_path(host, program, path);
	buf_put_u32(&payload, pid);
	buf_put_u32(&payload, pid);
	buf_put(&payload, where, sizeof(where));
	buf_put_u32(&payload, file->major);
	buf_put_u32(&payload, file->minor);
	buf_put(&payload, numbers, sizeof(numbers));
	buf_put(&payload, rights, sizeof(rights));
	buf_put(&payload, path, sizeof(path));
	apply(host, PERF_RECORD_MMAP2, &payload);
	buf_fini(&payload);
	return pid;
}

/* Of whose file nothing else is known. */
static uint32_t start_program(struct host *host, unsigned program)
{
	return start_file(host, program, &(struct file_id){.inode = 0});
}

static void end_process(struct host *host, uint32_t pid)
{
	struct buf payload = {0};

	for (unsigned i = 0; i < 4; i++)
		buf_put_u32(&payload, pid);
	buf_put_u64(&payload, 0);
	apply(host, PERF_RECORD_EXIT, &payload);
	buf_fini(&payload);
}

static const struct maps *maps_of(const struct host *host, uint32_t pid)
{
	const struct sample sample = {.pid = pid, .tid = pid};
	struct known_task task = {0};

	assert_int_equal(task_state_maps(host->state, &sample, &task), TASK_STATE_KNOWN);
	return task.maps;
}

static struct mapped_object *object_of(const struct host *host, uint32_t pid)
{
	return maps_find(maps_of(host, pid), CODE)->object;
}

static struct unwind_object *find(void *ctx, uint64_t pc, uint64_t *ret_offset)
{
	const struct walker *walker = ctx;
	const struct map *map = maps_find(maps_of(walker->host, walker->pid), pc);

	if (!map)
		return NULL;
	*ret_offset = map_address(map, pc);
	return mapped_object_table(map->object);
}

/* The CFA of the function where the process is; 0: the chain ends in another way. */
static uint64_t unwind(struct walker *walker, uint32_t pid, bool never_waits, enum unwind_end *ret_end)
{
	const uint64_t regs[NR_REGS] = {[SP] = STACK, [IP] = CODE + 4}, words[NR_WORDS] = {0};
	const struct sample_regs sampled = {.abi = PERF_SAMPLE_REGS_ABI_64, .mask = SAMPLED_MASK, .regs = regs};
	struct unwind_chain chain = {
		.ips = walker->ips, .cfas = walker->cfas, .max = NR_WORDS, .never_waits = never_waits};

	walker->pid = pid;
	const struct unwind_space space = {
		.find = find, .ctx = walker, .generation = maps_generation(maps_of(walker->host, pid))};
	unwind_chain(walker->cache, &space, &sampled, (struct span){words, sizeof(words)}, &chain);
	*ret_end = chain.end;
	return chain.end == UNWIND_COMPLETE ? walker->cfas[0] : 0;
}

/* As a worker does: builds the table where there is none. */
static enum unwind_end unwind_and_build(struct walker *walker, uint32_t pid, unsigned program)
{
	enum unwind_end end;
	uint64_t cfa = unwind(walker, pid, false, &end);

	if (end == UNWIND_NOT_READY) {
		mapped_object_build(walker->host->objects, object_of(walker->host, pid));
		cfa = unwind(walker, pid, false, &end);
	}
	if (end == UNWIND_COMPLETE)
		assert_int_equal(cfa, program_cfa(program));
	return end;
}

static void mark(void *ctx, struct mapped_object *object)
{
	mapped_object_mark(ctx, object);
}

static void give_up(struct host *host)
{
	assert_int_equal(task_state_visit_objects(host->state, mark, host->objects), 0);
	mapped_objects_give_up(host->objects);
}

static struct unwind_stats stats_of(struct host *host)
{
	struct unwind_stats stats;

	unwind_tables_stats(host->tables, &stats);
	return stats;
}

static struct walker new_walker(struct host *host)
{
	struct walker walker = {.host = host, .cache = unwind_cache_new(host->tables)};

	assert_non_null(walker.cache);
	return walker;
}

/* Runs the program for a moment. */
static void run_once(struct walker *walker, unsigned program)
{
	const uint32_t pid = start_program(walker->host, program);

	assert_int_equal(unwind_and_build(walker, pid, program), UNWIND_COMPLETE);
	end_process(walker->host, pid);
}

/* Memory of the table of one program. All have the same. */
static size_t bytes_of_one(void)
{
	const struct mapped_objects_limits all = {MANY_BYTES, ALL_OBJECTS};
	struct host host;

	new_host(&host, MANY_BYTES, &all);
	struct walker walker = new_walker(&host);
	run_once(&walker, 0);
	const size_t bytes = unwind_tables_bytes(host.tables);
	unwind_cache_free(walker.cache);
	free_host(&host);
	assert_true(bytes > 0);
	return bytes;
}

static void assert_has_table(struct walker *walker, unsigned program, bool has)
{
	const uint32_t pid = start_program(walker->host, program);
	enum unwind_end end;

	unwind(walker, pid, false, &end);
	assert_int_equal(end, has ? UNWIND_COMPLETE : UNWIND_NOT_READY);
	end_process(walker->host, pid);
}

/* What was mapped last stays, as far as there is room; and what is mapped, however old. A table is built again. */
static void test_what_stays(void **state)
{
	const struct mapped_objects_limits limits = {2 * bytes_of_one(), ALL_OBJECTS};
	struct host host;

	(void)state;
	new_host(&host, MANY_BYTES, &limits);
	struct walker walker = new_walker(&host);
	const uint32_t living = start_program(&host, 0);
	assert_int_equal(unwind_and_build(&walker, living, 0), UNWIND_COMPLETE);
	run_once(&walker, 1);
	assert_false(mapped_objects_are_many(host.objects));
	run_once(&walker, 2);
	run_once(&walker, 1);
	run_once(&walker, 3);
	assert_true(mapped_objects_are_many(host.objects));
	give_up(&host);
	assert_false(mapped_objects_are_many(host.objects));
	assert_int_equal(stats_of(&host).nr_tables, 3);
	assert_int_equal(stats_of(&host).nr_objects, 3);
	assert_int_equal(stats_of(&host).nr_given_up, 1);
	assert_has_table(&walker, 2, false);
	assert_has_table(&walker, 1, true);
	assert_has_table(&walker, 3, true);
	run_once(&walker, 2);
	assert_int_equal(unwind_and_build(&walker, living, 0), UNWIND_COMPLETE);
	assert_int_equal(stats_of(&host).nr_tables, 4);
	unwind_cache_free(walker.cache);
	free_host(&host);
}

/* Files of equal content have one table, which stays as long as any of them. */
static void test_one_table_of_two_files(void **state)
{
	const struct mapped_objects_limits none = {0, 0};
	char path[64], copy[64];
	struct host host;

	(void)state;
	new_host(&host, MANY_BYTES, &none);
	program_path(&host, 0, path);
	program_path(&host, 1, copy);
	unlink(copy);
	assert_int_equal(link(path, copy), 0);
	struct walker walker = new_walker(&host);
	const uint32_t first = start_program(&host, 0), second = start_program(&host, 1);
	assert_int_equal(unwind_and_build(&walker, first, 0), UNWIND_COMPLETE);
	assert_int_equal(unwind_and_build(&walker, second, 0), UNWIND_COMPLETE);
	assert_int_equal(stats_of(&host).nr_tables, 1);
	end_process(&host, first);
	give_up(&host);
	assert_int_equal(stats_of(&host).nr_objects, 1);
	assert_int_equal(stats_of(&host).nr_tables, 1);
	assert_int_equal(unwind_and_build(&walker, second, 0), UNWIND_COMPLETE);
	end_process(&host, second);
	give_up(&host);
	assert_int_equal(stats_of(&host).nr_objects, 0);
	assert_int_equal(stats_of(&host).nr_tables, 0);
	assert_int_equal(unwind_tables_bytes(host.tables), 0);
	unwind_cache_free(walker.cache);
	free_host(&host);
}

/* Also of programs without a table no more stay than the limit. */
static void test_number_of_objects(void **state)
{
	const struct mapped_objects_limits limits = {MANY_BYTES, 2};
	struct host host;

	(void)state;
	new_host(&host, MANY_BYTES, &limits);
	for (unsigned i = 0; i < NR_PROGRAMS; i++)
		end_process(&host, start_program(&host, i));
	assert_true(mapped_objects_are_many(host.objects));
	give_up(&host);
	assert_int_equal(stats_of(&host).nr_objects, 2);
	assert_false(mapped_objects_are_many(host.objects));
	free_host(&host);
}

/* Where the room for all tables is used up, those of programs that have ended make room, and then it is tried again. */
static void test_a_refused_table_is_built_later(void **state)
{
	const struct mapped_objects_limits all = {MANY_BYTES, ALL_OBJECTS};
	struct host host;

	(void)state;
	new_host(&host, 2 * bytes_of_one() + FAKE_ELF_CODE, &all); /* its section takes room while it is built */
	struct walker walker = new_walker(&host);
	const uint32_t first = start_program(&host, 0), second = start_program(&host, 1);
	assert_int_equal(unwind_and_build(&walker, first, 0), UNWIND_COMPLETE);
	assert_int_equal(unwind_and_build(&walker, second, 1), UNWIND_COMPLETE);
	const uint32_t third = start_program(&host, 2);
	assert_int_equal(unwind_and_build(&walker, third, 2), UNWIND_NO_OBJECT);
	assert_true(mapped_objects_are_many(host.objects));
	give_up(&host);                                      /* nothing: all are mapped */
	assert_false(mapped_objects_are_many(host.objects)); /* not to look at all of them again and again */
	assert_int_equal(unwind_and_build(&walker, third, 2), UNWIND_NO_OBJECT);
	end_process(&host, first);
	for (unsigned i = 0; i < 64; i++)
		end_process(&host, start_program(&host, 1));
	assert_true(mapped_objects_are_many(host.objects));
	give_up(&host);
	assert_int_equal(unwind_and_build(&walker, third, 2), UNWIND_COMPLETE);
	assert_int_equal(unwind_and_build(&walker, second, 1), UNWIND_COMPLETE);
	unwind_cache_free(walker.cache);
	free_host(&host);
}

struct drain {
	struct host *host;
	uint32_t pid;
	atomic_bool stop;
	unsigned nr_wrong, nr_right;
};

/* As a thread that drains. */
static void *unwind_all_the_time(void *arg)
{
	struct drain *drain = arg;
	struct walker walker = new_walker(drain->host);
	enum unwind_end end;

	do {
		if (unwind(&walker, drain->pid, true, &end) == program_cfa(0))
			drain->nr_right++;
		else
			drain->nr_wrong++;
	} while (!drain->stop);
	unwind_cache_free(walker.cache);
	return NULL;
}

/* A thread unwinds in a living process while tables of others are given up. */
static void test_while_others_unwind(void **state)
{
	const struct mapped_objects_limits none = {0, 0};
	struct host host;
	pthread_t thread;

	(void)state;
	new_host(&host, MANY_BYTES, &none);
	struct walker walker = new_walker(&host);
	const uint32_t living = start_program(&host, 0);
	assert_int_equal(unwind_and_build(&walker, living, 0), UNWIND_COMPLETE);
	for (unsigned i = 0; i < 200; i++) {
		for (unsigned program = 1; program < NR_PROGRAMS; program++)
			run_once(&walker, program);
		struct drain drain = {.host = &host, .pid = living};
		assert_int_equal(pthread_create(&thread, NULL, unwind_all_the_time, &drain), 0);
		give_up(&host);
		drain.stop = true;
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(drain.nr_wrong, 0);
		assert_true(drain.nr_right);
		assert_int_equal(stats_of(&host).nr_tables, 1);
	}
	unwind_cache_free(walker.cache);
	free_host(&host);
}

/* The watch is told of a mapping of the program by this process. */
static void note_map(struct object_watch *watch, const char *path, const struct file_id *file, const void *at)
{
	const struct record_mmap2 record = {
		.header = {.type = PERF_RECORD_MMAP2, .misc = PERF_RECORD_MISC_USER},
		.pid = (uint32_t)getpid(),
		.tid = (uint32_t)getpid(),
		.addr = (uintptr_t)at,
		.len = MAPPED_BYTES,
		.maj = file->major,
		.min = file->minor,
		.ino = file->inode,
		.prot = PROT_EXEC,
	};
	struct buf records = {0};

	record_put(&records, &record, sizeof(record), span_of_text(path), 0);
	object_watch_note(watch, buf_span(&records));
	buf_fini(&records);
}

static void *map_program(const struct host *host, unsigned program, struct file_id *ret)
{
	struct stat status;
	char path[64];

	program_path(host, program, path);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &status), 0);
	*ret = (struct file_id){.major = major(status.st_dev), .minor = minor(status.st_dev), .inode = status.st_ino};
	void *at = mmap(NULL, MAPPED_BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_true(at != MAP_FAILED);
	close(fd);
	return at;
}

static void wait_for_watch(struct object_watch *watch, const struct file_id *file)
{
	int fd = -1;

	for (unsigned i = 0; i < WAIT_MS && fd < 0; i++) {
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* its thread opens it */
		fd = object_watch_find(watch, file);
	}
	assert_true(fd >= 0);
}

/* This process maps the program until the watch has opened it. */
static void watch_program(const struct host *host, unsigned program, struct file_id *ret)
{
	char path[64];
	void *at = map_program(host, program, ret);

	program_path(host, program, path);
	note_map(host->watch, path, ret, at);
	wait_for_watch(host->watch, ret);
	munmap(at, MAPPED_BYTES);
}

/* Its process has ended when its table is built: the watch has the file, but only what was mapped is taken. */
static void test_files_that_are_gone(void **state)
{
	enum { DELETED, REPLACED, WRITTEN, NEVER_SEEN, OTHER };
	struct file_id files[NR_PROGRAMS];
	char path[64], other[64];
	struct host host;

	(void)state;
	new_watched_host(&host);
	struct walker walker = new_walker(&host);
	for (unsigned i = DELETED; i <= WRITTEN; i++)
		watch_program(&host, i, &files[i]);
	munmap(map_program(&host, NEVER_SEEN, &files[NEVER_SEEN]), MAPPED_BYTES);
	program_path(&host, DELETED, path);
	assert_int_equal(unlink(path), 0);
	program_path(&host, NEVER_SEEN, path);
	assert_int_equal(unlink(path), 0);
	program_path(&host, REPLACED, path);
	program_path(&host, OTHER, other);
	assert_int_equal(rename(other, path), 0);
	program_path(&host, WRITTEN, path);
	FILE *file = fopen(path, "a");
	assert_non_null(file);
	assert_int_equal(fputc(0, file), 0);
	assert_int_equal(fclose(file), 0);

	const enum unwind_end ends[] = {UNWIND_COMPLETE, UNWIND_COMPLETE, UNWIND_NO_OBJECT, UNWIND_NO_OBJECT};
	for (unsigned i = DELETED; i <= NEVER_SEEN; i++)
		assert_int_equal(unwind_and_build(&walker, start_file(&host, i, &files[i]), i), ends[i]);
	unwind_cache_free(walker.cache);
	free_host(&host);
}

struct forgetting {
	struct object_watch *watch;
	atomic_bool stop;
};

static void *forget_all_the_time(void *arg)
{
	struct forgetting *forgetting = arg;

	while (!forgetting->stop) {
		object_watch_forget(forgetting->watch, object_watch_next_output(forgetting->watch));
		nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL); /* long enough for it to be opened again */
	}
	return NULL;
}

/* The watch closes files while others take copies: a copy is of that file, or there is none. */
static void test_while_the_watch_forgets(void **state)
{
	struct file_id file;
	struct stat status;
	struct host host;
	pthread_t thread;
	char path[64];

	(void)state;
	new_watched_host(&host);
	program_path(&host, 0, path);
	void *at = map_program(&host, 0, &file);
	struct forgetting forgetting = {.watch = host.watch};
	unsigned nr_copies = 0;
	int fd = -1;
	assert_int_equal(pthread_create(&thread, NULL, forget_all_the_time, &forgetting), 0);
	for (unsigned i = 0; i < 100000 && nr_copies < 5000; i++) {
		if (fd < 0)
			note_map(host.watch, path, &file, at);
		fd = object_watch_open_copy(host.watch, &file);
		assert_true(fd >= 0 || fd == -ENOENT);
		if (fd < 0)
			continue;
		assert_int_equal(fstat(fd, &status), 0);
		assert_int_equal(status.st_ino, file.inode);
		close(fd);
		nr_copies++;
	}
	forgetting.stop = true;
	assert_int_equal(pthread_join(thread, NULL), 0);
	note_map(host.watch, path, &file, at);
	wait_for_watch(host.watch, &file);
	fd = object_watch_open_copy(host.watch, &file);
	assert_true(fd >= 0);
	close(fd);
	munmap(at, MAPPED_BYTES);
	free_host(&host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_stays),
		cmocka_unit_test(test_one_table_of_two_files),
		cmocka_unit_test(test_number_of_objects),
		cmocka_unit_test(test_a_refused_table_is_built_later),
		cmocka_unit_test(test_while_others_unwind),
		cmocka_unit_test(test_files_that_are_gone),
		cmocka_unit_test(test_while_the_watch_forgets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
