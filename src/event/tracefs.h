/* SPDX-License-Identifier: MIT */
/* tracefs: where the kernel describes its tracepoints. */
#pragma once

struct diag;

/*
 * The directory that holds events/ ("/sys/kernel/tracing" or debugfs' copy), mounted by us when nobody did
 * and we may. Static text, or NULL and the diag says what to do. Any thread, but the first call.
 */
const char *tracefs_path(struct diag *reterr);
