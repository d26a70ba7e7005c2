/* SPDX-License-Identifier: MIT */
#include "record/output/output_file.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "compress/extent.h"
#include "compress/extent_index.h"
#include "perfdata/ledger.h"
#include "record/build_ids/collector.h"
#include "record/build_ids/object_watch.h"
#include "record/features/features.h"
#include "record/output/finish.h"
#include "record/output/prologue.h"
#include "record/output/task_log.h"
#include "record/setup/eventset.h"
#include "record/setup/options.h"
#include "stream/batch_pool.h"
#include "stream/pipeline.h"
#include "stream/stage.h"

static int storing_error(const struct output_file *output, uint64_t stored, int err, struct diag *reterr)
{
	return diag_set(reterr, err, "%s: writing at offset %llu failed: %s%s", output->dest.path,
			(unsigned long long)stored, strerror(-err), output_writer_remedy(err));
}

static int write_error(const struct output_file *output, int err, struct diag *reterr)
{
	return storing_error(output, output->writer->offset + output->writer->stored, err, reterr);
}

/* The writer is for what comes out of the rings; the main file of a directory holds little else. */
static int open_writer(struct output_file *output, const struct output_params *params, uint64_t offset,
		       struct diag *reterr)
{
	static const struct recording_writer plain = {.ops = &writer_serial};
	const struct recording_options *options = params->options;
	struct output_writer_target target = {
		.fd = output->dest.fd,
		.path = output->dest.main_path ? output->dest.main_path : output->dest.path,
		.pipe = output->dest.pipe,
		.offset = offset,
		.nr_rings = params->set->plan->nr_places,
		.ring_bytes = params->set->largest_ring_bytes,
		.pool = options->directory ? NULL : params->pool,
	};

	return output_writer_open(options->directory ? &plain : &options->writer, &target, &output->writer,
				  &output->writer_params, reterr);
}

/* What went to a device cannot be read back. */
static bool is_regular(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

static bool wants_build_ids(const struct output_file *output, const struct output_params *params)
{
	return params->options->build_ids && !output->dest.pipe && is_regular(output->dest.fd);
}

static int open_data_files(struct output_file *output, const struct output_params *params, struct diag *reterr)
{
	struct data_files_params files = {
		.set = params->set,
		.writer = &params->options->writer,
		.flush_bytes = params->options->flush_bytes,
		.is_pipe = output->dest.pipe,
		.into = params->options->directory ? NULL : output->writer,
		.layout = params->layout,
		.path = output->dest.path,
		.pool = params->pool,
		.makers = params->makers,
		.full_ns = params->full_ns,
		.regular = !output->dest.pipe && is_regular(output->dest.fd),
	};

	return data_files_open(&files, &output->files, reterr);
}

/*
 * Behind the front, room for the initial state, which is written from its end to its start: readers follow header.data.
 */
static uint64_t leave_room(struct output_file *output, size_t front_bytes, size_t initial_bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	output->front_bytes = front_bytes;
	output->initial_end = (front_bytes + initial_bytes + page - 1) / page * page;
	output->header.data.offset = output->initial_end;
	return output->initial_end;
}

/* With --durable. */
static int sync_names(const struct output_file *output, const struct output_params *params, struct diag *reterr)
{
	int err = params->options->durable && !output->dest.pipe ? output_path_sync_names(&output->dest) : 0;

	return err ? diag_set(reterr, err, "%s: --durable: fsync of its directory: %s", output->dest.path,
			      strerror(-err))
		   : 0;
}

/* Header first. Where the initial state comes later the writer begins behind the room for it. */
static int start_file(struct output_file *output, const struct output_params *params, struct buf *front,
		      size_t initial_bytes, struct diag *reterr)
{
	bool room = initial_bytes && !params->options->directory;
	uint64_t offset = room ? leave_room(output, front->len, initial_bytes) : 0;
	int err = 0;

	if (room) {
		memcpy(front->data, &output->header, sizeof(output->header));
		err = fd_pwrite(output->dest.fd, front->data, front->len, 0);
		if (!err && lseek(output->dest.fd, (off_t)offset, SEEK_SET) < 0)
			err = -errno;
		if (err)
			return storing_error(output, 0, err, reterr);
	}
	err = open_writer(output, params, offset, reterr);
	if (err || room)
		return err;
	err = writer_put(output->writer, front->data, front->len);
	return err ? write_error(output, err, reterr) : 0;
}

/* The spare room is not counted in what is needed. */
static bool has_descriptors_left(const struct eventset *set)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur >= set->needed_fds + SPARE_ROOM_LEAST_FDS;
}

