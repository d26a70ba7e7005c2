/* SPDX-License-Identifier: MIT */
#include "cmd/sorted_file.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "perfdata/header.h"
#include "perfdata/record.h"

enum {
	WRITE_BYTES = 1 << 20, /* of one write(2) */
	ROUND_BYTES = 1 << 20,
};

int sorted_file_open(const char *path, const struct event_desc *events, size_t nr_events, struct sorted_file *ret,
		     struct diag *reterr)
{
	struct sorted_file file = {0};
	int err = header_encode(events, nr_events, &file.pending, &file.header);

	if (err) {
		buf_fini(&file.pending);
		return diag_set(reterr, err, "out of memory");
	}
	err = output_path_resolve(path, &file.path, reterr);
	if (!err)
		err = output_path_open_unnamed(file.path, &file.dest, reterr);
	if (err) {
		buf_fini(&file.pending);
		free(file.path);
		return err;
	}
	*ret = file;
	return 0;
}

static int flush(struct sorted_file *file)
{
	int err = file->pending.failed ? -ENOMEM : fd_write(file->dest.fd, file->pending.data, file->pending.len);

	file->pending.len = 0;
	return err;
}

static int put(struct sorted_file *file, const struct perf_event_header *record)
{
	buf_put(&file->pending, record, record->size);
	file->data_bytes += record->size;
	file->unmarked_bytes += record->size;
	return file->pending.len < WRITE_BYTES ? 0 : flush(file);
}

static int mark(struct sorted_file *file)
{
	static const struct perf_event_header round = {.type = RECORD_FINISHED_ROUND, .size = sizeof(round)};
	int err = put(file, &round);

	file->unmarked_bytes = 0;
	return err;
}

int sorted_file_add(struct sorted_file *file, const struct perf_event_header *record, uint64_t time_ns)
{
	int err = 0;

	/*
	 * A reader takes what has no time at once. The first mark lets it set a limit, the second one give all up to
	 * it.
	 */
	if (!time_ns && file->timed_since_mark) {
		err = mark(file);
		if (!err)
			err = mark(file);
		file->timed_since_mark = false;
	}
	if (!err)
		err = put(file, record);
	file->timed_since_mark |= time_ns != 0;
	if (!err && file->unmarked_bytes >= ROUND_BYTES)
		err = mark(file);
	return err;
}

int sorted_file_finish(struct sorted_file *file, const struct feature_set *features, struct diag *reterr)
{
	struct file_header header = file->header;

	header.data.size = file->data_bytes;
	int err = feature_set_encode(features, header.data.offset + header.data.size, &file->pending, header.features);
	if (!err)
		err = flush(file);
	if (!err)
		err = fd_pwrite(file->dest.fd, &header, sizeof(header), 0);
	return err ? diag_set(reterr, err, "%s: %s", file->path, strerror(-err))
		   : output_path_name(&file->dest, reterr);
}

int sorted_file_close(struct sorted_file *file)
{
	if (!file->path)
		return 0;
	buf_fini(&file->pending);
	int err = output_path_close(&file->dest); /* which has the path */
	free(take_ptr(file->path));
	return err;
}

static bool is_same(const char *left, const char *right)
{
	struct stat a, b;

	return stat(left, &a) == 0 && stat(right, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int sorted_file_check_path(const char *command, const char *output, char *const inputs[], size_t nr_inputs)
{
	AUTO_FREE char *old = NULL;

	if (!output) {
		log_error("%s needs an output file: -o FILE", command);
		return -EINVAL;
	}
	if (output_path_is_pipe(output)) {
		log_error("%s: %s writes a file, not a pipe", output, command);
		return -EINVAL;
	}
	if (asprintf(&old, "%s.old", output) < 0) {
		old = NULL;
		log_error("out of memory");
		return -ENOMEM;
	}
	for (size_t i = 0; i < nr_inputs; i++) {
		if (!is_same(inputs[i], output) && !is_same(inputs[i], old))
			continue;
		log_error("%s is read, so the output cannot be %s: give another -o", inputs[i], output);
		return -EINVAL;
	}
	return 0;
}
