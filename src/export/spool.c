/* SPDX-License-Identifier: MIT */
#include "export/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "export/output_buf.h"

enum { READ_BYTES = 1 << 16 };

/* Bytes of a sequence in the file. */
struct extent {
	uint64_t offset;
	size_t len;
};

struct sequence {
	struct buf tail;        /* behind the extents */
	struct extent *extents; /* heap */
	size_t nr_extents;
};

struct spool {
	struct sequence *sequences; /* heap */
	uint32_t nr, room;
	size_t max_bytes;
	const char *beside;  /* borrowed */
	uint32_t last;       /* the sequence that was written to last */
	size_t last_bytes;   /* how many it had then */
	size_t bytes;        /* in memory */
	int fd;              /* -1: no file yet */
	uint64_t file_bytes; /* its length */
};

struct spool *spool_new(size_t max_bytes, const char *beside)
{
	struct spool *spool = calloc(1, sizeof(*spool));

	if (spool) {
		spool->max_bytes = max_bytes;
		spool->beside = beside;
		spool->fd = -1;
	}
	return spool;
}

void spool_free(struct spool *spool)
{
	if (!spool)
		return;
	for (uint32_t i = 0; i < spool->nr; i++) {
		buf_fini(&spool->sequences[i].tail);
		free(spool->sequences[i].extents);
	}
	free(spool->sequences);
	if (spool->fd >= 0)
		close(spool->fd);
	free(spool);
}

int spool_add(struct spool *spool, uint32_t *ret_number)
{
	if (array_room(spool->sequences, spool->nr, spool->room))
		return -ENOMEM;
	spool->sequences[spool->nr] = (struct sequence){0};
	*ret_number = spool->nr++;
	return 0;
}

/* Counts what was put since the last call. */
static void count_last(struct spool *spool)
{
	if (spool->nr) {
		size_t now = spool->sequences[spool->last].tail.len;
		spool->bytes += now - spool->last_bytes;
		spool->last_bytes = now;
	}
}

struct buf *spool_end(struct spool *spool, uint32_t number)
{
	count_last(spool);
	spool->last = number;
	spool->last_bytes = spool->sequences[number].tail.len;
	return &spool->sequences[number].tail;
}

/* A sandbox may allow files beside the output only; and to nowhere else than memory when it has none. */
static int open_file(struct spool *spool, struct diag *reterr)
{
	char dir[PATH_MAX] = ".";
	const char *slash = spool->beside ? strrchr(spool->beside, '/') : NULL;

	if (slash)
		snprintf(dir, sizeof(dir), "%.*s", (int)(slash - spool->beside), spool->beside);
	if (spool->beside)
		spool->fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (spool->fd < 0)
		spool->fd = memfd_create("millrace-spool", MFD_CLOEXEC);
	return spool->fd < 0 ? diag_set(reterr, -errno, "no temporary file: %s", strerror(errno)) : 0;
}

static int move_to_file(struct spool *spool, struct sequence *sequence)
{
	struct extent *extents = reallocarray(sequence->extents, sequence->nr_extents + 1, sizeof(*extents));

	if (!extents)
		return -ENOMEM;
	sequence->extents = extents;
	int err = fd_pwrite(spool->fd, sequence->tail.data, sequence->tail.len, spool->file_bytes);
	if (err)
		return err;
	extents[sequence->nr_extents++] = (struct extent){spool->file_bytes, sequence->tail.len};
	spool->file_bytes += sequence->tail.len;
	buf_fini(&sequence->tail);
	return 0;
}

int spool_relieve(struct spool *spool, struct diag *reterr)
{
	count_last(spool);
	if (spool->nr && spool->sequences[spool->last].tail.failed)
		return diag_set(reterr, -ENOMEM, "out of memory");
	if (spool->bytes < spool->max_bytes)
		return 0;
	int err = spool->fd < 0 ? open_file(spool, reterr) : 0;
	if (err)
		return err;
	for (uint32_t i = 0; i < spool->nr && !err; i++)
		if (spool->sequences[i].tail.len)
			err = move_to_file(spool, &spool->sequences[i]);
	spool->bytes = spool->last_bytes = 0;
	return err ? diag_set(reterr, err, "temporary file: %s", strerror(-err)) : 0;
}

uint64_t spool_bytes(const struct spool *spool)
{
	uint64_t bytes = spool->file_bytes;

	for (uint32_t i = 0; i < spool->nr; i++)
		bytes += spool->sequences[i].tail.len;
	return bytes;
}

int spool_read(struct spool *spool, uint32_t number, int (*take)(void *ctx, const void *bytes, size_t len), void *ctx,
	       struct diag *reterr)
{
	const struct sequence *sequence = &spool->sequences[number];
	AUTO_FREE uint8_t *bytes = malloc(READ_BYTES); /* not on the stack, which may be of 64 KiB */

	if (!bytes)
		return diag_set(reterr, -ENOMEM, "out of memory");
	for (size_t i = 0; i < sequence->nr_extents; i++) {
		struct extent left = sequence->extents[i];
		while (left.len) {
			size_t len = left.len < READ_BYTES ? left.len : READ_BYTES;
			int err = fd_pread(spool->fd, bytes, len, left.offset);
			if (err)
				return diag_set(reterr, err, "temporary file: %s", strerror(-err));
			err = take(ctx, bytes, len);
			if (err)
				return err;
			left.offset += len;
			left.len -= len;
		}
	}
	if (sequence->tail.failed)
		return diag_set(reterr, -ENOMEM, "out of memory");
	return sequence->tail.len ? take(ctx, sequence->tail.data, sequence->tail.len) : 0;
}

static int put_piece(void *ctx, const void *bytes, size_t len)
{
	struct output_buf *output = ctx;

	buf_put(&output->buf, bytes, len);
	return output_buf_flush_large(output);
}

int spool_write(struct spool *spool, uint32_t number, struct output_buf *output, struct diag *reterr)
{
	return spool_read(spool, number, put_piece, output, reterr);
}
