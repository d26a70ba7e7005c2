/* SPDX-License-Identifier: MIT */
#include "sysinfo/library.h"

#include <dlfcn.h>
#include <string.h>

/* dlsym(3) gives a function as a pointer to data, which C does not convert: only its bytes are the same. */
_Static_assert(sizeof(void *) == sizeof(void (*)(void)), "POSIX, dlsym()");

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
			handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
		function = handle ? dlsym(handle, functions[i].name) : NULL;
		if (!function)
			return false;
		memcpy(functions[i].to, &function, sizeof(function));
	}
	return true;
}
