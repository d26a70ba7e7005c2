/* SPDX-License-Identifier: MIT */
/* unpack_job: one extent that is being decompressed, by a worker or by who waits for it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena_block;

/* Filled by the source's thread; a worker's from unpack_workers_give() to unpack_workers_await(). */
struct unpack_job {
	uint8_t *packed; /* heap, grown as needed: the frame */
	size_t packed_len, packed_room;
	size_t blocks_end; /* of the frame's blocks that are there */
	size_t checksum_bytes; /* behind them */
	bool whole;        /* the last of them is there */
	uint64_t bytes;    /* that it says it holds */
	uint64_t offset;   /* of the first COMPRESSED record */
	uint8_t *to;       /* room for `bytes` */
	int64_t got;       /* result: of zstd_unpack_frame() */
	bool done;
	struct unpack_job *next; /* in the workers' queue */
};

struct unpack_workers;

/* Who has work of its own and does jobs when it must wait: in place of one of the threads, which would share a CPU with it. */
struct unpack_guest {
	void (*wanted)(void *of); /* by the thread that gives: there is a job. NULL: no guest */
	void *of;
};

/* As many threads as there are CPUs for us beside that of who awaits, within reason; 0: one CPU. */
size_t unpack_workers_useful(void);

/*
 * nr 0: none; jobs are done when they are given. Else the threads start with the first job. All jobs are given and awaited
 * by one thread. 0, -ENOMEM, -ENOTSUP.
 */
int unpack_workers_new(size_t nr, struct unpack_workers **ret);
void unpack_workers_free(struct unpack_workers *workers); /* NULL is fine; waits for what was begun */

/* By the thread that gives; not while the guest is at work. Without effect where there are no threads. */
void unpack_workers_invite(struct unpack_workers *workers, const struct unpack_guest *guest);
/* By the guest, after it was wanted: does a job that nobody has begun. false: there was none. */
bool unpack_workers_help(struct unpack_workers *workers);

void unpack_workers_give(struct unpack_workers *workers, struct unpack_job *job);
/* Does this job, or others that were given, as long as there are some that nobody has begun. */
void unpack_workers_await(struct unpack_workers *workers, struct unpack_job *job);
