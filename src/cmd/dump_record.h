/* SPDX-License-Identifier: MIT */
/* dump_record: what a record means, in words; spelled as by `perf report -D`. */
#pragma once

#include <stdio.h>

struct session_record;

/* What stands behind "PERF_RECORD_NAME", up to the end of the last line. Every size is checked here. */
void dump_record_text(const struct session_record *record, FILE *to);
