/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD: who opens /proc/kallsyms gets the file that KALLSYMS_COPY names. perf reads the symbols of the kernel
 * three to seven times in each run, and each time the kernel formats 120,000 lines: a third of the CPU time of perf in
 * the tests. Programs that it starts do not inherit this.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char copy[4096];

__attribute__((constructor)) static void take_environment(void)
{
	const char *name = getenv("KALLSYMS_COPY");

	snprintf(copy, sizeof(copy), "%s", name ? name : "");
	unsetenv("KALLSYMS_COPY");
	unsetenv("LD_PRELOAD");
}

static const char *file_of(const char *path)
{
	return copy[0] && strcmp(path, "/proc/kallsyms") == 0 ? copy : path;
}

int open64(const char *path, int flags, ...)
{
	mode_t mode = 0;

	if (flags & (O_CREAT | O_TMPFILE)) {
		va_list args;

		va_start(args, flags);
		mode = va_arg(args, mode_t);
		va_end(args);
	}
	return openat64(AT_FDCWD, file_of(path), flags, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
	FILE *(*next)(const char *, const char *) =
		(FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen64");

	return next(file_of(path), mode);
}
