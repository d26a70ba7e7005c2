/* SPDX-License-Identifier: MIT */
#include "read/source.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/diag.h"

/* TRACING_DATA: u32 size, rounded to 8. AUXTRACE: u64 size. Both stand right behind the header. */
uint64_t source_told_outside(const struct perf_event_header *record)
{
	size_t body = record->size - sizeof(*record);

	if (record->type == RECORD_TRACING_DATA && body >= sizeof(uint32_t)) {
		uint32_t size;
		memcpy(&size, record + 1, sizeof(size));
		return ((uint64_t)size + 7) & ~7ull;
	}
	if (record->type == RECORD_AUXTRACE && body >= sizeof(uint64_t)) {
		uint64_t size;
		memcpy(&size, record + 1, sizeof(size));
		return size;
	}
	return 0;
}

int source_check_size(const struct perf_event_header *header, uint64_t offset, struct diag *reterr)
{
	if (header->size >= sizeof(*header))
		return 0;
	return diag_set(reterr, -EBADMSG, "offset %#" PRIx64 ": no record (type %" PRIu32 ", size %u)", offset,
			header->type, header->size);
}
