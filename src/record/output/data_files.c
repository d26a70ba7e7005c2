/* SPDX-License-Identifier: MIT */
#include "record/output/data_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "record/drain/thread_spec.h"
#include "record/output/output_path.h"
#include "record/output/record_end.h"
#include "record/setup/eventset.h"
#include "stream/batch_pool.h"
#include "stream/pipeline.h"
#include "stream/producers.h"
#include "stream/ring.h"
#include "stream/stage.h"

/* PRODUCER_ROUND: at a mark each producer hands over what it has, which should be worth an extent. */
enum { LEAST_PART = 8, WORTH_A_WRITE = 32 << 10, LEAST_ROUND = 4 << 20, PRODUCER_ROUND = 1 << 20, STAGED_PART = 16 };

/* A mark above the kernel's own wake-up would leave bytes where no wake-up comes for them. */
static size_t flush_bytes(const struct data_files_params *params)
{
	size_t wakeup_bytes = params->set->wakeup_bytes;
	size_t least = wakeup_bytes / LEAST_PART < WORTH_A_WRITE ? wakeup_bytes / LEAST_PART : WORTH_A_WRITE;
	size_t wanted = params->flush_bytes ? params->flush_bytes : least;

	if (params->is_pipe)
		return 1;
	return wanted < wakeup_bytes / 2 ? wanted : wakeup_bytes / 2;
}

/* Readers of one file hold back what comes between two marks: not too little, for the marks cost, nor too much. */
static uint64_t round_bytes(const struct data_files_params *params)
{
	uint64_t all = (uint64_t)params->set->plan->nr_drained * params->set->wakeup_bytes;
	uint64_t memory = params->pool ? params->pool->nr_jobs * params->pool->extent_bytes : 0;

	if (params->is_pipe)
		return 1;
	/*
	 * Stages that keep batches have what came since the last mark but one. It has to be little of the memory: when
	 * that runs short all of it goes, and of its stacks, of which it is not known yet what was mapped, the
	 * innermost frame alone.
	 */
	if (memory && params->pool->with_stages && all > memory / STAGED_PART)
		all = memory / STAGED_PART;
	if (params->pool && all < params->pool->extent_bytes)
		all = params->pool->extent_bytes; /* an extent ends at a mark */
	return all > LEAST_ROUND ? all : LEAST_ROUND;
}

static int open_file(const struct data_files_params *params, size_t ring, struct data_files *files, struct diag *reterr)
{
	struct data_file *file = &files->files[ring];

	if (asprintf(&file->path, "%s/data.%zu", params->path, ring) < 0) {
		file->path = NULL;
		return diag_set(reterr, -ENOMEM, "out of memory");
	}
	file->fd = output_path_create_part(file->path, reterr);
	if (file->fd < 0)
		return file->fd;
	struct output_writer_target output = {
		.fd = file->fd,
		.path = file->path,
		.nr_rings = 1,
		.ring_bytes = params->set->largest_ring_bytes,
		.pool = params->pool,
	};
	return output_writer_open(params->writer, &output, &file->writer, &files->params, reterr);
}

static bool has_overwrite(const struct data_files_params *params)
{
	return params->set->plan->nr_rings > params->set->plan->nr_drained;
}

/* In their order; of threads that share an output the first one's writer has them. */
static int add_stages(const struct data_files_params *params, const struct data_files *files, size_t index)
{
	const struct stage_output output = {.index = params->into ? 0 : index,
					    .nr = params->into ? 1 : files->nr,
					    .regular = params->regular,
					    .one_ring = !params->into};
	struct data_file *file = &files->files[index];
	struct stage **last = &file->stages;
	int err = 0;

	for (struct stage_maker *maker = params->makers; maker && !file->producer && !err; maker = maker->next) {
		struct stage *stage = NULL;
		err = maker->make(maker, &output, &stage);
		if (err || !stage)
			continue;
		pipeline_add_stage(file->writer, stage);
		*last = stage;
		last = &stage->next;
	}
	return err;
}

static void free_stages(struct data_file *file)
{
	for (struct stage *stage = file->stages, *next; stage; stage = next) {
		next = stage->next;
		stage->ops->free(stage);
	}
	file->stages = NULL;
}

/* The file that a ring is drained into. */
static size_t file_of_ring(const struct data_files_params *params, size_t ring)
{
	return params->into ? thread_layout_of_ring(params->layout, &params->set->plan->rings[ring]) : ring;
}

