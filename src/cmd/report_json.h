/* SPDX-License-Identifier: MIT */
/* report_json: the tables of a report for programs; the schema stands in millrace-report(1). */
#pragma once

#include <stdint.h>
#include <stdio.h>

struct event_desc;
struct samples;

struct report_json_options {
	double percent_limit;
	uint64_t lost_samples;
};

/* After samples_settle(). 0 or -ENOMEM; errors of `to` are left to the caller. */
int report_json_print(struct samples *samples, const struct event_desc *events, size_t nr_events,
		      const struct report_json_options *options, FILE *to);