int output_file_open(struct output_file *output, const struct output_params *params, size_t initial_bytes,
		     struct diag *reterr)
{
	AUTO_BUF struct buf front = {0};
	const struct described_events *described = params->described;
	int err = output->dest.pipe ? prologue_pipe(params->features, &front, reterr)
				    : prologue_file(described->descs, described->nr_descs, &front, &output->header);

	if (err == -ENOMEM || front.failed)
		return diag_set(reterr, -ENOMEM, "out of memory");
	if (!output->dest.pipe && is_regular(output->dest.fd) && has_descriptors_left(params->set))
		spare_room_keep(&output->spare, output->dest.fd); /* before a writer allocates what there is */
	if (!err)
		err = start_file(output, params, &front, initial_bytes, reterr);
	if (!err)
		err = open_data_files(output, params, reterr);
	return err ? err : sync_names(output, params, reterr);
}

int output_file_open_retained(struct output_file *output, const struct output_params *params, struct diag *reterr)
{
	const struct rotation_spec *spec = &params->options->rotation;
	const struct retained_limits limits = {spec->history_ns, (size_t)spec->history_bytes};
	int err = pipeline_open_retained(params->pool, &limits, &output->writer);

	if (err)
		return diag_set(reterr, err, "out of memory");
	output->retained = true;
	return open_data_files(output, params, reterr);
}

/* The writer, of which the stage becomes the front. */
static int open_inner(struct output_file *output, const struct output_params *params, struct writer **ret,
		      struct diag *reterr)
{
	const struct output_writer_target target = {
		.fd = output->dest.fd,
		.path = output->dest.path,
		.nr_rings = params->set->plan->nr_places,
		.ring_bytes = PIPELINE_WRITE_BYTES,
	};

	return output_writer_open(&params->options->writer, &target, ret, &output->writer_params, reterr);
}

int output_file_write_retained(struct output_file *output, const struct output_params *params, const char *path,
			       struct diag *reterr)
{
	const struct described_events *described = params->described;
	AUTO_BUF struct buf front = {0};
	struct writer *inner;

	data_files_join(&output->files);
	pipeline_end_input(output->writer);
	int err = output_path_open(path, &output->dest, reterr);
	if (err)
		return err;
	if (is_regular(output->dest.fd) && has_descriptors_left(params->set))
		spare_room_keep(&output->spare, output->dest.fd);
	err = prologue_file(described->descs, described->nr_descs, &front, &output->header);
	if (err || front.failed)
		return diag_set(reterr, -ENOMEM, "out of memory");
	const struct retained_range retained = pipeline_retained(output->writer);
	if (retained.last_ns > retained.whole_ns)
		output->history_s = (double)(retained.last_ns - retained.whole_ns) / 1e9;
	task_log_window(params->task_log, retained.first_ns, pipeline_dropped(output->writer));
	err = sync_names(output, params, reterr);
	if (!err)
		err = open_inner(output, params, &inner, reterr);
	if (err)
		return err;
	pipeline_attach(output->writer, inner);
	output->retained = false;
	err = output_file_put(output, params, &front, reterr);
	if (!err)
		err = output_file_put_initial_state(output, params, NULL, reterr);
	if (err)
		return err;
	err = pipeline_write_retained(output->writer);
	return err ? write_error(output, err, reterr) : 0;
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
static int put_initial_before(struct output_file *output, struct span state)
{
	uint64_t start = output->initial_end - state.len;
	int err = fd_pwrite(output->dest.fd, state.ptr, state.len, start);

	if (err)
		return err;
	output->header.data.offset = start;
	return fd_pwrite(output->dest.fd, &output->header, sizeof(output->header), 0);
}

static int collect_initial_state(const struct output_file *output, const struct output_params *params, struct buf *out,
				 struct diag *reterr)
{
	const struct initial_state state = {
		.set = params->set,
		.descs = params->described->descs,
		.nr_descs = params->described->nr_descs,
		.target = params->options->target,
		.workload = params->workload,
		.names = output->dest.pipe,
		.synth_options = params->options->synth,
		.task_log = params->task_log,
	};

