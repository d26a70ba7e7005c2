/* SPDX-License-Identifier: MIT */
/* demangle_d: readable names of D. Private to symbols. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

bool symbol_is_of_d(const char *name);

/*
 * The readable name, on the heap, of at most `text_max` bytes; NULL: it is none, or takes too long. Bounded in time,
 * memory and depth for any name.
 */
char *symbol_demangle_d(const char *name, size_t text_max);