/* `which` has room for the rings of the stream. */
static void open_stream(const struct data_files_params *params, struct data_files *files, size_t index, size_t *which)
{
	struct data_file *file = &files->files[index];
	const struct plan *plan = params->set->plan;
	size_t nr = 0, nr_side = 0;

	for (size_t ring = 0; ring < plan->nr_drained; ring++) {
		if (file_of_ring(params, ring) != index)
			continue;
		which[nr++] = ring;
		nr_side += plan->rings[ring].channel == CHANNEL_SIDE; /* which come first in the plan */
	}
	if (!nr)
		file->writer->complete_ns = UINT64_MAX;
	file->stream = (struct stream){
		.rings = params->set->rings,
		.which = which,
		.nr_rings = nr,
		.nr_side_rings = nr_side,
		.writer = file->writer,
		.flush_bytes = flush_bytes(params),
		/* Marks in the files of a directory would promise what other files do not hold. */
		/* Records of the overwrite channel come behind the last mark, and may be older than it. */
		.round_bytes = params->into && !params->layout && !has_overwrite(params) ? round_bytes(params) : 0,
		.full_ns = params->full_ns,
	};
}

/* The threads that share an output mark its rounds together. */
static void share_output(const struct data_files_params *params)
{
	const struct plan *plan = params->set->plan;
	struct producers_params producers = {0};

	for (size_t i = 0; i < params->layout->nr_threads; i++) {
		size_t ring = 0;
		while (ring < plan->nr_drained && file_of_ring(params, ring) != i)
			ring++;
		producers.nr += ring < plan->nr_drained;
	}
	if (!has_overwrite(params)) {
		uint64_t least = producers.nr * (uint64_t)PRODUCER_ROUND;
		producers.round_bytes = round_bytes(params);
		if (producers.round_bytes > 1 && producers.round_bytes < least)
			producers.round_bytes = least;
		producers.wake_bytes = producers.round_bytes > least ? producers.round_bytes : least;
	}
	pipeline_share(params->into, &producers);
}

static int open_writer(const struct data_files_params *params, struct data_files *files, size_t index,
		       struct diag *reterr)
{
	struct data_file *file = &files->files[index];
	int err = 0;

	if (!params->into) {
		err = open_file(params, index, files, reterr);
	} else if (index) {
		err = producer_open(params->into, &file->writer);
		file->producer = !err;
	} else {
		file->writer = params->into;
	}
	if (err)
		return err;
	err = add_stages(params, files, index);
	return err ? diag_set(reterr, err, "%s: cannot make the stages of the output: %s", params->path, strerror(-err))
		   : 0;
}

static int open_files(const struct data_files_params *params, struct data_files *files, struct diag *reterr)
{
	size_t nr_drained = params->set->plan->nr_drained;
	/* A stream that shares an output may come to visit any ring. */
	size_t room = params->into ? nr_drained + 1 : 1;
	int err = 0;

	files->files = calloc(files->nr + 1, sizeof(*files->files));
	files->which = calloc(files->nr * room + 1, sizeof(*files->which));
	if (!files->files || !files->which)
		return diag_set(reterr, -ENOMEM, "out of memory");
	for (size_t i = 0; i < files->nr; i++)
		files->files[i].fd = -1;
	for (size_t i = 0; i < files->nr && !err; i++) {
		err = open_writer(params, files, i, reterr);
		if (!err && !i && params->layout && params->into)
			share_output(params); /* its stages are known now */
		if (!err)
			open_stream(params, files, i, files->which + i * room);
	}
	return err;
}

int data_files_open(const struct data_files_params *params, struct data_files *ret, struct diag *reterr)
{
	/* A file is in order of time only as a ring is: rings that shared one would mix what readers cannot sort. */
	struct data_files files = {.nr = params->set->plan->nr_drained, .directory = !params->into};

	if (params->into)
		files.nr = params->layout ? params->layout->nr_threads : 1;
	int err = open_files(params, &files, reterr);
	if (!files.files || !files.which)
		files.nr = 0;
	*ret = files;
	return err;
}

size_t data_files_index(const struct data_files *files, const struct stream *stream)
{
	for (size_t i = 0; i < files->nr; i++)
		if (&files->files[i].stream == stream)
			return i;
	return 0;
}

