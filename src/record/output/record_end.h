/* SPDX-License-Identifier: MIT */
/*
 * record_end: where the whole records of a file end, read from the records alone. Pieces are read, not mapped: a file
 * that is truncated at the same time is an early end, not a SIGBUS.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct record_end {
	uint64_t bytes;  /* of whole records */
	bool compressed; /* COMPRESSED records are among them */
	bool framed;     /* in frames that tell their size, as ours do: each can be read alone */
};

/*
 * Looks at the `bytes` from `offset` on. Recorders that write ahead, map or write at offsets leave zeroes where they
 * did not come to write: the records end before them; a record whose last bytes are zeroes, too, may be incomplete and
 * is left out, as is an incomplete frame in COMPRESSED records. Our mmap writer puts what is no record behind the last.
 */
struct record_end record_end_find(int fd, uint64_t offset, uint64_t bytes);

/* How many of the `bytes` from `offset` on are whole records, by their sizes alone. */
uint64_t whole_records(int fd, uint64_t offset, uint64_t bytes);
