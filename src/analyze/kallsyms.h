/* SPDX-License-Identifier: MIT */
/*
 * kallsyms: reads "ADDRESS TYPE NAME[\t[MODULE]]" lines, as in /proc/kallsyms. Source: kernel/kallsyms.c,
 * nm(1).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct kallsyms_line {
	uint64_t address;
	char type;
	const char *name; /* not terminated */
	size_t name_len;
	const char *module; /* without brackets, not terminated; NULL: the kernel itself */
	size_t module_len;
};

/* Takes the next line that is one out of *rest. false: the end. Lines that are none are passed over. */
bool kallsyms_next(struct span *rest, struct kallsyms_line *ret);
