/* SPDX-License-Identifier: MIT */
#include "record/outlet.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "pack/extent.h"
#include "pack/extent_index.h"
#include "record/described_events.h"
#include "record/features.h"
#include "record/finish.h"
#include "record/hits.h"
#include "record/prologue.h"
#include "record/recording.h"
#include "record/sideline.h"
#include "stream/pack_pool.h"
#include "stream/pack_stage.h"

static int outlet_error(const struct outlet *outlet, uint64_t stored, int err, struct diag *reterr)
{
	return diag_set(reterr, err, "%s: writing at offset %llu failed: %s", outlet->sink.path,
			(unsigned long long)stored, strerror(-err));
}

static int write_error(const struct outlet *outlet, int err, struct diag *reterr)
{
	return outlet_error(outlet, outlet->writer->offset + outlet->writer->stored, err, reterr);
}

/* The engine is for what comes out of the rings; the main file of a directory holds little else. */
static int open_writer(struct outlet *outlet, const struct outlet_params *params, uint64_t offset, struct diag *reterr)
{
	static const struct recording_writer plain = {.ops = &writer_serial};
	const struct recording_options *options = params->options;
	struct engine_output engine = {
		.fd = outlet->sink.fd,
		.path = outlet->sink.main_path ? outlet->sink.main_path : outlet->sink.path,
		.pipe = outlet->sink.pipe,
		.offset = offset,
		.nr_rings = params->set->plan->nr_places,
		.ring_bytes = params->set->largest_ring_bytes,
		.pool = options->directory ? NULL : params->pool,
	};

	return engine_open(options->directory ? &plain : &options->writer, &engine, &outlet->writer,
			   &outlet->writer_params, reterr);
}

