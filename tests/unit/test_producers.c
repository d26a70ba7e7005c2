/* SPDX-License-Identifier: MIT */
/* Several streams into one output: each record once, and marks that promise no more than what is there. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "perfdata/record.h"
#include "stream/batch_pool.h"
#include "stream/pipeline.h"
#include "stream/producers.h"
#include "stream/ring.h"
#include "stream/stage.h"
#include "stream/stream.h"
#include "stream/writer.h"

enum { NR_PRODUCERS = 4, RINGS_EACH = 2, NR_RINGS = NR_PRODUCERS * RINGS_EACH, RING_BYTES = 4096, RECORD_BYTES = 32 };

struct fake {
	struct perf_event_mmap_page page;
	uint64_t data[RING_BYTES / 8];
	uint64_t made;
};

struct confluence {
	struct fake fakes[NR_RINGS];
	struct ring rings[NR_RINGS];
	size_t which[NR_PRODUCERS][NR_RINGS];
	struct stream streams[NR_PRODUCERS];
	struct batch_pool *pool;
	struct writer *stage;
	int fd;
	_Atomic uint64_t clock;
};

/* The kernel's part: a record with its time, its ring and its number in there. */
static void produce(struct confluence *all, size_t ring)
{
	struct fake *fake = &all->fakes[ring];
	uint64_t head = fake->page.data_head;
	uint64_t record[4] = {(uint64_t)RECORD_BYTES << 48 | PERF_RECORD_SAMPLE, atomic_fetch_add(&all->clock, 1) + 1,
			      ring, fake->made};

	if (RING_BYTES - (head - fake->page.data_tail) < RECORD_BYTES)
		return;
	memcpy((char *)fake->data + head % RING_BYTES, record, sizeof(record));
	__atomic_store_n(&fake->page.data_head, head + RECORD_BYTES, __ATOMIC_RELEASE);
	fake->made++;
}

static void confluence_open(struct confluence *all, const struct batch_pool_params *packing,
			    const struct producers_params *producers)
{
	struct writer *inner;

	*all = (struct confluence){.fd = memfd_create("out", MFD_CLOEXEC)};
	assert_int_equal(writer_open(&writer_serial, &(struct writer_params){.fd = all->fd}, &inner), 0);
	assert_int_equal(batch_pool_new(packing, &all->pool, NULL), 0);
	assert_int_equal(pipeline_open(all->pool, inner, &all->stage), 0);
	pipeline_share(all->stage, producers);
	for (size_t i = 0; i < NR_RINGS; i++) {
		ring_attach(&all->rings[i], &all->fakes[i].page, all->fakes[i].data, RING_BYTES);
		all->which[i % NR_PRODUCERS][i / NR_PRODUCERS] = i;
	}
	for (size_t i = 0; i < NR_PRODUCERS; i++) {
		struct stream *stream = &all->streams[i];
		*stream = (struct stream){
			.rings = all->rings,
			.which = all->which[i],
			.nr_rings = RINGS_EACH,
			.flush_bytes = 256,
			.writer = all->stage,
		};
		if (i)
			assert_int_equal(producer_open(all->stage, &stream->writer), 0);
	}
}

/* Each producer has a ring that is mostly left below what is worth taking. */
static size_t some_ring(unsigned *random)
{
	size_t ring = (size_t)rand_r(random) % NR_PRODUCERS;

	return rand_r(random) % 16 ? ring + NR_PRODUCERS : ring;
}

/* Whatever came before the mark that came before the last one is not older than what follows. Returns the marks. */
static uint64_t check_output(const struct confluence *all, const uint8_t *bytes, size_t len)
{
	uint64_t floor = 0, at_mark = 0, latest = 0, marks = 0, found[NR_RINGS] = {0};

	for (size_t at = 0; at < len;) {
		uint64_t record[4];
		memcpy(record, bytes + at, sizeof(*record));
		at += record[0] >> 48;
		if ((uint32_t)record[0] == RECORD_FINISHED_ROUND) {
			floor = at_mark;
			at_mark = latest;
			marks++;
			continue;
		}
		assert_int_equal((uint32_t)record[0], PERF_RECORD_SAMPLE);
		memcpy(record, bytes + at - RECORD_BYTES, sizeof(record));
		assert_true(record[1] >= floor);
		assert_in_range(record[2], 0, NR_RINGS - 1);
		assert_int_equal(record[3], found[record[2]]++);
		latest = record[1] > latest ? record[1] : latest;
	}
	for (size_t i = 0; i < NR_RINGS; i++)
		assert_int_equal(found[i], all->fakes[i].made);
	return marks;
}

