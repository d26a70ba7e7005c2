/* SPDX-License-Identifier: MIT */
/*
 * sink: bytes into a file in large writes. Put them into `buf` (also by a json_writer), and call sink_relieve() now and
 * then. One owner, one thread.
 */
#pragma once

#include "base/buf.h"

/* Zeroed but for the fd, which stays the caller's. */
struct sink {
	int fd;
	int err; /* first -errno; nothing is written after it */
	struct buf buf;
};

/* Writes when there is much. 0 or the first -errno. */
int sink_relieve(struct sink *sink);

/* Writes what there is. 0 or the first -errno. */
int sink_flush(struct sink *sink);

void sink_fini(struct sink *sink);
