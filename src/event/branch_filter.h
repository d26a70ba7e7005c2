/* SPDX-License-Identifier: MIT */
/* branch_filter: which branches a branch stack holds (-j). */
#pragma once

#include <stdint.h>

struct diag;

/* "any_call,u" to PERF_SAMPLE_BRANCH_*. Privileges alone mean any branch, as in perf. -EINVAL: the diag lists the words. */
int branch_filter_parse(const char *text, uint64_t *ret, struct diag *reterr);
