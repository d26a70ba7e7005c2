/* SPDX-License-Identifier: MIT */
#include "record/output/finish.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/text.h"
#include "compress/extent_index.h"
#include "perfdata/feature.h"
#include "perfdata/ledger.h"
#include "perfdata/record.h"
#include "record/build_ids/collector.h"
#include "record/features/features.h"
#include "record/output/record_end.h"
#include "sysinfo/object_file.h"

static int add_sample_time(const struct collected *collected, struct feature_set *set)
{
	AUTO_BUF struct buf payload = {0};

	buf_put_u64(&payload, collected->first_ns);
	buf_put_u64(&payload, collected->last_ns);
	return payload.failed ? -ENOMEM : feature_set_add(set, FEATURE_SAMPLE_TIME, &payload);
}

static bool has_extents(const struct finish_params *params)
{
	return params->extents && params->extents->nr;
}

/* The records of the file itself, then those of a directory's other files. */
static int scan(const struct finish_params *params, uint64_t data_bytes, struct collected *collected)
{
	AUTO_FREE struct collect_region *regions = calloc(params->nr_parts + 1, sizeof(*regions));

	if (!regions)
		return -ENOMEM;
	regions[0] = (struct collect_region){
		.fd = params->fd,
		.offset = params->header.data.offset,
		.bytes = data_bytes,
		.collectors = params->collectors,
		.nr_collectors = params->nr_collectors,
	};
	if (params->nr_parts)
		memcpy(regions + 1, params->parts, params->nr_parts * sizeof(*regions));
	for (size_t i = 0; has_extents(params) && i <= params->nr_parts; i++)
		regions[i].extents = params->extents;
	return build_ids_collect(regions, params->nr_parts + 1, params->features->events, params->features->nr_events,
				 collected);
}

static int add_dir_format(const struct finish_params *params, struct feature_set *set)
{
	AUTO_BUF struct buf payload = {0};

	if (!params->nr_parts)
		return 0;
	buf_put_u64(&payload, 1); /* the only version there is */
	return payload.failed ? -ENOMEM : feature_set_add(set, FEATURE_DIR_FORMAT, &payload);
}

static int add_extents(const struct finish_params *params, const struct extent_list *extents, uint64_t data_bytes,
		       struct feature_set *set)
{
	AUTO_BUF struct buf payload = {0};

	if (!extents->nr)
		return 0;
	extent_index_encode(extents, params->header.data.offset + data_bytes, &payload);
	return payload.failed ? -ENOMEM : feature_set_add(set, FEATURE_EXTENT_INDEX, &payload);
}

static int add_ledger(const struct finish_params *params, struct feature_set *set)
{
	AUTO_BUF struct buf payload = {0};

	if (!params->ledger)
		return 0;
	uint64_t cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - params->cpu_from_ns;
	if (ledger_set_cost(params->ledger, "end cpu ns", cpu_ns))
		return -ENOMEM;
	ledger_encode(params->ledger, &payload);
	return payload.failed ? -ENOMEM : feature_set_add(set, FEATURE_LEDGER, &payload);
}

static void say_kept(const struct finish_params *params, const struct kept_objects *kept)
{
	if (kept->nr)
		log_note("copied %zu object%s (%.1f MB) into %s, because their paths do not lead to them here, or "
			 "only in this mount namespace",
			 kept->nr, kept->nr == 1 ? "" : "s", (double)kept->object_bytes / 1e6, params->cache);
	if (kept->nr_too_large)
		log_note("%zu object%s to which %s not lead %s not kept: all together would be larger than %llu MB",
			 kept->nr_too_large, text_s(kept->nr_too_large),
			 kept->nr_too_large == 1 ? "its path does" : "their paths do",
			 kept->nr_too_large == 1 ? "is" : "are",
			 (unsigned long long)(params->cache_max_bytes / 1000000));
}

static void say_gone(const struct collected *collected)
{
	size_t nr = collected->gone.nr;

	if (nr)
		log_note("%zu object%s removed, written to, or not accessible, before %s could be read: code in %s%s "
			 "has no names",
			 nr, nr == 1 ? " was" : "s were", nr == 1 ? "it" : "they", buf_text(collected->gone.names),
			 nr > GONE_NAMED_MAX ? ", ..." : "");
}

