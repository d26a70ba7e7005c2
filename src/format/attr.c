/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "format/event_desc.h"
#include "format/header.h"

void attr_encode(const struct perf_event_attr *attr, struct buf *out)
{
	struct perf_event_attr stored = *attr;
	size_t known = sizeof(stored) < LAYOUT_ATTR_BYTES ? sizeof(stored) : LAYOUT_ATTR_BYTES;

	stored.size = LAYOUT_ATTR_BYTES;
	void *at = buf_extend(out, LAYOUT_ATTR_BYTES);
	if (at)
		memcpy(at, &stored, known);
}

int attr_decode(struct span bytes, struct perf_event_attr *ret, size_t *ret_size)
{
	uint32_t size;

	if (bytes.len < LAYOUT_ATTR_MIN_BYTES)
		return -EBADMSG;
	memcpy(&size, (const char *)bytes.ptr + offsetof(struct perf_event_attr, size), sizeof(size));
	if (size == 0)
		size = LAYOUT_ATTR_MIN_BYTES;
	if (size < LAYOUT_ATTR_MIN_BYTES || size > bytes.len)
		return -EBADMSG;

	struct perf_event_attr attr = {0};
	memcpy(&attr, bytes.ptr, size < sizeof(attr) ? size : sizeof(attr));
	attr.size = size;
	*ret = attr;
	*ret_size = size;
	return 0;
}
