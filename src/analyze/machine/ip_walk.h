/* SPDX-License-Identifier: MIT */
/* ip_walk: the addresses of a recorded call chain, innermost first, context markers applied. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sample;
struct session_record;

struct ip_walk {
	const struct sample *sample;
	uint64_t next;
	unsigned left; /* frames that are still taken */
	uint8_t cpumode;
	bool innermost; /* the address is behind a marker: no return address */
	bool leaf;      /* and that of the program's innermost function */
	bool untrusted; /* a marker was unknown: as perf, not even what came before counts */
};

/* The record is borrowed. No more frames than perf takes. */
struct ip_walk ip_walk_over(const struct session_record *record);

/* false: there are no more. */
bool ip_walk_next(struct ip_walk *walk, uint64_t *ret);