static uint64_t confluence_close(struct confluence *all)
{
	uint64_t stored, rounds = 0, bytes = 0;

	for (size_t i = 0; i < NR_PRODUCERS; i++) {
		rounds += all->streams[i].counters.rounds;
		bytes += all->streams[i].counters.bytes;
		if (i)
			assert_int_equal(writer_close(all->streams[i].writer, NULL), 0);
	}
	assert_int_equal(all->stage->queued, bytes + rounds * sizeof(struct perf_event_header));
	assert_int_equal(writer_close(all->stage, &stored), 0);
	batch_pool_free(all->pool);
	void *map = mmap(NULL, stored, PROT_READ, MAP_PRIVATE, all->fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	assert_int_equal(check_output(all, map, stored), rounds);
	munmap(map, stored);
	close(all->fd);
	return rounds;
}

static const struct batch_pool_params packing = {
	.nr_pipelines = NR_PRODUCERS, .nr_workers = 2, .extent_bytes = 8192, .budget_bytes = 32768};
/* Less than an extent for each: who hands over what it has filled lets others go on. */
static const struct batch_pool_params little = {
	.nr_pipelines = 1, .nr_workers = 2, .extent_bytes = 8192, .budget_bytes = 8192};
static const struct producers_params sharing = {.nr = NR_PRODUCERS, .round_bytes = 16384, .wake_bytes = 32768};

/* One thread makes all the passes in an order of its own, some producers seldom: the same every time. */
static void test_promises_in_any_order(void **state)
{
	static struct confluence all;

	(void)state;
	for (unsigned seed = 1; seed < 20; seed++) {
		unsigned random = seed;
		confluence_open(&all, &packing, &sharing);
		for (int step = 0; step < 5000; step++) {
			for (int i = rand_r(&random) % 16; i > 0; i--)
				produce(&all, some_ring(&random));
			size_t producer =
				rand_r(&random) % 8 ? (size_t)rand_r(&random) % (NR_PRODUCERS - 1) : NR_PRODUCERS - 1;
			assert_true(stream_pump(&all.streams[producer],
						rand_r(&random) % 64 ? STREAM_FLOW : STREAM_ALL) >= 0);
		}
		for (size_t i = 0; i < NR_PRODUCERS; i++)
			assert_true(stream_pump(&all.streams[i], STREAM_DRAIN) >= 0);
		assert_true(confluence_close(&all) > 5);
	}
}

struct worker {
	pthread_t thread;
	struct confluence *all;
	size_t producer;
	int64_t err;
};

/* Fills the rings that it drains: no record is under way while a pass begins. */
static void *work(void *arg)
{
	struct worker *worker = arg;
	struct stream *stream = &worker->all->streams[worker->producer];
	unsigned random = (unsigned)worker->producer + 1;

	for (int step = 0; step < 3000 && worker->err >= 0; step++) {
		for (int i = rand_r(&random) % 64; i > 0 && stream->nr_rings; i--)
			produce(worker->all, stream->which[(size_t)rand_r(&random) % stream->nr_rings]);
		worker->err = stream_pump(stream, rand_r(&random) % 8 ? STREAM_FLOW : STREAM_ALL);
	}
	if (worker->err >= 0)
		worker->err = stream_pump(stream, STREAM_DRAIN);
	return NULL;
}

/* Each thread ends, as is expected. */
static void run_threads(struct confluence *all, int64_t err)
{
	struct worker workers[NR_PRODUCERS];

	for (size_t i = 0; i < NR_PRODUCERS; i++)
		workers[i] = (struct worker){.all = all, .producer = i};
	for (size_t i = 0; i < NR_PRODUCERS; i++)
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	for (size_t i = 0; i < NR_PRODUCERS; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_true(err ? workers[i].err == err : workers[i].err >= 0);
	}
}

static void test_threads(void **state)
{
	static struct confluence all;

	(void)state;
	confluence_open(&all, &packing, &sharing);
	run_threads(&all, 0);
	confluence_close(&all);
}

static void test_threads_with_little_memory(void **state)
{
	static struct confluence all;

	(void)state;
	for (int run = 0; run < 8; run++) {
		confluence_open(&all, &little, &sharing);
		run_threads(&all, 0);
		confluence_close(&all);
	}
}

/* Who waits for memory learns it. */
static void test_threads_whose_output_fails(void **state)
{
	static struct confluence all;

	(void)state;
	for (int run = 0; run < 20; run++) {
		confluence_open(&all, &little, &sharing);
		int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
		assert_int_equal(dup2(full, all.fd), all.fd);
		close(full);
		run_threads(&all, -ENOSPC);
		for (size_t i = 1; i < NR_PRODUCERS; i++)
			assert_int_equal(writer_close(all.streams[i].writer, NULL), -ENOSPC);
		assert_int_equal(writer_close(all.stage, NULL), -ENOSPC);
		assert_int_equal(all.pool->nr_free, all.pool->nr_jobs);
		batch_pool_free(all.pool);
		close(all.fd);
	}
}

/* Where a reader follows nothing waits for other producers: a pass is in the output behind it, marked or not. */
static void test_looked_on(void **state)
{
	static struct confluence all;
	static const struct producers_params live = {.nr = NR_PRODUCERS, .round_bytes = 1, .wake_bytes = 1 << 20};

	(void)state;
	confluence_open(&all, &packing, &live);
	for (size_t i = 0; i < NR_PRODUCERS; i++)
		all.streams[i].flush_bytes = 1;
	for (int round = 0; round < 3; round++) {
		produce(&all, 2);
		assert_true(stream_pump(&all.streams[2], STREAM_FLOW) == RECORD_BYTES);
		assert_int_equal(writer_complete(all.streams[2].writer, WRITER_ALL), 0);
		assert_int_equal(lseek(all.fd, 0, SEEK_END), round * (RECORD_BYTES + 8) + RECORD_BYTES);
		for (size_t i = 0; i < NR_PRODUCERS; i++)
			assert_true(stream_pump(&all.streams[i], STREAM_FLOW) == 0);
		assert_int_equal(writer_complete(all.streams[2].writer, WRITER_ALL), 0);
		assert_int_equal(lseek(all.fd, 0, SEEK_END), (round + 1) * (RECORD_BYTES + 8));
	}
	assert_int_equal(confluence_close(&all), 3);
}

static int pass_on(struct stage *stage, struct batch *batch)
{
	return stage_pass(stage, batch);
}

struct waiting_stage {
	struct stage stage;
	_Atomic uint64_t complete_ns; /* as of the last flush() */
};

static int note_complete(struct stage *stage, enum stage_flush why)
{
	(void)why;
	((struct waiting_stage *)stage)->complete_ns = stage->complete_ns;
	return 0;
}

/* Stages know what all producers have, not what one has; those without rings keep none waiting. */
static void test_complete_is_what_all_are(void **state)
{
	static const struct stage_ops ops = {.name = "complete", .process = pass_on, .flush = note_complete};
	static const struct {
		size_t producer;
		uint64_t complete_ns, of_all_ns;
	} steps[] = {{0, 100, 0}, {1, 50, 0}, {3, 80, 50}, {1, 200, 80}, {3, 90, 90}, {3, 150, 100}, {0, 300, 150}};
	static struct confluence all;
	const uint64_t record[4] = {(uint64_t)RECORD_BYTES << 48 | PERF_RECORD_SAMPLE};
	struct waiting_stage waiting = {.stage.ops = &ops};

	(void)state;
	confluence_open(&all, &packing, &sharing);
	pipeline_add_stage(all.stage, &waiting.stage);
	all.streams[2].writer->complete_ns = UINT64_MAX;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct writer *writer = all.streams[steps[i].producer].writer;
		writer->complete_ns = steps[i].complete_ns;
		assert_int_equal(writer_put(writer, record, sizeof(record)), 0);
		assert_int_equal(writer_complete(writer, WRITER_ALL), 0);
		for (unsigned ms = 0; waiting.complete_ns != steps[i].of_all_ns && ms < 10000; ms++)
			usleep(1000);
		assert_int_equal(waiting.complete_ns, steps[i].of_all_ns);
	}
	for (size_t i = 1; i < NR_PRODUCERS; i++)
		assert_int_equal(writer_close(all.streams[i].writer, NULL), 0);
	assert_int_equal(writer_close(all.stage, NULL), 0);
	batch_pool_free(all.pool);
	close(all.fd);
}

