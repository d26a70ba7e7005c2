/* SPDX-License-Identifier: MIT */
#include "stream/staging.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "stream/writer.h"

enum { MOST_AGAIN = 1000 };

int staging_init(struct staging *staging, size_t nr_blocks, size_t block_bytes)
{
	size_t bytes;

	*staging = (struct staging){.nr_blocks = nr_blocks, .block_bytes = block_bytes};
	if (!nr_blocks || !block_bytes || __builtin_mul_overflow(nr_blocks, block_bytes, &bytes))
		return -EINVAL;
	/* Blocks that are never used cost no memory. */
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return -errno;
	staging->memory = memory;
	staging->blocks = calloc(nr_blocks, sizeof(*staging->blocks));
	if (!staging->blocks) {
		staging_fini(staging);
		return -ENOMEM;
	}
	for (size_t i = 0; i < nr_blocks; i++)
		staging->blocks[i].data = staging->memory + i * block_bytes;
	return 0;
}

void staging_fini(struct staging *staging)
{
	if (staging->memory)
		munmap(staging->memory, staging->nr_blocks * staging->block_bytes);
	free(staging->blocks);
	*staging = (struct staging){0};
}

struct staging_block *staging_fill(struct staging *staging, const struct span spans[], unsigned nr_spans,
				   uint64_t offset)
{
	if (staging->nr == staging->nr_blocks)
		return NULL;
	struct staging_block *block = staging_at(staging, staging->nr++);
	block->len = block->done = 0;
	block->offset = offset;
	block->err = 0;
	block->complete = false;
	block->nr_again = 0;
	for (unsigned i = 0; i < nr_spans; i++) {
		memcpy(block->data + block->len, spans[i].ptr, spans[i].len);
		block->len += spans[i].len;
	}
	return block;
}

bool staging_progress(struct staging_block *block, int64_t bytes)
{
	bool again = bytes == -EINTR || bytes == -EAGAIN || bytes == -ECANCELED;

	if (again && ++block->nr_again <= MOST_AGAIN)
		return false;
	if (bytes <= 0) {
		block->err = bytes && !again ? (int)bytes : -EIO;
	} else {
		block->done += (size_t)bytes;
		block->nr_again = 0;
	}
	block->complete = block->err || block->done == block->len;
	return block->complete;
}

int staging_complete(struct staging *staging, struct writer *writer)
{
	while (staging->nr) {
		struct staging_block *block = staging_at(staging, 0);
		if (!block->complete)
			break;
		writer->stored += block->done;
		block->len -= block->done; /* counted once, though a failed block stays the oldest */
		block->done = 0;
		if (block->err)
			return block->err;
		staging->first = (staging->first + 1) % staging->nr_blocks;
		staging->nr--;
	}
	return 0;
}

int staging_bypass(const struct staging *staging, struct writer *writer, int fd, const struct span spans[],
		   unsigned nr_spans)
{
	uint64_t at = writer->offset + writer->queued;
	size_t len = 0;

	if (staging->nr)
		return -EAGAIN;
	for (unsigned i = 0; i < nr_spans; i++) {
		int err = fd_pwrite(fd, spans[i].ptr, spans[i].len, at + len);
		if (err)
			return err;
		len += spans[i].len;
	}
	writer->queued += len;
	writer->stored = writer->queued;
	return 0;
}
