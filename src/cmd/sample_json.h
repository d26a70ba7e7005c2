/* SPDX-License-Identifier: MIT */
/* sample_json: a sample as one line of JSON: an object whose keys are the fields of a sample_line. */
#pragma once

#include <stdio.h>

struct diag;
struct sample_line;

/* 0, or -errno and why; errors of `to` are left to the caller (ferror). */
int sample_json_print(struct sample_line *line, FILE *to, struct diag *reterr);
