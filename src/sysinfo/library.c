/* SPDX-License-Identifier: MIT */
#include "sysinfo/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "sysinfo/object_file.h"
#include "sysinfo/shortage.h"

/* dlsym(3) gives a function as a pointer to data, which C does not convert: only its bytes are the same. */
_Static_assert(sizeof(void *) == sizeof(void (*)(void)), "POSIX, dlsym()");

/* The reason is in the text of dlerror(3) alone. */
static bool is_short_of(const char *text, int err)
{
	return text && strstr(text, strerror(err));
}

static void *open_library(const char *file)
{
	void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	const char *text = handle ? NULL : dlerror();

	if (is_short_of(text, EMFILE) && object_file_allow_more())
		return open_library(file);
	if (is_short_of(text, EMFILE) || is_short_of(text, ENFILE))
		shortage_note(-EMFILE);
	else if (is_short_of(text, ENOMEM))
		shortage_note(-ENOMEM);
	return handle;
}

const char *library_problem(void)
{
	const int err = shortage();

	return !err             ? "is not installed"
	       : err == -ENOMEM ? "cannot be loaded: out of memory"
				: "cannot be loaded: too many open files (ulimit -n)";
}

bool library_load(const char *file, const struct library_function *functions, size_t nr)
{
	void *handle = NULL;

	for (size_t i = 0; i < nr; i++) {
		void *function = NULL;
		if (functions[i].linked) {
			memcpy(functions[i].to, &functions[i].linked, sizeof(functions[i].linked));
			continue;
		}
		if (!handle)
			handle = open_library(file);
		function = handle ? dlsym(handle, functions[i].name) : NULL;
		if (!function)
			return false;
		memcpy(functions[i].to, &function, sizeof(function));
	}
	return true;
}