/* The features that only the data tell. Records that cannot be read back leave them out. */
static int add_collected(const struct finish_params *params, struct feature_set *set, struct finish_result *result)
{
	AUTO_BUF struct buf build_ids = {0}, files = {0}, perf_maps = {0}, gone = {0};
	AUTO_EXTENTS struct extent_list extents = {0};
	const uint64_t cached = params->cache_bytes ? atomic_load(params->cache_bytes) : 0;
	struct collected collected = {.build_ids = &build_ids,
				      .files = &files,
				      .all = params->all_build_ids,
				      .losses = params->losses,
				      .perf_maps = &perf_maps,
				      .watch = params->watch,
				      .until_ns = params->until_ns,
				      .gone = {.names = &gone},
				      .kept = {.directory = params->cache,
					       .max_bytes = params->cache_max_bytes,
					       .bytes = cached,
					       .bundle = params->bundle}};

	if (!has_extents(params))
		collected.extents = &extents;
	if (params->build_ids) {
		struct progress progress = {.bytes = true};
		if (params->shows_progress) {
			progress_start(&progress, "looking for the sampled objects");
			collected.progress = &progress;
		}
		int err = scan(params, result->data_bytes, &collected);
		if (params->shows_progress)
			progress_end(&progress);
		if (params->cache_bytes)
			atomic_fetch_add(params->cache_bytes, collected.kept.bytes - cached);
		say_kept(params, &collected.kept);
		say_gone(&collected);
		if (err)
			log_note("%s: cannot read the records back for their build-ids: %s", params->path,
				 strerror(-err));
		result->samples_counted = !err;
		result->nr_samples = collected.nr_samples;
	}
	int err = add_sample_time(&collected, set);
	if (!err && build_ids.len)
		err = feature_set_add(set, FEATURE_BUILD_ID, &build_ids);
	if (!err && files.len)
		err = feature_set_add(set, FEATURE_MAPPED_FILES, &files);
	if (!err && perf_maps.len)
		err = feature_set_add(set, FEATURE_PERF_MAPS, &perf_maps);
	if (!err && collected.extents && result->samples_counted)
		err = add_extents(params, &extents, result->data_bytes, set);
	return err;
}

/* Where the last whole record ends that leaves `bytes` behind it free. -errno: it cannot be found. */
static int64_t record_end_before(const struct finish_params *params, uint64_t data_bytes, uint64_t bytes)
{
	uint64_t start = params->header.data.offset;
	int64_t whole = whole_records(params->fd, start, data_bytes > bytes ? data_bytes - bytes : 0);

	if (whole < 0)
		return whole;
	uint64_t end = start + (uint64_t)whole;
	/* The part of an extent would be no use. */
	return (int64_t)((params->extents ? extent_list_start(params->extents, 0, end) : end) - start);
}

/* keeps: those that were written before stay where no others can be, as on a full disk that is copied on write. */
static int write_features(const struct finish_params *params, const struct feature_set *set, uint64_t data_bytes,
			  bool keeps, struct file_header *header)
{
	AUTO_BUF struct buf out = {0};
	uint64_t at = header->data.offset + data_bytes;
	int err = feature_set_encode(set, at, &out, header->features);

	if (err)
		return err;
	err = fd_pwrite(params->fd, out.data, out.len, at);
	if (!err)
		return 0;
	memset(header->features, 0, sizeof(header->features));
	if (!keeps)
		(void)!ftruncate(params->fd, (off_t)at); /* rubbish behind the end harms no reader */
	return err;
}

/* Of what is behind the first `shorter` of so many bytes of data. */
static uint64_t record_bytes_behind(const struct finish_params *params, uint64_t shorter, uint64_t data_bytes)
{
	const uint64_t start = params->header.data.offset + shorter, end = params->header.data.offset + data_bytes;
	uint64_t bytes = data_bytes - shorter;

	for (size_t i = 0; params->extents && i < params->extents->nr; i++) {
		const struct extent_fields *fields = &params->extents->infos[i].fields;
		if (!fields->part && fields->offset >= start && fields->offset < end)
			bytes += fields->bytes - fields->packed_bytes;
	}
	return bytes;
}

