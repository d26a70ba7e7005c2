/* SPDX-License-Identifier: MIT */
#include "cmd/data_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/fd.h"
#include "format/header.h"
#include "format/record.h"

enum {
	WRITE_BYTES = 1 << 20, /* of one write(2) */
	ROUND_BYTES = 1 << 20,
};

int data_file_open(const char *path, const struct event_desc *events, size_t nr_events, struct data_file *ret,
		   struct diag *reterr)
{
	struct data_file file = {0};
	int err = header_encode(events, nr_events, &file.pending, &file.header);

	if (err) {
		buf_fini(&file.pending);
		return diag_set(reterr, err, "out of memory");
	}
	err = sink_open(path, &file.sink, reterr);
	if (err) {
		buf_fini(&file.pending);
		return err;
	}
	*ret = file;
	return 0;
}

static int flush(struct data_file *file)
{
	int err = file->pending.failed ? -ENOMEM : fd_write(file->sink.fd, file->pending.data, file->pending.len);

	file->pending.len = 0;
	return err;
}

static int put(struct data_file *file, const struct perf_event_header *record)
{
	buf_put(&file->pending, record, record->size);
	file->data_bytes += record->size;
	file->unmarked_bytes += record->size;
	return file->pending.len < WRITE_BYTES ? 0 : flush(file);
}

static int mark(struct data_file *file)
{
	static const struct perf_event_header round = {.type = RECORD_FINISHED_ROUND, .size = sizeof(round)};
	int err = put(file, &round);

	file->unmarked_bytes = 0;
	return err;
}

int data_file_add(struct data_file *file, const struct perf_event_header *record, uint64_t time_ns)
{
	int err = 0;

	/* A reader takes what has no time at once. The first mark lets it set a limit, the second one give all up to it. */
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

int data_file_finish(struct data_file *file, const struct feature_set *features)
{
	struct file_header header = file->header;

	header.data.size = file->data_bytes;
	int err = feature_set_encode(features, header.data.offset + header.data.size, &file->pending, header.features);
	if (!err)
		err = flush(file);
	if (!err)
		err = fd_pwrite(file->sink.fd, &header, sizeof(header), 0);
	file->finished = !err;
	return err;
}

int data_file_close(struct data_file *file)
{
	struct stat st;

	if (!file->sink.path)
		return 0;
	/* A device is not ours to remove. */
	if (!file->finished && fstat(file->sink.fd, &st) == 0 && S_ISREG(st.st_mode))
		unlink(file->sink.path);
	buf_fini(&file->pending);
	return sink_close(&file->sink);
}