	object_watch_note(params->watch, (struct span){0}); /* collecting takes long among many processes */
	int err = prologue_initial_state(&state, out, reterr);
	if (err)
		return err;
	err = stage_makers_initial_state(params->makers, buf_span(out));
	return err ? diag_set(reterr, err, "cannot give the tasks and maps that exist already to the stages: %s",
			      strerror(-err))
		   : 0;
}

int output_file_begin_task_log(const struct output_file *output, const struct output_params *params,
			       struct diag *reterr)
{
	AUTO_BUF struct buf records = {0};

	int err = collect_initial_state(output, params, &records, reterr);
	object_watch_note(params->watch, buf_span(&records));
	return err;
}

int output_file_put_initial_state(struct output_file *output, const struct output_params *params, size_t *ret_bytes,
				  struct diag *reterr)
{
	AUTO_BUF struct buf records = {0};
	int err = collect_initial_state(output, params, &records, reterr);

	if (err)
		return err;
	if (ret_bytes)
		*ret_bytes = records.len;
	object_watch_note(params->watch, buf_span(&records));
	if (!output->initial_end)
		return output_file_put(output, params, &records, reterr);
	/*
	 * What has grown out of its room since the last file goes to the end: readers use the writer at the same time.
	 */
	size_t before = whole_within(&records, output->initial_end - output->front_bytes);
	buf_put(&output->initial_rest, records.data + before, records.len - before);
	if (output->initial_rest.failed)
		return diag_set(reterr, -ENOMEM, "out of memory");
	err = put_initial_before(output, (struct span){records.data, before});
	return err ? storing_error(output, 0, err, reterr) : 0;
}

/* The main file of a directory as it is while the data files grow. */
static struct finish_params main_file(const struct output_file *output, const struct output_params *params)
{
	return (struct finish_params){
		.fd = output->dest.fd,
		.path = output->dest.path,
		.header = output->header,
		.data_bytes = output->writer->stored - output->header.data.offset,
		.features = params->features,
		.nr_parts = output->files.nr,
	};
}

void output_file_write_provisional_header(struct output_file *output, const struct output_params *params)
{
	if (!params->options->directory)
		return;
	const struct finish_params finishing = main_file(output, params);
	output->has_provisional_header = true;
	(void)!write_provisional_header(&finishing);
}

void output_file_run_stages(struct output_file *output)
{
	for (size_t i = 0; i < output->files.nr; i++)
		if (output->files.files[i].writer)
			(void)!writer_complete(output->files.files[i].writer, WRITER_ALL); /* an error is for its end */
}

int output_file_put(struct output_file *output, const struct output_params *params, const struct buf *records,
		    struct diag *reterr)
{
	if (output->has_provisional_header && records->len) {
		const struct finish_params finishing = main_file(output, params);
		(void)!reopen_header(&finishing); /* what fails here fails for the writer, too */
	}
	int err = writer_put(output->writer, records->data, records->len);

