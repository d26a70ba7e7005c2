/* SPDX-License-Identifier: MIT */
#include "record/synth_record.h"

#include <string.h>

void synth_put(struct buf *out, const void *fixed, size_t fixed_bytes, struct span name, size_t trailer_bytes)
{
	size_t name_bytes = name.ptr ? (name.len + 1 + 7) & ~(size_t)7 : 0;
	size_t bytes = fixed_bytes + name_bytes + trailer_bytes;
	uint8_t *record = buf_extend(out, bytes);
	struct perf_event_header header;

	if (!record)
		return;
	memcpy(record, fixed, fixed_bytes);
	memcpy(&header, fixed, sizeof(header));
	header.size = (uint16_t)bytes;
	memcpy(record, &header, sizeof(header));
	if (name.ptr)
		memcpy(record + fixed_bytes, name.ptr, name.len);
}
