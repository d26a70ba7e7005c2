/* SPDX-License-Identifier: MIT */
/* bench_report: what runs of the stream benchmark found, as text for standard output. */
#pragma once

#include <stddef.h>

#include "bench_stream.h"

struct buf;

struct bench_report_row {
	const char *writer;                        /* as the user wrote it; borrowed */
	const struct bench_stream_result *results; /* borrowed; one for each run */
	size_t nr_results;
};

/* One line for each writer: the median of its runs, with the extremes when there are several. */
void bench_report_table(const struct bench_stream_options *options, const struct bench_report_row rows[],
			size_t nr_rows, struct buf *ret);

/* The options and every run. */
void bench_report_json(const struct bench_stream_options *options, const struct bench_report_row rows[], size_t nr_rows,
		       struct buf *ret);
