/* SPDX-License-Identifier: MIT */
/*
 * proto: protocol buffer messages, written in parts. The bytes of two messages of one type, one behind the other, are a
 * message with the fields of both, so a large one is written as many small ones. Source: protobuf.dev, "Encoding", Last
 * One Wins. One thread.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <zlib.h>

#include "base/buf.h"
#include "export/output_buf.h"

struct diag;

/* Before all else. 0, or -ENOTSUP: libprotobuf-c is not installed. */
int proto_load(struct diag *reterr);

/* Appends a message. An allocation that fails shows in the buf. */
void proto_put(struct buf *out, const ProtobufCMessage *message);

/* Bytes on their way into a file, through gzip (RFC 1952). */
struct gzip {
	z_stream stream;
	struct buf plain; /* put bytes here, then gzip_relieve() */
	bool open;
};

int gzip_open(struct gzip *gzip); /* 0 or -ENOMEM */
void gzip_close(struct gzip *gzip);

/* Compresses what there is, when there is much or it is the end. 0 or -errno. */
int gzip_relieve(struct gzip *gzip, struct output_buf *output, bool end);
