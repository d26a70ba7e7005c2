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
 * Decodes the next map and moves *text behind its line; lines that are no maps are skipped. A last line without a
 * newline is incomplete, and stays in *text. false: there is no further whole line with a map.
 */
bool proc_maps_next(struct span *text, struct proc_map *ret);

/*
 * Copies the name, NUL-terminated, with the kernel's escape undone (it prints a newline as \012). Returns its length
 * without the NUL; -ENAMETOOLONG: it does not fit into `room` bytes.
 */
int proc_map_name(const struct proc_map *map, char *ret, size_t room);
