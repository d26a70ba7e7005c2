/* SPDX-License-Identifier: MIT */
/* The rings that benchmarks fill: do they keep to the kernel's protocol? And what is computed from them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../bench/stream/bench_stream.h"
#include "../../bench/stream/bench_verify.h"
#include "../../bench/stream/latency.h"
#include "../../bench/stream/synthetic_ring.h"
#include "base/diag.h"
#include "record/setup/options.h"
#include "stream/ring.h"

enum { RING_BYTES = 4096, SAMPLE_BYTES = 64 };

struct one {
	struct synthetic_rings rings;
	struct synthetic_ring *ring;
	struct ring reader;
	union {
		struct synthetic_sample sample;
		uint8_t room[SAMPLE_BYTES];
	};
};

static void start(struct one *one)
{
	assert_int_equal(synthetic_rings_map(&one->rings, 1, RING_BYTES), 0);
	one->ring = &one->rings.rings[0];
	ring_attach(&one->reader, one->ring->page, one->ring->data, RING_BYTES);
	synthetic_sample_init(&one->sample, SAMPLE_BYTES);
}

static void take(struct one *one, size_t bytes)
{
	ring_take(&one->reader, bytes);
	ring_release(&one->reader, bytes);
}

static void test_full_ring_drops_and_reports(void **state)
{
	struct one one;
	struct span spans[2];
	struct synthetic_lost lost;

	(void)state;
	start(&one);
	/* The last 64 bytes stay empty: the kernel leaves at least one byte free. */
	for (unsigned i = 0; i < RING_BYTES / SAMPLE_BYTES - 1; i++)
		assert_true(synthetic_ring_put(one.ring, &one.sample, i + 1) & SYNTHETIC_STORED);
	assert_int_equal(synthetic_ring_put(one.ring, &one.sample, 100), 0);
	assert_int_equal(synthetic_ring_put(one.ring, &one.sample, 101), 0);
	assert_int_equal(one.ring->dropped, 2);
	assert_int_equal(one.ring->fit_ns, 63);
	/* Room for the sample, but not for LOST with it. */
	assert_int_equal(ring_peek(&one.reader, spans), RING_BYTES - SAMPLE_BYTES);
	take(&one, 16);
	assert_int_equal(synthetic_ring_put(one.ring, &one.sample, 102), 0);
	take(&one, SAMPLE_BYTES - 16);
	assert_true(synthetic_ring_put(one.ring, &one.sample, 103) & SYNTHETIC_REPORTED);
	assert_int_equal(one.ring->made, 67);
	assert_int_equal(one.ring->untold, 0);
	/* LOST lies before the sample, which wraps. */
	assert_int_equal(ring_peek(&one.reader, spans), RING_BYTES - SAMPLE_BYTES + sizeof(lost));
	memcpy(&lost, one.ring->data + RING_BYTES - SAMPLE_BYTES, sizeof(lost));
	assert_int_equal(lost.header.type, PERF_RECORD_LOST);
	assert_int_equal(lost.lost, 3);
	assert_int_equal(spans[1].len, sizeof(lost));
	synthetic_rings_unmap(&one.rings);
}

static void test_wake_up_comes_at_half_a_ring(void **state)
{
	struct one one;
	unsigned half = RING_BYTES / SAMPLE_BYTES / 2;

	(void)state;
	start(&one);
	for (unsigned i = 0; i < half; i++)
		assert_int_equal(synthetic_ring_put(one.ring, &one.sample, 1), SYNTHETIC_STORED);
	assert_int_equal(one.ring->marked_ns, 0);
	assert_int_equal(synthetic_ring_put(one.ring, &one.sample, 7), SYNTHETIC_STORED | SYNTHETIC_WAKE);
	assert_int_equal(one.ring->marked_ns, 7);
	one.ring->marked_ns = 0;
	synthetic_ring_put(one.ring, &one.sample, 8);
	assert_int_equal(one.ring->marked_ns, 0); /* still the same half */
	take(&one, SAMPLE_BYTES);
	synthetic_ring_put(one.ring, &one.sample, 9);
	assert_int_equal(one.ring->marked_ns, 9); /* visited, and more than half full again */
	/* Drained in between: the kernel wakes half a ring later all the same, though there is little in it. */
	take(&one, (half + 2) * SAMPLE_BYTES);
	one.ring->marked_ns = 0;
	for (unsigned i = 3; i < half; i++)
		assert_int_equal(synthetic_ring_put(one.ring, &one.sample, 8), SYNTHETIC_STORED);
	take(&one, (half - 3) * SAMPLE_BYTES);
	assert_int_equal(synthetic_ring_put(one.ring, &one.sample, 9), SYNTHETIC_STORED | SYNTHETIC_WAKE);
	assert_int_equal(one.ring->marked_ns, 0);
	synthetic_rings_unmap(&one.rings);
}

