/* SPDX-License-Identifier: MIT */
#include "export/sink.h"

#include "base/fd.h"

enum { WRITE_BYTES = 1 << 18 };

int sink_flush(struct sink *sink)
{
	if (!sink->err)
		sink->err = buf_status(&sink->buf);
	if (!sink->err && sink->buf.len)
		sink->err = fd_write(sink->fd, sink->buf.data, sink->buf.len);
	sink->buf.len = 0;
	return sink->err;
}

int sink_relieve(struct sink *sink)
{
	return sink->buf.len < WRITE_BYTES && !sink->buf.failed ? sink->err : sink_flush(sink);
}

void sink_fini(struct sink *sink)
{
	buf_fini(&sink->buf);
}
