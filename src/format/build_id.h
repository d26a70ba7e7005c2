/* SPDX-License-Identifier: MIT */
/*
 * build_id: the record that ties an object to its build-id: payload of the BUILD_ID feature (type 0, back
 * to back), or a record of a pipe (type RECORD_BUILD_ID). Source: files of perf 6.1.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/span.h"

struct buf;
struct cursor;

enum { BUILD_ID_MAX_BYTES = 20 }; /* SHA-1; the field has no room for more */

struct build_id {
	uint16_t misc; /* cpumode: PERF_RECORD_MISC_KERNEL, PERF_RECORD_MISC_USER, … */
	int32_t pid;   /* -1: of the host */
	uint8_t id_bytes;
	uint8_t id[BUILD_ID_MAX_BYTES];
	const char *path; /* "[kernel.kallsyms]", "[vdso]", "/usr/bin/true"; decoded: into the payload */
};

/* `type`: 0 in a file, RECORD_BUILD_ID in a pipe. -EINVAL when path or id are too long, -ENOMEM. */
int build_id_encode(const struct build_id *id, uint32_t type, struct buf *out);

/* The next record. 1, 0 at the end, -EBADMSG. */
int build_id_decode(struct cursor *at, struct build_id *ret);
