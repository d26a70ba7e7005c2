/* SPDX-License-Identifier: MIT */
#include "format/build_id.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/cursor.h"
#include "format/record.h"

/* The record before the path. */
struct build_id_bytes {
	struct perf_event_header header;
	int32_t pid;
	uint8_t id[BUILD_ID_MAX_BYTES];
	uint8_t id_bytes; /* counts with RECORD_MISC_BUILD_ID_SIZE in misc; else it is 20 */
	uint8_t zero[3];
};
_Static_assert(sizeof(struct build_id_bytes) == 36, "BUILD_ID record");

enum { PATH_ALIGN = 64 };

int build_id_encode(const struct build_id *id, uint32_t type, struct buf *out)
{
	size_t len = strlen(id->path);
	size_t room = (len + 1 + PATH_ALIGN - 1) & ~(size_t)(PATH_ALIGN - 1);
	struct build_id_bytes bytes = {
		.header = {.type = type, .misc = id->misc | RECORD_MISC_BUILD_ID_SIZE},
		.pid = id->pid,
		.id_bytes = id->id_bytes,
	};

	if (id->id_bytes > sizeof(bytes.id) || sizeof(bytes) + room > RECORD_MAX_BYTES)
		return -EINVAL;
	bytes.header.size = (uint16_t)(sizeof(bytes) + room);
	memcpy(bytes.id, id->id, id->id_bytes);
	buf_put(out, &bytes, sizeof(bytes));
	buf_put(out, id->path, len);
	buf_extend(out, room - len);
	return out->failed ? -ENOMEM : 0;
}

int build_id_decode(struct cursor *at, struct build_id *ret)
{
	struct build_id_bytes bytes;

	if (!cursor_left(at) && !at->bad)
		return 0;
	cursor_copy(at, &bytes, sizeof(bytes));
	if (at->bad || bytes.header.size < sizeof(bytes))
		return -EBADMSG;
	const char *path = cursor_string(at, bytes.header.size - sizeof(bytes));
	bool sized = bytes.header.misc & RECORD_MISC_BUILD_ID_SIZE;
	if (!path || (sized && bytes.id_bytes > sizeof(bytes.id)))
		return -EBADMSG;
	*ret = (struct build_id){
		.misc = bytes.header.misc & ~RECORD_MISC_BUILD_ID_SIZE,
		.pid = bytes.pid,
		.id_bytes = sized ? bytes.id_bytes : BUILD_ID_MAX_BYTES,
		.path = path,
	};
	memcpy(ret->id, bytes.id, ret->id_bytes);
	return 1;
}
