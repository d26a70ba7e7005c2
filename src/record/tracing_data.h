/* SPDX-License-Identifier: MIT */
/*
 * tracing_data: what a reader needs to make text of tracepoint samples. Called once, before or after a
 * recording.
 */
#pragma once

#include <stddef.h>

struct buf;
struct diag;

/*
 * As tracing_data_collect() of record/features.h, from the tracefs at `root`. Appends to `out`; on error
 * what was appended is void.
 */
int tracing_data_read(const char *root, const char *const *tracepoints, size_t nr, struct buf *out,
		      struct diag *reterr);
