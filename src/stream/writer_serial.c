/* SPDX-License-Identifier: MIT */
/* The serial engine: write(2) of what it is given. */
#include "base/fd.h"
#include "stream/allocation.h"
#include "stream/writer.h"

struct serial {
	struct writer writer;
	int fd;
	struct allocation ahead;
};

static int serial_open(struct writer *writer, const struct writer_params *params)
{
	struct serial *serial = (struct serial *)writer;

	serial->fd = params->fd;
	serial->ahead = (struct allocation){.fd = params->fd, .start = params->offset};
	return 0;
}

static int serial_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	struct serial *serial = (struct serial *)writer;
	size_t done;

	allocation_reach(&serial->ahead, writer->offset + writer->queued + span_total(spans, nr_spans));
	int err = fd_write_spans(serial->fd, spans, nr_spans, &done);

	writer->stored += done;
	if (err)
		return err;
	writer->queued += done;
	return 0;
}

static int serial_close(struct writer *writer)
{
	allocation_trim(&((struct serial *)writer)->ahead, writer->offset + writer->stored);
	return 0;
}

const struct writer_ops writer_serial = {
	.name = "serial",
	.state_bytes = sizeof(struct serial),
	.open = serial_open,
	.queue = serial_queue,
	.close = serial_close,
};
