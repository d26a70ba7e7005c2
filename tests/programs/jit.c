/* SPDX-License-Identifier: MIT */
/*
 * jit SECONDS [DIRECTORY [dump | both | fork | workers | memfd | shm]] [-- PROGRAM ...]: code compiled at run time, in
 * memory without a file. With "memfd" and "shm" that has a name, as of memfd_create(2) and shm_open(3), and is mapped
 * twice: to be written, and to be run.
 * Runs a function of its own making for so long (CPU time of the process), and calls it "jit_hot" in
 * DIRECTORY/perf-PID.map if there is a directory; PID as the process sees itself. With "dump" it writes
 * DIRECTORY/jit-PID.dump instead: "jit_first" is at the address for half of the time, is moved away then, and
 * "jit_second", of line 7 of second.js, is there. With "both" it then runs a function that only /tmp/perf-PID.map
 * names, "jit_hot"; the map has the name "jit_wrong" for the others. With "fork" only a child runs the function, which
 * was made before its fork. With "workers" a child makes "jit_child" where its parent had "jit_parent", which that runs
 * beside it; then both run "jit_same" of both maps, at another address, and the child "jit_alone". A line "PID ADDRESS"
 * on stdout says where it is. Then it becomes the program behind "--", by exec. DIRECTORY "-": it has no map, and a
 * former one of its number stays.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
/* mov $10000000, %ecx; 1: dec %ecx; jnz 1b; ret */
static const uint8_t code[] = {0xb9, 0x80, 0x96, 0x98, 0x00, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
#elif defined(__aarch64__)
/* mov w0, #0x980000; 1: subs w0, w0, #1; b.ne 1b; ret */
static const uint32_t code[] = {0x52a01300, 0x71000400, 0x54ffffe1, 0xd65f03c0};
#else
#error "no code for this architecture"
#endif

static void put(FILE *dump, const void *bytes, size_t len)
{
	if (fwrite(bytes, 1, len, dump) != len) {
		perror("jitdump");
		exit(1);
	}
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A record of the type with these words and what is behind them. */
static void put_record(FILE *dump, uint32_t type, const void *words, size_t len, const void *more, size_t more_len)
{
	const struct {
		uint32_t type, bytes;
		uint64_t time_ns;
	} header = {type, (uint32_t)(sizeof(header) + len + more_len), now_ns()};

	put(dump, &header, sizeof(header));
	put(dump, words, len);
	put(dump, more, more_len);
	fflush(dump);
}

static void put_load(FILE *dump, uint64_t address, uint64_t number, const char *name)
{
	uint32_t tasks[2] = {(uint32_t)getpid(), (uint32_t)getpid()};
	uint64_t words[5] = {0, address, address, sizeof(code), number};
	char more[64 + sizeof(code)];
	size_t len = strlen(name) + 1;

	memcpy(words, tasks, sizeof(tasks));
	memcpy(more, name, len);
	memcpy(more + len, code, sizeof(code));
	put_record(dump, 0, words, sizeof(words), more, len + sizeof(code));
}

static void put_move(FILE *dump, uint64_t from, uint64_t to, uint64_t number)
{
	uint32_t tasks[2] = {(uint32_t)getpid(), (uint32_t)getpid()};
	uint64_t words[6] = {0, to, from, to, sizeof(code), number};

	memcpy(words, tasks, sizeof(tasks));
	put_record(dump, 1, words, sizeof(words), "", 0);
}

static void put_line(FILE *dump, uint64_t address, uint32_t line, const char *path)
{
	const uint64_t words[] = {address, 1, address, line};

	put_record(dump, 2, words, sizeof(words), path, strlen(path) + 1);
}

/* Mapped as code, so that there is a record of it. */
static FILE *open_dump(const char *directory)
{
	const struct {
		uint32_t magic, version, bytes, machine, pad, pid;
		uint64_t time_ns, flags;
	} header = {0x4a695444, 1, sizeof(header), 62, 0, (uint32_t)getpid(), now_ns(), 0};
	char path[4096];

	snprintf(path, sizeof(path), "%s/jit-%d.dump", directory, (int)getpid());
	FILE *dump = fopen(path, "w+");
	if (!dump) {
		perror(path);
		exit(1);
	}
	put(dump, &header, sizeof(header));
	fflush(dump);
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0) == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return dump;
}

static bool put_map(const char *directory, uint64_t address, const char *name, const char *mode)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/perf-%d.map", directory, (int)getpid());
	FILE *map = fopen(path, mode);
	if (map && fprintf(map, "%" PRIx64 " %zx %s\n", address, sizeof(code), name) >= 0 && !fclose(map))
		return true;
	perror(path);
	return false;
}

