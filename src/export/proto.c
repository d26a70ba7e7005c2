/* SPDX-License-Identifier: MIT */
#include "export/proto.h"

#include <errno.h>

#include "base/diag.h"
#include "sysinfo/library.h"

enum { PLAIN_BYTES = 1 << 18, GZIP_WINDOW = 15 + 16 /* deflateInit2(): 16 asks for gzip */ };

#ifdef STATIC_PROGRAM
int proto_load(struct diag *reterr)
{
	(void)reterr;
	return 0;
}
#else
/*
 * The functions of libprotobuf-c that we and what protoc-c makes call, under their own names: the library is loaded
 * when something is exported with it.
 */

/* Of fields that are not set. */
const char protobuf_c_empty_string[] = "";

static struct {
	__typeof__(protobuf_c_message_get_packed_size) *get_packed_size;
	__typeof__(protobuf_c_message_pack) *pack;
	__typeof__(protobuf_c_message_pack_to_buffer) *pack_to_buffer;
	__typeof__(protobuf_c_message_unpack) *unpack;
	__typeof__(protobuf_c_message_free_unpacked) *free_unpacked;
} library;

int proto_load(struct diag *reterr)
{
	static const struct library_function functions[] = {
		LIBRARY_FUNCTION(protobuf_c_message_get_packed_size, &library.get_packed_size),
		LIBRARY_FUNCTION(protobuf_c_message_pack, &library.pack),
		LIBRARY_FUNCTION(protobuf_c_message_pack_to_buffer, &library.pack_to_buffer),
		LIBRARY_FUNCTION(protobuf_c_message_unpack, &library.unpack),
		LIBRARY_FUNCTION(protobuf_c_message_free_unpacked, &library.free_unpacked),
	};

	if (library_load("libprotobuf-c.so.1", functions, sizeof(functions) / sizeof(functions[0])))
		return 0;
	return diag_set(reterr, -ENOTSUP, "protocol buffers need libprotobuf-c.so.1, which %s (Debian: libprotobuf-c1)",
			library_problem());
}

size_t protobuf_c_message_get_packed_size(const ProtobufCMessage *message)
{
	return library.get_packed_size(message);
}

size_t protobuf_c_message_pack(const ProtobufCMessage *message, uint8_t *out)
{
	return library.pack(message, out);
}

size_t protobuf_c_message_pack_to_buffer(const ProtobufCMessage *message, ProtobufCBuffer *buffer)
{
	return library.pack_to_buffer(message, buffer);
}

ProtobufCMessage *protobuf_c_message_unpack(const ProtobufCMessageDescriptor *descriptor, ProtobufCAllocator *allocator,
					    size_t len, const uint8_t *data)
{
	return library.unpack(descriptor, allocator, len, data);
}

void protobuf_c_message_free_unpacked(ProtobufCMessage *message, ProtobufCAllocator *allocator)
{
	library.free_unpacked(message, allocator);
}
#endif

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
