/* SPDX-License-Identifier: MIT */
/* bench_verify: reads back what a run of the stream benchmark stored. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct diag;
struct synthetic_rings;

/*
 * The first `bytes` of the file hold every sample that the rings took, whole and once, in the order of its ring, and
 * LOST records tell of those that were dropped in between. 0, -EBADMSG with the offset, or -errno.
 */
int bench_verify(int fd, uint64_t bytes, size_t sample_bytes, const struct synthetic_rings *rings, struct diag *reterr);
