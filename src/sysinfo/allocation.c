/* SPDX-License-Identifier: MIT */
/*
 * What the program calls instead of malloc(3) and its like, by the linker's --wrap (ld(1)): they note a failure, see
 * sysinfo/shortage.h. Allocations inside of shared libraries do not come here.
 */
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "sysinfo/shortage.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t nr, size_t bytes);
void *__real_realloc(void *at, size_t bytes);
void *__real_reallocarray(void *at, size_t nr, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t most);
int __real_vasprintf(char **ret, const char *format, va_list args);
int __real___vasprintf_chk(char **ret, int flag, const char *format, va_list args);
FILE *__real_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions);
DIR *__real_opendir(const char *path);
DIR *__real_fdopendir(int fd);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t nr, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);
void *__wrap_reallocarray(void *at, size_t nr, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t most);
int __wrap_vasprintf(char **ret, const char *format, va_list args);
int __wrap_asprintf(char **ret, const char *format, ...);
int __wrap___vasprintf_chk(char **ret, int flag, const char *format, va_list args);
int __wrap___asprintf_chk(char **ret, int flag, const char *format, ...);
FILE *__wrap_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions);
DIR *__wrap_opendir(const char *path);
DIR *__wrap_fdopendir(int fd);

static void *noted(void *memory, size_t bytes)
{
	if (!memory && bytes)
		shortage_note(-ENOMEM);
	return memory;
}

void *__wrap_malloc(size_t bytes)
{
	return noted(__real_malloc(bytes), bytes);
}

void *__wrap_calloc(size_t nr, size_t bytes)
{
	return noted(__real_calloc(nr, bytes), nr && bytes);
}

void *__wrap_realloc(void *at, size_t bytes)
{
	return noted(__real_realloc(at, bytes), bytes);
}

void *__wrap_reallocarray(void *at, size_t nr, size_t bytes)
{
	return noted(__real_reallocarray(at, nr, bytes), nr && bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
	return noted(__real_aligned_alloc(alignment, bytes), bytes);
}

char *__wrap_strdup(const char *text)
{
	return noted(__real_strdup(text), 1);
}

char *__wrap_strndup(const char *text, size_t most)
{
	return noted(__real_strndup(text, most), 1);
}

int __wrap_vasprintf(char **ret, const char *format, va_list args)
{
	int len = __real_vasprintf(ret, format, args);

	if (len < 0)
		shortage_note(-ENOMEM);
	return len;
}

int __wrap_asprintf(char **ret, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	int len = __wrap_vasprintf(ret, format, args);
	va_end(args);
	return len;
}

#ifdef __GLIBC__ /* what these two are called with _FORTIFY_SOURCE, as in Debian's packages */
int __wrap___vasprintf_chk(char **ret, int flag, const char *format, va_list args)
{
	int len = __real___vasprintf_chk(ret, flag, format, args);

	if (len < 0)
		shortage_note(-ENOMEM);
	return len;
}

int __wrap___asprintf_chk(char **ret, int flag, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	int len = __wrap___vasprintf_chk(ret, flag, format, args);
	va_end(args);
	return len;
}
#endif

FILE *__wrap_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions)
{
	return noted(__real_fopencookie(cookie, mode, functions), 1);
}

DIR *__wrap_opendir(const char *path)
{
	DIR *dir = __real_opendir(path);

	return noted(dir, !dir && errno == ENOMEM);
}

DIR *__wrap_fdopendir(int fd)
{
	DIR *dir = __real_fdopendir(fd);

	return noted(dir, !dir && errno == ENOMEM);
}
