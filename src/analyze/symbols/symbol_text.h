/* SPDX-License-Identifier: MIT */
/* symbol_text: lists of symbols as text. Names point into the text and are not terminated; other lines are skipped. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

/* "ADDRESS TYPE NAME[\t[MODULE]]" of /proc/kallsyms. Source: kernel/kallsyms.c, nm(1). */
struct kallsyms_line {
	uint64_t address;
	char type;
	const char *name;
	size_t name_len;
	const char *module; /* without brackets; NULL: the kernel itself */
	size_t module_len;
};

/* Takes the next such line out of *rest. false: the end. */
bool kallsyms_next(struct span *rest, struct kallsyms_line *ret);

/*
 * "START SIZE NAME" (hexadecimal), which run-time compilers leave in /tmp/perf-PID.map. Source:
 * tools/perf/Documentation/jit-interface.txt of the kernel.
 */
struct perfmap_line {
	uint64_t start, size;
	const char *name;
	size_t name_len;
};

bool perfmap_next(struct span *rest, struct perfmap_line *ret);
