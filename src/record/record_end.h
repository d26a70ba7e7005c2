/* SPDX-License-Identifier: MIT */
/* record_end: where the records of a file end of which nobody says so. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct record_end {
	uint64_t bytes;  /* of whole records */
	bool compressed; /* COMPRESSED records are among them */
	bool framed;     /* in frames that tell their size, as ours do: each can be read alone */
};

/*
 * Looks at the `bytes` from `offset` on. Recorders that write ahead, map or write at offsets leave zeroes where they did
 * not come to write: the records end before them, and a record whose last bytes are zeroes, too, may be a part of one: it
 * is left out. A frame in COMPRESSED records that is not whole is left out, too. Files may change meanwhile.
 */
struct record_end record_end_find(int fd, uint64_t offset, uint64_t bytes);