static void test_wake_and_report_once(void **state)
{
	struct producers producers;

	(void)state;
	producers_init(&producers, &sharing);
	assert_false(producers_due(&producers, sharing.round_bytes - 1, false));
	assert_true(producers_due(&producers, 1, true));
	producers_count(&producers, sharing.round_bytes);
	assert_true(producers_due(&producers, 0, false));
	assert_false(producers_wake_due(&producers));
	producers_count(&producers, sharing.round_bytes);
	assert_true(producers_wake_due(&producers));
	assert_false(producers_wake_due(&producers));
	for (size_t i = 0; i < sharing.nr; i++)
		assert_int_equal(producers_report(&producers), i + 1 == sharing.nr);
	producers_marked(&producers, 2 * sharing.round_bytes);
	assert_int_equal(producers_epoch(&producers), 2);
	assert_false(producers_due(&producers, 0, true));
	assert_false(producers_wake_due(&producers));
	assert_int_equal(producers_report_stored(&producers, 100), 100);
	assert_int_equal(producers_report_stored(&producers, 90), 0);
	assert_int_equal(producers_report_stored(&producers, 130), 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_promises_in_any_order),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_threads_with_little_memory),
		cmocka_unit_test(test_threads_whose_output_fails),
		cmocka_unit_test(test_looked_on),
		cmocka_unit_test(test_complete_is_what_all_are),
		cmocka_unit_test(test_wake_and_report_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
