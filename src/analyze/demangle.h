/* SPDX-License-Identifier: MIT */
/* demangle: symbol names as their programmer wrote them. Any thread. */
#pragma once

#include <stdbool.h>

/* Whether demangle() could do anything with the name; cheap. */
bool demangle_wanted(const char *name);

/* The readable name without parameters, on the heap; NULL: the name is no mangled one. */
char *demangle(const char *name);
