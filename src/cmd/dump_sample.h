/* SPDX-License-Identifier: MIT */
/* dump_sample: the fields of a SAMPLE, in words; spelled as by `perf report -D`. */
#pragma once

#include <stdio.h>

struct session_record;

void dump_sample_text(const struct session_record *record, FILE *to);