#define EXCHANGE(a, b)                                                                                                 \
	do {                                                                                                           \
		__typeof__(a) kept_ = (a);                                                                             \
		(a) = (b);                                                                                             \
		(b) = kept_;                                                                                           \
	} while (0)

void data_files_exchange(struct data_files *files, struct data_files *next)
{
	for (size_t i = 0; i < files->nr; i++) {
		struct data_file *file = &files->files[i], *other = &next->files[i];
		EXCHANGE(file->writer, other->writer);
		EXCHANGE(file->stages, other->stages);
		EXCHANGE(file->path, other->path);
		EXCHANGE(file->fd, other->fd);
		other->stream.nr_rings = 0; /* what is in them is for the others */
	}
}

static uint64_t left_in_rings(const struct stream *stream)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < stream->nr_rings; i++) {
		struct span spans[2];
		bytes += ring_peek(stream_ring(stream, i), spans);
	}
	return bytes;
}

static int end_writer(struct data_file *file)
{
	uint64_t queued = file->writer->queued;
	struct writer_end end;
	int err = writer_end(take_ptr(file->writer), &end);
	file->stored = end.stored;
	file->extents = end.extents;

	file->stream.writer = NULL;
	/* The part that was written of a piece that failed is not queued, but may still be in its ring. */
	uint64_t had = queued + left_in_rings(&file->stream);
	uint64_t kept = end.stored + end.packed;
	file->unwritten_bytes = had > kept ? had - kept : 0;
	return err;
}

/* Of a file whose writer has failed. Returns an error. */
static int cut_failed(struct data_file *file, int err, struct diag *reterr)
{
	uint64_t failed_at = file->stored;
	int cut_err = cut_to_records(file->fd, &file->stored);

	if (cut_err && cut_err != -EINVAL)
		return diag_set(reterr, cut_err, "%s: cannot be cut to its length: %s", file->path, strerror(-cut_err));
	return diag_set(reterr, err, "%s: writing at offset %llu failed: %s%s", file->path,
			(unsigned long long)failed_at, strerror(-err), output_writer_remedy(err));
}

void data_files_join(struct data_files *files)
{
	for (size_t i = 0; i < files->nr; i++)
		if (files->files[i].producer)
			writer_close(take_ptr(files->files[i].writer), NULL); /* its error is that of the output */
}

int data_files_close(struct data_files *files, struct spare_room *spare, struct diag *reterr)
{
	int first_err = 0;

	/* A stage of one file may wait for what comes out of the rings of others. */
	for (size_t i = 0; i < files->nr; i++)
		if (files->files[i].path && files->files[i].writer && files->files[i].stages)
			pipeline_run_stages(files->files[i].writer);
	for (size_t i = 0; i < files->nr; i++) {
		struct data_file *file = &files->files[i];
		if (!file->path || !file->writer)
			continue;
		file->err = end_writer(file);
	}
	spare_room_release(spare);
	for (size_t i = 0; i < files->nr; i++) {
		struct data_file *file = &files->files[i];
		int err = file->err ? cut_failed(file, file->err, first_err ? NULL : reterr) : 0;
		first_err = first_err ? first_err : err;
	}
	return first_err;
}

uint64_t data_files_left(const struct data_files *files)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < files->nr; i++)
		bytes += left_in_rings(&files->files[i].stream);
	return bytes;
}

void data_files_fini(struct data_files *files)
{
	data_files_join(files);
	for (size_t i = 0; i < files->nr; i++) {
		struct data_file *file = &files->files[i];
		extent_list_fini(&file->extents);
		if (file->path)
			writer_close(file->writer, NULL);
		free_stages(file); /* of that writer */
		if (file->fd >= 0)
			close(file->fd);
		free(file->path);
	}
	free(files->files);
	free(files->which);
	*files = (struct data_files){0};
}

int data_files_error(const struct data_files *files, const struct stream *stream, int err, struct diag *reterr)
{
	for (size_t i = 0; i < files->nr; i++) {
		const struct data_file *file = &files->files[i];
		if (&file->stream == stream)
			return diag_set(reterr, err, "%s: writing at offset %llu failed: %s%s", file->writer->path,
					(unsigned long long)(file->writer->offset + file->writer->stored),
					strerror(-err), output_writer_remedy(err));
	}
	return diag_set(reterr, err, "draining the rings: %s", strerror(-err));
}