/* The last records, which made room, are missing like those that were never written. 0 or -ENOMEM. */
static int note_cut_bytes(const struct finish_params *params, uint64_t cut_bytes, struct feature_set *set)
{
	struct ledger *ledger = params->ledger;
	uint64_t before = 0;

	if (!ledger)
		return 0;
	for (size_t i = 0; i < ledger->nr_costs; i++)
		if (!strcmp(ledger->costs[i].name, LEDGER_UNWRITTEN))
			before = ledger->costs[i].value;
	int err = ledger_set_cost(ledger, LEDGER_UNWRITTEN, before + cut_bytes);
	return err ? err : add_ledger(params, set);
}

static void count_cut_samples(const struct finish_params *params, struct finish_result *result)
{
	AUTO_BUF struct buf unused = {0};
	struct collected left = {.build_ids = &unused};

	if (!result->samples_counted)
		return;
	int err = scan(params, result->data_bytes, &left);
	result->samples_counted = !err;
	if (err) {
		log_note("%s: some samples were removed, as there was no room behind them; how many is not known: the "
			 "records cannot be read back: %s",
			 params->path, strerror(-err));
		return;
	}
	result->cut_samples = result->nr_samples - left.nr_samples;
	result->nr_samples = left.nr_samples;
}

static size_t encoded_bytes(const struct feature_set *set)
{
	size_t bytes = 0;

	for (size_t i = 0; i < set->nr; i++)
		bytes += sizeof(struct file_section) + set->payloads[i].len;
	return bytes;
}

/* Is it the output that takes no more? For any other failure no record is given up. */
static bool takes_no_more(int err)
{
	return err == -ENOSPC || err == -EDQUOT || err == -EFBIG || err == -EIO;
}

/* 0 or -errno of the first. A file system without fdatasync(2) says EINVAL: fsync(2). */
static int sync_files(const struct finish_params *params)
{
	int err = fdatasync(params->fd) && errno != EINVAL ? -errno : 0;

	for (size_t i = 0; i < params->nr_parts; i++)
		if (fdatasync(params->parts[i].fd) && errno != EINVAL && !err)
			err = -errno;
	return err;
}

/* What the recorder knew before the first record. */
static int collect_known(const struct finish_params *params, struct feature_set *set)
{
	int err = features_collect(params->features, set);

	return err ? err : add_dir_format(params, set);
}

/*
 * Of a directory: as many of the features that were known before the first record as there is room for. The largest are
 * left out first; that it is a directory is the least, without which the files with the records are not read.
 */
static int write_known_features(const struct finish_params *params, uint64_t data_bytes, bool keeps,
				struct file_header *header)
{
	struct feature_set set = {0};
	int err = collect_known(params, &set);

	if (!err)
		err = write_features(params, &set, data_bytes, keeps, header);
	while (takes_no_more(err) && feature_set_remove_largest(&set, FEATURE_DIR_FORMAT))
		err = write_features(params, &set, data_bytes, keeps, header);
	feature_set_fini(&set);
	return err;
}

/* The last records, so many bytes or more, are given up. false: there are no more, or the file cannot be cut. */
static bool give_up_records(const struct finish_params *params, uint64_t bytes, uint64_t *data_bytes)
{
	int64_t shorter = record_end_before(params, *data_bytes, bytes);

	if (shorter <= 0 || cut_file(params->fd, params->header.data.offset + (uint64_t)shorter))
		return false;
	*data_bytes = (uint64_t)shorter;
	return true;
}

/* It makes all that was written before it count. */
static int put_header(const struct finish_params *params, uint64_t data_bytes, struct file_header *header)
{
	header->data.size = data_bytes;
	int sync_err = params->durable ? sync_files(params) : 0;
	int err = fd_pwrite(params->fd, header, sizeof(*header), 0);
	if (params->durable && !err)
		err = sync_files(params);
	return sync_err ? sync_err : err;
}

static int put_tail(const struct finish_params *params, const struct feature_set *set, uint64_t data_bytes,
		    struct file_header *header)
{
	int err = write_features(params, set, data_bytes, params->nr_parts, header);

	return err ? err : put_header(params, data_bytes, header);
}

