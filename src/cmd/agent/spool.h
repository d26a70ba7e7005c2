/* SPDX-License-Identifier: MIT */
/*
 * spool: finished pieces of the recording that wait to be delivered, oldest first, as files of one directory. Their
 * names hold their number and what is in them, so that nothing else has to be stored. One owner, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct diag;

struct piece {
	/*
	 * Milliseconds since 1970 when it was finished; always greater than that of the piece before, even if the clock
	 * was set back.
	 */
	uint64_t number;
	uint64_t samples, lost, bytes;
};

struct spool {
	const char *directory; /* borrowed */
	struct piece *pieces;  /* heap; oldest first */
	size_t nr, room;
	uint64_t bytes, samples; /* of all */
	uint64_t last_number;
};

/* Finds what an earlier run left. 0, or -errno and why. spool_fini() in any case. */
int spool_open(struct spool *spool, const char *directory, struct diag *reterr);
void spool_fini(struct spool *spool);

/* Moves a finished file of the same file system in; piece.samples and piece.lost are set. 0, or -errno and why. */
int spool_take(struct spool *spool, const char *path, struct piece piece, struct diag *reterr);

/* The path of a piece, on the heap. NULL: out of memory. */
char *spool_path(const struct spool *spool, const struct piece *piece);

/* false: someone removed it. */
bool spool_has_file(const struct spool *spool, const struct piece *piece);

/* Removes the piece of that index (0: the oldest), and its file if that is still there. */
void spool_remove(struct spool *spool, size_t at);
