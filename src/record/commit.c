/* SPDX-License-Identifier: MIT */
#include "record/commit.h"

#include <stddef.h>

#include "base/fd.h"
#include "format/layout.h"
#include "stream/stream.h"

uint64_t commit_due(const struct commit *commit)
{
	/* Pairs with the release of stream_pump(): the bytes were written before. */
	uint64_t stored = commit->fd < 0 ? 0 : atomic_load_explicit(&commit->stream->stored, memory_order_acquire);
	stored += commit->start;
	uint64_t bytes = stored > commit->data_offset ? stored - commit->data_offset : 0;

	return bytes > commit->data_bytes ? bytes : 0;
}

void commit_tell(struct commit *commit, uint64_t data_bytes)
{
	if (!fd_pwrite(commit->fd, &data_bytes, sizeof(data_bytes), offsetof(struct file_header, data.size)))
		commit->data_bytes = data_bytes;
}
