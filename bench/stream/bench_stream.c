/* SPDX-License-Identifier: MIT */
#include "bench_stream.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/diag.h"
#include "bench_verify.h"
#include "record/output/output_writer.h"
#include "record/setup/options.h"
#include "storage.h"
#include "stream/ring.h"
#include "stream/writer.h"
#include "sysinfo/thread.h"
#include "visit_writer.h"

/* As a recording has them. */
enum { LEAST_PART = 16, LEAST_ROUND = 4 << 20, IDLE_MS = 1000 };

struct bench {
	const struct bench_stream_options *options;
	struct synthetic_rings synthetic;
	struct ring *rings;
	struct storage storage;
	struct writer *writer;
	struct stream stream;
	struct synthetic_load load;
	struct bench_stream_result result;
};

static int open_writer(struct bench *bench, const struct recording_writer *wanted, struct diag *reterr)
{
	const struct bench_stream_options *options = bench->options;
	struct writer *inner = NULL;
	struct output_writer_target output = {
		.fd = bench->storage.fd,
		.path = options->output ? options->output : "the temporary file",
		.nr_rings = options->nr_rings,
		.ring_bytes = options->ring_bytes,
	};
	struct writer_params params = output_writer_params(wanted->ops, wanted, &output);
	int err = writer_open(wanted->ops, &params, &inner);

	if (err == -ENOMEM)
		return diag_set(reterr, err, "writer %s: out of memory", wanted->ops->name);
	if (err)
		return diag_set(reterr, -EOPNOTSUPP, "writer %s is not allowed here: %s", wanted->ops->name,
				strerror(-err));
	err = visit_writer_open(inner, &bench->synthetic, &bench->result.waits, &bench->writer);
	if (err) {
		writer_close(inner, NULL);
		return diag_set(reterr, err, "out of memory");
	}
	return 0;
}

static void open_stream(struct bench *bench)
{
	const struct bench_stream_options *options = bench->options;
	size_t flush_bytes = options->flush_bytes ? options->flush_bytes : options->ring_bytes / LEAST_PART;
	size_t all_bytes = options->nr_rings * options->ring_bytes;

	bench->stream = (struct stream){
		.rings = bench->rings,
		.nr_rings = options->nr_rings,
		.writer = bench->writer,
		.flush_bytes = flush_bytes < options->ring_bytes / 4 ? flush_bytes : options->ring_bytes / 4,
		.round_bytes = all_bytes > LEAST_ROUND ? all_bytes : LEAST_ROUND,
	};
}

static int bench_open(struct bench *bench, const struct recording_writer *writer, struct diag *reterr)
{
	const struct bench_stream_options *options = bench->options;
	int err = storage_open(options->output, options->storage_bytes_per_s, &bench->storage, reterr);

	if (err)
		return err;
	err = synthetic_rings_map(&bench->synthetic, options->nr_rings, options->ring_bytes);
	bench->rings = calloc(options->nr_rings, sizeof(*bench->rings));
	if (err || !bench->rings)
		return diag_set(reterr, err ? err : -ENOMEM, "%zu rings of %zu bytes: %s", options->nr_rings,
				options->ring_bytes, strerror(err ? -err : ENOMEM));
	for (size_t i = 0; i < options->nr_rings; i++) {
		struct synthetic_ring *ring = &bench->synthetic.rings[i];
		ring_attach(&bench->rings[i], ring->page, ring->data, ring->bytes);
	}
	err = open_writer(bench, writer, reterr);
	if (!err)
		open_stream(bench);
	return err;
}

static void bench_close(struct bench *bench)
{
	writer_close(bench->writer, NULL);
	free(bench->rings);
	synthetic_rings_unmap(&bench->synthetic);
	storage_close(&bench->storage);
}

/* The loop of a recording: asleep until a ring is due, then a pass; what no wake-up came for is taken when idle. */
static int pump_until_end(struct bench *bench)
{
	struct pollfd wake = {.fd = bench->load.wake_fd, .events = POLLIN};

	while (synthetic_load_running(&bench->load)) {
		eventfd_t count;
		int ready = poll(&wake, 1, IDLE_MS);
		if (ready < 0 && errno != EINTR)
			return -errno;
		if (ready > 0 && eventfd_read(wake.fd, &count) && errno != EAGAIN)
			return -errno;
		bench->result.wakeups++;
		int64_t moved = stream_pump(&bench->stream, ready > 0 ? STREAM_FLOW : STREAM_ALL);
		if (moved < 0)
			return (int)moved;
	}
	return 0;
}

/* Runs the load, pumps until all is stored, closes the writer and the output. */
static int bench_drain(struct bench *bench)
{
	struct bench_stream_result *result = &bench->result;
	struct priority saved;
	const char *how;
	uint64_t reader_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID), process_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

	int err = synthetic_load_start(&bench->load, &bench->options->load, &bench->synthetic);
	if (err)
		return err;
	priority_raise(0, &saved, &how);
	err = pump_until_end(bench);
	int join_err = synthetic_load_join(&bench->load, &result->load);
	int64_t moved = err ? 0 : stream_pump(&bench->stream, STREAM_DRAIN);
	priority_restore(&saved);
	int close_err = writer_close(take_ptr(bench->writer), &result->bytes);
	storage_finish(&bench->storage);
	result->stored_s = (double)(clock_ns(CLOCK_MONOTONIC) - bench->load.start_ns) / 1e9;
	result->reader_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - reader_ns;
	result->recorder_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - process_ns - result->load.cpu_ns;
	result->counters = bench->stream.counters;
	err = err ? err : moved < 0 ? (int)moved : close_err;
	return err ? err : join_err;
}

/* What the pump moved is what the rings took, and all of it was given back to them. */
static int check_rings(const struct bench *bench, struct diag *reterr)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < bench->synthetic.nr; i++) {
		const struct synthetic_ring *ring = &bench->synthetic.rings[i];
		if (ring->page->data_tail != ring->head)
			return diag_set(reterr, -EBADMSG, "ring %zu was left with %llu bytes", i,
					(unsigned long long)(ring->head - ring->page->data_tail));
		bytes += ring->head;
	}
	if (bytes != bench->stream.counters.bytes)
		return diag_set(reterr, -EBADMSG, "the pump moved %llu bytes of %llu",
				(unsigned long long)bench->stream.counters.bytes, (unsigned long long)bytes);
	return 0;
}

int bench_stream_run(const struct bench_stream_options *options, const struct recording_writer *writer,
		     struct bench_stream_result *ret, struct diag *reterr)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	if (!bench)
		return diag_set(reterr, -ENOMEM, "out of memory");
	*bench = (struct bench){.options = options, .storage = {.fd = -1, .data_fd = -1}};
	int err = bench_open(bench, writer, reterr);
	if (!err) {
		err = bench_drain(bench);
		if (err)
			diag_set(reterr, err, "writer %s: %s", writer->ops->name, strerror(-err));
		else
			err = check_rings(bench, reterr);
	}
	if (!err && options->verify) {
		err = bench_verify(bench->storage.data_fd, bench->result.bytes, options->load.sample_bytes,
				   &bench->synthetic, reterr);
		if (err)
			diag_prefix(reterr, "writer %s", writer->ops->name);
	}
	if (!err)
		*ret = bench->result;
	bench_close(bench);
	free(bench);
	return err;
}