	return err ? write_error(output, err, reterr) : 0;
}

/* What the rings held and no file got. */
static uint64_t unwritten(const struct output_file *output, uint64_t of_main_file)
{
	uint64_t bytes = of_main_file;

	for (size_t i = 0; i < output->files.nr; i++)
		bytes += output->files.files[i].unwritten_bytes;
	return bytes;
}

/* How well it went so far, in the whole recording. */
static const struct feature_compressed *describe_ratio(const struct output_params *params,
						       struct feature_compressed *ret)
{
	*ret = *params->features->compressed;
	pthread_mutex_lock(&params->pool->lock);
	const struct batch_pool_totals *totals = &params->pool->totals;
	if (totals->bytes_out)
		ret->ratio = (uint32_t)((totals->bytes_in + totals->bytes_out / 2) / totals->bytes_out);
	pthread_mutex_unlock(&params->pool->lock);
	return ret;
}

/* What stages have dropped since the last output was finished. When, they do not tell. */
static int add_drops(struct batch_pool *pool, struct ledger *ledger)
{
	int err = 0;

	pthread_mutex_lock(&pool->lock);
	for (size_t i = 0; i < POOL_DROP_REASONS && !err; i++) {
		struct pool_drops *drops = &pool->totals.drops[i];
		const struct ledger_entry entry = {
			.event = (uint32_t)LEDGER_NO_EVENT,
			.cause = LEDGER_DROPPED,
			.cpu = -1,
			.tid = -1,
			.from_ns = ledger->ended_ns,
			.to_ns = ledger->ended_ns,
			.count = drops->nr_samples - drops->nr_in_ledger,
		};
		err = entry.count ? ledger_add(ledger, &entry) : 0;
		drops->nr_in_ledger = drops->nr_samples;
	}
	pthread_mutex_unlock(&pool->lock);
	return err;
}

static int account_stages(const struct output_params *params, struct ledger *ledger)
{
	int err = add_drops(params->pool, ledger);

	for (struct stage_maker *maker = params->makers; maker && !err; maker = maker->next)
		err = maker->account ? maker->account(maker, ledger) : 0;
	return err;
}

/*
 * Another program made it shorter, as a shell's ">" does: what was written later stands behind zeroes. The header may
 * have been written again, the attrs of the events, which begin with type and size, are not.
 */
static bool was_emptied(const struct output_file *output)
{
	struct stat status;
	uint32_t type_and_size[2] = {0};

	if (fstat(output->dest.fd, &status) || !S_ISREG(status.st_mode))
		return false;
	return fd_pread(output->dest.fd, type_and_size, sizeof(type_and_size), output->header.attrs.offset) ||
	       !type_and_size[1];
}

static int finish(struct output_file *output, const struct output_params *common, const struct output_closing *closing,
		  struct finish_params *params, struct output_result *result, struct diag *reterr)
{
	AUTO_FREE struct collect_region *parts = calloc(output->files.nr + 1, sizeof(*parts));
	AUTO_FREE struct collector **collectors = calloc(output->files.nr + 1, sizeof(*collectors));
	struct features_params features = *common->features;
	struct feature_compressed compressed;
	struct finish_result finished;

