/* SPDX-License-Identifier: MIT */
/*
 * library: functions of a shared library that only some commands need. The library is loaded when such a command runs;
 * if the program were linked with it, its relocations would slow the start of every command. A static program has the
 * functions linked in.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct library_function {
	const char *name;
	void *to;             /* address of the pointer to a function, or to a variable, that library_load() sets */
	void (*linked)(void); /* of a static program: what it points to; NULL: it is looked up by its name */
};

/* An entry of a table; `to` is the address of a variable of type __typeof__(function or variable) *. */
#ifdef STATIC_PROGRAM
#define LIBRARY_FUNCTION(function, to)                                                                                 \
	{                                                                                                              \
#function, to, (void (*)(void))(function)                                                              \
	}
#define LIBRARY_VARIABLE(variable, to)                                                                                 \
	{                                                                                                              \
#variable, to, (void (*)(void)) & (variable)                                                           \
	}
#else
#define LIBRARY_FUNCTION(function, to)                                                                                 \
	{                                                                                                              \
#function, to, NULL                                                                                    \
	}
#define LIBRARY_VARIABLE(variable, to)                                                                                 \
	{                                                                                                              \
#variable, to, NULL                                                                                    \
	}
#endif

/*
 * Sets all pointers of the table. `file` is searched for as by dlopen(3), and stays loaded. false: it is not installed,
 * or lacks one of the functions; or there are too many open files, or no memory: shortage_note() is called. Not by two
 * threads at once for the same table.
 */
bool library_load(const char *file, const struct library_function *functions, size_t nr);

/* For messages, behind the name of a library that could not be loaded: "is not installed", or what is short. */
const char *library_problem(void);
