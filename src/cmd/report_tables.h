/* SPDX-License-Identifier: MIT */
/* report_tables: the tables of a report: of each event, or of each group of events. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct diag;
struct report_options;
struct samples;
struct session;

struct report_tables {
	struct report_options *options; /* what the table itself must know is filled in */
	struct session *session;
	struct samples *samples; /* after the last record */
	uint64_t lost_samples;
};

/* 0, or -errno and why: -EINVAL: the recording has not what was asked for; errors of `to` are left to the caller. */
int report_tables_print(const struct report_tables *tables, FILE *to, struct diag *reterr);
