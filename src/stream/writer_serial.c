/* SPDX-License-Identifier: MIT */
/* The serial engine: write(2) straight from the source; retired when it returns. */
#include "base/fd.h"
#include "stream/writer.h"

struct serial {
	struct writer writer;
	int fd;
};

static int serial_open(struct writer *writer, const struct writer_params *params)
{
	((struct serial *)writer)->fd = params->fd;
	return 0;
}

static int serial_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	size_t done;
	int err = fd_write_spans(((struct serial *)writer)->fd, spans, nr_spans, &done);

	writer->stored += done;
	if (err)
		return err;
	writer->queued += done;
	writer->retired = writer->queued;
	return 0;
}

const struct writer_ops writer_serial = {
	.name = "serial",
	.state_bytes = sizeof(struct serial),
	.open = serial_open,
	.queue = serial_queue,
};