	if (!parts || !collectors)
		return diag_set(reterr, -ENOMEM, "out of memory");
	params->fd = output->dest.fd;
	params->path = output->dest.path;
	params->durable = common->options->durable;
	params->header = output->header;
	params->features = &features;
	if (common->features->compressed)
		features.compressed = describe_ratio(common, &compressed);
	params->all_build_ids = common->options->all_build_ids;
	params->build_ids = wants_build_ids(output, common);
	params->watch = common->watch;
	params->cache = common->cache;
	params->cache_max_bytes = common->options->cache.max_bytes;
	params->cache_bytes = common->cache_bytes;
	params->bundle = common->options->cache.bundle;
	for (size_t i = 0; i < output->files.nr; i++)
		collectors[i] = collector_of(output->files.files[i].stages);
	/* What was seen on the way was not all written: then the file tells. */
	const size_t nr_collectors = result->unwritten_bytes ? 0 : 1;
	params->collectors = collectors;
	params->nr_collectors = common->options->directory ? 0 : nr_collectors;
	params->parts = parts;
	params->nr_parts = common->options->directory ? output->files.nr : 0;
	params->ledger = closing->ledger;
	if (closing->ledger && account_stages(common, closing->ledger))
		return diag_set(reterr, -ENOMEM, "out of memory");
	/* How many records these were, and of which events, is not known any more. */
	if (closing->ledger && result->unwritten_bytes &&
	    ledger_add_cost(closing->ledger, LEDGER_UNWRITTEN, result->unwritten_bytes))
		return diag_set(reterr, -ENOMEM, "out of memory");
	params->losses = closing->losses;
	params->cpu_from_ns = closing->cpu_from_ns;
	result->bytes = 0;
	for (size_t i = 0; i < params->nr_parts; i++) {
		parts[i] = (struct collect_region){
			.fd = output->files.files[i].fd,
			.bytes = output->files.files[i].stored,
			.part = (uint32_t)i + 1,
			.collectors = collectors + i,
			.nr_collectors = nr_collectors,
		};
		result->bytes += parts[i].bytes;
	}
	const bool emptied = !params->torn && was_emptied(output);
	int err = finish_file(params, &finished, reterr);
	if (emptied && !err)
		err = diag_set(reterr, -EIO, "%s: another program emptied it while it was recorded: it cannot be read",
			       output->dest.path);
	result->bytes += finished.data_bytes;
	result->cut_samples = finished.cut_samples;
	result->unwritten_bytes += finished.cut_bytes;
	result->nr_samples = finished.nr_samples;
	result->samples_counted = finished.samples_counted;
	/* Where the disk is elsewhere its errors may wait until now: close(2). */
	int close_err = output_path_close(&output->dest);
	if (close_err && !params->torn && !err)
		err = diag_set(reterr, close_err, "%s: cannot finish the file: %s", output->dest.path,
			       strerror(-close_err));
	return err;
}

/* An index that cannot be made whole for want of memory is left out: it only saves time. */
static struct extent_list join_extents(struct output_file *output, struct extent_list *of_main)
{
	struct extent_list all = {0};
	int err = extent_list_join(&all, of_main, 0);

	for (size_t i = 0; i < output->files.nr; i++) {
		int join_err = extent_list_join(&all, &output->files.files[i].extents, (uint32_t)i + 1);
		err = err ? err : join_err;
	}
	if (err)
		extent_list_fini(&all);
	return all;
}

int output_file_close(struct output_file *output, const struct output_params *params,
		      const struct output_closing *closing, struct output_result *ret, struct diag *reterr)
{
	struct diag later;
	struct writer_end end;
	data_files_join(&output->files);
	writer_put(output->writer, output->initial_rest.data,
		   output->initial_rest.len); /* an error is kept for the end */
	uint64_t queued = output->writer->queued, offset = output->writer->offset, left = 0;
	int write_err = writer_end(take_ptr(output->writer), &end);
	uint64_t written = end.stored, kept = end.stored + end.packed;

	*ret = (struct output_result){0};
	if (write_err) {
		storing_error(output, offset + written, write_err, reterr);
		/* The part that was written of a piece that failed is not queued, but may still be in its ring. */
		uint64_t had = queued + (params->options->directory ? 0 : data_files_left(&output->files));
		left = had > kept ? had - kept : 0;
	}
	int files_err = data_files_close(&output->files, &output->spare, write_err ? &later : reterr);
	AUTO_EXTENTS struct extent_list extents = join_extents(output, &end.extents);
	int err = write_err ? write_err : files_err;

	ret->unwritten_bytes = err ? unwritten(output, left) : 0;
	ret->bytes = written;
	if (output->dest.pipe)
		return err;
	written += offset;
	struct finish_params finishing = {
		.data_bytes = written > output->header.data.offset ? written - output->header.data.offset : 0,
		.torn = write_err != 0,
		.extents = &extents,
	};
	int finish_err = finish(output, params, closing, &finishing, ret, err ? &later : reterr);
	return err ? err : finish_err;
}

void output_file_fini(struct output_file *output)
{
	data_files_join(&output->files);
	writer_close(take_ptr(output->writer), NULL);
	data_files_fini(&output->files);
	spare_room_release(&output->spare);
	buf_fini(&output->initial_rest);
	output_path_close(&output->dest);
	free(take_ptr(output->name));
}
