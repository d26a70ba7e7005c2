/* SPDX-License-Identifier: MIT */
/* send: sends a recording to a server: rows to ClickHouse, or a profile by HTTP POST. One thread. */
#pragma once

#include <stdio.h>

#include "cmd/export/feed.h"
#include "store/store.h"

struct send_options {
	struct store_options store;
	const struct export_format *format; /* of what is posted: one that can go into a pipe; NULL with ClickHouse */
};

/* Do URL and format fit together, and does this build have them? 0, or -EINVAL and why. */
int send_check(const struct send_options *options, struct diag *reterr);

/*
 * 0, or -errno: the reason is printed. -EIO: the server does not answer, or is overloaded; -EINVAL: it refuses the
 * content; -EBADMSG: the recording is damaged, and what could be read of it was sent. Nothing is sent for a recording
 * without samples.
 */
int send_recording(const struct feed_options *feed, const struct send_options *options, struct feed_counts *ret_counts);

/* The words of --format, one in each line. */
void send_print_formats(FILE *to);
