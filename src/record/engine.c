/* SPDX-License-Identifier: MIT */
#include "record/engine.h"

#include <string.h>

#include "base/diag.h"
#include "base/log.h"

int engine_open(const struct recording_writer *asked, const struct engine_output *output, struct writer **ret,
		struct writer_params *ret_params, struct diag *reterr)
{
	enum { DEFAULT_BLOCKS = 1, DEFAULT_WINDOW = 64 << 20 };
	const struct writer_ops *ops = asked->ops ? asked->ops : &writer_serial;
	struct writer_params params = {
		.fd = output->fd,
		.path = output->path,
		.nr_blocks = output->nr_rings * (asked->blocks_per_ring ? asked->blocks_per_ring : DEFAULT_BLOCKS),
		.block_bytes = output->ring_bytes,
		.window_bytes = asked->window_bytes ? asked->window_bytes : DEFAULT_WINDOW,
	};

	if (ops->seeks && output->pipe) {
		log_note("writer %s cannot write to a pipe: serial does it", ops->name);
		ops = &writer_serial;
	}
	int err = writer_open(ops, &params, ret);
	if (err && ops->optional) {
		log_note("writer %s is not allowed here (%s): serial does it", ops->name, strerror(-err));
		err = writer_open(&writer_serial, &params, ret);
	}
	*ret_params = params;
	return err ? diag_set(reterr, err, "%s: writer %s: %s", output->path, ops->name, strerror(-err)) : 0;
}