/* Fewer *data_bytes. 0 or the last error. */
static int put_tail_with_fewer_records(const struct finish_params *params, struct feature_set *set,
				       uint64_t *data_bytes, struct file_header *header, struct finish_result *result)
{
	enum { SLACK = 2 * 4096, GROWTH = 8, PART = 8 }; /* slack: disk blocks only partly ours, headers of sections */
	const uint64_t all = *data_bytes, need = encoded_bytes(set) + SLACK;
	int err = -ENOSPC;

	for (uint64_t less = need; takes_no_more(err) && give_up_records(params, less, data_bytes);) {
		const uint64_t cut_bytes = record_bytes_behind(params, *data_bytes, all);
		if (note_cut_bytes(params, cut_bytes - result->cut_bytes, set))
			log_note("%s: out of memory: it does not say what is missing at its end", params->path);
		result->cut_bytes = cut_bytes;
		err = put_tail(params, set, *data_bytes, header);
		less = less * GROWTH < *data_bytes / PART ? less * GROWTH : *data_bytes / PART;
		less = less > need ? less : need;
	}
	return err;
}

/*
 * Features behind the data, then the header, which makes them count. Where nothing more fits the last records make
 * room, as few as are needed: without features tracepoints and names could not be read at all. In a directory, where
 * the samples are in other files, there are fewer features instead. The file is readable then, and the first error is
 * told all the same.
 */
static int write_tail(const struct finish_params *params, struct feature_set *set, struct finish_result *result)
{
	struct file_header header = params->header;
	uint64_t data_bytes = result->data_bytes;
	const bool keeps = params->nr_parts;
	const int first_err = put_tail(params, set, data_bytes, &header);
	int err = first_err;

	if (takes_no_more(err) && keeps && write_known_features(params, data_bytes, keeps, &header))
		return first_err; /* the header that was written at the start, and its features, are what there is */
	if (takes_no_more(err) && !keeps)
		err = put_tail_with_fewer_records(params, set, &data_bytes, &header, result);
	if (err)
		(void)!put_header(params, data_bytes, &header);
	if (data_bytes != result->data_bytes) {
		result->data_bytes = data_bytes;
		count_cut_samples(params, result);
	}
	return first_err;
}

/*
 * perf takes a file without any records for one whose recorder was killed: it gets one that says nothing, if there is
 * room. In a directory the other files have them.
 */
static void put_only_record(const struct finish_params *params, struct finish_result *result)
{
	const struct perf_event_header mark = {.type = RECORD_FINISHED_ROUND, .size = sizeof(mark)};

	if (!result->data_bytes && !params->nr_parts &&
	    !fd_pwrite(params->fd, &mark, sizeof(mark), params->header.data.offset))
		result->data_bytes = sizeof(mark);
}

int finish_file(const struct finish_params *params, struct finish_result *ret, struct diag *reterr)
{
	struct finish_result result = {.data_bytes = params->data_bytes};
	struct feature_set set = {0};
	int cut_err = 0;

	/* A write that failed half-way may have cut a record. A device has no length. */
	if (params->torn) {
		int64_t whole = record_end_before(params, params->data_bytes, 0);
		if (whole >= 0) /* or all stay */
			result.data_bytes = (uint64_t)whole;
	}
	if (!params->nr_parts && ftruncate(params->fd, (off_t)(params->header.data.offset + result.data_bytes)) &&
	    errno != EINVAL)
		cut_err = -errno; /* rubbish behind the end harms no reader: go on */
	put_only_record(params, &result);
	int err = collect_known(params, &set);
	if (!err)
		err = add_collected(params, &set, &result);
	if (!err)
		err = add_ledger(params, &set);
	if (!err && has_extents(params))
		err = add_extents(params, params->extents, result.data_bytes, &set);
	int tail_err = write_tail(params, &set, &result);
	feature_set_fini(&set);
	err = err ? err : tail_err ? tail_err : cut_err;
	*ret = result;
	return err ? diag_set(reterr, err, "%s: cannot finish the file: %s", params->path, strerror(-err)) : 0;
}

int write_provisional_header(const struct finish_params *params)
{
	struct file_header header = params->header;
	int err = write_known_features(params, params->data_bytes, false, &header);

	header.data.size = params->data_bytes;
	return err ? err : fd_pwrite(params->fd, &header, sizeof(header), 0);
}

int reopen_header(const struct finish_params *params)
{
	int err = fd_pwrite(params->fd, &params->header, sizeof(params->header), 0);

	if (!err && ftruncate(params->fd, (off_t)(params->header.data.offset + params->data_bytes)))
		err = -errno;
	return err;
}
