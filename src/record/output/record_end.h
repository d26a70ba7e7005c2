/* SPDX-License-Identifier: MIT */
/*
 * record_end: finds where the whole records of a file end, from the records alone. The file is read, not mapped, so
 * that a file that is truncated at the same time has an early end, and causes no SIGBUS.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

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