/* Verification must find what it is there for. */
static void test_verify_finds_what_is_wrong(void **state)
{
	struct one one;
	struct span spans[2];
	struct diag diag;
	uint8_t copy[10 * SAMPLE_BYTES];
	int fd = memfd_create("records", MFD_CLOEXEC);

	(void)state;
	start(&one);
	for (unsigned i = 0; i < 10; i++)
		synthetic_ring_put(one.ring, &one.sample, 1);
	assert_int_equal(ring_peek(&one.reader, spans), sizeof(copy));
	memcpy(copy, spans[0].ptr, sizeof(copy));
	assert_int_equal(pwrite(fd, copy, sizeof(copy), 0), sizeof(copy));
	assert_int_equal(bench_verify(fd, sizeof(copy), SAMPLE_BYTES, &one.rings, &diag), 0);
	assert_true(bench_verify(fd, sizeof(copy) - SAMPLE_BYTES, SAMPLE_BYTES, &one.rings, &diag) < 0);
	/* One byte of a payload; a sample twice; a sample not at all. */
	assert_int_equal(pwrite(fd, "x", 1, 5 * SAMPLE_BYTES + 40), 1);
	assert_true(bench_verify(fd, sizeof(copy), SAMPLE_BYTES, &one.rings, &diag) < 0);
	assert_non_null(strstr(diag.text, "offset 320"));
	assert_int_equal(pwrite(fd, copy + 4 * SAMPLE_BYTES, SAMPLE_BYTES, 5 * SAMPLE_BYTES), SAMPLE_BYTES);
	assert_true(bench_verify(fd, sizeof(copy), SAMPLE_BYTES, &one.rings, &diag) < 0);
	assert_int_equal(pwrite(fd, copy, sizeof(copy), 0), sizeof(copy));
	assert_int_equal(ftruncate(fd, 9 * SAMPLE_BYTES), 0);
	assert_true(bench_verify(fd, 9 * SAMPLE_BYTES, SAMPLE_BYTES, &one.rings, &diag) < 0);
	close(fd);
	synthetic_rings_unmap(&one.rings);
}

static void run_load(const struct writer_ops *ops, bool verify, double rate, struct bench_stream_result *ret)
{
	struct bench_stream_options options = {
		.nr_rings = 6,
		.ring_bytes = RING_BYTES,
		.load =
			{
				.nr_busy = 5,
				.nr_threads = 2,
				.rate = rate,
				.sample_bytes = SAMPLE_BYTES,
				.on_ns = 5000000,
				.off_ns = 5000000,
				.duration_ns = 200000000,
			},
		.verify = verify,
	};
	struct recording_writer writer = {.ops = ops};
	struct diag diag = {0};
	int err = bench_stream_run(&options, &writer, ret, &diag);

	if (err)
		fail_msg("%s: %s", ops->name, diag.text);
	assert_true(ret->counters.bytes >= (ret->load.made - ret->load.dropped) * SAMPLE_BYTES);
	assert_true(ret->load.dropped || ret->counters.bytes == ret->load.made * SAMPLE_BYTES);
	assert_true(ret->load.made > 0);
	assert_true(ret->load.lost_mean <= ret->load.lost_any && ret->load.lost_any <= 1.001);
	assert_true(ret->load.dropped ? ret->load.lost_any > 0 : ret->load.lost_any == 0);
}

/* The serial writer on a file that takes its time. */
static int sleepy_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	usleep(2000);
	return writer_serial.queue(writer, spans, nr_spans);
}

static void test_threads_fill_what_the_pump_drains(void **state)
{
	struct bench_stream_result result;

	(void)state;
	run_load(&writer_serial, true, 1000, &result);
	struct writer_ops sleepy = writer_serial;
	sleepy.queue = sleepy_queue;
	run_load(&sleepy, true, 1e5, &result); /* a ring holds 63 samples, and 100 come in a tick */
	assert_true(result.load.dropped > 0);
	run_load(&writer_null, false, 10000, &result);
}

static void test_quantiles(void **state)
{
	static struct latency latency;

	(void)state;
	assert_int_equal(latency_quantile(&latency, 0.5), 0);
	for (uint64_t ns = 1; ns <= 100000; ns++)
		latency_add(&latency, ns);
	for (double part = 0.01; part < 1; part += 0.07)
		assert_in_range(latency_quantile(&latency, part), (uint64_t)(part * 100000),
				(uint64_t)(part * 103500) + 1);
	assert_int_equal(latency_quantile(&latency, 1), 100000);
	latency_add(&latency, UINT64_MAX);
	assert_true(latency_quantile(&latency, 1) == UINT64_MAX && latency.max_ns == UINT64_MAX);
	latency_add(&latency, 0);
	assert_int_equal(latency_quantile(&latency, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_full_ring_drops_and_reports),
		cmocka_unit_test(test_wake_up_comes_at_half_a_ring),
		cmocka_unit_test(test_verify_finds_what_is_wrong),
		cmocka_unit_test(test_threads_fill_what_the_pump_drains),
		cmocka_unit_test(test_quantiles),
	};
	return cmocka_run_group_tests_name("synthetic", tests, NULL, NULL);
}
