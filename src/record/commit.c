/* SPDX-License-Identifier: MIT */
#include "record/commit.h"

#include <stddef.h>

#include "base/fd.h"
#include "format/layout.h"
#include "record/data_files.h"

uint64_t commit_due(const struct commit *commit)
{
	uint64_t stored = 0;

	for (size_t i = 0; commit->fd >= 0 && i < commit->files->nr; i++) {
		/* Pairs with the release of stream_pump(): the bytes were written before. */
		uint64_t seen = atomic_load_explicit(&commit->files->files[i].stream.stored, memory_order_acquire);
		stored = seen > stored ? seen : stored;
	}
	stored += commit->start;
	uint64_t bytes = stored > commit->data_offset ? stored - commit->data_offset : 0;

	return bytes > commit->data_bytes ? bytes : 0;
}

void commit_tell(struct commit *commit, uint64_t data_bytes)
{
	if (!fd_pwrite(commit->fd, &data_bytes, sizeof(data_bytes), offsetof(struct file_header, data.size)))
		commit->data_bytes = data_bytes;
}
