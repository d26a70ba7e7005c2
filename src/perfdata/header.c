/* SPDX-License-Identifier: MIT */
#include "perfdata/header.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/diag.h"

/* "PERFFILE": the layout before Linux 2.6.36, no longer written. */
#define HEADER_MAGIC_V1 0x454c494646524550ull

enum {
	ATTR_ENTRY_BYTES = LAYOUT_ATTR_BYTES + sizeof(struct file_section),
	HEADER_SHORT_BYTES = offsetof(struct file_header, features), /* without feature bits: read, never written */
};

int header_encode(const struct event_desc *events, size_t nr_events, struct buf *out, struct file_header *ret)
{
	struct file_header header = {
		.magic = LAYOUT_MAGIC,
		.size = sizeof(header),
		.attr_size = ATTR_ENTRY_BYTES,
	};
	uint64_t ids_at = sizeof(header), at = ids_at;

	for (size_t i = 0; i < nr_events; i++)
		at += events[i].nr_ids * sizeof(uint64_t);
	header.attrs = (struct file_section){at, nr_events * ATTR_ENTRY_BYTES};
	header.data.offset = header.attrs.offset + header.attrs.size;

	buf_put(out, &header, sizeof(header));
	for (size_t i = 0; i < nr_events; i++)
		buf_put(out, events[i].ids, events[i].nr_ids * sizeof(uint64_t));
	for (size_t i = 0; i < nr_events; i++) {
		struct file_section ids = {ids_at, events[i].nr_ids * sizeof(uint64_t)};
		attr_encode(&events[i].attr, out);
		buf_put(out, &ids, sizeof(ids));
		ids_at += ids.size;
	}
	if (out->failed)
		return -ENOMEM;
	*ret = header;
	return 0;
}

void header_encode_pipe(struct buf *out)
{
	buf_put_u64(out, LAYOUT_MAGIC);
	buf_put_u64(out, LAYOUT_PIPE_HEADER_BYTES);
}

static int check_magic(uint64_t magic, struct diag *reterr)
{
	switch (magic) {
	case LAYOUT_MAGIC: return 0;
	case LAYOUT_MAGIC_SWAPPED:
		return diag_set(reterr, -EBADMSG,
				"recorded on a machine of the other byte order, which this version does not read");
	case HEADER_MAGIC_V1:
		return diag_set(reterr, -EBADMSG, "a perf.data file of before 2010 (PERFFILE), which is not supported");
	default: return diag_set(reterr, -EBADMSG, "not a perf.data file (offset 0: no PERFILE2)");
	}
}

int header_decode(struct span bytes, struct file_header *ret, bool *ret_pipe, struct diag *reterr)
{
	struct file_header header = {0};

	if (bytes.len < LAYOUT_PIPE_HEADER_BYTES)
		return diag_set(reterr, -EBADMSG, "not a perf.data file (only %zu bytes long)", bytes.len);
	memcpy(&header, bytes.ptr, LAYOUT_PIPE_HEADER_BYTES);
	int err = check_magic(header.magic, reterr);
	if (err)
		return err;

	bool pipe = header.size == LAYOUT_PIPE_HEADER_BYTES;
	if (!pipe) {
		if (header.size != sizeof(header) && header.size != HEADER_SHORT_BYTES)
			return diag_set(reterr, -EBADMSG, "offset 8: a header of %" PRIu64 " bytes is not known",
					header.size);
		if (bytes.len < header.size)
			return diag_set(reterr, -EBADMSG, "cut short at offset %zu, inside the header", bytes.len);
		memcpy(&header, bytes.ptr, header.size);
	}
	*ret = header;
	*ret_pipe = pipe;
	return 0;
}
