/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD: of what FAIL_ALLOCATION=FIRST,COUNT counts (malloc(3) and its like, mmap(2), pthread_create(3)) calls
 * from FIRST on fail, COUNT of them; with COUNT 0 none does, and their number is told at the end. Only calls of the
 * program and of the C library count: libseccomp 2.5 crashes by itself without memory. Programs that are started do not
 * inherit this.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* glibc's own, which need no dlsym(3): that allocates. */
extern void *__libc_malloc(size_t bytes), *__libc_calloc(size_t nr, size_t bytes),
	*__libc_realloc(void *at, size_t bytes);

static atomic_long nr_calls;
static long first, count;
static pid_t counted; /* 0: no process */

static struct {
	ElfW(Addr) start, end;
} callers[2]; /* the program, the C library */

static int find_caller(struct dl_phdr_info *info, size_t size, void *ctx)
{
	const char *base = strrchr(info->dlpi_name, '/');
	int at = !*info->dlpi_name ? 0 : base && strncmp(base, "/libc.so", 8) == 0 ? 1 : -1;

	(void)size, (void)ctx;
	for (int i = 0; at >= 0 && i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		if (segment->p_type == PT_LOAD && segment->p_flags & PF_X) {
			callers[at].start = info->dlpi_addr + segment->p_vaddr;
			callers[at].end = callers[at].start + segment->p_memsz;
		}
	}
	return 0;
}

__attribute__((constructor)) static void take_environment(void)
{
	const char *words = getenv("FAIL_ALLOCATION");

	if (words && sscanf(words, "%ld,%ld", &first, &count) == 2)
		counted = getpid();
	dl_iterate_phdr(find_caller, NULL);
	unsetenv("FAIL_ALLOCATION");
	unsetenv("LD_PRELOAD");
}

__attribute__((destructor)) static void tell(void)
{
	if (counted == getpid() && !count)
		fprintf(stderr, "allocations: %ld\n", (long)nr_calls);
}

static bool fails(const void *caller)
{
	ElfW(Addr) at = (ElfW(Addr))caller;

	if (!counted ||
	    !((at >= callers[0].start && at < callers[0].end) || (at >= callers[1].start && at < callers[1].end)))
		return false;
	long call = atomic_fetch_add(&nr_calls, 1);
	return call >= first && call - first < count;
}

void *malloc(size_t bytes)
{
	if (!fails(__builtin_return_address(0)))
		return __libc_malloc(bytes);
	errno = ENOMEM;
	return NULL;
}

void *calloc(size_t nr, size_t bytes)
{
	if (!fails(__builtin_return_address(0)))
		return __libc_calloc(nr, bytes);
	errno = ENOMEM;
	return NULL;
}

void *realloc(void *at, size_t bytes)
{
	if (!fails(__builtin_return_address(0)))
		return __libc_realloc(at, bytes);
	errno = ENOMEM;
	return NULL;
}

void *mmap64(void *at, size_t bytes, int protection, int flags, int fd, off64_t offset)
{
	static void *(*next)(void *, size_t, int, int, int, off64_t);

	if (!next)
		next = (void *(*)(void *, size_t, int, int, int, off64_t))dlsym(RTLD_NEXT, "mmap64");
	if (!fails(__builtin_return_address(0)))
		return next(at, bytes, protection, flags, fd, offset);
	errno = ENOMEM;
	return MAP_FAILED;
}

int pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*run)(void *), void *arg)
{
	static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	if (!next)
		next = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT,
												      "pthread_create");
	return fails(__builtin_return_address(0)) ? EAGAIN : next(ret, attributes, run, arg);
}
