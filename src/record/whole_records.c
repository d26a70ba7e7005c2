/* SPDX-License-Identifier: MIT */
#include "record/whole_records.h"

#include <linux/perf_event.h>
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"

uint64_t whole_records(int fd, uint64_t offset, uint64_t bytes)
{
	enum { PIECE = 1 << 20 };
	uint64_t at = 0, piece_at = 0, piece_bytes = 0;
	AUTO_FREE uint8_t *piece = malloc(PIECE);

	while (piece && at < bytes) {
		if (at + sizeof(struct perf_event_header) > piece_at + piece_bytes) {
			piece_at = at;
			piece_bytes = bytes - at < PIECE ? bytes - at : PIECE;
			if (piece_bytes < sizeof(struct perf_event_header) ||
			    fd_pread(fd, piece, piece_bytes, offset + piece_at))
				break;
		}
		struct perf_event_header record; /* behind a COMPRESSED record it may lie anywhere */
		memcpy(&record, piece + (at - piece_at), sizeof(record));
		if (record.size < sizeof(record) || record.size > bytes - at)
			break;
		at += record.size;
	}
	return at;
}
