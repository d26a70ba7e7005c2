/* SPDX-License-Identifier: MIT */
/* feed: reads a recording once and gives its samples to an exporter. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cmd/input/input.h"
#include "cmd/input/sample_filter.h"
#include "export/export.h"

struct buf;
struct diag;

/* All borrowed. */
struct feed_options {
	const struct input_options *input;
	const struct sample_filter *filter; /* completed; NULL: all samples */
	const char *event;                  /* the name of the one that is wanted; NULL: all the format takes */
	const char *title;                  /* NULL: the name of the input */
	struct buf *hostname;               /* what the recording says is appended; NULL: not wanted */
	unsigned max_stack;                 /* 0: all */
	bool lines;                         /* source lines are wanted */
	bool count_samples;                 /* see struct export_profile */
	bool quiet;                         /* no notes on losses, order and names */
};

struct feed_counts {
	uint64_t nr_samples;
	uint64_t nr_left_out;       /* of other events than the one that the format takes */
	uint64_t nr_without_time;   /* left out because the format needs a time */
	uint64_t from_ns, until_ns; /* the first and the last of them, since 1970, where the recording tells; else 0 */
	uint32_t nr_stacks, nr_frames;
};

/*
 * Feeds a new exporter and closes it: *ret, to be freed by export_free(); NULL when it could not be made. 0, or -errno:
 * the reason is printed. A damaged recording is exported up to the damage.
 */
int feed_recording(const struct feed_options *options, const struct export_format *format,
		   const struct export_target *target, struct exporter **ret, struct feed_counts *ret_counts);

/*
 * The same into a file, which replaces an older one when it is complete. 0, or -errno: the reason is printed. -EBADMSG
 * with samples: the recording is damaged, and the file has what could be read of it.
 */
struct feed_result {
	struct feed_counts counts;
	uint64_t bytes; /* of the file; 0: it was not stored */
};
int feed_into_file(const struct feed_options *options, const struct export_format *format, const char *path,
		   struct feed_result *ret);