/* What went to a device cannot be read back. */
static bool is_regular(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

static bool looks_at_hits(const struct outlet *outlet, const struct outlet_params *params)
{
	return params->options->build_ids && !outlet->sink.pipe && is_regular(outlet->sink.fd);
}

/* While it is written? Not by threads that each have as many rings as they can copy: that file is read back in the end. */
static bool looks_on(const struct outlet *outlet, const struct outlet_params *params)
{
	return looks_at_hits(outlet, params) && !params->options->cpus_per_thread;
}

static int open_data_files(struct outlet *outlet, const struct outlet_params *params, struct diag *reterr)
{
	struct data_files_params files = {
		.set = params->set,
		.writer = &params->options->writer,
		.flush_bytes = params->options->flush_bytes,
		.live = outlet->sink.pipe,
		.into = params->options->directory ? NULL : outlet->writer,
		.layout = params->layout,
		.path = outlet->sink.path,
		.pool = params->pool,
		.events = looks_on(outlet, params) ? params->described->descs : NULL,
		.nr_events = params->described->nr_descs,
	};

	return data_files_open(&files, &outlet->files, reterr);
}

/* Behind the front, room for the world, which is written from its end to its start: readers follow header.data. */
static uint64_t leave_room(struct outlet *outlet, size_t front_bytes, size_t world_bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	outlet->front_bytes = front_bytes;
	outlet->world_end = (front_bytes + world_bytes + page - 1) / page * page;
	outlet->header.data.offset = outlet->world_end;
	return outlet->world_end;
}

/* Header first. Where the world comes later the writer begins behind the room for it. */
static int start_file(struct outlet *outlet, const struct outlet_params *params, struct buf *front,
		      size_t world_bytes, struct diag *reterr)
{
	bool room = world_bytes && !params->options->directory;
	uint64_t offset = room ? leave_room(outlet, front->len, world_bytes) : 0;
	int err = 0;

	if (room) {
		memcpy(front->data, &outlet->header, sizeof(outlet->header));
		err = fd_pwrite(outlet->sink.fd, front->data, front->len, 0);
		if (!err && lseek(outlet->sink.fd, (off_t)offset, SEEK_SET) < 0)
			err = -errno;
		if (err)
			return outlet_error(outlet, 0, err, reterr);
	}
	err = open_writer(outlet, params, offset, reterr);
	if (err || room)
		return err;
	err = writer_put(outlet->writer, front->data, front->len);
	return err ? write_error(outlet, err, reterr) : 0;
}

int outlet_open(struct outlet *outlet, const struct outlet_params *params, size_t world_bytes, struct diag *reterr)
{
	AUTO_BUF struct buf front = {0};
	const struct described_events *described = params->described;
	int err = outlet->sink.pipe
			  ? prologue_pipe(params->features, &front, reterr)
			  : prologue_file(described->descs, described->nr_descs, &front, &outlet->header);

	if (err == -ENOMEM || front.failed)
		return diag_set(reterr, -ENOMEM, "out of memory");
	if (!err)
		err = start_file(outlet, params, &front, world_bytes, reterr);
	return err ? err : open_data_files(outlet, params, reterr);
}

int outlet_open_held(struct outlet *outlet, const struct outlet_params *params, struct diag *reterr)
{
	const struct rotation_spec *spec = &params->options->rotation;
	const struct pack_hold_limits limits = {spec->flight_ns, (size_t)spec->flight_bytes};
	int err = pack_stage_open_held(params->pool, &limits, &outlet->writer);

	if (err)
		return diag_set(reterr, err, "out of memory");
	outlet->held = true;
	return open_data_files(outlet, params, reterr);
}

/* The writer, of which the stage becomes the front. */
static int open_inner(struct outlet *outlet, const struct outlet_params *params, struct writer **ret, struct diag *reterr)
{
	const struct engine_output engine = {
		.fd = outlet->sink.fd,
		.path = outlet->sink.path,
		.nr_rings = params->set->plan->nr_places,
		.ring_bytes = PACK_PIECE_BYTES,
	};

	return engine_open(&params->options->writer, &engine, ret, &outlet->writer_params, reterr);
}

int outlet_release(struct outlet *outlet, const struct outlet_params *params, const char *path, struct diag *reterr)
{
	const struct described_events *described = params->described;
	AUTO_BUF struct buf front = {0};
	struct writer *inner;

	data_files_join(&outlet->files);
	pack_stage_settle(outlet->writer);
	int err = sink_open(path, &outlet->sink, reterr);
	if (err)
		return err;
	err = prologue_file(described->descs, described->nr_descs, &front, &outlet->header);
	if (err || front.failed)
		return diag_set(reterr, -ENOMEM, "out of memory");
	const struct pack_held held = pack_stage_held(outlet->writer);
	if (held.last_ns > held.whole_ns)
		outlet->history_s = (double)(held.last_ns - held.whole_ns) / 1e9;
	sideline_window(params->sideline, held.first_ns, held.dropped_bytes);
	err = open_inner(outlet, params, &inner, reterr);
	if (err)
		return err;
	pack_stage_attach(outlet->writer, inner);
	outlet->held = false;
	err = outlet_put(outlet, params, &front, reterr);
	if (!err)
		err = outlet_put_world(outlet, params, NULL, reterr);
	if (err)
		return err;
	err = pack_stage_pour(outlet->writer);
	return err ? write_error(outlet, err, reterr) : 0;
}

/* Bytes of as many whole records as `room` holds. */
static size_t whole_within(const struct buf *records, size_t room)
{
	size_t at = 0;

	while (records->len - at >= sizeof(struct perf_event_header)) {
		struct perf_event_header header;
		memcpy(&header, records->data + at, sizeof(header));
		if (header.size < sizeof(header) || header.size > room - at)
			break;
		at += header.size;
	}
	return at;
}

/* Before the first byte of the rings; then the header counts it. */
static int put_world_before(struct outlet *outlet, struct span world)
{
	uint64_t start = outlet->world_end - world.len;
	int err = fd_pwrite(outlet->sink.fd, world.ptr, world.len, start);

	if (err)
		return err;
	outlet->header.data.offset = start;
	return fd_pwrite(outlet->sink.fd, &outlet->header, sizeof(outlet->header), 0);
}

static int tell_world(const struct outlet *outlet, const struct outlet_params *params, struct buf *out,
		      struct diag *reterr)
{
	const struct prologue_world world = {
		.set = params->set,
		.descs = params->described->descs,
		.nr_descs = params->described->nr_descs,
		.target = params->options->target,
		.workload = params->workload,
		.names = outlet->sink.pipe,
		.wishes = params->options->synth,
		.sideline = params->sideline,
	};

	return prologue_world(&world, out, reterr);
}

int outlet_learn_world(const struct outlet *outlet, const struct outlet_params *params, struct diag *reterr)
{
	AUTO_BUF struct buf records = {0};

	return tell_world(outlet, params, &records, reterr);
}

int outlet_put_world(struct outlet *outlet, const struct outlet_params *params, size_t *ret_bytes,
		     struct diag *reterr)
{
	AUTO_BUF struct buf records = {0};
	int err = tell_world(outlet, params, &records, reterr);

	if (err)
		return err;
	if (ret_bytes)
		*ret_bytes = records.len;
	if (!outlet->world_end)
		return outlet_put(outlet, params, &records, reterr);
	/* What has grown out of its room since the last file goes to the end: readers use the writer meanwhile. */
	size_t before = whole_within(&records, outlet->world_end - outlet->front_bytes);
	buf_put(&outlet->world_rest, records.data + before, records.len - before);
	if (outlet->world_rest.failed)
		return diag_set(reterr, -ENOMEM, "out of memory");
	err = put_world_before(outlet, (struct span){records.data, before});
	return err ? outlet_error(outlet, 0, err, reterr) : 0;
}

/* The main file of a directory as it is while the data files grow. */
static struct finish_params main_file(const struct outlet *outlet, const struct outlet_params *params)
{
	return (struct finish_params){
		.fd = outlet->sink.fd,
		.path = outlet->sink.path,
		.header = outlet->header,
		.data_bytes = outlet->writer->stored - outlet->header.data.offset,
		.features = params->features,
		.nr_parts = outlet->files.nr,
	};
}

void outlet_finish_ahead(struct outlet *outlet, const struct outlet_params *params)
{
	if (!params->options->directory)
		return;
	const struct finish_params finishing = main_file(outlet, params);
	outlet->ahead = true;
	(void)!finish_ahead(&finishing);
}

int outlet_put(struct outlet *outlet, const struct outlet_params *params, const struct buf *records,
	       struct diag *reterr)
{
	if (outlet->ahead && records->len) {
		const struct finish_params finishing = main_file(outlet, params);
		(void)!finish_undo(&finishing); /* what fails here fails for the writer, too */
	}
	int err = writer_put(outlet->writer, records->data, records->len);

	return err ? write_error(outlet, err, reterr) : 0;
}

/* What the rings held and no file got. */
static uint64_t unwritten(const struct outlet *outlet, uint64_t of_main_file)
{
	uint64_t bytes = of_main_file;

	for (size_t i = 0; i < outlet->files.nr; i++)
		bytes += outlet->files.files[i].unwritten_bytes;
	return bytes;
}

/* How well it went so far, in the whole recording. */
static const struct feature_compressed *tell_ratio(const struct outlet_params *params, struct feature_compressed *ret)
{
	*ret = *params->features->compressed;
	pthread_mutex_lock(&params->pool->lock);
	const struct pack_totals *totals = &params->pool->totals;
	if (totals->bytes_out)
		ret->ratio = (uint32_t)((totals->bytes_in + totals->bytes_out / 2) / totals->bytes_out);
	pthread_mutex_unlock(&params->pool->lock);
	return ret;
}

static int finish(struct outlet *outlet, const struct outlet_params *common, const struct outlet_closing *closing,
		  struct finish_params *params, struct outlet_result *result, struct diag *reterr)
{
	AUTO_FREE struct hits_region *parts = calloc(outlet->files.nr + 1, sizeof(*parts));
	AUTO_FREE struct hits_live **lives = calloc(outlet->files.nr + 1, sizeof(*lives));
	struct features_params features = *common->features;
	struct feature_compressed compressed;
	struct finish_result finished;

	if (!parts || !lives)
		return diag_set(reterr, -ENOMEM, "out of memory");
	params->fd = outlet->sink.fd;
	params->path = outlet->sink.path;
	params->header = outlet->header;
	params->features = &features;
	if (common->features->compressed)
		features.compressed = tell_ratio(common, &compressed);
	params->all_build_ids = common->options->all_build_ids;
	params->build_ids = looks_at_hits(outlet, common);
	for (size_t i = 0; i < outlet->files.nr; i++)
		lives[i] = outlet->files.files[i].live;
	params->lives = lives;
	params->nr_lives = common->options->directory ? 0 : outlet->files.nr;
	params->parts = parts;
	params->nr_parts = common->options->directory ? outlet->files.nr : 0;
	params->ledger = closing->ledger;
	params->losses = closing->losses;
	params->cpu_from_ns = closing->cpu_from_ns;
	result->bytes = 0;
	for (size_t i = 0; i < params->nr_parts; i++) {
		parts[i] = (struct hits_region){
			.fd = outlet->files.files[i].fd,
			.bytes = outlet->files.files[i].stored,
			.part = (uint32_t)i + 1,
			.lives = lives + i,
			.nr_lives = 1,
		};
		result->bytes += parts[i].bytes;
	}
	int err = finish_file(params, &finished, reterr);
	result->bytes += finished.data_bytes;
	result->cut_samples = finished.cut_samples;
	result->nr_samples = finished.nr_samples;
	result->samples_counted = finished.samples_counted;
	/* Where the disk is elsewhere its errors may wait until now: close(2). */
	int close_err = sink_close(&outlet->sink);
	if (close_err && !params->torn && !err)
		err = diag_set(reterr, close_err, "%s: cannot finish the file: %s", outlet->sink.path,
			       strerror(-close_err));
	return err;
}

/* An index that cannot be made whole for want of memory is left out: it only saves time. */
static struct extent_list join_extents(struct outlet *outlet, struct extent_list *of_main)
{
	struct extent_list all = {0};
	int err = extent_list_join(&all, of_main, 0);

	for (size_t i = 0; i < outlet->files.nr; i++) {
		int join_err = extent_list_join(&all, &outlet->files.files[i].extents, (uint32_t)i + 1);
		err = err ? err : join_err;
	}
	if (err)
		extent_list_fini(&all);
	return all;
}

int outlet_close(struct outlet *outlet, const struct outlet_params *params, const struct outlet_closing *closing,
		 struct outlet_result *ret, struct diag *reterr)
{
	struct diag later;
	struct writer_end end;
	data_files_join(&outlet->files);
	writer_put(outlet->writer, outlet->world_rest.data, outlet->world_rest.len); /* an error is kept for the end */
	uint64_t queued = outlet->writer->queued, offset = outlet->writer->offset, left = 0;
	int write_err = writer_end(take_ptr(outlet->writer), &end);
	uint64_t written = end.stored, kept = end.stored + end.packed;

	*ret = (struct outlet_result){0};
	if (write_err) {
		outlet_error(outlet, offset + written, write_err, reterr);
		/* The part that was written of a piece that failed is not queued, but may still be in its ring. */
		uint64_t had = queued + (params->options->directory ? 0 : data_files_left(&outlet->files));
		left = had > kept ? had - kept : 0;
	}
	int files_err = data_files_close(&outlet->files, write_err ? &later : reterr);
	AUTO_EXTENTS struct extent_list extents = join_extents(outlet, &end.extents);
	int err = write_err ? write_err : files_err;

	ret->unwritten_bytes = err ? unwritten(outlet, left) : 0;
	ret->bytes = written;
	if (outlet->sink.pipe)
		return err;
	written += offset;
	struct finish_params finishing = {
		.data_bytes = written > outlet->header.data.offset ? written - outlet->header.data.offset : 0,
		.torn = write_err != 0,
		.extents = &extents,
	};
	int finish_err = finish(outlet, params, closing, &finishing, ret, err ? &later : reterr);
	return err ? err : finish_err;
}

void outlet_fini(struct outlet *outlet)
{
	data_files_join(&outlet->files);
	writer_close(take_ptr(outlet->writer), NULL);
	data_files_fini(&outlet->files);
	buf_fini(&outlet->world_rest);
	sink_close(&outlet->sink);
	free(take_ptr(outlet->name));
}
