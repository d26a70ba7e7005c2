/* SPDX-License-Identifier: MIT */
/*
 * commit: tells the readers of an unfinished file how much of it is there, so that a recorder that is killed leaves a
 * file that can be read. Owned by the recording, used by the keeper while events flow.
 */
#pragma once

#include <stdint.h>

struct data_files;

struct commit {
	int fd;                      /* of the file; -1: there is none to tell (a pipe, a directory) */
	uint64_t data_offset;        /* as in its header */
	uint64_t start;              /* offset in the file of the first byte that counts as stored */
	const struct data_files *files; /* borrowed; each of its streams knows how much of the file is stored */
	uint64_t data_bytes;         /* as told last */
};

/* What is stored so far; 0: nothing new. */
uint64_t commit_due(const struct commit *commit);

/* Writes that size into the header. What cannot be written is left: recover(1) finds the records without it. */
void commit_tell(struct commit *commit, uint64_t data_bytes);