static void run(void (*function)(void), double until)
{
	while ((double)clock() / CLOCKS_PER_SEC < until)
		function();
}

/* How many arguments stand before the program that is to follow; *ret NULL: there is none. */
static int find_next_program(int argc, char **argv, char ***ret)
{
	*ret = NULL;
	for (int i = 1; i < argc - 1; i++)
		if (strcmp(argv[i], "--") == 0) {
			*ret = &argv[i + 1];
			return i;
		}
	return argc;
}

static int run_workers(uint8_t *memory, const char *directory, double seconds)
{
	enum { SAME = 4096, ALONE = 8192 };
	static const size_t places[] = {0, SAME, ALONE};
	const uintptr_t address = (uintptr_t)memory;

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		memcpy(memory + places[i], code, sizeof(code));
	__builtin___clear_cache((char *)memory, (char *)memory + ALONE + sizeof(code));
	printf("%d %" PRIxPTR "\n", (int)getpid(), address);
	fflush(stdout);
	const bool is_child = fork() == 0;
	if (!put_map(directory, address, is_child ? "jit_child" : "jit_parent", "w") ||
	    !put_map(directory, address + SAME, "jit_same", "a") ||
	    (is_child && !put_map(directory, address + ALONE, "jit_alone", "a")))
		return 1;
	run((void (*)(void))memory, seconds / 3);
	run((void (*)(void))(memory + SAME), seconds / 3 * 2);
	if (is_child)
		run((void (*)(void))(memory + ALONE), seconds);
	return is_child ? 0 : wait(NULL) < 0;
}

/* Memory with the code. NULL: the kind has no file. */
static void *map_file(const char *kind, size_t bytes)
{
	char path[64];
	int fd = -1;

	if (strcmp(kind, "memfd") == 0) {
		fd = memfd_create("doublemapper", MFD_CLOEXEC);
	} else if (strcmp(kind, "shm") == 0) {
		snprintf(path, sizeof(path), "/dev/shm/doublemapper-%d", (int)getpid());
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		unlink(path);
	} else {
		return NULL;
	}
	void *written =
		fd < 0 || ftruncate(fd, (off_t)bytes) ? MAP_FAILED : mmap(NULL, bytes, PROT_WRITE, MAP_SHARED, fd, 0);
	if (written == MAP_FAILED)
		return MAP_FAILED;
	memcpy(written, code, sizeof(code));
	return mmap(NULL, bytes, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
}

int main(int argc, char **argv)
{
	char **next;
	argc = find_next_program(argc, argv, &next);
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	const size_t bytes = 1 << 16;
	void *const named = argc > 3 ? map_file(argv[3], bytes) : NULL;
	void *memory =
		named ? named
		      : mmap(NULL, bytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char path[4096];

	if (memory == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	/* A program that had this number before may have left one. */
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	bool keeps_map = argc > 2 && strcmp(argv[2], "-") == 0;
	if (!keeps_map)
		(void)!unlink(path);
	if (argc > 3 && strcmp(argv[3], "workers") == 0)
		return run_workers(memory, argv[2], seconds);
	if (!named)
		memcpy(memory, code, sizeof(code));
	__builtin___clear_cache(memory, (char *)memory + sizeof(code));
	bool forks = argc > 3 && strcmp(argv[3], "fork") == 0;
	FILE *dump = argc > 3 && !forks && !named ? open_dump(argv[2]) : NULL;
	uint64_t address = (uintptr_t)memory;
	if (dump) {
		put_load(dump, address, 1, "jit_first");
	} else if (argc > 2 && !keeps_map) {
		if (!put_map(argv[2], address, "jit_hot", "w"))
			return 1;
	}
	uint8_t *other = dump && strcmp(argv[3], "both") == 0 ? (uint8_t *)memory + bytes / 2 : NULL;
	if (other) {
		memcpy(other, code, sizeof(code));
		__builtin___clear_cache((char *)other, (char *)other + sizeof(code));
		if (!put_map("/tmp", address, "jit_wrong", "w") || !put_map("/tmp", (uintptr_t)other, "jit_hot", "a"))
			return 1;
	}
	printf("%d %" PRIx64 "\n", (int)getpid(), address);
	fflush(stdout);
	if (forks && fork() > 0)
		return wait(NULL) < 0;
	run((void (*)(void))memory, seconds / 2);
	if (dump) {
		put_move(dump, address, address + 4096, 1);
		put_line(dump, address, 7, "second.js");
		put_load(dump, address, 2, "jit_second");
	}
	run((void (*)(void))memory, seconds);
	if (other)
		run((void (*)(void))other, seconds * 1.5);
	if (next) {
		execvp(next[0], next);
		perror(next[0]);
		return 1;
	}
	return 0;
}
