/* SPDX-License-Identifier: MIT */
/*
 * library: functions of a shared library that only some commands need. It is loaded when one of them does: otherwise
 * its relocations would slow the start of every command. A static program has the functions linked in.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct library_function {
	const char *name;
	void *to;             /* a pointer to a function, which is set */
	void (*linked)(void); /* NULL: it is looked up by its name */
};

/* For a table of them; `to` is a pointer to a __typeof__(function) *. */
#ifdef STATIC_PROGRAM
#define LIBRARY_FUNCTION(function, to)                                                                                 \
	{                                                                                                              \
#function, to, (void (*)(void))(function)                                                              \
	}
#else
#define LIBRARY_FUNCTION(function, to)                                                                                 \
	{                                                                                                              \
#function, to, NULL                                                                                    \
	}
#endif

/*
 * Sets all pointers of the table. `file` is found as by dlopen(3), and stays loaded. false: it is not installed, or
 * lacks one of the functions. One thread at a time for one table.
 */
bool library_load(const char *file, const struct library_function *functions, size_t nr);
