/* SPDX-License-Identifier: MIT */
#include "record/output/output_writer.h"

#include <errno.h>
#include <string.h>

#include "base/diag.h"
#include "base/log.h"
#include "stream/pipeline.h"

struct writer_params output_writer_params(const struct writer_ops *ops, const struct recording_writer *wanted,
					  const struct output_writer_target *output)
{
	enum { DEFAULT_BLOCKS = 1, PACKED_SHARE = 4, DEFAULT_WINDOW = 64 << 20 };
	struct writer_params params = {
		.fd = output->fd,
		.offset = output->offset,
		.appends = output->pipe,
		.path = output->path,
		.nr_blocks = output->nr_rings * (wanted->blocks_per_ring ? wanted->blocks_per_ring : DEFAULT_BLOCKS),
		.block_bytes = output->ring_bytes,
		.window_bytes = wanted->window_bytes ? wanted->window_bytes : DEFAULT_WINDOW,
	};

	if (ops->stages && output->pool && params.block_bytes < PIPELINE_WRITE_BYTES) {
		/* Extents come, not what lies in rings. */
		params.nr_blocks = (params.nr_blocks + PACKED_SHARE - 1) / PACKED_SHARE + 1;
		params.block_bytes = PIPELINE_WRITE_BYTES;
	}
	return params;
}

int output_writer_open(const struct recording_writer *wanted, const struct output_writer_target *output,
		       struct writer **ret, struct writer_params *ret_params, struct diag *reterr)
{
	const struct writer_ops *ops = wanted->ops ? wanted->ops : &writer_auto;

	if (ops->seeks && output->pipe) {
		if (wanted->ops)
			log_note("writer %s cannot write to a pipe: using serial", ops->name);
		ops = &writer_serial;
	}
	struct writer_params params = output_writer_params(ops, wanted, output);
	struct writer *writer = NULL;
	int err = writer_open(ops, &params, &writer);
	if (err && ops->optional) {
		if (wanted->ops)
			log_note("writer %s cannot be used here (%s): using serial", ops->name, strerror(-err));
		err = writer_open(&writer_serial, &params, &writer);
	}
	if (!err && output->pool)
		err = pipeline_open(output->pool, writer, &writer);
	if (!err)
		*ret = writer;
	*ret_params = params;
	return err ? diag_set(reterr, err, "%s: writer %s: %s", output->path, ops->name, strerror(-err)) : 0;
}

const char *output_writer_remedy(int err)
{
	return err == -ENOSPC || err == -EDQUOT ? "; make room, or record into another place (-o), or less (-z)" : "";
}
