/* SPDX-License-Identifier: MIT */
/*
 * proc_maps: the lines of /proc/PID/maps. Pure: text in, values out; nothing is copied.
 *
 * Source: proc(5) "/proc/pid/maps"; fs/proc/task_mmu.c show_map_vma() for the escapes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct proc_map {
	uint64_t start, end, pgoff; /* bytes */
	uint64_t ino;
	uint32_t maj, min;
	uint32_t prot;    /* PROT_* */
	uint32_t flags;   /* MAP_SHARED or MAP_PRIVATE */
	struct span name; /* as printed; empty: anonymous memory */
};

/*
 * Takes the next line that is a map off the front of `text`; lines that are none are skipped. A last line
 * without a newline counts as cut off and is left where it is. false: no map left.
 */
bool proc_maps_next(struct span *text, struct proc_map *ret);

/*
 * The name without the kernel's escape (a newline is printed as \012), NUL-terminated in `ret`. Returns its
 * length; -ENAMETOOLONG when it does not fit.
 */
int proc_map_name(const struct proc_map *map, char *ret, size_t room);
