/* SPDX-License-Identifier: MIT */
#include "export/proto.h"

#include <errno.h>

enum { PLAIN_BYTES = 1 << 18, GZIP_WINDOW = 15 + 16 /* deflateInit2(): 16 asks for gzip */ };

void proto_put(struct buf *out, const ProtobufCMessage *message)
{
	size_t len = protobuf_c_message_get_packed_size(message);
	void *room = buf_room(out, len);

	if (room)
		out->len += protobuf_c_message_pack(message, room);
}

int gzip_open(struct gzip *gzip)
{
	gzip->open = deflateInit2(&gzip->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
				  Z_DEFAULT_STRATEGY) == Z_OK;
	return gzip->open ? 0 : -ENOMEM;
}

void gzip_close(struct gzip *gzip)
{
	if (gzip->open)
		deflateEnd(&gzip->stream);
	gzip->open = false;
	buf_fini(&gzip->plain);
}

int gzip_relieve(struct gzip *gzip, struct output_buf *output, bool end)
{
	if (gzip->plain.failed)
		return -ENOMEM;
	if (gzip->plain.len < PLAIN_BYTES && !end)
		return 0;
	gzip->stream.next_in = gzip->plain.data;
	gzip->stream.avail_in = (uInt)gzip->plain.len;
	for (int status = Z_OK; status != Z_STREAM_END && (end || gzip->stream.avail_in);) {
		enum { PIECE = 1 << 16 };
		uint8_t *room = buf_room(&output->buf, PIECE);
		if (!room)
			return -ENOMEM;
		gzip->stream.next_out = room;
		gzip->stream.avail_out = PIECE;
		status = deflate(&gzip->stream, end ? Z_FINISH : Z_NO_FLUSH);
		output->buf.len += PIECE - gzip->stream.avail_out;
		int err = output_buf_flush_large(output);
		if (err)
			return err;
	}
	gzip->plain.len = 0;
	return end ? output_buf_flush(output) : 0;
}
