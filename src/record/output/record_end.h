/* SPDX-License-Identifier: MIT */
/*
 * record_end: the records in a range of a file, one after the other, judged by their headers, and where the whole ones
 * end. The file is read, not mapped, so that a file that is truncated at the same time has an early end, and causes no
 * SIGBUS. One owner.
 */
#pragma once

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct record_walk {
	int fd;
	uint64_t offset, bytes; /* of the file: what is looked at */
	uint64_t at;            /* relative to offset: of this record. The owner moves it on */
	/* of the COMPRESSED2 records that claimed to be one; the end is not behind `at`: there are none here */
	uint64_t chunk_at, chunk_end;
	uint8_t *piece; /* heap */
	uint64_t piece_at, piece_bytes;
	int err; /* of reading; an early end is none */
};

/* 0 or -ENOMEM. */
int record_walk_init(struct record_walk *walk, int fd, uint64_t offset, uint64_t bytes);
void record_walk_fini(struct record_walk *walk); /* zeroed is fine */

/* `len` bytes at `at`, at most a MiB, valid until the next call. NULL: they are not there. */
const uint8_t *record_walk_bytes(struct record_walk *walk, uint64_t at, size_t len);

/*
 * The header of the record at walk->at and how many bytes it takes, with those outside of it. Each of several
 * COMPRESSED2 records that claim to be one has its own size. false: no record is whole there.
 */
bool record_walk_here(struct record_walk *walk, struct perf_event_header *ret, uint64_t *ret_bytes);

/* Behind the last record: a chunk of COMPRESSED2 records of which some are missing cannot be read: back to its start.
 */
void record_walk_leave_chunk(struct record_walk *walk);

struct record_end {
	uint64_t bytes;  /* of whole records */
	int err;         /* 0; -errno: what is behind these could not be read, and may be whole; -ENOMEM */
	bool compressed; /* COMPRESSED or COMPRESSED2 records are among them */
	bool unknown;    /* behind them is a record of a type that is not known: of a later version, or no record */
	/* the frames of COMPRESSED records state their content size, as ours do, so each can be read alone */
	bool framed;
};

/*
 * Examines the `bytes` from `offset` on. A recorder that maps the file or writes at offsets may leave zeroes in ranges
 * that it did not write: the records end before these. A record that ends with zeroes may be incomplete and is left
 * out, as is an incomplete frame in COMPRESSED records. Our mmap writer marks the end with bytes that are no record.
 */
struct record_end record_end_find(int fd, uint64_t offset, uint64_t bytes);

/* How many of the `bytes` from `offset` on are whole records, judged by their sizes alone; -errno, -ENOMEM. */
int64_t whole_records(int fd, uint64_t offset, uint64_t bytes);

/*
 * Cuts the file at `end`. 0 or -errno; then it has all its bytes: btrfs forgets what was not on the disk yet behind a
 * place at which it then has no room to cut, so what is there is on the disk before.
 */
int cut_file(int fd, uint64_t end);

/* The same behind the last whole record of the first *bytes, which become as many as are whole. */
int cut_to_records(int fd, uint64_t *bytes);
